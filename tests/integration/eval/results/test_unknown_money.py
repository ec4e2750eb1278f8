"""Money that is not known is no 0: not in a sum, a pair, a table, a file, a plot or a tracker."""

import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from bs4 import BeautifulSoup
from command_line import ragindex
from hypothesis import given
from hypothesis import strategies as st
from made_comparisons import make_comparison
from made_language import ECHO, answering, opened
from openai_server import KEY, OpenAIServer
from rich.console import Console

from ragindex.accounting import ledger
from ragindex.encoders.openai_compatible import OpenAICompatible
from ragindex.encoders.vector_cache import CachedEncoder
from ragindex.index.coverage import Journal, PartCoverage
from ragindex.interfaces.llm import LLMSettings
from ragindex.llm.cache import SQLiteCache
from ragindex.llm.prices import Prices
from ragindex.stores.lancedb.store import LanceDB
from ragindex.types import Usage
from ragindex_eval.conclusions.leaders import differ
from ragindex_eval.mlflow.values import method_metrics
from ragindex_eval.report import page as report
from ragindex_eval.report.sections import figures
from ragindex_eval.report.terminal import render_comparison
from ragindex_eval.results.files import load_results, save_results
from ragindex_eval.results.model import Comparison, Study
from ragindex_eval.results.records import ReaderAnswer, mean_reading_costs
from ragindex_eval.results.seeds import study_to_json
from ragindex_eval.run import answers_file
from ragindex_eval.run import ask as asking

COUNT = 40


def comparison() -> Comparison:
    """`free` asks nobody, `costly` pays, and of `unknown` one question's money is not known."""
    recalls = {label: [1.0] * COUNT for label in ("unknown", "free", "costly")}
    known = [Usage(1.0, 10 + number, 5, 0.25) for number in range(COUNT)]
    paid = {"free": [Usage(1.0)] * COUNT, "costly": known, "unknown": [*known[:-1], Usage(1.0, 10, 5, None)]}
    return make_comparison(recalls, paid=paid)


def study() -> Study:
    return Study("money", (comparison(),))


def terminal(folder: Path) -> list[str]:
    console = Console(width=250, record=True, file=io.StringIO())
    console.print(render_comparison(comparison()))
    row = next(line for line in console.export_text().splitlines() if line.startswith("unknown"))
    return [row.split()[at] for at in (7, 8, 10)]


def page(folder: Path) -> list[str]:
    soup = BeautifulSoup(report.render_report(study()), "html.parser")
    heads = [cell.get_text() for cell in soup.select("#c1-table thead th")]
    cells = [cell.get_text() for cell in soup.select("#c1-table tbody tr")[0].select("th, td")]
    row = dict(zip(heads, cells, strict=True))
    return [row["index $"], row["spent $"], row["$ a question"]]


def command(folder: Path) -> list[str]:
    usage = study_to_json(study())["methods"][0]["usage"]
    return [usage[phase]["money"] for phase in ("index", "spent", "query")]


def files(folder: Path) -> list[str]:
    save_results(study(), folder)
    value = json.loads((folder / "comparison.json").read_text())["methods"][0]
    last = [json.loads(line) for line in (folder / "per_query.jsonl").read_text().splitlines()][COUNT - 1]
    assert (last["method"], last["query"]) == ("unknown", f"q{COUNT}")
    return [last["usage"]["money"], value["index"]["parts"]["extractions"]["money"], value["usage"]["query"]["money"]]


def read_back(folder: Path) -> list[float | None]:
    save_results(study(), folder)
    method = load_results(folder).comparisons[0].method("unknown")
    assert method.final[0].usage.money == 0.25
    return [method.index_usage.money, method.spent.money, method.query_usage.money]


def tracker(folder: Path) -> list[float | None]:
    logged = method_metrics(comparison().method("unknown"))
    assert logged["usage/query/input_tokens"] > 0
    assert method_metrics(comparison().method("costly"))["usage/query/money"] == 0.25
    return [logged.get(f"usage/{phase}/money") for phase in ("index", "spent", "query")]


def questions(folder: Path) -> list[float | None]:
    answers_file.append_answers(folder / "answers.jsonl", comparison().method("unknown").final)
    return [answers_file.load_answers(folder / "answers.jsonl")[f"q{COUNT}"].usage.money]


OUTPUTS: list[Callable[[Path], list[object]]] = [terminal, page, command, files, read_back, tracker, questions]


@pytest.mark.parametrize("output", OUTPUTS, ids=lambda output: output.__name__)
def test_no_output_makes_a_number_of_it(output: Callable[[Path], list[object]], tmp_path: Path) -> None:
    assert set(output(tmp_path)) in ({"–"}, {None})


def test_it_has_no_pair_no_interval_and_no_place_in_a_plot() -> None:
    compared = comparison()
    money = [(pair.a, pair.b) for pair in compared.pairs if pair.metric == "money"]
    assert money == [("free", "costly")]
    assert differ(compared, "free", "costly", "money")
    assert not differ(compared, "unknown", "costly", "money")
    assert "money" not in compared.method("unknown").ci95
    assert "money" in compared.method("costly").ci95
    assert len([pair for pair in compared.pairs if pair.metric == "input_tokens"]) == 3
    plot = next(plot for plot in figures.render_figures(compared) or () if plot.title == "R@5 against money")
    assert "costly" in plot.drawing
    assert "unknown: " not in plot.drawing.partition("<desc>")[2].partition("</desc>")[0]


def test_a_column_of_money_is_shown_where_it_is_unknown_of_one_and_0_of_the_others() -> None:
    unknown = make_comparison({"a": [1.0], "b": [1.0]}, paid={"a": [Usage(0.0, 1, 1, None)]})
    console = Console(width=250, record=True, file=io.StringIO())
    console.print(render_comparison(unknown))
    rows = console.export_text().splitlines()
    assert "$" in rows[1]
    assert [line.count("–") for line in rows[2:4]] == [5, 2]  # a's money three times; neither was timed


amounts = st.one_of(st.none(), st.floats(0, 10))


@given(st.lists(amounts, max_size=6))
def test_a_sum_is_known_where_every_part_is(parts: list[float | None]) -> None:
    unknown = None in parts
    with ledger.record_calls() as tally:
        for money in parts:
            ledger.record_call(ledger.CallRecord("task", "model", input_tokens=1, money=money), 0.0)
    read = mean_reading_costs([ReaderAnswer("", True, usage=Usage(money=money)) for money in parts])
    assert (tally.first.money is None) == unknown
    assert (sum((Usage(money=money) for money in parts), Usage()).money is None) == unknown
    assert tally.by_item().get(None, Usage()).money == tally.first.money
    assert read is None or (read.money is None) == unknown


def test_what_a_part_cost_stays_unknown_on_the_disk(tmp_path: Path) -> None:
    store = LanceDB().open(tmp_path / "store")
    coverage = PartCoverage.open(store, "part", Journal.of(tmp_path, "part"), shares=True)
    coverage.cover(["a", "b"], ["1", "1"], Usage(1.0, 10, 4, 0.5))
    assert coverage.cost() == Usage(1.0, 10, 4, 0.5)
    coverage.cover(["c"], ["1"], Usage(1.0, 1, 1, None))
    assert coverage.cost() == Usage(2.0, 11, 5, None)
    coverage.touch(["c"])
    for flush in (False, True):  # from the journal, and from the collection
        if flush:
            coverage.flush()
        coverage = PartCoverage.open(store, "part", Journal.of(tmp_path, "part"), shares=True)
        assert coverage.cost() == Usage(2.0, 11, 5, None)
    coverage.forget(["c"])
    assert coverage.cost() == Usage(1.0, 10, 4, 0.5)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenAIServer]:
    monkeypatch.setenv("EMBEDDING_API_KEY", KEY)
    with answering(monkeypatch) as running:
        monkeypatch.setenv("EMBEDDING_BASE_URL", running.url)
        yield running


def test_an_encoder_without_a_price_has_no_money(
    server: OpenAIServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unpriced = CachedEncoder(OpenAICompatible(model="unheard-of").open(), tmp_path / "vectors.sqlite")
    priced = CachedEncoder(OpenAICompatible(model="heard-of", price=1e6).open(), tmp_path / "vectors.sqlite")
    for encoder, money in ((unpriced, None), (priced, 2.0)):
        for _ in range(2):  # the second time from the file
            with ledger.record_calls() as tally:
                encoder.encode_documents(["two words"])
            assert (tally.first.input_tokens, tally.first.money) == (2, money)
        with ledger.record_calls() as tally:
            encoder.encode_queries(["two words"])
        assert tally.first.money == money
    own = tmp_path / "prices.yaml"
    own.write_text("models:\n  unheard-of: {input: 500000.0, output: 0.0}\n")
    monkeypatch.setenv("RAGINDEX_PRICES", str(own))
    with ledger.record_calls() as tally:
        OpenAICompatible(model="unheard-of").open().encode_documents(["two words"])
    assert tally.first.money == pytest.approx(1.0)


def test_kept_calls_without_a_price_have_a_dash(server: OpenAIServer, tmp_path: Path) -> None:
    from ragindex.index.index import Index

    with Index.open(tmp_path / "w", create=True):
        pass
    opened(server, setting=LLMSettings(cache=SQLiteCache(tmp_path / "w" / "calls.sqlite"), prices=Prices({}))).run(
        ECHO, {"text": "one two"}
    )
    done = ragindex("cache", "--index", tmp_path / "w", "--json", "-")
    assert done.json["tasks"][0]["money"] is None
    line = next(line for line in ragindex("cache", "--index", tmp_path / "w").out.splitlines() if "echo" in line)
    assert "–" in line
    assert "0.0000" not in line


def test_an_unpriced_share_of_a_batch_is_unknown() -> None:
    with ledger.record_calls() as tally:
        ledger.record_call(ledger.CallRecord("task", "model", input_tokens=3, money=None), 0.0)
    assert [usage.money for usage, _ in asking._shared(tally, 2)] == [None, None]

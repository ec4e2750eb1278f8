import io
import json
import math
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from bs4 import BeautifulSoup
from built_retriever import built_retriever
from command_line import write
from comparing import compare
from rich.console import Console
from scripted import GOLD, QUESTIONS, TEXTS, Scripted, ScriptedRetriever, dataset, hit

from ragindex.accounting.timing import add_seconds
from ragindex.corpus import Corpus
from ragindex.errors import ContractError, DataError, QuestionError, StoreError, UsageError, WorkspaceError
from ragindex.index.index import Index
from ragindex.parts.text.passages import Passages
from ragindex.parts.vectors.vectors import Vectors
from ragindex.plugins import registry
from ragindex.types import Document, Query, Retrieval
from ragindex_eval.conclusions.first_sentence import state_conclusion
from ragindex_eval.data.datasets import Dataset
from ragindex_eval.data.gold import Gold
from ragindex_eval.report.terminal import render_comparison
from ragindex_eval.results.files import load_results, method_file_name
from ragindex_eval.results.model import Comparison, MethodResult, Percentiles, SavedHit
from ragindex_eval.run import latency


class ReadsK(Scripted):
    """A fake scheme whose best document at k is another at each k."""

    def depends_on_k(self, k: int) -> bool:
        return True

    def _open(self, workspace: Index) -> "ReadsKRetriever":
        return ReadsKRetriever(self)


class ReadsKRetriever(ScriptedRetriever):
    def retrieve(self, queries: Sequence[Query], k: int) -> list[Retrieval]:
        super().retrieve(queries, k)
        return [Retrieval((hit({1: "orla", 2: "anna"}[k]),))] * len(queries)


class Careless(Scripted):
    """A fake scheme that breaks the retriever's contract."""

    def _open(self, workspace: Index) -> "CarelessRetriever":
        return CarelessRetriever(self)


class CarelessRetriever(ScriptedRetriever):
    def retrieve(self, queries: Sequence[Query], k: int) -> list[Retrieval]:
        return [Retrieval(tuple(hit(doc_id) for doc_id in TEXTS))] * len(queries)


def run(folder: Path, *methods: Any, data: Dataset | None = None, **options: Any) -> Comparison:
    return compare(data or dataset(), methods, index=folder, **options)


def shown(comparison: Comparison) -> str:
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(render_comparison(comparison))
    return console.export_text()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index of the documents."""
    folder = tmp_path_factory.mktemp("shared")
    run(folder, "bm25", "dense", "hybrid")
    return folder


def test_metrics_of_a_scripted_ranking_by_hand(shared: Path) -> None:
    method = run(shared, Scripted(), k=(1, 3)).methods[0]  # documents: anna sarn orla quill
    assert method.per_query["q1"]["R@1"] == 1
    assert method.per_query["q2"] == {
        **{"R@1": 0, "R@3": 0.5, "full_R@1": 0, "full_R@3": 0, "Success@1": 0, "Success@3": 1},
        **{"RR@1": 0, "RR@3": 0.5, "nDCG@1": 0, "one_doc_R@1": 0, "one_doc_R@3": 0.5},
        "nDCG@3": pytest.approx((2 / math.log2(3)) / (2 + 1 / math.log2(3))),
    }
    assert method.metrics["R@1"] == pytest.approx((1 + 0 + 0.5) / 3)
    assert method.metrics["full_R@3"] == pytest.approx(1 / 3)


def test_json_is_the_published_schema(tmp_path: Path) -> None:
    value = run(tmp_path, {"name": "bm25", "label": "words"}, "dense", k=(5,), seed=3).to_json()
    assert list(value)[:9] == ["schema", "dataset", "encoder", "store", "seed", "methods", "failed", "asked", "pairs"]
    rest = ["ks", "language", "encoder_id", "llm", "notes", "details", "left_out", "environment", "fingerprint"]
    rest.append("spent")
    assert list(value)[9:] == rest
    assert value["schema"] == 7
    assert (value["failed"], value["asked"]) == ([], ["words", "dense"])
    assert (len(value["dataset"].pop("corpus_digest")), len(value["dataset"].pop("questions_digest"))) == (16, 16)
    assert value["dataset"] == {
        **{"name": "tiny", "format": "jsonl", "documents": 6, "passages": 6, "questions": 3},
        "fingerprint": "0123456789abcdef",
    }
    assert (value["store"], value["seed"]) == ("lancedb", 3)
    words, dense = value["methods"]
    assert list(words)[:7] == ["name", "label", "params", "metrics", "latency_ms", "index", "unanswered"]
    assert list(words)[7:] == ["usage", "ci95", "tokens_to_recall", "breakdown", "fingerprint"]
    assert words["usage"]["index"] == {"input_tokens": 0, "output_tokens": 0, "estimated": False, "money": 0.0}
    assert words["usage"]["query"]["calls"] == 0.0
    assert value["llm"] == "none"
    assert set(words["ci95"]) == set(words["metrics"])  # three questions are too few for p50 and p95
    pair = value["pairs"][0]
    assert list(pair) == ["a", "b", "metric", "statistic", "questions", "value", "ci95", "p", "p_adjusted"]
    assert (pair["a"], pair["b"], pair["metric"], pair["questions"]) == ("words", "dense", "R@5", 3)
    assert {pair["metric"] for pair in value["pairs"]} == {*words["metrics"], "latency_ms"}
    assert (words["name"], words["label"], dense["label"], words["unanswered"]) == ("bm25", "words", "dense", 0)
    passages = {"name": "passages", "params": {"by": None, "size": None, "overlap": 0, "context": "title"}}
    assert words["params"] == {"over": passages}
    assert set(words["metrics"]) == {f"{name}@5" for name in ("R", "full_R", "Success", "RR", "nDCG", "one_doc_R")}
    assert list(words["latency_ms"]) == ["p50", "p95", "mean", "sd", "encoder", "store", "own", "taken"]
    assert list(words["latency_ms"]["own"]) == ["p50", "p95"]
    assert list(words["index"]) == ["seconds", "bytes", "parts"]
    assert set(dense["index"]["parts"]) == {"passages", "vectors", "lsa fit"}
    assert set(dense["index"]["parts"]["vectors"]) == {
        "seconds",
        "bytes",
        "search",
        "input_tokens",
        "output_tokens",
        "estimated",
        "money",
    }
    for index in (words["index"], dense["index"]):
        assert index["bytes"] == sum(part["bytes"] for part in index["parts"].values()) > 0
        assert index["seconds"] == pytest.approx(sum(part["seconds"] for part in index["parts"].values()))
    assert words["latency_ms"]["encoder"] == {"p50": 0.0, "p95": 0.0}
    assert dense["latency_ms"]["encoder"]["p50"] > 0


def test_failed_question_scores_zero_and_is_counted(shared: Path) -> None:
    scheme = Scripted(fails_on=(QUESTIONS[0],))
    comparison = run(shared, scheme, k=(3,))
    method = comparison.methods[0]
    assert method.failures == {"q1": f"ValueError: nothing is known of [bold]{QUESTIONS[0]}"}
    assert method.to_json()["unanswered"] == 1
    assert method.per_query["q1"]["R@3"] == 0
    assert method.metrics["R@3"] == pytest.approx((0 + 0.5 + 0.5) / 3)
    assert method.latency.questions == 2
    message = "answered 2 of 3 questions; the others score 0: ValueError: nothing is known of [bold]Which"
    assert message in shown(comparison)
    strict = rf"failed on the question q1 \('{QUESTIONS[0].replace('?', '.')}'\): ValueError: nothing is known of"
    with pytest.raises(QuestionError, match=strict):
        run(shared, scheme, k=(3,), strict=True)


def test_a_method_that_fails_always_is_said_loudly(shared: Path, tmp_path: Path) -> None:
    comparison = run(shared, Scripted(fails_on=QUESTIONS), "bm25", k=(3,), out=tmp_path / "o")
    (failed,) = comparison.failed
    assert [method.label for method in comparison.methods] == ["bm25"]
    assert comparison.pairs == ()
    assert (len(failed.failures), failed.metrics, failed.latency.total) == (3, {}, Percentiles(None, None))
    assert "failed on every question and is not compared: ValueError: nothing" in " ".join(shown(comparison).split())
    sentence = state_conclusion(comparison)
    assert sentence.startswith("bm25 reaches ")
    assert "failed on every question, and is not compared: ValueError: nothing is known" in sentence
    value = json.loads((tmp_path / "o" / "comparison.json").read_text())
    assert [failure["label"] for failure in value["failed"]] == [failed.label]
    assert load_results(tmp_path / "o").comparisons[0].failed[0].failures == failed.failures
    assert "failed on every question, and is not compared" in (tmp_path / "o" / "report.html").read_text()


def test_more_than_k_hits_are_a_failure(shared: Path) -> None:
    with pytest.raises(ContractError, match="it returned 6 hits for k = 2"):
        run(shared, Careless(), k=(2,))


def test_a_finished_comparison_asks_nothing_again(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    scheme = Scripted(journal=str(journal))
    first = run(tmp_path / "w", scheme)
    text = journal.read_text()
    assert text.count("q1") > 0
    second = run(tmp_path / "w", scheme)
    assert journal.read_text() == text
    (read_back,) = second.notes
    assert re.search(r": 3 answers read from \d\d:\d\d; --fresh asks again$", read_back)
    assert {**second.to_json(), "notes": []} == first.to_json()
    again = run(tmp_path / "w", scheme, fresh=True)
    assert again.notes == ()
    assert journal.read_text().count("q1") == 2 * text.count("q1")  # answered again, and timed again
    assert again.methods[0].metrics == first.methods[0].metrics
    assert second.fingerprint == first.fingerprint


def test_a_scheme_that_depends_on_k_is_asked_once_for_each(shared: Path, tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    scheme = ReadsK(journal=str(journal))
    method = run(shared, scheme, k=(1, 2)).methods[0]
    assert set(method.answers) == {1, 2}
    assert method.per_query["q1"]["R@1"] == 0
    assert method.per_query["q1"]["R@2"] == 1
    other = run(shared, Scripted(journal=str(tmp_path / "other")), k=(1, 2)).methods[0]
    assert set(other.answers) == {2}
    assert "1 q1" not in (tmp_path / "other").read_text()


def test_without_gold_no_quality_is_claimed(shared: Path, tmp_path: Path) -> None:
    comparison = run(shared, "dense", "bm25", data=dataset(gold=None), out=tmp_path / "out")
    assert [method.label for method in comparison.methods] == ["dense", "bm25"]  # as they were named
    assert comparison.methods[0].metrics == {}
    assert comparison.methods[0].latency.questions == 3
    text = shown(comparison)
    assert "No quality was measured: the questions have no gold documents" in text
    assert "R" not in text.splitlines()[0].split()
    assert not (tmp_path / "out" / "qrels.trec").exists()


def test_questions_without_gold_documents_are_left_out_of_means_and_said(shared: Path) -> None:
    one_judged = dataset(gold={"q2": GOLD["q2"]})
    comparison = run(shared, Scripted(), data=one_judged, k=(3,))
    assert comparison.methods[0].metrics["R@3"] == 0.5
    assert comparison.to_json()["dataset"]["judged"] == 1
    assert "3 questions (1 with gold)" in shown(comparison)
    failing = run(shared, Scripted(fails_on=(QUESTIONS[1],)), "bm25", data=one_judged, k=(3,))
    assert [method.label for method in failing.methods] == ["bm25"]  # the mean would be of failures alone
    assert "failed on every question with gold, and is not compared" in state_conclusion(failing)


@pytest.mark.parametrize(
    ("methods", "options", "message"),
    [
        (["bm25", "bm25"], {}, "Two methods have the label 'bm25'"),
        ([{"name": "bm25", "label": "dense"}, "dense"], {}, "Two methods have the label 'dense'"),
        ([], {}, "at least one method"),
        ([{"name": "bm25", "label": " "}], {}, "label must be a text"),
        (["bm25"], {"data": dataset(questions=())}, "has no questions"),
        (["bm25"], {"limit": 3}, "'limit' describes a path"),
        (["bm25"], {"exclude": ["*.log"]}, "'exclude' describes a path"),
        *((["bm25"], {"k": ks}, "compare: 'k': Input should be") for ks in ((), (0,), (5, -1), (2.5,), (True,))),
    ],
)
def test_what_cannot_be_compared_is_refused(
    tmp_path: Path, methods: list[Any], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        run(tmp_path / "w", *methods, **options)


def test_documents_and_extractions_that_do_not_belong_to_an_index_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="compare needs DATA"):
        compare(methods=["bm25"])
    file = tmp_path / "openie.json"
    file.write_text('{"docs": [{"title": "x", "text": "y", "extracted_entities": [], "extracted_triples": []}]}')
    with pytest.raises(UsageError, match="No selected method uses triples"):
        run(tmp_path / "w", "bm25", triples=file)
    assert not (tmp_path / "w").exists()
    with pytest.raises(DataError, match="expected extractions of passages of this corpus; found 1 others"):
        run(tmp_path / "w", "bm25(over=triples)", triples=file)
    other = Dataset("other", replace(dataset().corpus, name="other"), dataset().queries, GOLD, "f")
    with pytest.raises(WorkspaceError, match="'anna' of the documents .* as 'other' is already used by"):
        run(tmp_path / "w", "bm25", data=other)


def test_cutoffs(shared: Path) -> None:
    comparison = run(shared, "bm25", k=(50, 2, 50))
    assert comparison.ks == (2, 50)
    assert comparison.methods[0].metrics["R@50"] >= comparison.methods[0].metrics["R@2"]


def test_a_workspace_among_its_documents_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "notes", {"a.md": "slate", "questions.txt": "Slate?"})
    options = {"questions": tmp_path / "notes" / "questions.txt"}
    inside, notes = tmp_path / "notes" / "w", tmp_path / "notes"
    with pytest.raises(UsageError, match="The index .*w is inside the folder of its documents, .*notes: keep them"):
        compare(notes, ["bm25"], index=inside, **options)
    with pytest.raises(UsageError, match="The index .*notes is inside the folder of its documents"):
        compare(notes, ["bm25"], index=notes, **options)
    with pytest.raises(UsageError, match="The documents .*notes are inside the folder of their index, .*: keep them"):
        compare(notes, ["bm25"], index=tmp_path, **options)
    assert {path.name for path in tmp_path.rglob("*")} == {"notes", "a.md", "questions.txt"}
    with (
        Index.open(inside, create=True) as workspace,
        pytest.raises(UsageError, match="is inside the folder of its documents"),
    ):
        compare(notes, ["bm25"], index=workspace, **options)
    compare(notes / "a.md", ["bm25"], index=notes / "w", **options)  # one file, and nothing beside it


def test_an_open_workspace_brings_its_own_settings_and_stays_open(tmp_path: Path) -> None:
    with Index.open(tmp_path, chunking=None, seed=9, create=True) as workspace:
        comparison = compare(dataset(), ["bm25"], index=workspace)
        assert comparison.seed == 9
        assert built_retriever(workspace, "bm25").retrieve([Query("1", "slate river")], 1)[0].hits[0].doc_ids == (
            "sarn",
        )


def rankings(method: MethodResult) -> list[list[SavedHit]]:
    return [list(answer.hits) for answers in method.answers.values() for answer in answers]


class Metered(Scripted):
    """A fake scheme that says how long encoder and store took."""

    def _open(self, workspace: Index) -> "MeteredRetriever":
        return MeteredRetriever(self)


class MeteredRetriever(ScriptedRetriever):
    def retrieve(self, queries: Sequence[Query], k: int) -> list[Retrieval]:
        add_seconds("encoder", 0.25)
        add_seconds("store", 0.5)
        return super().retrieve(queries, k)


def test_latency_is_split_and_kept(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    scheme = Metered(journal=str(journal))
    measured = run(tmp_path / "w", scheme).methods[0].latency
    assert measured.encoder == Percentiles(250.0, 250.0)
    assert measured.store == Percentiles(500.0, 500.0)
    assert measured.own == Percentiles(0.0, 0.0)
    assert measured.questions == 3
    text = journal.read_text()
    (path,) = (tmp_path / "w" / "runs").rglob("latency-20-*.json")
    assert run(tmp_path / "w", scheme).methods[0].latency == measured
    assert journal.read_text() == text
    path.unlink()
    run(tmp_path / "w", scheme)
    assert journal.read_text().count("\n") == text.count("\n") + 5 + 2 * 3  # five to warm up, and rounds of three


@pytest.mark.usefixtures("all_rounds")
def test_each_question_is_timed_with_all_methods_in_random_order(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    first, second = (Scripted(journal=str(journal), mark=mark) for mark in ("a-", "b-"))
    data_set = dataset([*QUESTIONS, "What is slate?", "Who printed cheap books?"], None)
    failing = second.model_copy(update={"fails_on": (QUESTIONS[1],)})
    comparison = run(tmp_path / "w", first, failing, data=data_set, k=(5,))
    lines = journal.read_text().replace("5 ", "").split()
    warming = [f"{mark}{id}" for mark, ids in (("a-", "12345"), ("b-", "13451")) for id in (f"q{id}" for id in ids)]
    rounds = [lines[-9 * number :][:9] for number in range(10, 0, -1)]  # five questions of a, and four of b
    assert lines[-90 - len(warming) : -90] == warming
    assert all(sorted(entries) == sorted({*rounds[0]}) for entries in rounds)
    orders = set()
    for round_lines in rounds:
        ids = list(dict.fromkeys(line[2:] for line in round_lines))
        blocks = [{line for line in round_lines if line.endswith(id)} for id in ids]
        assert [line[2:] for line in round_lines] == [id for id, block in zip(ids, blocks, strict=True) for _ in block]
        assert {frozenset(block) for block in blocks} == {
            frozenset({"a-q2"}),
            *(frozenset({f"a-{id}", f"b-{id}"}) for id in ("q1", "q3", "q4", "q5")),
        }
        orders |= {tuple(ids), tuple(line[0] for line in round_lines)}
    assert len(orders) > 10
    assert [list(method.latency.per_query) for method in comparison.methods] == [
        ["q1", "q2", "q3", "q4", "q5"],
        ["q1", "q3", "q4", "q5"],
    ]


def test_methods_that_do_not_fit_into_memory_together_are_timed_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    timing, groups = latency._time_in_rounds, list[list[str]]()

    def watched(metered: Sequence[Any], *rest: Any) -> Any:
        groups.append([retriever.timing.label for retriever in metered])
        rows = timing(metered, *rest)
        assert all(tuple(retriever.timing.retriever.searches()) == retriever.timing.alone for retriever in metered)
        return rows

    monkeypatch.setattr(latency, "_time_in_rounds", watched)
    with Index.open(tmp_path / "large", chunking=None, create=True) as workspace:
        roomy = compare(dataset(), ["bm25", "dense"], index=workspace)
        sizes = [workspace.open_part(part).inner.estimate() for part in (Passages(), Vectors())]
    assert groups == [["bm25", "dense"]]
    memory_gib = (max(sizes) + sum(sizes)) / 2 / 2**30
    tight = compare(dataset(), ["bm25", "dense"], store=f"lancedb(memory_gib={memory_gib:.12f})", index=tmp_path / "w")
    assert groups[1:] == [["bm25"], ["dense"]]
    for comparison in (roomy, tight):
        bm25, dense = (method.parts for method in comparison.methods)
        assert bm25["passages"].search == dense["vectors"].search == "exact, from memory"
    assert [rankings(method) for method in tight.methods] == [rankings(method) for method in roomy.methods]


def test_trec_files_keep_ids_with_white_space_apart(tmp_path: Path) -> None:
    documents = (Document("my notes.md", "Notes", "slate"), Document("100%", "Percent", "wool"))
    gold = {"q1": Gold(frozenset({"my notes.md"}), grades={"my notes.md": 1})}
    corpus = Corpus("tiny", "folder", documents, 0, (), True)
    data = Dataset("spaces", corpus, (Query("q1", "slate wool"),), gold, "f")
    label = {"name": "bm25", "label": "a/b c"}
    comparison = run(tmp_path / "w", label, data=data, k=(2,), out=tmp_path / "out")
    name = method_file_name("a/b c")
    assert "/" not in name
    assert name != method_file_name("a_b_c")
    lines = [line.split(" ") for line in (tmp_path / "out" / "runs" / f"{name}.trec").read_text().splitlines()]
    assert {line[2] for line in lines} == {"my%20notes.md", "100%25"}
    assert [line[4] for line in lines] == ["2", "1"]
    assert (tmp_path / "out" / "qrels.trec").read_text() == "q1 0 my%20notes.md 1\n"
    assert comparison.methods[0].metrics["R@2"] == 1


def test_outputs_that_cannot_be_written_are_an_error(shared: Path, tmp_path: Path) -> None:
    (tmp_path / "out").write_text("a file")
    with pytest.raises(StoreError, match="results could not be written"):
        run(shared, "bm25", out=tmp_path / "out")


def test_what_is_searched_approximately_is_said(tmp_path: Path) -> None:
    result = compare(dataset(), ["bm25", "dense"], store="lancedb(memory_gib=0)", index=tmp_path / "w")
    search = "approximate, indexes on disk (over 0 GiB; alone it takes memory_gib=0.1)"
    assert result.notes == (f"dense: vectors is searched {search}",)
    assert result.methods[0].to_json()["index"]["parts"]["passages"]["search"].startswith("exact, indexes on disk")


@pytest.mark.parametrize("names", [("worse", "same", "bm25"), ("bm25", "worse", "same")])
def test_the_best_comes_first_everywhere(shared: Path, tmp_path: Path, names: tuple[str, ...]) -> None:
    nothing = (("penn",), ("orla",))
    last = Scripted(ranking=nothing)
    schemes = {"worse": last, "same": {"name": "bm25", "label": "same"}, "bm25": "bm25"}
    comparison = run(shared, *(schemes[name] for name in names), k=(1, 3), out=tmp_path / "out")
    names = tuple(registry.label(last) if name == "worse" else name for name in names)
    best_first = [*(name for name in names if name in schemes), registry.label(last)]
    assert [method.label for method in comparison.methods] == best_first
    assert comparison.asked == names
    rows = shown(comparison).splitlines()[2:5]
    assert all(row.startswith(label[:20]) for row, label in zip(rows, best_first, strict=True))
    value = json.loads((tmp_path / "out" / "comparison.json").read_text())
    assert [method["label"] for method in value["methods"]] == best_first
    assert [pair["a"] for pair in value["pairs"] if pair["metric"] == "R@1"] == [best_first[0]] * 2 + [best_first[1]]
    lines = (tmp_path / "out" / "per_query.jsonl").read_text().splitlines()
    assert list(dict.fromkeys(json.loads(line)["method"] for line in lines)) == best_first
    back = load_results(tmp_path / "out").comparisons[0]
    assert ([method.label for method in back.methods], back.asked) == (best_first, names)
    page = BeautifulSoup((tmp_path / "out" / "report.html").read_text(), "html.parser")
    assert [cell.get_text() for cell in page.select("#c1-table tbody th")] == best_first

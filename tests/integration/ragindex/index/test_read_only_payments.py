"""An index that is only read: what it has paid for is read from it, and new answers are paid once and not written."""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import pytest
from command_line import ragindex as command
from till import PAID, RERANKED, Till, billing, open_desk

import ragindex
from ragindex.accounting import ledger
from ragindex.errors import BudgetError, UsageError
from ragindex.integrations.shared import open_built_method
from ragindex.llm.answer_question import ANSWER, AnswerContext, answer_inputs
from ragindex.serve.config import ServeSettings, parse_collections
from ragindex.serve.keys import LOCAL
from ragindex.serve.searching import SearchOrder, search_collection
from ragindex.serve.service import Service

QUESTION = "Which hill is highest?"
OTHER = "What is slate?"
THIRD = "Which river has barges?"
Search: TypeAlias = Callable[[str], object]


@pytest.fixture(scope="module")
def service() -> Iterator[Till]:
    with billing() as till:
        yield till


@pytest.fixture(scope="module")
def built(service: Till, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index whose `search` has paid for the reranking of QUESTION."""
    folder = tmp_path_factory.mktemp("built")
    with pytest.MonkeyPatch.context() as patch:
        open_desk(service, folder, patch)
        assert command("index", "notes", "--index", "w", *PAID, "--methods", RERANKED).code == 0
        assert command("search", QUESTION, "--index", "w", "--method", RERANKED).code == 0
    return folder / "w"


@pytest.fixture
def till(service: Till) -> Till:
    service.empty()
    return service


@pytest.fixture
def index(built: Path, till: Till, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    open_desk(till, tmp_path, monkeypatch)
    shutil.copytree(built, tmp_path / "w")
    return tmp_path / "w"


def contents(folder: Path) -> dict[str, bytes]:
    """Return the files of an index but for the leases of its readers."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.parent.name != "readers")
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def paths(till: Till) -> list[str]:
    return [path for path, _, _ in till.receipts]


def test_answer_of_llm_is_paid_once(index: Path, till: Till) -> None:
    inputs = answer_inputs(QUESTION, AnswerContext())
    with ragindex.open(index, read_only=True) as opened:
        for _ in range(3):
            opened.llm.run(ANSWER, inputs)
        with ragindex.open(index) as writing:
            writing.add([ragindex.Document("new", "New", "A kangaroo.")], source="other")
            writing.build()
        till.empty()
        moved = opened.newest()
        assert moved.manifest != opened.manifest
        moved.llm.run(ANSWER, inputs)
    assert till.receipts == []


def test_kept_vectors_count_as_replayed(index: Path, till: Till) -> None:
    with ragindex.open(index, read_only=True) as opened:
        retriever = opened.retriever(RERANKED)
        with ledger.record_calls() as first:
            retriever.search(OTHER)
        with ledger.record_calls() as second:
            retriever.search(OTHER)
    assert first.spent.money == pytest.approx(till.money)
    assert second.spent.money == 0
    assert second.first.money == pytest.approx(first.first.money)
    assert second.first.input_tokens == first.first.input_tokens
    assert (second.calls, second.replayed) == (1, 1)


def open_server(index: Path, budget: float | None = None, cache: Path | None = None) -> Search:
    """As `ragindex mcp` and `ragindex serve --read-only` open it."""
    collections = parse_collections([str(index)], [RERANKED])
    service = Service(ServeSettings(collections, read_only=True, budget=budget, cache=cache))
    return lambda question: search_collection(service, LOCAL, SearchOrder(question))


def open_langchain(index: Path, budget: float | None = None, cache: Path | None = None) -> Search:
    from ragindex.integrations.langchain import LangChainRetriever

    return LangChainRetriever.from_index(index, RERANKED, budget=budget, cache=cache).invoke


def open_llama_index(index: Path, budget: float | None = None, cache: Path | None = None) -> Search:
    from ragindex.integrations.llama_index import LlamaIndexRetriever

    return LlamaIndexRetriever.from_index(index, RERANKED, budget=budget, cache=cache).retrieve


def open_haystack(index: Path, budget: float | None = None, cache: Path | None = None) -> Search:
    from ragindex.integrations.haystack import HaystackRetriever

    retriever = HaystackRetriever.from_index(index, RERANKED, budget=budget, cache=cache)
    return HaystackRetriever.from_dict(json.loads(json.dumps(retriever.to_dict()))).run


def open_python(index: Path, budget: float | None = None, cache: Path | None = None) -> Search:
    return open_built_method(index, RERANKED, budget, cache).search


@pytest.mark.parametrize("opened", [open_server, open_langchain, open_llama_index, open_haystack, open_python])
def test_every_interface_pays_once_within_budget(
    opened: Callable[..., Search], index: Path, till: Till, tmp_path: Path
) -> None:
    before = contents(index)
    search = opened(index)
    for _ in range(3):
        search(OTHER)
    assert paths(till) == ["/v1/embeddings", "/v1/rerank"]
    with pytest.raises(BudgetError):
        opened(index, budget=0.0005)(THIRD)
    assert len(till.receipts) == 2
    file = tmp_path / "kept.sqlite"
    for _ in range(2):
        opened(index, cache=file)(THIRD)
    assert paths(till)[2:] == ["/v1/embeddings", "/v1/rerank"]
    assert contents(index) == before


def test_packed_retriever_pays_once_within_budget(
    till: Till, index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAGINDEX_CACHE", str(tmp_path / "unpacked"))
    out, file, hosts = tmp_path / "export.ragindex", tmp_path / "kept.sqlite", ["127.0.0.1"]
    with ragindex.open(index, read_only=True) as opened:
        opened.export("dense", out, pack=True)
    with ragindex.load(out, allow_hosts=hosts) as loaded:
        for _ in range(3):
            loaded.search(OTHER)
    assert paths(till) == ["/v1/embeddings"]
    with ragindex.load(out, allow_hosts=hosts, budget=0.0005) as loaded, pytest.raises(BudgetError):
        loaded.search(OTHER)
    for _ in range(2):
        with ragindex.load(out, allow_hosts=hosts, cache=file) as loaded:
            loaded.search(OTHER)
    assert paths(till) == ["/v1/embeddings"] * 2


def test_budget_of_interface_needs_prices(index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAGINDEX_PRICES")
    with pytest.raises(UsageError, match="A budget needs the price of"):
        open_built_method(index, RERANKED, 1.0)


def test_use_prints_budget_and_cache(index: Path) -> None:
    done = command("use", "--index", index, "--method", RERANKED, "--budget", "0.5", "--cache", "kept.sqlite")
    assert f"ragindex.open({str(index)!r}, read_only=True, budget=0.5, cache='kept.sqlite')" in done.out
    compile(done.out, "use", "exec")


def test_ask_refuses_cache_without_cache(index: Path) -> None:
    done = command("ask", QUESTION, "--index", index, "--no-cache", "--cache", "kept.sqlite")
    assert (done.code, "Leave out one of them" in done.err) == (2, True)


def test_index_without_cache_pays_again(index: Path, till: Till) -> None:
    with ragindex.open(index, read_only=True, keep_calls=False) as opened:
        for _ in range(2):
            opened.llm.run(ANSWER, answer_inputs(QUESTION, AnswerContext()))
    assert paths(till) == ["/v1/chat/completions"] * 2

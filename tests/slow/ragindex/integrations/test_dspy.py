"""The module for DSPy: predictions, async, programs and their copies, filters, errors."""

import threading
from pathlib import Path
from typing import Any

import pytest
from made_library import QUESTION, build_library

import ragindex
from ragindex.errors import MissingPartError, UsageError
from ragindex.integrations import usage_lines


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_library(tmp_path_factory.mktemp("library") / "index")


@pytest.fixture(scope="module")
def opened(library: Path) -> ragindex.IndexRetriever:
    with ragindex.open(library, read_only=True) as index:
        return index.retriever("bm25")


@pytest.fixture(scope="module")
def dspy() -> Any:
    return pytest.importorskip("dspy")


@pytest.fixture(scope="module")
def module(dspy: Any) -> Any:
    """The class of ours."""
    from ragindex.integrations.dspy import DSPyRetriever

    return DSPyRetriever


async def test_it_finds_what_the_method_finds(
    dspy: Any, module: Any, library: Path, opened: ragindex.IndexRetriever
) -> None:
    retriever = module.from_index(library, "bm25", k=3)
    hits = opened.search(QUESTION, 3)
    for found in (retriever(QUESTION), await retriever.acall(QUESTION)):
        assert isinstance(found, dspy.Prediction)
        assert found.passages == [f"{hit.title} | {hit.text}" for hit in hits]
        assert found.ids == [hit.id for hit in hits]
        assert found.scores == [hit.score for hit in hits]
        assert found.metadata[0]["ragindex"]["positions"][0]["page"] == 3
        assert found.metadata[0]["score"] == "A+"  # the document's own


async def test_filters_of_module_and_call_both_hold(module: Any, opened: ragindex.IndexRetriever) -> None:
    retriever = module(opened, 4, {"meta.year": 1850})
    assert sorted(retriever(QUESTION).ids) == ["harbour#0", "mill#0"]
    assert retriever(QUESTION, where={"meta.kind": "mill"}).ids == ["mill#0"]
    assert (await retriever.acall(QUESTION, where={"meta.kind": "mill"})).ids == ["mill#0"]
    assert retriever(QUESTION, where={"meta.year": 1931}).ids == []
    assert module(opened)(QUESTION, k=1, where={"meta.year": {"gte": 1900}}).ids == ["light#0"]


async def test_async_searches_in_another_thread(
    module: Any, opened: ragindex.IndexRetriever, monkeypatch: pytest.MonkeyPatch
) -> None:
    searching: list[int] = []
    search = ragindex.IndexRetriever.search

    def note(self: ragindex.IndexRetriever, *arguments: Any, **named: Any) -> ragindex.Hits:
        searching.append(threading.get_ident())
        return search(self, *arguments, **named)

    monkeypatch.setattr(ragindex.IndexRetriever, "search", note)
    await module(opened).acall(QUESTION)
    assert searching
    assert threading.get_ident() not in searching


def test_a_program_and_its_copies_share_the_open_method(
    dspy: Any, module: Any, opened: ragindex.IndexRetriever, tmp_path: Path
) -> None:
    from dspy.utils import DummyLM

    class Program(dspy.Module):  # type: ignore[misc]
        def __init__(self, retriever: Any) -> None:
            super().__init__()
            self.retriever = retriever
            self.answer = dspy.Predict("context, question -> answer")

        def forward(self, question: str) -> Any:
            return self.answer(context=self.retriever(question, k=1).passages, question=question)

    program = Program(module(opened))
    copied = program.deepcopy()
    assert copied.retriever is not program.retriever
    assert copied.retriever.retriever is opened
    program.save(tmp_path / "program.json")
    copied.load(tmp_path / "program.json")
    model = DummyLM([{"answer": "1931"}])
    with dspy.context(lm=model):
        assert copied(question=QUESTION).answer == "1931"
    asked = model.history[0]["messages"][-1]["content"]
    assert "Lighthouse | The lighthouse was built of slate in 1931." in asked
    assert "harbour" not in asked


async def test_errors_are_those_of_ragindex(module: Any, library: Path, opened: ragindex.IndexRetriever) -> None:
    with pytest.raises(UsageError, match="is empty"):
        module(opened)(" ")
    with pytest.raises(UsageError, match="is empty"):
        await module(opened).acall(" ")
    with pytest.raises(UsageError, match="A filter's field must be meta.KEY"):
        module(opened)(QUESTION, where={"year": 1931})
    with pytest.raises(MissingPartError, match="ragindex index --index .* --methods dense"):
        module.from_index(library, "dense")


@pytest.mark.usefixtures("dspy")
def test_the_lines_to_paste_run(
    library: Path, opened: ragindex.IndexRetriever, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = usage_lines("dspy", library, "bm25").replace("your question", QUESTION)
    exec(compile(lines, "dspy", "exec"), {})
    found = capsys.readouterr().out.splitlines()
    for line, hit in zip(found, opened.search(QUESTION), strict=True):
        assert line.endswith(hit.text)
        assert float(line.partition(" ")[0]) == hit.score

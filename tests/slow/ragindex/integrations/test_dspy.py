"""The module for DSPy: predictions, async, programs and their copies, filters, errors."""

import threading
from pathlib import Path
from typing import Any

import dspy
import pytest
from dspy.utils import DummyLM
from made_library import QUESTION

import ragindex
from ragindex.cli.use import usage_lines
from ragindex.errors import MissingPartError, UsageError
from ragindex.integrations.dspy import DSPyRetriever


async def test_it_finds_what_the_method_finds(library: Path, opened: ragindex.IndexRetriever) -> None:
    retriever = DSPyRetriever.from_index(library, "bm25", k=3)
    hits = opened.search(QUESTION, 3)
    for prediction in (retriever(QUESTION), await retriever.acall(QUESTION)):
        assert isinstance(prediction, dspy.Prediction)
        assert prediction.passages == [f"{hit.title} | {hit.text}" for hit in hits]
        assert prediction.ids == [hit.id for hit in hits]
        assert prediction.scores == [hit.score for hit in hits]
        assert prediction.metadata[0]["ragindex"]["positions"][0]["page"] == 3
        assert prediction.metadata[0]["score"] == "A+"  # the document's own


async def test_filters_of_module_and_call_both_hold(opened: ragindex.IndexRetriever) -> None:
    retriever = DSPyRetriever(opened, 4, {"meta.year": 1850})
    assert sorted(retriever(QUESTION).ids) == ["harbour#0", "mill#0"]
    assert retriever(QUESTION, where={"meta.kind": "mill"}).ids == ["mill#0"]
    assert (await retriever.acall(QUESTION, where={"meta.kind": "mill"})).ids == ["mill#0"]
    assert retriever(QUESTION, where={"meta.year": 1931}).ids == []
    assert DSPyRetriever(opened)(QUESTION, k=1, where={"meta.year": {"gte": 1900}}).ids == ["light#0"]


async def test_async_searches_in_another_thread(opened: ragindex.IndexRetriever, searching: list[int]) -> None:
    await DSPyRetriever(opened).acall(QUESTION)
    assert searching
    assert threading.get_ident() not in searching


class _Program(dspy.Module):  # type: ignore[misc]
    def __init__(self, retriever: DSPyRetriever) -> None:
        super().__init__()
        self.retriever = retriever
        self.answer = dspy.Predict("context, question -> answer")

    def forward(self, question: str) -> Any:
        return self.answer(context=self.retriever(question, k=1).passages, question=question)


def test_a_program_and_its_copies_share_the_open_method(opened: ragindex.IndexRetriever, tmp_path: Path) -> None:
    program = _Program(DSPyRetriever(opened))
    copied = program.deepcopy()
    assert copied.retriever is not program.retriever
    assert copied.retriever.retriever is opened
    program.save(tmp_path / "program.json")
    copied.load(tmp_path / "program.json")
    model = DummyLM([{"answer": "1931"}])
    with dspy.context(lm=model):
        assert copied(question=QUESTION).answer == "1931"
    content = model.history[0]["messages"][-1]["content"]
    assert "Lighthouse | The lighthouse was built of slate in 1931." in content
    assert "harbour" not in content


async def test_errors_are_those_of_ragindex(library: Path, opened: ragindex.IndexRetriever) -> None:
    with pytest.raises(UsageError, match="is empty"):
        DSPyRetriever(opened)(" ")
    with pytest.raises(UsageError, match="is empty"):
        await DSPyRetriever(opened).acall(" ")
    with pytest.raises(UsageError, match="A filter's field must be meta.KEY"):
        DSPyRetriever(opened)(QUESTION, where={"year": 1931})
    with pytest.raises(MissingPartError, match="ragindex index --index .* --methods dense"):
        DSPyRetriever.from_index(library, "dense")


def test_the_lines_run(library: Path, opened: ragindex.IndexRetriever, capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(usage_lines("dspy", library, "bm25").replace("your question", QUESTION), "dspy", "exec"), {})
    lines = capsys.readouterr().out.splitlines()
    expected = [(hit.score, hit.text) for hit in opened.search(QUESTION)]
    assert [float(line.partition(" ")[0]) for line in lines] == [score for score, _ in expected]
    assert all(line.endswith(text) for line, (_, text) in zip(lines, expected, strict=True))

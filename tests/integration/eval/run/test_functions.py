"""Functions and retrievers of other libraries, compared with methods of ours."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from comparing import compare
from haystack import Document as HaystackDocument
from haystack import component
from langchain_core.documents import Document as LangChainDocument
from langchain_core.retrievers import BaseRetriever as LangChainRetriever
from llama_index.core.retrievers import BaseRetriever as LlamaIndexRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
from sklearn.feature_extraction.text import TfidfVectorizer

import ragindex_eval
from ragindex.errors import ContractError, UsageError
from ragindex_eval.report.page import render_report
from ragindex_eval.results.files import load_results
from ragindex_eval.results.model import Comparison, Study

TEXTS = {
    "hill.md": "# Hill\nThe lighthouse stands on the hill. It was built in 1871.",
    "mill.md": "# Mill\nThe mill burned in the winter.",
    "sea.md": "# Sea\nThe sea is deep and cold.",
}
IDS = list(TEXTS)
_VECTORIZER = TfidfVectorizer().fit(TEXTS.values())
_MATRIX = _VECTORIZER.transform(TEXTS.values())


def tfidf(question: str, k: int) -> list[tuple[str, float]]:
    """Ten lines around scikit-learn."""
    scores = (_MATRIX @ _VECTORIZER.transform([question]).T).toarray().ravel()
    return [(IDS[row], float(scores[row])) for row in scores.argsort()[::-1][:k]]


def names(question: str, k: int) -> list[str]:
    return [id for id, _ in tfidf(question, k)]


async def later(question: str, k: int) -> list[str]:
    await asyncio.sleep(0)
    return names(question, k)


class LangChain(LangChainRetriever):
    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[LangChainDocument]:
        return [LangChainDocument(page_content=TEXTS[id], metadata={"source": id}) for id in names(query, 3)]


class LlamaIndex(LlamaIndexRetriever):
    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        scored = tfidf(query_bundle.query_str, 3)
        return [
            NodeWithScore(node=TextNode(text=TEXTS[id], metadata={"doc_id": id}), score=score) for id, score in scored
        ]


@component
class Haystack:
    @component.output_types(documents=list[HaystackDocument])
    def run(self, query: str) -> dict[str, list[HaystackDocument]]:
        scored = tfidf(query, 3)
        return {"documents": [HaystackDocument(id=id, content=TEXTS[id], score=score) for id, score in scored]}


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    (tmp_path / "notes").mkdir()
    for name, text in TEXTS.items():
        (tmp_path / "notes" / name).write_text(text)
    (tmp_path / "questions.csv").write_text(
        "question,answer,documents\n"
        "When was the lighthouse built?,1871,hill.md\n"
        "When did the mill burn?,winter,mill.md\n"
    )
    return tmp_path


def run(folder: Path, *methods: Any, **options: Any) -> Comparison:
    given = {"questions": folder / "questions.csv", "index": folder / "index", "k": (1, 2), **options}
    return compare(folder / "notes", list(methods), **given)


def test_functions_are_compared_with_methods_of_ours(notes: Path) -> None:
    comparison = run(notes, "bm25", tfidf, names, later, LangChain(), LlamaIndex(), Haystack(), out=notes / "out")
    labels = {"bm25", "tfidf", "names", "later", "LangChain", "LlamaIndex", "Haystack"}
    assert {method.label for method in comparison.methods} == labels
    for method in comparison.methods:
        assert (method.metrics["R@1"], method.latency.questions) == (1.0, 2), method.label
        assert method.built == (method.label == "bm25")
    scores = [hit.score for hit in comparison.method("tfidf").final[0].hits]
    assert scores == [pytest.approx(score) for _, score in tfidf("When was the lighthouse built?", 2)]
    assert {(pair.a, pair.b) for pair in comparison.pairs if pair.metric == "latency_ms"}
    back = load_results(notes / "out")
    assert render_report(back) == render_report(Study(comparison.dataset.name, (comparison,)))


def test_what_functions_cost_is_unknown(notes: Path) -> None:
    result = ragindex_eval.compare(notes / "notes", [tfidf], questions=notes / "questions.csv", index=notes / "index")
    figures = result["tfidf"]
    names = ("index_seconds", "index_bytes", "index_money", "query_money", "query_input_tokens", "query_calls")
    assert {name: figures[name] for name in names} == dict.fromkeys(names)
    assert figures["latency_ms_p50"] is not None
    assert figures.result.costs().keys() == {"latency_ms"}
    assert any(note.startswith("what tfidf took to build") for note in result.comparison.notes)
    assert not any("RAGINDEX_PRICES" in note for note in result.comparison.notes)
    assert "$" not in str(result)
    with pytest.raises(UsageError, match="come from elsewhere"):
        result["tfidf"].export(notes / "exported")


def test_functions_are_asked_anew_each_time(notes: Path) -> None:
    questions: list[str] = []

    def search(question: str, k: int) -> list[str]:
        questions.append(question)
        return ["hill.md"]

    run(notes, search)
    first = len(questions)
    assert run(notes, search).method("search").metrics["R@1"] == 0.5
    assert len(questions) == 2 * first
    search.__name__ = "other"
    assert run(notes, "bm25", search).method("other").metrics["R@1"] == 0.5


def fails(question: str, k: int) -> list[str]:
    if "mill" in question:
        raise LookupError("no mill")
    return ["gone.md", "hill.md"]


def test_failures_and_unknown_documents_are_counted(notes: Path) -> None:
    comparison = run(notes, fails)
    method = comparison.method("fails")
    assert [answer.error is None for answer in method.final] == [True, False]
    assert "no mill" in (method.final[1].error or "")
    assert method.metrics["R@2"] == 0.5
    assert any("1 hit on 1 of 2 questions name no document of the corpus" in note for note in comparison.notes)


@pytest.mark.parametrize(
    ("scored", "message"),
    [
        (lambda question, k: [("sea.md", 1.0), ("hill.md", 2.0)], "hits must be sorted best first"),
        (lambda question, k: [("sea.md", float("nan"))], "not finite"),
    ],
)
def test_scores_that_rank_otherwise_end_the_comparison(
    notes: Path, scored: Callable[[str, int], list[tuple[str, float]]], message: str
) -> None:
    with pytest.raises(ContractError, match=message):
        run(notes, scored)


def test_chunks_of_one_document_are_hits_of_their_own(notes: Path) -> None:
    comparison = run(notes, lambda question, k: ["hill.md", "hill.md", "mill.md"])
    (method,) = comparison.methods
    assert [hit.id for hit in method.final[1].hits] == ["hill.md", "hill.md#2"]
    assert method.metrics["R@2"] == 0.5

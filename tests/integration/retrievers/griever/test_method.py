"""GRIEVER over a corpus written by hand: what it finds, which model it asks what, what it explains, and bad input."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from made_extractions import imported, openie, spelt

from ragindex.encoders import vector_cache
from ragindex.encoders.vector_cache import CachedEncoder
from ragindex.errors import UsageError
from ragindex.index.index import Index
from ragindex.interfaces import Floats
from ragindex.interfaces.llm import LLM, LLMPlugin
from ragindex.llm.tasks import Task
from ragindex.plugins import registry
from ragindex.retrieval.trace import IF_STOPPED
from ragindex.types import Document, Query, Retrieval, Step

NORTH_STAR = "Who married the publisher of abolitionist newspaper The North Star?"
DOCUMENTS = (
    spelt("star", "The North Star|published by|Frederick Douglass", "The North Star|is an|abolitionist newspaper"),
    spelt("helen", "Frederick Douglass|spouse|Helen Pitts Douglass", "Helen Pitts Douglass|born in|Honeoye"),
    spelt("rose", "Rosetta Sprague|married|Nathan Sprague"),
    spelt("press", "The Liberator|is an|abolitionist newspaper", "The Liberator|published by|William Garrison"),
    spelt("sky", "Polaris|also known as|The North Star", "Polaris|lies in|Ursa Minor"),
    spelt("honeoye", "Honeoye|lies in|New York"),
    spelt("glass", "Sand|melts into|glass"),
    spelt("bear", "Ursa Minor|contains|seven bright stars"),
)
FEW = "griever(base_k=2, t_max=4, split=false)"
"""Small enough that the second passage has to be joined on."""


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Index:
    folder = tmp_path_factory.mktemp("griever")
    index = imported(folder / "w", openie(folder / "f.json", DOCUMENTS), DOCUMENTS)
    index.build(registry.scheme("griever"), registry.scheme("griever(shortlist=full)"))
    return index


def ask(workspace: Index, written: str, text: str = NORTH_STAR, k: int = 5, where: Any = None) -> Retrieval:
    [retrievals] = registry.scheme(written).open(workspace).retrieve([Query("q", text, where)], k)
    return retrievals


def ids(retrieval: Retrieval) -> list[str]:
    return [hit.id for hit in retrieval.hits]


def steps(retrieval: Retrieval, index: str) -> list[Step]:
    return [step for step in retrieval.trace if step.index == index]


def test_stopping_after_one_iteration_is_told(workspace: Index) -> None:
    stops = steps(ask(workspace, FEW), IF_STOPPED)
    assert [step.iteration for step in stops] == [1, 2]
    once = ask(workspace, "griever(base_k=2, t_max=4, split=false, iterations=1)")
    assert stops[0].ids == tuple(hit.id for hit in once.hits)


class Silent(LLMPlugin):
    """A language model that must not be asked."""

    def open(self, setting: object = None) -> "SilentModel":
        return SilentModel()


class SilentModel(LLM):
    id = "silent"

    def run(self, task: Task[Any], inputs: Mapping[str, Any]) -> Any:
        raise AssertionError(f"{task.name} was asked")

    def map(self, task: Task[Any], inputs: Any, **_: Any) -> Any:
        raise AssertionError(f"{task.name} was asked")


def test_no_language_model_is_asked(tmp_path: Path) -> None:
    workspace = Index.open(tmp_path / "w", llm=Silent(), chunking=None, create=True)
    workspace.import_part("extractions", openie(tmp_path / "f.json", DOCUMENTS))
    workspace.add(DOCUMENTS)
    workspace.build(registry.scheme("griever"))
    assert "helen" in ids(ask(workspace, FEW))


def test_one_batch_for_the_question_and_one_for_its_rewriting(
    workspace: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And no name, passage or triple is encoded while asking."""
    batches: list[Sequence[str]] = []
    check = vector_cache.check_token_embeddings

    def counted(encoder: str, dimensions: int, texts: Sequence[str], embeddings: Any) -> Any:
        batches.append(tuple(texts))
        return check(encoder, dimensions, texts, embeddings)

    def no_more(self: CachedEncoder, encode_texts: Any, texts: Sequence[str]) -> Floats:
        assert not texts, f"{texts} were encoded in a batch of their own"
        return self._no_vectors()

    def none(self: CachedEncoder, texts: Sequence[str]) -> Floats:
        raise AssertionError(f"{texts} were encoded as documents")

    monkeypatch.setattr(vector_cache, "check_token_embeddings", counted)
    monkeypatch.setattr(CachedEncoder, "_vectors", no_more)
    monkeypatch.setattr(CachedEncoder, "encode_each", none)
    question = "Where was the woman who married the publisher of The North Star born?"
    retrieval = ask(workspace, "griever", question)
    clause = "who married the publisher of The North Star born?"
    rewritten = steps(retrieval, "rewrite")[0].note.split(" | ")
    assert batches == [(question, clause), tuple(dict.fromkeys(rewritten))]
    batches.clear()
    ask(workspace, "griever(rewrite=false, shortlist=full)", question)
    assert batches == [(question, clause)]
    batches.clear()
    ask(workspace, "griever(rewrite=false, fire_full=false, retrieval_weight=0)", question)
    assert batches == [(clause,)]


def test_ngrams_can_be_encoded_as_texts(workspace: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    passing: list[int] = []
    encode = CachedEncoder.encode_passing
    monkeypatch.setattr(
        CachedEncoder, "encode_passing", lambda self, texts: (passing.append(len(texts)), encode(self, texts))[1]
    )
    retrieval = ask(workspace, "griever(ngrams=texts, max_ngram=2, split=false, iterations=1)", "Who published it?")
    assert passing == [5]  # three words and two pairs
    assert retrieval.hits


def test_the_way_is_explained(workspace: Index) -> None:
    question = "Where was the woman who married the publisher of The North Star born?"
    retrieval = ask(workspace, "griever(base_k=2)", question)
    [clauses] = steps(retrieval, "clauses")
    assert clauses.note == f"{question} | who married the publisher of The North Star born?"
    matched = steps(retrieval, "matched triples")
    assert [step.iteration for step in matched] == [1, 2]
    assert "Helen Pitts Douglass = 'born' 0.99, born in = 'born' 1.00" in matched[1].note
    assert list(matched[0].scores) == sorted(matched[0].scores, reverse=True)
    assert all(len(path) == 1 for path in matched[0].paths)
    assert len(steps(retrieval, "shortlist")[0].ids) > 0
    [paths] = steps(retrieval, "paths")
    assert list(paths.scores) == sorted(paths.scores, reverse=True)
    joined = [path for path in paths.paths if len(path) == 2]
    assert ("The North Star", "Frederick Douglass", "Frederick Douglass", "Helen Pitts Douglass") in [
        (first.subject, first.object, second.subject, second.object) for first, second in joined
    ]


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("griever(base=griever)", "a method that searches one part `over`"),
        ("griever(follow=gear)", "a method that searches one part `over`"),
        ("griever(base=hybrid(bases=[bm25, dense]))", "a method that searches one part `over`"),
        ("griever(triples=passages)", "triples"),
        ("griever(iterations=0)", "greater than or equal to 1"),
        ("griever(triple_score=question, fire_full=false)", "it needs fire_full=true"),
        ("griever(exclude=last)", "griever has no parameter 'exclude'"),
        ("griever(shortlist=some)", "'partial', 'full' or 'none'"),
    ],
)
def test_what_is_allowed(written: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        registry.scheme(written)


def test_a_corpus_without_triples(tmp_path: Path) -> None:
    documents = [Document("a", "", "Nothing here."), Document("b", "", "nor here, where nothing is named")]
    workspace = imported(tmp_path / "w", openie(tmp_path / "f.json", documents), documents)
    workspace.build(registry.scheme("griever"))
    retrieval = ask(workspace, "griever", "where is nothing named?")
    assert ids(retrieval)[0] == "b"
    question = Query("q", "where is nothing named?")
    [dense] = registry.scheme("dense").open(workspace).retrieve([question], 2)
    assert ids(retrieval) == [hit.id for hit in dense.hits]
    assert [hit.score for hit in retrieval.hits] == pytest.approx([hit.score for hit in dense.hits], abs=1e-6)
    retrieval = ask(workspace, "griever(retrieval_weight=0)", question.text)
    assert ids(retrieval)[0] == "b"
    assert [hit.score for hit in retrieval.hits] == [-1.0]

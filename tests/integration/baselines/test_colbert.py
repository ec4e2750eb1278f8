"""ColBERT against plain loops over the token vectors of the encoder, and over those of a late-interaction model."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from letters import LettersEncoder

from ragindex import testing
from ragindex.encoders import local_models
from ragindex.errors import UsageError
from ragindex.filters import meta
from ragindex.index.index import Index
from ragindex.interfaces import Floats
from ragindex.parts.vectors.quantized_tokens import compress, restore
from ragindex.parts.vectors.token_vectors import MultiVectors, TokenVectors
from ragindex.plugins import registry
from ragindex.types import Document, Query
from ragindex_baselines.colbert import ColBERT, LateInteraction, OverCandidates

ALL, AMONG = "colbert", "colbert(all_below=0, candidates=bm25, candidate_factor=2)"
SHORT = "colbert(all_below=0, candidate_factor=2)"


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Index:
    opened = Index.open(tmp_path_factory.mktemp("w"), chunking=None, create=True)
    documents = [Document(id, "Sister", "The sisters of Lindau paint glass with lime.") for id in ("z", "y")]
    opened.add([*testing.DOCUMENTS, *documents])
    opened.build(*[registry.scheme(written) for written in (ALL, AMONG, SHORT)])
    return opened


def plain(workspace: Index, question: str, documents: Sequence[Document], longest: int = 128) -> dict[str, float]:
    """MaxSim of every document, token by token, over vectors compressed as the part keeps them."""
    encode = workspace.encoder.encode_tokens
    question_vectors = encode([question])[0].vectors[:longest].astype(np.float64)
    scores = {}
    for document in documents:
        document_vectors = restore(compress(encode([f"{document.title}\n{document.text}"])[0].vectors)).astype(
            np.float64
        )
        scores[document.id] = sum(
            max(float(vector @ other) for other in document_vectors) for vector in question_vectors
        )
    return scores


def first(scores: dict[str, float], k: int) -> list[str]:
    return sorted(scores, key=lambda id: (-scores[id], id))[:k]


@pytest.mark.parametrize("question", [*testing.QUESTIONS, "Who painted glass and climbed the Alps in 1924?"])
def test_over_all_against_plain_loops(workspace: Index, question: str) -> None:
    retriever = registry.scheme(ALL).open(workspace)
    assert isinstance(retriever, LateInteraction)
    (retrieval,) = retriever.retrieve([Query("q", question)], 7)
    expected = plain(workspace, question, testing.DOCUMENTS)
    shown = [hit for hit in retrieval.hits if hit.id not in "yz"]
    assert [hit.id for hit in shown] == first(expected, len(shown))
    assert [hit.score for hit in shown] == pytest.approx([expected[hit.id] for hit in shown], abs=1e-4)
    assert {hit.source for hit in retrieval.hits} == {"colbert"}
    (step,) = retrieval.trace
    assert (step.index, step.ids) == ("token vectors", tuple(hit.id for hit in retrieval.hits))


def test_over_candidates(workspace: Index) -> None:
    """The four that BM25 puts first, in the order of MaxSim."""
    retriever = registry.scheme(AMONG).open(workspace)
    assert isinstance(retriever, OverCandidates)
    among = registry.scheme("bm25").open(workspace)
    together = retriever.retrieve([Query("q", question) for question in testing.QUESTIONS], 2)
    for question, batched in zip(testing.QUESTIONS, together, strict=True):
        (retrieval,) = retriever.retrieve([Query("q", question)], 2)
        assert batched.hits == retrieval.hits
        (candidates,) = among.retrieve([Query("q", question)], 4)
        named = {hit.id for hit in candidates.hits}
        scores = plain(workspace, question, [document for document in testing.DOCUMENTS if document.id in named])
        assert [hit.id for hit in retrieval.hits] == first(scores, 2)
        assert [step.index for step in retrieval.trace] == ["text", "token vectors"]
        assert retrieval.trace[0].ids == tuple(hit.id for hit in candidates.hits)


def test_candidates_are_found_by_average_token_vectors(workspace: Index) -> None:
    """The four whose averages are most similar to the sum of the question's vectors, in the order of MaxSim."""
    retriever = registry.scheme(SHORT).open(workspace)
    encode = workspace.encoder.encode_tokens
    named = {entry.id: entry for entry in testing.DOCUMENTS}
    for question in testing.QUESTIONS:
        total = encode([question])[0].vectors.sum(axis=0)
        averages = {}
        for id, document in named.items():
            average = encode([f"{document.title}\n{document.text}"])[0].vectors.mean(axis=0)
            averages[id] = float(average @ total / np.linalg.norm(average))
        short = first(averages, 4)
        (retrieval,) = retriever.retrieve([Query("q", question, meta("half", "first", "second"))], 2)
        scores = plain(workspace, question, [named[id] for id in short])
        assert [hit.id for hit in retrieval.hits] == first(scores, 2)


@pytest.mark.parametrize(("all_below", "kind"), [(27, LateInteraction), (26, OverCandidates)])
def test_how_many_are_few(workspace: Index, all_below: int, kind: type) -> None:
    assert isinstance(ColBERT(all_below=all_below, candidates="bm25").open(workspace), kind)
    index = workspace.open_part(TokenVectors())
    question = index.question(testing.QUESTIONS[1])
    scores = dict(zip(index.ids, index.scores(index.ids, [question])[:, 0].tolist(), strict=True))
    short = index.shortlist(question, 3)
    expected = first(scores if kind is LateInteraction else {id: scores[id] for id in short}, 3)
    retriever = ColBERT(all_below=all_below, candidate_factor=1).open(workspace)
    (retrieval,) = retriever.retrieve([Query("q", testing.QUESTIONS[1])], 3)
    assert [hit.id for hit in retrieval.hits] == expected


@pytest.mark.parametrize("written", [ALL, AMONG, SHORT])
def test_equal_texts_tie_and_go_by_id(workspace: Index, written: str) -> None:
    (retrieval,) = registry.scheme(written).open(workspace).retrieve([Query("q", "Sisters with lime?")], 2)
    assert [hit.id for hit in retrieval.hits] == ["y", "z"]
    assert retrieval.hits[0].score == retrieval.hits[1].score


@pytest.mark.parametrize("written", [ALL, AMONG, SHORT])
def test_a_question_without_a_known_word_finds_nothing(workspace: Index, written: str) -> None:
    retriever = registry.scheme(written).open(workspace)
    nothing, something = retriever.retrieve([Query("q", "Xyzzy?"), Query("r", "xyzzy glass")], 3)
    assert nothing.hits == ()
    assert something.hits == retriever.retrieve([Query("r", "glass")], 3)[0].hits


def test_the_first_tokens_of_a_question_count(workspace: Index) -> None:
    """Stop words have no vectors here: the first three are curling, stones, cut."""
    (retrieval,) = ColBERT(query_tokens=3).open(workspace).retrieve([Query("q", testing.QUESTIONS[1])], 3)
    expected = plain(workspace, testing.QUESTIONS[1], testing.DOCUMENTS, 3)
    shown = [hit for hit in retrieval.hits if hit.id not in "yz"]
    assert [hit.score for hit in shown] == pytest.approx([expected[hit.id] for hit in shown], abs=1e-4)


def test_candidates_of_another_part(workspace: Index) -> None:
    scheme = registry.scheme("colbert(all_below=0, candidates=bm25(over=triples))")
    workspace.build(scheme)
    with pytest.raises(UsageError, match="must be records of what it is over. There are no token vectors of 'd"):
        scheme.open(workspace).retrieve([Query("q", testing.QUESTIONS[0])], 3)


def test_vectors_of_another_part() -> None:
    with pytest.raises(UsageError, match="colbert: `vectors` must be of the part `over`"):
        registry.scheme("colbert(vectors=token_vectors(of=triples))")
    follows, named = (f"colbert(over=triples, vectors=token_vectors{of})" for of in ("", "(of=triples)"))
    assert registry.scheme(follows).parts() == registry.scheme(named).parts()


class Scripted:
    """In the place of sentence-transformers' MultiVectorEncoder: a vector for each word."""

    def encode_query(self, texts: list[str], *, prompt: str = "", **_: Any) -> list[Floats]:
        return [LettersEncoder().encode_queries(f"{prompt}{text}".split()) for text in texts]

    def encode_document(self, texts: list[str], **how: Any) -> list[Floats]:
        return self.encode_query(texts, prompt="passage ", **how)


def test_a_late_interaction_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It alone decides on vectors: the encoder of the index is not opened."""
    model = Scripted()
    monkeypatch.setattr(local_models, "load_local_model", lambda *_, **__: model)
    scheme = registry.scheme("colbert(vectors=multi_vectors(model=made/up), candidates=bm25)")
    with Index.open(tmp_path, chunking=None, create=True) as workspace:
        workspace.add([*testing.DOCUMENTS, Document("blank", "", " ")])
        workspace.build(scheme)
        retrievals = scheme.open(workspace).retrieve([Query("q", text) for text in testing.QUESTIONS], 24)
        assert workspace.encoder_id is None
    documents = {
        document.id: model.encode_document([f"{document.title}\n{document.text}"])[0] for document in testing.DOCUMENTS
    }
    for text, retrieval in zip(testing.QUESTIONS, retrievals, strict=True):
        embedding = model.encode_query([text])[0]
        expected = {id: float((embedding @ words.T).max(axis=1).sum()) for id, words in documents.items()}
        scores = {hit.id: hit.score for hit in retrieval.hits}
        assert len(scores) == 24
        assert scores == pytest.approx({id: expected[id] for id in scores}, abs=0.05)


def test_a_model_goes_by_its_files(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    part = MultiVectors(model=str(tmp_path))
    assert len(part.revision) == 8
    assert registry.part(registry.label(part)) == part
    (tmp_path / "config.json").write_text(json.dumps({"changed": True}))
    assert MultiVectors(model=str(tmp_path)).revision != part.revision


def test_all_is_what_candidates_would_be_if_they_were_all(workspace: Index) -> None:
    wide = registry.scheme("colbert(all_below=0, candidate_factor=26)")
    queries = [Query("q", question) for question in testing.QUESTIONS]
    everything = registry.scheme(ALL).open(workspace).retrieve(queries, 26)
    among = wide.open(workspace).retrieve(queries, 26)
    for retrieval, other in zip(everything, among, strict=True):
        assert [(hit.id, hit.score) for hit in retrieval.hits] == [(hit.id, hit.score) for hit in other.hits]

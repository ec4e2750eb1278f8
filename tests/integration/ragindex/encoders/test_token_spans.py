"""Whatever spans a tokenizer gives: griever's matching bears all that are in the contract, and names what is not."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tokenizers as kit
from hypothesis import example, given, settings
from hypothesis import strategies as st
from made_extractions import imported, openie, spelt

from examples import examples
from ragindex.encoders.vector_cache import CachedEncoder
from ragindex.encoders.vectors import check_token_embeddings, normalize_rows
from ragindex.errors import UsageError
from ragindex.interfaces import Encoder, Floats, TokenEmbeddings
from ragindex.plugins import registry
from ragindex.types import Query, Triple
from ragindex_retrievers.griever.lookups import StatedTriple
from ragindex_retrievers.griever.matching import NameMatch, ScoredTriple, ngrams, rewrite, spans
from ragindex_retrievers.griever.method import GrieverRetriever

Span = tuple[int, int]
ALPHABET = st.sampled_from("ab xyz .'-?\n\t\u0301\u0308éﬁßİ日本\u200d👩👧🏽\ud800")
QUESTIONS = st.text(ALPHABET, min_size=1, max_size=24).filter(lambda text: text.strip() != "")


@st.composite
def given_spans(draw: st.DrawFn, text: str) -> list[Span]:
    """Any within the text: in any order, overlapping, repeated, empty, within a character as a reader sees it."""
    places = st.integers(0, len(text))
    pairs = st.lists(st.tuples(places, places), max_size=12)
    return [(min(pair), max(pair)) for pair in draw(pairs)]


TEXTS_WITH_SPANS = QUESTIONS.flatmap(lambda text: st.tuples(st.just(text), given_spans(text)))


def vectors_of(count: int, dimensions: int = 4) -> Floats:
    return normalize_rows(np.random.default_rng(count).normal(size=(count, dimensions)))


# ---------------------------------------------------------------- n-grams, one at a time


@given(TEXTS_WITH_SPANS, st.integers(1, 4), st.sampled_from(["mean", "max"]))
@example(("a b", []), 2, "mean")
@example(("? !", [(0, 1)]), 2, "mean")
def test_an_ngram_is_pooled_of_the_tokens_it_shares_a_character_with(
    text_and_spans: tuple[str, list[Span]], longest: int, pool: Any
) -> None:
    text, drawn_spans = text_and_spans
    (tokens,) = check_token_embeddings(
        "x", 4, [text], [TokenEmbeddings(tuple(drawn_spans), vectors_of(len(drawn_spans)))]
    )
    assert list(tokens.spans) == sorted(span for span in drawn_spans if span[0] < span[1])
    result = ngrams(text, tokens, longest, pool)
    seen, expected = set[tuple[int, ...]](), []
    for start, end in spans(text, longest):
        rows = tuple(row for row, (low, high) in enumerate(tokens.spans) if low < end and high > start)
        if rows and rows not in seen:
            seen.add(rows)
            among = tokens.vectors[list(rows)]
            expected.append(((start, end), among.mean(axis=0) if pool == "mean" else among.max(axis=0)))
    assert list(result.spans) == [span for span, _ in expected]
    assert result.vectors.shape == (len(expected), 4)
    for vector, (_, pooled) in zip(result.vectors, expected, strict=True):
        np.testing.assert_allclose(vector, normalize_rows(pooled[None].astype(np.float32))[0], atol=1e-4)


def test_many_ngrams_are_pooled_a_block_at_a_time() -> None:
    text = "ab " * 400
    halves = tuple((3 * n + m, 3 * n + m + 1) for n in range(400) for m in (0, 1))
    pooled = ngrams(text, TokenEmbeddings(halves, vectors_of(len(halves))), 4, "mean")
    assert len(pooled.spans) == 400 + 399 + 398 + 397
    last = normalize_rows(vectors_of(len(halves))[-8:].mean(axis=0)[None])[0]
    np.testing.assert_allclose(pooled.vectors[-1], last, atol=1e-6)


# ---------------------------------------------------------------- end to end


@dataclass(frozen=True)
class Tokenized(Encoder):
    """An encoder whose token spans are `give`'s."""

    inner: Any
    give: Callable[[str], Sequence[Span]]

    @property
    def id(self) -> str:
        return str(self.inner.id)

    @property
    def dimensions(self) -> int:
        return int(self.inner.dimensions)

    def encode_documents(self, texts: Sequence[str]) -> Floats:
        return np.asarray(self.inner.encode_documents(texts))

    def encode_queries(self, texts: Sequence[str]) -> Floats:
        return np.asarray(self.inner.encode_queries(texts))

    def encode_tokens(self, texts: Sequence[str]) -> list[TokenEmbeddings]:
        spans_of_texts = [list(self.give(text)) for text in texts]
        return [
            TokenEmbeddings(tuple(each), self.encode_documents([text[start:end] for start, end in each]))
            for text, each in zip(texts, spans_of_texts, strict=True)
        ]

    def encode_queries_with_tokens(self, texts: Sequence[str]) -> tuple[Floats, list[TokenEmbeddings]]:
        return self.encode_queries(texts), self.encode_tokens(texts)


DOCUMENTS = (
    spelt("star", "The North Star|published by|Frederick Douglass", "The North Star|is an|abolitionist newspaper"),
    spelt("helen", "Frederick Douglass|spouse|Helen Pitts Douglass"),
    spelt("press", "The Liberator|is an|abolitionist newspaper"),
    spelt("cafe", "Cafe\u0301 Müller|lies in|東京", "東京|is a|city"),
)
WORDS = (
    "Who",
    "married",
    "the",
    "publisher",
    "The North Star",
    "Frederick",
    "newspaper",
    "café",
    "東京",
    "?",
    "👩‍👧",
    "e\u0301",
)
ASKED = st.one_of(QUESTIONS, st.lists(st.sampled_from(WORDS), min_size=1, max_size=8).map(" ".join))
FEW = "griever(base_k=2, t_max=4)"


@pytest.fixture(scope="module")
def retriever(tmp_path_factory: pytest.TempPathFactory) -> GrieverRetriever:
    folder = tmp_path_factory.mktemp("spans")
    workspace = imported(folder / "w", openie(folder / "f.json", DOCUMENTS), DOCUMENTS)
    scheme = registry.scheme(FEW)
    workspace.build(scheme)
    opened = scheme.open(workspace)
    assert isinstance(opened, GrieverRetriever)
    return opened


def by(retriever: GrieverRetriever, give: Callable[[str], Sequence[Span]]) -> GrieverRetriever:
    """The same with another tokenizer, over the same vectors."""
    inner = retriever.encoder._encoder
    return replace(retriever, encoder=CachedEncoder(Tokenized(inner, give), Path("never opened")))


@settings(max_examples=examples(50))
@given(data=st.data(), text=ASKED)
def test_any_spans_of_the_contract_are_borne(data: st.DataObject, text: str, retriever: GrieverRetriever) -> None:
    drawn: dict[str, list[Span]] = {}

    def give(of: str) -> list[Span]:
        """Of clauses and rewritten questions too."""
        return drawn.setdefault(of, data.draw(given_spans(of)))

    [retrieval] = by(retriever, give).retrieve([Query("q", text)], 3)
    assert text in drawn
    assert len({hit.id for hit in retrieval.hits}) == len(retrieval.hits) <= 3


@settings(max_examples=examples(20))
@given(text=ASKED, order=st.randoms(use_true_random=False))
def test_the_order_of_tokens_and_those_of_no_characters_change_nothing(
    text: str, order: Any, retriever: GrieverRetriever
) -> None:
    def letters(of: str) -> list[Span]:
        return [(at, at + 1) for at in range(len(of))]

    def padded(of: str) -> list[Span]:
        """As engines do that pad a batch and leave special tokens in."""
        more = [(0, 0), *letters(of), (len(of), len(of)), (0, 0), (0, 0)]
        order.shuffle(more)
        return more

    first, second = (by(retriever, give).retrieve([Query("q", text)], 3)[0].hits for give in (letters, padded))
    assert [(hit.id, hit.score) for hit in first] == [(hit.id, hit.score) for hit in second]


# ---------------------------------------------------------------- what is not in the contract

WRONG: dict[str, tuple[TokenEmbeddings, str]] = {
    "beyond the text": (
        TokenEmbeddings(((0, 2), (3, 9)), vectors_of(2)),
        r"the span \(3, 9\) in a text of 7 characters",
    ),
    "before the text": (TokenEmbeddings(((-1, 2),), vectors_of(1)), r"the span \(-1, 2\)"),
    "backwards": (TokenEmbeddings(((4, 2),), vectors_of(1)), r"the span \(4, 2\)"),
    "a vector too few": (TokenEmbeddings(((0, 1), (2, 3)), vectors_of(1)), "2 spans with vectors of 1 x 4"),
    "another space": (
        TokenEmbeddings(((0, 1),), vectors_of(1, 5)),
        "1 spans with vectors of 1 x 5, where 4 dimensions",
    ),
    "no span": (TokenEmbeddings((), vectors_of(1)), "0 spans with vectors of 1 x 4"),
    "one number": (TokenEmbeddings(((0,),), vectors_of(1)), "spans that are no pairs of whole numbers"),  # type: ignore[arg-type]
    "fractions": (TokenEmbeddings(((0, 1.5),), vectors_of(1)), "no pairs of whole numbers"),  # type: ignore[arg-type]
    "booleans": (TokenEmbeddings(((False, True),), vectors_of(1)), "no pairs of whole numbers"),
    "nothing": (TokenEmbeddings((None,), vectors_of(1)), "no pairs of whole numbers"),  # type: ignore[arg-type]
    "unlike": (TokenEmbeddings(((0, 1), (1,)), vectors_of(2)), "no pairs of whole numbers"),  # type: ignore[arg-type]
}


class Wrong(Tokenized):
    """Gives the same token vectors for every text."""

    dimensions = 4
    tokens: TokenEmbeddings

    def __init__(self, tokens: TokenEmbeddings | None) -> None:
        object.__setattr__(self, "tokens", tokens)

    @property
    def id(self) -> str:
        return "strange"

    def encode_queries(self, texts: Sequence[str]) -> Floats:
        return np.ones((len(texts), 4), np.float32)

    def encode_tokens(self, texts: Sequence[str]) -> list[TokenEmbeddings]:
        return [self.tokens] * len(texts) if self.tokens is not None else []


@pytest.mark.parametrize(
    ("tokens", "message"), [*WRONG.values(), (None, "0 answers for 1 texts")], ids=[*WRONG, "none"]
)
def test_what_is_wrong_is_said_where_it_comes_in(tokens: TokenEmbeddings | None, message: str) -> None:
    encoder = CachedEncoder(Wrong(tokens), Path("never opened"))
    for ask in (encoder.encode_tokens, encoder.encode_queries_with_tokens):
        with pytest.raises(UsageError, match=f"^The encoder strange must give .*{message}"):
            ask(["a ü b c"])


def test_nan_is_refused_in_questions() -> None:
    """The token vectors of a document with NaN fail alone."""
    given = TokenEmbeddings(((0, 1),), np.full((1, 4), np.nan, np.float32))
    encoder = CachedEncoder(Wrong(given), Path("never opened"))
    with pytest.raises(UsageError, match="^The encoder strange must give .*NaN"):
        encoder.encode_queries_with_tokens(["a ü b c"])
    assert np.isnan(encoder.encode_tokens(["a ü b c"])[0].vectors).all()


def test_spans_in_bytes_are_found_where_they_reach_beyond_the_text() -> None:
    text = "Wo liegt Zürich?"
    in_bytes = ((0, 2), (3, 8), (9, len(text.encode())))
    with pytest.raises(UsageError, match="bytes are no characters"):
        check_token_embeddings("x", 4, [text], [TokenEmbeddings(in_bytes, vectors_of(3))])


# ---------------------------------------------------------------- real tokenizers


@pytest.fixture(scope="module")
def tokenizers() -> dict[str, Any]:
    """One of each kind, trained on a few lines: they give spans of their own kinds."""
    lines = ["Who married the publisher of The North Star?", "Café Müller lies in 東京.", "aab ab xyz 👩‍👧 ﬁn İstanbul"]
    by_name = {}
    for name, model, trainer, normal, before in (
        ("wordpiece", kit.models.WordPiece(unk_token="?"), kit.trainers.WordPieceTrainer, "bert", "BertPreTokenizer"),
        ("bytes", kit.models.BPE(), kit.trainers.BpeTrainer, "none", "ByteLevel"),
        ("nfkd", kit.models.BPE(unk_token="?"), kit.trainers.BpeTrainer, "nfkd", "Whitespace"),
        ("unigram", kit.models.Unigram(), kit.trainers.UnigramTrainer, "nfc", "Metaspace"),
    ):
        tokenizer = kit.Tokenizer(model)
        normalizers = {
            "bert": [kit.normalizers.BertNormalizer()],
            "nfkd": [kit.normalizers.NFKD(), kit.normalizers.StripAccents(), kit.normalizers.Strip()],
            "nfc": [kit.normalizers.NFC(), kit.normalizers.Lowercase()],
        }
        tokenizer.normalizer = kit.normalizers.Sequence(normalizers.get(normal, []))
        tokenizer.pre_tokenizer = getattr(kit.pre_tokenizers, before)()
        special = {"unk_token": "?"} if name == "unigram" else {}
        tokenizer.train_from_iterator(
            lines, trainer(vocab_size=300, special_tokens=["?"], show_progress=False, **special)
        )
        by_name[name] = tokenizer
    return by_name


@settings(max_examples=examples(40))
@given(texts=st.lists(ASKED, min_size=1, max_size=3))
def test_spans_of_real_tokenizers_are_in_the_contract(texts: list[str], tokenizers: dict[str, Any]) -> None:
    plain = [text.encode("utf-8", "replace").decode() for text in texts]
    for name, tokenizer in tokenizers.items():
        for text, encoding in zip(plain, tokenizer.encode_batch(plain), strict=True):
            tokens = TokenEmbeddings(tuple(encoding.offsets), vectors_of(len(encoding.offsets)))
            (embedding,) = check_token_embeddings(name, 4, [text], [tokens])
            assert len(embedding.spans) <= len(encoding.offsets)
            ngrams(text, embedding, 3, "mean")


# ---------------------------------------------------------------- rewriting


def scored(subject: str, object: str, span: Span) -> ScoredTriple:
    stated = StatedTriple("p", 0, Triple(subject, "is", object), subject, object, ("1", "2"))
    return ScoredTriple(stated, 1.0, False, NameMatch(1.0, span), NameMatch(0.0, None))


@pytest.mark.parametrize("object", ["", " ", "\n"])
def test_a_question_is_never_rewritten_to_nothing(object: str) -> None:
    assert rewrite("Ann", [scored("Ann", object, (0, 3))], 0.5, 0.5, 1) == "Ann"
    assert rewrite("Ann ?", [scored("Ann", object, (0, 3))], 0.5, 0.5, 1) == "?"

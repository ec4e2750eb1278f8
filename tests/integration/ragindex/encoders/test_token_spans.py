"""Whatever spans a tokenizer gives: griever's matching bears all that are in the contract, and names what is not."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tokenizers as kit
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples
from ragindex.encoders.vector_cache import CachedEncoder
from ragindex.encoders.vectors import check_token_embeddings, normalize_rows
from ragindex.errors import UsageError
from ragindex.interfaces import Encoder, Floats, TokenEmbeddings
from ragindex.types import Triple
from ragindex_retrievers.griever.lookups import StatedTriple
from ragindex_retrievers.griever.matching import NameMatch, ScoredTriple, ngrams, rewrite

Span = tuple[int, int]
ALPHABET = st.sampled_from("ab xyz .'-?\n\t\u0301\u0308éﬁßİ日本\u200d👩👧🏽\ud800")
QUESTIONS = st.text(ALPHABET, min_size=1, max_size=24).filter(lambda text: text.strip() != "")


def vectors_of(count: int, dimensions: int = 4) -> Floats:
    return normalize_rows(np.random.default_rng(count).normal(size=(count, dimensions)))


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

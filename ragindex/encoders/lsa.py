"""Latent semantic analysis: an encoder that is fitted to the corpus and needs no download.

Texts become sublinear TF-IDF vectors of words, which a truncated singular value decomposition projects. The projection
is divided by the singular values (whitened), and its rows are scaled to length one. A fit is a folder with
`vocabulary.json`, `idf.npy`, `projection.npy` and `fit.json`, which is written last.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import numpy as np
import regex
from pydantic import Field

from ragindex import text_analysis
from ragindex._util.cores import limit_blas
from ragindex.encoders.vectors import normalize_rows
from ragindex.errors import StoreError
from ragindex.interfaces import Encoder, FittedEncoderPlugin, Floats, TokenEmbeddings
from ragindex.types import Span

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

_FITTED_PASSAGES = 50_000
_VOCABULARY = 65_536
_SMALLEST_SINGULAR_VALUE = 1e-4  # relative to the largest; smaller values are rounding errors
_SMALLEST_LENGTH = 1e-6  # of a vector before scaling; shorter vectors are rounding errors
_SHORT_LENGTH = 1e-5  # of the rows of words that no direction reaches
_EXACT_PASSAGES = 4_096  # up to here with 64 bits, so that no vector depends on the processor's kernels
_OVERSAMPLES = 10  # directions computed beyond those that are kept, for their accuracy
_EQUAL = 1e-6  # the relative difference of singular values that count as equal
_BLOCK = 4_096  # passages projected at once
_DIGIT = regex.compile("[0-9]")
_WORDS = "none"  # an analysis without stemming: words that occur in the same texts get similar vectors anyway
_FILES = ("vocabulary.json", "idf.npy", "projection.npy")


class Lsa(FittedEncoderPlugin):
    """Latent semantic analysis (`lsa`, `lsa:256`) over the 65,536 words that occur in the most passages.

    It is fitted to at most 50,000 passages. The vectors have half as many dimensions as there are passages, or more
    where a passage would have a vector of zeros otherwise, and at most `dimensions`. Every text with a known word has a
    vector.
    """

    argument: ClassVar[str] = "dimensions"
    version: ClassVar[int] = 1

    dimensions: Annotated[int, Field(ge=1)] = Field(
        default=1024,
        description="The most dimensions of the vectors; small corpora get about half as many as they have passages.",
    )

    def fit(self, texts: Sequence[str], language: str, seed: int, folder: Path) -> None:
        """Fit the encoder to `texts` and write it to `folder`.

        The same texts give the same bytes on the same machine, however many cores are free, and up to 50,000 texts give
        them in any order. Raises StoreError if `folder` cannot be written.
        """
        if len(texts) > _FITTED_PASSAGES:
            chosen = np.random.default_rng(seed).choice(len(texts), _FITTED_PASSAGES, replace=False)
            texts = [texts[i] for i in chosen]
        tokens = text_analysis.analyse_many(sorted(texts), _WORDS)
        vocabulary = _vocabulary(tokens, _stop_words(language))
        counts = _counts(tokens, vocabulary)
        idf = _idf(counts)
        dimensions = max(1, min(self.dimensions, len(tokens) // 2, len(vocabulary)))
        import_module("sklearn.utils.extmath")  # its BLAS is limited only if it is loaded before
        with limit_blas(1):  # several threads add in an order that follows their number
            projection = _projection(_tf_idf(counts, idf), dimensions, self.dimensions, seed)
        try:
            (folder / "vocabulary.json").write_text(json.dumps(list(vocabulary), ensure_ascii=False), encoding="utf-8")
            np.save(folder / "idf.npy", idf)
            np.save(folder / "projection.npy", projection)
            fit = {"id": _id(folder, language), "language": language, "dimensions": projection.shape[1]}
            (folder / "fit.json").write_text(json.dumps(fit), encoding="utf-8")
        except OSError as error:
            raise StoreError(f"The lsa fit cannot be written to {folder}: {error.strerror}.") from error

    def load(self, folder: Path) -> "LsaEncoder":
        """Load the encoder fitted into `folder`. Raises StoreError if a file is missing or damaged."""
        try:
            fit = json.loads((folder / "fit.json").read_text(encoding="utf-8"))
            words = json.loads((folder / "vocabulary.json").read_text(encoding="utf-8"))
            idf = np.array(np.load(folder / "idf.npy", mmap_mode="r"))  # mapped: its header cannot ask for memory
            projection = np.load(folder / "projection.npy", mmap_mode="r")
            if len(words) != len(idf) or projection.shape != (len(words), fit["dimensions"]):
                raise ValueError(f"{len(words)} words, {len(idf)} weights, a projection of {projection.shape}")
        except (OSError, EOFError, ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
            raise StoreError(
                f"The lsa fit in {folder} cannot be read ({error}). Delete that folder and run: ragindex index"
            ) from error
        numbers = {word: i for i, word in enumerate(words)}
        return LsaEncoder(fit["id"], fit["language"], numbers, idf, projection)


class LsaEncoder(Encoder):
    """A loaded fit. Encodes questions and documents in the same way. Immutable and thread-safe."""

    def __init__(self, id: str, language: str, vocabulary: Mapping[str, int], idf: Floats, projection: Floats) -> None:
        self._id, self._language = id, language
        self._vocabulary, self._idf, self._projection = vocabulary, idf, projection

    @property
    def id(self) -> str:
        """`lsa-` and the hash of the fit."""
        return self._id

    @property
    def dimensions(self) -> int:
        """The length of the vectors."""
        return int(self._projection.shape[1])

    def encode_documents(self, texts: Sequence[str]) -> Floats:
        """Return vectors of shape (len(texts), dimensions), of length one; zero for texts without a known word."""
        counts = _counts(text_analysis.analyse_many(texts, _WORDS), self._vocabulary)
        return normalize_rows(_tf_idf(counts, self._idf) @ self._projection, _SMALLEST_LENGTH)

    def encode_queries(self, texts: Sequence[str]) -> Floats:
        """Encode questions in the same way as documents."""
        return self.encode_documents(texts)

    @property
    def is_full(self) -> bool:
        """Whether the vocabulary has 65,536 words."""
        return len(self._vocabulary) >= _VOCABULARY

    def check_words(self, text: str) -> dict[str, bool]:
        """Return the words of a text but stop words, and whether each is in the vocabulary."""
        stops = _stop_words(self._language)
        return {word: word in self._vocabulary for word in text_analysis.analyse(text, _WORDS) if word not in stops}

    def token_spans(self, text: str) -> list[Span]:
        """Return the characters of each word of the text, also of those that the fit does not know."""
        return [(start, end) for _, start, end in text_analysis.token_spans(text, _WORDS)]

    def encode_tokens(self, texts: Sequence[str]) -> list[TokenEmbeddings]:
        """Return one vector per word, equal to the vector of a text of that word alone; unknown words are skipped."""
        return [self._token_vectors(text) for text in texts]

    def encode_queries_with_tokens(self, texts: Sequence[str]) -> tuple[Floats, list[TokenEmbeddings]]:
        """Return the results of `encode_queries` and `encode_tokens`."""
        return self.encode_queries(texts), self.encode_tokens(texts)

    def _token_vectors(self, text: str) -> TokenEmbeddings:
        words = [
            (self._vocabulary[token], (start, end))
            for token, start, end in text_analysis.token_spans(text, _WORDS)
            if token in self._vocabulary
        ]
        rows = np.array([row for row, _ in words], dtype=np.intp)
        vectors = normalize_rows(self._projection[rows], _SMALLEST_LENGTH)
        known = np.flatnonzero(vectors.any(axis=1))
        return TokenEmbeddings(tuple(words[i][1] for i in known), vectors[known])


# ---------------------------------------------------------------- the fit


def _stop_words(language: str) -> frozenset[str]:
    """Return the stop words of scikit-learn for English, those of the package stop-words for other languages."""
    if language != "english":
        return text_analysis.listed_stop_words(language)
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

    return frozenset(ENGLISH_STOP_WORDS)


def _vocabulary(tokens: Sequence[str], stops: frozenset[str]) -> dict[str, int]:
    """Number the words, except stop words, that occur in the most texts; numbers follow the alphabet.

    Of words that occur in equally many, those without a digit come first, then the alphabet decides: the ids in a log
    must not take the places of words.
    """
    frequency = Counter(chain.from_iterable(set(joined.split()) - stops for joined in tokens))
    ranked = sorted(frequency, key=lambda word: (-frequency[word], bool(_DIGIT.search(word)), word))[:_VOCABULARY]
    return {word: i for i, word in enumerate(sorted(ranked))}


def _counts(tokens: Sequence[str], vocabulary: Mapping[str, int]) -> "csr_matrix[np.float32]":
    """Count the words of each text: shape (texts, words)."""
    from scipy.sparse import csr_matrix

    columns: list[int] = []
    ends = [0]
    for joined in tokens:
        columns += [vocabulary[word] for word in joined.split() if word in vocabulary]
        ends.append(len(columns))
    ones = np.ones(len(columns), dtype=np.float32)
    counts = csr_matrix((ones, np.array(columns, np.int32), np.array(ends, np.int32)), (len(tokens), len(vocabulary)))
    counts.sum_duplicates()
    return counts


def _idf(counts: "csr_matrix[np.float32]") -> Floats:
    """Compute the smooth inverse document frequency of each word: ln((1 + n) / (1 + df)) + 1."""
    n, words = counts.shape
    frequency = np.bincount(counts.indices, minlength=words)
    weights: Floats = (np.log((1 + n) / (1 + frequency)) + 1).astype(np.float32)
    return weights


def _tf_idf(counts: "csr_matrix[np.float32]", idf: Floats) -> "csr_matrix[np.float32]":
    """Compute rows of (1 + ln tf) idf, scaled to length one."""
    weights = counts.copy()
    weights.data = (1 + np.log(counts.data)) * idf[counts.indices]
    rows = np.repeat(np.arange(counts.shape[0]), np.diff(counts.indptr))
    lengths = np.sqrt(np.bincount(rows, weights.data.astype(np.float64) ** 2, minlength=counts.shape[0]))
    weights.data /= lengths[rows].astype(np.float32)
    return weights


def _projection(weights: "csr_matrix[np.float32]", dimensions: int, most: int, seed: int) -> Floats:
    """Compute the projection, shape (words, directions): right singular vectors over their singular values.

    There are `dimensions` directions, and more, up to `most`, while the next singular value is at least 1 or equals
    the last. Rows have length one, so a row that all these directions miss would need a value of 1 or more among the
    others; and where values are equal, rounding would choose. Values that are rounding errors are left out. Rows that
    `most` directions miss get random ones. Words that no direction reaches, though their texts are, get short random
    ones: a question of such a word alone has a vector, and the vectors of texts stay as they are but for 1e-5.
    """
    if weights.nnz == 0:
        return np.zeros((weights.shape[1], 1), dtype=np.float32)
    if weights.shape[0] <= _EXACT_PASSAGES:
        weights = weights.astype(np.float64)
    values, vectors = _singular_vectors(weights, dimensions, most, seed)
    significant = values > _SMALLEST_SINGULAR_VALUE * values[0]
    projection = (vectors[significant] / values[significant, np.newaxis]).T
    projection[np.linalg.norm(projection, axis=1) < _SMALLEST_LENGTH] = 0  # so that their texts count as missed
    blocks = [weights[start : start + _BLOCK] @ projection for start in range(0, weights.shape[0], _BLOCK)]
    missed = weights[np.concatenate([np.linalg.norm(block, axis=1) for block in blocks]) < _SMALLEST_LENGTH]
    random = np.random.default_rng(seed)
    if missed.shape[0]:
        directions = random.normal(size=(missed.shape[0], projection.shape[1]))
        projection = projection + missed.T @ (directions / np.sqrt(projection.shape[1]))
    unreached = np.linalg.norm(projection, axis=1) < _SMALLEST_LENGTH
    if unreached.any():
        directions = random.normal(size=(np.count_nonzero(unreached), projection.shape[1]))
        projection[unreached] = _SHORT_LENGTH * directions / np.linalg.norm(directions, axis=1, keepdims=True)
    return np.ascontiguousarray(projection, dtype=np.float32)


def _singular_vectors(
    weights: "csr_matrix[np.float32]", dimensions: int, most: int, seed: int
) -> tuple[Floats, Floats]:
    """Compute the largest singular values and their right singular vectors, as many as `_projection` describes."""
    from sklearn.utils.extmath import randomized_svd

    available = min(weights.shape)
    computed = min(dimensions + _OVERSAMPLES, available)
    while True:
        _, values, vectors = randomized_svd(weights, computed, n_oversamples=0, n_iter=4, random_state=seed)
        smallest = min(1.0, values[dimensions - 1]) * (1 - _EQUAL)
        count = min(np.count_nonzero(values >= smallest), most)
        if count <= computed - _OVERSAMPLES or computed == available:
            return values[:count], vectors[:count]
        computed = min(2 * computed, available)


def _id(folder: Path, language: str) -> str:
    """Hash the files of a fit, the language and the version of text analysis into an encoder id."""
    digest = hashlib.sha256(f"{text_analysis.VERSION} {language}".encode())
    for name in _FILES:
        with (folder / name).open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return f"lsa-{digest.hexdigest()[:16]}"

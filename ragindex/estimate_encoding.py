"""Estimates of what an encoder behind a paid service would cost, before any money is spent."""

import hashlib
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
from pydantic import Field

from ragindex.accounting import ledger
from ragindex.corpus import Corpus
from ragindex.encoders.common import normalize_rows
from ragindex.estimate import Estimate, has_tokenizer
from ragindex.index.index import Index
from ragindex.index.parts import topological_order, uses_encoder
from ragindex.interfaces import EncoderPlugin, Floats, Scheme
from ragindex.llm import tokens
from ragindex.llm.plugins import PaidPlugin
from ragindex.llm.prices import Prices
from ragindex.llm.settings import LLMSettings
from ragindex.plugins.base import Plugin
from ragindex.types import Query

_DIMENSIONS = 32
_COUNTED = "counted encoding"  # the task of what is counted here and costs nothing


def estimate_encoding(
    corpus: Corpus,
    schemes: Mapping[str, Scheme],
    encoder: Plugin,
    prices: Prices,
    *,
    queries: Sequence[Query] = (),
    language: str | None = None,
) -> list[Estimate]:
    """Estimate what encoding costs: one Estimate for the texts of the index, and one of `queries` for each method.

    A text counts as a call. Returns [] for an encoder that costs nothing. The parts that encode are built in a
    temporary folder with made-up vectors; texts that a language model would write are those of the rules. Of a question
    only its own text counts, not what a method searches for later.
    """
    name = getattr(encoder, "model", None)
    encoding = {label: scheme for label, scheme in schemes.items() if any(map(uses_encoder, scheme.parts()))}
    if not isinstance(encoder, PaidPlugin) or not isinstance(name, str) or not encoding:
        return []
    before_query, before_document = (getattr(encoder, f"{kind}_prefix", None) or "" for kind in ("query", "document"))
    asked = sum(tokens.count_text_tokens(f"{before_query}{query.text}", name).tokens for query in queries)
    counting = CountingEncoder(model=name, prefix=before_document)
    counts = [("encoding, index", *_count_indexing(corpus, encoding, counting, language))]
    counts += [(f"encoding, {label}", len(queries), asked) for label in encoding if queries]
    price, listed = getattr(encoder, "price", None), encoder.price_list(prices)
    return [
        Estimate(
            *(task, calls, read, 0),
            money=listed.money(name, read, 0, 0, requests=calls) if price is None else read * price / 1e6,
            sampled=False,
            counted=has_tokenizer(name),
            price_source=getattr(listed.find(name), "source", "") if price is None else "",
        )
        for task, calls, read in counts
    ]


def _count_indexing(
    corpus: Corpus, schemes: Mapping[str, Scheme], counting: "CountingEncoder", language: str | None
) -> tuple[int, int]:
    """Build the parts that encode; return how many texts were encoded, and their tokens."""
    parts = topological_order(part for scheme in schemes.values() for part in scheme.parts())
    with (
        tempfile.TemporaryDirectory() as folder,
        ledger.record_calls() as tally,
        Index.open(Path(folder), encoder=counting, language=language, chunking=corpus.chunking, create=True) as index,
    ):
        index.add(corpus.documents)
        index.build(*[part for part in parts if uses_encoder(part)])
    counted = [entry.input_tokens for entry in tally.entries if entry.task == _COUNTED]
    return len(counted), sum(counted)


class CountingEncoder(EncoderPlugin):
    """An encoder plugin that makes vectors up and records the tokens that the model's service would bill."""

    version: ClassVar[int] = 1
    model: str = Field(description="Model whose tokenizer counts the tokens.")
    prefix: str = Field(default="", description="Text put before each document.")

    def open(self, setting: LLMSettings | None = None) -> "MadeUpVectors":
        """Open the encoder; no request is sent."""
        return MadeUpVectors(self.model, self.prefix)


@dataclass(frozen=True)
class MadeUpVectors:
    """The encoder that `CountingEncoder` opens: the vector of a text is drawn by the hash of the text."""

    model: str
    prefix: str = ""
    dimensions: int = _DIMENSIONS

    @property
    def id(self) -> str:
        """Only used for temporary indexes."""
        return f"counting for {self.model}"

    def encode_documents(self, texts: Sequence[str]) -> Floats:
        """Return made-up vectors, and record the tokens of each text."""
        for text in texts:
            read = tokens.count_text_tokens(f"{self.prefix}{text}", self.model).tokens
            ledger.record_call(ledger.CallRecord(_COUNTED, self.id, input_tokens=read, replayed=True), 0.0)
        seeds = [int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest()) for text in texts]
        drawn = [np.random.default_rng(seed).standard_normal(self.dimensions) for seed in seeds]
        return normalize_rows(np.array(drawn).reshape(len(texts), self.dimensions))

    def encode_queries(self, texts: Sequence[str]) -> Floats:
        """Return the vectors of `encode_documents`."""
        return self.encode_documents(texts)

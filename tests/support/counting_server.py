"""A language model that counts with a tokenizer made here, for estimates held against what a run then uses."""

import json
import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import tiktoken
from made_language import answering
from openai_server import OpenAIServer

from ragindex.accounting.ledger import Tally, record_calls
from ragindex.corpus import Corpus
from ragindex.index.index import Index
from ragindex.interfaces.llm import LLMSettings
from ragindex.llm import tokens
from ragindex.plugins import registry

ENCODING = tiktoken.Encoding(
    "words and signs", pat_str=r"\w+|\s|[^\w\s]", mergeable_ranks={bytes([n]): n for n in range(256)}, special_tokens={}
)
SCHEMES = [registry.scheme("bm25(over=triples)")]
LLM = registry.llm("openai:small")


def count_tokens(text: str) -> int:
    return len(ENCODING.encode(text))


def write_triples(body: Mapping[str, Any]) -> str:
    """Longer than the rules' answers, and not always as long."""
    rng = random.Random(body["messages"][-1]["content"])
    triples = [[f"subject {n}", "is related to", f"object {n}"] for n in range(rng.randrange(6, 13))]
    return json.dumps({"entities": [f"object {n}" for n in range(10)], "triples": triples})


@contextmanager
def counting(
    monkeypatch: pytest.MonkeyPatch, folder: Path, write: Callable[[Mapping[str, Any]], str] = write_triples
) -> Iterator[OpenAIServer]:
    """A server of `openai:small`, which has a price, and whose tokenizer is known here and to the server."""
    prices = folder / "prices.yaml"
    prices.write_text("models:\n  small: {input: 1.0, output: 4.0}\n")
    monkeypatch.setattr(tokens, "load_tokenizer", lambda model: ENCODING if model.startswith("small") else None)
    monkeypatch.setenv("RAGINDEX_PRICES", str(prices))
    with answering(monkeypatch, write) as running:
        running.count = count_tokens
        monkeypatch.setenv("OPENAI_BASE_URL", running.url)
        yield running


def build_and_count(corpus: Corpus, folder: Path, setting: LLMSettings) -> Tally:
    """Build SCHEMES over the corpus and return what was asked for it."""
    with (
        record_calls() as tally,
        Index.open(folder, llm=LLM, chunking=None, llm_settings=setting, create=True) as workspace,
    ):
        workspace.add(corpus.documents)
        workspace.build(*SCHEMES)
    return tally

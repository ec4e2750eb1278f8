"""What trees cost, estimated before anything is spent, against what a build then uses: each call of each level."""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from counting_server import LLM, counting
from made_trees import task_of
from openai_server import OpenAIServer

from ragindex.accounting.ledger import record_calls
from ragindex.corpus import Corpus
from ragindex.estimate import Estimate, EstimateScope, estimate
from ragindex.index.index import Index
from ragindex.interfaces.llm import LLMSettings
from ragindex.llm.cache import SQLiteCache
from ragindex.plugins import registry
from ragindex_eval.data import worlds

SIRERAG = [registry.scheme("sirerag")]
_NAME = re.compile(r"[A-Z]\w+(?: [A-Z]\w+)*")


def answer(body: Mapping[str, Any]) -> str:
    """A summary twice as long as the rules', and sentences as propositions of the names in them."""
    shown = str(body["messages"][-1]["content"])
    if task_of(body) == "summary":
        return json.dumps({"summary": " ".join(str(body["messages"][1]["content"]).split()[:200])})
    text = shown.rpartition("Paragraph:\n")[2]
    if task_of(body) == "paragraph":
        return json.dumps({"paragraph": text})
    if task_of(body) == "entities":
        names = dict.fromkeys(_NAME.findall(text))
        return json.dumps({"entities": [{"name": name, "type": "name"} for name in names]})
    facts = [(line, _NAME.findall(line)) for line in re.split(r"(?<=\.)\s+", text)]
    return json.dumps({"propositions": [{"text": t, "triplets": [[n, "is", n] for n in names]} for t, names in facts]})


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[OpenAIServer]:
    with counting(monkeypatch, tmp_path, answer) as running:
        yield running


def near(estimated: list[Estimate], used: Mapping[str, tuple[int, int, int]]) -> dict[str, tuple[float, ...]]:
    """By task, calls, tokens in and tokens out of the estimate as shares of those used."""
    return {
        task.task: tuple(
            guess / real
            for guess, real in zip((task.calls, task.input_tokens, task.output_tokens), used[task.task], strict=True)
        )
        for task in estimated
    }


def test_rewriting_propositions_and_every_level_are_estimated(server: OpenAIServer, tmp_path: Path) -> None:
    """docs/dev/evidence/sirerag.md: a call a passage exactly, summaries within a third, sampled within 15 %."""
    corpus = Corpus("world", "world", tuple(worlds.make_documents(80)), 0, (), True)
    setting = LLMSettings(cache=SQLiteCache(tmp_path / "calls.sqlite"))
    plain = estimate(corpus, SIRERAG, LLM, LLMSettings())
    assert server.requests == []
    sampled = estimate(corpus, SIRERAG, LLM, setting, EstimateScope(sample=40))
    with (
        record_calls() as tally,
        Index.open(tmp_path / "w", llm=LLM, chunking=None, llm_settings=setting, create=True) as workspace,
    ):
        workspace.add(corpus.documents)
        workspace.build(*SIRERAG)
    calls = Counter(entry.task for entry in tally.entries)
    read, written = (
        {task: sum(getattr(entry, name) for entry in tally.entries if entry.task == task) for task in calls}
        for name in ("input_tokens", "output_tokens")
    )
    used = {task: (calls[task], read[task], written[task]) for task in calls}
    assert set(used) == {"rewrite", "entities", "propositions", "summary"}

    for task in ("rewrite", "entities", "propositions"):
        assert near(plain, used)[task][0] == 1
        assert near(sampled, used)[task] == pytest.approx((1, 1, 1), abs=0.1)
    assert near(plain, used)["summary"][:2] == pytest.approx((1, 1), abs=1 / 3)
    assert near(sampled, used)["summary"] == pytest.approx((1, 1, 1), abs=0.15)

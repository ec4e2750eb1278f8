"""The estimate of aliases judged by a model, against a run."""

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from made_language import answering
from openai_server import OpenAIServer

from ragindex.accounting import ledger
from ragindex.corpus import Corpus
from ragindex.estimate import estimate
from ragindex.index.index import Index
from ragindex.interfaces.llm import LLMSettings
from ragindex.llm.openai_compatible import OpenAICompatibleChat
from ragindex.parts.triples.extractions import EXTRACT
from ragindex.plugins import registry
from ragindex_eval.data import worlds


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenAIServer]:
    with answering(monkeypatch) as running:
        yield running


def test_an_estimate_counts_the_calls_of_a_run(
    server: OpenAIServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Exactly, where the model finds the triples that the rules find and the encoder is lsa."""

    def write(body: Mapping[str, Any]) -> str:
        shown = str(body["messages"][-1]["content"])
        if shown.startswith("Name: "):
            return '{"same": false}'
        title, _, text = shown.removeprefix("Title: ").partition("\n\n")
        assert EXTRACT.rule is not None
        inputs = {"title": title, "text": text, "language": "english", "numbers_as_entities": False}
        return EXTRACT.rule(inputs).model_dump_json()

    server.write = write
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    corpus = Corpus("world", "world", tuple(worlds.make_documents(60)), 0, (), True)
    schemes, llm = [registry.scheme("griever(same_as=llm)")], OpenAICompatibleChat(model="small")
    expected = {entry.task: entry.calls for entry in estimate(corpus, schemes, llm, LLMSettings())}
    assert server.requests == []
    with (
        ledger.record_calls() as tally,
        Index.open(tmp_path / "w", llm=llm, chunking=None, encoder="lsa", create=True) as workspace,
    ):
        workspace.add(corpus.documents)
        workspace.build(*schemes)
    counted = Counter(entry.task for entry in tally.entries)
    assert counted.keys() == expected.keys()
    assert expected["extract"] == counted["extract"] == 60
    assert counted["same_as"] > 10
    assert expected["same_as"] == round(0.6 * counted["same_as"])  # others find fewer names than rules

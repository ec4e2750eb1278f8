"""What a comparison encodes for its questions: each text is paid for once, by whichever method and for whatever."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import ragindex
from till import PAID, SAID, Till, billing, open_desk

GEAR = {
    "entities": ["Grey Anna", "Sarn"],
    "triples": [["Grey Anna", "is", "a hill"], ["Sarn", "carries", "slate"], ["Quill", "is made of", "slate"]],
    "answerable": False,
    "why": "The river is missing.",
    "question": "Which river carries slate?",
}


@pytest.fixture
def till(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Till]:
    with billing() as running:
        open_desk(running, tmp_path, monkeypatch)
        running.server.write = lambda body: json.dumps({**SAID, **GEAR})
        yield running


def test_texts_that_gear_compares_with_a_question_are_paid_once(till: Till) -> None:
    """Its times are measured after its answers, with the same texts."""
    assert ragindex("index", "notes", "--index", "i", "--methods", "dense,gear", *PAID).code == 0
    till.server.requests.clear()
    done = ragindex(
        *("compare", "notes", "--questions", "questions.csv", "--methods", "dense,gear", *PAID),
        *("--index", "i", "--out", "o", "--json", "-"),
    )
    assert done.code == 0, done.err
    texts = Counter(
        text
        for received in till.server.requests
        if received.path == "/v1/embeddings"
        for text in received.body["input"]
    )
    assert any("|" in text or "Sarn carries" in text for text in texts), sorted(texts)
    assert {text: times for text, times in texts.items() if times > 1} == {}

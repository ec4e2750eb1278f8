"""What a comparison encodes for its questions: each text is paid for once, by whichever method and for whatever."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import ragindex
from openai_server import slow
from till import PAID, SAID, Till, billing, checked, of_comparison, open_desk

METHODS = "dense,hybrid,composed,links,parent(base=dense)"
QUESTIONS = ("Which hill is highest?", "Slate?")
GIVEN = ("notes", "--questions", "questions.csv")
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


def count_texts(till: Till) -> Counter[str]:
    """How often each text was encoded."""
    return Counter(text for request in till.server.requests for text in request.body.get("input", ()))


def test_texts_that_gear_compares_with_a_question_are_paid_once(till: Till) -> None:
    """Its times are measured after its answers, with the same texts."""
    assert ragindex("index", "notes", "--index", "i", "--methods", "dense,gear", *PAID).code == 0
    till.server.requests.clear()
    done = ragindex("compare", *GIVEN, "--methods", "dense,gear", *PAID, "--index", "i", "--json", "-")
    assert done.code == 0, done.err
    texts = count_texts(till)
    assert any("|" in text or "Sarn carries" in text for text in texts), sorted(texts)
    assert {text: times for text, times in texts.items() if times > 1} == {}


def test_a_comparison_pays_once_for_the_vector_of_a_question(till: Till) -> None:
    till.server.choose = lambda received, earlier: (
        slow(0.05) if received.body.get("input", [""])[0] in QUESTIONS else None
    )
    done = ragindex("compare", *GIVEN, "--methods", METHODS, "--encoder", "openai:vectors", "--json", "-")
    assert done.code == 0, done.err
    texts = count_texts(till)
    assert [texts[question] for question in QUESTIONS] == [1, 1]
    checked(till, of_comparison(done.json))
    methods = {method["label"]: method for method in done.json["methods"]}
    per_question = {label: method["usage"]["query"]["money"] for label, method in methods.items()}
    assert len(set(per_question.values())) == 1, per_question  # as if each method were asked alone
    assert per_question["dense"] > 0
    for label, method in methods.items():  # every method waits for its vector
        assert method["latency_ms"]["encoder"]["p50"] >= 50, label
        assert method["latency_ms"]["p50"] >= 50, label
        assert method["latency_ms"]["own"]["p50"] < 50, label


def test_a_race_pays_once_too(till: Till) -> None:
    command = ("recommend", *GIVEN, "--methods", "dense,hybrid,composed")
    done = ragindex(*command, "--encoder", "openai:vectors", "--json", "-")
    assert done.code == 0, done.err
    texts = count_texts(till)
    assert [texts[question] for question in QUESTIONS] == [1, 1]
    checked(till, done.json["paid"])

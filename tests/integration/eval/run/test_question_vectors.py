"""The vector of a question is paid for once in a comparison, whichever methods ask for it."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import ragindex
from openai_server import slow
from till import Till, billing, checked, of_comparison, open_desk

METHODS = "dense,hybrid,composed,links,parent(base=dense)"
QUESTIONS = ("Which hill is highest?", "Slate?")


@pytest.fixture
def till(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Till]:
    with billing() as running:
        open_desk(running, tmp_path, monkeypatch)
        yield running


def count_questions(till: Till) -> Counter[str]:
    """How often each question was encoded."""
    texts = [text for request in till.server.requests for text in request.body.get("input", ())]
    return Counter(text for text in texts if text in QUESTIONS)


def test_a_comparison_pays_once_for_the_vector_of_a_question(till: Till) -> None:
    till.server.choose = lambda received, earlier: (
        slow(0.05) if received.body.get("input", [""])[0] in QUESTIONS else None
    )
    command = ("compare", "notes", "--questions", "questions.csv", "--methods", METHODS, "--encoder", "openai:vectors")
    done = ragindex(*command, "--json", "-")
    assert done.code == 0, done.err
    assert count_questions(till) == dict.fromkeys(QUESTIONS, 1)
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
    command = ("recommend", "notes", "--questions", "questions.csv", "--methods", "dense,hybrid,composed")
    done = ragindex(*command, "--encoder", "openai:vectors", "--json", "-")
    assert done.code == 0, done.err
    assert count_questions(till) == dict.fromkeys(QUESTIONS, 1)
    checked(till, done.json["paid"])

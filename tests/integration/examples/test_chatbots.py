"""The chatbots in examples/, with a server that speaks OpenAI's protocol, and without a model."""

import runpy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from made_library import build_library
from openai_server import KEY, OpenAIServer
from project import ROOT

EXAMPLES = ROOT / "examples"
CHATBOTS = ["chatbot.py", "chatbot_langchain.py"]
PLACE = "light, characters 0-42"


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_library(tmp_path_factory.mktemp("library") / "index")


@pytest.fixture
def talk(library: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """What a chatbot prints when these lines are given, and then an empty one."""

    def printed(name: str, *lines_typed: str, model: str | None = None) -> list[str]:
        lines = iter([*lines_typed, ""])
        monkeypatch.setattr("builtins.input", lambda prompt: next(lines))
        main = runpy.run_path(str(EXAMPLES / name))["main"]
        main(str(library), "bm25", *([model] if model else []))
        return capsys.readouterr().out.splitlines()

    return printed


def answer(body: Mapping[str, Any]) -> str:
    """Rewrite a follow-up question; answer with the number of the passage about the lighthouse."""
    system = next(message["content"] for message in body["messages"] if message["role"] == "system")
    if system.startswith("Write the last question"):
        return "What was the lighthouse built of?"
    number = next(line for line in system.splitlines() if line.endswith("] Lighthouse")).partition(" ")[0]
    return f"Of slate {number}." if "of?" in body["messages"][-1]["content"] else f"In 1931 {number}."


@pytest.mark.parametrize("name", CHATBOTS)
def test_chatbot_cites_and_remembers(name: str, talk: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with OpenAIServer() as server:
        server.write = answer
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        printed = talk(name, "When was the lighthouse built?", "And what of?", model="any-model")
    cited = f"  [1] Lighthouse  {PLACE}"
    if name == "chatbot.py":
        cited = "  [1] Lighthouse  light, page 3, Lighthouse › History"
    assert printed == ["Ask a question; an empty line ends.", "In 1931 [1].", cited, "Of slate [1].", cited]
    first, rewritten, second = (request.body["messages"] for request in server.requests)
    assert [message["role"] for message in first] == ["system", "user"]
    assert "[1] Lighthouse\nThe lighthouse was built of slate in 1931." in first[0]["content"]
    assert [message["content"] for message in rewritten[:3]] == [
        "When was the lighthouse built?",
        "In 1931 [1].",
        "And what of?",
    ]
    assert [message["role"] for message in second] == ["system", "user", "assistant", "user"]


@pytest.mark.parametrize("name", CHATBOTS)
def test_chatbot_without_model_shows_hits(name: str, talk: Any) -> None:
    printed = talk(name, "Which lighthouse is of slate?")
    place = "light, page 3, Lighthouse › History" if name == "chatbot.py" else PLACE
    sentence = "      The lighthouse was built of slate in 1931."
    assert printed == ["Ask a question; an empty line ends.", f"  [1] Lighthouse  {place}", sentence]


def test_chatbots_are_short_and_the_page_names_them() -> None:
    files = {file.name: file.read_text(encoding="utf-8") for file in sorted(EXAMPLES.glob("*.py"))}
    assert list(files) == CHATBOTS
    assert max(len(text.splitlines()) for text in files.values()) <= 50
    page = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    assert [name for name in files if f"[{name}]({name})" not in page] == []

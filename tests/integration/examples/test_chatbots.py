"""The chatbots in examples/, run as programs: with a server that speaks OpenAI's protocol, and without a model."""

import os
import subprocess
import sys
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


def talk(name: str, said: str, *arguments: object, **variables: str) -> list[str]:
    """What a chatbot prints, without the prompts for input."""
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name), *map(str, arguments)],
        input=said,
        capture_output=True,
        text=True,
        env={**os.environ, **variables},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.replace("> ", "").splitlines()


def answer(body: Mapping[str, Any]) -> str:
    """Rewrite a follow-up question; answer with the number of the passage about the lighthouse."""
    system = next(message["content"] for message in body["messages"] if message["role"] == "system")
    if system.startswith("Write the last question"):
        return "What was the lighthouse built of?"
    number = next(line for line in system.splitlines() if line.endswith("] Lighthouse")).partition(" ")[0]
    return f"Of slate {number}." if "of?" in body["messages"][-1]["content"] else f"In 1931 {number}."


@pytest.mark.parametrize("name", CHATBOTS)
def test_it_answers_with_citations_and_remembers(name: str, library: Path) -> None:
    with OpenAIServer() as server:
        server.write = answer
        said = "When was the lighthouse built?\nAnd what of?\n\n"
        variables = {"OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": KEY}
        printed = talk(name, said, library, "bm25", "any-model", **variables)
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
def test_without_a_model_it_shows_what_it_found(name: str, library: Path) -> None:
    printed = talk(name, "Which lighthouse is of slate?\n\n", library, "bm25")
    place = "light, page 3, Lighthouse › History" if name == "chatbot.py" else PLACE
    sentence = "      The lighthouse was built of slate in 1931."
    assert printed == ["Ask a question; an empty line ends.", f"  [1] Lighthouse  {place}", sentence]


@pytest.mark.parametrize("name", CHATBOTS)
def test_it_has_at_most_50_lines(name: str) -> None:
    assert len((EXAMPLES / name).read_text(encoding="utf-8").splitlines()) <= 50


def test_the_page_names_every_example() -> None:
    page = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    assert [file.name for file in sorted(EXAMPLES.glob("*.py")) if f"[{file.name}]({file.name})" not in page] == []
    assert sorted(file.name for file in EXAMPLES.glob("*.py")) == CHATBOTS

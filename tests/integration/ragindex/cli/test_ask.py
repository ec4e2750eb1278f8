"""The command `ask`, over a small workspace: answers by rule and by a model."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import typer
from built_retriever import built_retriever
from click.testing import Result
from command_line import NOTHING_SPENT, ragindex
from openai_server import KEY, OpenAIServer
from typer.testing import CliRunner

from ragindex import Document
from ragindex.cli.ask import ask
from ragindex.cli.search import search
from ragindex.errors import LLMError, MissingPartError, UsageError, WorkspaceError
from ragindex.index.index import Index
from ragindex.llm import openai_chat

QUESTION = "Which hill is the highest of the north?"
TEXTS = {
    "Grey Anna": "Grey Anna is the highest hill of the north.",
    "Sarn": "The Sarn is a river that carries barges with slate.",
    "Orla": "The Orla is a short river with eleven gorges.",
}


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ask")
    with Index.open(folder, create=True) as opened:
        opened.add(Document(f"{title[-4:].lower()}.md", title, text) for title, text in TEXTS.items())
        built_retriever(opened, "bm25")
    return folder


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenAIServer]:
    monkeypatch.setattr(openai_chat, "_memories", {})
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with OpenAIServer() as running:
        monkeypatch.setenv("OPENAI_BASE_URL", running.url)
        yield running


def run(*arguments: object) -> Result:
    app = typer.Typer()
    app.command()(ask)
    return CliRunner().invoke(app, [str(argument) for argument in arguments], catch_exceptions=False)


def lines(result: Result) -> list[str]:
    assert result.exit_code == 0
    return result.stdout.splitlines()


NOT_COMPOSED = "No answer was composed: no model is set. Set one with --llm openai:MODEL, and OPENAI_API_KEY."


def test_as_json(workspace: Path, tmp_path: Path) -> None:
    output = run(QUESTION, "--index", workspace, "--method", "bm25", "-k", 3, "--json", tmp_path / "answer.json")
    assert lines(output)[0] == "[1] Grey Anna  anna.md, characters 0-43"
    alone = run(QUESTION, "--index", workspace, "--method", "bm25", "-k", 3, "--json", "-")
    assert json.loads(alone.stdout) == json.loads((tmp_path / "answer.json").read_text())
    assert json.loads(alone.stdout) == {
        "question": QUESTION,
        "answer": "",
        "found": True,
        "rests_on": [1],
        "sentences": [{"passage": 1, "text": "Grey Anna is the highest hill of the north."}],
        "missing": [],
        "passages": [
            {
                "number": 1,
                "id": "anna.md#0",
                "doc_ids": ["anna.md"],
                "positions": [{"doc_id": "anna.md", "start": 0, "end": 43, "page": None, "headings": []}],
                "title": "Grey Anna",
                "text": "Grey Anna is the highest hill of the north.",
            }
        ],
        "tokens": 15,
        "encoder": None,
        "llm": "offline",
        "reader": "offline",
        "rules": True,
        "spent": NOTHING_SPENT,
    }


def test_passages_with_too_few_words_of_the_question(workspace: Path) -> None:
    arguments = ("What is the highest point of Mongolia?", "--index", workspace, "--method", "bm25")
    assert lines(run(*arguments)) == [
        "Nothing was found: no hit contains Mongolia. The nearest passages:",
        "[1] Grey Anna  anna.md, characters 0-43",
        f"{NOT_COMPOSED} 1 of 1 hit read, 15 tokens.",
    ]
    value = json.loads(run(*arguments, "--json", "-").stdout)
    shown = {name: value[name] for name in ("answer", "found", "rests_on", "sentences", "missing")}
    assert shown == {"answer": "", "found": False, "rests_on": [], "sentences": [], "missing": ["Mongolia"]}


def test_words_that_only_other_passages_contain_are_said_to_be_there(workspace: Path) -> None:
    arguments = ("Barges, gorges, Mongolia?", "--index", workspace, "--method", "bm25", "-k", 1)
    (first, *_) = lines(run(*arguments))
    assert first == (
        "Nothing was found: no hit contains Barges, Mongolia. Other passages contain Barges: try --method bm25, or a "
        "larger --k. The nearest passages:"
    )


@pytest.mark.parametrize("command", [ask, search])
def test_a_paid_encoder_is_asked_once_for_a_question(
    command: Callable[..., None], tmp_path: Path, server: OpenAIServer
) -> None:
    with Index.open(tmp_path / "w", encoder="openai:small", create=True) as opened:
        opened.add([Document("a", "Sarn", TEXTS["Sarn"])])
        built_retriever(opened, "dense")
    before = len(server.requests)
    app = typer.Typer()
    app.command()(command)
    arguments = [QUESTION, "--index", str(tmp_path / "w"), "--method", "dense"]
    assert CliRunner().invoke(app, arguments, catch_exceptions=False).exit_code == 0
    assert [request.body["input"] for request in server.requests[before:]] == [[QUESTION]]


def test_nothing_is_found(workspace: Path, server: OpenAIServer) -> None:
    arguments = ("Plutonium?", "--index", workspace, "--method", "bm25", "--llm", "openai:small")
    assert lines(run(*arguments)) == ["No passages were retrieved."]
    value = json.loads(run(*arguments, "--json", "-").stdout)
    assert (value["answer"], value["found"], value["passages"], value["rules"]) == ("", False, [], False)
    assert server.requests == []  # there was nothing to read


def test_a_model_answers(workspace: Path, server: OpenAIServer) -> None:
    server.write = lambda body: json.dumps({"answer": "the Orla", "passages": [1], "found": True})
    arguments = ("Which river is short?", "--index", workspace, "--method", "bm25", "-k", 2, "--llm", "openai:small")
    first = ragindex("ask", *arguments).out.splitlines()
    assert first[:3] == [
        "the Orla",
        "[1] Orla  orla.md, characters 0-45",
        "The Orla is a short river with eleven gorges.",
    ]
    assert first[3] == "Answered by openai:small; 2 of 2 hits read, 30 tokens."
    assert "[2] Sarn\n" in server.requests[0].body["messages"][1]["content"]
    assert first[4:] == ["Spent: 263 tokens, no price is known for small."]
    assert lines(run(*arguments)) == first[:4]
    assert len(server.requests) == 1  # the answer was kept
    less = lines(run(*arguments, "--reader-tokens", 20))
    assert less[3] == "Answered by openai:small; 1 of 2 hits read, 14 tokens."


def test_a_guess_is_not_shown_and_an_answer_without_a_passage_says_so(workspace: Path, server: OpenAIServer) -> None:
    server.write = lambda body: json.dumps({"answer": "the Rhine", "passages": [], "found": False})
    arguments = ("Which river is long?", "--index", workspace, "--method", "bm25", "-k", 1, "--llm", "openai:small")
    shown = lines(run(*arguments))
    assert shown[0] == "The retrieved passages do not contain the answer."
    assert "Rhine" not in "".join(shown)
    value = json.loads(run(*arguments, "--json", "-").stdout)
    assert (value["answer"], value["found"], value["rules"]) == ("the Rhine", False, False)
    server.write = lambda body: json.dumps({"answer": "Sarn", "passages": [], "found": True})
    shown = lines(run("Slate?", "--index", workspace, "--method", "bm25", "--llm", "openai:small"))
    assert shown[:2] == ["Sarn", "The answer cites no passage."]


def test_what_cannot_be_asked(workspace: Path, tmp_path: Path, server: OpenAIServer) -> None:
    with pytest.raises(UsageError, match="The question is empty"):
        run(" ", "--index", workspace)
    with pytest.raises(WorkspaceError, match="No index in"):
        run(QUESTION, "--index", tmp_path / "none")
    with pytest.raises(
        MissingPartError,
        match=r"not built for dense with the encoder lsa\. Built: bm25, ircot\. Run: .* --methods dense$",
    ):
        run(QUESTION, "--index", workspace, "--method", "dense")
    server.write = lambda body: "I would rather not."
    with pytest.raises(LLMError, match="answer: small gave no usable answer"):
        run("Grey hill?", "--index", workspace, "--method", "bm25", "--llm", "openai:small")

"""Prompts of one's own: a file with templates by task, which the requests then have, and the identity of answers."""

import json
from pathlib import Path

import pytest
from made_language import ECHO, QUICK, answering
from openai_server import Received

import ragindex
from ragindex.errors import DataError, UsageError
from ragindex.interfaces.llm import LLMSettings
from ragindex.llm.cache import SQLiteCache
from ragindex.llm.openai_compatible import OpenAICompatibleChat
from ragindex.llm.tasks import render_messages
from ragindex.plugins import registry
from ragindex.testing import DOCUMENTS

OWN = "echo: |\n  [system]\n  Repeat it as the paper says.\n\n  [user]\n  Here: {{ text }}\n"


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("paper.yaml").write_text(OWN)
    return Path("paper.yaml")


def test_requests_have_the_prompt_of_the_file(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with answering(monkeypatch) as server:
        plain = OpenAICompatibleChat(model="small", base_url=server.url)
        own = OpenAICompatibleChat(model="small", base_url=server.url, prompts=str(file))
        setting = LLMSettings(clock=QUICK, cache=SQLiteCache(Path("calls.sqlite")))
        for plugin in (plain, own, own, plain):
            assert plugin.open(setting).run(ECHO, {"text": "a hill"}).text
        assert len(own.open(setting).map(ECHO, [{"text": "a hill"}, {"text": "a river"}])) == 2
        assert own.open(setting).find_answer(ECHO, {"text": "a river"}) is not None
        assert plain.open(setting).find_answer(ECHO, {"text": "a river"}) is None
    first, *rest = [_list_messages(request) for request in server.requests]
    assert first == [message.content for message in render_messages(ECHO, {"text": "a hill"})]
    assert rest == [
        ["Repeat it as the paper says.", "Here: a hill"],
        ["Repeat it as the paper says.", "Here: a river"],
    ]
    assert plain.open(setting).id != own.open(setting).id


def _list_messages(request: Received) -> list[str]:
    return [str(message["content"]) for message in request.body["messages"]]


def test_the_file_is_named_with_its_content(file: Path) -> None:
    named = OpenAICompatibleChat(model="small", prompts=str(file)).prompts
    assert named is not None
    assert named.startswith("paper.yaml#")
    assert OpenAICompatibleChat(model="small", prompts=named).own_prompts.keys() == {"echo"}
    file.write_text(OWN.replace("Repeat", "Say"))
    with pytest.raises(UsageError, match=r"The prompts in paper\.yaml have changed"):
        OpenAICompatibleChat(model="small", prompts=named)
    assert OpenAICompatibleChat(model="small", prompts=str(file)).prompts != named


def test_the_file_is_read_once(file: Path) -> None:
    plugin = OpenAICompatibleChat(model="small", prompts=str(file))
    file.unlink()
    assert plugin.own_prompts.keys() == {"echo"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- a list", "Input should be a valid dictionary"),
        ("echo: [1]", "Input should be a valid string"),
        ("echo: |\n  [system]\n  alone", "a prompt of echo"),
        ("echo: '{% if %}'", "a prompt of echo"),
        ("echo: 'a: b: c", "while scanning"),
    ],
)
def test_files_that_hold_no_prompts(text: str, message: str, file: Path) -> None:
    file.write_text(text)
    with pytest.raises(DataError, match=message):
        OpenAICompatibleChat(model="small", prompts=str(file))
    with pytest.raises(DataError, match="No such file"):
        OpenAICompatibleChat(model="small", prompts="none.yaml")


@pytest.mark.parametrize("template", ["{{ ''.__class__.__mro__ }}", "{{ title }}"])
def test_a_template_reads_its_inputs_alone(template: str, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.write_text(f'echo: "{template}"')
    with answering(monkeypatch) as server:
        own = OpenAICompatibleChat(model="small", base_url=server.url, prompts=str(file))
        with pytest.raises(UsageError, match="The prompt of echo"):
            own.open(LLMSettings(clock=QUICK)).run(ECHO, {"text": "a hill"})
    assert server.requests == []


def test_a_prompt_of_an_unknown_task_is_refused(file: Path) -> None:
    file.write_text("judge: |\n  [user]\n  Say.\ngear-read: |\n  [user]\n  Say.\n")
    assert registry.llm("openai(model=small, prompts=paper.yaml)").own_prompts.keys() == {"judge", "gear-read"}  # type: ignore[attr-defined]
    file.write_text("anwser: |\n  [user]\n  Say.\n")
    with pytest.raises(
        UsageError, match=r"has a prompt for 'anwser', and there is no such task\. Did you mean answer\?"
    ):
        registry.llm("openai(model=small, prompts=paper.yaml)")


@pytest.mark.parametrize("pack", [True, False])
def test_an_export_has_the_prompts_with_it(pack: bool, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.write_text("thought: |\n  [user]\n  Paper says: {{ question }}\n")
    with answering(monkeypatch) as server:
        server.write = lambda body: json.dumps({"thought": "So the answer is: Rome."})
        llm = OpenAICompatibleChat(model="small", base_url=server.url, prompts=str(file.absolute()))
        with ragindex.open("index", llm=llm, create=True) as index:
            index.add(DOCUMENTS)
            index.build("ircot")
            export = index.export("ircot", "retriever", pack=pack)
        file.unlink()
        with ragindex.load(export.path, allow_hosts=["127.0.0.1"], into="unpacked" if pack else None) as retriever:
            retriever.search("Which emperor finished the Pantheon?")
    assert {text for request in server.requests for text in _list_messages(request)} == {
        "Paper says: Which emperor finished the Pantheon?"
    }

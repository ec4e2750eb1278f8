"""An index has one encoder, LLM and seed of its own: commands use them, and say so, unless others are asked for."""

import re
import shlex
from collections.abc import Sequence
from pathlib import Path

import pytest
from command_line import make_desk, ragindex
from encoder_commands import ONE, STEPS, TWO, WRITING, Step, play_all, search
from hypothesis import example, given, settings
from hypothesis import strategies as st

from examples import RANDOM
from ragindex.index.manifest import read_manifest

STORES = ("lancedb", "lancedb(memory_gib=0)")  # searched in memory, and beyond it


@pytest.fixture(autouse=True)
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return make_desk(tmp_path, monkeypatch)


SAVED = [Step("compare", ONE), Step("compare", TWO), Step("compare", ONE), Step("gate")]
PRICED = [Step("recommend", ONE, 7), Step("compare"), Step("search", TWO), Step("index", TWO)]


@settings(max_examples=3 if RANDOM else 1)  # two more are written out below
@given(steps=st.lists(STEPS, min_size=2, max_size=4), store=st.sampled_from(STORES))
@example(steps=SAVED, store=STORES[0])
@example(steps=PRICED, store=STORES[1])
def test_commands_answer_with_the_encoder_that_they_name(steps: Sequence[Step], store: str) -> None:
    play_all(steps, store)


def pasted(text: str) -> list[str]:
    """The arguments of the first command after `Run: `, `all figures` or `compare by them` in an output."""
    command = re.search(r"(?:Run: |all figures +|compare by them +)ragindex (.+)", text)
    assert command is not None, text
    return shlex.split(command[1])


def test_printed_commands_name_what_is_not_the_own() -> None:
    assert ragindex(*WRITING["index"], "--index", "w").code == 0
    arguments = ("--encoder", ONE, "--store", STORES[1], "--seed", "7")
    for command in (("search", "slate"), ("ask", "slate"), ("export",)):
        missing = ragindex(*command, "--index", "w", "--method", "dense", *arguments)
        assert pasted(missing.err) == ["index", "--index", "w", "--methods", "dense", *arguments]
    assert ragindex(*pasted(missing.err)).code == 0
    assert search().json["encoder"] == f"{ONE}, seed 7"
    assert pasted(search("--encoder", TWO).err)[-2:] == ["--encoder", TWO]


def test_what_recommend_and_judge_print_asks_the_same_index() -> None:
    chosen = ragindex(*WRITING["recommend"], "--index", "w", "--encoder", ONE)
    assert f"\ndense rests on vectors of {ONE}, learnt from these documents alone." in chosen.out
    judged = ragindex("judge", "notes", "questions.txt", "--index", "w", "--methods", "dense", "--out", "judged")
    of_index = ragindex("judge", "w", "questions.txt", "--methods", "dense", "--out", "judged of index")
    for printed, data in ((chosen, ["notes"]), (judged, ["notes"]), (of_index, [])):
        assert printed.code == 0, printed.err
        words = pasted(printed.out)
        assert words[: len(data) + 3] == ["compare", *data, "--index", "w"]
        words[words.index("--questions") + 1] = "questions.csv"  # nobody has judged anything
        assert ragindex(*words, "--json", "-").json["encoder"] == ONE


def test_llm_store_and_language_are_those_of_the_index(monkeypatch: pytest.MonkeyPatch) -> None:
    given = ("--llm", "openai:gpt-4o-mini", "--store", STORES[1], "--language", "german")
    assert ragindex(*WRITING["index"], "--index", "w", *given).code == 0
    for command in WRITING.values():
        assert ragindex(*command, "--index", "w").code in (0, 13)
        manifest = read_manifest(Path("w"))
        assert manifest is not None
        assert manifest.llm["params"]["model"] == "gpt-4o-mini"
    report = ragindex(*WRITING["compare"], "--index", "w", "--json", "-").json
    assert (report["store"], report["language"]) == (STORES[1], "german")

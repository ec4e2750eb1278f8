"""An index has one encoder, LLM and seed of its own: commands use them, and say so, unless others are asked for."""

import json
import re
import shlex
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import pytest
from command_line import TEXTS, Done, make_desk, ragindex, write
from hypothesis import example, given, settings
from hypothesis import strategies as st

from examples import examples
from ragindex.workspace.manifest import read_manifest

pytestmark = pytest.mark.usefixtures("few_rounds")

ASKED = ("notes", "--questions", "questions.csv")
WRITING = {
    "index": ("index", "notes", "--methods", "dense"),
    "compare": ("compare", *ASKED, "--methods", "bm25,dense", "--k", "1"),
    "recommend": ("recommend", *ASKED, "--methods", "bm25,dense"),
    "gate": ("gate", "dense", "--against", "bm25", "--data", *ASKED, "--margin", "1"),
}
ONE, TWO = "lsa(dimensions=1)", "lsa(dimensions=2)"
STORES = ("lancedb", "lancedb(memory_gib=0)")  # searched in memory, and beyond it


class Encoder(NamedTuple):
    """An encoder with the seed of its fit."""

    name: str = "lsa"
    seed: int = 0

    @property
    def label(self) -> str:
        return f"{self.name}, seed {self.seed}" if self.seed else self.name


class Step(NamedTuple):
    """A command with the flags that it is given."""

    command: str
    encoder: str | None = None
    seed: int | None = None

    def used(self, own: Encoder) -> Encoder:
        """The encoder that it uses on an index with an encoder of its own."""
        return Encoder(self.encoder or own.name, own.seed if self.seed is None else self.seed)

    def flags(self) -> list[str]:
        encoder = [] if self.encoder is None else ["--encoder", self.encoder]
        return encoder if self.seed is None else [*encoder, "--seed", str(self.seed)]


STEPS = st.builds(
    Step, st.sampled_from([*WRITING, "search"]), st.sampled_from([None, ONE, TWO]), st.sampled_from([None, None, 7])
)


@pytest.fixture(autouse=True)
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return make_desk(tmp_path, monkeypatch)


def search(*flags: str) -> Done:
    return ragindex("search", "hill of slate", "--index", "w", "--method", "dense", "--json", "-", *flags)


def scores(found: Done) -> dict[str, float]:
    return {hit["id"]: round(hit["score"], 4) for hit in found.json["hits"]}


@cache
def scores_of(encoder: Encoder) -> dict[str, float]:
    """What an index answers that knows this encoder alone."""
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        write(Path("notes"), TEXTS)
        assert ragindex(*WRITING["index"], "--index", "w", *Step("index", *encoder).flags()).code == 0
        return scores(search())


def play(step: Step, own: Encoder, built: set[Encoder]) -> Encoder:
    """Run a command; return the encoder that is the index's own then. `built` are the encoders with vectors."""
    used = step.used(own)
    if step.command == "search":
        found = search(*step.flags())
        if used in built:
            assert (found.json["encoder"], scores(found)) == (used.label, scores_of(used))
        else:
            assert (found.code, f"not built for dense with the encoder {used.label}." in found.err) == (4, True)
        return own
    done = ragindex(*WRITING[step.command], "--index", "w", "--json", "said.json", *step.flags())
    assert done.code in ((0, 12, 13) if step.command == "gate" else (0,)), done
    said = json.loads(Path("said.json").read_text())
    if step.command in ("recommend", "gate"):
        assert said["encoder"] == used.name
    if step.command == "compare":
        assert (said["encoder"], said["seed"]) == used
    return used


def require_named(own: Encoder) -> None:
    """Check that what answers from an index without a flag names the index's own encoder."""
    chosen = ("--index", "w", "--method", "dense")
    used, exported = ragindex("use", *chosen), ragindex("export", *chosen)
    assert f"the encoder of the index, {own.label}.\n" in used.err
    assert f": dense, encoder {own.name}, 4 documents" in exported.out
    assert f"dense (encoder {own.label})" in ragindex("search", "slate", "--retriever", "retriever").out


SAVED = [Step("compare", ONE), Step("compare", TWO), Step("compare", ONE), Step("gate")]
PRICED = [Step("recommend", ONE, 7), Step("compare"), Step("search", TWO), Step("index", TWO)]


@settings(max_examples=examples(3))
@given(steps=st.lists(STEPS, min_size=2, max_size=4), store=st.sampled_from(STORES))
@example(steps=SAVED, store=STORES[0])
@example(steps=PRICED, store=STORES[1])
def test_commands_answer_with_the_encoder_that_they_name(steps: Sequence[Step], store: str) -> None:
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        make_desk(Path(folder), patch)
        assert ragindex("index", "notes", "--index", "w", "--methods", "bm25", "--store", store).code == 0
        own, built = Encoder(), set[Encoder]()
        for step in steps:
            own = play(step, own, built)
            built |= set() if step.command == "search" else {own}
            play(Step("search"), own, built)
        if built:
            require_named(own)


def pasted(text: str) -> list[str]:
    """The arguments of the first command after `Run: `, `all figures` or `compare by them` in an output."""
    command = re.search(r"(?:Run: |all figures +|compare by them +)ragindex (.+)", text)
    assert command is not None, text
    return shlex.split(command[1])


def test_printed_commands_name_what_is_not_the_own() -> None:
    assert ragindex(*WRITING["index"], "--index", "w").code == 0
    asked = ("--encoder", ONE, "--store", STORES[1], "--seed", "7")
    for command in (("search", "slate"), ("ask", "slate"), ("export",)):
        missing = ragindex(*command, "--index", "w", "--method", "dense", *asked)
        assert pasted(missing.err) == ["index", "--index", "w", "--methods", "dense", *asked]
    assert ragindex(*pasted(missing.err)).code == 0
    assert search().json["encoder"] == f"{ONE}, seed 7"
    assert pasted(search("--encoder", TWO).err)[-2:] == ["--encoder", TWO]


def test_what_recommend_and_judge_print_asks_the_same_index() -> None:
    chosen = ragindex(*WRITING["recommend"], "--index", "w", "--encoder", ONE)
    assert f"\ndense rests on vectors of {ONE}, learnt from these documents alone." in chosen.out
    judged = ragindex("judge", "notes", "questions.txt", "--index", "w", "--methods", "dense", "--out", "judged")
    of_index = ragindex("judge", "w", "questions.txt", "--methods", "dense", "--out", "judged of index")
    for printed, data in ((chosen, ["notes"]), (judged, ["notes"]), (of_index, [])):
        words = pasted(printed.out)
        assert words[: len(data) + 3] == ["compare", *data, "--index", "w"]
        words[words.index("--questions") + 1] = "questions.csv"  # nobody has judged anything
        assert ragindex(*words, "--json", "-").json["encoder"] == ONE


def test_llm_store_and_language_are_those_of_the_index(monkeypatch: pytest.MonkeyPatch) -> None:
    given = ("--llm", "openai:gpt-4o-mini", "--store", STORES[1], "--language", "german")
    assert ragindex(*WRITING["index"], "--index", "w", *given).code == 0
    for command in WRITING.values():
        assert ragindex(*command, "--index", "w").code in (0, 13)
        held = read_manifest(Path("w"))
        assert held is not None
        assert held.llm["params"]["model"] == "gpt-4o-mini"
    said = ragindex(*WRITING["compare"], "--index", "w", "--json", "-").json
    assert (said["store"], said["language"]) == (STORES[1], "german")

"""Commands with and without --encoder and --seed on one index, checked against the encoder that they name."""

import json
import shlex
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import pytest
from command_line import TEXTS, Done, make_desk, ragindex, write
from hypothesis import strategies as st

ASKED = ("notes", "--questions", "questions.csv")
WRITING = {
    "index": ("index", "notes", "--methods", "dense"),
    "compare": ("compare", *ASKED, "--methods", "bm25,dense", "--k", "1"),
    "recommend": ("recommend", *ASKED, "--methods", "bm25,dense"),
    "gate": ("gate", "dense", "--against", "bm25", "--data", *ASKED, "--margin", "1"),
}
ONE, TWO = "lsa(dimensions=1)", "lsa(dimensions=2)"


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


def search(*flags: str) -> Done:
    return ragindex("search", "hill of slate", "--index", "w", "--method", "dense", "--json", "-", *flags)


def scores(result: Done) -> dict[str, float]:
    return {hit["id"]: round(hit["score"], 4) for hit in result.json["hits"]}


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
        result = search(*step.flags())
        if used in built:
            assert (result.json["encoder"], scores(result)) == (used.label, scores_of(used))
        else:
            assert (result.code, f"not built for dense with the encoder {used.label}." in result.err) == (4, True)
        return own
    done = ragindex(*WRITING[step.command], "--index", "w", "--json", "said.json", *step.flags())
    assert done.code in ((0, 12, 13) if step.command == "gate" else (0,)), done
    report = json.loads(Path("said.json").read_text())
    if step.command in ("recommend", "gate"):
        assert report["encoder"] == used.name
    if step.command == "compare":
        assert (report["encoder"], report["seed"]) == used
    return used


def require_named(own: Encoder) -> None:
    """Check that what answers from an index without a flag names the index's own encoder."""
    chosen = ("--index", "w", "--method", "dense")
    used, exported = ragindex("use", *chosen), ragindex("export", *chosen)
    assert f"the encoder of the index, {own.label}.\n" in used.err
    assert f": dense, encoder {own.name}, 4 documents" in exported.out
    command = next(line.partition("ragindex ")[2] for line in exported.out.splitlines() if "try it" in line)
    assert f"dense (encoder {own.label})" in ragindex(*shlex.split(command)).out


def play_all(steps: Sequence[Step], store: str) -> None:
    """Run the commands on a new index in this store, a search after each, and check what each names and answers."""
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

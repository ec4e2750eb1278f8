"""The command update, and what index and add remember of their options."""

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from command_line import NOTHING_SPENT, failed, make_desk, ragindex

from ragindex.cli import update as update_command
from ragindex.index.index import Index
from ragindex.index.updating import read_outcome


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return make_desk(tmp_path, monkeypatch)


def ids(folder: Path) -> list[str]:
    with Index.open(folder, read_only=True) as index:
        return sorted(document.id for document in index.documents)


def test_options_of_a_source_are_remembered(desk: Path) -> None:
    index = ("index", "notes", "--index", "w")
    assert ragindex(*index, "--methods", "bm25", "--include", "*.md", "--exclude", "hill*").code == 0
    assert ids(desk / "w") == ["rivers/orla.md", "rivers/sarn.md"]
    done = ragindex(*index)
    assert "notes is read as before: --include '*.md' --exclude 'hill*'" in done.err
    assert "nothing changed in 2 documents" in done.out
    done = ragindex(*index, "--exclude", "")
    assert ids(desk / "w") == ["hill.md", "rivers/orla.md", "rivers/sarn.md"]
    message = "notes is read with --include '*.md' instead of --include '*.md' --exclude 'hill*': 1 added, 0 removed"
    assert message in done.out
    done = ragindex(*index, "--forget-options")
    assert "notes is read with no options instead of --include '*.md': 1 added, 0 removed" in done.out
    ragindex("add", "notes/rivers", "--exclude", "orla*", "--index", "w")
    assert ids(desk / "w") == ["hill.md", "quill.txt", "rivers/orla.md", "rivers/sarn.md"]  # add removes none
    done = ragindex("update", "--index", "w", "--json", "-")
    assert done.json["sources"][0]["removed"] == ["rivers/orla.md"]


def test_an_update_reports_what_it_did(desk: Path) -> None:
    ragindex("index", "notes", "--index", "w", "--methods", "bm25")
    (desk / "notes" / "hill.md").write_text("# Grey Anna\n\nA hill of 900 metres.", encoding="utf-8")
    (desk / "notes" / "new.md").write_text("# New\n\nThe ferry.", encoding="utf-8")
    (desk / "notes" / "quill.txt").unlink()
    preview = ragindex("update", "--index", "w", "--dry-run")
    assert preview.out.splitlines()[:2] == [
        "notes: 1 document added (new.md), 1 changed (hill.md), 1 removed (quill.txt), 2 unchanged",
        "nothing was done (--dry-run)",
    ]
    planned = ragindex("update", "--index", "w", "--dry-run", "--json", "-").json
    assert (planned["dry_run"], planned["estimate"]["tasks"]) == (True, [])
    done = ragindex("update", "--json", "-").json  # the only index here
    assert done["sources"] == planned["sources"]
    assert done["sources"] == [
        {
            "source": "notes",
            "added": ["new.md"],
            "changed": ["hill.md"],
            "removed": ["quill.txt"],
            "renamed": {},
            "kept": [],
            "unchanged": 2,
            "reread": 0,
            "left_out": [],
            "commit": "",
            "failure": "",
        }
    ]
    assert (done["parts"], done["spent"]) == (["passages"], NOTHING_SPENT)
    assert done["methods"] == ["bm25"]
    hits = ragindex("search", "ferry", "--index", "w", "--method", "bm25", "--json", "-").json
    assert hits["hits"][0]["doc_ids"] == ["new.md"]
    outcome = read_outcome(desk / "w")
    assert outcome.failure == ""


def test_report_names_methods_with_parts_and_notes_of_changed_sources(desk: Path) -> None:
    """`ircot` and `self-ask` have no part beside those of their bases; notes on unchanged sources are not repeated."""
    (desk / "notes" / "map.png").write_bytes(b"\x89PNG")
    note = "ignored: 1 picture (map.png)"
    assert note in ragindex("index", "notes", "--index", "w", "--methods", "dense").err
    assert note not in ragindex("update", "--index", "w").err
    (desk / "notes" / "new.md").write_text("# New\n\nThe ferry.", encoding="utf-8")
    assert note in ragindex("update", "--index", "w", "--dry-run").err
    updated = ragindex("update", "--index", "w")
    assert note in updated.err
    assert "updated: bm25, composed, dense, hybrid (2 parts: passages, vectors)" in updated.out


def test_only_named_methods_are_updated(desk: Path) -> None:
    ragindex("index", "notes", "--index", "w", "--methods", "bm25,links")
    (desk / "notes" / "new.md").write_text("# New\n\nThe ferry.", encoding="utf-8")
    assert "passages" in ragindex("update", "--index", "w", "--only", "bm25", "--json", "-").json["parts"]
    with Index.open(desk / "w", read_only=True) as index:
        corpora = {record.name: record.corpus == index.manifest.corpus for record in index.manifest.parts.values()}
    assert corpora["passages"]
    assert not corpora["links"]
    message = failed(4, "update", "--index", "w", "--only", "raptor")
    assert "ragindex index --index w --methods raptor" in message


def test_many_removals_ask(desk: Path) -> None:
    for number in range(6):
        (desk / "notes" / f"n{number}.md").write_text(f"# N{number}", encoding="utf-8")
    ragindex("index", "notes", "--index", "w", "--methods", "bm25")
    before = ids(desk / "w")
    for number in range(6):
        (desk / "notes" / f"n{number}.md").unlink()
    message = failed(2, "update", "--index", "w")
    assert message.startswith("6 documents of 10 of the source notes would be removed")
    assert message.endswith("add --allow-removals.")
    assert ids(desk / "w") == before
    assert ragindex("update", "--index", "w", "--allow-removals").code == 0
    assert len(ids(desk / "w")) == 4


def test_a_source_that_is_gone_is_reported_and_stays(desk: Path) -> None:
    ragindex("index", "notes", "--index", "w", "--methods", "bm25")
    (desk / "notes").rename(desk / "elsewhere")
    done = ragindex("update", "--index", "w")
    assert done.code == 3
    assert "notes: not read: " in done.out
    assert len(ids(desk / "w")) == 4
    outcome = read_outcome(desk / "w")
    assert "no such folder" in outcome.failure
    assert "the last update failed" in ragindex("parts", "--index", "w").out
    moved = ragindex("index", "elsewhere", "--as", "notes", "--index", "w")
    assert moved.code == 0, moved
    assert ragindex("update", "--index", "w").code == 0


class StoppedError(Exception):
    """Raised in place of a pause, to end the command."""


def pausing(steps: Iterator[Callable[[], None]]) -> Callable[[float], None]:
    """A pause that does the next of the steps instead of waiting."""

    def pause(seconds: float) -> None:
        next(steps, stop)()

    return pause


def stop() -> None:
    raise StoppedError


def test_rounds_are_repeated_and_failures_kept(desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ragindex("index", "notes", "--index", "w", "--methods", "bm25")
    pauses, failures = list[float](), list[str]()

    def write() -> None:
        (desk / "notes" / "new.md").write_text("# New\n\nThe ferry.", encoding="utf-8")

    def break_source() -> None:
        assert "new.md" in ids(desk / "w")  # nobody holds the index between rounds
        (desk / "notes").rename(desk / "away")

    def restore() -> None:
        outcome = read_outcome(desk / "w")
        failures.append("" if outcome is None else outcome.failure)
        (desk / "away").rename(desk / "notes")

    steps = pausing(iter([write, break_source, restore]))
    monkeypatch.setattr(update_command.time, "sleep", lambda seconds: (pauses.append(seconds), steps(seconds)))
    done = None
    with pytest.raises(StoppedError):
        done = ragindex("update", "--index", "w", "--every", "1h")
    assert done is None
    assert pauses == [3600.0, 3600.0, 10.0, 3600.0]
    assert "no such folder" in failures[0]
    outcome = read_outcome(desk / "w")
    assert outcome.failure == ""


def test_repeating_needs_a_time_and_a_budget_where_it_is_paid_for(desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-none")
    ragindex("index", "notes", "--index", "w", "--methods", "bm25", "--llm", "openai:gpt-4o-mini")
    for written in ("", "1", "h", "-1h", "0s", "1 week"):
        message = failed(2, "update", "--index", "w", f"--every={written}")
        assert "--every is a time such as 90s, 30m, 1h or 1d" in message
    message = failed(2, "update", "--index", "w", "--every", "1h")
    assert message.endswith("with --watch and --every it needs --budget DOLLARS.")


def test_the_index_must_be_named_where_several_are(desk: Path) -> None:
    assert failed(2, "update") == "Name the index with --index DIR. There is none here."
    for name in ("v", "w"):
        ragindex("index", "notes", "--index", name, "--methods", "bm25")
    assert failed(2, "update") == "Name the index with --index DIR. Here are v, w."


def test_a_comparison_reads_a_source_as_its_index_does(desk: Path) -> None:
    ragindex("index", "notes", "--index", "w", "--methods", "bm25", "--exclude", "quill*", "--exclude", "*orla*")
    done = ragindex("compare", "notes", "--questions", "questions.txt", "--methods", "bm25", "--index", "w")
    assert done.code == 0, done
    assert ids(desk / "w") == ["hill.md", "rivers/sarn.md"]
    assert ragindex("update", "--index", "w", "--json", "-").json["sources"][0]["unchanged"] == 2


def test_a_comparison_keeps_the_commit(desk: Path) -> None:
    for arguments in (["init", "-q"], ["add", "notes"], ["commit", "-q", "-m", "notes"]):
        settings = ["-c", "user.name=A", "-c", "user.email=a@b"]
        subprocess.run(["git", *settings, *arguments], check=True, cwd=desk)
    ragindex("index", "notes", "--ref", "HEAD", "--index", "w", "--methods", "bm25")
    with Index.open(desk / "w", read_only=True) as index:
        reading = index.manifest.sources["notes"].reading
    assert len(reading.commit) == 40
    done = ragindex(
        "compare", "--index", "w", "--questions", "questions.txt", "--methods", "bm25", "--json", "result.json"
    )
    assert done.code == 0, done
    assert f"The documents of notes are those of the commit {reading.commit}." in (desk / "result.json").read_text()
    update = ragindex("update", "--index", "w", "--json", "-").json
    assert update["sources"][0]["commit"] == reading.commit

"""Documents from commits of git repositories: what is read, what is read again, and what must not happen."""

import os
import subprocess
import threading
from pathlib import Path

import pytest

from ragindex import read
from ragindex.corpus import git_source
from ragindex.errors import DataError, UsageError
from ragindex.index.index import Index
from ragindex.types import COMMIT, MODIFIED

DAY = {"GIT_AUTHOR_DATE": "2024-03-01T12:00:00Z", "GIT_COMMITTER_DATE": "2024-03-01T12:00:00Z"}


class Clone:
    """A repository in a folder, made by git itself."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self.git("init", "-q", "-b", "main")

    def git(self, *arguments: str, day: str = "2024-03-01", given: str | None = None) -> str:
        names = {
            "GIT_AUTHOR_NAME": "A",
            "GIT_AUTHOR_EMAIL": "a@b",
            "GIT_COMMITTER_NAME": "A",
            "GIT_COMMITTER_EMAIL": "a@b",
        }
        dates = dict.fromkeys(DAY, f"{day}T12:00:00Z")
        environment = {**os.environ, **names, **dates, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}
        return subprocess.run(
            ["git", "-C", str(self.folder), *arguments],
            input=given,
            capture_output=True,
            text=True,
            check=True,
            env=environment,
        ).stdout.strip()

    def commit(self, texts: dict[str, str | None], day: str = "2024-03-01") -> str:
        for name, text in texts.items():
            path = self.folder / name
            if text is None:
                path.unlink()
            else:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "a change", day=day)
        return self.git("rev-parse", "HEAD")

    @property
    def address(self) -> str:
        return f"git+file://{self.folder}"


@pytest.fixture
def clone(tmp_path: Path) -> Clone:
    return Clone(tmp_path / "clone")


@pytest.fixture
def index(tmp_path: Path) -> Index:
    return Index.open(tmp_path / "index", create=True)


def ids(index: Index) -> list[str]:
    return sorted(document.id for document in index.documents)


def count_reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    names, read_blob = list[str](), git_source._read_blob

    def read_counted(blobs: object, file: git_source._TreeFile, selection: object) -> object:
        names.append(file.name)
        return read_blob(blobs, file, selection)  # type: ignore[arg-type]

    monkeypatch.setattr(git_source, "_read_blob", read_counted)
    return names


def test_documents_of_a_commit(clone: Clone) -> None:
    first = clone.commit({"a.md": "# A\n\nOne.", "docs/b.md": "# B", "docs/c.png": "x"}, "2024-03-01")
    second = clone.commit({"docs/b.md": "# B\n\nTwo."}, "2024-04-02")
    (clone.folder / "docs" / "b.md").write_text("not committed", encoding="utf-8")
    corpus = read(clone.address)
    assert {document.id: (document.metadata[COMMIT], document.metadata[MODIFIED]) for document in corpus.documents} == {
        "a.md": (first, "2024-03-01"),
        "docs/b.md": (second, "2024-04-02"),
    }
    assert {document.id: document.text for document in corpus.documents}["docs/b.md"] == "# B\n\nTwo."
    assert corpus.notes[0] == f"commit {second[:12]} of HEAD, 2024-04-02"
    assert [document.id for document in read(clone.folder / "docs", ref="main").documents] == ["b.md"]
    assert [document.id for document in read(f"{clone.address}#subdirectory=docs").documents] == ["b.md"]
    assert [document.text for document in read(clone.folder / "docs", ref="main~1").documents] == ["# B"]


def test_an_update_reads_what_has_changed(clone: Clone, index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    clone.commit({"a.md": "# A", "b.md": "# B", "c.md": "# C", "long.txt": "x" * 2_000_000})
    index.replace(read(clone.address, max_file_mb=1, skip_bad=True))
    names = count_reads(monkeypatch)
    assert index.update().changes.unchanged == 3
    assert names == []
    clone.commit({"a.md": None, "b.md": "# B\n\nNew.", "d/e.md": "# E"}, "2024-05-01")
    changes = index.update().changes
    assert (changes.new, changes.replaced, changes.gone, changes.unchanged) == (("d/e.md",), ("b.md",), ("a.md",), 1)
    assert sorted(names) == ["b.md", "d/e.md"]
    assert list(index.manifest.sources["clone"].left_out) == ["long.txt"]
    fresh = {document.id: document for document in read(clone.address, max_file_mb=1, skip_bad=True).documents}
    assert {document.id: document for document in index.documents} == fresh


@pytest.mark.parametrize("cause", ["readers", "history", "removed", "options"])
def test_what_makes_all_files_be_read(clone: Clone, index: Index, monkeypatch: pytest.MonkeyPatch, cause: str) -> None:
    clone.commit({"a.md": "# A", "b.md": "# B"})
    index.replace(read(clone.address))
    names = count_reads(monkeypatch)
    if cause == "readers":
        monkeypatch.setattr("ragindex.index.readings.readers_version", lambda: "other")
    elif cause == "history":
        clone.git("checkout", "-q", "--orphan", "other")
        clone.commit({"b.md": "# B2"})
        clone.git("branch", "-D", "main")
        clone.git("reflog", "expire", "--expire=now", "--all")
        clone.git("gc", "-q", "--prune=now")
    elif cause == "removed":
        index.remove(["a.md"])
    else:
        index.add(read(clone.address, include=["b*"]))
        names.clear()
    index.update()
    assert sorted(names) == (["b.md"] if cause == "options" else ["a.md", "b.md"])
    if cause == "removed":
        assert ids(index) == ["a.md", "b.md"]


def test_an_interrupted_update_is_done_again(clone: Clone, index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    clone.commit({"a.md": "# A", "b.md": "# B"})
    index.replace(read(clone.address))
    clone.commit({"a.md": "# A2", "b.md": None})

    def fail(*arguments: object, **options: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr("ragindex.index.documents.Documents.upsert", fail)
        index.update()
    again = Index.open(index.folder)
    assert again.update().changes.gone == ("b.md",)
    assert [document.text for document in again.documents] == ["# A2"]


def test_a_new_clone_changes_nothing(clone: Clone, index: Index, tmp_path: Path) -> None:
    clone.commit({"a.md": "# A"}, "2024-03-01")
    index.replace(read(clone.address))
    clone.git("commit", "-q", "--amend", "-m", "another", day="2024-06-01")  # the same files in another commit
    assert index.replace(read(clone.address)).unchanged == 1


def test_a_repository_runs_nothing(clone: Clone, tmp_path: Path) -> None:
    clone.commit({"a.md": "# A", ".gitattributes": "*.md filter=bad diff=bad\n"})
    marker = tmp_path / "marker"
    script = tmp_path / "bad.sh"
    script.write_text(f"#!/bin/sh\necho ran >> {marker}\ncat\n", encoding="utf-8")
    script.chmod(0o755)
    for name in ("post-checkout", "post-index-change", "reference-transaction"):
        hook = clone.folder / ".git" / "hooks" / name
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(script.read_text(encoding="utf-8"), encoding="utf-8")
        hook.chmod(0o755)
    settings = {
        **{"core.fsmonitor": script, "core.hooksPath": script.parent, "core.pager": script, "core.sshCommand": script},
        **{
            "filter.bad.smudge": script,
            "filter.bad.clean": script,
            "diff.bad.textconv": script,
            "diff.external": script,
        },
        **{"log.showSignature": "true", "gpg.program": script, "core.alternateRefsCommand": script},
        **{"extensions.partialClone": "origin", "remote.origin.url": "ssh://nowhere.example/x"},
        **{"remote.origin.promisor": "true", "uploadpack.packObjectsHook": script, "credential.helper": f"!{script}"},
    }
    with (clone.folder / ".git" / "config").open("a", encoding="utf-8") as config:
        config.write("[core]\n\trepositoryformatversion = 1\n")
        for name, value in settings.items():
            section, _, key = name.rpartition(".")
            first, _, second = section.partition(".")
            place = f'{first} "{second}"' if second else first
            config.write(f"[{place}]\n\t{key} = {value}\n")
    blob = clone.git("-c", "core.fsmonitor=false", "rev-parse", "HEAD:a.md")
    corpus = read(clone.address)
    assert [document.text for document in corpus.documents] == ["# A"]
    (clone.folder / ".git" / "objects" / blob[:2] / blob[2:]).unlink()  # git would fetch it
    with pytest.raises(DataError, match="an object that the clone lacks") as raised:
        read(clone.address, skip_bad=False)
    assert not marker.exists()
    assert "ragindex-progress" not in {thread.name for thread in threading.enumerate()}, (
        raised
    )  # errors are kept, as by notebooks


def test_odd_names_links_and_submodules(clone: Clone, tmp_path: Path) -> None:
    (tmp_path / "secret.md").write_text("# Secret", encoding="utf-8")
    clone.commit({"-n.md": "# Dash", "a b ü.md": "# Space", ":(glob)x.md": "# Magic", "ok.md": "# Ok"})
    os.symlink(tmp_path / "secret.md", clone.folder / "link.md")
    clone.git("add", "-A")
    blob = clone.git("hash-object", "-w", "--stdin", given="# Up")
    for mode, object_id, name in (("100644", blob, "line\nbreak.md"), ("160000", "1" * 40, "module")):
        clone.git("update-index", "--add", "--cacheinfo", f"{mode},{object_id},{name}")
    clone.git("commit", "-q", "-m", "odd")
    corpus = read(clone.address, skip_bad=True)
    assert sorted(document.id for document in corpus.documents) == ["-n.md", ":(glob)x.md", "a b ü.md", "ok.md"]
    assert "line" in str(corpus.skipped[0])
    assert {"link.md", "module"} <= corpus.unread.keys()


def test_refs_that_are_no_commits(clone: Clone) -> None:
    clone.commit({"a.md": "# A"})
    for ref in ("nothing", "--output=/tmp/x", "-x", "main:a.md", "HEAD~9"):
        with pytest.raises(UsageError, match=r"no branch, tag or commit|--ref must be a branch"):
            read(clone.address, ref=ref)


def test_addresses_that_cannot_be_read(clone: Clone, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"Only clones on this machine .* git clone ADDRESS") as refused:
        read("git+https://someone:secret-token@host.example/x.git")
    assert "secret-token" not in str(refused.value)
    (tmp_path / "plain").mkdir()
    with pytest.raises(DataError, match="nor in one"):
        read(f"git+file://{tmp_path}/plain")
    with pytest.raises(DataError, match="no such folder"):
        read(f"git+file://{tmp_path}/none")
    clone.commit({"a.png": "x"})
    with pytest.raises(DataError, match=r"only 1 \.png"):
        read(clone.address)
    commit = clone.commit({"pages/a.md": "# A"})
    with pytest.raises(DataError, match=rf"found no files in the commit {commit[:12]}\.$"):
        read(f"{clone.address}#subdirectory=page")
    with pytest.raises(DataError, match=rf"found no files in the commit {commit[:12]} \(1 excluded\)\.$"):
        read(f"{clone.address}#subdirectory=pages", include=["*.rst"])


def test_a_repository_of_another_user(clone: Clone, monkeypatch: pytest.MonkeyPatch) -> None:
    clone.commit({"a.md": "# A"})
    monkeypatch.setitem(git_source._ENVIRONMENT, "GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    with pytest.raises(DataError, match=r"git config --global --add safe\.directory"):
        read(clone.address)

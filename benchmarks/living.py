r"""An index that follows a repository with its history, against a fresh index at every state.

    .venv/bin/python -m benchmarks.living CLONE [--folder docs] [--include GLOB] [--states 12] [--years 3] \
        [--methods a,b] [--kills]

CLONE is a clone with its history, such as python/peps or ansible/ansible-documentation. The states are commits at equal
distances in time. At each, `Index.update` follows the branch, and a fresh index of the same commit is built: ids, hits
and scores must be equal, but where the fit of the encoder is older; then the recall of titles is compared. A reader
searches beside the updates and follows them. With --kills, the update of every other state is killed first, once.
"""

import argparse
import multiprocessing
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

import ragindex
from ragindex.index.index import Index
from ragindex.types import Document

_QUESTIONS, _K = 60, 10
_SPAWNED = multiprocessing.get_context("spawn")  # LanceDB is not to be forked
_CLOSE = 1e-5  # what the law of `docs/design.md` allows between scores


@dataclass(frozen=True, slots=True)
class _Comparison:
    """How a method of the index answers beside a fresh one: equal questions, the largest difference, both recalls."""

    equal: int
    difference: float
    recall: float
    fresh_recall: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("clone", type=Path)
    parser.add_argument("--folder", default="", help="the folder of the repository that is indexed")
    parser.add_argument("--include", action="append", default=[], help="as in ragindex index")
    parser.add_argument("--states", type=int, default=12)
    parser.add_argument("--years", type=float, default=3.0)
    parser.add_argument("--methods", default="bm25,dense,hybrid,composed,parent,links,evidence,raptor")
    parser.add_argument("--kills", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    wanted = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        _follow(wanted, wanted.methods.split(","), Path(folder))


def _follow(wanted: argparse.Namespace, methods: Sequence[str], folder: Path) -> None:
    """Bring an index from state to state, and print a row for each."""
    commits = _choose_commits(wanted.clone, wanted.states, wanted.years)
    repository, living = folder / "repository", folder / "living"
    _git(folder, "clone", "--quiet", "--bare", "--shared", str(wanted.clone.resolve()), str(repository))
    address = f"git+file://{repository}" + (f"#subdirectory={wanted.folder}" if wanted.folder else "")
    drawing, stopped = random.Random(wanted.seed), _SPAWNED.Event()
    counts, reader = _SPAWNED.SimpleQueue(), None
    print(f"{len(commits)} states of {wanted.clone}, {', '.join(methods)}, {_QUESTIONS} questions")
    for number, (commit, day) in enumerate(commits):
        _git(repository, "update-ref", "refs/heads/state", commit)
        if wanted.kills and number % 2:
            _kill_update(living, drawing.uniform(1.0, 10.0))
        update = _measure(lambda: _bring_up_to_date(living, address, methods, wanted.include))
        shutil.rmtree(folder / "fresh", ignore_errors=True)
        fresh = _measure(lambda: _bring_up_to_date(folder / "fresh", address, methods, wanted.include))
        _report(day, commit, living, folder / "fresh", methods, update, fresh, wanted.seed)
        if reader is None:
            reader = _SPAWNED.Process(target=_search_beside, args=(living, methods[0], stopped, counts))
            reader.start()
    stopped.set()
    if reader is not None:
        searches, error = counts.get()
        reader.join()
        print(f"the reader beside it made {searches:,} searches; error: {error or 'none'}")


def _choose_commits(clone: Path, states: int, years: float) -> list[tuple[str, str]]:
    """Return commits of the main line at equal distances in time, with their days; the newest is the last."""
    lines = _git(clone, "rev-list", "--first-parent", "--format=%ct %cs", "HEAD").split("\n")
    commits = [
        (int(words[0]), line.removeprefix("commit "), words[1])
        for line, written in zip(lines[::2], lines[1::2], strict=False)
        if len(words := written.split()) == 2
    ]
    newest = commits[0][0]
    chosen = []
    for number in range(states):
        moment = newest - years * 365.25 * 86_400 * (1 - number / max(1, states - 1))
        _, commit, day = next((each for each in commits if each[0] <= moment), commits[-1])
        chosen.append((commit, day))
    return chosen


def _git(folder: Path, *arguments: str) -> str:
    return subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=True).stdout


def _bring_up_to_date(
    folder: Path, address: str, methods: Sequence[str], include: Sequence[str]
) -> tuple[int, int, int, float]:
    """Index the state of the branch, or update to it; return the documents added, changed and removed, and refits."""
    with Index.open(folder, create=True) as index:
        if index.manifest.parts:
            report = index.update(allow_removals=True)
            changes = report.changes
            return changes.added, changes.changed, changes.removed, sum(refit.seconds for refit in report.refits)
        changes = index.replace(ragindex.read(address, ref="state", skip_bad=True, include=include))
        index.build(*methods)
        return changes.added, changes.changed, changes.removed, 0.0


def _measure(work: Any) -> tuple[float, float, Any]:
    """Return the CPU seconds of this process and its children, the seconds of the clock, and the result."""
    before, start = _cpu_seconds(), time.monotonic()
    result = work()
    return _cpu_seconds() - before, time.monotonic() - start, result


def _cpu_seconds() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def _kill_update(folder: Path, seconds: float) -> None:
    command = [sys.executable, "-m", "ragindex", "update", "--index", str(folder), "--allow-removals"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        process.wait(seconds)
        print(f"  (the update ended before it was killed after {seconds:.1f} s)")
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        print(f"  (killed after {seconds:.1f} s)")


def _search_beside(folder: Path, method: str, stopped: Event, counts: Any) -> None:
    """Search until stopped, with an index that is only read and follows the newest state."""
    searches, error = 0, ""
    index = Index.open(folder, read_only=True)
    try:
        while not stopped.is_set():
            if not index.is_newest():
                index = index.newest()
            retriever = index.retriever(method)
            for text in ("type hints", "package index", "deprecated module", "inventory"):
                retriever.search(text, k=_K)
                searches += 1
                time.sleep(0.05)
    except ragindex.RagindexError as failure:
        error = f"{type(failure).__name__}: {failure}"
    counts.put((searches, error))


def _report(
    day: str,
    commit: str,
    living: Path,
    fresh: Path,
    methods: Sequence[str],
    update: tuple[float, float, tuple[int, int, int, float]],
    rebuilt: tuple[float, float, Any],
    seed: int,
) -> None:
    with Index.open(living, read_only=True) as index, Index.open(fresh, read_only=True) as other:
        documents, expected = (
            {document.id: (document.title, document.text) for document in each.documents} for each in (index, other)
        )
        same_fit = index.encoder_id == other.encoder_id
        questions = _draw_questions(list(other.documents), seed)
        rows = {method: _compare(index, other, method, questions) for method in methods}
    added, changed, removed, refit = update[2]
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    sizes = [sum(file.stat().st_size for file in each.glob("**/*") if file.is_file()) / 1e6 for each in (living, fresh)]
    print(
        f"{day} {commit[:10]}: {len(documents)} documents (+{added} ~{changed} -{removed}), "
        f"ids and texts {'equal' if documents == expected else 'DIFFER'}, "
        f"fit {'the same' if same_fit else 'older'}{f', refitted in {refit:.1f} s' if refit else ''}; "
        f"CPU {update[0]:.1f} s against {rebuilt[0]:.1f}, clock {update[1]:.1f} s against {rebuilt[1]:.1f}; "
        f"{sizes[0]:.0f} MB against {sizes[1]:.0f}; memory up to {memory:.0f} MB",
        flush=True,
    )
    for method, row in rows.items():
        print(
            f"    {method:10s} {row.equal:3d} of {len(questions)} equal, scores differ by {row.difference:.1e}, "
            f"recall@{_K} {row.recall:.3f} against {row.fresh_recall:.3f}",
            flush=True,
        )


def _draw_questions(documents: Sequence[Document], seed: int) -> list[tuple[str, str]]:
    """Return titles as questions, each with the id of its document."""
    titled = sorted((document.title, document.id) for document in documents if document.title)
    return random.Random(seed).sample(titled, min(_QUESTIONS, len(titled)))


def _compare(index: Index, fresh: Index, method: str, questions: Sequence[tuple[str, str]]) -> _Comparison:
    ours, theirs = index.retriever(method), fresh.retriever(method)
    equal, difference, recalls = 0, 0.0, [0, 0]
    for text, id in questions:
        found = [retriever.search(text, k=_K) for retriever in (ours, theirs)]
        ids = [[hit.id for hit in hits] for hits in found]
        scores = [[hit.score for hit in hits] for hits in found]
        gap = max((abs(a - b) for a, b in zip(*scores, strict=False)), default=0.0)
        equal += ids[0] == ids[1] and gap <= _CLOSE
        difference = max(difference, gap)
        for side, hits in enumerate(found):
            recalls[side] += any(id in hit.doc_ids for hit in hits)
    return _Comparison(equal, difference, recalls[0] / len(questions), recalls[1] / len(questions))


if __name__ == "__main__":
    main()

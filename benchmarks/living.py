r"""An index that follows a repository with its history, against a fresh index at every state.

    .venv/bin/python -m benchmarks.living CLONE [--folder docs] [--include GLOB] [--states 12] [--years 3] \
        [--methods a,b] [--sample 150] [--questions 100] [--kills] [--out FILE.jsonl]

CLONE is a clone with its history, such as python/peps or ansible/ansible-documentation. The states are commits at equal
distances in time. At each, `ragindex update` follows the branch, and beside it `ragindex index` builds a fresh index of
the same commit: ids, hits and scores must be equal, but where the fit of the encoder is older; then the recall of
titles is compared, of documents of the first state and of later ones. Both commands are processes of their own, whose
CPU seconds and peak of memory are counted. A reader searches beside the updates and follows them. With --kills, the
update of every other state is killed first, at a random moment. With --sample, so many file names are drawn from those
of all states, and each is followed wherever it lies and whatever its ending is. FILE gets a line of JSON a state.
"""

import argparse
import json
import multiprocessing
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from glob import escape
from multiprocessing.synchronize import Event
from pathlib import Path, PurePosixPath
from typing import Any

from ragindex.errors import RagindexError
from ragindex.index.index import Index
from ragindex.index.parts import uses_encoder
from ragindex.index.renames import read_renames
from ragindex.plugins import registry
from ragindex.plugins.specs import parse_many
from ragindex.types import Document

_METHODS = (
    "bm25,dense,hybrid,hybrid(fusion=convex),composed,parent,links,evidence,hop,raptor,gear.naive,griever,"
    "hipporag,hipporag(mode=facts),sirerag(ranking=lifted)"
)
"""Those that ask no language model."""
_K = 10
_SPAWNED = multiprocessing.get_context("spawn")  # LanceDB is not to be forked
_CLOSE = 1e-5  # what the law of `docs/dev/design.md` allows between scores
_POINTS = 0.02  # of recall, that an older fit may cost
_PAUSE = 0.25  # seconds between searches of the reader
_TEXT_ENDINGS = (".md", ".rst", ".txt")


@dataclass(frozen=True, slots=True)
class _Cost:
    """What a command took: seconds of CPU and of the clock, and the largest memory of one of its processes."""

    cpu: float
    clock: float
    megabytes: float


@dataclass(frozen=True, slots=True)
class _Recall:
    """How many questions find their own document first, and among the best, in the index and in a fresh one."""

    questions: int
    first: int
    fresh_first: int
    among: int
    fresh_among: int

    @property
    def lost(self) -> float:
        """The share that a fresh index finds more, at the worse of both depths."""
        return max(self.fresh_first - self.first, self.fresh_among - self.among) / max(1, self.questions)


@dataclass(frozen=True, slots=True)
class _Comparison:
    """How a method answers beside a fresh index: questions with equal hits, the largest difference of scores, recalls.

    `comparable` says that no fit of the index is older, so that all must be equal.
    """

    method: str
    comparable: bool
    questions: int
    equal: int
    difference: float
    old: _Recall
    new: _Recall

    @property
    def holds(self) -> bool:
        """Whether the method does what is promised."""
        if self.comparable:
            return self.equal == self.questions
        return max(self.old.lost, self.new.lost) <= _POINTS


@dataclass(frozen=True, slots=True)
class _State:
    """A state: what the update did and took, beside the fresh index."""

    day: str
    commit: str
    documents: int
    added: int
    changed: int
    removed: int
    renamed: int
    same_documents: bool
    same_fit: bool
    refit_seconds: float
    killed_after: float | None
    update: _Cost
    fresh: _Cost
    megabytes: float
    fresh_megabytes: float
    methods: tuple[_Comparison, ...]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("clone", type=Path)
    parser.add_argument("--folder", default="", help="the folder of the repository that is indexed")
    parser.add_argument("--include", action="append", default=[], help="as in ragindex index")
    parser.add_argument("--states", type=int, default=12)
    parser.add_argument("--years", type=float, default=3.0)
    parser.add_argument("--methods", default=_METHODS)
    parser.add_argument("--sample", type=int, help="file names that are followed (default: all)")
    parser.add_argument("--questions", type=int, default=100, help="of older documents, and as many of newer ones")
    parser.add_argument("--kills", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    wanted = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        _follow(wanted, Path(folder))


def _follow(wanted: argparse.Namespace, folder: Path) -> None:
    """Bring an index from state to state, and print a row for each."""
    commits = _choose_commits(wanted.clone, wanted.states, wanted.years)
    repository, living = folder / "repository", folder / "living"
    _git(folder, "clone", "--quiet", "--bare", "--shared", str(wanted.clone.resolve()), str(repository))
    address = f"git+file://{repository}" + (f"#subdirectory={wanted.folder}" if wanted.folder else "")
    included = wanted.include if wanted.sample is None else _sample_patterns(wanted, [commit for commit, _ in commits])
    patterns = [word for pattern in included for word in ("--include", pattern)]
    build = ["index", address, "--ref", "state", "--skip-bad", "--methods", wanted.methods, *patterns]
    update = ["update", "--allow-removals"]
    drawing, stopped = random.Random(wanted.seed), _SPAWNED.Event()
    counts, reader = _SPAWNED.SimpleQueue(), None
    first_ids: Set[str] = frozenset()
    clock = 10.0  # of the last update
    sampled = "" if wanted.sample is None else f", {len(included)} file names drawn with seed {wanted.seed}"
    print(f"{len(commits)} states of {wanted.clone}{sampled}, {wanted.methods}", flush=True)
    for number, (commit, day) in enumerate(commits):
        _git(repository, "update-ref", "refs/heads/state", commit)
        killed = None
        if wanted.kills and number and number % 2 == 0:
            killed = _kill([*update, "--index", str(living)], drawing.uniform(0.1, 0.9) * clock)
        shutil.rmtree(folder / "fresh", ignore_errors=True)
        with ThreadPoolExecutor() as beside:
            fresh_run = beside.submit(_run, [*build, "--index", str(folder / "fresh")])
            report, cost = _run([*(update if number else build), "--index", str(living)])
            _, fresh_cost = fresh_run.result()
        clock = cost.clock
        with Index.open(living, read_only=True) as index, Index.open(folder / "fresh", read_only=True) as fresh:
            renames = read_renames(living)
            first_ids = {renames.get(id, id) for id in first_ids or {document.id for document in fresh.documents}}
            questions = _draw_questions(list(fresh.documents), first_ids, wanted.questions, wanted.seed)
            state = _State(
                day,
                commit,
                *_count_changes(report, fresh),
                same_documents=_list_texts(index) == _list_texts(fresh),
                same_fit=index.encoder_id == fresh.encoder_id,
                refit_seconds=sum(refit["seconds"] for refit in report.get("refits", [])),
                killed_after=killed,
                update=cost,
                fresh=fresh_cost,
                megabytes=_measure_disk(living),
                fresh_megabytes=_measure_disk(folder / "fresh"),
                methods=tuple(
                    _compare(index, fresh, registry.label(registry.scheme(spec)), questions, first_ids)
                    for spec in parse_many(wanted.methods)
                ),
            )
        _print(state)
        if wanted.out is not None:
            with wanted.out.open("a") as file:
                file.write(json.dumps(asdict(state)) + "\n")
        if reader is None:
            texts = [text for text, _ in questions[:8]]
            reader = _SPAWNED.Process(target=_search_beside, args=(living, texts, stopped, counts))
            reader.start()
    stopped.set()
    if reader is not None:
        reader.join()
        searches, states, error = (0, 0, f"exit code {reader.exitcode}") if counts.empty() else counts.get()
        print(f"the reader beside it made {searches:,} searches in {states} states; error: {error or 'none'}")


# ---------------------------------------------------------------- states and commands


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


def _sample_patterns(wanted: argparse.Namespace, commits: Sequence[str]) -> list[str]:
    """Return a pattern for each of a sample of the names that text files have at any of the commits."""
    names = set[str]()
    for commit in commits:
        tree = f"{commit}:{wanted.folder}"
        for path in map(PurePosixPath, _git(wanted.clone, "ls-tree", "-r", "--name-only", tree).splitlines()):
            globs = wanted.include or ["*"]
            if path.suffix in _TEXT_ENDINGS and any(fnmatchcase(str(path), pattern) for pattern in globs):
                names.add(path.stem)
    drawn = random.Random(wanted.seed).sample(sorted(names), min(wanted.sample, len(names)))
    return [f"{escape(name)}.*" for name in sorted(drawn)]


def _git(folder: Path, *arguments: str) -> str:
    return subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=True).stdout


def _run(arguments: Sequence[str]) -> tuple[dict[str, Any], _Cost]:
    """Run `ragindex` with arguments; return its JSON and what it took. Fails if the command does."""
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        start = time.monotonic()
        process = _start([*arguments, "--json", "-"], output, errors)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        cost = _Cost(usage.ru_utime + usage.ru_stime, time.monotonic() - start, usage.ru_maxrss / 1e3)
        for file in (output, errors):
            file.seek(0)
        if process.returncode:
            raise SystemExit(f"ragindex {' '.join(arguments)} ended with {process.returncode}: {errors.read()!r}")
        return json.loads(output.read()), cost


def _start(arguments: Sequence[str], output: Any, errors: Any) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "ragindex", *arguments]
    return subprocess.Popen(command, stdout=output, stderr=errors, start_new_session=True)


def _kill(arguments: Sequence[str], seconds: float) -> float | None:
    """Run a command and kill it with all its processes after so many seconds; None if it has ended by itself."""
    process = _start(arguments, subprocess.DEVNULL, subprocess.DEVNULL)
    try:
        process.wait(seconds)
        return None
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return seconds


def _count_changes(report: dict[str, Any], fresh: Index) -> tuple[int, int, int, int, int]:
    """Return the documents, and how many of them were added, changed, removed and renamed."""
    sources = report.get("sources")
    if sources is None:  # of `index`
        return len(fresh), len(fresh), 0, 0, 0
    kinds = ("added", "changed", "removed", "renamed")
    added, changed, removed, renamed = (sum(len(source[kind]) for source in sources) for kind in kinds)
    return len(fresh), added, changed, removed, renamed


def _list_texts(index: Index) -> dict[str, tuple[str, str]]:
    return {document.id: (document.title, document.text) for document in index.documents}


def _measure_disk(folder: Path) -> float:
    """Return the megabytes of a folder."""
    return sum(file.stat().st_size for file in folder.glob("**/*") if file.is_file()) / 1e6


def _search_beside(folder: Path, texts: Sequence[str], stopped: Event, counts: Any) -> None:
    """Search until stopped, with an index that is only read and follows the newest state."""
    searches, states, error = 0, 1, ""
    try:
        index = Index.open(folder, read_only=True)
        while not stopped.is_set():
            if not index.is_newest():
                index = index.newest()
                states += 1
            for method in ("bm25", "dense"):
                retriever = index.retriever(method)
                for text in texts:
                    if not retriever.search(text, k=_K):
                        error = f"{method} found nothing for {text!r}"
                    searches += 1
                    time.sleep(_PAUSE)
    except RagindexError as failure:
        error = f"{type(failure).__name__}: {failure}"
    counts.put((searches, states, error))


# ---------------------------------------------------------------- comparisons


def _draw_questions(documents: Sequence[Document], first_ids: Set[str], count: int, seed: int) -> list[tuple[str, str]]:
    """Return titles as questions with the ids of their documents: of so many older documents, and of newer ones."""
    titled = sorted((document.title, document.id) for document in documents if document.title)
    ages = ([pair for pair in titled if (pair[1] in first_ids) is old] for old in (True, False))
    return [pair for pairs in ages for pair in random.Random(seed).sample(pairs, min(count, len(pairs)))]


def _compare(
    index: Index, fresh: Index, method: str, questions: Sequence[tuple[str, str]], first_ids: Set[str]
) -> _Comparison:
    retrievers = [each.retriever(method) for each in (index, fresh)]
    equal, difference = 0, 0.0
    places: dict[bool, list[tuple[int, int]]] = {True: [], False: []}
    for text, id in questions:
        results = [retriever.search(text, k=_K) for retriever in retrievers]
        ids = [[hit.id for hit in hits] for hits in results]
        scores = [[hit.score for hit in hits] for hits in results]
        gap = max((abs(ours - theirs) for ours, theirs in zip(*scores, strict=False)), default=0.0)
        equal += ids[0] == ids[1] and gap <= _CLOSE
        difference = max(difference, gap)
        ours, theirs = (next((rank for rank, hit in enumerate(hits) if id in hit.doc_ids), _K) for hits in results)
        places[id in first_ids].append((ours, theirs))
    follows_fit = any(map(uses_encoder, registry.scheme(method).parts()))
    comparable = index.encoder_id == fresh.encoder_id or not follows_fit
    old, new = (_count_recall(places[age]) for age in (True, False))
    return _Comparison(method, comparable, len(questions), equal, difference, old, new)


def _count_recall(places: Sequence[tuple[int, int]]) -> _Recall:
    """Count ranks, from 0, in the index and in the fresh one."""
    sides = list(zip(*places, strict=True)) or [(), ()]
    first, fresh_first = (sum(rank == 0 for rank in ranks) for ranks in sides)
    among, fresh_among = (sum(rank < _K for rank in ranks) for ranks in sides)
    return _Recall(len(places), first, fresh_first, among, fresh_among)


def _print(state: _State) -> None:
    fit = "the same" if state.same_fit else "older"
    refit = f", refitted in {state.refit_seconds:.1f} s" if state.refit_seconds else ""
    killed = "" if state.killed_after is None else f"; killed after {state.killed_after:.1f} s"
    print(
        f"{state.day} {state.commit[:10]}: {state.documents} documents (+{state.added} ~{state.changed} "
        f"-{state.removed} renamed {state.renamed}), ids and texts "
        f"{'equal' if state.same_documents else 'DIFFER'}, fit {fit}{refit}{killed}; CPU {state.update.cpu:.1f} s "
        f"against {state.fresh.cpu:.1f}, clock {state.update.clock:.1f} s against {state.fresh.clock:.1f}; "
        f"{state.megabytes:.0f} MB against {state.fresh_megabytes:.0f}; memory {state.update.megabytes:.0f} MB "
        f"against {state.fresh.megabytes:.0f}",
        flush=True,
    )
    for row in state.methods:
        recalls = "; ".join(
            f"{age} {recall.first}, {recall.among} of {recall.questions} against {recall.fresh_first}, "
            f"{recall.fresh_among}"
            for age, recall in (("old", row.old), ("new", row.new))
        )
        print(
            f"    {'' if row.holds else 'FAULT '}{row.method}: {row.equal} of {row.questions} equal, "
            f"scores differ by {row.difference:.1e}; at rank 1 and among {_K}: {recalls}",
            flush=True,
        )


if __name__ == "__main__":
    main()

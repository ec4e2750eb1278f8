"""A history of one workspace, played step by step: after each step, what must hold is looked at.

A step is a name and what it is given, as JSON: so a history can be drawn, cut down, written down and played again.
"""

import json
import shutil
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from histories import left, materials, paid
from histories.faults import Clock, Death, clock, dying, pressed
from histories.fresh import Conditions, Fresh, K
from histories.left import BrokenError
from ragindex.errors import LanguageWarning, MissingPartError, StaleWarning
from ragindex.index import manifest as manifests
from ragindex.index.index import Index
from ragindex.index.manifest import Manifest
from ragindex.interfaces import Retriever
from ragindex.plugins import registry
from ragindex.stores.lancedb.store import LanceDB
from ragindex.testing import assert_same
from ragindex.types import Retrieval

Step = tuple[str, dict[str, Any]]
_DAYS = 2 * 86_400.0
_READERS = 3


@dataclass(frozen=True)
class Setting:
    """What a history begins with; only the chunking changes. `store`: as it is written; empty for LanceDB."""

    methods: tuple[str, ...]
    chunking: str = "passages"
    batch: int = 3
    fragments: int = 64
    memory_gib: float = 1.0
    store: str = ""


def opened(folder: Path, setting: Setting, encoder: str, memory_gib: float) -> Index:
    """The workspace, by a process that has just begun."""
    store, new = setting.store or LanceDB(memory_gib=memory_gib), manifests.read_manifest(folder) is None
    chunking = materials.CUTTINGS[setting.chunking] if new else "default"
    return Index.open(
        folder, encoder=materials.ENCODERS[encoder], llm=materials.Model(), store=store, chunking=chunking, create=True
    )


@dataclass
class Reader:
    """Opened before: `ask` answers as it did then."""

    method: str
    ask: Callable[[], list[Retrieval]]
    expected: list[Retrieval]
    since: int
    same: Callable[[Sequence[Retrieval], Sequence[Retrieval], str], None]


@dataclass
class Finished:
    """What a method answered when its last sync had finished, and the collections that it was pinned to."""

    expected: list[Retrieval]
    pinned: Mapping[str, Mapping[str, int]]
    corpus: str
    failed: bool
    known: bool = True
    """Not once a sync of other methods has moved parts that it shares with them: it is then older than its parts."""


@dataclass
class History:
    """The workspace of one history and what is known of it. Close it at last."""

    folder: Path
    setting: Setting
    fresh: Fresh
    steps: list[Step] = field(default_factory=list)
    met: set[str] = field(default_factory=set)
    """Kinds of faults and events that were met."""
    corpus: dict[str, tuple[int, ...]] = field(default_factory=dict)
    encoder: str = "hashed"
    memory_gib: float = 1.0
    word: str = ""
    imported: Path | None = None
    paid: frozenset[int] = frozenset()
    """Calls whose answers the workspace keeps."""
    handed_on: frozenset[int] = frozenset()
    """Those of the last export."""
    readers: list[Reader] = field(default_factory=list)
    finished: dict[tuple[str, str, str], Finished] = field(default_factory=dict)
    space: Index | None = None
    clock: Clock = field(default_factory=lambda: Clock(time))

    def __post_init__(self) -> None:
        materials.register_words()
        self.memory_gib = self.setting.memory_gib
        self._imports = self.folder.parent / f"{self.folder.name}-imports"
        self._imports.mkdir(parents=True)

    # ------------------------------------------------------------ steps

    def play(self, name: str, given: Mapping[str, Any]) -> None:
        """One step, then what must hold. Raises BrokenError, or whatever the workspace raises that it must not."""
        self.steps.append((name, dict(given)))
        with self._at_work():
            STEPS[name](self, **given)
            self._check_readers()
            self._check_paid()

    @contextmanager
    def _at_work(self) -> Iterator[None]:
        with warnings.catch_warnings(), clock() as moved, pressed(self.setting.batch, self.setting.fragments):
            for kind in (StaleWarning, LanguageWarning):
                warnings.simplefilter("ignore", kind)
            moved.ahead = self.clock.ahead
            yield

    def put(self, documents: materials.Corpus, death: Sequence[Any] = ()) -> None:
        """Add documents and change them."""
        new = {name: tuple(sentences) for name, sentences in documents.items()}
        self._written(new, ("put", {"documents": new}), death)

    def remove(self, names: Sequence[str], death: Sequence[Any] = ()) -> None:
        """Those that are there."""
        there = [name for name in names if name in self.corpus]
        if there:
            gone: dict[str, None] = dict.fromkeys(there)
            self._written(gone, ("remove", {"names": there}), death)

    def replace(self, documents: materials.Corpus, death: Sequence[Any] = ()) -> None:
        """By another whole corpus."""
        new = {name: tuple(sentences) for name, sentences in documents.items()}
        change = {**dict.fromkeys(self.corpus), **new}
        self._written(change, ("replace", {"documents": new}), death)

    def rechunk(self, chunking: str, death: Sequence[Any] = ()) -> None:
        """Split the documents otherwise. Once it has begun, whoever writes next goes on with it."""
        before = self._manifest()
        if before is None or "whole" in (chunking, self.setting.chunking):
            return
        died = self._dying(("rechunk", {"chunking": chunking}), death)
        now = self._manifest()
        assert now is not None
        if not died or now.settings != before.settings:
            self.setting = replace(self.setting, chunking=chunking)

    def sync(self, methods: Sequence[str] | None, death: Sequence[Any] = ()) -> None:
        """These methods; without any, whatever was finished before."""
        self._renew_import()
        before = self._manifest()
        if not self.corpus and not (before and before.parts):
            return
        chosen = [method for method in self.setting.methods if methods is None or method in methods]
        if methods is None:
            chosen = [method for method in chosen if self._key(method) in self.finished and self._is_pinned(method)]
        died = self._dying(("sync", {"methods": [] if methods is None else chosen, "word": self.word}), death)
        if died and not self._went_through(before):
            self._check_finished("after a sync that died")
            return
        self._after_sync(chosen)

    def encode(self, encoder: str) -> None:
        """From now on another encoder."""
        self.encoder = encoder
        self._forget()

    def budget(self, memory_gib: float) -> None:
        """Another memory budget."""
        if not self.setting.store:
            self.memory_gib = memory_gib
            self._forget()

    def reopen(self) -> None:
        """Another process."""
        self._forget()

    def read(self, method: str, late: bool = False) -> None:
        """Open a reader, which then stays; a late one opens the method only when it is asked, but the workspace now."""
        known = self.finished.get(self._key(method))
        if known is None or not known.known or not self._is_pinned(method):
            return
        space = self._reader()
        scheme = materials.METHODS[method]
        opened = None if late else scheme.open(space)

        def ask() -> list[Retrieval]:
            return _retrieve_all(scheme.open(space) if opened is None else opened)

        self.readers = [
            *self.readers[-_READERS + 1 :],
            Reader(method, ask, known.expected, len(self.steps), self._same()),
        ]

    def fail(self, word: str) -> None:
        """From now on, passages with this word get no answer; none where it is empty."""
        self.word = word

    def take(self, death: Sequence[Any] = ()) -> None:
        """Import extractions of the documents as they are now."""
        if not self.corpus:
            return
        file = materials.openie(self.corpus, self.setting.chunking, self._imports)
        before = self._manifest()
        died = self._dying(("take", {"file": str(file)}), death)
        if not died or self._manifest() != before:
            self.imported = file

    def pay(self, call: int, death: Sequence[Any] = ()) -> None:
        """A model answers."""
        died = self._dying(("pay", {"call": call}), death)
        self.paid = self._either(paid.list_kept_calls(self.folder), self.paid, self.paid | {call}, died)

    def hand_on(self, death: Sequence[Any] = ()) -> None:
        """Export all answers, over the last export."""
        died = self._dying(("hand_on", {"file": str(self._export)}), death)
        self.handed_on = self._either(paid.handed_on(self._export), self.handed_on, self.paid, died)

    def lose(self, death: Sequence[Any] = ()) -> None:
        """The answers are deleted, and imported from the last export; again, where that dies."""
        if not self.handed_on:
            return
        paid.lose(self.folder)
        work: Step = ("take_back", {"file": str(self._export)})
        if self._dying(work, death):
            self._dying(work, ())
        self.paid = self.handed_on

    def later(self) -> None:
        """Days pass: nobody reads any more what was open."""
        self.clock.ahead += _DAYS
        self.readers.clear()
        self._forget()

    # ------------------------------------------------------------ doing

    def open(self) -> Index:
        """The writer's workspace."""
        if self.space is None:
            self.space = self._opened(self.memory_gib)
        return self.space

    def close(self) -> None:
        self.space = None
        self.readers.clear()
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.rmtree(self._imports, ignore_errors=True)

    def _opened(self, memory_gib: float) -> Index:
        return opened(self.folder, self.setting, self.encoder, memory_gib)

    def _reader(self) -> Index:
        """Another process that reads, with the budget that everything was finished with."""
        return self._opened(self._finished_by())

    def _finished_by(self) -> float:
        manifest = self._manifest()
        finished_by = manifest.finished_by if manifest else {}
        return float(finished_by.get("memory_gib", self.memory_gib))

    def _same(self) -> Callable[[Sequence[Retrieval], Sequence[Retrieval], str], None]:
        """How answers are compared: LanceDB, in memory and beyond, keeps the order of near-equal hits too."""
        return assert_alike if self.setting.store else assert_same

    def _forget(self) -> None:
        self.space = None

    def _manifest(self) -> Manifest | None:
        return manifests.read_manifest(self.folder)

    def work(self, name: str, given: Mapping[str, Any]) -> None:
        """What a step does to the workspace."""
        WORK[name](self.open(), **given)

    def _dying(self, work: Step, death: Sequence[Any]) -> bool:
        """Whether it died."""
        at, how = death or (0, "before")
        with dying(self.folder, at, how) as faults:
            try:
                self.work(*work)
            except Death:
                self.met.add(f"{how}: {faults.where.partition(' (')[0]}")
                if faults.dead:
                    self._forget()
                return True
            assert not faults.where, f"{faults.where} was swallowed"
        return False

    def _written(self, change: Mapping[str, Any], work: Step, death: Sequence[Any]) -> None:
        """A document is as it was or as it shall be, whenever the process dies."""
        wanted = {**self.corpus, **change}
        wanted = {name: content for name, content in wanted.items() if content is not None}
        if not self._dying(work, death):
            self.corpus = wanted
            return
        stored = {materials.named(document.id): document for document in self.open().documents}
        for name in {*self.corpus, *wanted, *stored}:
            options = [corpus.get(name) for corpus in (self.corpus, wanted)]
            texts = [None if option is None else materials.document(name, option) for option in options]
            if stored.get(name) not in texts:
                raise BrokenError("documents", f"{name} is {stored.get(name)}, neither of {texts}")
            self._adopt(name, options[texts.index(stored.get(name))])

    def _adopt(self, name: str, sentences: Any) -> None:
        if sentences is None:
            self.corpus = {other: text for other, text in self.corpus.items() if other != name}
        else:
            self.corpus = {**self.corpus, name: sentences}

    @property
    def _export(self) -> Path:
        return self._imports / "answers.jsonl"

    def _either(
        self, calls: frozenset[int], before: frozenset[int], after: frozenset[int], died: bool
    ) -> frozenset[int]:
        if calls != after and not (died and calls == before):
            raise BrokenError("paid", f"the answers of {sorted(calls)}, not {sorted(after)}")
        return calls

    def _renew_import(self) -> None:
        """A file of which nothing is in the corpus is refused: the user brings another."""
        if self.imported is not None and self.corpus:
            passages = set(materials.passages(self.corpus, self.setting.chunking).values())
            known = {(doc["title"], doc["text"]) for doc in json.loads(self.imported.read_text())["docs"]}
            if not known & passages:
                self.imported = materials.openie(self.corpus, self.setting.chunking, self._imports)
                self.open().import_part("extractions", self.imported)

    # ------------------------------------------------------------ what must hold

    def _key(self, method: str) -> tuple[str, str, str]:
        return (method, self.encoder, self.imported.name if self.imported else "")

    def _pinned(self, method: str) -> dict[str, Mapping[str, int]] | None:
        """The collections of a method's parts, as the manifest has them for the encoder in use; None: not made."""
        space = self._reader()
        parts = space.all_parts(materials.METHODS[method])
        keys = [space.key(part, space.pinned_encoder(part)) for part in parts]
        records = [space.manifest.parts.get(key) for key in keys]
        return (
            None
            if None in records
            else {key: record.collections for key, record in zip(keys, records, strict=True) if record}
        )

    def _is_pinned(self, method: str) -> bool:
        return self._pinned(method) is not None

    def _went_through(self, before: Manifest | None) -> bool:
        """Whether the sync wrote down that it had finished, before it died."""
        now = self._manifest()
        assert now is not None
        return before is None or _without_pins(now) != _without_pins(before)

    def _means(self) -> Conditions:
        manifest = self._manifest()
        assert manifest is not None
        learnt = self.encoder == "lsa"
        fitted = manifest.encoders.get(self.encoder, "") if learnt else ""
        fit = self.folder / "encoders" if learnt and fitted else None
        failed = frozenset(self._failed(manifest))
        return Conditions(self.encoder, self.setting.chunking, self.imported, failed, fitted, fit)

    def _failed(self, manifest: Manifest) -> Iterator[tuple[str, str, str]]:
        passages = materials.passages(self.corpus, self.setting.chunking)
        space = self._reader()
        keys = {part: key for key in manifest.parts for part in [key]}
        for task, name in materials.ASKED.items():
            key = space.key(registry.part(name), None)
            record = manifest.parts.get(keys.get(key, ""))
            for id in record.failed if record else ():
                if record and record.corpus == manifest.corpus and id in passages:
                    yield (task, *passages[id])

    def _after_sync(self, methods: Sequence[str]) -> None:
        manifest = self._manifest()
        assert manifest is not None
        self._check_failed(manifest)
        means = self._means()
        for method in methods:
            expected = self.fresh.answers(self.corpus, means, method)
            answers = self._answers(method)
            with _broken("the law", f"{method}, {means.encoder}"):
                self._same()(answers, expected, "unlike an undisturbed workspace of what is left")
            pinned = self._pinned(method)
            assert pinned is not None
            self.finished[self._key(method)] = Finished(expected, pinned, manifest.corpus, bool(means.failed))
        self._age(methods, manifest)
        left.check(self.open(), self.corpus, self.setting.chunking)

    def _answers(self, method: str) -> list[Retrieval]:
        return _retrieve_all(materials.METHODS[method].open(self._reader()))

    def _check_failed(self, manifest: Manifest) -> None:
        wrong = [failure for failure in self._failed(manifest) if not self.word or self.word not in failure[2]]
        if wrong:
            raise BrokenError("failed", f"{wrong}, though nothing fails for them")

    def _age(self, methods: Sequence[str], manifest: Manifest) -> None:
        """Other methods are older than what they share with these, unless the documents are what they were."""
        for key, answers in list(self.finished.items()):
            records = {part: manifest.parts.get(part) for part in answers.pinned}
            if None in records.values():
                del self.finished[key]
            elif any(record.collections != answers.pinned[part] for part, record in records.items() if record):
                same = answers.corpus == manifest.corpus and not answers.failed and not self.word
                answers.known = answers.known and (same or key[0] in methods)

    def _check_finished(self, when: str) -> None:
        """Whoever opens the workspace now sees what the last finished sync left."""
        for method in self.setting.methods:
            known = self.finished.get(self._key(method))
            if known is None or not known.known:
                continue
            try:
                answers = self._answers(method)
            except MissingPartError as error:
                raise BrokenError("finished", f"{method} cannot be opened {when}: {error}") from error
            with _broken("finished", f"{method}, {self.encoder}"):
                self._same()(answers, known.expected, when)

    def _check_readers(self) -> None:
        for reader in self.readers:
            with _broken("reader", f"{reader.method}, opened before step {reader.since}"):
                reader.same(reader.ask(), reader.expected, "another answer than before")

    def _check_paid(self) -> None:
        self._either(paid.list_kept_calls(self.folder), self.paid, self.paid, died=False)


STEPS: Mapping[str, Callable[..., None]] = {
    name: getattr(History, name)
    for name in (
        *("put", "remove", "replace", "rechunk", "sync", "encode", "budget", "reopen", "read", "fail", "take"),
        *("later", "pay", "hand_on", "lose"),
    )
}


def _sync(space: Index, methods: Sequence[str], word: str) -> None:
    with materials.failing(materials.with_word(word)):
        space.build(*[materials.METHODS[method] for method in methods])


WORK: Mapping[str, Callable[..., object]] = {
    "put": lambda space, documents: space.add(materials.documents(documents)),
    "remove": lambda space, names: space.remove([f"doc-{name}" for name in names]),
    "replace": lambda space, documents: space.replace(materials.documents(documents)),
    "rechunk": lambda space, chunking: space.rechunk(materials.CUTTINGS[chunking]),
    "sync": _sync,
    "take": lambda space, file: space.import_part("extractions", Path(file)),
    "pay": paid.pay,
    "hand_on": paid.hand_on,
    "take_back": paid.take_back,
}
"""What the steps that write do to a workspace."""


def assert_alike(retrievals: Sequence[Retrieval], expected: Sequence[Retrieval], because: str) -> None:
    """As `assert_same`, but hits may have changed places whose scores float32, in which some engines keep them, cannot
    tell apart: what is expected was found in memory."""
    places = [{hit.id: place for place, hit in enumerate(retrieval.hits)} for retrieval in expected]
    ordered = [
        replace(retrieval, hits=tuple(sorted(retrieval.hits, key=lambda hit: place[hit.id])))
        if {hit.id for hit in retrieval.hits} == place.keys() and len(retrieval.hits) == len(place)
        else retrieval
        for retrieval, place in zip(retrievals, places, strict=True)
    ]
    assert_same(ordered, expected, because)


def _retrieve_all(retriever: Retriever) -> list[Retrieval]:
    return retriever.retrieve(materials.QUERIES, K)


def _without_pins(manifest: Manifest) -> Any:
    """What only a sync that finishes its own parts writes."""
    content = manifest.model_dump(mode="json", exclude={"finished_by", "leftover", "outdated"})
    return {**content, "parts": {key: {**record, "collections": {}} for key, record in content["parts"].items()}}


@contextmanager
def _broken(kind: str, who: str) -> Iterator[None]:
    try:
        yield
    except AssertionError as error:
        raise BrokenError(kind, f"{who}: {error}") from None

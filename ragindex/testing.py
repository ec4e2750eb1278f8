"""Checks of the contract of a scheme, for plugin authors: `check_scheme(scheme, folder)`.

Every registered scheme passes them; see docs/tutorials/writing-a-retriever.md. A failed check raises AssertionError,
whose message names the plugin's class and file and says what was expected.
"""

import shutil
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import wraps
from inspect import getsourcefile
from itertools import product
from pathlib import Path
from typing import Any, ClassVar, Protocol, cast

import pyarrow as pa
from pydantic import PrivateAttr

from ragindex.accounting import ledger
from ragindex.errors import UsageError
from ragindex.filters import Filter, meta
from ragindex.index.explanation import DocumentExplanation, find_losing_place
from ragindex.index.index import Index
from ragindex.index.parts import tasks_of, topological_order
from ragindex.interfaces import Collection, Part, Retriever, Schema, Scheme, Store
from ragindex.interfaces.llm import LLMPlugin, LLMSettings
from ragindex.llm.offline import OfflineRules
from ragindex.llm.tasks import Output, Task
from ragindex.plugins import registry
from ragindex.plugins.base import Plugin
from ragindex.plugins.plugin_errors import describe_class, find_fault
from ragindex.retrieval import forbidden_documents
from ragindex.retrieval.hits import find_breach
from ragindex.stores.metered import MeteredCollection
from ragindex.types import Document, Query, Retrieval

TOLERANCE = 1e-5
"""Largest difference of two scores that count as equal."""
_CUTOFFS = (1, 5, 20)
_EXPLAINED = 5
"""One of so many documents is looked for at all stages of a search."""
_CRASHES = 3
"""Number of moments in an update at which a crash is simulated."""

_SENTENCES = """
Ada Miller|Ada Miller was a glass painter who was born in Lindau in 1871.
Lindau|Lindau is a town on an island of Lake Constance with an old lighthouse.
Lake Constance|Lake Constance lies between Germany, Austria and Switzerland, and the Rhine flows through it.
Rhine|The river Rhine rises in the Alps and reaches the sea at Rotterdam.
Rotterdam|Rotterdam has the largest harbour of Europe.
Alps|The highest mountain of the Alps is Mont Blanc.
Mont Blanc|Mont Blanc was first climbed by Jacques Balmat and Michel Paccard.
Paccard|Michel Paccard worked as a physician in Chamonix.
Chamonix|The first winter games were held in Chamonix in 1924.
Winter games|Figure skating and curling belong to the winter games.
Curling|Curling stones are cut from the granite of Ailsa Craig.
Ailsa Craig|Ailsa Craig is an uninhabited island where gannets breed.
Gannets|Gannets dive for mackerel from a great height.
Mackerel|Smoked mackerel is eaten with bread and horseradish.
Horseradish|Horseradish grows in damp gardens and makes the eyes water.
Gardens|A kitchen garden wants compost, sun and patience.
Compost|Compost warms up while bacteria break it down.
Bacteria|Bacteria were first seen by Antonie van Leeuwenhoek through his lenses.
Lenses|Lenses of flint glass disperse light more than those of crown glass.
Glass|Glass is made by melting sand, soda and lime.
Sand|Desert sand is too round for concrete.
Concrete|The dome of the Pantheon is made of unreinforced concrete.
Pantheon|The Pantheon in Rome was finished under the emperor Hadrian.
Hadrian|Hadrian had a wall built across the north of Britain.
"""
DOCUMENTS = tuple(
    Document(f"d{number:02d}", title, text, {"number": number, "half": "first" if number < 12 else "second"})
    for number, (title, _, text) in enumerate(line.partition("|") for line in _SENTENCES.strip().splitlines())
)
QUESTIONS = (
    "Who was first to climb Mont Blanc?",
    "What are curling stones cut from?",
    "Which emperor finished the Pantheon in Rome?",
    "Where does the river Rhine reach the sea?",
    "What do gannets dive for?",
)
ADDED = (
    Document("x1", "Mont Blanc tunnel", "The Mont Blanc tunnel was first opened to cars and stones in 1965."),
    Document("x2", "Emperor penguins", "Emperor penguins dive deep in the sea, and the river never."),
)
STRANGE = (
    "?",
    "\x00\x01\x07 glass \x1b[31m",
    "glass " * 20_000,
    "стекло γυαλί ガラス 玻璃 유리 زجاج काँच แก้ว 🪟 Ｇｌａｓｓ",
    "'; DROP TABLE passages; -- \" OR 1=1",
    "(a AND b) OR NOT \\ / * ~ ^ [x TO y] {z}",
)


class Check(Protocol):
    """A function that checks a scheme on indexes that it builds under `folder` with the engine `store`.

    Checks of one scheme share the index in the folder `built`, which the first of them makes. Checks that change an
    index begin with a copy of it. Without `built`, and on engines whose records are elsewhere, each makes its own.
    """

    __name__: str

    def __call__(
        self,
        scheme: Scheme,
        folder: Path,
        encoder: registry.PluginSpec = "lsa",
        store: registry.PluginSpec = "lancedb",
        built: Path | None = None,
    ) -> None:
        """Raise AssertionError, with what was expected, if the check fails."""
        ...


def check_scheme(
    scheme: Scheme, folder: Path, encoder: registry.PluginSpec = "lsa", store: registry.PluginSpec = "lancedb"
) -> None:
    """Run every check in new indexes under `folder`. Raises AssertionError at the first check that fails."""
    for check in CHECKS:
        check(scheme, folder / check.__name__, encoder, store, folder / "built")


def build(
    scheme: Scheme,
    folder: Path,
    encoder: registry.PluginSpec,
    documents: Sequence[Document] = DOCUMENTS,
    store: registry.PluginSpec = "lancedb",
) -> Index:
    """Build the scheme's parts in a new index of the documents, without chunking."""
    index = Index.open(folder, encoder=encoder, store=store, chunking=None, create=True)
    index.add(documents)
    index.build(scheme)
    return index


def ask_questions(retriever: Retriever, k: int, where: Filter | None = None) -> list[Retrieval]:
    """Retrieve `k` hits for each of QUESTIONS, filtered by `where`."""
    return retriever.retrieve([Query(f"q{n}", text, where) for n, text in enumerate(QUESTIONS)], k)


def assert_same(first: Sequence[Retrieval], second: Sequence[Retrieval], because: str) -> None:
    """Assert the same ids in the same order, with scores within TOLERANCE."""
    for left, other in zip(first, second, strict=True):
        ids, expected = [hit.id for hit in left.hits], [hit.id for hit in other.hits]
        assert ids == expected, f"{because}: got {ids}, expected {expected}"
        for hit, other_hit in zip(left.hits, other.hits, strict=True):
            near = abs(hit.score - other_hit.score) <= TOLERANCE
            assert near, f"{because}: {hit.id} scores {hit.score}, expected {other_hit.score}"


# ---------------------------------------------------------------- naming the plugin at fault


class _NamedError(AssertionError):
    """A failed check whose message already names the plugin."""


def _require(holds: bool, plugin: Plugin, message: str) -> None:
    if not holds:
        raise _NamedError(f"{describe_class(plugin)}: {message}")


@contextmanager
def _name_plugin_in_errors(scheme: Scheme) -> Iterator[None]:
    """Name the plugin at fault in every error: the part whose method failed, else the scheme."""
    try:
        yield
    except _NamedError:
        raise
    except AssertionError as error:
        raise _NamedError(f"{describe_class(scheme)}: {error}") from error
    except Exception as error:
        plugin, place = _find_culprit(error, scheme)
        raise _NamedError(f"{describe_class(plugin)}: raised {registry.describe_error(error)} ({place})") from error


def _find_culprit(error: Exception, scheme: Scheme) -> tuple[Plugin, str]:
    """Return the part whose method raised the error, else the scheme, and the last line reached in its file."""
    frames = list(traceback.walk_tb(error.__traceback__))
    parts = [part for frame, _ in frames if isinstance(part := frame.f_locals.get("self"), Part)]
    plugin = parts[-1] if parts else scheme
    files = [(frame.f_code, line) for frame, line in frames if frame.f_code.co_filename == getsourcefile(type(plugin))]
    code, line = files[-1] if files else (frames[-1][0].f_code, frames[-1][1])
    return plugin, f"{Path(code.co_filename).name}, line {line}, in {code.co_name}"


@dataclass(frozen=True)
class _Bench:
    """A scheme to check, with the folder, encoder and store of its indexes."""

    scheme: Scheme
    folder: Path
    encoder: registry.PluginSpec
    store: registry.PluginSpec
    built: Path | None

    def open(self, folder: Path, llm: registry.PluginSpec = "offline") -> Index:
        return Index.open(folder, encoder=self.encoder, llm=llm, store=self.store, chunking=None, create=True)

    def share(self) -> Index:
        """Open the index that checks share; nothing may change it."""
        is_local = registry.name_of(registry.store(self.store)) == "lancedb"
        folder = self.built if self.built is not None and is_local else self.folder / "index"
        return build(self.scheme, folder, self.encoder, store=self.store)

    def copy(self) -> Index:
        """Open an index to be changed: a copy of the shared one."""
        index = self.share()
        if index.folder != self.built:
            return index
        index.close()
        shutil.copytree(self.built, self.folder / "index")
        return self.open(self.folder / "index")

    def retriever(self) -> Retriever:
        return self.name_questions(self.share())

    def name_questions(self, index: Index) -> Retriever:
        return _QuestionNamingRetriever(self.scheme.open(index))


@dataclass(frozen=True)
class _QuestionNamingRetriever:
    """A retriever whose errors name the question."""

    inner: Retriever

    def retrieve(self, queries: Sequence[Query], k: int) -> list[Retrieval]:
        try:
            return self.inner.retrieve(queries, k)
        except UsageError:
            raise
        except Exception:
            for query in queries:
                with _name_question_in_errors(query):
                    self.inner.retrieve([query], k)
            raise


@contextmanager
def _name_question_in_errors(query: Query) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        error.add_note(f"for the question {query.text[:60]!r}")
        raise


def _check(run: Callable[[_Bench], None]) -> Check:
    """Turn a function into a check whose errors name the plugin."""

    @wraps(run)
    def check(
        scheme: Scheme,
        folder: Path,
        encoder: registry.PluginSpec = "lsa",
        store: registry.PluginSpec = "lancedb",
        built: Path | None = None,
    ) -> None:
        with _name_plugin_in_errors(scheme):
            run(_Bench(scheme, folder, encoder, store, built))

    return cast(Check, check)


# ---------------------------------------------------------------- parameters


@_check
def check_parameters(bench: _Bench) -> None:
    """Check that scheme and parts have a version and JSON parameters, from which the scheme can be made again.

    A scheme that is registered is made from its description and its label, another from its parameters.
    """
    scheme = bench.scheme
    for plugin in (scheme, *topological_order(scheme.parts())):
        fault = find_fault(plugin)
        _require(fault is None, plugin, fault or "")
    if not registry.is_registered(scheme):
        copy = type(scheme).model_validate(scheme.model_dump(mode="json"))
        assert copy == scheme, f"made from its parameters {scheme.model_dump(mode='json')}, it is not the same scheme"
        return
    described = registry.describe(scheme)
    assert registry.scheme(described) == scheme, f"made from its description {described}, it is not the same scheme"
    label = registry.label(scheme)
    assert registry.scheme(label) == scheme, f"made from its label {label!r}, it is not the same scheme"


# ---------------------------------------------------------------- answers


@_check
def check_hits(bench: _Bench) -> None:
    """Check that there are at most k hits, unique, best first, with the ids and metadata of documents of the corpus."""
    retriever = bench.retriever()
    known = {document.id: document for document in DOCUMENTS}
    for k in (1, 5, 100):
        for text, retrieval in zip(QUESTIONS, ask_questions(retriever, k), strict=True):
            hits = retrieval.hits
            assert hits, f"no hit for k = {k} and the question {text!r}"
            broken = find_breach(hits, k, known)
            assert broken is None, broken
            for hit in hits:
                for doc_id in hit.doc_ids:
                    expected = known[doc_id].metadata
                    assert hit.metadata.get(doc_id) == expected, (
                        f"the hit {hit.id!r} lacks the metadata of the document {doc_id!r}: "
                        f"metadata[{doc_id!r}] must be {expected}. Make hits with ragindex.retrieval.hits.read_hits"
                    )


@_check
def check_finds(bench: _Bench) -> None:
    """Check that a document's own text, used as a question, finds the document among the first three hits."""
    queries = [Query(document.id, f"{document.title}: {document.text}") for document in DOCUMENTS]
    for query, retrieval in zip(queries, bench.retriever().retrieve(queries, 3), strict=True):
        doc_ids = [doc_id for hit in retrieval.hits for doc_id in hit.doc_ids]
        assert query.id in doc_ids, f"{query.text!r} finds {doc_ids}, not {query.id}"


@_check
def check_batches(bench: _Bench) -> None:
    """Check that batches, single questions and threads all give the same answers."""
    retriever = bench.retriever()
    together = ask_questions(retriever, 5)
    queries = [Query(f"q{n}", text) for n, text in enumerate(QUESTIONS)]
    assert_same([retriever.retrieve([query], 5)[0] for query in queries], together, "one by one")
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda query: retriever.retrieve([query], 5)[0], queries * 4))
    assert_same(answers, together * 4, "from threads")
    assert retriever.retrieve([], 5) == [], "no question, yet answers"


@_check
def check_bad_input(bench: _Bench) -> None:
    """Check that k below 1 and empty questions raise UsageError, and that unusual questions are answered."""
    retriever = bench.retriever()
    for query, k in ((Query("q", "glass"), 0), (Query("q", "glass"), -1), (Query("q", ""), 5), (Query("q", " \n"), 5)):
        try:
            retriever.retrieve([query], k)
        except UsageError:
            continue
        raise AssertionError(
            f"retrieve must raise UsageError for the question {query.text!r} with k = {k}. "
            "Call ragindex.retrieval.hits.check_queries first"
        )
    for text in STRANGE:
        hits = retriever.retrieve([Query("q", text)], 3)[0].hits
        assert len(hits) <= 3, f"{text[:30]!r} finds {len(hits)} hits"


@_check
def check_filter(bench: _Bench) -> None:
    """Check that every document of every hit matches the query's filter."""
    retriever = bench.retriever()
    half = {document.id for document in DOCUMENTS if document.metadata["half"] == "second"}
    answers = ask_questions(retriever, 24, meta("half", "second"))
    doc_ids = {doc_id for retrieval in answers for hit in retrieval.hits for doc_id in hit.doc_ids}
    assert {"d22"} <= doc_ids, f"the document d22 passes the filter and is not found; found: {sorted(doc_ids)}"
    assert doc_ids <= half, f"the documents {sorted(doc_ids - half)} do not pass the filter"
    single = [{id for hit in r.hits for id in hit.doc_ids} for r in ask_questions(retriever, 24, meta("number", 22))]
    assert all(reached <= {"d22"} for reached in single), f"only d22 passes the filter, got {single}"
    assert not any(retrieval.hits for retrieval in ask_questions(retriever, 5, meta("half", "third"))), (
        "nothing passes, yet hits"
    )


@_check
def check_forbidden(bench: _Bench) -> None:
    """Check that nothing of a document that the filter keeps out is shown: in hits, steps, notes, or to an LLM.

    The document joins the others (`retrieval.forbidden_documents`). All ways of keeping it out must give the same
    hits.
    """
    llm = _RecordingLLM()
    index = bench.open(bench.folder, llm)
    corpus = forbidden_documents.make_corpus(DOCUMENTS[:12])
    index.add(corpus)
    index.build(bench.scheme)
    retriever, llm_inputs = bench.name_questions(index), llm.open().given
    queries = [Query(f"q{n}", text) for n, text in enumerate(forbidden_documents.TRAPS)]
    (unfiltered,) = retriever.retrieve(queries[-1:], 30)
    doc_ids = {doc_id for hit in unfiltered.hits for doc_id in hit.doc_ids}
    assert forbidden_documents.FORBIDDEN_ID in doc_ids, "without a filter, the text of a document does not find it"
    answers: dict[str, list[Retrieval]] = {}
    for name, where in forbidden_documents.make_filters(corpus).items():
        answers[name] = []
        for query, k in product(queries, (3, 30)):
            llm_inputs.clear()
            (retrieval,) = retriever.retrieve([replace(query, filter=where)], k)
            answers[name].append(retrieval)
            leaks = forbidden_documents.list_leaks(query, retrieval, llm_inputs)
            assert not leaks, f"the filter by {name} keeps a document out, but it shows in: {leaks} ({query.text!r})"
        assert_same(answers[name], answers["metadata"], f"filtered by {name} instead of by metadata")


@_check
def check_cutoffs(bench: _Bench) -> None:
    """Check that the hits of a smaller k are the first hits of a larger k, unless the scheme `depends_on_k`."""
    largest = max(_CUTOFFS)
    if bench.scheme.depends_on_k(largest):
        return
    retriever = bench.retriever()
    texts = [*QUESTIONS, *_build_long_questions()]
    queries = [Query(f"q{n}", text) for n, text in enumerate(texts)]
    answers = {
        k: [[(hit.id, tuple(hit.doc_ids)) for hit in retrieval.hits] for retrieval in retriever.retrieve(queries, k)]
        for k in _CUTOFFS
    }
    for k in _CUTOFFS:
        for text, answer, of_many in zip(texts, answers[k], answers[largest], strict=True):
            assert answer == of_many[:k], (
                f"k = {k} gives {answer}, but the first {k} of {largest} are {of_many[:k]} ({text!r}): "
                "its first hits depend on k, so depends_on_k must return True"
            )


def _build_long_questions() -> Iterator[str]:
    """Yield long questions that many documents match a little, so that small changes of a ranking become visible."""
    for start in range(len(DOCUMENTS)):
        three = (DOCUMENTS[(start + step) % len(DOCUMENTS)] for step in (0, 7, 13))
        yield " ".join(f"{document.title}: {document.text}" for document in three)


# ---------------------------------------------------------------- LLM tasks


class _RecordingRules(OfflineRules):
    """The offline rules, with a record of the tasks that they ran, and of what they were given."""

    def __init__(self) -> None:
        self.tasks: list[Task[Any]] = []
        self.given: list[Mapping[str, Any]] = []

    def require_rule(self, task: Task[Output]) -> Callable[[Mapping[str, Any]], Output]:
        self.tasks.append(task)
        rule = super().require_rule(task)

        def recording(inputs: Mapping[str, Any]) -> Output:
            self.given.append(inputs)
            return rule(inputs)

        return recording


class _RecordingLLM(LLMPlugin):
    version: ClassVar[int] = 1
    _rules: _RecordingRules = PrivateAttr(default_factory=_RecordingRules)

    def open(self, setting: LLMSettings | None = None) -> _RecordingRules:
        return self._rules


@_check
def check_stages(bench: _Bench) -> None:
    """Check that where a document was lost agrees with the search that is explained, which calls no model more often.

    See `ragindex.retrieval.stages` for the stages that a scheme may record.
    """
    index = bench.share()
    retriever = bench.name_questions(index)
    explainer = index.explainer(bench.scheme, retriever)
    for text, k in product(QUESTIONS[:2], (3, 30)):
        query = Query("q", text)
        with ledger.record_calls() as of_search:
            (expected,) = retriever.retrieve([query], k)
        for document in DOCUMENTS[::_EXPLAINED]:
            with ledger.record_calls() as of_explanation:
                answer = explainer.search(query, k, document.id)
            assert_same([answer[0]], [expected], f"with an explanation of where {document.id} is")
            _require_consistent(answer[1], expected, document.id)
            calls, more = len(of_search.entries), len(of_explanation.entries)
            assert more <= calls, f"a search makes {calls} calls, and {more} to explain where {document.id} is"


def _require_consistent(explanation: DocumentExplanation, retrieval: Retrieval, document: str) -> None:
    """Require the rank of the search, and a losing stage after which no stage ranks the document."""
    ranks = [rank for rank, hit in enumerate(retrieval.hits, start=1) if document in hit.doc_ids]
    assert explanation.rank == (ranks[0] if ranks else None), (
        f"{document} has the rank {explanation.rank} in its explanation, and {ranks[:1]} in the search"
    )
    assert (explanation.lost_at is None) == bool(ranks), f"lost at {explanation.lost_at}, with the ranks {ranks}"
    if not ranks:
        later = [stage for stage in explanation.stages[find_losing_place(explanation.stages) + 1 :] if stage.rank]
        assert not later, f"{document} was lost at {explanation.lost_at}, and {later[0].stage} ranks it after that"


@_check
def check_tasks(bench: _Bench) -> None:
    """Check that parts and scheme declare every LLM task that they run, while building and while answering.

    The index is built part by part, and must answer like another one of the same documents.
    """
    scheme, llm = bench.scheme, _RecordingLLM()
    tasks = llm.open().tasks
    index = bench.open(bench.folder / "part by part", llm)
    index.add(DOCUMENTS)
    for part in topological_order(scheme.parts()):
        tasks.clear()
        index.build(part)
        _require_declared(
            part, tasks, [task for built in topological_order([part]) for task in built.tasks()]
        )  # inputs finish too
    retriever = scheme.open(index)
    tasks.clear()
    answers = ask_questions(retriever, 5)
    _require_declared(scheme, tasks, tasks_of(scheme))
    assert_same(answers, ask_questions(bench.retriever(), 5), "two indexes of the same documents")


def _require_declared(plugin: Plugin, tasks: Iterable[Task[Any]], declared: Sequence[Task[Any]]) -> None:
    for task in tasks:
        _require(
            task.identity in [declared_task.identity for declared_task in declared],
            plugin,
            f"asks an LLM the task {task.name!r} without declaring it: return it from tasks()",
        )


# ---------------------------------------------------------------- changes and crashes


@_check
def check_law(bench: _Bench) -> None:
    """Check that an updated index answers like a new index of the same documents, and that open retrievers stay pinned.

    The updates add, change and remove documents.
    """
    scheme = bench.scheme
    disturbed = bench.copy()
    before = scheme.open(disturbed)
    expected = ask_questions(before, 10)
    disturbed.add(_UPDATE)
    disturbed.build(scheme)
    retrievals = scheme.open(disturbed).retrieve([Query("q", "quicksilver"), Query("q", "emperor penguins dive")], 10)
    reached = [[doc_id for hit in retrieval.hits for doc_id in hit.doc_ids] for retrieval in retrievals]
    assert "x2" in reached[1], f"the added document 'x2' is not found: {reached[1]}"
    changed = DOCUMENTS[3]
    (by_title,) = scheme.open(disturbed).retrieve([Query("q", f"{changed.title}: {changed.text}")], 100)
    old = [hit.id for hit in by_title.hits if hit.text == changed.text]
    assert not old, f"the changed document {changed.id!r} still has its old text in the hits {old}"
    _revert_update(disturbed)
    disturbed.build(scheme)
    assert_same(ask_questions(scheme.open(disturbed), 10), expected, "after adding, changing and removing documents")
    assert_same(ask_questions(before, 10), expected, "a retriever opened before the changes")


_UPDATE = (*ADDED, replace(DOCUMENTS[3], text="Nothing about rivers any more, but quicksilver."))


def _revert_update(index: Index) -> None:
    """Undo the changes of `_UPDATE`."""
    index.remove([document.id for document in ADDED])
    index.add([DOCUMENTS[3]])


@_check
def check_crash(bench: _Bench) -> None:
    """Check that the sync after a crash in an update completes it, because batches can be applied again."""
    scheme = bench.scheme
    index = bench.copy()
    folder = index.folder
    index.add(_UPDATE)
    writes = _sync_with_crash(index, scheme, None)
    expected = ask_questions(scheme.open(index), 10)
    for write in sorted(
        {1 + round(step * (writes - 1) / (_CRASHES - 1)) for step in range(_CRASHES)} if writes else ()
    ):
        _revert_update(index)
        index.build(scheme)
        index.add(_UPDATE)
        _sync_with_crash(index, scheme, write)
        index = bench.open(folder)
        index.build(scheme)
        because = f"after a crash behind write {write} of {writes} of an update (apply must be repeatable)"
        assert_same(ask_questions(scheme.open(index), 10), expected, because)


class _CrashError(Exception):
    """A simulated crash of the process."""


def _sync_with_crash(index: Index, scheme: Scheme, write: int | None) -> int:
    """Sync, crash after write number `write` to a part's collection (None: never), and return the number of writes."""
    store, counting = index.store, _WriteCounter(write)
    index.store = cast(Store, _CrashingStore(store, counting))
    try:
        index.build(scheme)
    except _CrashError:
        pass
    finally:
        index.store = store
    return counting.writes


@dataclass
class _WriteCounter:
    """A counter of writes that raises _CrashError at write number `last`."""

    last: int | None
    writes: int = 0

    def count(self) -> None:
        self.writes += 1
        if self.writes == self.last:
            raise _CrashError


@dataclass(frozen=True, slots=True)
class _CrashingCollection(MeteredCollection):
    counting: _WriteCounter = field(default_factory=lambda: _WriteCounter(None))

    def upsert(self, records: pa.RecordBatch) -> None:
        self.inner.upsert(records)
        self.counting.count()

    def delete(self, ids: Iterable[str]) -> None:
        self.inner.delete(ids)
        self.counting.count()


class _CrashingStore:
    """A store that counts the writes to collections of parts, but not to coverage and documents."""

    def __init__(self, inner: Store, counting: _WriteCounter) -> None:
        self.inner, self.counting = inner, counting

    def create(self, name: str, schema: Schema) -> Collection:
        collection = self.inner.create(name, schema)
        uncounted = name == "documents" or name.endswith(".coverage")
        return collection if uncounted else _CrashingCollection(collection, None, self.counting)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


CHECKS: tuple[Check, ...] = (
    check_parameters,
    check_hits,
    check_finds,
    check_batches,
    check_bad_input,
    check_filter,
    check_forbidden,
    check_cutoffs,
    check_stages,
    check_tasks,
    check_law,
    check_crash,
)

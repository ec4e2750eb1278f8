"""The contract's checks: one broken plugin for each mistake, and its message."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pytest
from made_language import ECHO

from ragindex import testing
from ragindex.filters import Ids
from ragindex.interfaces import BuildContext, Change, Collection, OpenIndex, Part, Retriever, Schema, Scheme, Uses
from ragindex.parts.text.passages import Passages
from ragindex.retrieval.hits import text_search_schema
from ragindex.retrieval.stages import is_recording
from ragindex.testing import Check
from ragindex.types import Query, Retrieval
from ragindex_baselines.bm25 import BM25


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The index that checks share which only read."""
    return tmp_path_factory.mktemp("built") / "index"


def message(check: Check, scheme: Scheme, folder: Path, built: Path | None = None) -> str:
    """What a check says, without the path of this file and the numbers of its lines."""
    with pytest.raises(AssertionError) as error:
        check(scheme, folder, built=built)
    return re.sub(r"line \d+", "line N", str(error.value).replace(__file__, "FILE"))


class Wrapper(Scheme):
    """BM25 over some part, with a retriever around it."""

    version: ClassVar[int] = 1

    def part(self) -> Part[Collection]:
        return Passages()

    def _parts(self) -> tuple[Part[Any], ...]:
        return (self.part(),)

    def _open(self, index: OpenIndex) -> Retriever:
        return WrapperRetriever(BM25(over=self.part()).open(index), index, self)

    def change(self, query: Query, retrieval: Retrieval, index: OpenIndex) -> Retrieval:
        return retrieval


@dataclass(frozen=True)
class WrapperRetriever:
    base: Retriever
    index: OpenIndex
    scheme: Wrapper

    def retrieve(self, queries: Sequence[Query], k: int) -> list[Retrieval]:
        answers = zip(queries, self.base.retrieve(queries, k), strict=True)
        return [self.scheme.change(query, retrieval, self.index) for query, retrieval in answers]


# ---------------------------------------------------------------- what is written down


class WithoutVersion(Scheme):
    def _open(self, index: OpenIndex) -> Retriever:
        return BM25().open(index)


class WithoutJson(Wrapper):
    pattern: Any = object()


def test_parameters_and_version(tmp_path: Path) -> None:
    text = message(testing.check_parameters, WithoutVersion(), tmp_path)
    assert text == "WithoutVersion (FILE): has no version. Add: version: ClassVar[int] = 1"
    text = message(testing.check_parameters, WithoutJson(), tmp_path)
    assert re.fullmatch(r"WithoutJson \(FILE\): the parameter 'pattern' must be JSON, and <object .*> is not", text)


# ---------------------------------------------------------------- answers


class WithoutMetadata(Wrapper):
    def change(self, query: Query, retrieval: Retrieval, index: OpenIndex) -> Retrieval:
        return replace(retrieval, hits=tuple(replace(hit, metadata={}) for hit in retrieval.hits))


class FailingOnOne(Wrapper):
    def change(self, query: Query, retrieval: Retrieval, index: OpenIndex) -> Retrieval:
        if "curling" in query.text:
            raise ValueError("no stones")
        return retrieval


class Unchecked(Wrapper):
    def _open(self, index: OpenIndex) -> Retriever:
        return UncheckedRetriever(BM25().open(index))


@dataclass(frozen=True)
class UncheckedRetriever:
    base: Retriever

    def retrieve(self, queries: Sequence[Query], k: int) -> list[Retrieval]:
        return self.base.retrieve(queries, max(k, 1))


def test_hits_without_metadata(tmp_path: Path, built: Path) -> None:
    text = message(testing.check_hits, WithoutMetadata(), tmp_path, built)
    assert text == (
        "WithoutMetadata (FILE): the hit 'd06' lacks the metadata of the document 'd06': metadata['d06'] must be "
        "{'number': 6, 'half': 'first'}. Make hits with ragindex.retrieval.hits.read_hits"
    )


def test_an_exception_on_one_question(tmp_path: Path, built: Path) -> None:
    text = message(testing.check_hits, FailingOnOne(), tmp_path, built)
    assert text == (
        "FailingOnOne (FILE): raised ValueError: no stones for the question 'What are curling stones cut from?' "
        "(test_testing.py, line N, in change)"
    )


def test_k_that_is_not_refused(tmp_path: Path, built: Path) -> None:
    assert message(testing.check_bad_input, Unchecked(), tmp_path, built) == (
        "Unchecked (FILE): retrieve must raise UsageError for the question 'glass' with k = 0. "
        "Call ragindex.retrieval.hits.check_queries first"
    )


# ---------------------------------------------------------------- asking an LLM


class AskingPart(Passages):
    uses: ClassVar[Uses] = frozenset({"model", "prompts"})

    def apply(self, change: Change, context: BuildContext) -> None:
        super().apply(change, context)
        context.llm.map(ECHO, [{"text": id} for id in change.upsert])


class WithAskingPart(Wrapper):
    def part(self) -> Part[Collection]:
        return AskingPart()


class Unallowed(AskingPart):
    uses: ClassVar[Uses] = frozenset()


class WithUnallowed(Wrapper):
    def part(self) -> Part[Collection]:
        return Unallowed()


class AskingScheme(Wrapper):
    def change(self, query: Query, retrieval: Retrieval, index: OpenIndex) -> Retrieval:
        index.llm.run(ECHO, {"text": query.text})
        return retrieval


def test_undeclared_tasks(tmp_path: Path) -> None:
    for name, scheme in (("AskingPart", WithAskingPart()), ("AskingScheme", AskingScheme())):
        text = message(testing.check_tasks, scheme, tmp_path / name)
        assert text == f"{name} (FILE): asks an LLM the task 'echo' without declaring it: return it from tasks()"
    text = message(testing.check_tasks, WithUnallowed(), tmp_path / "unallowed")
    assert text.startswith("Unallowed (FILE): raised UsageError: The part ")
    assert text.endswith('uses an LLM; add "model" to its `uses`. (test_testing.py, line N, in apply)')


# ---------------------------------------------------------------- building, changes and crashes


class FailingPart(Passages):
    def apply(self, change: Change, context: BuildContext) -> None:
        raise KeyError("title")


class WithFailingPart(Wrapper):
    def part(self) -> Part[Collection]:
        return FailingPart()


class Doubling(Passages):
    """A passage that comes again at the same revision is written with its text twice."""

    def apply(self, change: Change, context: BuildContext) -> None:
        super().apply(change, context)
        seen = context.folder / "seen"
        lines = set(seen.read_text().splitlines()) if seen.exists() else set[str]()
        again = [id for id, revision in change.upsert.items() if f"{id} {revision}" in lines]
        left = {line for line in lines if line.split()[0] not in {*change.upsert, *change.remove}}
        seen.write_text("\n".join(left | {f"{id} {revision}" for id, revision in change.upsert.items()}))
        if again:
            records = context.collection("records", text_search_schema(context.language))
            stored = records.get(again, records.fields())
            texts = pa.array([f"{text} {text}" for text in stored.column("text").to_pylist()])
            records.upsert(stored.set_column(stored.schema.get_field_index("text"), "text", texts))
        elif change.upsert:
            context.collection("done", Schema(stored=("name",))).upsert(
                pa.RecordBatch.from_pydict({"id": ["x"], "name": ["y"]})
            )


class WithDoubling(Wrapper):
    def part(self) -> Part[Collection]:
        return Doubling()


def test_an_exception_in_apply(tmp_path: Path) -> None:
    text = message(testing.check_finds, WithFailingPart(), tmp_path)
    assert text == (
        "FailingPart (FILE): raised KeyError: 'title' in a batch of 24 passages of the part "
        f"{FailingPart.__module__}:FailingPart, first at the passage 'd00' (test_testing.py, line N, in apply)"
    )


def test_a_batch_that_cannot_be_applied_again_after_a_crash(tmp_path: Path) -> None:
    text = message(testing.check_crash, WithDoubling(), tmp_path)
    assert text.startswith("WithDoubling (FILE): after a crash behind write ")
    assert "of an update (apply must be repeatable): " in text


# ---------------------------------------------------------------- one line broken on purpose


class Broken(Wrapper):
    """BM25 with one line changed: `fault` names which."""

    fault: str = ""

    def part(self) -> Part[Collection]:
        return {"keeps removed": KeepsRemoved(), "adds nothing": AddsNothing(), "old texts": OldTexts()}.get(
            self.fault, Passages()
        )

    def _open(self, index: OpenIndex) -> Retriever:
        return BrokenRetriever(BM25(over=self.part()).open(index), self.fault)


@dataclass(frozen=True)
class BrokenRetriever:
    base: Retriever
    fault: str

    def retrieve(self, queries: Sequence[Query], k: int) -> list[Retrieval]:
        searched = [replace(query, filter=None) for query in queries] if self.fault == "ignores filter" else queries
        if self.fault == "batch":  # all questions of a batch get the hits of the first
            return [self.base.retrieve(searched[:1], k)[0] for _ in searched]
        if self.fault == "filter by metadata alone":
            searched = [
                query if query.filter is None or "meta." in str(query.filter) else replace(query, filter=Ids(()))
                for query in queries
            ]
        depth = {"one more": k + 1, "few": max(1, k // 2)}.get(self.fault, k)
        retrievals = [self._change(retrieval, k) for retrieval in self.base.retrieve(searched, depth)]
        return [self._tell(*pair, k) for pair in zip(queries, retrievals, strict=True)]

    def _tell(self, query: Query, retrieval: Retrieval, k: int) -> Retrieval:
        """Pass on the step of a search without the filter, or a text that it found."""
        if not self.fault.startswith("unfiltered"):
            return retrieval
        (without,) = self.base.retrieve([replace(query, filter=None)], 30)
        if self.fault == "unfiltered step":
            return replace(retrieval, trace=without.trace)
        return replace(retrieval, notes=tuple(sorted(hit.text for hit in without.hits if "Ymbrolite" in hit.text)))

    def _change(self, retrieval: Retrieval, k: int) -> Retrieval:
        hits = retrieval.hits
        if self.fault == "twice":
            hits = (*hits[:1], *hits)[:k]
        elif self.fault == "backwards":
            hits = hits[::-1]
        elif self.fault == "not a number":
            hits = tuple(replace(hit, score=float("nan")) for hit in hits)
        elif self.fault == "no documents":
            hits = tuple(replace(hit, doc_ids=()) for hit in hits)
        elif self.fault == "unknown document":
            hits = tuple(replace(hit, doc_ids=(f"{hit.id}x",)) for hit in hits)
        elif self.fault == "longer if recorded" and is_recording():  # it keeps what it looks at beyond k
            hits = self.base.retrieve([Query("q", testing.QUESTIONS[1])], k)[0].hits
        elif self.fault == "changes with k":
            hits = tuple(replace(hit, score=1.0) for hit in sorted(hits, key=lambda hit: hit.id))
        return replace(retrieval, hits=hits)


class KeepsRemoved(Passages):
    """`remove` is forgotten."""

    def apply(self, change: Change, context: BuildContext) -> None:
        super().apply(Change(change.upsert), context)


class AddsNothing(Passages):
    """`upsert` is forgotten once there are records."""

    def apply(self, change: Change, context: BuildContext) -> None:
        record_count = context.collection("records", text_search_schema(context.language)).count()
        super().apply(Change({} if record_count else change.upsert, change.remove), context)


class OldTexts(Passages):
    """Records that exist already are not written again."""

    def apply(self, change: Change, context: BuildContext) -> None:
        records = context.collection("records", text_search_schema(context.language))
        ids = set(records.get(list(change.upsert), ()).column("id").to_pylist())
        new = {id: revision for id, revision in change.upsert.items() if id not in ids}
        super().apply(Change(new, change.remove), context)


@pytest.mark.parametrize(
    ("check", "fault", "text"),
    [
        (testing.check_hits, "one more", "it returned 2 hits for k = 1"),
        (testing.check_hits, "twice", "occurs twice"),
        (testing.check_hits, "backwards", "hits must be sorted best first"),
        (testing.check_hits, "not a number", "has the score nan, which is not finite"),
        (testing.check_hits, "no documents", "has no doc_ids"),
        (testing.check_hits, "unknown document", "which is not in the corpus"),
        (testing.check_batches, "batch", "one by one: got "),
        (testing.check_filter, "ignores filter", "do not pass the filter"),
        (testing.check_forbidden, "ignores filter", "the filter by metadata keeps a document out, but it shows in: "),
        (testing.check_forbidden, "unfiltered step", "but it shows in: {\"step 'text'\": ['hushdoc']}"),
        (testing.check_forbidden, "unfiltered note", "but it shows in: {'notes': ['governed'"),
        (testing.check_forbidden, "filter by metadata alone", "filtered by documents instead of by metadata: got "),
        (testing.check_cutoffs, "few", "its first hits depend on k, so depends_on_k must return True"),
        (testing.check_cutoffs, "changes with k", "its first hits depend on k, so depends_on_k must return True"),
        (testing.check_stages, "longer if recorded", "with an explanation of where d00 is: got "),
        (testing.check_law, "keeps removed", "after adding, changing and removing documents: got "),
        (testing.check_law, "adds nothing", "the added document 'x2' is not found: "),
        (testing.check_law, "old texts", "the changed document 'd03' still has its old text in the hits ['d03']"),
    ],
)
def test_broken_line_is_found(check: Check, fault: str, text: str, tmp_path: Path, built: Path) -> None:
    shared = None if check is testing.check_law else built
    assert text in message(check, Broken(fault=fault), tmp_path, shared)

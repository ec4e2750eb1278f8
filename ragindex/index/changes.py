"""Operations that add, replace and remove the documents of an index, by source."""

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice

from ragindex._util.ids import find_spelling, list_places, spellings
from ragindex._util.progress import progress_bar
from ragindex._util.text import MOST_NEAR, NAMES_COMPARED, describe_near, find_near_names, first_names
from ragindex.corpus import Corpus
from ragindex.corpus.corpus import NO_TEXT
from ragindex.errors import LanguageWarning, LeftOutWarning, RagindexError, UsageError
from ragindex.index import sources
from ragindex.index.documents import DocumentChanges, Documents, Removals
from ragindex.index.manifest import with_chunking, wrap_write_errors
from ragindex.index.readings import forget_readers, record_readers, record_reading
from ragindex.index.renames import find_renames, read_renames, record_renames
from ragindex.index.sources import Known, PlacedDocuments, SourceRequest
from ragindex.index.state import INDEXING, IndexState
from ragindex.text_analysis import language_warning
from ragindex.types import Chunking, Document

_SAMPLE = 200


def add_documents(
    index: IndexState, documents: Corpus | Iterable[Corpus] | Iterable[Document], *, source: str = ""
) -> DocumentChanges:
    """Add documents, replacing those with the same id. See `Index.add`."""
    corpora = sources.corpora(documents, source)
    with index.writing("adding documents") as corpus, _remove_empty_sources(index, corpus):
        placements = _assign_sources(index, corpus, corpora, source, "add")
        with wrap_write_errors(f"The new ids of documents could not be written to {index.folder}"):
            record_renames(index.folder, {}, {document.id for group in placements for document in group.documents})
        changed = _upsert_documents(index, corpus, placements)
    _warn_of_language(index, corpora)
    return changed


def remove_documents(index: IndexState, ids: Sequence[str]) -> DocumentChanges:
    """Remove documents by id. See `Index.remove`."""
    with index.writing("removing documents") as corpus:
        known = corpus.sources([spelling for id in ids for spelling in spellings(id)])
        known_ids = {id: find_spelling(id, known) for id in ids}
        unknown = [id for id, meant in known_ids.items() if meant is None]
        if unknown:
            meant = _describe_meant(index, corpus, unknown[0])
            raise UsageError(f"The index {index.folder} has no document {unknown[0]!r}. Nothing was removed.{meant}")
        index.save(sources=dict(forget_readers(index.manifest.sources)))  # what is still there comes back
        return DocumentChanges(
            removed=corpus.remove(sorted({meant for meant in known_ids.values() if meant is not None}))
        )


def _describe_meant(index: IndexState, corpus: Documents, unknown: str) -> str:
    """Return a sentence on the ids that an unknown one may stand for: those of its file, of its name or near to it."""
    id = sources.id_of(index.manifest.sources, unknown)
    if id in corpus.sources([id or ""]):
        return f" The id of that file is {id!r}."
    known = list(islice(corpus.sources(), NAMES_COMPARED))
    same_named = [other for other in known if other.rpartition("/")[2] == unknown]
    near = describe_near(same_named[:MOST_NEAR] or find_near_names(unknown, known))
    return f" {near[0].upper()}{near[1:]}." if near else ""


def remove_source(index: IndexState, name: str) -> DocumentChanges:
    """Remove a source and all its documents. Raises UsageError if there is no source with that name."""
    with index.writing("removing documents") as corpus:
        known = find_spelling(name, index.manifest.sources)
        if known is None:
            available = ", ".join(map(repr, index.manifest.sources)) or "none"
            raise UsageError(f"The index {index.folder} has no source {name!r}. Available: {available}.")
        removed = corpus.remove([id for id, owner in corpus.sources().items() if owner == known])
        index.save(sources={other: source for other, source in index.manifest.sources.items() if other != known})
    return DocumentChanges(removed=removed)


def replace_source(
    index: IndexState,
    documents: Corpus | Iterable[Document],
    *,
    source: str = "",
    announce: Callable[[Removals], None] = lambda removals: None,
    renames: Mapping[str, str] | None = None,
) -> DocumentChanges:
    """Replace the documents of a source by `documents`; other sources stay as they are. See `Index.replace`.

    `renames` are those of its documents, if `find_removals` has looked for them.
    """
    (corpus_given,) = sources.corpora(documents, source)
    earlier = index.manifest.sources
    with index.writing(INDEXING) as corpus:
        with _remove_empty_sources(index, corpus):
            (placement,) = _assign_sources(index, corpus, [corpus_given], source, "index")
            missing = _find_missing(index.manifest.sources, corpus, corpus_given, placement, renames)
            if missing.removed:
                try:
                    announce(missing.removals)
                except RagindexError:
                    index.save(sources=earlier)
                    raise
            with wrap_write_errors(f"The new ids of documents could not be written to {index.folder}"):
                record_renames(index.folder, missing.renames, {document.id for document in placement.documents})
            changed = _upsert_documents(index, corpus, [placement])
        corpus.remove(missing.removed)
        index.save(sources=dict(record_readers(index.manifest.sources, corpus_given)))
    _warn_of_language(index, [corpus_given])
    if stay := missing.unread:
        were = "document is kept as it was" if len(stay) == 1 else "documents are kept as they were"
        message = f"{len(stay):,} {were} read before, because the file cannot be read this time: {first_names(stay)}"
        warnings.warn(message, LeftOutWarning, stacklevel=3)
    return missing.complete(changed)


def find_removals(index: IndexState, corpus: Corpus, *, source: str = "") -> Removals:
    """Return the documents that `replace_source` would remove. Writes nothing."""
    stored = index.documents
    known, (placement,) = sources.place_all(index.manifest.sources, [corpus], source, SourceRequest(index.folder))
    return _find_missing(known, stored, corpus, placement).removals


def preview_replacement(index: IndexState, corpus: Corpus, *, source: str = "") -> DocumentChanges:
    """Return what `replace_source` would change. Writes nothing, and raises as it does."""
    stored, request, earlier = index.documents, SourceRequest(index.folder), index.manifest.sources
    known, (placement,) = sources.place_all(earlier, [corpus], source, request)
    owners = stored.sources([document.id for document in placement.documents])
    sources.require_free(owners, earlier, known, placement, request)
    missing = _find_missing(known, stored, corpus, placement)
    return missing.complete(stored.compare(placement.documents, placement.source, placement.files))


@dataclass(frozen=True, slots=True)
class _MissingDocuments:
    """The documents of a source that were not read now: those that leave, and those that could not be read.

    The source has `documents`; `untouched` are as many whose files are as they were, and `renames` the new ids of those
    that have one.
    """

    source: str
    documents: int
    removed: tuple[str, ...]
    unread: tuple[str, ...]
    untouched: int
    renames: Mapping[str, str]

    def complete(self, changes: DocumentChanges) -> DocumentChanges:
        """Return the changes of the documents that it has, with these."""
        unchanged = changes.unchanged + len(self.unread) + self.untouched
        new_ids = frozenset(self.renames.values())
        return replace(
            changes,
            added=changes.added - len(self.renames),
            new=tuple(id for id in changes.new if id not in new_ids),
            removed=len(self.removed) - len(self.renames),
            gone=tuple(id for id in self.removed if id not in self.renames),
            renamed=tuple(sorted(self.renames.items())),
            unchanged=unchanged,
            kept=self.unread,
        )

    @property
    def removals(self) -> Removals:
        """What leaves the source."""
        return Removals(self.removed, self.source, self.documents, self.renames)


def _find_missing(
    known: Known,
    stored: Documents,
    corpus: Corpus,
    placement: PlacedDocuments,
    renames: Mapping[str, str] | None = None,
) -> _MissingDocuments:
    ids = {document.id for document in placement.documents}
    owners = stored.sources()
    missing = sorted(
        id for id, owner in owners.items() if owner == placement.source and placement.covers(id) and id not in ids
    )
    lead = sources.lead(known, corpus)
    same = {lead + name for name in corpus.untouched}
    untouched = {id for id in missing if not same.isdisjoint(list_places(id))} if same else set[str]()
    left_out = sources.find_left_out(known, corpus)
    unread = {id for id, reason in left_out.items() if reason.kind != NO_TEXT}
    unread_missing = tuple(id for id in missing if id not in untouched and not unread.isdisjoint(list_places(id)))
    removed = tuple(sorted(set(missing).difference(unread_missing, untouched)))
    if renames is None:
        new = [document for document in placement.documents if document.id not in owners] if removed else []
        renames = find_renames(stored.read(removed), new) if new else {}
    count = sum(owner == placement.source for owner in owners.values())
    return _MissingDocuments(placement.source, count, removed, unread_missing, len(untouched), renames)


def list_renames(index: IndexState, corpus: Corpus) -> dict[str, str]:
    """Return the ids of a corpus's documents by the ids that they had. See `Index.renames`."""
    lead, documents = sources.lead(index.manifest.sources, corpus), index.documents
    coming = {lead + document.id: document for document in corpus.documents}
    owners = documents.sources()
    removed = [id for id in owners if id.startswith(lead) and id not in coming]
    new = [replace(document, id=id) for id, document in coming.items() if id not in owners]
    new_renames = find_renames(documents.read(removed), new) if removed and new else {}
    known = {old: new_renames.get(id, id) for old, id in read_renames(index.folder).items()} | new_renames
    return {
        old.removeprefix(lead): id.removeprefix(lead)
        for old, id in known.items()
        if old.startswith(lead) and old not in coming and id in coming
    }


def rechunk_documents(index: IndexState, chunking: Chunking) -> DocumentChanges:
    """Split the documents by another chunking. See `Index.rechunk`."""
    with index.writing(INDEXING) as corpus:
        changed = with_chunking(index.folder, index.manifest.settings, chunking)
        if changed == index.manifest.settings:
            return DocumentChanges(unchanged=len(corpus.sources()))
        index.save(settings=changed, rechunking=True)  # before the documents: whoever writes next goes on
        with progress_bar("splitting documents", len(corpus.sources())) as advance:
            rechunked = replace(corpus, chunking=index.chunking).rechunk(advance)
        index.save(rechunking=False)
    return rechunked


def _assign_sources(
    index: IndexState, stored: Documents, corpora: Sequence[Corpus], name: str, verb: str
) -> list[PlacedDocuments]:
    """Assign corpora to sources, and save the sources. Raises before anything is written if an id is already used."""
    asking, earlier = SourceRequest(index.folder, verb), index.manifest.sources
    known, placements = sources.place_all(earlier, corpora, name, asking)
    for corpus_documents in placements:
        owners = stored.sources([document.id for document in corpus_documents.documents])
        sources.require_free(owners, earlier, known, corpus_documents, asking)
    for corpus in corpora:
        known = record_reading(sources.record_left_out(known, corpus), corpus)
    index.save(sources=dict(known))
    return placements


@contextmanager
def _remove_empty_sources(index: IndexState, corpus: Documents) -> Iterator[None]:
    """Remove new sources without documents if the body fails, because sources are saved before their documents."""
    earlier = index.manifest.sources
    try:
        yield
    except RagindexError:
        names = earlier.keys() | set(corpus.sources().values())
        index.save(sources={name: source for name, source in index.manifest.sources.items() if name in names})
        raise


def _upsert_documents(index: IndexState, corpus: Documents, placements: Sequence[PlacedDocuments]) -> DocumentChanges:
    with progress_bar("reading documents", sum(len(group.documents) for group in placements)) as advance:
        changes = [corpus.upsert(group.documents, group.source, advance, group.files) for group in placements]
    return DocumentChanges(
        added=sum(change.added for change in changes),
        changed=sum(change.changed for change in changes),
        unchanged=sum(change.unchanged for change in changes),
        new=tuple(id for change in changes for id in change.new),
        replaced=tuple(id for change in changes for id in change.replaced),
        reread=sum(change.reread for change in changes),
    )


def _warn_of_language(index: IndexState, corpora: Sequence[Corpus]) -> None:
    documents = [document for corpus in corpora for document in corpus.documents]
    step = max(1, len(documents) // _SAMPLE)
    message = language_warning([document.text for document in documents[::step]], index.language)
    if message is not None:
        warnings.warn(message, LanguageWarning, stacklevel=3)

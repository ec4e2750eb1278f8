"""Notes on changed documents and on the parts of methods, shown to users with figures and answers."""

import platform
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from ragindex._util.text import first_names, many
from ragindex.accounting.ledger import DRAFT, THOUGHTS, Tally
from ragindex.encoders.vectors import WordCount, count_words
from ragindex.errors import ServiceError
from ragindex.index.documents import DocumentChanges
from ragindex.index.figures import FitState
from ragindex.index.fit_watch import describe_lack
from ragindex.index.index import Index
from ragindex.index.leases import list_readers, state_of
from ragindex.index.manifest import PartRecord
from ragindex.index.sync import find_refit_hindrances
from ragindex.interfaces import FittedEncoderPlugin, Part, Scheme

_MAX_REASONS, _BATCH = 3, 1024
_MUCH_UNKNOWN = 0.1
"""The share of a document's words which, unknown to the encoder, make it hard to find by vectors."""


def format_part_notes(index: Index, methods: Sequence[Scheme | Part[Any]]) -> list[str]:
    """Return the notes of the parts of methods, and the number of failed records with reasons, without duplicates.

    Without methods, those of all parts.
    """
    notes: dict[str, None] = {}
    for record in _list_records(index, methods):
        notes |= dict.fromkeys(f"{record.name}: {note}" for note in record.notes)
        aside = {id: reason for id, reason in record.failed.items() if id in record.set_aside}
        retried = {id: reason for id, reason in record.failed.items() if id not in aside}
        if retried:
            notes[f"{record.name}: {_count_failed(retried)} tried again the next time: {_explain(index, retried)}"] = (
                None
            )
        if aside:
            notes[
                f"{record.name}: {_count_failed(aside)} set aside, because two charged answers cannot be used: "
                f"{_explain(index, aside)} To ask again: {index.command('index', '--retry-failed')}"
            ] = None
    return list(notes)


def _list_records(index: Index, methods: Sequence[Scheme | Part[Any]]) -> list[PartRecord]:
    if not methods:
        return list(index.manifest.parts.values())
    return [index.record(part) for method in methods for part in index.all_parts(method)]


def _count_failed(failed: Mapping[str, str]) -> str:
    return many(len(failed), "record could not be made and is", "records could not be made and are")


def describe_drafts(paid: Tally) -> list[str]:
    """Return a note per task on drafts and thoughts in the answers of the LLM."""
    notes = []
    for task, counts in paid.stages.items():
        drafts = [many(counts[DRAFT], "draft")] if counts[DRAFT] else []
        thoughts = [f"thoughts in {many(counts[THOUGHTS], 'answer')}"] if counts[THOUGHTS] else []
        if drafts or thoughts:
            notes.append(f"{task}: left out of the LLM's answers: {', '.join([*drafts, *thoughts])}")
    return notes


def list_part_details(index: Index, methods: Sequence[Scheme | Part[Any]]) -> list[str]:
    """Return the details of all parts, without duplicates."""
    return list(dict.fromkeys(detail for method in methods for detail in index.details(method)))


def _explain(index: Index, failed: Mapping[str, str]) -> str:
    """Return the first reasons, each with the documents that it concerns."""
    documents, concerned = index.documents, dict[str, dict[str, None]]()
    for id, reason in failed.items():
        concerned.setdefault(reason, {})[documents.document_of(id)] = None
    first = list(concerned.items())[:_MAX_REASONS]
    return "; ".join(f"{first_names(list(names))}: {reason}" for reason, names in first)


def format_changes(changed: DocumentChanges) -> str:
    """Return how many documents were added, changed, removed and renamed, with the first ids, or that none were."""
    if not changed.added + changed.changed + changed.removed + len(changed.renamed):
        return f"nothing changed in {many(changed.unchanged, 'document')}"
    known = changed.changed + changed.unchanged + len(changed.renamed)
    new = changed.new if known else ()  # of a new index, all documents are new
    counts = (
        (changed.added, "added", new),
        (changed.changed, "changed", changed.replaced),
        (changed.removed, "removed", changed.gone),
        (len(changed.renamed), "renamed", [f"{old} → {new_id}" for old, new_id in changed.renamed]),
        (changed.unchanged, "unchanged", ()),
    )
    parts = [(count, f"{what} ({first_names(ids)})" if ids else what) for count, what, ids in counts if count]
    (count, first), *others = parts
    changes = ", ".join([f"{many(count, 'document')} {first}", *(f"{count:,} {what}" for count, what in others)])
    if changed.reread:
        changes += f"; {changed.reread:,} changed because their files, which are the same, are read in another way"
    return changes


def describe_unknown_words(index: Index, changed: DocumentChanges, fit: str | None) -> str | None:
    """Return a sentence on changed documents of which the encoder does not know more than a tenth of the words.

    `fit` is the id of the encoder's fit before the change: a newer one was fitted to these documents too.
    """
    ids = (*changed.new, *changed.replaced)
    fitted = isinstance(index.encoders.plugin, FittedEncoderPlugin)  # another one would be loaded needlessly
    if not (ids and fit and fitted) or index.encoder_id != fit:
        return None
    unknown: dict[str, None] = {}
    documents = 0
    for start in range(0, len(ids), _BATCH):
        for document in index.documents.read(ids[start : start + _BATCH]):
            known = index.encoder.check_words(f"{document.title}\n{document.text}")
            if known is None:
                return None
            others = [word for word, is_known in known.items() if not is_known]
            if len(others) > _MUCH_UNKNOWN * len(known):
                documents += 1
                unknown |= dict.fromkeys(others)
    if not documents:
        return None
    of = f"{many(len(unknown), 'word')} of {many(documents, 'document')} ({first_names(list(unknown))})"
    return (
        f"The encoder {index.encoder_name}, which was fitted before, does not know {of}: "
        "methods with vectors find nothing by such words. "
        f"{suggest_for_unknown_words(index)}"
    )


def describe_full_vocabulary(index: Index, methods: Sequence[Scheme | Part[Any]], fit: str | None) -> str | None:
    """Return a sentence if methods use an encoder that was fitted since `fit`, and takes no more words."""
    if not any(map(index.encoder_of, methods)):
        return None
    encoder = index.encoder
    if index.encoder_id == fit or not encoder.is_full:
        return None
    return (
        f"The vocabulary of {index.encoder_name} is full: it has no words of the fewest passages, so methods with "
        "vectors find nothing by them, and bm25 does. Logs and lists of ids fill it: leave them out with --exclude."
    )


def describe_fit(fit: FitState) -> str:
    """Return a sentence on the age of the encoder's fit and on the words that it does not know."""
    days = None if fit.age_days is None else int(fit.age_days)
    age = "" if days is None else " today" if days == 0 else f" {many(days, 'day')} ago"
    return (
        f"The encoder {fit.encoder} was fitted{age} to {many(fit.passages, 'passage')} in {fit.seconds:.1f} s, and "
        f"does not know {fit.unknown:.1%} of the words of the current ones."
    )


def describe_readers(index: Index) -> list[dict[str, Any]]:
    """Return the other processes that have an index open: who and since when, what they read, and what may be done."""
    newest = state_of(index.manifest)
    rows = []
    for reader in list_readers(index.folder):
        who = f"process {reader.process} ({reader.command})" if reader.process else "a process that is not known"
        since = None if reader.since is None else datetime.fromtimestamp(reader.since).astimezone()
        if reader.state is None:
            reads = "a state that it does not name"
            advice = (
                "Nothing is removed from the folder until it ends. If it may write into "
                f"{index.folder / 'readers'}, it names what it reads once it is started again."
            )
        elif reader.state.parts <= newest.parts and reader.state.collections.items() <= newest.collections.items():
            reads, advice = "the newest state", ""
        else:
            reads, advice = "an earlier state", "It stays on disk until the process opens the newest one, or ends."
        rows.append(
            {
                "reader": f"{who} on {reader.host}" if reader.host not in ("", platform.node()) else who,
                "since": None if since is None else since.isoformat(timespec="seconds"),
                "reads": reads,
                "advice": advice,
            }
        )
    return rows


def describe_unknown_passages(index: Index) -> str | None:
    """Return a sentence if the encoder's fit knows too few words, and no sync has fitted it again for that."""
    fit = index.fit_state()
    lack = None if fit is None else describe_lack(fit.unknown, fit.unknown_new, fit.new, fit.unknown_then)
    if fit is None or lack is None:
        return None
    paid = find_refit_hindrances(index)
    amounts = [record.money for record in paid if record.money is not None]
    cost = f"${sum(amounts):.2f}" if len(amounts) == len(paid) else "what is not known, as a price is missing"
    names = ", ".join(dict.fromkeys(record.name for record in paid))
    hindrance = f"What was paid for depends on its fit ({names}: {cost} when made), so it stays. " if paid else ""
    return (
        f"The encoder {fit.encoder} does not know {lack}, so methods with vectors find less. "
        f"{hindrance}To fit it to these: {index.command('index', '--refit')}"
    )


def describe_old_fit(index: Index, methods: Sequence[Scheme | Part[Any]], questions: Sequence[str] = ()) -> str | None:
    """Return a sentence if methods use an encoder that was fitted to other passages than the index has.

    An index that is made anew of the same documents has another fit then, and other figures. `questions` are those
    that the figures are of.
    """
    if not any(map(index.encoder_of, methods)):
        return None
    fit, passages = index.fit_state(), index.counts().passages
    if fit is None or fit.passages == 0:
        return None
    if fit.passages == passages and fit.unknown <= fit.unknown_then:
        return None
    question_words = sum((count_words(index.encoder, text) for text in questions), WordCount())
    of_questions = f" and {question_words.unknown_share:.1%} of those of the questions" if question_words.words else ""
    return (
        f"the encoder {index.encoder_name} was fitted to {fit.passages:,} passages, and the index has {passages:,}: "
        f"a new index would give other vectors. It does not know {fit.unknown:.1%} of the words of the passages"
        f"{of_questions}. To fit it to these: {index.command('index', '--refit')}"
    )


def suggest_for_unknown_words(index: Index) -> str:
    """Return the sentence on what to do about words that the fitted encoder of the index does not know."""
    encoder = index.encoder
    if encoder.is_full:
        return (
            "Its vocabulary is full, so a new fit leaves the words of the fewest passages out again, first those with "
            f"digits: {index.command('index', '--refit')}, or search with bm25."
        )
    return f"To fit it to all documents, run: {index.command('index', '--refit')}"


def require_records(index: Index, methods: Sequence[Scheme | Part[Any]]) -> None:
    """Raise ServiceError if a part failed on all passages, because methods that use it would find nothing."""
    passages = index.counts().passages
    for name, failed in ((name, failed) for method in methods for name, failed in index.failures(method).items()):
        if len(failed) >= passages > 0:
            reason = next(iter(failed.values()))
            raise ServiceError(f"{name} failed on all {passages:,} passages: {reason}")

"""Readers of questions with their gold; only this module, `benchmark_questions` and `datasets` see both together."""

import os
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain, islice
from pathlib import Path, PurePosixPath

import regex

from ragindex._util.ids import find_spelling, is_row, spellings
from ragindex._util.text import describe_near, find_near_names, first_names, many
from ragindex.corpus import Corpus
from ragindex.corpus.corpus import parse_id
from ragindex.corpus.json_reader import (
    Item,
    Problems,
    format_value,
    read_bytes,
    read_json_lines,
)
from ragindex.corpus.readers.plain_text import read_csv_rows
from ragindex.corpus.readers.text_encodings import decode_text
from ragindex.errors import DataError
from ragindex_eval.data.gold import Gold, find_evidence
from ragindex_eval.data.gold_classes import content

_SPLITS = ("test", "dev", "train")
_GRADE_COLUMNS = ("score", "grade", "relevance", "rel", "label")
_ACCEPTED = regex.compile(r"\s\|\|\s")  # between accepted answers
_COLUMNS = ("question", "answer", "documents")
_NAMES_COMPARED = 20_000  # names compared to suggest near ones in an error message


@dataclass(frozen=True, slots=True)
class DatasetQuestion:
    """Question as read from a file.

    `gold` is None if the file has none; gold without documents means that nothing is relevant.
    """

    text: str
    gold: Gold | None


class DocumentFinder:
    """Index of a corpus's documents by the ids, titles, texts and file names that gold refers to.

    `list_renames` returns the ids of documents by the ids that they had before. It is called once gold names none.
    """

    def __init__(self, corpus: Corpus, list_renames: Callable[[Corpus], Mapping[str, str]] = lambda corpus: {}) -> None:
        self._list_renames = partial(list_renames, corpus)
        self.renamed: dict[str, str] = {}
        """The ids that gold names documents by, and that these had before."""
        self.ids = {document.id: document for document in corpus.documents}
        self.by_content: dict[tuple[str, str], list[str]] = {}
        self.by_title: dict[str, list[str]] = {}
        self.by_file: dict[str, list[str]] = {}
        self.skipped = corpus.skipped
        self.unread, self.root = corpus.unread, corpus.root if corpus.format == "folder" else ""
        for document in corpus.documents:
            self.by_content.setdefault((document.title, document.text), []).append(document.id)
            self.by_title.setdefault(document.title, []).append(document.id)
            if corpus.format == "folder":
                self.by_file.setdefault(PurePosixPath(document.id).name, []).append(document.id)

    def content(self, title: str, text: str, item: Item) -> list[str]:
        """Return the ids of the documents with this title and text.

        There is one, unless the corpus keeps the text under several ids. Raises DataError if there is none.
        """
        ids = self.by_content.get((title, text))
        if not ids:
            raise self._unknown(title, item, "its text is another" if title in self.by_title else "")
        return ids

    def candidate(self, title: str, text: str) -> str | None:
        """Return the id of the first document with this title and text, or None if the corpus has none."""
        return next(iter(self.by_content.get((title, text), ())), None)

    def title(self, title: str, contents: Mapping[str, str], item: Item) -> list[str]:
        """Return the ids of the document with this title; of several, those with the text in `contents`.

        Raises DataError if there is none, or if the title is ambiguous.
        """
        ids = self.by_title.get(find_spelling(title, self.by_title) or title, [])
        if len(ids) > 1 and title in contents:
            return self.content(title, contents[title], item)
        return ids if len(ids) == 1 else self._only(title, ids, item)

    def name(self, name: str, item: Item) -> str:
        """Return the id of the document with this id, title or file name.

        Raises DataError if there is none, or if several with different texts match.
        """
        if (id := find_spelling(name, self.ids)) is not None:
            return id
        known = (
            ids
            for names in (self.by_title, self.by_file)
            for spelling in spellings(name)
            for ids in names.get(spelling, ())
        )
        distinct = dict.fromkeys(known)
        if not distinct and (id := self.follow(name)) is not None:
            return id
        return self._only(name, list(distinct), item)[0]

    def follow(self, name: str) -> str | None:
        """Return the id of the document that had this id before; None if there is none."""
        old = find_spelling(name, self._renames)
        if old is None:
            return None
        self.renamed[old] = self._renames[old]
        return self._renames[old]

    @cached_property
    def _renames(self) -> Mapping[str, str]:
        return self._list_renames()

    def describe_renamed(self) -> list[str]:
        """Return a note on the documents that gold names by the ids that they had before."""
        pairs = [f"{old} → {id}" for old, id in sorted(self.renamed.items())]
        return [f"questions name {many(len(pairs), 'renamed document')}: {first_names(pairs)}"] if pairs else []

    def either(self, written: str, item: Item) -> list[str]:
        """Return the ids of the documents that `A|B` names, the first of them first; an id may have a `|` itself.

        Raises DataError as `name` does.
        """
        ids, parts = list[str](), written.split("|")
        while parts:
            joined = ("|".join(parts[:end]).strip() for end in range(len(parts), 0, -1))
            name = next(filter(self._knows, joined), parts[0].strip())
            ids += [self.name(name, item)] if name else []
            parts = parts[name.count("|") + 1 :]
        return list(dict.fromkeys(ids)) or [self.name(written, item)]

    def _knows(self, name: str) -> bool:
        tables = (self.ids, self.by_title, self.by_file)
        known = any(find_spelling(name, table) is not None for table in tables)
        return bool(name) and (known or find_spelling(name, self._renames) is not None)

    def _only(self, name: str, ids: list[str], item: Item) -> list[str]:
        if len({content(self.ids[id]) for id in ids}) > 1:  # documents of equal text are interchangeable
            expected = f"gold that names one document; {name!r} stands for {len(ids)}, so give one of their ids"
            raise item.error(expected, ", ".join(map(repr, ids[:5])) + (", …" if len(ids) > 5 else ""))
        if not ids:
            raise self._unknown(name, item, "")
        return ids

    def _unread(self, name: str) -> str | None:
        """Return why a file of the corpus's folder is not read; None if it is read, or not there."""
        reasons = (why for path, why in self.unread.items() if _is_file(path, name) or name.startswith(f"{path}/"))
        hidden = any(part.startswith(".") for part in name.split("/"))
        is_there = self.root and hidden and os.path.isfile(os.path.join(self.root, name))
        why = next(reasons, "it is hidden" if is_there else None)
        return why and f"the file is there and is not read ({why})"

    def _describe_row(self, name: str) -> str:
        table = next((id for id in self.ids if name.startswith(f"{id}/")), "") if is_row(name) else ""
        return f"{table} is one document; --rows makes each of its rows one" if table else ""

    def _unknown(self, name: str, item: Item, why: str) -> DataError:
        left_out = next(
            (str(skipped) for skipped in self.skipped if _is_file(skipped.path, name)), None
        ) or self._unread(name)
        if left_out is not None:
            return item.error("gold that names documents that can be read", f"{format_value(name)}: {left_out}")
        known = islice(chain(self.by_title, self.by_file, self.ids), _NAMES_COMPARED)
        near = [] if why else find_near_names(name, dict.fromkeys(known))
        reason = why or self._describe_row(name) or describe_near(near) or "no similar id"
        return item.error(
            "gold that names documents of the corpus", f"{format_value(name)}, which is not in it ({reason})"
        )


def _is_file(path: str, name: str) -> bool:
    """Return whether `name`, relative to the folder, is that of the file at a path."""
    composed, wanted = (unicodedata.normalize("NFC", f"/{text}") for text in (path, name))
    return bool(name) and composed.endswith(wanted)


def require_text(item: Item, text: str) -> str:
    """Return the text of a question. Raises DataError if it is blank."""
    if not text.strip():
        raise item.error("a question", "an empty one")
    return text


# ---------------------------------------------------------------- BEIR


def read_beir_questions(folder: Path, finder: DocumentFinder, problems: Problems) -> Iterator[DatasetQuestion]:
    """Return the judged questions of queries.jsonl.

    Judgements are read from qrels/test.tsv, or else from qrels/dev.tsv or qrels/train.tsv. Raises DataError if
    there is none.
    """
    path = next((p for split in _SPLITS if (p := folder / "qrels" / f"{split}.tsv").is_file()), None)
    if path is None:
        names = sorted(p.name for p in (folder / "qrels").glob("*"))
        expected = "qrels/test.tsv, qrels/dev.tsv or qrels/train.tsv"
        raise DataError(expected, f"qrels/ with {', '.join(names)}" if names else "no files in qrels/", path=folder)
    queries = _beir_queries(folder / "queries.jsonl", problems)
    judged = _qrels(path, queries, finder, problems)
    known = [query_id for query_id in queries if query_id in judged]
    return (_beir_question(query_id, queries[query_id], judged[query_id], finder) for query_id in known)


def _beir_queries(path: Path, problems: Problems) -> dict[str, str]:
    queries: dict[str, str] = {}

    def add(item: Item) -> None:
        query_id = parse_id(item)
        if query_id is None:
            raise item.error("an id under '_id'", item.under("_id"))
        if query_id in queries:
            raise item.error("each query id once", f"the id {query_id!r} a second time")
        queries[query_id] = require_text(item, item.text("text"))

    for _ in problems.each(add, read_json_lines(path, problems)):
        pass
    return queries


def _beir_question(query_id: str, text: str, grades: Mapping[str, int], finder: DocumentFinder) -> DatasetQuestion:
    gold = {doc_id: grade for doc_id, grade in grades.items() if grade > 0}
    own = query_id if query_id in finder.ids and query_id not in gold else ""
    return DatasetQuestion(text, Gold(frozenset(gold), source_id=query_id, grades=gold, own_document=own))


def _qrels(path: Path, queries: Iterable[str], finder: DocumentFinder, problems: Problems) -> dict[str, dict[str, int]]:
    judged: dict[str, dict[str, int]] = {}
    known = set(queries)

    def add(line: tuple[Item, str]) -> None:
        item, text = line
        query_id, written, grade = _judgement(item, text)
        doc_id = find_spelling(written, finder.ids) or written
        if query_id not in known:
            raise item.error("the id of a query in queries.jsonl", repr(query_id))
        if doc_id not in finder.ids and grade > 0:
            raise item.error("gold that names documents of the corpus", f"{doc_id!r}, which is not in it")
        if judged.setdefault(query_id, {}).setdefault(doc_id, grade) != grade:
            raise item.error("one grade a document", f"two for {doc_id!r} and query {query_id!r}")

    lines = text_lines(path)
    for _ in problems.all(add, lines[1:] if lines and lines[0][1].split()[-1].lower() in _GRADE_COLUMNS else lines):
        pass
    return judged


def _judgement(item: Item, line: str) -> tuple[str, str, int]:
    columns = line.split("\t") if "\t" in line else line.split()
    if len(columns) == 4:  # the TREC format has an unused second column
        del columns[1]
    if len(columns) != 3 or not regex.fullmatch(r"[+-]?[0-9]+(?:\.0*)?", columns[2].strip()):
        raise item.error("query id, document id and a whole number, with tabs between", repr(line[:80]))
    return columns[0].strip(), columns[1].strip(), int(float(columns[2]))


# ---------------------------------------------------------------- questions about the user's own documents


def text_lines(path: Path) -> list[tuple[Item, str]]:
    """Return the non-blank lines of a text file, each with an item that says where it is."""
    lines = decode_text(read_bytes(path), path)[0].replace("\r\n", "\n").split("\n")
    return [(Item({}, path, number), line) for number, line in enumerate(lines, 1) if line.strip()]


def read_plain_questions(path: Path) -> Iterator[DatasetQuestion]:
    """Yield one question per non-blank line, without gold."""
    return (DatasetQuestion(line.strip(), None) for _, line in text_lines(path))


def read_csv_questions(path: Path, finder: DocumentFinder, problems: Problems) -> Iterator[DatasetQuestion]:
    """Yield the questions of a CSV file: `question`, `documents`, perhaps `answer`, `kind`, `evidence`, `answerable`.

    `documents` are ids, titles or file names, separated by `;`, each with its grade as in `a.md=2` (default: 1). Of
    `a.md|a.pdf` either counts as that document. With `answerable` no (or false), no document answers the question.
    Several accepted answers, and several places of evidence, are separated by ` || `. Raises DataError if a required
    column is missing.
    """
    rows = read_csv_rows(decode_text(read_bytes(path), path)[0], path)
    _, header = next(rows, (Item({}, path), []))
    names = [name.strip().lower() for name in header]
    if not {"question", "documents"} <= set(names) or len(set(names)) < len(names):
        got = ", ".join(names) or "an empty file"
        raise DataError(f"the columns {','.join(_COLUMNS)} in the first line", got, path=path, line=1)
    return problems.all(lambda row: _csv_question(*row, names, finder), rows)


def _csv_question(item: Item, row: Sequence[str], names: Sequence[str], finder: DocumentFinder) -> DatasetQuestion:
    if len(row) != len(names):
        raise item.error(f"{len(names)} columns ({','.join(names)})", f"{len(row)}")
    cells = {name: cell.strip() for name, cell in zip(names, row, strict=True)}
    text = require_text(item, cells["question"])
    judged = _judged_documents(_split_names(cells["documents"]), item, finder)
    answers, evidence = (_split_answers(cells.get(name, "")) for name in ("answer", "evidence"))
    if not _parse_answerable(cells.get("answerable"), item):
        return DatasetQuestion(text, _build_unanswerable(judged, answers, cells.get("kind", ""), item))
    return DatasetQuestion(text, _build_gold(judged, answers, cells.get("kind", ""), evidence, item, finder))


def _parse_answerable(written: object, item: Item) -> bool:
    """Return whether a document answers a question: yes, unless it is written otherwise. Raises DataError."""
    if written is None or isinstance(written, bool):
        return written is not False
    if not isinstance(written, str) or written.lower() not in ("", "yes", "true", "no", "false"):
        raise item.error("yes or no under 'answerable'", format_value(written))
    return written.lower() not in ("no", "false")


def _split_names(cell: str) -> list[str]:
    return [name for part in cell.split(";") if (name := part.strip())]


def _split_answers(cell: str) -> list[str]:
    return [answer for answer in map(str.strip, _ACCEPTED.split(cell)) if answer]


def _judged_documents(written: Sequence[str], item: Item, finder: DocumentFinder) -> list[tuple[list[str], int]]:
    return [_graded_name(name, item, finder) for name in written]


def _build_gold(
    judged: Sequence[tuple[Sequence[str], int]],
    answers: Sequence[str],
    kind: str,
    evidence: Sequence[str],
    item: Item,
    finder: DocumentFinder,
    source_id: str = "",
) -> Gold:
    """Return the gold of a question from pairs of a document with its alternatives, by their ids, and a grade.

    Raises DataError if there are none, if two grades of a document differ, or if it is an alternative elsewhere.
    Grades are kept only if one is above 1.
    """
    if not judged:
        expected = "gold documents under 'documents', or answerable=no for a question that no document answers"
        raise item.error(expected, "none")
    grades, stands, repeated = dict[str, int](), dict[str, str](), list[str]()
    for (id, *others), grade in judged:
        if grades.setdefault(id, grade) != grade:
            raise item.error("one grade a document", f"two for {id!r}")
        repeated += [other for other in others if stands.setdefault(other, id) != id]
    repeated += [other for other in stands if other in grades]
    if repeated:
        raise item.error("each document in one group of alternatives (a.md|a.pdf)", f"{repeated[0]!r} a second time")
    relevant = {id: grade for id, grade in grades.items() if grade}
    graded = relevant if any(value > 1 for value in relevant.values()) else {}
    places = find_evidence(evidence, relevant, finder.ids, item, finder.follow)
    equivalents = {other: id for other, id in stands.items() if id in relevant}
    return Gold(
        frozenset(relevant),
        tuple(answers),
        kind,
        source_id,
        grades=graded,
        equivalents=equivalents,
        evidence=places,
        alternatives=frozenset(equivalents),
    )


def _build_unanswerable(
    judged: Sequence[tuple[Sequence[str], int]], answers: Sequence[str], kind: str, item: Item, source_id: str = ""
) -> Gold:
    """Return the gold of a question that no document answers. Raises DataError if one is graded above 0."""
    relevant = [ids[0] for ids, grade in judged if grade]
    if relevant:
        raise item.error("no gold documents under 'documents' where 'answerable' is no", repr(relevant[0]))
    return Gold(frozenset(), tuple(answers), kind, source_id, answerable=False)


def _graded_name(written: str, item: Item, finder: DocumentFinder) -> tuple[list[str], int]:
    """Return the ids of a document and its alternatives, and their grade.

    The grade is 1 unless it is written as `NAME=GRADE`; a name may contain `=`.
    """
    name, mark, grade = written.rpartition("=")
    if mark and regex.fullmatch(r"[0-9]{1,2}", grade.strip()) and find_spelling(written, finder.ids) is None:
        return finder.either(name, item), int(grade)
    return finder.either(written, item), 1


def read_jsonl_questions(path: Path, finder: DocumentFinder, problems: Problems) -> Iterator[DatasetQuestion]:
    """Yield the questions of a JSON Lines file, whose objects have the columns of `read_csv_questions` as keys.

    `question` may be called `text`, and `answer` `answers`. `documents`, `answer` and `evidence` are a string as in a
    CSV file or an array; `documents` may be an object of grades by name too. `_id` or `id` is optional. Either all
    objects have `documents` or `answerable`, or none does: then no question has gold.
    """
    items = list(read_json_lines(path, problems))
    with_gold, seen = any({"documents", "answerable"} & item.fields.keys() for item in items), set[str]()
    return problems.all(lambda item: _jsonl_question(item, finder, seen, with_gold=with_gold), items)


def _jsonl_question(item: Item, finder: DocumentFinder, seen: set[str], *, with_gold: bool) -> DatasetQuestion:
    source_id = parse_id(item) or ""
    if source_id in seen:
        raise item.error("each id once", f"the id {source_id!r} a second time")
    seen.update({source_id} - {""})
    text = require_text(item, item.text("question", "text"))
    if not with_gold:
        return DatasetQuestion(text, None)
    written = item.fields.get("documents")
    if isinstance(written, Mapping):
        judged = [(finder.either(name, item), _parse_grade(grade, item)) for name, grade in written.items()]
    else:
        judged = _judged_documents(_strings(item, "documents", _split_names), item, finder)
    answers = _strings(item, "answers" if "answers" in item.fields else "answer", _split_answers)
    evidence, kind = _strings(item, "evidence", _split_answers), item.text("kind", default="")
    if not _parse_answerable(item.fields.get("answerable"), item):
        return DatasetQuestion(text, _build_unanswerable(judged, answers, kind, item, source_id))
    return DatasetQuestion(text, _build_gold(judged, answers, kind, evidence, item, finder, source_id))


def _strings(item: Item, key: str, split: Callable[[str], list[str]]) -> list[str]:
    """Return the strings of an array, or of a string that `split` splits; none if the key is missing or null."""
    value = item.fields.get(key)
    if not isinstance(value, list):
        return split(item.text(key, default=""))
    strings = [item.unicode(string, f"strings in the array {key!r}").strip() for string in value]
    return [string for string in strings if string]


def _parse_grade(grade: object, item: Item) -> int:
    if isinstance(grade, bool) or not isinstance(grade, int) or not 0 <= grade <= 99:
        raise item.error("grades under 'documents' that are whole numbers from 0 to 99", format_value(grade))
    return grade

"""Datasets: a corpus with questions, and gold kept apart from both."""

import hashlib
import json
import os
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from ragindex._util.canonical import digest, metadata_json
from ragindex._util.ids import find_spelling
from ragindex.corpus import Corpus, FileSelection, LeftOut, read_selected
from ragindex.corpus.benchmarks import find_file_pair, is_asqa
from ragindex.corpus.formats import SINGLE_HOP, SINGLE_HOP_FILLED
from ragindex.corpus.git_source import FORMAT as GIT
from ragindex.corpus.json_reader import Item, Problems
from ragindex.corpus.judgements import QRELS_FILE, question_id, read_judgements
from ragindex.corpus.readers.text_encodings import decode_text
from ragindex.errors import DataError, UsageError
from ragindex.index import sources
from ragindex.index.index import Index
from ragindex.types import Query
from ragindex_eval.data import gold_classes, worlds
from ragindex_eval.data.benchmark_questions import (
    read_asqa_questions,
    read_benchmark_questions,
    read_ircot_questions,
    read_multihop_rag_questions,
    read_quality_questions,
    read_single_hop_questions,
)
from ragindex_eval.data.gold import Gold
from ragindex_eval.data.questions import (
    DatasetQuestion,
    DocumentFinder,
    read_beir_questions,
    read_csv_questions,
    read_jsonl_questions,
    read_plain_questions,
)
from ragindex_eval.format import many

_Questions: TypeAlias = Iterator[DatasetQuestion]


@dataclass(frozen=True, slots=True)
class Dataset:
    """A corpus with questions, and their gold.

    `gold` is by query id, or None if the questions have none. `read_dataset` and `add_questions` merge
    documents of equal text into one gold document (`ragindex_eval.data.gold_classes`). `fingerprint` depends on
    the content of documents, questions and gold, not on where they are stored. `skipped` is what was left out
    of the corpus and the questions, with reasons; `notes` are other remarks. `source` is where the documents came
    from, "" for documents that a program made. `questions_file` is the name of the file of questions, if there is one.
    """

    name: str
    corpus: Corpus
    queries: tuple[Query, ...]
    gold: Mapping[str, Gold] | None
    fingerprint: str
    skipped: tuple[LeftOut, ...] = ()
    source: str = ""
    notes: tuple[str, ...] = ()
    questions_file: str = ""


def read_dataset(
    path: Path | str,
    *,
    questions: Path | str | None = None,
    format: str | None = None,
    skip_bad: bool | None = None,
    selection: FileSelection | None = None,
    limit: int | None = None,
    kinds: Mapping[str, int] | None = None,
    seed: int = 0,
    list_renames: Callable[[Corpus], Mapping[str, str]] = lambda corpus: {},
) -> Dataset:
    """Read the corpus at `path` with its own questions, or with those of `questions`: .csv, .jsonl, .txt or judgements.

    `selection` chooses the files of a folder. `limit` takes a random sample of that many questions, in file order,
    which is part of those of a larger limit; the corpus stays whole. `kinds` takes so many of each kind first, and no
    other questions. Query ids are q00001, q00002, … in file order,
    whatever the limit. `list_renames` returns the ids of documents by earlier ones, which questions may name.
    Raises UsageError if a parameter is wrong, and DataError, with file and line, if something
    cannot be read, except files of a folder, which are left out and reported in `skipped`. With `skip_bad=True` that
    goes for items and questions too, with False for none.
    """
    path, file = Path(path), None if questions is None else Path(questions)
    corpus = _drop_question_file(read_selected(path, format=format, skip_bad=skip_bad, selection=selection), path, file)
    problems = Problems(bool(skip_bad))
    finder = DocumentFinder(corpus, list_renames)
    dataset_questions = list(_read_questions(path, file, finder, corpus, problems))
    dataset = _build_dataset(corpus, dataset_questions, problems, file or path, _Draw(limit, kinds, seed))
    notes = (*dataset.notes, *finder.describe_renamed())
    dataset = replace(dataset, questions_file=file.name if file else "", notes=notes)
    if corpus.format != "world":
        return replace(dataset, source=corpus.root if corpus.format == GIT else str(path.resolve()))
    fewer = worlds.describe_shortfall(dataset_questions) if file is None else None
    return replace(dataset, source=corpus.name, notes=(*dataset.notes, *([fewer] if fewer else [])))


def add_questions(
    corpus: Corpus,
    questions: Path | str,
    *,
    skip_bad: bool | None = None,
    limit: int | None = None,
    kinds: Mapping[str, int] | None = None,
    seed: int = 0,
    list_renames: Callable[[Corpus], Mapping[str, str]] = lambda corpus: {},
) -> Dataset:
    """Return a dataset of a corpus and questions: a .csv, .jsonl, .txt or judgements; see `read_dataset`."""
    problems, file = Problems(bool(skip_bad)), Path(questions)
    finder = DocumentFinder(corpus, list_renames)
    dataset_questions = list(_read_question_file(file, finder, problems))
    dataset = _build_dataset(corpus, dataset_questions, problems, file, _Draw(limit, kinds, seed))
    return replace(dataset, questions_file=file.name, notes=(*dataset.notes, *finder.describe_renamed()))


def _describe_encoding(file: Path) -> list[str]:
    """Return a note on the encoding of a file of questions, if it is not UTF-8 and may have been guessed."""
    is_text = file.is_file() and file.suffix.lower() in (".csv", ".txt")
    encoding = decode_text(file.read_bytes(), file)[1] if is_text else ""
    return [f"{file.name} was read as {encoding}"] if encoding else []


def match_index(dataset: Dataset, index: Index) -> Dataset:
    """Return the dataset with the index's document ids, and with the documents of its other sources, if any."""
    lead = sources.lead(index.manifest.sources, dataset.corpus)
    count = index.documents.collection.count()
    others = count - len(dataset.corpus.documents)
    if not lead and not others:
        return dataset
    documents = tuple(sorted(index.documents, key=lambda document: document.id))
    corpus = replace(dataset.corpus, documents=documents)
    prefixed = {id: _prefix_gold(of_query, lead) for id, of_query in (dataset.gold or {}).items()}
    gold = None if dataset.gold is None else gold_classes.in_classes(documents, prefixed)
    note = (
        (f"{many(others, 'other document')} of the index {'is' if others == 1 else 'are'} searched too",)
        if others
        else ()
    )
    fingerprint = dataset_fingerprint(corpus, dataset.queries, gold)
    return replace(dataset, corpus=corpus, gold=gold, fingerprint=fingerprint, notes=(*dataset.notes, *note))


def _prefix_gold(gold: Gold, lead: str) -> Gold:
    grades = {lead + id: grade for id, grade in gold.grades.items()}
    candidates = frozenset(lead + id for id in gold.candidates)
    equivalents = {lead + id: lead + stands for id, stands in gold.equivalents.items()}
    doc_ids = frozenset(lead + id for id in gold.doc_ids)
    alternatives = frozenset(lead + id for id in gold.alternatives)
    evidence = tuple(replace(place, doc_id=lead + place.doc_id) for place in gold.evidence)
    own = lead + gold.own_document if gold.own_document else ""
    return replace(
        gold,
        doc_ids=doc_ids,
        grades=grades,
        equivalents=equivalents,
        candidates=candidates,
        evidence=evidence,
        alternatives=alternatives,
        own_document=own,
    )


def origin(written: Path | str) -> str:
    """Return the identity of documents or questions, however they are written: the full path, or a world's name."""
    if os.path.exists(written):
        return os.path.realpath(written)
    return worlds.world_name(*worlds.parse_world(str(written))) if str(written).startswith("world:") else str(written)


@dataclass(frozen=True, slots=True)
class _Draw:
    """Which questions are asked: so many of each kind, and of these so many in all; the seed draws them."""

    limit: int | None
    kinds: Mapping[str, int] | None
    seed: int

    def sample(self, queries: tuple[Query, ...], gold: Mapping[str, Gold] | None) -> tuple[Query, ...]:
        """Return the drawn questions, in file order. Raises UsageError for a kind that no question has."""
        if self.kinds is not None:
            by_kind: dict[str, list[Query]] = {}
            for query in queries:
                by_kind.setdefault(gold[query.id].kind if gold and query.id in gold else "", []).append(query)
            for kind in self.kinds:
                if kind not in by_kind:
                    raise UsageError(f"No question is of the kind {kind!r}. Kinds: {', '.join(sorted(by_kind))}.")
            drawn = {
                query.id
                for kind, count in self.kinds.items()
                for query in _sample_queries(tuple(by_kind[kind]), count, self.seed)
            }
            queries = tuple(query for query in queries if query.id in drawn)
        return queries if self.limit is None else _sample_queries(queries, self.limit, self.seed)


def _build_dataset(
    corpus: Corpus, questions: list[DatasetQuestion], problems: Problems, file: Path, draw: _Draw
) -> Dataset:
    limit = draw.limit
    if limit is not None and (type(limit) is not int or limit < 1):
        raise UsageError(f"The 'limit' of questions must be an int in the range [1, inf). Got {limit!r} instead.")
    judged, left_out = _drop_unjudged(questions)
    if not questions:
        reason = f"none that can be read; {problems.errors[0]}".removesuffix(".") if problems.errors else "none"
        raise DataError("at least one question", reason, path=file)
    if not any(question.gold is None or question.gold.answerable for question in judged):
        left_out = left_out or ("each is marked answerable=no",)
        raise DataError("a question for which a document is graded above 0", f"none ({left_out[0]})", path=file)
    queries, gold = _number_questions(judged)
    sampled = draw.sample(queries, gold)
    sampled_gold = None if gold is None else {query.id: gold[query.id] for query in sampled}
    sampled_gold = None if sampled_gold is None else gold_classes.in_classes(corpus.documents, sampled_gold)
    skipped = tuple(dict.fromkeys([*corpus.skipped, *problems.left_out]))
    marked = dataset_fingerprint(corpus, sampled, sampled_gold)
    notes = (*_describe_encoding(file), *_describe_unread(file, len(problems.errors), len(questions)), *left_out)
    return Dataset(corpus.name, corpus, sampled, sampled_gold, marked, skipped, notes=notes)


def _describe_unread(file: Path, unread: int, left: int) -> list[str]:
    if not unread:
        return []
    are = many(unread, "entry could not be read and is", "entries could not be read and are")
    return [f"{file.name}: {are} left out, so {many(left, 'question is', 'questions are')} asked"]


def _drop_unjudged(questions: list[DatasetQuestion]) -> tuple[list[DatasetQuestion], tuple[str, ...]]:
    """Return the questions without those whose documents are all judged wrong, and a note with the number left out.

    No metric is defined for a question without a relevant document. Those that say so (answerable=no) are kept, to see
    which methods find nothing. Sub-questions (ASQA) are kept: their answers are measured where a corpus of one's own
    has no gold documents.
    """
    judged = [
        question
        for question in questions
        if question.gold is None or question.gold.doc_ids or question.gold.sub_questions or not question.gold.answerable
    ]
    count = len(questions) - len(judged)
    return judged, (f"left out: {many(count, 'question')} for which no document is graded above 0",) if count else ()


def _read_questions(
    path: Path, file: Path | None, finder: DocumentFinder, corpus: Corpus, problems: Problems
) -> _Questions:
    if file is not None:
        return _read_question_file(file, finder, problems)
    if corpus.format == "world":
        return iter(worlds.make_questions(*worlds.parse_world(str(path))))
    if corpus.format in ("folder", "jsonl"):
        raise UsageError(
            f"{path} ({corpus.format}) comes without questions. Give some: --questions FILE, a .csv with the columns "
            "question,answer,documents, a .jsonl with these keys, or a .txt with one question a line."
        )
    if corpus.format in _READERS:
        return _READERS[corpus.format](path, finder, problems)
    return read_benchmark_questions(find_file_pair(path)[0] if corpus.format == "hipporag" else path, finder, problems)


def _read_single_hops(path: Path, finder: DocumentFinder, problems: Problems, *, filled: bool) -> _Questions:
    file = find_file_pair(path)[0] if path.is_dir() else path
    return read_single_hop_questions(file, finder, problems, filled=filled)


_READERS: Mapping[str, Callable[[Path, DocumentFinder, Problems], _Questions]] = {
    "beir": read_beir_questions,
    SINGLE_HOP: partial(_read_single_hops, filled=False),
    SINGLE_HOP_FILLED: partial(_read_single_hops, filled=True),
    "ircot": read_ircot_questions,
    "multihop-rag": read_multihop_rag_questions,
    "quality": read_quality_questions,
    "asqa": read_asqa_questions,
}


def _read_question_file(file: Path, finder: DocumentFinder, problems: Problems) -> _Questions:
    if file.is_dir():
        return read_judged_questions(file, finder, problems)
    if file.suffix.lower() == ".csv":
        return read_csv_questions(file, finder, problems)
    if file.suffix.lower() == ".jsonl":
        return read_jsonl_questions(file, finder, problems)
    if file.suffix.lower() == ".txt":
        return read_plain_questions(file)
    if file.suffix.lower() == ".json" and is_asqa(file):
        return read_asqa_questions(file, None, problems)
    expected = (
        "questions in a .csv (question,answer,documents), a .jsonl (the same keys) or a .txt (one a line), ASQA.json, "
        "or a folder of judgements"
    )
    raise DataError(expected, file.name, path=file)


def _drop_question_file(corpus: Corpus, path: Path, file: Path | None) -> Corpus:
    """Return the corpus without the questions, if their file or folder lies among the documents."""
    if file is None or corpus.format != "folder" or not file.resolve().is_relative_to(path.resolve()):
        return corpus
    id = unicodedata.normalize("NFC", file.resolve().relative_to(path.resolve()).as_posix())  # as ids of files are
    documents = tuple(
        document for document in corpus.documents if document.id != id and not document.id.startswith(f"{id}/")
    )
    if not documents:
        raise DataError("at least one document beside the questions", "none", path=path)
    return replace(corpus, documents=documents)


def _number_questions(questions: list[DatasetQuestion]) -> tuple[tuple[Query, ...], dict[str, Gold] | None]:
    digits = max(5, len(str(len(questions))))
    ids = [f"q{number:0{digits}d}" for number in range(1, len(questions) + 1)]
    queries = tuple(Query(id, question.text) for id, question in zip(ids, questions, strict=True))
    gold = {id: question.gold for id, question in zip(ids, questions, strict=True) if question.gold is not None}
    return queries, gold or None


def _sample_queries(queries: tuple[Query, ...], limit: int, seed: int) -> tuple[Query, ...]:
    """Return a random sample in file order, which a larger one contains: the first in the order of a hash."""

    def place(number: int) -> str:
        return digest(["limit", seed, question_id(queries[number].text)])

    return tuple(queries[number] for number in sorted(sorted(range(len(queries)), key=place)[:limit]))


def dataset_fingerprint(corpus: Corpus, queries: tuple[Query, ...], gold: Mapping[str, Gold] | None) -> str:
    """Return 16 hexadecimal digits of a hash of documents (sorted by id), questions and gold.

    The modification time of files is ignored: a copy of the same documents is the same dataset.
    """
    hashed = hashlib.sha256()
    for value in _list_hashed_values(corpus, queries, gold):
        hashed.update(json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n")
    return hashed.hexdigest()[:16]


def describe_content(dataset: Dataset) -> dict[str, str]:
    """Return hashes of the documents alone and of the questions with gold, and the name of the questions file."""
    corpus, none = dataset.corpus, replace(dataset.corpus, documents=())
    return {
        "corpus_digest": dataset_fingerprint(corpus, (), None),
        "questions_digest": dataset_fingerprint(none, dataset.queries, dataset.gold),
        "questions_file": dataset.questions_file,
    }


def _list_hashed_values(corpus: Corpus, queries: tuple[Query, ...], gold: Mapping[str, Gold] | None) -> Iterator[Any]:
    passing = {"modified"} if corpus.format == "folder" else set()
    for document in sorted(corpus.documents, key=lambda document: document.id):
        metadata = {key: value for key, value in document.metadata.items() if key not in passing}
        yield [document.id, document.title, document.text, metadata_json(metadata)]
    for query in queries:
        of_query = None if gold is None else gold.get(query.id)
        yield [query.id, query.text, None if of_query is None else _list_gold_values(of_query)]


def _list_gold_values(gold: Gold) -> list[Any]:
    parts = [[part.question, list(part.answers)] for part in gold.sub_questions]
    places = [[place.doc_id, *map(list, place.words)] for place in gold.evidence]
    alternatives = [[id, gold.equivalents[id]] for id in sorted(gold.alternatives)]
    unanswerable = [] if gold.answerable else ["unanswerable"]
    own = {"own_document": gold.own_document} if gold.own_document else {}
    rare = [values for values in (list(gold.options), parts, places, alternatives, unanswerable, own) if values]
    return [sorted(gold.grades.items()), list(gold.answers), gold.kind, *rare]


# ---------------------------------------------------------------- judgements


def read_judged_questions(folder: Path, finder: DocumentFinder, problems: Problems) -> Iterator[DatasetQuestion]:
    """Yield the questions of a folder of judgements; documents graded 1 and 2 are gold, with these grades.

    A judgement under the id that a document has now replaces those under earlier ids. Raises DataError if the folder
    cannot be read. Judgements of documents that are not in the corpus are problems.
    """
    for id, judgement in read_judgements(folder).items():
        relevant = [judged for judged in judgement.grades.items() if judged[1] > 0]
        followed = dict(problems.each(partial(_require_known, id, folder, finder), relevant))
        spelled = {find_spelling(name, finder.ids): grade for name, grade in judgement.grades.items()}
        current = {name: grade for name, grade in spelled.items() if name is not None}
        grades = {name: grade for name, grade in {**followed, **current}.items() if grade > 0}
        yield DatasetQuestion(judgement.text, Gold(frozenset(grades), source_id=id, grades=grades))


def _require_known(question: str, folder: Path, finder: DocumentFinder, judged: tuple[str, int]) -> tuple[str, int]:
    """Return a judged document, by its id in the corpus, with its grade. Raises DataError if there is none."""
    id = find_spelling(judged[0], finder.ids) or finder.follow(judged[0])
    if id is None:
        got = f"{judged[0]!r}, judged for the question {question}, which is not in it"
        raise Item({}, folder / QRELS_FILE).error("documents of the corpus", got)
    return id, judged[1]

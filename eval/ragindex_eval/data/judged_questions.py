"""Questions with gold from a folder of judgements, as the page of `ragindex serve` keeps them."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from ragindex._util.ids import find_spelling
from ragindex.corpus.json_reader import Item, Problems
from ragindex.corpus.judgements import QRELS_FILE, read_judgements
from ragindex_eval.data.gold import Gold
from ragindex_eval.data.questions import DatasetQuestion, DocumentFinder


def read_judged_questions(folder: Path, finder: DocumentFinder, problems: Problems) -> Iterator[DatasetQuestion]:
    """Yield the questions of a folder of judgements; documents graded 1 and 2 are gold, with these grades.

    Raises DataError if the folder cannot be read. Judgements of documents that are not in the corpus are problems.
    """
    for id, judgement in read_judgements(folder).items():
        relevant = [judged for judged in judgement.grades.items() if judged[1] > 0]
        grades = dict(problems.each(partial(_require_known, id, folder, finder), relevant))
        yield DatasetQuestion(judgement.text, Gold(frozenset(grades), source_id=id, grades=grades))


def _require_known(question: str, folder: Path, finder: DocumentFinder, judged: tuple[str, int]) -> tuple[str, int]:
    """Return a judged document, by its id in the corpus, with its grade. Raises DataError if there is none."""
    id = find_spelling(judged[0], finder.ids)
    if id is None:
        got = f"{judged[0]!r}, judged for the question {question}, which is not in it"
        raise Item({}, folder / QRELS_FILE).error("documents of the corpus", got)
    return id, judged[1]

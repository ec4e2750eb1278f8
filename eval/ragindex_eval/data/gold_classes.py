"""Classes of gold documents: whoever finds one document of a class has found what the others contain.

A class has the documents of equal text, and the alternatives that a question names. Texts are equal if they differ at
most in white space and Unicode normal form (NFC). Titles must be equal too, since a text can refer to its title. A
title that is only the name of the document's file, as of a .txt, does not count.
"""

import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import PurePosixPath

from ragindex.corpus import SUFFIXES
from ragindex.types import Document
from ragindex_eval.data.gold import Gold, gains
from ragindex_eval.format import many


def content(document: Document) -> tuple[str, str]:
    """Return the title and text by which documents are compared: equal for documents of equal text."""
    text = _normalise(document.text)
    return ("" if text and _is_file_name(document) else _normalise(document.title), text)


def _normalise(text: str) -> str:
    return " ".join(unicodedata.normalize("NFC", text).split())


def _is_file_name(document: Document) -> bool:
    path = PurePosixPath(document.id)
    return path.suffix.lower() in SUFFIXES and path.stem == document.title


def in_classes(documents: Iterable[Document], gold: Mapping[str, Gold]) -> dict[str, Gold]:
    """Return the gold of each question, by its id, with one document per class.

    Of a question's gold documents, the smallest id of a class represents it, with the highest grade among them;
    `equivalents` are all other documents of the class, gold or not; `alternatives` are those of another text. Gold that
    is in classes already is unchanged.
    """
    listed = list(documents)
    named = {id for of_query in gold.values() for id in {*of_query.doc_ids, *of_query.grades, *of_query.alternatives}}
    of = {document.id: content(document) for document in listed if document.id in named}
    wanted, classes = set(of.values()), dict[tuple[str, str], list[str]]()
    for document in listed:
        if (key := content(document)) in wanted:
            classes.setdefault(key, []).append(document.id)
    return {query_id: _merge_classes(of_query, of, classes) for query_id, of_query in gold.items()}


def _merge_classes(
    gold: Gold, of: Mapping[str, tuple[str, str]], classes: Mapping[tuple[str, str], Iterable[str]]
) -> Gold:
    grades, first = dict[str, int](), dict[tuple[str, str], str]()
    for id, grade in sorted(gains(gold.doc_ids, gold.grades).items()):
        either = [id, *sorted(alternative for alternative in gold.alternatives if gold.equivalents[alternative] == id)]
        keys = [of[equal] for equal in either if equal in of]
        met = sorted({first[key] for key in keys if key in first})
        stands = met[0] if met else id
        first |= {key: stands for key, other in first.items() if other in met} | dict.fromkeys(keys, stands)
        grades[stands] = max([grade, *(grades.pop(other) for other in met)])
    equivalents = {id: stands for key, stands in first.items() for id in classes[key] if id != stands}
    others = frozenset(id for key, stands in first.items() if key != of.get(stands) for id in classes[key])
    return (
        replace(gold, doc_ids=frozenset(grades), grades=grades, equivalents=equivalents, alternatives=others)
        if grades
        else gold
    )


def same(gold: Mapping[str, Gold] | None) -> dict[str, str]:
    """Return the documents of two or more of equal text that are gold, each with the smallest id among them.

    Unlike `equivalents`, the representative is the same for all questions.
    """
    representatives: dict[str, str] = {}
    for of_query in (gold or {}).values():
        equal = {id: stands for id, stands in of_query.equivalents.items() if id not in of_query.alternatives}
        for stands in set(equal.values()):
            members = [stands, *(id for id, other in equal.items() if other == stands)]
            representatives |= dict.fromkeys(members, min(members))
    return representatives


def note(gold: Mapping[str, Gold] | None) -> str | None:
    """Return a sentence with the number of classes and of the questions they concern; None if there are none."""
    affected = sum(bool(of_query.equivalents.keys() - of_query.alternatives) for of_query in (gold or {}).values())
    classes = set(same(gold).values())
    if not classes:
        return None
    texts = f"{many(len(classes), 'gold text')} ({many(affected, 'question')})"
    stand = "stands" if len(classes) == 1 else "stand"
    return f"{texts} {stand} in several documents: found with the first of them, and the others gain nothing"

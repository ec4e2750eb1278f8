"""Hashes of what saved answers depend on."""

from collections.abc import Iterable, Mapping, Sequence

from ragindex._util import canonical
from ragindex.index.index import Index
from ragindex.interfaces import Scheme
from ragindex.types import Query
from ragindex_eval.data.gold import Gold, own_documents
from ragindex_eval.results.model import RESULT_SCHEMA


def answers_fingerprint(index: Index, scheme: Scheme, queries: Sequence[Query], gold: Mapping[str, Gold] | None) -> str:
    """Return a hash of all that the answers of a method to the questions depend on; of the gold, the own documents."""
    own = own_documents(gold)
    asked = [questions_fingerprint(queries), RESULT_SCHEMA, *([own] if own else [])]
    return canonical.digest([index.result_fingerprint(scheme), *asked])


def rankings_fingerprint(index: Index, scheme: Scheme) -> str:
    """Return a hash of all that the answers of a method to any questions depend on, beside `answer_keys`."""
    return canonical.digest([index.result_fingerprint(scheme), RESULT_SCHEMA])


def answer_keys(queries: Iterable[Query], gold: Mapping[str, Gold] | None) -> dict[str, str]:
    """Return a hash of all that an answer depends on of its question, by the question's id.

    It is the same wherever the question stands, so that answers are found again among more questions.
    """
    none = Gold(frozenset())
    keys = dict[str, str]()
    for query in queries:
        right = none if gold is None else gold.get(query.id, none)
        read = [list(right.options), bool(right.sub_questions)]
        keys[query.id] = canonical.digest([query.text, repr(query.filter), right.own_document, *read])
    return keys


def questions_fingerprint(queries: Sequence[Query]) -> str:
    """Return a hash of the questions, in order, with their ids and filters."""
    return canonical.digest([[query.id, query.text, repr(query.filter)] for query in queries])

"""Hashes of what saved answers depend on."""

from collections.abc import Mapping, Sequence

from ragindex import canonical
from ragindex.interfaces import Scheme
from ragindex.types import Query
from ragindex.workspace.workspace import Workspace
from ragindex_eval.data.gold import Gold, own_documents
from ragindex_eval.results.model import RESULT_SCHEMA


def answers_fingerprint(
    index: Workspace, scheme: Scheme, queries: Sequence[Query], gold: Mapping[str, Gold] | None
) -> str:
    """Return a hash of all that the answers of a method to the questions depend on; of the gold, the own documents."""
    own = own_documents(gold)
    asked = [questions_fingerprint(queries), RESULT_SCHEMA, *([own] if own else [])]
    return canonical.digest([index.result_fingerprint(scheme), *asked])


def questions_fingerprint(queries: Sequence[Query]) -> str:
    """Return a hash of the questions, in order, with their ids and filters."""
    return canonical.digest([[query.id, query.text, repr(query.filter)] for query in queries])

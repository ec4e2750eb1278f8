"""Which documents a key may see and change: the filter of the key, evaluated as the stores evaluate it."""

from collections.abc import Mapping, Sequence

from ragindex.filters import Filter, document_fields, passes
from ragindex.serve.keys import AccessKey
from ragindex.serve.refusals import RefusalError
from ragindex.types import Document, Hit, Metadata


def passing_documents(where: Filter | None, documents: Mapping[str, Metadata]) -> frozenset[str]:
    """Return the ids of the documents, given with their metadata, that pass the filter."""
    if where is None:
        return frozenset(documents)
    return frozenset(id for id, metadata in documents.items() if passes(where, document_fields(id, metadata)))


def keep_permitted(key: AccessKey, hits: Sequence[Hit]) -> tuple[Hit, ...]:
    """Return the hits all of whose documents pass the filter of the key; hits of unknown documents do not.

    The filter has been part of the search already: this holds even where a method does not keep to it.
    """
    if key.where is None:
        return tuple(hits)
    known = {id: metadata for hit in hits for id, metadata in hit.metadata.items()}
    passing = passing_documents(key.where, known)
    return tuple(hit for hit in hits if hit.doc_ids and passing.issuperset(hit.doc_ids))


def require_writable_documents(key: AccessKey, documents: Sequence[Document]) -> None:
    """Raise RefusalError unless all documents pass the filter of the key, and their ids are its own."""
    for document in documents:
        require_own_id(key, document.id)
    passing = passing_documents(key.where, {document.id: document.metadata for document in documents})
    for document in documents:
        if document.id not in passing:
            raise RefusalError(
                403, f"The key may not write the document {document.id!r}: its filter excludes it.", "filter"
            )


def require_own_id(key: AccessKey, id: str) -> None:
    """Raise RefusalError unless an id begins as those that the key may write."""
    if not id.startswith(key.id_prefix):
        raise RefusalError(
            403, f"The key writes documents whose ids begin with {key.id_prefix!r}. Got {id!r}.", "id_prefix"
        )

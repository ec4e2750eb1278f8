"""Judgements made on the page, in the folder `judgements` of the index that was searched."""

from pathlib import Path

from ragindex.corpus.judgements import QUERIES_FILE, add_judgement, question_id, read_judgements
from ragindex.serve.collections import ServedCollection
from ragindex.serve.keys import AccessKey
from ragindex.serve.permissions import passing_documents
from ragindex.serve.refusals import RefusalError
from ragindex.serve.searching import find_collection, read_document
from ragindex.serve.service import Service

JUDGEMENTS_FOLDER = "judgements"


def save_judgement(service: Service, key: AccessKey, collection: str, question: str, document: str, grade: int) -> str:
    """Save a judgement durably; return the question's id. Raises RefusalError and RagindexError.

    The document must be one that the key may see.
    """
    if service.settings.read_only:
        raise RefusalError(403, "The server was started with --read-only.", "read_only")
    found = find_collection(service, key, collection)
    if read_document(found, key, document) is None:
        raise RefusalError(404, f"There is no document {document!r}.", "document")
    return add_judgement(_find_folder(found), question, document, grade)


def read_grades(service: Service, key: AccessKey, collection: str, question: str) -> dict[str, int]:
    """Return the grades by document that a question has, of documents that the key may see. Raises RagindexError."""
    found = find_collection(service, key, collection)
    folder = _find_folder(found)
    if not (folder / QUERIES_FILE).exists():
        return {}
    judged = read_judgements(folder).get(question_id(question))
    grades = {} if judged is None else judged.grades
    held = {one.id: one.metadata for one in found.state.index.read(list(grades))}
    passing = passing_documents(key.where, held)
    return {id: grade for id, grade in grades.items() if id in passing}


def _find_folder(found: ServedCollection) -> Path:
    """Return the folder of judgements: in that of the index or retriever, or beside a packed retriever."""
    folder = found.spec.folder
    return folder.with_name(f"{folder.name}.{JUDGEMENTS_FOLDER}") if folder.is_file() else folder / JUDGEMENTS_FOLDER

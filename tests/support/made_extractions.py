"""Corpora whose triples are written down by hand, and a server that extracts what the text itself spells out."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from made_language import PRICES, QUICK
from openai_server import OpenAIServer

from ragindex.index.index import Index
from ragindex.interfaces.llm import LLMSettings
from ragindex.llm.openai_compatible import OpenAICompatibleChat
from ragindex.types import Document


def spelt(id: str, *triples: str) -> Document:
    """A document whose text is its triples: `a|p|b` each, on lines of their own."""
    return Document(id, "", "\n".join(triples), {"id": id})


def openie(path: Path, documents: Sequence[Document]) -> Path:
    """A published file of extractions for documents made by `spelt`."""
    docs = [
        {"title": document.title, "text": document.text, **by_text(document.text, "extracted_")}
        for document in documents
    ]
    path.write_text(json.dumps({"docs": docs}), encoding="utf-8")
    return path


def by_text(text: str, prefix: str = "") -> dict[str, Any]:
    triples = [line.split("|") for line in text.splitlines() if "|" in line]
    return {f"{prefix}entities": sorted({side[0] for side in triples}), f"{prefix}triples": triples}


def imported(folder: Path, file: Path, documents: Sequence[Document] = (), encoder: str = "lsa") -> Index:
    """A workspace of whole documents whose extractions come from `file`."""
    workspace = Index.open(folder, chunking=None, encoder=encoder, create=True)
    workspace.import_part("extractions", file)
    if documents:
        workspace.add(documents)
    return workspace


def asking(
    folder: Path, server: OpenAIServer, model: str = "small", encoder: str = "lsa", chunking: Any = None
) -> Index:
    """A workspace that asks the server, once for every call."""
    plugin = OpenAICompatibleChat(model=model, base_url=server.url, retries=0)
    setting = LLMSettings(prices=PRICES, clock=QUICK)
    return Index.open(folder, llm=plugin, llm_settings=setting, chunking=chunking, encoder=encoder, create=True)


def spells_out(body: Mapping[str, Any]) -> str:
    """Answers the task `extract` for documents made by `spelt`."""
    return json.dumps(by_text(body["messages"][-1]["content"]))


def rows(workspace: Index, part: Any, *fields: str) -> list[dict[str, Any]]:
    """The records of a part, by id."""
    opened = workspace.open_part(part)
    records = [row for batch in opened.scan(fields or opened.fields()) for row in batch.to_pylist()]
    return sorted(records, key=lambda row: str(row["id"]))


def notes(workspace: Index, name: str) -> list[str]:
    """What the finished parts of this name have to say."""
    records = [record for record in workspace.manifest.parts.values() if record.name == name]
    return [sentence for record in records for sentence in (*record.details, *record.notes)]

"""Corpora whose trees can be worked out by hand: every text says where it stands, and a server that summarises so."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from made_language import PRICES, QUICK
from openai_server import OpenAIServer

from ragindex.index.index import Index
from ragindex.interfaces import Encoder, EncoderPlugin, Floats
from ragindex.interfaces.llm import LLMSettings
from ragindex.llm.openai_compatible import OpenAICompatibleChat
from ragindex.parts.records import DIGEST
from ragindex.types import Document

_PLACE = re.compile(r"@(-?[\d.]+),(-?[\d.]+),(-?[\d.]+)")


class Compass(EncoderPlugin):
    """Registered nowhere: handed over as it is."""

    argument: ClassVar[str] = "name"
    name: str = "compass"

    def open(self, setting: LLMSettings | None = None) -> "CompassEncoder":
        return CompassEncoder()


@dataclass(frozen=True)
class CompassEncoder(Encoder):
    """The direction of the sum of all `@x,y,z` in a text; none: zero."""

    id: str = "compass"
    dimensions: int = 3

    def encode_documents(self, texts: Sequence[str]) -> Floats:
        vectors = np.array([place(text) for text in texts], np.float64).reshape(len(texts), 3)
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        return (vectors / np.where(lengths > 0, lengths, 1)).astype(np.float32)

    def encode_queries(self, texts: Sequence[str]) -> Floats:
        return self.encode_documents(texts)


def place(text: str) -> tuple[float, ...]:
    places = np.array(_PLACE.findall(text), np.float64).reshape(-1, 3)
    return tuple(places.sum(axis=0).tolist())


def at(name: str, x: float, y: float, z: float) -> Document:
    """A document `name @x,y,z`."""
    return Document(name, "", f"{name} @{x:.3f},{y:.3f},{z:.3f}", {"letter": name[0]})


def around(name: str, axis: int, radius: float, count: int) -> list[Document]:
    """`name`1, `name`2, … in a ring around one of the three axes."""
    documents = []
    for number in range(count):
        turn = 2 * np.pi * number / count
        spot = np.zeros(3)
        spot[[axis, (axis + 1) % 3, (axis + 2) % 3]] = 1, radius * np.cos(turn), radius * np.sin(turn)
        documents.append(at(f"{name}{number + 1}", *spot))
    return documents


# ---------------------------------------------------------------- the server


def task_of(body: Mapping[str, Any]) -> str:
    return str(body["response_format"]["json_schema"]["schema"]["required"][0])


def shown(body: Mapping[str, Any]) -> list[str]:
    """The texts of a request for a summary; the complaint about an unusable answer has no place."""
    texts = str(body["messages"][1]["content"]).split("\n\n")
    return [text.partition(":\n")[2] for text in texts if _PLACE.search(text)]


def summaries(server: OpenAIServer) -> list[list[str]]:
    """The names in each request for a summary so far."""
    return [
        [named(text) for text in shown(request.body)]
        for request in server.requests
        if task_of(request.body) == "summary"
    ]


def named(text: str) -> str:
    return _PLACE.sub("", text).strip()


def write(body: Mapping[str, Any]) -> str:
    """A summary: the names of its texts in brackets, and the place between them. Else `spelt`."""
    if task_of(body) != "summary":
        return spelt(body)
    texts = shown(body)
    x, y, z = np.mean([place(text) for text in texts], axis=0)
    return json.dumps({"summary": f"({' '.join(map(named, texts))}) @{x:.3f},{y:.3f},{z:.3f}"})


def spelt(body: Mapping[str, Any]) -> str:
    """Propositions: each line one, whose words in capitals are the entities."""
    text = str(body["messages"][-1]["content"]).rpartition("Paragraph:\n")[2]
    match task_of(body):
        case "paragraph":
            return json.dumps({"paragraph": text})
        case "entities":
            return json.dumps(
                {"entities": [{"name": word, "type": "word", "aliases": []} for word in text.split() if word.isupper()]}
            )
    facts = []
    for line in text.splitlines():
        names = [word for word in line.split() if word.isalpha() and word.isupper()]
        facts.append({"text": line, "triplets": [[name, "is", name] for name in names]})
    return json.dumps({"propositions": facts})


def opened(folder: Path, server: OpenAIServer, documents: Sequence[Document] = (), concurrency: int = 4) -> Index:
    """A workspace of whole documents that asks the server, once for every call."""
    plugin = OpenAICompatibleChat(model="small", base_url=server.url, retries=0, concurrency=concurrency)
    setting = LLMSettings(prices=PRICES, clock=QUICK)
    workspace = Index.open(folder, llm=plugin, llm_settings=setting, chunking=None, encoder=Compass(), create=True)
    if documents:
        workspace.add(documents)
    return workspace


# ---------------------------------------------------------------- reading


def nodes(workspace: Index, part: Any) -> dict[str, dict[str, Any]]:
    """Rows of a collection by id, without what only says whether they changed."""
    collection = workspace.open_part(part)
    fields = [name for name in collection.fields() if name != DIGEST]
    rows = [row for batch in collection.scan(fields) for row in batch.to_pylist()]
    return {row.pop("id"): row for row in rows}


def drawn(workspace: Index, part: Any) -> dict[str, list[str]]:
    """The summaries by their names, with the names of their children."""
    tree_nodes = nodes(workspace, part)
    return {
        named(row["text"]): [named(tree_nodes[child]["text"]) for child in row["children"]]
        for row in tree_nodes.values()
        if row["kind"] == "summary"
    }


def notes(workspace: Index, name: str) -> list[str]:
    records = [record for record in workspace.manifest.parts.values() if record.name == name]
    return [sentence for record in records for sentence in (*record.details, *record.notes)]


def failed(workspace: Index, name: str) -> list[str]:
    return [id for record in workspace.manifest.parts.values() if record.name == name for id in record.failed]

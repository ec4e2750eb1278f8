"""A corpus in which one passage leads to the next, and a server that says in its turns what a script says."""

import atexit
import json
import shutil
from collections import deque
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from built_retriever import built_retriever
from made_language import PRICES, QUICK
from openai_server import OpenAIServer

from ragindex.index.index import Index
from ragindex.interfaces.llm import LLMSettings
from ragindex.llm.budget import parse_budget
from ragindex.llm.openai_compatible import OpenAICompatibleChat
from ragindex.plugins import registry
from ragindex.retrieval.trace import IF_STOPPED
from ragindex.types import Document, Query, Retrieval, Step

DOCUMENTS = (
    Document("bread", "Rye bread", "Rye bread keeps for a week.", {"half": "other"}),
    Document("bridge", "Ostra Bridge", "Ostra Bridge was designed by Ilse Harrow.", {"half": "chain"}),
    Document("fair", "Ostra Fair", "The fair is held on a meadow every October.", {"half": "other"}),
    Document("ilse", "Ilse Harrow", "Ilse Harrow was born in Port Callan.", {"half": "chain"}),
    Document("sarn", "River Sarn", "The River Sarn ends in the Grey Sea.", {"half": "other"}),
    Document("town", "Port Callan", "Port Callan lies on the River Sarn.", {"half": "chain"}),
)
QUESTION = "In which town was the designer of Ostra Bridge born?"
LONGER = "On which river lies the town in which the designer of Ostra Bridge was born?"
FIRST, SECOND = "Ostra Bridge was designed by Ilse Harrow.", "Ilse Harrow was born in Port Callan."


def script(server: OpenAIServer, *turns: Any) -> None:
    """What the server says, turn by turn: texts as they are, all else as JSON."""
    left = deque(turns)

    def write(body: Mapping[str, Any]) -> str:
        turn = left.popleft()
        return turn if isinstance(turn, str) else json.dumps(turn)

    server.write = write


def opened(
    folder: Path, server: OpenAIServer | None, budget: float | None = None, documents: Sequence[Document] = DOCUMENTS
) -> Index:
    """A workspace that asks the server, or the rules where there is none; that of DOCUMENTS is built once."""
    llm = "offline" if server is None else OpenAICompatibleChat(model="small", base_url=server.url, retries=0)
    asking = LLMSettings(prices=PRICES, clock=QUICK, budget=parse_budget(budget))
    if documents is DOCUMENTS and not folder.joinpath("workspace.json").exists():
        shutil.copytree(_built(), folder, dirs_exist_ok=True)
    workspace = Index.open(folder, llm=llm, llm_settings=asking, chunking=None, create=True)
    if documents is not DOCUMENTS:
        workspace.add(documents)
    return workspace


@cache
def _built() -> Path:
    """The index of DOCUMENTS that each test has a copy of."""
    folder = Path(mkdtemp("-dialogues"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    with Index.open(folder / "w", chunking=None, create=True) as workspace:
        workspace.add(DOCUMENTS)
        workspace.build(registry.scheme("hybrid"))
    return folder / "w"


def ask(workspace: Index, written: str, question: str = QUESTION, k: int = 10) -> Retrieval:
    """One question."""
    (retrieval,) = built_retriever(workspace, written).retrieve([Query("q", question)], k)
    return retrieval


def ids(retrieval: Retrieval) -> list[str]:
    return [hit.doc_ids[0] for hit in retrieval.hits]


def work(retrieval: Retrieval) -> list[Step]:
    """The steps of a trace that are work of the method."""
    return [step for step in retrieval.trace if step.index != IF_STOPPED]


def rounds_of(retrieval: Retrieval) -> list[tuple[int, list[str]]]:
    """Number and documents of the ranking that the method would have returned after each round."""
    documents = {hit.id: hit.doc_ids[0] for hit in retrieval.hits}
    stops = [step for step in retrieval.trace if step.index == IF_STOPPED]
    return [(step.iteration, [documents[id] for id in step.ids]) for step in stops]


def shown(server: OpenAIServer, call: int) -> str:
    """The last message of a call."""
    return str(server.requests[call].body["messages"][-1]["content"]).strip()


def read_tokens(server: OpenAIServer) -> list[int]:
    """The input tokens of each call, as the server counts them."""
    return [sum(server.count(each["content"]) for each in request.body["messages"]) for request in server.requests]

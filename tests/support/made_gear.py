"""GeAR's dialogues: a corpus in which one passage leads to the next, a server that answers task by task, Eq. 9."""

import json
import shutil
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from built_retriever import built_retriever
from made_extractions import openie, spelt
from made_language import PRICES, QUICK
from openai_server import OpenAIServer

from ragindex.accounting import ledger
from ragindex.index.index import Index
from ragindex.interfaces import Encoder, EncoderPlugin, Floats
from ragindex.interfaces.llm import LLMSettings
from ragindex.llm.budget import parse_budget
from ragindex.llm.openai_compatible import OpenAICompatibleChat
from ragindex.llm.tasks import Task, render_messages
from ragindex.plugins import registry
from ragindex.plugins.registry import PluginSpec
from ragindex.types import Document, Query, Retrieval, Step, Triple
from ragindex_retrievers.gear.tasks import READ, REASON, REWRITE_QUESTION

DESIGNED = Triple("Ostra Bridge", "was designed by", "Ilse Harrow")
SPANS = Triple("Ostra Bridge", "spans", "River Sarn")
HELD = Triple("Ostra Fair", "is held on", "Callan Meadow")
BORN = Triple("Ilse Harrow", "was born in", "Port Callan")
MEADOW = Triple("Callan Meadow", "lies in", "Port Callan")
SARN = Triple("River Sarn", "ends in", "Grey Sea")
LIES = Triple("Port Callan", "lies on", "River Arl")
ENDS = Triple("River Arl", "ends in", "White Lake")
KEEPS = Triple("Rye bread", "keeps for", "one week")


def _passage(id: str, *triples: Triple) -> Document:
    return spelt(id, *(f"{triple.subject}|{triple.predicate}|{triple.object}" for triple in triples))


CHAIN = (
    _passage("bridge", DESIGNED, SPANS),
    _passage("fair", HELD),
    _passage("ilse", BORN),
    _passage("meadow", MEADOW),
    _passage("sarn", SARN),
    _passage("town", LIES),
)
DOCUMENTS = (*CHAIN, _passage("arl", ENDS), _passage("bread", KEEPS))


# ---------------------------------------------------------------- a server with a script


@dataclass(frozen=True)
class Call:
    """A request: its task, the last message, and what it cost as the server counts.

    Reading with a memory is called `read on`, rewriting with the earlier questions `rewrite shown`: their instructions
    are others.
    """

    task: str
    shown: str
    read: int
    written: int


def triples(*stated: Triple) -> dict[str, Any]:
    """What a model answers that has read."""
    return {"triples": [[triple.subject, triple.predicate, triple.object] for triple in stated]}


def no(why: str) -> dict[str, Any]:
    """What a model answers that has not enough."""
    return {"answerable": False, "answer": "", "why": why}


YES = {"answerable": True, "answer": "the River Arl", "why": ""}


def ask(question: str) -> dict[str, Any]:
    """What a model answers that has rewritten."""
    return {"question": question}


def script(
    server: OpenAIServer, read: Sequence[Any] = (), reason: Sequence[Any] = (), rewrite: Sequence[Any] = ()
) -> list[Call]:
    """What the server says to each task in turn: texts as they are, all else as JSON. The requests are kept."""
    left = {"read": deque(read), "read on": deque[Any](), "reason": deque(reason), "rewrite": deque(rewrite)}
    left["read on"], left["rewrite shown"] = left["read"], left["rewrite"]
    calls: list[Call] = []

    def write(body: Mapping[str, Any]) -> str:
        task = task_of(body)
        turn = left[task].popleft()
        text = turn if isinstance(turn, str) else json.dumps(turn)
        read = sum(server.count(each["content"]) for each in body["messages"])
        calls.append(Call(task, str(body["messages"][-1]["content"]).strip(), read, server.count(text)))
        return text

    server.write = write
    return calls


def always_no(server: OpenAIServer) -> Counter[str]:
    """The server reads one triple, never has enough, and always finds another question; the calls by task."""
    calls: Counter[str] = Counter()

    def write(body: Mapping[str, Any]) -> str:
        task = task_of(body)
        calls[task] += 1
        answers = {"reason": no("It is never enough."), "rewrite": ask(f"Which bridge is number {calls[task]}?")}
        return json.dumps(answers.get(task) or triples(DESIGNED))

    server.write = write
    return calls


def task_of(body: Mapping[str, Any]) -> str:
    """The task that a request is about, by its first message."""
    return _tasks()[body["messages"][0]["content"]]


def _tasks() -> dict[str, str]:
    kinds: Sequence[tuple[str, Task[Any], Mapping[str, Any]]]
    kinds = (
        ("read", READ, {}),
        ("read on", READ, {"memory": [DESIGNED]}),
        ("reason", REASON, {}),
        ("rewrite", REWRITE_QUESTION, {}),
        ("rewrite shown", REWRITE_QUESTION, {"asked": ["Which bridge?"]}),
    )
    empty = {"question": "", "passages": [], "memory": [], "triples": [], "reason": "", "asked": []}
    return {render_messages(task, {**empty, **given})[0].content: name for name, task, given in kinds}


# ---------------------------------------------------------------- workspaces and questions


def built(folder: Path, documents: Sequence[Document] = DOCUMENTS, encoder: PluginSpec = "lsa") -> Path:
    """A workspace folder with the triples that the texts spell out, and all parts of `gear`."""
    with Index.open(folder / "w", chunking=None, encoder=encoder, create=True) as workspace:
        workspace.import_part("extractions", openie(folder / "openie.json", documents))
        workspace.add(documents)
        workspace.build(registry.scheme("gear"))
    return folder / "w"


def opened(
    template: Path, folder: Path, server: OpenAIServer | None, budget: float | None = None, encoder: PluginSpec = "lsa"
) -> Index:
    """The workspace `template`, copied unless it is in `folder` already; it asks the server, else the rules."""
    if not (folder / "w").exists():
        shutil.copytree(template, folder / "w")
    llm = "offline" if server is None else OpenAICompatibleChat(model="small", base_url=server.url, retries=0)
    asking = LLMSettings(prices=PRICES, clock=QUICK, budget=parse_budget(budget))
    return Index.open(folder / "w", llm=llm, llm_settings=asking, chunking=None, encoder=encoder, create=True)


def ask_counted(workspace: Index, scheme: PluginSpec, question: str, k: int = 10) -> tuple[Retrieval, ledger.Tally]:
    """One question, and its calls."""
    retriever = built_retriever(workspace, scheme)
    with ledger.record_calls() as tally:
        (retrieval,) = retriever.retrieve([Query("q", question)], k)
    return retrieval, tally


def ids(retrieval: Retrieval) -> list[str]:
    return [hit.id for hit in retrieval.hits]


def ended(retrieval: Retrieval) -> tuple[list[Triple], str]:
    """The memory, and why it stopped."""
    last = retrieval.trace[-1]
    assert last.index == "gist memory"
    return list(last.triples), last.note


def steps(retrieval: Retrieval, *names: str) -> list[Step]:
    """The steps of these names, in order."""
    return [step for step in retrieval.trace if step.index in names]


def cost(calls: Sequence[Call], *numbers: int) -> tuple[int, int]:
    """Input and output tokens of some calls."""
    return sum(calls[number].read for number in numbers), sum(calls[number].written for number in numbers)


# ---------------------------------------------------------------- Eqs. 3, 8, 9 and 10, apart from the method


def fused(*rankings: Sequence[str]) -> list[str]:
    """Reciprocal rank fusion in fractions; equal sums: the better best rank, then the id."""
    ids = {id for ranking in rankings for id in ranking}
    ranks = {id: [ranking.index(id) + 1 for ranking in rankings if id in ranking] for id in ids}
    sums = {id: sum(Fraction(1, 60 + rank) for rank in id_ranks) for id, id_ranks in ranks.items()}
    return sorted(ids, key=lambda id: (-sums[id], min(ranks[id]), id))


def by_equation_9(workspace: Index, retrieval: Retrieval, base: str, base_k: int, k: int) -> list[str]:
    """The ranking that follows from what the trace says was asked, remembered and found by the beams."""
    passages = built_retriever(workspace, base)
    links = built_retriever(workspace, {"name": base, "params": {"over": "triples"}})
    rankings = []
    for triple in ended(retrieval)[0]:
        text = Query("t", f"{triple.subject} {triple.predicate} {triple.object}")
        linked = [id for hit in links.retrieve([text], 1000)[0].hits for id in hit.passage_ids]
        near = [hit.id for hit in passages.retrieve([text], k)[0].hits]
        rankings.append(fused(near, list(dict.fromkeys(linked))[:k])[:k])
    for beams in steps(retrieval, "triple beams"):
        listed = passages.retrieve([Query("b", beams.query)], base_k)[0].hits
        rankings.append(fused(beams.ids, [hit.id for hit in listed]))
    return fused(*rankings)


# ---------------------------------------------------------------- vectors that are written down


class WrittenVectors(EncoderPlugin):
    """Each question is an axis: a text's vector holds its `cosines` with the questions, and the rest on a last axis."""

    argument: ClassVar[str] = "name"
    version: ClassVar[int] = 1
    questions: tuple[str, ...]
    cosines: dict[str, dict[str, float]]

    def open(self, setting: LLMSettings | None = None) -> "WrittenEncoder":
        return WrittenEncoder(self.questions, self.cosines)


@dataclass(frozen=True)
class WrittenEncoder(Encoder):
    """See WrittenVectors. A text or question that is not written down is a KeyError or ValueError."""

    questions: tuple[str, ...]
    cosines: Mapping[str, Mapping[str, float]]
    id = "written"

    @property
    def dimensions(self) -> int:
        return len(self.questions) + 1

    def encode_documents(self, texts: Sequence[str]) -> Floats:
        rows = np.zeros((len(texts), self.dimensions))
        for row, text in zip(rows, texts, strict=True):
            for question, cosine in self.cosines[text].items():
                row[self.questions.index(question)] = cosine
            row[-1] = np.sqrt(1 - (row**2).sum())
        return rows.astype(np.float32)

    def encode_queries(self, texts: Sequence[str]) -> Floats:
        return np.eye(self.dimensions, dtype=np.float32)[[self.questions.index(text) for text in texts]]

"""What agents over any method share: the method that they ask, what their LLM is shown, and the merged rankings."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import Literal, TypeAlias

from ragindex.interfaces import OpenIndex, Retriever, Scheme
from ragindex.interfaces.llm import LLM
from ragindex.llm.answer_question import AnswerContext, build_context
from ragindex.plugins.registry import label
from ragindex.retrieval.fusion import reciprocal_rank_fusion
from ragindex.retrieval.trace import IF_STOPPED, KEPT_IDS, Trace
from ragindex.types import Hit, Retrieval, Step

Merge: TypeAlias = Literal["score", "rrf", "interleave"]


@dataclass(frozen=True, slots=True)
class AgentTools:
    """What an agent works with. Tokens are counted by the tokenizer of `model`; `source` is the label of its method."""

    base: Retriever
    llm: LLM
    shown_tokens: int
    model: str
    language: str
    source: str

    def show(self, hits: Sequence[Hit], notes: Sequence[str] = ()) -> AnswerContext:
        """Return what the LLM is shown: the best hits, and notes, within the limit of tokens."""
        return build_context(hits, notes, self.shown_tokens, self.model)


def open_tools(scheme: Scheme, base: Scheme, shown_tokens: int, index: OpenIndex) -> AgentTools:
    """Open what the agent `scheme` over `base` works with."""
    model, language = index.tokens_counted_by, index.language
    return AgentTools(base.open(index), index.llm, shown_tokens, model, language, label(scheme))


@dataclass(slots=True)
class Rounds:
    """The rounds of retrieval for one question: their rankings, the distinct notes, and the trace."""

    rankings: list[tuple[Hit, ...]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    trace: Trace = field(default_factory=Trace)

    def add(self, retrieval: Retrieval, iteration: int) -> None:
        """Add a round."""
        self.rankings.append(retrieval.hits)
        self.trace.of_base(retrieval.trace, iteration)
        self.notes += [note for note in retrieval.notes if note not in self.notes]

    def merge(self, how: Merge, rrf_k: float, source: str, question: str) -> tuple[Hit, ...]:
        """Merge the rankings so far, and record the result as what the method returns if it stops after this round."""
        hits = merge_rankings(self.rankings, how, rrf_k, source)
        ids = tuple(hit.id for hit in hits[:KEPT_IDS])
        self.trace.steps.append(Step(len(self.rankings), IF_STOPPED, question, ids))
        return hits


def merge_rankings(rankings: Sequence[Sequence[Hit]], how: Merge, rrf_k: float, source: str) -> tuple[Hit, ...]:
    """Merge rankings into one, best first, without duplicates; a hit is taken from the first ranking that has it.

    `score` ranks hits by their best score in any ranking, equal ones by id. `rrf` is
    `reciprocal_rank_fusion`. `interleave` takes the first hit of each ranking, then the second of each, with
    1 / rank as scores. A single ranking is returned unchanged.
    """
    if len(rankings) == 1:
        return tuple(replace(hit, source=source) for hit in rankings[0])
    ids = [[hit.id for hit in ranking] for ranking in rankings]
    if how == "score":
        best: dict[str, float] = {}
        for hit in (hit for ranking in rankings for hit in ranking):
            best[hit.id] = max(hit.score, best.get(hit.id, hit.score))
        scored = sorted(best.items(), key=lambda pair: (-pair[1], pair[0]))
    elif how == "rrf":
        scored = reciprocal_rank_fusion(ids, rrf_k)
    else:
        order = dict.fromkeys(id for turn in zip_longest(*ids) for id in turn if id is not None)
        scored = [(id, 1 / place) for place, id in enumerate(order, start=1)]
    by_id = {hit.id: hit for ranking in reversed(rankings) for hit in ranking}
    return tuple(replace(by_id[id], score=score, source=source) for id, score in scored)

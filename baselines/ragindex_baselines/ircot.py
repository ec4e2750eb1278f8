"""IRCoT: retrieval interleaved with a chain of thought (Trivedi et al., ACL 2023), over any scheme."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar

import regex
from pydantic import AfterValidator, BaseModel, Field

from ragindex.english import extract_answer, find_next_fact, list_facts, split_sentences
from ragindex.interfaces import OpenIndex, Retriever, Scheme
from ragindex.llm.tasks import Task
from ragindex.parts.text.passages import OVER_PASSAGES, PassagesField
from ragindex.plugins import registry
from ragindex.plugins.registry import SchemeField
from ragindex.retrieval.hits import check_queries
from ragindex.retrieval.stages import record_ranking
from ragindex.types import Hit, Query, Retrieval, Step
from ragindex_baselines.agents import AgentTools, Merge, Rounds, open_tools

_ANSWER_PHRASE = "the answer is"
_UNKNOWN = regex.compile(r"the answer is:?\s+unknown\b", regex.IGNORECASE)
_LABEL = regex.compile(
    r"(?:(?<!\s)\s++)?+(?:(?:thought|step)\s{0,2}\d{0,2}\s{0,2}:|\d{1,2}[.)]|[-*•])\s+", regex.IGNORECASE
)


# ---------------------------------------------------------------- the task


def one_sentence(reply: str) -> str:
    """Return the first sentence of a reply, or all sentences up to one that states the answer.

    A number, bullet or label before it ("3.", "Thought 3:") is no part of it. Raises ValueError if there is no
    sentence.
    """
    sentences = split_sentences(_LABEL.sub("", reply, count=1) if _LABEL.match(reply) else reply)
    if not sentences:
        raise ValueError("a thought must be a sentence")
    last = next((place for place, sentence in enumerate(sentences) if _answers(sentence)), 0)
    return " ".join(sentences[: last + 1])


def _answers(thought: str) -> bool:
    return _ANSWER_PHRASE in thought.casefold()


def drop_answer(thought: str) -> str:
    """Return a thought without the sentences that state the answer: a reader is to judge the facts, not to copy it."""
    if not _answers(thought):
        return thought
    return " ".join(sentence for sentence in split_sentences(thought) if not _answers(sentence))


class Thought(BaseModel):
    """The next thought of an LLM: one sentence."""

    thought: Annotated[str, AfterValidator(one_sentence)]


class RuleThought(Thought):
    """The next thought of the rules, unchanged, because the rules recognise their earlier thoughts by their text."""

    thought: str


def think_by_rule(inputs: Mapping[str, Any]) -> RuleThought:
    """Return the fact of the passages that continues the chain of thoughts, or else the answer that the chain suggests.

    If it suggests none, return the last thought again, or the question, which ends the loop.
    """
    question, thoughts, language = inputs["question"], inputs["thoughts"], inputs["language"]
    facts = list_facts((passage.title, passage.text) for passage in inputs["passages"])
    following = find_next_fact(question, facts, thoughts, language)
    if following is not None:
        return RuleThought(thought=following.text)
    answer = extract_answer(question, [("", thought) for thought in thoughts], language)
    return RuleThought(thought=f"So the answer is: {answer}." if answer else [question, *thoughts][-1])


THOUGHT: Task[Thought] = Task(
    name="thought",
    version=2,
    prompt=Path(__file__).with_name("prompts") / "ircot.jinja",
    output=Thought,
    rule=think_by_rule,
    max_tokens=200,
    read=lambda text: Thought(thought=text),
)


# ---------------------------------------------------------------- the scheme


class IRCoT(Scheme):
    """Retrieval and reasoning in turns: `base` is asked for the question, then for each thought of an LLM.

    The results are merged. A thought is one sentence. The LLM makes it from the question, the `shown` best passages
    so far (at most `shown_tokens` tokens) and the earlier thoughts. The loop ends when a thought contains "the answer
    is", when a thought repeats an earlier one or the question, or after `iterations` rounds of retrieval, the first
    included. `merge` ranks the passages of all rounds: by their best `score`, by `rrf` of the rounds' ranks, or by
    `interleave`, where the rounds take turns. Thoughts are passed on as notes, without the answer. Every round asks for
    `base_k` passages, whatever k is, so the ten best are the first ten of the twenty best.
    """

    version: ClassVar[int] = 1
    base: SchemeField = Field(default_factory=lambda: registry.scheme("bm25"), description="Retriever that is asked.")
    over: PassagesField = OVER_PASSAGES
    base_k: int = Field(default=10, ge=1, description="Passages asked of the base in each round.")
    iterations: int = Field(default=4, ge=1, description="Rounds of retrieval at most.")
    shown: int = Field(default=10, ge=1, description="Passages that the LLM is shown.")
    shown_tokens: int = Field(default=4_000, ge=1, description="Tokens of passages that the LLM is shown at most.")
    merge: Merge = Field(default="score", description="How the rankings of the rounds are merged.")
    rrf_k: float = Field(default=60, ge=0, description="Constant of reciprocal rank fusion.")

    def depends_on_k(self, k: int) -> bool:
        """Return False: every round asks the base for `base_k` passages."""
        return False

    def tasks(self) -> tuple[Task[Any], ...]:
        """Return the task of the thoughts."""
        return (THOUGHT,)

    def _open(self, index: OpenIndex) -> Retriever:
        """Open a retriever that runs one search per round, and one LLM call between two rounds."""
        return IRCoTRetriever(open_tools(self, self.base, self.shown_tokens, index), self)


@dataclass(slots=True)
class _Chain(Rounds):
    """The state of one question: its rounds, and its thoughts so far."""

    question: str = ""
    thoughts: list[str] = field(default_factory=list)

    def thought(self, thought: str) -> str:
        """Add a thought. Return the reason why it is the last one, "" if it is not."""
        if _normalize_thought(thought) in map(_normalize_thought, (self.question, *self.thoughts)):
            return "The thought repeats an earlier one, or the question."
        self.thoughts.append(thought)
        self.notes += [fact] if (fact := drop_answer(thought)) else []
        if _UNKNOWN.search(thought):
            return "The thought gives up."
        return "The thought holds the answer." if _answers(thought) else ""


def _normalize_thought(thought: str) -> str:
    return " ".join(thought.casefold().split()).rstrip(".")


@dataclass(frozen=True, slots=True)
class IRCoTRetriever:
    """The open retriever of IRCoT."""

    tools: AgentTools
    settings: IRCoT

    def retrieve(self, queries: Sequence[Query], k: int) -> list[Retrieval]:
        """Answer the questions one after the other.

        Raises what the LLM and the base raise: a question whose thought fails has no result.
        """
        check_queries(queries, k)
        return [self._retrieve_one(query, k) for query in queries]

    def _retrieve_one(self, query: Query, k: int) -> Retrieval:
        settings, tools = self.settings, self.tools
        chain, question, last = _Chain(question=query.text), query.text, settings.iterations
        for iteration in range(1, last + 1):
            (retrieval,) = tools.base.retrieve([replace(query, text=question)], settings.base_k)
            chain.add(retrieval, iteration)
            hits = chain.merge(settings.merge, settings.rrf_k, tools.source, query.text)
            if iteration == last:
                why = f"All {last} rounds are done."
                break
            question = self._think(chain, hits, iteration)
            why = chain.thought(question)
            if why:
                break
        record_ranking("merged rounds", hits, k)
        end = Step(iteration, "end", query.text, tuple(hit.id for hit in hits[:k]), note=why)
        return Retrieval(hits[:k], (*chain.trace.steps, end), tuple(chain.notes))

    def _think(self, chain: _Chain, hits: Sequence[Hit], iteration: int) -> str:
        """Ask for the next thought, and trace it. Raises what `LLM.run` raises."""
        with chain.trace.step(iteration, "thought", chain.question) as step:
            passages = self.tools.show(hits[: self.settings.shown])
            inputs = {"question": chain.question, "passages": passages.passages, "thoughts": chain.thoughts}
            thought = self.tools.llm.run(THOUGHT, {**inputs, "language": self.tools.language}).thought
            step["ids"], step["note"] = passages.hit_ids, thought
        return thought

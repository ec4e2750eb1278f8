"""Self-ask (Press et al., Findings of EMNLP 2023) in the set-up of SiReRAG's appendix B, over any scheme."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from ragindex.english import find_new_name, find_next_fact, list_facts
from ragindex.interfaces import OpenIndex, Retriever, Scheme
from ragindex.llm import answer_question
from ragindex.llm.tasks import Task
from ragindex.parts.text.passages import OVER_PASSAGES, PassagesField
from ragindex.plugins import registry
from ragindex.plugins.registry import SchemeField
from ragindex.retrieval.hits import check_queries
from ragindex.retrieval.stages import record_ranking
from ragindex.retrieval.trace import Trace
from ragindex.types import Hit, Query, Retrieval
from ragindex_baselines.agents import AgentTools, Merge, Rounds, open_tools

# ---------------------------------------------------------------- the follow-up questions


class FollowUp(BaseModel):
    """A question that has to be answered first, and its answer, "" if the passages do not contain it."""

    model_config = ConfigDict(coerce_numbers_to_str=True)

    question: str
    answer: Annotated[str, BeforeValidator(lambda value: "" if value is None else value)] = ""

    @property
    def text(self) -> str:
        """Return question and answer on one line."""
        return " ".join(f"{self.question} {self.answer}".split())


class FollowUps(BaseModel):
    """All follow-up questions, in the order in which they are to be answered."""

    follow_ups: list[FollowUp]


def split_by_rule(inputs: Mapping[str, Any]) -> FollowUps:
    """Make a follow-up for each fact of the passages that leads on from the question and the earlier facts."""
    question, language = inputs["question"], inputs["language"]
    facts = list_facts((passage.title, passage.text) for passage in inputs["passages"])
    chain: list[str] = []
    follow_ups: list[FollowUp] = []
    for _ in range(inputs["most"]):
        fact = find_next_fact(question, facts, chain, language)
        if fact is None:
            break
        triple, answer = fact.triple, find_new_name(fact.triple, question, chain)  # the fact's new name is asked for
        if answer == triple.object:
            text = f"{triple.subject} {triple.predicate} what?"
        else:
            text = f"What {triple.predicate} {triple.object}?"
        follow_ups.append(FollowUp(question=text, answer=answer))
        chain.append(fact.text)
    return FollowUps(follow_ups=follow_ups)


FOLLOW_UPS: Task[FollowUps] = Task(
    name="follow-ups",
    version=1,
    prompt=Path(__file__).with_name("prompts") / "self_ask.jinja",
    output=FollowUps,
    rule=split_by_rule,
    max_tokens=500,
)


def drop_repeats(follow_ups: Sequence[FollowUp], most: int) -> list[FollowUp]:
    """Return the first `most` distinct follow-ups; blank and repeated questions are dropped."""
    by_question: dict[str, FollowUp] = {}
    for follow_up in follow_ups:
        by_question.setdefault(" ".join(follow_up.question.casefold().split()), follow_up)
    return [follow_up for question, follow_up in by_question.items() if question][:most]


# ---------------------------------------------------------------- the scheme


class SelfAsk(Scheme):
    """Question decomposition: an LLM derives follow-up questions from the `candidates` best of `base`.

    In one call, the LLM proposes at most `most_follow_ups` follow-up questions and answers them from the
    candidates (at most `shown_tokens` tokens). They are passed on as notes to the reader, whose call, with
    the same candidates, is the second one. With `answers`, the second call is made here, and its answer is
    the last note. With `searches`, the base is also asked for each follow-up with its answer, and the
    rankings are merged (as in `ircot`). Every search asks for `candidates` passages, whatever k is, so the
    ten best are the first ten of the twenty best.
    """

    version: ClassVar[int] = 1
    base: SchemeField = Field(default_factory=lambda: registry.scheme("dense"), description="Retriever that is asked.")
    over: PassagesField = OVER_PASSAGES
    candidates: int = Field(default=10, ge=1, description="Passages asked of the base.")
    most_follow_ups: int = Field(default=4, ge=1, description="Follow-up questions at most.")
    shown_tokens: int = Field(default=4_000, ge=1, description="Tokens of passages that the LLM is shown at most.")
    answers: bool = Field(default=False, description="Answer the question here, and give the answer as a note.")
    searches: bool = Field(default=False, description="Search for each follow-up question with its answer too.")
    merge: Merge = Field(default="interleave", description="How the rankings of several searches are merged.")
    rrf_k: float = Field(default=60, ge=0, description="Constant of reciprocal rank fusion.")

    def depends_on_k(self, k: int) -> bool:
        """Return False: every search asks the base for `candidates` passages."""
        return False

    def tasks(self) -> tuple[Task[Any], ...]:
        """Return the task of the follow-up questions, and with `answers` that of the answer."""
        return (FOLLOW_UPS, answer_question.ANSWER) if self.answers else (FOLLOW_UPS,)

    def _open(self, index: OpenIndex) -> Retriever:
        """Open a retriever that runs one search and one LLM call per question.

        `searches` adds a search per follow-up question, `answers` one LLM call.
        """
        return SelfAskRetriever(open_tools(self, self.base, self.shown_tokens, index), self)


@dataclass(frozen=True, slots=True)
class SelfAskRetriever:
    """The open retriever of SelfAsk."""

    tools: AgentTools
    settings: SelfAsk

    def retrieve(self, queries: Sequence[Query], k: int) -> list[Retrieval]:
        """Ask the base for all questions at once, then the LLM question by question.

        Raises what either of them raises.
        """
        check_queries(queries, k)
        first = self.tools.base.retrieve(queries, self.settings.candidates)
        return [self._retrieve_one(query, retrieval, k) for query, retrieval in zip(queries, first, strict=True)]

    def _retrieve_one(self, query: Query, retrieval: Retrieval, k: int) -> Retrieval:
        settings, rounds = self.settings, Rounds()
        rounds.add(retrieval, 1)
        hits = self._merge(rounds, query)
        follow_ups = self._ask(query.text, retrieval.hits, rounds.trace)
        if settings.searches and follow_ups:
            queries = [replace(query, text=follow_up.text) for follow_up in follow_ups]
            for iteration, follow_up_retrieval in enumerate(
                self.tools.base.retrieve(queries, settings.candidates), start=2
            ):
                rounds.add(follow_up_retrieval, iteration)
                hits = self._merge(rounds, query)
        record_ranking("merged searches", hits, k)
        notes = [*rounds.notes, *(follow_up.text for follow_up in follow_ups)]
        if settings.answers:
            answer = self._answer(query.text, hits, notes, rounds)
            notes += [f"The answer is: {answer}."] if answer else []
        return Retrieval(hits[:k], tuple(rounds.trace.steps), tuple(dict.fromkeys(notes)))

    def _merge(self, rounds: Rounds, query: Query) -> tuple[Hit, ...]:
        return rounds.merge(self.settings.merge, self.settings.rrf_k, self.tools.source, query.text)

    def _ask(self, question: str, hits: Sequence[Hit], trace: Trace) -> list[FollowUp]:
        most, language = self.settings.most_follow_ups, self.tools.language
        with trace.step(1, "follow-ups", question) as step:
            passages = self.tools.show(hits)
            inputs = {"question": question, "passages": passages.passages, "most": most, "language": language}
            follow_ups = drop_repeats(self.tools.llm.run(FOLLOW_UPS, inputs).follow_ups, most)
            step["ids"] = passages.hit_ids
            step["note"] = "\n".join(follow_up.text for follow_up in follow_ups) or "There is no follow-up question."
        return follow_ups

    def _answer(self, question: str, hits: Sequence[Hit], notes: Sequence[str], rounds: Rounds) -> str:
        with rounds.trace.step(len(rounds.rankings), "answer", question) as step:
            passages = self.tools.show(hits[: self.settings.candidates], notes)
            inputs = answer_question.answer_inputs(question, passages, self.tools.language)
            answer = answer_question.resolve_citations(
                self.tools.llm.run(answer_question.ANSWER, inputs), passages
            ).answer
            step["ids"], step["note"] = passages.hit_ids, answer
        return answer

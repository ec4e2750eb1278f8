"""The filter of HippoRAG 2: a language model keeps those of the facts nearest to a question that help to answer it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from ragindex.interfaces.llm import LLM
from ragindex.llm.output import read_chosen_numbers
from ragindex.llm.tasks import Task
from ragindex.text_analysis import analyse
from ragindex.types import Triple


class HelpfulFacts(BaseModel):
    """The numbers of the facts that help, from 1, the most helpful first."""

    facts: list[int]


@dataclass(frozen=True, slots=True)
class FactFilter:
    """The filter with its model; `language` is that of the index."""

    llm: LLM
    language: str

    def choose(self, question: str, facts: Sequence[Triple]) -> list[int]:
        """Return the places of the facts that the model keeps, from 0 and ascending; numbers of no fact are dropped.

        No call is made without facts. Raises what `LLM.run` raises.
        """
        if not facts:
            return []
        numbered = [
            {"number": number, "subject": fact.subject, "predicate": fact.predicate, "object": fact.object}
            for number, fact in enumerate(facts, start=1)
        ]
        chosen = self.llm.run(FACT_FILTER, {"question": question, "facts": numbered, "language": self.language})
        return sorted({number - 1 for number in chosen.facts if 1 <= number <= len(facts)})


def _choose_by_rule(inputs: Mapping[str, Any]) -> HelpfulFacts:
    """Return the facts that share a word with the question, which is only a stand-in for a model."""
    of_question = set(analyse(inputs["question"], inputs["language"]))
    sides = ("subject", "predicate", "object")
    texts = {fact["number"]: " ".join(fact[side] for side in sides) for fact in inputs["facts"]}
    return HelpfulFacts(
        facts=[number for number, text in texts.items() if of_question.intersection(analyse(text, inputs["language"]))]
    )


def _read_choice(text: str) -> HelpfulFacts:
    """Return the numbers in a plain text. Raises ValueError if it has none and does not say `none`."""
    return HelpfulFacts(facts=read_chosen_numbers(text, "fact"))


FACT_FILTER: Task[HelpfulFacts] = Task(
    name="fact-filter",
    version=1,
    prompt=Path(__file__).with_name("prompts") / "fact_filter.jinja",
    output=HelpfulFacts,
    rule=_choose_by_rule,
    max_tokens=200,
    read=_read_choice,
)

"""The LLM task of HippoRAG: name the entities of a question."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from ragindex.english import find_mentions
from ragindex.llm.tasks import Task


class Named(BaseModel):
    """The entities that a question names, in its own words."""

    entities: list[str]


def name_entities_by_rule(inputs: Mapping[str, Any]) -> Named:
    """Return the names, quoted titles and dates in a question; bare numbers are not entities."""
    found = find_mentions(inputs["question"])
    return Named(entities=[one.text for one in found if one.kind != "number"])


QUESTION_ENTITIES: Task[Named] = Task(
    name="question-entities",
    version=1,
    prompt=Path(__file__).with_name("prompts") / "question_entities.jinja",
    output=Named,
    rule=name_entities_by_rule,
    max_tokens=300,
)

"""Abstract texts: SiReRAG's trees of hierarchical chunks place them beside the summaries of the other texts."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import regex
from pydantic import BaseModel

from ragindex.interfaces import BuildContext
from ragindex.llm.tasks import Failure, Task
from ragindex.parts.trees.tree_nodes import Node
from ragindex.progress import progress_bar

_WORD = regex.compile(r"[\p{L}\p{N}]+")
_DETAIL = regex.compile(r"\p{N}+|(?<=[\p{Ll},;:] )\p{Lu}[\p{L}\p{N}]*")
_MOST_DETAILS = 0.05  # share of the words


class Abstractness(BaseModel):
    """The abstractness of a text: high for an overview of its topic, low for fine-grained details (section 4.1)."""

    abstractness: Literal["low", "high"]


def _judge_by_rule(inputs: Mapping[str, Any]) -> Abstractness:
    """Return high if hardly any word is a detail: a number, or a name within a sentence, that is written only once.

    A name that is repeated is taken as the topic.
    """
    words = Counter(word.casefold() for word in _WORD.findall(inputs["text"]))
    details = sum(words[detail.casefold()] == 1 for detail in _DETAIL.findall(inputs["text"]))
    return Abstractness(abstractness="high" if details < _MOST_DETAILS * words.total() else "low")


ABSTRACTNESS: Task[Abstractness] = Task(
    name="abstractness",
    version=2,
    prompt=Path(__file__).parent / "prompts" / "abstractness.jinja",
    output=Abstractness,
    rule=_judge_by_rule,
    max_tokens=100,
)


def raise_leaves(leaves: Sequence[Node], context: BuildContext) -> list[Node]:
    """Return the leaves in order, with those of high abstractness on level 1.

    A leaf that could not be judged stays on its level and is reported as failed.
    """
    with progress_bar("summary_tree: abstractness", len(leaves)) as advance:
        answers = context.llm.map(ABSTRACTNESS, [{"text": node.whole} for node in leaves], again=True, progress=advance)
    judged = list[Node]()
    for node, answer in zip(leaves, answers, strict=True):
        if isinstance(answer, Failure):
            context.failed(node.id, answer.reason)
        is_high = not isinstance(answer, Failure) and answer.abstractness == "high"
        judged.append(replace(node, level=1) if is_high else node)
    return judged

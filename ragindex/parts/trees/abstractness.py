"""Which texts are abstract: SiReRAG's trees of hierarchical chunks have these beside the summaries of the others."""

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
_PARTICULAR = regex.compile(r"\p{N}|(?<=[\p{Ll},;:] )\p{Lu}")
_FEW = 0.05  # of the words


class Abstractness(BaseModel):
    """Whether a text speaks of things in general (high) or of single ones (low)."""

    abstractness: Literal["low", "high"]


def _by_rule(inputs: Mapping[str, Any]) -> Abstractness:
    """High where hardly any word is a number or, within a sentence, begins with a capital."""
    words = len(_WORD.findall(inputs["text"]))
    particular = len(_PARTICULAR.findall(inputs["text"]))
    return Abstractness(abstractness="high" if particular < _FEW * words else "low")


ABSTRACTNESS: Task[Abstractness] = Task(
    name="abstractness",
    version=1,
    prompt=Path(__file__).parent / "prompts" / "abstractness.jinja",
    output=Abstractness,
    rule=_by_rule,
    max_tokens=100,
)


def raise_leaves(leaves: Sequence[Node], context: BuildContext) -> list[Node]:
    """The leaves in order, those of high abstractness on level 1; one that could not be judged is low, and counted."""
    with progress_bar("summary_tree: abstractness", len(leaves)) as advance:
        answers = context.llm.map(ABSTRACTNESS, [{"text": node.whole} for node in leaves], again=True, progress=advance)
    judged = list[Node]()
    for node, answer in zip(leaves, answers, strict=True):
        if isinstance(answer, Failure):
            context.failed(node.id, answer.reason)
        is_high = not isinstance(answer, Failure) and answer.abstractness == "high"
        judged.append(replace(node, level=1) if is_high else node)
    return judged

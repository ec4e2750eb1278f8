"""Abstract texts: SiReRAG's trees of hierarchical chunks place them beside the summaries of the other texts."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import regex
from pydantic import BaseModel

from ragindex.english.words import ENGLISH_FUNCTION_WORDS
from ragindex.interfaces import BuildContext
from ragindex.llm.tasks import Failure, Task
from ragindex.parts.trees.tree_nodes import Node
from ragindex.progress import progress_bar

_WORD = regex.compile(r"[\p{L}\p{N}]+")
_DETAIL = regex.compile(r"\p{N}+|(?<=[\p{Ll},;:] )\p{Lu}[\p{L}\p{N}]*")
_MOST_DETAILS = 0.05  # share of the words
_SENTENCE_END = regex.compile(r"(?<=[\p{Ll}\p{N})\]\"'”’]{2}[.!?])\s+(?=\p{Lu})")
_SAYS_WHAT_IT_IS = regex.compile(r"\b(?:is|was|are|were|refers? to|consists? of)\b")


class Abstractness(BaseModel):
    """The abstractness of a text: high for an overview of its topic, low for fine-grained details (section 4.1)."""

    abstractness: Literal["low", "high"]


def _judge_by_rule(inputs: Mapping[str, Any]) -> Abstractness:
    """Return high if the text opens by saying what its title is, as an introduction does, or hardly has a detail.

    A detail is a number, or a name within a sentence, that is written only once: a name that is repeated is taken as
    the topic.
    """
    text = inputs["text"]
    words = Counter(word.casefold() for word in _WORD.findall(text))
    details = sum(words[detail.casefold()] == 1 for detail in _DETAIL.findall(text))
    is_high = _introduces_title(text) or details < _MOST_DETAILS * words.total()
    return Abstractness(abstractness="high" if is_high else "low")


def _introduces_title(text: str) -> bool:
    """Return whether the first sentence after the title has a word of the title before "is", "was" or the like."""
    title, _, rest = text.partition("\n")
    found = _SAYS_WHAT_IT_IS.search(_SENTENCE_END.split(rest.lstrip(), maxsplit=1)[0])
    if found is None:
        return False
    named, before = (
        {word.casefold() for word in _WORD.findall(part)} for part in (title, rest.lstrip()[: found.start()])
    )
    return bool((named - ENGLISH_FUNCTION_WORDS) & before)


ABSTRACTNESS: Task[Abstractness] = Task(
    name="abstractness",
    version=3,
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

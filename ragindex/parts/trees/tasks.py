"""What an LLM does for trees: it sums up clusters, and judges how abstract a text is; and what it is shown."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import regex
from pydantic import BaseModel, StringConstraints

from ragindex.english import summarise
from ragindex.english.words import ENGLISH_FUNCTION_WORDS
from ragindex.llm.answer_question import build_context
from ragindex.llm.tasks import Task
from ragindex.llm.tokens import count_text_tokens

_RULE_WORDS = 100
_WORD = regex.compile(r"[\p{L}\p{N}]+")
_DETAIL = regex.compile(r"\p{N}+|(?<=[\p{Ll},;:] )\p{Lu}[\p{L}\p{N}]*")
_MOST_DETAILS = 0.05  # share of the words
_SENTENCE_END = regex.compile(r"(?<=[\p{Ll}\p{N})\]\"'”’]{2}[.!?])\s+(?=\p{Lu})")
_SAYS_WHAT_IT_IS = regex.compile(r"\b(?:is|was|are|were|refers? to|consists? of)\b")


class Summary(BaseModel):
    """A joint summary of several texts."""

    summary: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]


def _summarise_by_rule(inputs: Mapping[str, Any]) -> Summary:
    """Return the most informative sentences, or the first words if there are none."""
    words = inputs["words"] or _RULE_WORDS
    text = summarise(inputs["texts"], words, inputs["language"])
    return Summary(summary=text or " ".join(" ".join(inputs["texts"]).split()[:words]))


SUMMARY: Task[Summary] = Task(
    name="summary",
    version=1,
    prompt=Path(__file__).parent / "prompts" / "summary.jinja",
    output=Summary,
    rule=_summarise_by_rule,
    max_tokens=2048,
    read=lambda text: Summary(summary=text),
)


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
    match = _SAYS_WHAT_IT_IS.search(_SENTENCE_END.split(rest.lstrip(), maxsplit=1)[0])
    if match is None:
        return False
    words_with_title, before = (
        {word.casefold() for word in _WORD.findall(part)} for part in (title, rest.lstrip()[: match.start()])
    )
    return bool((words_with_title - ENGLISH_FUNCTION_WORDS) & before)


ABSTRACTNESS: Task[Abstractness] = Task(
    name="abstractness",
    version=3,
    prompt=Path(__file__).parent / "prompts" / "abstractness.jinja",
    output=Abstractness,
    rule=_judge_by_rule,
    max_tokens=100,
)


# ---------------------------------------------------------------- shown texts


def count_shown_tokens(text: str) -> int:
    """Return the tokens (estimated) of a text and its separator, as `answer_question.build_context` counts them."""
    return count_text_tokens(f"{text}\n\n", "").tokens


def cut_texts(texts: list[str], limit: int) -> list[str]:
    """Return the texts, with the longest ones cut to a common length if all exceed `limit` tokens (estimated)."""
    left = limit
    for place, size in enumerate(sorted(map(count_shown_tokens, texts))):
        share = left // (len(texts) - place)
        if size > share:
            return [
                text if count_shown_tokens(text) <= share else "".join(build_context((), [text], share).notes)
                for text in texts
            ]
        left -= size
    return texts


def drop_repeated_lines(texts: Sequence[str]) -> list[str]:
    """Return the texts without lines that stand in one before them, and without texts of which nothing is left.

    Aggregates of entities that share propositions repeat them line by line. The rules weigh what is repeated, so they
    get the whole texts.
    """
    earlier: set[str] = set()
    left = []
    for text in texts:
        lines = [line for line in text.split("\n") if line.strip() not in earlier]
        earlier.update(line.strip() for line in text.split("\n") if line.strip())
        left.append("\n".join(lines))
    return [text for text in left if text.strip()]

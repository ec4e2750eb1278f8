"""Answers from what a search found: one task, and one token budget for every method."""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import regex
from pydantic import BaseModel, ConfigDict, field_validator

from ragindex.accounting import ledger
from ragindex.errors import UsageError
from ragindex.llm import rules
from ragindex.llm.tasks import LLM, Task
from ragindex.llm.tokens import in_text
from ragindex.types import Hit, Retrieval

DEFAULT_TOKENS = 2_000
_LONGEST_TITLE = 200  # characters
_LONGEST_TOKEN = 20  # characters: of a text that does not fit, no more than this times the room is looked at
_DENSE = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}"
_WORD = regex.compile(rf"[{_DENSE}]|[^\s{_DENSE}]{{1,{_LONGEST_TOKEN}}}")


# ---------------------------------------------------------------- what the reader sees


@dataclass(frozen=True, slots=True)
class Numbered:
    """A passage as the reader sees it: a hit's title and text, or the start of the text where there was no more room.

    Numbers begin at 1, in order of rank.
    """

    number: int
    hit_id: str
    title: str
    text: str


@dataclass(frozen=True, slots=True)
class Context:
    """All that the reader sees beside the question, and its tokens; `estimated` where no vocabulary counted them."""

    passages: tuple[Numbered, ...] = ()
    notes: tuple[str, ...] = ()
    tokens: int = 0
    estimated: bool = True

    @property
    def hit_ids(self) -> tuple[str, ...]:
        """The hits that the passages are of, in their order."""
        return tuple(passage.hit_id for passage in self.passages)


def context(hits: Sequence[Hit], notes: Sequence[str] = (), tokens: int = DEFAULT_TOKENS, model: str = "") -> Context:
    """Notes, then passages in order of rank, of at most `tokens` tokens together; the last one is cut after a word.

    A method pays for its notes with passages. Tokens are those of `model` where tiktoken has its vocabulary, else they
    are estimated (see `language.tokens`). Raises UsageError for fewer than 1 token.
    """
    if type(tokens) is not int or tokens < 1:
        raise UsageError(f"The 'tokens' of a reader must be an int in the range [1, inf). Got {tokens!r} instead.")
    titles = [hit.title[:_LONGEST_TITLE] for hit in hits]
    said, of_notes = _packed([("", note) for note in notes], tokens, model)
    heads = [f"[{number}] {title}\n" for number, title in enumerate(titles, start=1)]
    pieces = zip(heads, (hit.text for hit in hits), strict=True)
    texts, of_passages = _packed(pieces, tokens - of_notes, model)
    shown = [
        Numbered(number, hit.id, title, text)
        for number, (hit, title, text) in enumerate(zip(hits, titles, texts, strict=False), start=1)
    ]
    return Context(tuple(shown), tuple(said), of_notes + of_passages, in_text("", model).estimated)


def _packed(pieces: Iterable[tuple[str, str]], room: int, model: str) -> tuple[list[str], int]:
    """The texts of heads and texts, as far as there is room, and the tokens that they take with their heads."""
    kept, used = [], 0
    for head, text in pieces:
        whole = _tokens(head, text, model)
        if used + whole <= room:
            kept.append(text)
            used += whole
            continue
        start = _cut(head, text, room - used, model)
        return ([*kept, start], used + _tokens(head, start, model)) if start else (kept, used)
    return kept, used


def _cut(head: str, text: str, room: int, model: str) -> str:
    """The longest start of `text` that ends with a word and fits; "" where not even one word does."""
    ends = [word.end() for word in _WORD.finditer(text[: _LONGEST_TOKEN * room])]
    fitting = bisect_right(ends, room, key=lambda end: _tokens(head, text[:end], model))
    return text[: ends[fitting - 1]] if fitting else ""


def _tokens(head: str, text: str, model: str) -> int:
    return in_text(f"{head}{text}\n\n", model).tokens


# ---------------------------------------------------------------- the task


class Said(BaseModel):
    """What the reader says: at most six words, the numbers of the passages they rest on, whether these hold it."""

    model_config = ConfigDict(coerce_numbers_to_str=True)

    answer: str
    passages: list[int] = []
    found: bool = True

    @field_validator("answer", mode="before")
    @classmethod
    def _nothing(cls, value: Any) -> Any:
        return "" if value is None else value


def by_rule(inputs: Mapping[str, Any]) -> Said:
    """An answer taken from the passages and notes; it rests on the passage nearest to the question that holds it."""
    question, passages, language = inputs["question"], inputs["passages"], inputs.get("language", "english")
    texts = [(one.title, one.text) for one in passages] + [("", note) for note in inputs["notes"]]
    answer = rules.answer(question, texts, language)
    if not answer:
        return Said(answer="", found=False)
    whole = {f"{one.title}\n{one.text}": one.number for one in reversed(passages)}
    holding = [text for text in reversed(whole) if answer.casefold() in text.casefold()] or list(reversed(whole))
    nearest = rules.nearest_texts(question, holding, 1, language)
    return Said(answer=answer, passages=[whole[text] for text in nearest])


ANSWER = Task("answer", 1, Path(__file__).with_name("prompts") / "answer.jinja", Said, rule=by_rule, max_tokens=200)


def inputs(question: str, context: Context, language: str = "english") -> dict[str, Any]:
    """The inputs of ANSWER. Without passages and notes, a model answers from what it knows."""
    return {"question": question, "passages": context.passages, "notes": context.notes, "language": language}


# ---------------------------------------------------------------- one question


@dataclass(frozen=True, slots=True)
class Answered:
    """An answer, whether the passages hold it, the hit ids of those it rests on by their numbers, tokens read.

    Where they do not hold it, `answer` is a model's guess, or "" by the rules.
    """

    answer: str
    found: bool
    passages: Mapping[int, str] = field(default_factory=dict)
    tokens: int = 0


def answered(said: Said, context: Context) -> Answered:
    """What was said of a context. Numbers of passages that are not there are dropped, and counted in the ledger."""
    ids = {passage.number: passage.hit_id for passage in context.passages}
    named = sorted(set(said.passages))
    for _ in set(named) - ids.keys():
        ledger.count(ANSWER.name, "no such passage")
    found = said.found and bool(context.passages or context.notes)
    return Answered(
        said.answer.strip(), found, {number: ids[number] for number in named if number in ids}, context.tokens
    )


def read(
    llm: LLM,
    question: str,
    retrieval: Retrieval,
    tokens: int = DEFAULT_TOKENS,
    *,
    model: str = "",
    language: str = "english",
) -> Answered:
    """The answer to a question from what a retriever found. Raises as `Language.run` does."""
    seen = context(retrieval.hits, retrieval.notes, tokens, model)
    return answered(llm.run(ANSWER, inputs(question, seen, language)), seen)

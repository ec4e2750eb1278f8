"""Answers from retrieved passages: a context within a token budget, the LLM tasks (short, long, choice), citations."""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from pathlib import Path
from typing import Any, Self

import regex
from pydantic import BaseModel, ConfigDict, field_validator

from ragindex.accounting import ledger
from ragindex.english import extract_answer, find_sentences, nearest_texts, overlaps, split_sentences
from ragindex.errors import UsageError
from ragindex.llm.tasks import Task
from ragindex.llm.tokens import DEFAULT_TOKENS, count_text_tokens
from ragindex.types import Hit, Retrieval

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_MOST_SENTENCES = 1_000  # sentences that the rules of long answers and of choices read
_LONG_ANSWER = 3  # sentences of a long answer by rule
_LONGEST_TITLE = 200  # characters
_LONGEST_TOKEN = 20  # characters; bounds how much of a text that does not fit is tokenized
_DENSE = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}"
_LABEL = regex.compile(
    r"(?:(?:the )?(?:correct |right )?(?:answer|option|choice)(?: is)?[: ]*)?"
    r"[(\[]?(?P<label>[a-z]|[0-9]{1,2})(?:[.:)\]]+|$|(?=\s))\s*(?P<text>.*)",
    regex.IGNORECASE | regex.DOTALL,
)
_SPACE = regex.compile(r"\s+")
_LONGEST_ANSWER = 10_000  # characters of an answer that are read
_WORD = regex.compile(rf"[{_DENSE}]|[^\s{_DENSE}]{{1,{_LONGEST_TOKEN}}}")


# ---------------------------------------------------------------- context


@dataclass(frozen=True, slots=True)
class NumberedPassage:
    """A hit's title and text in the context, truncated to fit the budget. Numbers follow the rank, from 1."""

    number: int
    hit_id: str
    title: str
    text: str


@dataclass(frozen=True, slots=True)
class AnswerContext:
    """Passages and notes given with a question, and their token count; `estimated` if no tokenizer was available."""

    passages: tuple[NumberedPassage, ...] = ()
    notes: tuple[str, ...] = ()
    tokens: int = 0
    estimated: bool = True

    @property
    def hit_ids(self) -> tuple[str, ...]:
        """Hit ids of the passages, in order."""
        return tuple(passage.hit_id for passage in self.passages)


@dataclass(frozen=True, slots=True)
class ContextLimits:
    """What a reader is given of a retrieval: at most so many tokens, of so many of the first hits; None is no limit.

    Without `notes`, those of the method are left out.

    Example:
        ContextLimits(tokens=None, passages=5, notes=False).build(retrieval)
    """

    tokens: int | None = DEFAULT_TOKENS
    passages: int | None = None
    notes: bool = True

    @classmethod
    def of(cls, tokens: int | None, passages: int | None, *, notes: bool) -> Self:
        """Return limits of which those that are None have defaults: 2,000 tokens, or no limit with `passages`."""
        default = DEFAULT_TOKENS if passages is None else None
        return cls(default if tokens is None else tokens, passages, notes)

    def build(self, retrieval: Retrieval, model: str = "") -> AnswerContext:
        """Return what the reader is given of a retrieval. Raises as `build_context` does."""
        notes = retrieval.notes if self.notes else ()
        return build_context(retrieval.hits[: self.passages], notes, self.tokens, model)


def build_context(
    hits: Sequence[Hit], notes: Sequence[str] = (), tokens: int | None = DEFAULT_TOKENS, model: str = ""
) -> AnswerContext:
    """Pack notes, then passages in order of rank, into `tokens` tokens; all of them if it is None.

    The first passage that does not fit whole ends after its last sentence that fits, and is left out where none fits;
    the first passage of all, and the last note, end after a word. A method's notes count against the same budget as
    passages. Tokens are counted with the tokenizer of `model`, or
    estimated if tiktoken has none (see `ragindex.llm.tokens`). Raises UsageError if `tokens` is less than 1.
    """
    if tokens is not None and (type(tokens) is not int or tokens < 1):
        raise UsageError(f"The 'tokens' of a context must be an int in the range [1, inf). Got {tokens!r} instead.")
    titles = [hit.title[:_LONGEST_TITLE] for hit in hits]
    limit = inf if tokens is None else tokens
    packed_notes, note_tokens = _pack([("", note) for note in notes], limit, model)
    heads = [f"[{number}] {title}\n" for number, title in enumerate(titles, start=1)]
    pieces = zip(heads, (hit.text for hit in hits), strict=True)
    texts, passage_tokens = _pack(pieces, limit - note_tokens, model, sentences=True)
    passages = [
        NumberedPassage(number, hit.id, title, text)
        for number, (hit, title, text) in enumerate(zip(hits, titles, texts, strict=False), start=1)
    ]
    estimated = count_text_tokens("", model).estimated
    return AnswerContext(tuple(passages), tuple(packed_notes), note_tokens + passage_tokens, estimated)


def _pack(
    pieces: Iterable[tuple[str, str]], max_tokens: float, model: str, *, sentences: bool = False
) -> tuple[list[str], int]:
    """Return the texts of (head, text) pieces that fit into `max_tokens`, and their token count including heads.

    The last one ends after a word, with `sentences` after a sentence unless it is the first.
    """
    packed, used = [], 0
    for head, text in pieces:
        needed = _count_tokens(head, text, model)
        if used + needed <= max_tokens:
            packed.append(text)
            used += needed
            continue
        find_ends = _find_sentence_ends if sentences and packed else _find_word_ends
        start = _truncate(head, text, int(max_tokens - used), model, find_ends)
        return ([*packed, start], used + _count_tokens(head, start, model)) if start else (packed, used)
    return packed, used


def _truncate(head: str, text: str, max_tokens: int, model: str, find_ends: Callable[[str, int], list[int]]) -> str:
    """Return the longest prefix of `text` that fits and ends at one of its ends; "" if not even the first one fits."""
    ends = find_ends(text, _LONGEST_TOKEN * max_tokens)
    fitting = bisect_right(ends, max_tokens, key=lambda end: _count_tokens(head, text[:end], model))
    return text[: ends[fitting - 1]] if fitting else ""


def _find_word_ends(text: str, characters: int) -> list[int]:
    return [word.end() for word in _WORD.finditer(text[:characters])]


def _find_sentence_ends(text: str, characters: int) -> list[int]:
    """Return the ends of the sentences within the first characters; where those end, no sentence needs to end."""
    ends = [end for _, end in find_sentences(text[:characters])]
    return ends if len(text) <= characters else ends[:-1]


def _count_tokens(head: str, text: str, model: str) -> int:
    return count_text_tokens(f"{head}{text}\n\n", model).tokens


# ---------------------------------------------------------------- task


class AnswerOutput(BaseModel):
    """Output of the reader's tasks: a short answer, the numbers of its passages, and whether they contain it."""

    model_config = ConfigDict(coerce_numbers_to_str=True)

    answer: str
    passages: list[int] = []
    found: bool = True

    @field_validator("answer", mode="before")
    @classmethod
    def _empty_for_null(cls, value: Any) -> Any:
        return "" if value is None else value


def answer_by_rule(inputs: Mapping[str, Any]) -> AnswerOutput:
    """Extract an answer from passages and notes. Cite, of the passages that contain it, the nearest to the question."""
    question, passages, language = inputs["question"], inputs["passages"], inputs.get("language", "english")
    texts = [(passage.title, passage.text) for passage in passages] + [("", note) for note in inputs["notes"]]
    answer = extract_answer(question, texts, language)
    if not answer:
        return AnswerOutput(answer="", found=False)
    numbers = {f"{passage.title}\n{passage.text}": passage.number for passage in reversed(passages)}
    candidates = [text for text in reversed(numbers) if answer.casefold() in text.casefold()] or list(reversed(numbers))
    nearest = nearest_texts(question, candidates, 1, language)
    return AnswerOutput(answer=answer, passages=[numbers[text] for text in nearest])


_PROMPTS = Path(__file__).with_name("prompts")
ANSWER = Task("answer", 1, _PROMPTS / "answer.jinja", AnswerOutput, rule=answer_by_rule, max_tokens=200)
READER_TASKS: Mapping[str, Task[AnswerOutput]] = {
    "short": ANSWER,
    "six-words": replace(ANSWER, prompt=_PROMPTS / "answer_six_words.jinja"),
    "fewest-words": replace(ANSWER, prompt=_PROMPTS / "answer_fewest_words.jinja"),
}
"""The reader's task by the style of its prompt.

`short` gives places and lists the words that they need; `six-words` limits the answer to six words (GeAR, appendix
K.3); both give one demonstration. `fewest-words` asks for as few words as possible, without a demonstration
(SiReRAG, section 5.4).
"""


def answer_inputs(question: str, context: AnswerContext, language: str = "english") -> dict[str, Any]:
    """Return the inputs of ANSWER. Without passages and notes, the question is closed-book."""
    return {"question": question, "passages": context.passages, "notes": context.notes, "language": language}


# ---------------------------------------------------------------- long answers, as those to ASQA's ambiguous questions


def answer_at_length_by_rule(inputs: Mapping[str, Any]) -> AnswerOutput:
    """Join the three sentences of the passages and notes that overlap most with the question, the nearest first."""
    sentences = [
        (passage.number, sentence) for passage in inputs["passages"] for sentence in split_sentences(passage.text)
    ]
    sentences += [(0, sentence) for note in inputs["notes"] for sentence in split_sentences(note)]
    sentences = sentences[:_MOST_SENTENCES]
    texts = [text for _, text in sentences]
    chosen = nearest_texts(inputs["question"], texts, _LONG_ANSWER, inputs.get("language", "english"))
    numbers = sorted({number for number, text in sentences if number and text in chosen})
    return AnswerOutput(answer=" ".join(chosen), passages=numbers, found=bool(chosen))


LONG_ANSWER = Task(
    "long_answer", 1, _PROMPTS / "long_answer.jinja", AnswerOutput, rule=answer_at_length_by_rule, max_tokens=600
)


# ---------------------------------------------------------------- multiple choice


@dataclass(frozen=True, slots=True)
class Option:
    """An option as the reader is shown it."""

    letter: str
    text: str


def choice_inputs(
    question: str, options: Sequence[str], context: AnswerContext, language: str = "english"
) -> dict[str, Any]:
    """Return the inputs of CHOICE: those of ANSWER, and the options, which are named A to Z in the given order."""
    lettered = [Option(letter, text) for letter, text in zip(LETTERS, options, strict=False)]
    return {**answer_inputs(question, context, language), "options": lettered}


def choose_option_by_rule(inputs: Mapping[str, Any]) -> AnswerOutput:
    """Choose the option that overlaps most with one sentence of the passages, more so if the question does too.

    An option scores max((1 + overlap of question and sentence) * overlap of option and sentence) over the sentences
    (see `overlaps`). The first of equals is chosen; none if no sentence has a word of an option.
    """
    question, language, options = inputs["question"], inputs.get("language", "english"), inputs["options"]
    texts = {passage.number: passage.text for passage in inputs["passages"]}
    source_texts = [*texts.values(), *inputs["notes"]]
    sentences = [sentence for text in source_texts for sentence in split_sentences(text)][:_MOST_SENTENCES]
    weights = [1 + score for score in overlaps(question, sentences, language)]
    scores = []
    for option in options:
        overlap = overlaps(option.text, sentences, language)
        scores.append(max((a * b for a, b in zip(weights, overlap, strict=True)), default=0.0))
    if not any(scores):
        return AnswerOutput(answer="", found=False)
    best = options[scores.index(max(scores))]
    nearest = nearest_texts(f"{question} {best.text}", list(texts.values()), 1, language)
    return AnswerOutput(answer=best.letter, passages=[number for number, text in texts.items() if text in nearest])


CHOICE = Task("choose", 1, _PROMPTS / "choose.jinja", AnswerOutput, rule=choose_option_by_rule, max_tokens=200)


def parse_choice(answer: str, options: Sequence[str]) -> int | None:
    """Return the place of the one option that an answer names, from 0; None if it names none, or several.

    In this order, an answer names an option by its letter, its text, its number from 1, or a letter or number followed
    by its text; `answer: B`, `(b)` and `B.` are the letter B. Case, white space and a full stop at the end do not
    matter. A letter followed by anything but the option's own text names none.
    """
    option_text = answer[:_LONGEST_ANSWER].strip().strip("\"'*`").strip()
    match = _LABEL.fullmatch(option_text)
    label, text = (match["label"].upper(), match["text"]) if match else ("", "")
    labelled = LETTERS.find(label) if label.isalpha() else int(label or 0) - 1
    known = 0 <= labelled < len(options)
    same = [place for place, option in enumerate(options) if _fold(option) == _fold(option_text)]
    if known and label.isalpha() and not text:
        return labelled
    if same:
        return same[0] if len(same) == 1 else None
    return labelled if known and (not text or _fold(text) == _fold(options[labelled])) else None


def _fold(text: str) -> str:
    return _SPACE.sub(" ", text).strip().removesuffix(".").rstrip().casefold()


# ---------------------------------------------------------------- citations


@dataclass(frozen=True, slots=True)
class CitedAnswer:
    """An answer, whether the context contains it, the cited hit ids by passage number, and the context's token count.

    If the context does not contain it, `answer` is the LLM's guess, or "" if the rules answered.
    """

    answer: str
    found: bool
    passages: Mapping[int, str] = field(default_factory=dict)
    tokens: int = 0


def resolve_citations(output: AnswerOutput, context: AnswerContext) -> CitedAnswer:
    """Map cited passage numbers to hit ids. Unknown numbers are dropped and counted in the ledger."""
    ids = {passage.number: passage.hit_id for passage in context.passages}
    cited = sorted(set(output.passages))
    for _ in set(cited) - ids.keys():
        ledger.count_outcome(ANSWER.name, "unknown passage")
    is_answered = output.found and bool(context.passages or context.notes)
    passages = {number: ids[number] for number in cited if number in ids}
    return CitedAnswer(output.answer.strip(), is_answered, passages, context.tokens)

"""Parsing of passages into clauses, and the questions that one passage alone can answer."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import regex

from ragindex.types import Passage
from ragindex_eval.data.drafting.rules import GAP, MOST_WORDS, WORD, ClauseQuestion, draft_questions
from ragindex_eval.data.drafting.subjects import ANAPHORS, Clause, find_topic, parse_clause
from ragindex_eval.data.drafting.text import list_mentions, select_sentences, split_blocks

_MOST_CHARACTERS = 4_000_000  # in all parsed passages together
_RARE_WORD = regex.compile(r"(?<![\p{L}\p{N}_./-])\p{Ll}{7,20}(?<!ly)(?![\p{L}\p{N}_/'’-])")  # no adverb
_FINITE = regex.compile(
    r"\b(?:is|are|was|were|be|has|have|had|can|could|will|would|must|should|may|might|does|do|did)\b"
    r"|\A\S*[^s\s] .*\p{Ll}{2}(?<!s)s\b"
    r"|\A(?:The|An?) .*\p{Ll}{2}ed (?:on|in|at|to|from|the|an?|its|their) "  # a verb in the past
)
_LEANING = regex.compile(
    r"\p{Lu}\p{Ll}+ly,|(?:For now|Note|Please|See|Otherwise|Likewise|Next|Again|First|Second|Third|Finally)\b"
    r"|\p{Lu}\p{Ll}+s (?:an?|the|or|and|all|any|how|if|whether|\p{Lu})\b"  # no subject: `Returns the …`
)


@dataclass(frozen=True, slots=True)
class Draft:
    """A drafted question with its answer and the documents it needs. `source` are the sentences it was made from."""

    question: str
    answer: str
    documents: tuple[str, ...]
    kind: Literal["single", "two"]
    source: tuple[str, ...]


DraftCandidate: TypeAlias = tuple[int, str, Draft]
"""Form of the question, kind of its answer, and the draft."""


@dataclass(frozen=True, slots=True)
class ParsedPassage:
    """A passage with its questions, and its clauses if it is in English, else its sentences."""

    passage: Passage
    sentences: tuple[str, ...]
    clauses: tuple[Clause, ...]
    questions: tuple[ClauseQuestion, ...]


def parse_passages(passages: Sequence[Passage], order: Sequence[int], most: int, english: bool) -> list[ParsedPassage]:
    """Parse at most `most` of the passages, in the given order, until they exceed a total number of characters."""
    parsed: list[ParsedPassage] = []
    characters = 0
    for number in order[:most]:
        passage = passages[number]
        characters += len(passage.text)
        if characters > _MOST_CHARACTERS and parsed:
            break
        parsed.append(parse_passage(passage, english))
    return parsed


def parse_passage(passage: Passage, english: bool) -> ParsedPassage:
    """Parse the sentences, clauses and questions of a passage."""
    sentences = tuple(sentence for block in split_blocks(passage.text) for sentence in select_sentences(block))
    if not english:
        return ParsedPassage(
            passage, sentences, (), tuple(question for sentence in sentences for question in make_gaps(sentence))
        )
    clauses = tuple(_parse_clauses(passage.title, sentences))
    questions = tuple(question for clause in clauses for question in draft_questions(clause))
    return ParsedPassage(
        passage, (), clauses, questions or _ask_rare_words(find_topic(passage.title, sentences).title, sentences)
    )


def _parse_clauses(title: str, sentences: Sequence[str]) -> Iterator[Clause]:
    about, previous = find_topic(title, sentences), ""
    for sentence in sentences:
        parsed = parse_clause(sentence, about, previous)
        previous = parsed.subject if parsed else ""
        if parsed is not None:
            yield parsed


def _ask_rare_words(title: str, sentences: Sequence[str]) -> tuple[ClauseQuestion, ...]:
    """Return gap questions for two of the longer words that occur once, for a passage without other questions."""
    counts = Counter(word for sentence in sentences for word in _RARE_WORD.findall(sentence))
    questions: list[ClauseQuestion] = []
    for sentence in sentences:
        words = [word for word in _RARE_WORD.findall(sentence) if counts[word] == 1]
        if words and len(questions) < 2 and _stands_alone(sentence):
            questions.append(missing_word(sentence, max(words, key=lambda word: (len(word), word)), title))
    return tuple(questions)


def _stands_alone(sentence: str) -> bool:
    """Return whether a sentence of a readable length has a subject and a verb, and refers to nothing before it."""
    return (
        6 <= len(sentence.split()) <= 25
        and _FINITE.search(sentence) is not None
        and not (regex.search(r"[;:=/]", sentence) or _LEANING.match(sentence) or ANAPHORS.search(sentence))
    )


# ---------------------------------------------------------------- other languages, and texts without names


def make_gaps(sentence: str) -> Iterator[ClauseQuestion]:
    """Yield the sentence with a gap for each date, number, quoted title or name of several words, in any language.

    A name at the start of the sentence is skipped, since its capital says nothing.
    """
    for mention in list_mentions(sentence):
        before, after = sentence[: mention.start], sentence[mention.end :]
        plain = mention.kind == "name" and not mention.quoted and (" " not in mention.text or not before)
        if not plain and mention.text not in before + after and len(sentence.split()) <= MOST_WORDS:
            text = f"{before}[{mention.kind}?]{after}"
            yield ClauseQuestion(text, mention.text, mention.kind, GAP, "", sentence)


def missing_word(sentence: str, word: str, title: str) -> ClauseQuestion:
    """Return the sentence with a gap for a word that occurs in it once."""
    before, _, after = sentence.rstrip(".").partition(word)
    according = f", according to “{title}”" if title and word not in title else ""
    return ClauseQuestion(f"Which word is missing in “{before}…{after}”{according}?", word, "name", WORD, "", sentence)

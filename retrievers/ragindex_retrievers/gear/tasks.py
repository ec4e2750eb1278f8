"""The LLM tasks of GeAR (Eqs. 1, 4, 6, 7), each with a rule that replaces the LLM offline.

Extraction is the task of the part `extractions`, which all methods share.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import regex
from pydantic import BaseModel

from ragindex.english import (
    entity_key,
    find_mentions,
    find_names,
    find_new_name,
    list_facts,
    unmentioned_names,
    write_sentence,
)
from ragindex.llm.output import UnusableError, read_first_line, read_json
from ragindex.llm.tasks import Task
from ragindex.parts.triples.triple_json import TripleLists, read_triples
from ragindex.text_analysis import analyse
from ragindex.types import Triple

_Output = TypeVar("_Output", bound=BaseModel)
_PROMPTS = Path(__file__).parent / "prompts"
_MAX_TRIPLES = 2
"""Triples that the rule reads at most. Each gets a ranking of its own (Eq. 9), so a wrong one costs more than a
missing one.
"""
_STEM = 5
"""Characters of a word that are compared."""
_VERBS = {
    "architect": "designed",
    "author": "wrote",
    "birth": "born",
    "birthplace": "born",
    "death": "died",
    "husband": "married",
    "spouse": "married",
    "student": "studied",
    "teacher": "studied",
    "wife": "married",
    "writer": "wrote",
}
"""Verbs that state what a question asks for with a noun of a different stem."""
_QUESTION_WORDS = frozenset(("who", "whom", "whose", "what", "which", "where", "when", "how", "why", "many", "much"))
_WORD = regex.compile(r"[\p{L}\p{N}][\p{L}\p{M}\p{N}'’-]*")
_DECISION = regex.compile(r"\banswerable\W+(\w+)", regex.IGNORECASE)
_LABELS = {
    name: regex.compile(rf"^\W*{name}\W+(.*)", regex.IGNORECASE | regex.MULTILINE | regex.DOTALL)
    for name in ("answer", "why")
}


class Read(BaseModel):
    """Output of the read task: triples that help to answer. A malformed triple does not invalidate the others."""

    triples: TripleLists

    def distinct(self) -> tuple[Triple, ...]:
        """Return the well-formed triples without duplicates."""
        triples, _ = read_triples(self.triples)
        return tuple(dict.fromkeys(triples))


class Reasoning(BaseModel):
    """Output of the reason task: whether the known triples answer the question, and if not, why.

    The `answer` is only traced: readers have their own task.
    """

    answerable: bool
    answer: str = ""
    why: str = ""


class RewrittenQuestion(BaseModel):
    """Output of the rewrite task: the next question."""

    question: str


# ---------------------------------------------------------------- rules


def _read_by_rule(inputs: Mapping[str, Any]) -> Read:
    """Return triples that lead from a known name to another name by a predicate that the question asks for.

    Known names are those in the question and in the memory.
    """
    question, memory, language = inputs["question"], inputs["memory"], inputs["language"]
    in_memory = (name for triple in memory for name in (triple.subject, triple.object))
    names = {entity_key(name) for name in (*find_names(question), *in_memory)}
    words = _find_other_words(question)
    stems = _stem_words(
        " ".join([*words, *(_VERBS[word.lower()] for word in words if word.lower() in _VERBS)]), language
    )
    shared: dict[Triple, int] = {}
    for passage in inputs["passages"]:
        for fact in list_facts([(passage.title, passage.text)]):
            leads = len(set(fact.names)) == 2 and any(name in names for name in fact.names)  # to another name
            shared[fact.triple] = len(stems & _stem_words(fact.triple.predicate, language)) if leads else 0
    best = sorted(
        (ranked for ranked in shared if shared[ranked] and ranked not in memory), key=lambda ranked: -shared[ranked]
    )
    from_each: dict[frozenset[str], Triple] = {}
    for ranked in best:  # keep one triple per known name, the best, which comes first
        from_each.setdefault(frozenset(map(entity_key, (ranked.subject, ranked.object))) & names, ranked)
    return Read(
        triples=[
            [ranked.subject, ranked.predicate, ranked.object] for ranked in list(from_each.values())[:_MAX_TRIPLES]
        ]
    )


def _reason_by_rule(inputs: Mapping[str, Any]) -> Reasoning:
    """Return answerable if the memory covers every content word of the question, or all names that it compares."""
    question, triples, language = inputs["question"], inputs["triples"], inputs["language"]
    missing = _find_missing_words(question, triples, language)
    waiting = unmentioned_names(question, [write_sentence(triple) for triple in triples])
    if not missing or (len(list(find_names(question))) > 1 and not waiting):
        return Reasoning(answerable=True)
    return Reasoning(answerable=False, why=f"nothing is known about: {' '.join([*waiting, *missing])}")


def _rewrite_by_rule(inputs: Mapping[str, Any]) -> RewrittenQuestion:
    """Return the question's open names and words that no triple covers, followed by the name met last."""
    question, triples, language = inputs["question"], inputs["triples"], inputs["language"]
    if not triples:
        return RewrittenQuestion(question=question)
    sentences = [write_sentence(triple) for triple in triples]
    open_ = [*unmentioned_names(question, sentences), *_find_missing_words(question, triples, language)]
    return RewrittenQuestion(question=" ".join([*open_, find_new_name(triples[-1], question, sentences[:-1])]))


def _find_other_words(question: str) -> list[str]:
    """Return the words of a question outside its mentions, without question words."""
    pieces, last = [], 0
    for mention in find_mentions(question):
        pieces.append(question[last : mention.start])
        last = mention.end
    return [word for word in _WORD.findall(" ".join([*pieces, question[last:]])) if word.lower() not in _QUESTION_WORDS]


def _find_missing_words(question: str, triples: Sequence[Triple], language: str) -> list[str]:
    """Return the content words of a question, names aside, that no triple contains."""
    covered = _stem_words(" ".join(write_sentence(triple) for triple in triples), language)
    words = _find_other_words(question)
    telling = _stem_words(" ".join(words), language)
    return [word for word in words if (stems := _stem_words(word, language) & telling) and not stems <= covered]


def _stem_words(text: str, language: str) -> frozenset[str]:
    """Return the first letters of each word, which related words share: founder, founded; painter, painted."""
    return frozenset(token[:_STEM] for token in analyse(text, language))


# ---------------------------------------------------------------- plain answers


def _parse_reasoned(text: str) -> Reasoning:
    """Parse `Answerable: Yes`, `Answer: …` or `Answerable: No`, `Why: …`.

    Any other text counts as No, with all of it as why.
    """
    if (parsed := _parse_json(text, Reasoning)) is not None:
        return parsed
    labelled = {name: match[1].strip() if (match := pattern.search(text)) else "" for name, pattern in _LABELS.items()}
    decided = _DECISION.search(text)
    if decided and decided[1].lower() in ("yes", "true"):
        return Reasoning(answerable=True, answer=labelled["answer"])
    return Reasoning(answerable=False, why=labelled["why"] or text.strip())


def _parse_rewritten(text: str) -> RewrittenQuestion:
    """Return the first line that is not blank. Raises ValueError if there is none."""
    if (parsed := _parse_json(text, RewrittenQuestion)) is not None:
        return parsed
    return RewrittenQuestion(question=read_first_line(text, "a question"))


def _parse_json(text: str, output: type[_Output]) -> _Output | None:
    """Parse the JSON that the prompt asks for; return None if the text contains none."""
    try:
        return read_json(text, output)[0]
    except UnusableError:
        return None


READ: Task[Read] = Task("gear-read", 1, _PROMPTS / "read.jinja", Read, rule=_read_by_rule)
REASON: Task[Reasoning] = Task(
    "gear-reason", 1, _PROMPTS / "reason.jinja", Reasoning, rule=_reason_by_rule, max_tokens=300, read=_parse_reasoned
)
REWRITE_QUESTION: Task[RewrittenQuestion] = Task(
    "gear-rewrite",
    1,
    _PROMPTS / "rewrite.jinja",
    RewrittenQuestion,
    rule=_rewrite_by_rule,
    max_tokens=200,
    read=_parse_rewritten,
)

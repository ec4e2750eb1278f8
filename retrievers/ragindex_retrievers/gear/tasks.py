"""What GeAR asks a language model (Eqs. 1, 4, 6, 7), each with a rule that does it without one.

Extraction is the task of the part `extractions`, which every method shares.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import regex
from pydantic import BaseModel

from ragindex.llm import rules
from ragindex.llm.coerce import reshape
from ragindex.llm.parse_output import UnusableError, read_json
from ragindex.llm.rules import chains
from ragindex.llm.tasks import Task
from ragindex.parts.triples.triple_json import TripleLists, well_formed
from ragindex.text_analysis import analyse
from ragindex.types import Triple

_Output = TypeVar("_Output", bound=BaseModel)
_PROMPTS = Path(__file__).parent / "prompts"
_MOST_READ = 2
"""Triples that the rule reads. Each has a ranking of its own in the end (Eq. 9): a wrong one costs more than none."""
_STEM = 5
"""Characters of a word that count."""
_SAID_AS = {
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
"""What is asked for with a noun and told with a verb that begins otherwise."""
_ASKING = frozenset(("who", "whom", "whose", "what", "which", "where", "when", "how", "why", "many", "much"))
_WORD = regex.compile(r"[\p{L}\p{N}][\p{L}\p{M}\p{N}'’-]*")
_DECIDED = regex.compile(r"\banswerable\W+(\w+)", regex.IGNORECASE)
_AFTER = {
    name: regex.compile(rf"^\W*{name}\W+(.*)", regex.IGNORECASE | regex.MULTILINE | regex.DOTALL)
    for name in ("answer", "why")
}


class Read(BaseModel):
    """Triples that help to answer. A malformed one does not spoil the others."""

    triples: TripleLists

    def kept(self) -> tuple[Triple, ...]:
        """Those that are triples in any known form, each once."""
        found, _ = well_formed(reshape(self.triples, list[tuple[str, str, str]]))
        return tuple(dict.fromkeys(found))


class Reasoned(BaseModel):
    """Whether what is known answers the question; if not, why. The answer goes nowhere: readers have their own task."""

    answerable: bool
    answer: str = ""
    why: str = ""


class RewrittenQuestion(BaseModel):
    """What to ask next."""

    question: str


# ---------------------------------------------------------------- rules


def _read(inputs: Mapping[str, Any]) -> Read:
    """Triples that lead from a name of the question or of the memory to a name, by something the question asks for."""
    question, memory, language = inputs["question"], inputs["memory"], inputs["language"]
    names = {rules.entity_key(name) for name in [*_mentioned(question), *_sides(memory)]}
    words = _besides_names(question)
    asked = _stems(
        " ".join([*words, *(_SAID_AS[word.lower()] for word in words if word.lower() in _SAID_AS)]), language
    )
    shared: dict[Triple, int] = {}
    for passage in inputs["passages"]:
        for fact in chains.list_facts([(passage.title, passage.text)]):
            leads = len(set(fact.names)) == 2 and any(name in names for name in fact.names)  # from a name to another
            shared[fact.triple] = len(asked & _stems(fact.triple.predicate, language)) if leads else 0
    best = sorted((one for one in shared if shared[one] and one not in memory), key=lambda one: -shared[one])
    from_each: dict[frozenset[str], Triple] = {}
    for one in best:  # one from each name: the first is the best
        from_each.setdefault(frozenset(map(rules.entity_key, (one.subject, one.object))) & names, one)
    return Read(triples=[[one.subject, one.predicate, one.object] for one in list(from_each.values())[:_MOST_READ]])


def _reason(inputs: Mapping[str, Any]) -> Reasoned:
    """Answerable where the memory holds every word of the question that matters, or each of the names it compares."""
    question, triples, language = inputs["question"], inputs["triples"], inputs["language"]
    missing = _missing(question, triples, language)
    waiting = chains.unmentioned_names(question, [chains.write_sentence(triple) for triple in triples])
    if not missing or (len(_mentioned(question)) > 1 and not waiting):
        return Reasoned(answerable=True)
    return Reasoned(answerable=False, why=f"nothing is known about: {' '.join([*waiting, *missing])}")


def _rewrite(inputs: Mapping[str, Any]) -> RewrittenQuestion:
    """The names of the question and its words that nothing is known about, of the name that was met last."""
    question, triples, language = inputs["question"], inputs["triples"], inputs["language"]
    if not triples:
        return RewrittenQuestion(question=question)
    said = [chains.write_sentence(triple) for triple in triples]
    open_ = [*chains.unmentioned_names(question, said), *_missing(question, triples, language)]
    return RewrittenQuestion(question=" ".join([*open_, chains.find_new_name(triples[-1], question, said[:-1])]))


def _mentioned(question: str) -> list[str]:
    return [one.text for one in rules.find_mentions(question) if one.kind in ("name", "title")]


def _besides_names(question: str) -> list[str]:
    """The words of a question outside what it mentions, without those that only ask."""
    kept, last = [], 0
    for mention in rules.find_mentions(question):
        kept.append(question[last : mention.start])
        last = mention.end
    return [word for word in _WORD.findall(" ".join([*kept, question[last:]])) if word.lower() not in _ASKING]


def _missing(question: str, triples: Sequence[Triple], language: str) -> list[str]:
    """The words of a question, names aside, that matter and that no triple holds."""
    held = _stems(" ".join(chains.write_sentence(triple) for triple in triples), language)
    words = _besides_names(question)
    telling = _stems(" ".join(words), language)
    return [word for word in words if (stems := _stems(word, language) & telling) and not stems <= held]


def _sides(triples: Sequence[Triple]) -> list[str]:
    return [name for one in triples for name in (one.subject, one.object)]


def _stems(text: str, language: str) -> frozenset[str]:
    """The beginnings of its words: founder and founded, painter and painted have these in common."""
    return frozenset(token[:_STEM] for token in analyse(text, language))


# ---------------------------------------------------------------- plain answers


def _reasoned(text: str) -> Reasoned:
    """`Answerable: Yes`, `Answer: …` or `Answerable: No`, `Why: …`; whatever else counts as No, all of it as why."""
    if (found := _json(text, Reasoned)) is not None:
        return found
    said = {name: match[1].strip() if (match := pattern.search(text)) else "" for name, pattern in _AFTER.items()}
    decided = _DECIDED.search(text)
    if decided and decided[1].lower() in ("yes", "true"):
        return Reasoned(answerable=True, answer=said["answer"])
    return Reasoned(answerable=False, why=said["why"] or text.strip())


def _rewritten(text: str) -> RewrittenQuestion:
    """The first line that says something."""
    if (found := _json(text, RewrittenQuestion)) is not None:
        return found
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines:
        raise ValueError("a question")
    return RewrittenQuestion(question=lines[0])


def _json(text: str, output: type[_Output]) -> _Output | None:
    """What the prompt asks for, where a plain text holds it."""
    try:
        return read_json(text, output)[0]
    except UnusableError:
        return None


READ: Task[Read] = Task("gear-read", 1, _PROMPTS / "read.jinja", Read, rule=_read)
REASON: Task[Reasoned] = Task(
    "gear-reason", 1, _PROMPTS / "reason.jinja", Reasoned, rule=_reason, max_tokens=300, read=_reasoned
)
REWRITE_QUESTION: Task[RewrittenQuestion] = Task(
    "gear-rewrite", 1, _PROMPTS / "rewrite.jinja", RewrittenQuestion, rule=_rewrite, max_tokens=200, read=_rewritten
)

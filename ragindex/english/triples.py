"""Extraction of triples (who does what to whom) from the chunks of a sentence, in one pass from left to right.

A predicate has the words of the text, in order. A date or a number is not an object by itself: the object includes the
words before it ("on 3 May 1950"), unless `quantities` is set.
"""

from collections.abc import Sequence

from ragindex.english.arguments import NounPhrases
from ragindex.english.clauses import LONGEST_PREDICATE, ClauseState, life_triples, make_triple
from ragindex.english.lookahead import (
    clause_follows,
    find_main_subject,
    is_reduced_clause,
    list_continues,
    read_brackets,
)
from ragindex.english.phrases import PHRASES, Chunk
from ragindex.types import Triple

ASSOCIATED = "associated with"
"""The predicate that ties names together where no pattern says how."""

_MAX_DEPTH = 3
_PHRASES_AND_VERBS = PHRASES | {"verb"}
_NOUN_PARTICIPLES = frozenset(("located", "situated", "named", "called", "known", "headquartered"))


def extract_triples(chunks: Sequence[Chunk], title: str, person: bool, quantities: bool = False) -> list[Triple]:
    """Return the distinct triples of a sentence, in the order of the text.

    "The" with a common noun refers to a part of `title`, unless the title is a `person`. `quantities` allows dates and
    numbers alone as objects.
    """
    reading = _Reading(chunks, title, person, quantities)
    reading.read(ClauseState())
    return list(dict.fromkeys(reading.found))


class _Reading(NounPhrases):
    """One pass over the chunks of a sentence, or (`depth` > 0) of its brackets."""

    def __init__(self, chunks: Sequence[Chunk], title: str, person: bool, quantities: bool, depth: int = 0) -> None:
        super().__init__(chunks, title, person, quantities)
        self.depth = depth
        self.handlers = {
            "verb": self._verb,
            "preposition": self._preposition,
            "and": self._and,
            "relative": self._relative,
            "subordinate": self._subordinate,
            "comma": self._comma,
            "open": self._aside,
            "stop": self._stop,
        }

    def read(self, clause: ClauseState) -> None:
        self.clause = clause
        while self.position < len(self.chunks):
            chunk = self.chunks[self.position]
            self.position += 1
            if chunk.kind in PHRASES:
                self.noun_phrase(chunk)
                self.phrase = chunk
            elif chunk.kind in self.handlers:
                self.handlers[chunk.kind](chunk)
            if chunk.kind != "adverb":
                self.before = chunk.kind
        while self.clause.outer is not None:
            self._leave()
        self._close()

    # ------------------------------------------------------------ verbs

    def _verb(self, chunk: Chunk) -> None:
        clause = self.clause
        if clause.wanted and clause.opened and clause.subject != clause.wanted:
            self.add(make_triple(clause.subject, f"{clause.lead} {chunk.text}".strip(), clause.wanted))
            clause.wanted = ""
        if chunk.text.startswith("to ") and clause.verb:
            self._same_subject(f"{clause.verb} {clause.object} {chunk.text}".replace("  ", " "), chunk)
        elif clause.verb and clause.preposition:
            self._same_subject(f"{clause.verb} {clause.object} {clause.preposition} {chunk.text}", chunk)
        elif not clause.opened:
            subject = find_main_subject(self.chunks, self.position, self.title)
            self.clause = ClauseState(subject, opened=True, verb=chunk.text, copula=chunk.copula, outer=clause)
        elif not clause.verb and not (chunk.bare and is_reduced_clause(self.chunks, self.position)):
            clause.verb, clause.copula = chunk.text, chunk.copula
        elif chunk.bare and self.before != "and":
            self._reduced_clause(chunk)
        else:
            self._another_verb(chunk)

    def _reduced_clause(self, chunk: Chunk) -> None:
        clause = self.clause
        near = self.before != "comma" or chunk.text.split()[-1] in _NOUN_PARTICIPLES
        subject = self.referent() if near else clause.subject
        self.clause = ClauseState(subject, opened=True, verb=chunk.text, outer=clause)

    def _another_verb(self, chunk: Chunk) -> None:
        """Handle a second finite verb: of the outer clause after a comma, else of the same subject."""
        if self.before == "comma" and self.clause.outer is not None:
            self._leave()
        while self.clause.outer is not None and not self.clause.outer.verb and self.before in _PHRASES_AND_VERBS:
            self._leave()
        self._same_subject(chunk.text, chunk)

    def _same_subject(self, verb: str, chunk: Chunk) -> None:
        clause = self.clause
        clause.verb, clause.copula = verb.strip(), chunk.copula
        clause.object = clause.chain = clause.preposition = ""

    # ------------------------------------------------------------ between clauses

    def _leave(self) -> None:
        outer = self.clause.outer
        self._close()
        self.clause = outer if outer is not None else ClauseState()

    def _close(self) -> None:
        """Attach the phrases in front of a clause to its verb: "In Paris, he met Ann"."""
        clause = self.clause
        said = clause.said if len(clause.said.split()) <= LONGEST_PREDICATE else clause.verb
        words = said or f"{clause.lead} {clause.verb}".strip()
        for preposition, chunk in clause.fronted if clause.verb else ():
            if chunk.name or chunk.kind == "quantity":
                self.emit(chunk, f"{words} {preposition}", words, preposition)
        clause.fronted = []

    def _preposition(self, chunk: Chunk) -> None:
        clause = self.clause
        clause.preposition = f"{clause.preposition} {chunk.text}".strip()

    def _and(self, chunk: Chunk) -> None:
        self.clause.preposition = ""
        inside = self.clause.outer is not None and self.clause.outer.opened and not self.clause.outer.verb
        if self.clause.verb and not inside and self._new_clause():
            self._close()
            self.clause = ClauseState()

    def _comma(self, chunk: Chunk) -> None:
        clause = self.clause
        clause.preposition = ""
        if clause.apposed and not list_continues(self.chunks, self.position) and clause.outer is not None:
            self._leave()
        elif clause.verb and self._new_clause() and not list_continues(self.chunks, self.position):
            self._close()
            self.clause = ClauseState()

    def _new_clause(self) -> bool:
        return self.kind() in PHRASES and clause_follows(self.chunks, self.position)

    def _relative(self, chunk: Chunk) -> None:
        clause = self.clause
        if self.before == "verb" or (chunk.text == "that" and self.kind() != "verb" and self.before not in PHRASES):
            self.clause = ClauseState(outer=clause)
        elif chunk.text in ("where", "whom") or clause.preposition:
            preposition = "in" if chunk.text == "where" else clause.preposition
            clause.preposition = ""
            self.clause = ClauseState(fronted=[(preposition, self.phrase)] if preposition else [], outer=clause)
        else:
            subject = self.referent()
            wanted = clause.lead if clause.lead and not clause.verb else subject
            self.clause = ClauseState(subject, opened=True, wanted=wanted, outer=clause)

    def _subordinate(self, chunk: Chunk) -> None:
        if clause_follows(self.chunks, self.position):
            self._close()
            self.clause = ClauseState(outer=None)
        elif self.kind() in PHRASES or self.kind() == "preposition":
            self._preposition(chunk)

    def _stop(self, chunk: Chunk) -> None:
        self.clause.preposition = ""
        if chunk.text == ";" or (chunk.text in (".", "!", "?") and self.position < len(self.chunks)):
            self._close()
            self.clause = ClauseState()
        elif chunk.text == ":":
            self._close()
            self.clause = ClauseState(opened=True)

    # ------------------------------------------------------------ brackets

    def _aside(self, chunk: Chunk) -> None:
        """Read brackets, whose content is about the name before them."""
        inside, self.position = read_brackets(self.chunks, self.position)
        subject = self.phrase.name or self.clause.subject or self.title
        if any(part.kind == "verb" for part in inside) and self.depth < _MAX_DEPTH:
            nested = _Reading(inside, self.title, self.person, self.quantities, self.depth + 1)
            nested.read(ClauseState(subject, opened=True))
            self.found += nested.found
        elif self.person and subject == self.title:
            dates = [part.text for part in inside if part.kind == "quantity"]
            self.add(life_triples(subject, dates, self.quantities))
        told = {side for one in self.found for side in (one.subject, one.object)}
        for part in inside:
            if part.kind == "name" and part.name not in told:
                self.add(make_triple(subject, ASSOCIATED, part.name))

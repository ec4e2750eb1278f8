"""Extraction of triples (who does what to whom) from the chunks of a sentence, in one pass from left to right.

A predicate has the words of the text, in order. A date or a number is not an object by itself: the object includes the
words before it ("on 3 May 1950"), unless `quantities` is set.
"""

from collections.abc import Sequence

from ragindex.english.clauses import (
    LONGEST_PREDICATE,
    ClauseState,
    clause_follows,
    describe_name,
    find_main_subject,
    is_reduced_clause,
    kind_at,
    life_triples,
    list_continues,
    make_triple,
    object_triples,
    of_follows,
)
from ragindex.english.phrases import PHRASES, Chunk
from ragindex.english.words import PLACES, PREPOSITIONS
from ragindex.types import Triple

ASSOCIATED = "associated with"
"""The predicate that ties names together where no pattern says how."""

_MAX_DEPTH = 3  # of brackets
_PHRASES_AND_VERBS = PHRASES | {"verb"}
_NOUN_PARTICIPLES = frozenset(("located", "situated", "named", "called", "known", "headquartered"))
_PREPOSITIONAL = tuple(f"{preposition} " for preposition in sorted(PREPOSITIONS))
_ADVERBIAL_PREPOSITIONS = ("in", "of", "by", "from", "to", "with", "for")


def extract_triples(chunks: Sequence[Chunk], title: str, person: bool, quantities: bool = False) -> list[Triple]:
    """Return the distinct triples of a sentence, in the order of the text.

    "The" with a common noun refers to a part of `title`, unless the title is a `person`. `quantities` allows dates and
    numbers alone as objects.
    """
    reader = _Reader(chunks, title, person, quantities)
    reader.read(ClauseState())
    return list(dict.fromkeys(reader.triples))


class _Reader:
    """One pass over the chunks of a sentence, or (`depth` > 0) of its brackets.

    `triples` has the triples so far. `phrase` is the last noun phrase, `before` the kind of the last chunk that is not
    an adverb, and `position` that of the next chunk.
    """

    def __init__(self, chunks: Sequence[Chunk], title: str, person: bool, quantities: bool, depth: int = 0) -> None:
        self.chunks, self.title, self.person, self.quantities, self.depth = chunks, title, person, quantities, depth
        self.triples: list[Triple] = []
        self.clause = ClauseState()
        self.position = 0
        self.phrase = Chunk("pronoun", "")
        self.before = "stop"
        self.handlers = {
            "verb": self._verb,
            "preposition": self._preposition,
            "and": self._and,
            "relative": self._relative,
            "subordinate": self._subordinate,
            "comma": self._comma,
            "open": self._open,
            "stop": self._stop,
        }

    def read(self, clause: ClauseState) -> None:
        self.clause = clause
        while self.position < len(self.chunks):
            chunk = self.chunks[self.position]
            self.position += 1
            if chunk.kind in PHRASES:
                self._noun_phrase(chunk)
                self.phrase = chunk
            elif chunk.kind in self.handlers:
                self.handlers[chunk.kind](chunk)
            if chunk.kind != "adverb":
                self.before = chunk.kind
        while self.clause.outer is not None:
            self._leave()
        self._close()

    def kind(self) -> str:
        """Return the kind of the next chunk."""
        return kind_at(self.chunks, self.position)

    def _add_object(self, chunk: Chunk, predicate: str, base: str, preposition: str) -> None:
        """Add the triples with a noun phrase as the object of `predicate`, which is `base` plus `preposition`."""
        for subject in (self.clause.subject, *self.clause.others):
            self.triples += object_triples(subject, chunk, predicate, base, preposition, self.quantities)
        if chunk.kind == "name":
            self.triples += describe_name(chunk)

    # ------------------------------------------------------------ noun phrases

    def _noun_phrase(self, chunk: Chunk) -> None:
        """Find the role of a noun phrase in the clause."""
        clause = self.clause
        if chunk.full.lower().startswith("whose "):
            self.clause = ClauseState(self._referent(), lead=chunk.text, opened=True, outer=clause)
            return
        if clause.referent and not clause.verb and self.before in ("relative", "adverb"):
            clause.subject, clause.opened = "", False
        if not clause.opened:
            self._before_subject(chunk)
        elif not clause.verb:
            self._after_subject(chunk)
        elif clause.preposition or self.before not in ("comma", "and"):
            self._object(chunk)
        elif self.before == "comma":
            self._after_comma(chunk)
        else:
            self._item(chunk)

    def _before_subject(self, chunk: Chunk) -> None:
        clause = self.clause
        if clause.preposition:
            clause.fronted.append((clause.preposition, chunk))
            clause.preposition = ""
        elif not (clause.fronted and self.before in PHRASES and self.kind() == "comma"):
            self._subject(chunk)

    def _subject(self, chunk: Chunk) -> None:
        clause = self.clause
        clause.opened = True
        if chunk.kind == "name":
            clause.subject = chunk.name
            self.triples += describe_name(chunk)
        elif chunk.owner:
            clause.subject, clause.lead = chunk.owner, chunk.text
        elif chunk.kind == "common":
            belongs = chunk.definite and not self.person
            clause.subject, clause.lead = (self.title, chunk.text) if belongs else (chunk.text, "")

    def _after_subject(self, chunk: Chunk) -> None:
        """Handle a phrase between the subject and its verb: another subject, a part of it, or an apposition."""
        clause, preposition = self.clause, self.clause.preposition
        clause.preposition = ""
        if preposition:
            self._of_subject(chunk, preposition)
        elif self.before == "and" or (self.before == "comma" and chunk.kind == "name" and not chunk.described):
            clause.others += [chunk.name] if chunk.name else []
            self.triples += describe_name(chunk)
        elif self.before == "comma" and clause.subject and not clause.lead:
            self._appose(clause.subject, chunk)
        elif not clause.subject:
            clause.opened = False
            self._subject(chunk)

    def _of_subject(self, chunk: Chunk, preposition: str) -> None:
        """Attach a prepositional phrase: X is the subject of "the editor of X"; "the mayor in office" is a lead."""
        clause = self.clause
        common, words = self.phrase.kind == "common", f"{preposition} {chunk.full}"
        near = (preposition == "of" or chunk.name == self.title) and not self.phrase.owner and not clause.fronted
        if common and chunk.name and near:
            clause.subject, clause.lead = chunk.name, clause.lead or self.phrase.text
            self.triples += describe_name(chunk)
        elif clause.lead:
            clause.lead += f" {words}"
        elif common:
            clause.subject += f" {words}"
        elif chunk.name:
            self.triples += make_triple(clause.subject, preposition, chunk.name)

    # ------------------------------------------------------------ objects

    def _object(self, chunk: Chunk) -> None:
        clause = self.clause
        preposition, clause.preposition = clause.preposition, ""
        chain = clause.chain if preposition else ""
        base = f"{clause.base} {chain}".strip()
        clause.predicate = f"{base} {preposition}".strip()
        words = f"{chain} {preposition} {chunk.full}".strip()
        if of_follows(self.chunks, self.position) and chunk.kind != "name":
            clause.chain = words
            return
        self._add_object(chunk, clause.predicate, base, preposition)
        direct = not preposition or (chain and not clause.object and not clause.chain.startswith(_PREPOSITIONAL))
        goes_on = chunk.kind == "common" and preposition and preposition != "of"
        clause.chain = words if of_follows(self.chunks, self.position) or goes_on else ""
        if direct and not clause.object and chunk.kind != "pronoun":
            clause.object = words
        if chunk.kind != "quantity" and not clause.phrase:
            clause.phrase = f"{clause.predicate} {chunk.full}"

    def _item(self, chunk: Chunk) -> None:
        """Add the next item of a list."""
        if self.clause.predicate:
            base, _, preposition = self.clause.predicate.rpartition(" ")
            self._add_object(chunk, self.clause.predicate, base, preposition)
            if chunk.kind == "common" and self.clause.object:
                self.clause.object = chunk.full

    def _after_comma(self, chunk: Chunk) -> None:
        """Handle a phrase after an object and a comma: a containing place, an apposition, or a list item."""
        before, last = self.phrase, self.clause.predicate.rpartition(" ")[2]
        noun = chunk.kind == "common" and (chunk.full != chunk.text or self.kind() == "preposition")
        if list_continues(self.chunks, self.position):
            self._item(chunk)
        elif before.name and chunk.name and not chunk.described and last in PLACES:
            self.triples += make_triple(before.name, "in", chunk.name)
        elif before.name and noun:
            self._appose(before.name, chunk)
        elif before.definite and before.kind == "common" and chunk.name:
            self.triples += make_triple(chunk.name, "is", before.text)
        else:
            self._item(chunk)

    def _appose(self, subject: str, chunk: Chunk) -> None:
        """Open a clause for an apposition, which the next comma ends: "Mark Haddon, an English author"."""
        self.clause = ClauseState(subject, opened=True, verb="is", copula=True, apposed=True, outer=self.clause)
        self._object(chunk)

    def _referent(self) -> str:
        """Return the referent of a relative clause: the last phrase, or the subject if the phrase is its complement."""
        phrase, clause = self.phrase, self.clause
        if phrase.kind == "pronoun":
            return ""
        if phrase.kind == "name":
            return phrase.name
        complement = clause.copula and clause.predicate.rpartition(" ")[2] not in _ADVERBIAL_PREPOSITIONS
        return clause.subject if complement or (clause.lead and not clause.verb) else phrase.text

    # ------------------------------------------------------------ verbs

    def _verb(self, chunk: Chunk) -> None:
        clause = self.clause
        if clause.referent and clause.opened and clause.subject != clause.referent:
            self.triples += make_triple(clause.subject, f"{clause.lead} {chunk.text}".strip(), clause.referent)
            clause.referent = ""
        if chunk.text.startswith("to ") and clause.verb:
            self._same_subject(f"{clause.verb} {clause.object} {chunk.text}".replace("  ", " "), chunk)
        elif clause.verb and clause.preposition:
            self._same_subject(f"{clause.verb} {clause.object} {clause.preposition} {chunk.text}", chunk)
        elif not clause.opened:
            subject = find_main_subject(self.chunks, self.position, self.title)
            self.clause = ClauseState(subject, opened=True, verb=chunk.text, copula=chunk.copula, outer=clause)
        elif not clause.verb and not is_reduced_clause(self.chunks, self.position):
            clause.verb, clause.copula = chunk.text, chunk.copula
        elif chunk.bare and self.before != "and":
            self._reduced_clause(chunk)
        else:
            self._another_verb(chunk)

    def _reduced_clause(self, chunk: Chunk) -> None:
        clause = self.clause
        near = self.before != "comma" or chunk.text.split()[-1] in _NOUN_PARTICIPLES
        subject = self._referent() if near else clause.subject
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
        self.clause = outer or ClauseState()

    def _close(self) -> None:
        """Attach the phrases in front of a clause to its verb: "In Paris, he met Ann"."""
        clause = self.clause
        predicate = clause.phrase if len(clause.phrase.split()) <= LONGEST_PREDICATE else clause.verb
        words = predicate or f"{clause.lead} {clause.verb}".strip()
        for preposition, chunk in clause.fronted if clause.verb else ():
            if chunk.name or chunk.kind == "quantity":
                self._add_object(chunk, f"{words} {preposition}", words, preposition)
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
        elif clause.verb and self._new_clause():
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
            subject = self._referent()
            referent = clause.lead if clause.lead and not clause.verb else subject
            self.clause = ClauseState(subject, opened=True, referent=referent, outer=clause)

    def _subordinate(self, chunk: Chunk) -> None:
        if clause_follows(self.chunks, self.position):
            self._close()
            self.clause = ClauseState()
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

    def _open(self, chunk: Chunk) -> None:
        """Read brackets, whose content is about the name before them."""
        start, depth = self.position, 1
        while self.position < len(self.chunks) and depth:
            depth += {"open": 1, "close": -1}.get(self.chunks[self.position].kind, 0)
            self.position += 1
        inside = self.chunks[start : self.position if depth else self.position - 1]
        subject = self.phrase.name or self.clause.subject or self.title
        if any(part.kind == "verb" for part in inside) and self.depth < _MAX_DEPTH:
            nested = _Reader(inside, self.title, self.person, self.quantities, self.depth + 1)
            nested.read(ClauseState(subject, opened=True))
            self.triples += nested.triples
        elif self.person and subject == self.title:
            dates = [part.text for part in inside if part.kind == "quantity"]
            self.triples += life_triples(subject, dates, self.quantities)
        tied = {side for triple in self.triples for side in (triple.subject, triple.object)}
        for part in inside:
            if part.kind == "name" and part.name not in tied:
                self.triples += make_triple(subject, ASSOCIATED, part.name)

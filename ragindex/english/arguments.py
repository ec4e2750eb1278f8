"""Roles of noun phrases in a clause: subjects, objects, items of a list, appositions."""

from collections.abc import Iterable, Sequence

from ragindex.english.clauses import ClauseState, description_triples, make_triple, object_triples
from ragindex.english.lookahead import kind_at, list_continues, of_follows
from ragindex.english.phrases import PHRASES, Chunk
from ragindex.english.words import PLACES, PREPOSITIONS
from ragindex.types import Triple

_PREPOSITIONAL = tuple(f"{preposition} " for preposition in sorted(PREPOSITIONS))
_ADVERBIAL_PREPOSITIONS = ("in", "of", "by", "from", "to", "with", "for")


class NounPhrases:
    """State of one pass over the chunks of a sentence, and the handling of its noun phrases.

    `found` has the triples so far. `phrase` is the last noun phrase, `before` the kind of the last chunk that is not an
    adverb, and `position` that of the next chunk.
    """

    def __init__(self, chunks: Sequence[Chunk], title: str, person: bool, quantities: bool) -> None:
        self.chunks, self.title, self.person, self.quantities = chunks, title, person, quantities
        self.found: list[Triple] = []
        self.clause = ClauseState()
        self.position = 0
        self.phrase = Chunk("pronoun", "")
        self.before = "stop"

    def add(self, found: Iterable[Triple]) -> None:
        """Add triples to those found."""
        self.found += found

    def emit(self, chunk: Chunk, predicate: str, base: str, preposition: str) -> None:
        """Add the triples of an object."""
        self.add(object_triples(self.clause, chunk, predicate, base, preposition, self.quantities))

    def kind(self, ahead: int = 0) -> str:
        """Return the kind of the next chunk, or of the one `ahead` chunks after it."""
        return kind_at(self.chunks, self.position + ahead)

    def noun_phrase(self, chunk: Chunk) -> None:
        """Find the role of a noun phrase in the clause."""
        clause = self.clause
        if chunk.full.lower().startswith("whose "):
            self.clause = ClauseState(self.referent(), lead=chunk.text, opened=True, outer=clause)
            return
        if clause.wanted and not clause.verb and self.before in ("relative", "adverb"):
            clause.subject, clause.opened = "", False
        if not clause.opened:
            self._before_subject(chunk)
        elif not clause.verb:
            self._after_subject(chunk)
        else:
            self._after_verb(chunk)

    def _before_subject(self, chunk: Chunk) -> None:
        clause = self.clause
        if clause.preposition:
            clause.fronted.append((clause.preposition, chunk))
            clause.preposition = ""
        elif not (clause.fronted and self.before in PHRASES and self.kind() == "comma"):
            self._subject(chunk)

    def _after_verb(self, chunk: Chunk) -> None:
        if self.clause.preposition or self.before not in ("comma", "and"):
            self._object(chunk)
        elif self.before == "comma":
            self._after_comma(chunk)
        else:
            self._item(chunk)

    def _subject(self, chunk: Chunk) -> None:
        clause = self.clause
        clause.opened = True
        if chunk.kind == "name":
            clause.subject = chunk.name
            self.add(description_triples(chunk))
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
            self.add(description_triples(chunk))
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
            self.add(description_triples(chunk))
        elif clause.lead:
            clause.lead += f" {words}"
        elif common:
            clause.subject += f" {words}"
        elif chunk.name:
            self.add(make_triple(clause.subject, preposition, chunk.name))

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
        self.emit(chunk, clause.predicate, base, preposition)
        direct = not preposition or (chain and not clause.object and not clause.chain.startswith(_PREPOSITIONAL))
        goes_on = chunk.kind == "common" and preposition and preposition != "of"
        clause.chain = words if of_follows(self.chunks, self.position) or goes_on else ""
        if direct and not clause.object and chunk.kind != "pronoun":
            clause.object = words
        if chunk.kind != "quantity" and not clause.said:
            clause.said = f"{clause.predicate} {chunk.full}"

    def _item(self, chunk: Chunk) -> None:
        """Add the next item of a list."""
        if self.clause.predicate:
            base, _, preposition = self.clause.predicate.rpartition(" ")
            self.emit(chunk, self.clause.predicate, base, preposition)
            if chunk.kind == "common" and self.clause.object:
                self.clause.object = chunk.full

    def _after_comma(self, chunk: Chunk) -> None:
        """Handle a phrase after an object and a comma: a containing place, an apposition, or a list item."""
        before, last = self.phrase, self.clause.predicate.rpartition(" ")[2]
        noun = chunk.kind == "common" and (chunk.full != chunk.text or self.kind() == "preposition")
        if list_continues(self.chunks, self.position):
            self._item(chunk)
        elif before.name and chunk.name and not chunk.described and last in PLACES:
            self.add(make_triple(before.name, "in", chunk.name))
        elif before.name and noun:
            self._appose(before.name, chunk)
        elif before.definite and before.kind == "common" and chunk.name:
            self.add(make_triple(chunk.name, "is", before.text))
        else:
            self._item(chunk)

    def _appose(self, subject: str, chunk: Chunk) -> None:
        """Open a clause for an apposition, which the next comma ends: "Mark Haddon, an English author"."""
        self.clause = ClauseState(subject, opened=True, verb="is", copula=True, apposed=True, outer=self.clause)
        self._object(chunk)

    def referent(self) -> str:
        """Return the referent of a relative clause: the last phrase, or the subject if the phrase is its complement."""
        phrase, clause = self.phrase, self.clause
        if phrase.kind == "pronoun":
            return ""
        if phrase.kind == "name":
            return phrase.name
        complement = clause.copula and clause.predicate.rpartition(" ")[2] not in _ADVERBIAL_PREPOSITIONS
        return clause.subject if complement or (clause.lead and not clause.verb) else phrase.text

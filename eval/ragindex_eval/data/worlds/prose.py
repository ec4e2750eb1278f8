"""Passages: the facts of an entity as varied prose of 40 to 120 words.

The opening names the entity; later sentences refer to it by a pronoun, surname or description. Other entities
are mentioned by name, or by a shorter name if that is unambiguous. A passage also has sentences that mention
other entities without stating facts about them, so that words shared with a question do not always indicate its
answer.
"""

from collections.abc import Sequence
from typing import NamedTuple

from ragindex_eval.data.worlds.facts import World
from ragindex_eval.data.worlds.layout import Ref, WorldEntity, WorldFact
from ragindex_eval.data.worlds.phrases import Template, prose, relations

_ENOUGH, _MANY, _MOST = 46, 64, 120  # words: colour is added below the first, never above the second; the maximum
_MOST_WORDS, _WORDS_OF_A_FACT, _WORDS_OF_AN_ASIDE = 112, 11, 15
_AFTER_AWARD = "year of the award"
_PRONOUNS = {True: ("she", "her", "her"), False: ("he", "his", "him")}
_JOINING_PRONOUNS = ("he ", "she ", "it ", "his ", "her ", "its ")
_WITH_ARTICLE = ("river", "region", "award", "family")


def name_in_sentence(world: World, ref: Ref) -> str:
    """Return the entity's full name for use within a sentence, with an article if it needs one."""
    name = world.names.name(ref)
    return f"the {name}" if ref.kind in _WITH_ARTICLE else name


def write_passage(world: World, entity: WorldEntity, others: Sequence[Ref], linking: Sequence[Ref]) -> str:
    """Write the text about `entity`.

    `others` are entities of the region; `linking` are those of them whose facts lead to this entity.
    """
    text = _compose_passage(world, entity, others, linking)
    return text if len(text.split()) <= _MOST else _compose_passage(world, entity, (), ())


def _compose_passage(world: World, entity: WorldEntity, others: Sequence[Ref], linking: Sequence[Ref]) -> str:
    """Write a passage; without `others` it states the facts alone."""
    voice = _Voice(world, entity)
    sentences = [voice.opening()]
    parts: list[WorldFact | _Aside] = [*_select_facts(entity), *(voice.asides(others, linking) if others else ())]
    for part in voice.draws.shuffled(parts):
        sentences += voice.tell(part)
    words = sum(len(sentence.split()) for sentence in sentences)
    for number, colour in enumerate(voice.draws.shuffled(prose()["colour", entity.ref.kind])):
        if words >= _ENOUGH and (number or words > _MANY or voice.draws.chance(50)):
            break
        sentence = voice.fill(colour)
        sentences.insert(1 + voice.draws.below(len(sentences)), sentence)
        words += len(sentence.split())
    return _join_sentences(sentences, voice)


def _select_facts(entity: WorldEntity) -> list[WorldFact]:
    """Return the facts that have a sentence of their own; the year of an award goes with the award."""
    table, kind = relations(), entity.ref.kind
    return [f for f in entity.facts if table[kind, f.predicate].say and f.predicate != _AFTER_AWARD]


def _join_sentences(sentences: list[str], voice: "_Voice") -> str:
    """Join the sentences with capitals and full stops; sometimes two that are both about the entity become one."""
    joined_sentences: list[str] = []
    joined = True
    for sentence in sentences:
        about = not joined and joined_sentences[-1].startswith(voice.subjects) and " and " not in joined_sentences[-1]
        joined = about and sentence.startswith(_JOINING_PRONOUNS) and voice.draws.chance(40)
        if joined:
            joined_sentences[-1] += f", and {sentence}"
        else:
            joined_sentences.append(sentence)
    return " ".join(f"{sentence[0].upper()}{sentence[1:]}." for sentence in joined_sentences)


class _Aside(NamedTuple):
    other: Ref
    template: Template
    shorten: bool


class _Voice:
    """Wording of one passage: how it refers to its entity and to others."""

    def __init__(self, world: World, entity: WorldEntity) -> None:
        self.world, self.entity = world, entity
        self.draws = world.layout.draws("prose", *entity.ref)
        self.mentioned: set[str] = set()
        self.pronouns = ("it", "its", "it")
        self.descriptions: list[str] = []
        if entity.ref.kind == "person":
            self.pronouns = _PRONOUNS[world.names.is_woman(entity.ref)]
            surname = world.names.surname(world.names.family_of(entity.ref))
            self.descriptions = [self.pronouns[0], surname, f"the {entity.text('occupation')}"]
            self.mentioned.add(surname)
        else:
            self.descriptions = [call[0] for call in prose()["call", entity.ref.kind]]
            self.descriptions += [f"the {entity.text('type')}"] if entity.ref.kind == "work" else []
            self.descriptions += [_acronym(world.names.name(entity.ref))] if entity.ref.kind == "company" else []
        self.subjects = (*self.pronouns[:2], *self.descriptions, name_in_sentence(world, entity.ref))

    def opening(self) -> str:
        """Return the sentence that says what the passage is about."""
        names = {"n": name_in_sentence(self.world, self.entity.ref), "p": self.pronouns[1]}
        if self.entity.ref.kind == "company":
            names["n"] += f" ({_acronym(names['n'])})"
        pieces = list(self.draws.pick(prose()["define", self.entity.ref.kind]))
        for place in range(1, len(pieces), 2):
            field = pieces[place]
            if field in names:
                pieces[place] = names[field]
            else:
                article, value = field.startswith("a "), self.entity.text(field.removeprefix("a "))
                pieces[place] = f"{'an' if value[0] in 'aeiou' else 'a'} {value}" if article else value
        return "".join(pieces)

    def tell(self, part: "WorldFact | _Aside") -> list[str]:
        """Return the sentence of a fact or an aside; two sentences if an award has a year."""
        if isinstance(part, _Aside):
            name = self.mention(part.other) if part.shorten else name_in_sentence(self.world, part.other)
            return [self.fill(part.template, name)]
        later = self.entity.text(_AFTER_AWARD) if part.predicate == "award" else ""
        return [self.say(part), *([self.say(WorldFact(_AFTER_AWARD, later))] if later else [])]

    def say(self, fact: WorldFact) -> str:
        """State a fact in one sentence."""
        ways = relations()[self.entity.ref.kind, fact.predicate].say
        if not isinstance(fact.object, Ref):
            return self.fill(self.draws.pick(ways), fact.object)
        if fact.predicate in ("mother", "father") and self.draws.chance(60):
            return self.fill(self.draws.pick(ways), self.world.names.first_name(fact.object))
        return self.fill(self.draws.pick(ways), self.mention(fact.object))

    def fill(self, pieces: Template, value: str = "") -> str:
        """Fill a template with a sentence about the entity.

        Its first reference is a description or pronoun, later ones are pronouns.
        """
        it = self.pronouns[0] if self.draws.chance(50) else self.draws.pick(self.descriptions)
        forms = (it, self.pronouns[1], self.pronouns[2]) if it == self.pronouns[0] else (it, f"{it}'s", it)
        filled = list(pieces)
        for place in range(1, len(pieces), 2):
            if pieces[place] in ("o", "m"):
                filled[place] = value
            elif pieces[place] == "y":
                filled[place] = str(1900 + self.draws.below(110))
            else:
                filled[place], forms = forms["spt".index(pieces[place])], self.pronouns
        return "".join(filled)

    def asides(self, others: Sequence[Ref], linking: Sequence[Ref]) -> "list[_Aside]":
        """Return sentences that mention other entities without facts, mainly those whose facts lead here."""
        count = 2 + self.draws.below(2)
        chosen = self.draws.shuffled(linking)[: count - self.draws.chance(40)]
        chosen += [self.draws.pick(others) for _ in range(count - len(chosen))]
        templates = prose()
        candidates = [
            _Aside(fromkey, self.draws.pick(templates["aside", fromkey.kind]), True)
            for fromkey in dict.fromkeys(chosen)
        ]
        candidates = list({aside.template: aside for aside in candidates}.values())  # use each template once
        namesake = self.world.names.namesake(self.entity.ref) if self.draws.chance(30) else None
        if namesake:
            candidates.append(_Aside(namesake, self.draws.pick(templates["unlike", self.entity.ref.kind]), False))
        most = max(1, (_MOST_WORDS - _WORDS_OF_A_FACT * len(_select_facts(self.entity))) // _WORDS_OF_AN_ASIDE)
        return [aside for aside in candidates if aside.other != self.entity.ref][:most]

    def mention(self, ref: Ref) -> str:
        """Refer to another entity by its full name, or by a shorter name that stands for no other."""
        name = name_in_sentence(self.world, ref)
        if ref.kind == "person":
            return self._somebody(ref, name)
        shorter = self.world.names.aliases(ref) if name in self.mentioned or self.draws.chance(25) else ()
        self.mentioned.add(name)
        if not shorter:
            return name
        return f"the {shorter[0]}" if ref.kind == "river" else shorter[0]

    def _somebody(self, ref: Ref, name: str) -> str:
        """Refer to a person by full name at first, then by the surname alone unless that is ambiguous."""
        names = self.world.names
        surname = names.surname(names.family_of(ref))
        if name in self.mentioned:
            return name if surname + " twice" in self.mentioned else surname
        self.mentioned |= {name, surname + " twice"} if surname in self.mentioned else {name, surname}
        if self.draws.chance(20):
            return f"the {self.world.occupation(ref)} {name}"
        return names.aliases(ref)[0] if self.draws.chance(12) and names.aliases(ref) else name


def _acronym(name: str) -> str:
    return "".join(word[0] for word in name.split() if word[0].isupper())

"""Unique names of entities, computed in constant time without a list of the names in use.

The number of an entity goes through a permutation and is then read as digits, each digit a piece of the name.
The pieces are chosen so that a name can be split in one way only, so no two entities of a world share a name.
Surnames, roots of town names, products and the words of titles are shared by many.
"""

from collections.abc import Sequence

from ragindex_eval.data.worlds import phrases as words
from ragindex_eval.data.worlds.draws import permutation
from ragindex_eval.data.worlds.layout import EntityKind, Layout, Ref

_SURNAMES = 8_000
_CACHE_SIZE = 50_000
_TITLES = (words.ADJECTIVES, words.NOUNS, words.FIRST_NAMES)


class WorldNames:
    """Names of the entities of one world."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self._orders = {
            kind: permutation(self.layout.regions * self.layout.most[kind], self.layout.seed, "names", kind)
            for kind in layout.most
        }
        self._roots = {kind: permutation(_capacity(kind), layout.seed, "roots", kind) for kind in words.ENDINGS}
        self._pairs = {
            len(words_of_title): permutation(len(words_of_title) * len(words.NOUNS), layout.seed, "pairs")
            for words_of_title in _TITLES
        }
        self._surnames = max(1, min(_SURNAMES, self._orders["family"].n // 2))
        self._known_names: dict[Ref, str] = {}

    def name(self, ref: Ref) -> str:
        """Return the entity's name, which is the title of its document."""
        known = self._known_names.get(ref)
        if known is None:
            if len(self._known_names) >= _CACHE_SIZE:
                self._known_names.clear()
            known = self._known_names[ref] = str(getattr(self, f"_{ref.kind}")(ref))
        return known

    def aliases(self, ref: Ref) -> tuple[str, ...]:
        """Return shorter names of the entity that stand for no other entity of the world."""
        if ref.kind == "person":
            initial = self._with_initial(ref)
            return (initial,) if initial else ()
        if ref.kind in ("river", "region"):
            return (self._root(ref.kind, ref),)
        if ref.kind == "company" and not self._named_after_town(ref):
            return (self._brand(ref),)
        if ref.kind == "family":
            return (f"the {self.surname(ref)}s of {self.name(self.family_seat(ref))}",)
        return ()

    # ------------------------------------------------------------ people and families

    def family_of(self, person: Ref) -> Ref:
        """Return the family that a person is assigned to, in the same region."""
        return Ref("family", person.region, person.slot % self.layout.counts(person.region)["family"])

    def family_seat(self, family: Ref) -> Ref:
        """Return the family's town in the region, with a different town for each of its families."""
        towns = self.layout.counts(family.region)["town"]
        first = self.layout.draws("seats", family.region).below(towns)
        return Ref("town", family.region, (first + family.slot) % towns)

    def surname(self, family: Ref) -> str:
        """Return the surname of a family; unrelated families elsewhere may share it."""
        return self._stem("surname", self._orders["family"](self.layout.number(family)) % self._surnames)

    def is_woman(self, person: Ref) -> bool:
        """Return whether a person is a woman."""
        return self._first_name_number(person) % 2 == 0

    def first_name(self, person: Ref) -> str:
        """Return a first name that no other person with the same surname has."""
        return words.FIRST_NAMES[self._first_name_number(person)]

    def namesake(self, ref: Ref) -> Ref | None:
        """Return another entity that shares the surname (person) or the root (town) with this one, or None."""
        if ref.kind == "person":
            return self._other(Ref("family", *self.family_of(ref)[1:]), self._surnames, "person")
        if ref.kind == "town":
            order = self._orders["town"]
            place = order(self.layout.number(ref))
            other = place - place % 3 + (place + 1) % 3
            same = self.layout.numbered("town", order.inverse(other)) if other < order.n else ref
            return same if same != ref and self.layout.exists(same) else None
        return None

    def _other(self, family: Ref, step: int, kind: EntityKind) -> Ref | None:
        order = self._orders["family"]
        other = (order(self.layout.number(family)) + step) % order.n
        same = self.layout.numbered("family", order.inverse(other))
        if same == family or not self.layout.exists(same) or self.surname(same) != self.surname(family):
            return None
        return Ref(kind, same.region, same.slot)

    def _first_name_number(self, person: Ref) -> int:
        """Return the number of a person's first name.

        The people with one surname are numbered; an affine map modulo a prime keeps their first names distinct.
        """
        family = self.family_of(person)
        group, surname = divmod(self._orders["family"](self.layout.number(family)), self._surnames)
        member = person.slot // self.layout.counts(person.region)["family"]
        return self._spread(surname, group * self.layout.members + member)

    def _spread(self, surname: int, number: int) -> int:
        prime = len(words.FIRST_NAMES)
        return (number * (1 + (surname * 37 + 11) % (prime - 1)) + surname * 71) % prime

    def _with_initial(self, person: Ref) -> str | None:
        """Return `A. Surname`, or None if another person in the world may have the same."""
        family, first = self.family_of(person), self.first_name(person)
        surname = self._orders["family"](self.layout.number(family)) % self._surnames
        bearers = -(-self._orders["family"].n // self._surnames) * self.layout.members
        initials = [words.FIRST_NAMES[self._spread(surname, number)][0] for number in range(bearers)]
        return f"{first[0]}. {self.surname(family)}" if initials.count(first[0]) == 1 else None

    def _person(self, ref: Ref) -> str:
        return f"{self.first_name(ref)} {self.surname(self.family_of(ref))}"

    def _family(self, ref: Ref) -> str:
        return f"{self.surname(ref)} family of {self.name(self.family_seat(ref))}"

    # ------------------------------------------------------------ places

    def _country(self, ref: Ref) -> str:
        return self._stem("country", ref.region // self.layout.regions_in_a_country)

    def _region(self, ref: Ref) -> str:
        return self.layout.draws("shape", ref.region).pick(words.REGION_SHAPES).format(self._root("region", ref))

    def _town(self, ref: Ref) -> str:
        """Return a town's name; up to three towns share a root, one plainly, the others with an addition."""
        root, place = divmod(self._orders["town"](self.layout.number(ref)), 3)
        stem = self._stem("town", root)
        shape = (root * 3 + place * 5) % len(words.TOWN_SHAPES)
        return stem if place == 0 else words.TOWN_SHAPES[shape].format(stem)

    def _river(self, ref: Ref) -> str:
        return f"River {self._root('river', ref)}"

    # ------------------------------------------------------------ companies, works and awards

    def product(self, company: Ref) -> tuple[str, str]:
        """Return (ending of the name, product) of a company, different from the other companies of the region."""
        if company.slot < 2:
            return words.PRODUCTS[company.slot]
        draws, rest = self.layout.draws("products", company.region), len(words.PRODUCTS) - 2
        first, step = draws.below(rest), 1 + draws.below(rest - 1)
        return words.PRODUCTS[2 + (first + step * company.slot) % rest]

    def _named_after_town(self, company: Ref) -> bool:
        return company.slot % 3 != 1

    def _company(self, ref: Ref) -> str:
        ending, _ = self.product(ref)
        if self._named_after_town(ref):
            town = self.layout.draws("named after", *ref).below(self.layout.counts(ref.region)["town"])
            return f"{self.name(Ref('town', ref.region, town))} {ending}"
        return f"{self._brand(ref)} {ending}"

    def _brand(self, company: Ref) -> str:
        """Return an invented word; every third company has one."""
        number = company.region * -(-self.layout.most["company"] // 3) + company.slot // 3
        return self._stem("company", number)

    def _work(self, ref: Ref) -> str:
        number, shape = divmod(self._orders["work"](self.layout.number(ref)), 3)
        number, first, noun = self._pair(number, _TITLES[shape])
        first_word, second_word = _TITLES[shape][first], words.NOUNS[noun]
        title = (
            f"The {first_word} {second_word}",
            f"The {first_word}'s {second_word}",
            f"{_article(second_word)} {second_word} for {first_word}",
        )[shape]
        return title + words.TITLE_ENDS[number]

    def _award(self, ref: Ref) -> str:
        number, adjective, noun = self._pair(self._orders["award"](self.layout.number(ref)), words.ADJECTIVES)
        return f"{words.ADJECTIVES[adjective]} {words.NOUNS[noun]} {words.PRIZES[number]}"

    def _pair(self, number: int, title_words: Sequence[str]) -> tuple[int, int, int]:
        """Return (layer, place in `one`, place in NOUNS), a different triple for each number.

        The layer counts how often all pairs were used up.
        """
        layer, place = divmod(number, len(title_words) * len(words.NOUNS))
        return layer, *divmod(self._pairs[len(title_words)](place), len(words.NOUNS))

    # ------------------------------------------------------------ invented words

    def _root(self, kind: EntityKind, ref: Ref) -> str:
        return self._stem(kind, self._orders[kind](self.layout.number(ref)))

    def _stem(self, kind: str, number: int) -> str:
        number, onset = divmod(self._roots[kind](number), len(words.ONSETS))
        number, vowel = divmod(number, len(words.VOWELS))
        ending, middle = divmod(number, len(words.MIDDLES))
        pieces = words.ONSETS[onset], words.VOWELS[vowel], words.MIDDLES[middle], words.ENDINGS[kind][ending]
        return "".join(pieces).capitalize()


def _capacity(kind: str) -> int:
    return len(words.ONSETS) * len(words.VOWELS) * len(words.MIDDLES) * len(words.ENDINGS[kind])


def _article(noun: str) -> str:
    return "An" if noun[0] in "AEIOU" else "A"

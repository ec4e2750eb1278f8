"""What is true in a world: the facts of each entity, each a function of the seed and the entity.

Most lead to entities of the same region, some to the regions beside it, some to the capital and to the country's great
prize, some anywhere: as links do in an encyclopaedia. A fact that would contradict a date is left out.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache

from ragindex_eval.data.worlds import words
from ragindex_eval.data.worlds.draws import Draws
from ragindex_eval.data.worlds.entities import Entity, Fact, Object
from ragindex_eval.data.worlds.layout import Kind, Layout, Ref
from ragindex_eval.data.worlds.naming import Names

_REGIONS_HELD = 32
_ENTITIES_HELD = 4096


class World:
    """A layout, its names, and what follows from them."""

    def __init__(self, size: int, seed: int) -> None:
        self.layout = Layout(size, seed)
        self.names = Names(self.layout)
        self.region = lru_cache(_REGIONS_HELD)(self._region)
        self.entity = lru_cache(_ENTITIES_HELD)(self._entity)
        self.birth = lru_cache(_ENTITIES_HELD)(self._birth)

    def _entity(self, ref: Ref) -> Entity:
        """The entity with its facts."""
        draws = self.layout.draws("facts", *ref)
        return Entity(ref, tuple(fact for fact in _FACTS[ref.kind](self, ref, draws) if fact.object != ""))

    def _region(self, region: int) -> list[Entity]:
        """All entities of a region; the last few are held."""
        return [self._entity(ref) for ref in self.layout.refs(region)]

    def written(self, value: Object) -> str:
        """An object as a triple has it."""
        return self.names.name(value) if isinstance(value, Ref) else value

    # ------------------------------------------------------------ what other facts depend on, in constant time

    def _birth(self, person: Ref) -> int:
        """The year of birth: two of a family belong to a generation."""
        family = self.names.family_of(person)
        member = person.slot // self.layout.counts(person.region)["family"]
        first = 1800 + self.layout.draws("generation", *family).below(60)
        return first + 26 * (member // 2) + self.layout.draws("birth", *person).below(9)

    def death(self, person: Ref) -> int:
        """The year of death."""
        return self.birth(person) + 42 + self.layout.draws("death", *person).below(36)

    def occupation(self, person: Ref) -> str:
        """Two people in five create works, one is an architect; nobody directs films before there are any."""
        draws, place = self.layout.draws("occupation", *person), person.slot % 5
        if place == 2:
            return "architect"
        chosen = draws.pick(words.CREATORS if place < 2 else words.PROFESSIONS)
        return "playwright" if chosen == "film director" and self.birth(person) < 1868 else chosen

    def founded(self, company: Ref) -> int:
        """The year in which a company was founded."""
        return self.birth(self.founder(company)) + 23 + self.layout.draws("founded", *company).below(17)

    def founder(self, company: Ref) -> Ref:
        """Who founded a company: nobody who creates works."""
        return self.person(self.layout.draws("founder", *company), company.region, (2, 3, 4))

    def creator(self, work: Ref) -> Ref:
        """Who made a work."""
        return self.person(self.layout.draws("creator", *work), work.region, (0, 1))

    def settled(self, town: Ref) -> int:
        """The year in which a town was founded."""
        return 900 + self.layout.draws("settled", *town).below(700)

    def established(self, award: Ref) -> int:
        """The year in which an award was first given."""
        return 1830 + self.layout.draws("established", *award).below(70)

    # ------------------------------------------------------------ where links lead

    def nearby(self, draws: Draws, region: int) -> int:
        """The region itself, or one beside it."""
        return region if draws.chance(82) else draws.pick(self.layout.neighbours(region))

    def anywhere(self, draws: Draws, region: int) -> int:
        """A region of the same country, or any."""
        return self.in_country(draws, region) if draws.chance(60) else draws.below(self.layout.regions)

    def in_country(self, draws: Draws, region: int) -> int:
        """A region of the same country."""
        first = self.layout.capital_region(region)
        last = min(self.layout.regions, first + self.layout.regions_in_a_country)
        return first + draws.below(last - first)

    def one(self, draws: Draws, kind: Kind, region: int) -> Ref:
        """Any entity of a kind in a region."""
        return Ref(kind, region, draws.below(self.layout.counts(region)[kind]))

    def town(self, draws: Draws, region: int) -> Ref:
        """A town nearby; now and then the capital."""
        if draws.chance(7):
            return Ref("town", self.layout.capital_region(region), 0)
        return self.one(draws, "town", self.nearby(draws, region))

    def person(self, draws: Draws, region: int, places: tuple[int, ...]) -> Ref:
        """Somebody nearby whose slot, modulo five, is one of `places`."""
        region = self.nearby(draws, region)
        fives = self.layout.counts(region)["person"] // 5
        return Ref("person", region, 5 * draws.below(fives) + draws.pick(places))


# ---------------------------------------------------------------- the facts of each kind


def _country(world: World, ref: Ref, draws: Draws) -> Iterator[Fact]:
    yield Fact("currency", draws.pick(words.CURRENCIES))
    yield Fact("capital", Ref("town", ref.region, 0))
    yield Fact("person on its banknotes", world.person(draws, ref.region, (0, 1)))
    yield Fact("largest company", world.one(draws, "company", world.in_country(draws, ref.region)))


def _region(world: World, ref: Ref, draws: Draws) -> Iterator[Fact]:
    yield Fact("area", f"{400 + draws.below(8000):,} square kilometres")
    yield Fact("country", Ref("country", world.layout.capital_region(ref.region), 0))
    yield Fact("administrative seat", Ref("town", ref.region, 0))
    yield Fact("main river", Ref("river", ref.region, 0))
    yield Fact("largest employer", world.one(draws, "company", ref.region))


def _town(world: World, ref: Ref, draws: Draws) -> Iterator[Fact]:
    capital = ref.slot == 0 and ref.region == world.layout.capital_region(ref.region)
    yield Fact("population", f"{200_000 + draws.below(700_000) if capital else 900 + draws.below(60_000):,}")
    yield Fact("founded", str(world.settled(ref)))
    yield Fact("region", Ref("region", ref.region, 0))
    yield Fact("river", world.one(draws, "river", ref.region))
    if draws.chance(60):
        yield Fact("architect of the town hall", world.person(draws, ref.region, (2,)))
    if draws.chance(50):
        yield Fact("ruling family", world.one(draws, "family", ref.region))
    older = [world.one(draws, "town", world.anywhere(draws, ref.region)) for _ in range(2)]
    yield Fact("mother town", next((one for one in older if world.settled(one) + 20 < world.settled(ref)), ""))


def _river(world: World, ref: Ref, draws: Draws) -> Iterator[Fact]:
    yield Fact("length", f"{30 + draws.below(600)} km")
    yield Fact("flows into", _mouth(world, ref, draws))
    yield Fact("rises near", world.one(draws, "town", ref.region))
    yield Fact("architect of the oldest bridge", world.person(draws, ref.region, (2,)))
    if draws.chance(60):
        yield Fact("navigation company", world.one(draws, "company", world.nearby(draws, ref.region)))


def _mouth(world: World, ref: Ref, draws: Draws) -> Object:
    """Into the main river of the region, that one into the next towards the capital's, and from there to the sea."""
    if ref.slot:
        return Ref("river", ref.region, 0)
    if ref.region == world.layout.capital_region(ref.region):
        return draws.pick(words.SEAS)
    return Ref("river", ref.region - 1, 0)


def _person(world: World, ref: Ref, draws: Draws) -> Iterator[Fact]:
    yield Fact("year of birth", str(world.birth(ref)))
    yield Fact("year of death", str(world.death(ref)))
    yield Fact("occupation", world.occupation(ref))
    yield Fact("place of birth", world.town(draws, ref.region))
    if draws.chance(55):
        yield Fact("place of death", world.town(draws, ref.region))
    if draws.chance(50):
        yield Fact("family", world.names.family_of(ref))
    yield from _relatives(world, ref, draws)
    yield from _career(world, ref, draws)


def _relatives(world: World, ref: Ref, draws: Draws) -> Iterator[Fact]:
    families = world.layout.counts(ref.region)["family"]
    member = ref.slot // families
    if member >= 2 and draws.chance(75):
        earlier = 2 * (member // 2 - 1) + draws.below(2)
        parent = Ref("person", ref.region, earlier * families + ref.slot % families)
        yield Fact("mother" if world.names.is_woman(parent) else "father", parent)
    partner = _partner(world, ref)
    if partner is not None:
        yield Fact("spouse", partner)


def _partner(world: World, ref: Ref) -> Ref | None:
    """Slots are paired by an involution, so that both sides say the same."""
    count = world.layout.counts(ref.region)["person"]
    other = Ref("person", ref.region, (world.layout.draws("pairs", ref.region).below(count) - ref.slot) % count)
    related = world.names.family_of(other) == world.names.family_of(ref)
    fits = not related and world.names.is_woman(other) != world.names.is_woman(ref)
    return other if fits and abs(world.birth(other) - world.birth(ref)) <= 14 else None


def _career(world: World, ref: Ref, draws: Draws) -> Iterator[Fact]:
    birth, death = world.birth(ref), world.death(ref)
    if draws.chance(60):
        region = world.anywhere(draws, ref.region) if draws.chance(35) else ref.region
        teachers = [world.one(draws, "person", region) for _ in range(3)]
        found = [one for one in teachers if 15 <= birth - world.birth(one) <= 45]
        yield Fact("teacher", found[0] if found else "")
    if draws.chance(60):
        region = world.anywhere(draws, ref.region) if draws.chance(35) else ref.region
        company = world.one(draws, "company", region)
        fits = world.founded(company) + 1 < death - 10 and world.founder(company) != ref
        yield Fact("employer", company if fits else "")
    if ref.slot % 5 > 1 and draws.chance(45):
        yield Fact("award", _award_given(world, draws, ref.region, 1, death - 4))


def _award_given(world: World, draws: Draws, region: int, field: int, year: int) -> Object:
    """The region's award, or the country's; "" where it came too late."""
    where = world.layout.capital_region(region) if draws.chance(35) else region
    others = (world.layout.counts(where)["award"] - field + 1) // 2
    award = Ref("award", where, field + 2 * draws.below(others))
    return award if world.established(award) <= year else ""


def _company(world: World, ref: Ref, draws: Draws) -> Iterator[Fact]:
    yield Fact("product", world.names.product(ref)[1])
    yield Fact("founded", str(world.founded(ref)))
    yield Fact("founder", world.founder(ref))
    yield Fact("headquarters", world.one(draws, "town", ref.region))
    owner = world.one(draws, "company", world.anywhere(draws, ref.region))
    if draws.chance(50) and owner != ref:
        yield Fact("owner", owner)
    if draws.chance(40):
        yield Fact("architect of its works", world.person(draws, ref.region, (2,)))


def _work(world: World, ref: Ref, draws: Draws) -> Iterator[Fact]:
    creator = world.creator(ref)
    occupation = world.occupation(creator)
    alive = world.death(creator) - world.birth(creator)
    year = world.birth(creator) + 24 + draws.below(alive - 24)
    yield Fact("type", words.TYPES[occupation])
    yield Fact("year", str(year))
    yield Fact(_MAKING[occupation], creator)
    yield from _published(world, ref, draws, occupation)
    if occupation != "poet":
        yield Fact("scene" if occupation == "painter" else "setting", world.town(draws, ref.region))
    if draws.chance(60):
        award = _award_given(world, draws, ref.region, 0, year)
        yield Fact("award", award)
        yield Fact("year of the award", str(year + draws.below(2)) if award else "")
    friend = world.one(draws, "person", ref.region)
    if draws.chance(50) and friend != creator:
        yield Fact("dedicated to", friend)


_MAKING = {"film director": "director", "composer": "composer", "painter": "painter"} | dict.fromkeys(
    ("novelist", "poet", "playwright"), "author"
)


def _published(world: World, ref: Ref, draws: Draws, occupation: str) -> Iterator[Fact]:
    region = ref.region if draws.chance(50) else world.anywhere(draws, ref.region)
    if occupation == "painter":
        yield Fact("owner", world.one(draws, "family", world.nearby(draws, ref.region)))
    elif occupation in ("novelist", "poet"):
        yield Fact("publisher", Ref("company", region, 0))
    else:
        yield Fact("producer", Ref("company", region, 1))


def _award(world: World, ref: Ref, draws: Draws) -> Iterator[Fact]:
    yield Fact("field", "the sciences" if ref.slot % 2 else "the arts")
    yield Fact("established", str(world.established(ref)))
    yield Fact("place of the ceremony", world.town(draws, ref.region))
    yield Fact("endowed by", world.one(draws, "family", world.nearby(draws, ref.region)))
    yield Fact("designer of the trophy", world.one(draws, "person", world.nearby(draws, ref.region)))
    yield Fact("maker of the trophy", world.one(draws, "company", world.anywhere(draws, ref.region)))


def _family(world: World, ref: Ref, draws: Draws) -> Iterator[Fact]:
    yield Fact("trade", draws.pick(words.TRADES))
    yield Fact("seat", world.names.family_seat(ref))
    yield Fact("chronicler", world.one(draws, "person", world.nearby(draws, ref.region)))
    yield Fact("architect of the house", world.person(draws, ref.region, (2,)))
    yield Fact("company it controls", world.one(draws, "company", world.nearby(draws, ref.region)))


_FACTS: Mapping[Kind, Callable[[World, Ref, Draws], Iterator[Fact]]] = {
    "country": _country,
    "region": _region,
    "town": _town,
    "river": _river,
    "person": _person,
    "company": _company,
    "work": _work,
    "award": _award,
    "family": _family,
}

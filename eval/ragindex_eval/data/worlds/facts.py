"""Facts of the entities of a world, computed from the seed and the entity alone.

As with links in an encyclopaedia, most facts lead to entities of the same region, some to neighbouring regions,
some to the capital and the country's great prize, and some anywhere. A fact that would contradict a date is
left out.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache

from ragindex_eval.data.worlds import phrases as words
from ragindex_eval.data.worlds.draws import Draws
from ragindex_eval.data.worlds.layout import EntityKind, Layout, Object, Ref, WorldEntity, WorldFact
from ragindex_eval.data.worlds.naming import WorldNames

_REGIONS_HELD = 32
_ENTITIES_HELD = 4096


class World:
    """A world: its layout, its names, and the facts that follow from them."""

    def __init__(self, size: int, seed: int) -> None:
        self.layout = Layout(size, seed)
        self.names = WorldNames(self.layout)
        self.region = lru_cache(_REGIONS_HELD)(self._region)
        self.entity = lru_cache(_ENTITIES_HELD)(self._entity)
        self.birth = lru_cache(_ENTITIES_HELD)(self._birth)

    def _entity(self, ref: Ref) -> WorldEntity:
        """Return the entity with its facts."""
        draws = self.layout.draws("facts", *ref)
        return WorldEntity(ref, tuple(fact for fact in _FACTS[ref.kind](self, ref, draws) if fact.object != ""))

    def _region(self, region: int) -> list[WorldEntity]:
        """Return all entities of a region; the last few regions are cached."""
        return [self._entity(ref) for ref in self.layout.refs(region)]

    def written(self, value: Object) -> str:
        """Return the object of a fact as a triple has it."""
        return self.names.name(value) if isinstance(value, Ref) else value

    # ------------------------------------------------------------ facts that others depend on, in constant time

    def _birth(self, person: Ref) -> int:
        """Return the year of birth; every two members of a family form a generation."""
        family = self.names.family_of(person)
        member = person.slot // self.layout.counts(person.region)["family"]
        first = 1800 + self.layout.draws("generation", *family).below(60)
        return first + 26 * (member // 2) + self.layout.draws("birth", *person).below(9)

    def death(self, person: Ref) -> int:
        """Return the year of death."""
        return self.birth(person) + 42 + self.layout.draws("death", *person).below(36)

    def occupation(self, person: Ref) -> str:
        """Return the occupation: two people in five create works, and one in five is an architect.

        There are no film directors before there are films.
        """
        draws, place = self.layout.draws("occupation", *person), person.slot % 5
        if place == 2:
            return "architect"
        chosen = draws.pick(words.CREATORS if place < 2 else words.PROFESSIONS)
        return "playwright" if chosen == "film director" and self.birth(person) < 1868 else chosen

    def founded(self, company: Ref) -> int:
        """Return the year in which a company was founded."""
        return self.birth(self.founder(company)) + 23 + self.layout.draws("founded", *company).below(17)

    def founder(self, company: Ref) -> Ref:
        """Return the founder of a company, who is never someone who creates works."""
        return self.person(self.layout.draws("founder", *company), company.region, (2, 3, 4))

    def creator(self, work: Ref) -> Ref:
        """Return the person who made a work."""
        return self.person(self.layout.draws("creator", *work), work.region, (0, 1))

    def settled(self, town: Ref) -> int:
        """Return the year in which a town was founded."""
        return 900 + self.layout.draws("settled", *town).below(700)

    def established(self, award: Ref) -> int:
        """Return the year in which an award was first given."""
        return 1830 + self.layout.draws("established", *award).below(70)

    # ------------------------------------------------------------ where links lead

    def nearby(self, draws: Draws, region: int) -> int:
        """Return the region itself, or sometimes a neighbouring one."""
        return region if draws.chance(82) else draws.pick(self.layout.neighbours(region))

    def anywhere(self, draws: Draws, region: int) -> int:
        """Return a region of the same country, or any region."""
        return self.in_country(draws, region) if draws.chance(60) else draws.below(self.layout.regions)

    def in_country(self, draws: Draws, region: int) -> int:
        """Return a region of the same country."""
        first = self.layout.capital_region(region)
        last = min(self.layout.regions, first + self.layout.regions_in_a_country)
        return first + draws.below(last - first)

    def draw_entity(self, draws: Draws, kind: EntityKind, region: int) -> Ref:
        """Return a random entity of a kind in a region."""
        return Ref(kind, region, draws.below(self.layout.counts(region)[kind]))

    def town(self, draws: Draws, region: int) -> Ref:
        """Return a town nearby, or sometimes the capital."""
        if draws.chance(7):
            return Ref("town", self.layout.capital_region(region), 0)
        return self.draw_entity(draws, "town", self.nearby(draws, region))

    def person(self, draws: Draws, region: int, places: tuple[int, ...]) -> Ref:
        """Return a person nearby whose slot modulo five is one of `places`."""
        region = self.nearby(draws, region)
        fives = self.layout.counts(region)["person"] // 5
        return Ref("person", region, 5 * draws.below(fives) + draws.pick(places))


# ---------------------------------------------------------------- the facts of each kind


def _country(world: World, ref: Ref, draws: Draws) -> Iterator[WorldFact]:
    yield WorldFact("currency", draws.pick(words.CURRENCIES))
    yield WorldFact("capital", Ref("town", ref.region, 0))
    yield WorldFact("person on its banknotes", world.person(draws, ref.region, (0, 1)))
    yield WorldFact("largest company", world.draw_entity(draws, "company", world.in_country(draws, ref.region)))


def _region(world: World, ref: Ref, draws: Draws) -> Iterator[WorldFact]:
    yield WorldFact("area", f"{400 + draws.below(8000):,} square kilometres")
    yield WorldFact("country", Ref("country", world.layout.capital_region(ref.region), 0))
    yield WorldFact("administrative seat", Ref("town", ref.region, 0))
    yield WorldFact("main river", Ref("river", ref.region, 0))
    yield WorldFact("largest employer", world.draw_entity(draws, "company", ref.region))


def _town(world: World, ref: Ref, draws: Draws) -> Iterator[WorldFact]:
    capital = ref.slot == 0 and ref.region == world.layout.capital_region(ref.region)
    yield WorldFact("population", f"{200_000 + draws.below(700_000) if capital else 900 + draws.below(60_000):,}")
    yield WorldFact("founded", str(world.settled(ref)))
    yield WorldFact("region", Ref("region", ref.region, 0))
    yield WorldFact("river", world.draw_entity(draws, "river", ref.region))
    if draws.chance(60):
        yield WorldFact("architect of the town hall", world.person(draws, ref.region, (2,)))
    if draws.chance(50):
        yield WorldFact("ruling family", world.draw_entity(draws, "family", ref.region))
    older = [world.draw_entity(draws, "town", world.anywhere(draws, ref.region)) for _ in range(2)]
    yield WorldFact("mother town", next((town for town in older if world.settled(town) + 20 < world.settled(ref)), ""))


def _river(world: World, ref: Ref, draws: Draws) -> Iterator[WorldFact]:
    yield WorldFact("length", f"{30 + draws.below(600)} km")
    yield WorldFact("flows into", _mouth(world, ref, draws))
    yield WorldFact("rises near", world.draw_entity(draws, "town", ref.region))
    yield WorldFact("architect of the oldest bridge", world.person(draws, ref.region, (2,)))
    if draws.chance(60):
        yield WorldFact("navigation company", world.draw_entity(draws, "company", world.nearby(draws, ref.region)))


def _mouth(world: World, ref: Ref, draws: Draws) -> Object:
    """Return where a river flows into.

    Rivers flow into the region's main river, that one towards the capital's region, and the capital's main
    river into a sea.
    """
    if ref.slot:
        return Ref("river", ref.region, 0)
    if ref.region == world.layout.capital_region(ref.region):
        return draws.pick(words.SEAS)
    return Ref("river", ref.region - 1, 0)


def _person(world: World, ref: Ref, draws: Draws) -> Iterator[WorldFact]:
    yield WorldFact("year of birth", str(world.birth(ref)))
    yield WorldFact("year of death", str(world.death(ref)))
    yield WorldFact("occupation", world.occupation(ref))
    yield WorldFact("place of birth", world.town(draws, ref.region))
    if draws.chance(55):
        yield WorldFact("place of death", world.town(draws, ref.region))
    if draws.chance(50):
        yield WorldFact("family", world.names.family_of(ref))
    yield from _relatives(world, ref, draws)
    yield from _career(world, ref, draws)


def _relatives(world: World, ref: Ref, draws: Draws) -> Iterator[WorldFact]:
    families = world.layout.counts(ref.region)["family"]
    member = ref.slot // families
    if member >= 2 and draws.chance(75):
        earlier = 2 * (member // 2 - 1) + draws.below(2)
        parent = Ref("person", ref.region, earlier * families + ref.slot % families)
        yield WorldFact("mother" if world.names.is_woman(parent) else "father", parent)
    partner = _partner(world, ref)
    if partner is not None:
        yield WorldFact("spouse", partner)


def _partner(world: World, ref: Ref) -> Ref | None:
    """Return the spouse of a person, or None; an involution pairs the slots, so that both sides agree."""
    count = world.layout.counts(ref.region)["person"]
    other = Ref("person", ref.region, (world.layout.draws("pairs", ref.region).below(count) - ref.slot) % count)
    related = world.names.family_of(other) == world.names.family_of(ref)
    fits = not related and world.names.is_woman(other) != world.names.is_woman(ref)
    return other if fits and abs(world.birth(other) - world.birth(ref)) <= 14 else None


def _career(world: World, ref: Ref, draws: Draws) -> Iterator[WorldFact]:
    birth, death = world.birth(ref), world.death(ref)
    if draws.chance(60):
        region = world.anywhere(draws, ref.region) if draws.chance(35) else ref.region
        teachers = [world.draw_entity(draws, "person", region) for _ in range(3)]
        suitable = [teacher for teacher in teachers if 15 <= birth - world.birth(teacher) <= 45]
        yield WorldFact("teacher", suitable[0] if suitable else "")
    if draws.chance(60):
        region = world.anywhere(draws, ref.region) if draws.chance(35) else ref.region
        company = world.draw_entity(draws, "company", region)
        fits = world.founded(company) + 1 < death - 10 and world.founder(company) != ref
        yield WorldFact("employer", company if fits else "")
    if ref.slot % 5 > 1 and draws.chance(45):
        yield WorldFact("award", _choose_award(world, draws, ref.region, 1, death - 4))


def _choose_award(world: World, draws: Draws, region: int, field: int, year: int) -> Object:
    """Return an award of the region or of its capital's region; "" if it was established after `year`."""
    where = world.layout.capital_region(region) if draws.chance(35) else region
    others = (world.layout.counts(where)["award"] - field + 1) // 2
    award = Ref("award", where, field + 2 * draws.below(others))
    return award if world.established(award) <= year else ""


def _company(world: World, ref: Ref, draws: Draws) -> Iterator[WorldFact]:
    yield WorldFact("product", world.names.product(ref)[1])
    yield WorldFact("founded", str(world.founded(ref)))
    yield WorldFact("founder", world.founder(ref))
    yield WorldFact("headquarters", world.draw_entity(draws, "town", ref.region))
    owner = world.draw_entity(draws, "company", world.anywhere(draws, ref.region))
    if draws.chance(50) and owner != ref:
        yield WorldFact("owner", owner)
    if draws.chance(40):
        yield WorldFact("architect of its works", world.person(draws, ref.region, (2,)))


def _work(world: World, ref: Ref, draws: Draws) -> Iterator[WorldFact]:
    creator = world.creator(ref)
    occupation = world.occupation(creator)
    alive = world.death(creator) - world.birth(creator)
    year = world.birth(creator) + 24 + draws.below(alive - 24)
    yield WorldFact("type", words.TYPES[occupation])
    yield WorldFact("year", str(year))
    yield WorldFact(_CREATOR_PREDICATES[occupation], creator)
    yield from _publication(world, ref, draws, occupation)
    if occupation != "poet":
        yield WorldFact("scene" if occupation == "painter" else "setting", world.town(draws, ref.region))
    if draws.chance(60):
        award = _choose_award(world, draws, ref.region, 0, year)
        yield WorldFact("award", award)
        yield WorldFact("year of the award", str(year + draws.below(2)) if award else "")
    friend = world.draw_entity(draws, "person", ref.region)
    if draws.chance(50) and friend != creator:
        yield WorldFact("dedicated to", friend)


_CREATOR_PREDICATES = {"film director": "director", "composer": "composer", "painter": "painter"} | dict.fromkeys(
    ("novelist", "poet", "playwright"), "author"
)


def _publication(world: World, ref: Ref, draws: Draws, occupation: str) -> Iterator[WorldFact]:
    region = ref.region if draws.chance(50) else world.anywhere(draws, ref.region)
    if occupation == "painter":
        yield WorldFact("owner", world.draw_entity(draws, "family", world.nearby(draws, ref.region)))
    elif occupation in ("novelist", "poet"):
        yield WorldFact("publisher", Ref("company", region, 0))
    else:
        yield WorldFact("producer", Ref("company", region, 1))


def _award(world: World, ref: Ref, draws: Draws) -> Iterator[WorldFact]:
    yield WorldFact("field", "the sciences" if ref.slot % 2 else "the arts")
    yield WorldFact("established", str(world.established(ref)))
    yield WorldFact("place of the ceremony", world.town(draws, ref.region))
    yield WorldFact("endowed by", world.draw_entity(draws, "family", world.nearby(draws, ref.region)))
    yield WorldFact("designer of the trophy", world.draw_entity(draws, "person", world.nearby(draws, ref.region)))
    yield WorldFact("maker of the trophy", world.draw_entity(draws, "company", world.anywhere(draws, ref.region)))


def _family(world: World, ref: Ref, draws: Draws) -> Iterator[WorldFact]:
    yield WorldFact("trade", draws.pick(words.TRADES))
    yield WorldFact("seat", world.names.family_seat(ref))
    yield WorldFact("chronicler", world.draw_entity(draws, "person", world.nearby(draws, ref.region)))
    yield WorldFact("architect of the house", world.person(draws, ref.region, (2,)))
    yield WorldFact("company it controls", world.draw_entity(draws, "company", world.nearby(draws, ref.region)))


_FACTS: Mapping[EntityKind, Callable[[World, Ref, Draws], Iterator[WorldFact]]] = {
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

"""Questions over a world, each with exactly one right answer and the documents that lead to it.

Chains follow two to four facts, each stated in a different document, and name only their start. Every predicate
has one object, so a chain has one end. Comparisons compare two numbers; in half of them the two entities must
be found first. Intersections ask for the only entity that meets two conditions: everything that could meet the
first one is in known regions, which are searched.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from ragindex_eval.data.gold import Gold
from ragindex_eval.data.questions import DatasetQuestion
from ragindex_eval.data.worlds.draws import Draws, permutation
from ragindex_eval.data.worlds.facts import World
from ragindex_eval.data.worlds.intersections import intersection
from ragindex_eval.data.worlds.layout import Ref, WorldEntity, WorldFact
from ragindex_eval.data.worlds.phrases import relations
from ragindex_eval.data.worlds.prose import name_in_sentence
from ragindex_eval.data.worlds.wording import WorldQuestion, accepted_answers

QUESTION_KINDS = ("2hop", "3hop", "4hop", "comparison", "intersection")
_TRIES, _TRIES_IN_SMALL_WORLDS = 30, 40  # tries per question wanted; tries per entity of the world
_MAX_PER_START = 3  # questions of a kind per start at most
_GUESSABLE = ("type", "field", "occupation")  # "What is the occupation of the architect of …?" needs no document


def draw_questions(world: World, per_kind: int) -> list[DatasetQuestion]:
    """Return up to `per_kind` questions of each kind, in an order that reveals nothing."""
    questions = [
        _write_question(world, kind, question)
        for kind in QUESTION_KINDS
        for question in _generate_questions(world, kind, per_kind)
    ]
    return world.layout.draws("order").shuffled(questions)


def _write_question(world: World, kind: str, question: WorldQuestion) -> DatasetQuestion:
    documents = frozenset(world.layout.doc_id(ref) for ref in question.gold)
    text = question.text[0].upper() + question.text[1:]
    return DatasetQuestion(text, Gold(documents, accepted_answers(world, question.answer), kind))


def _generate_questions(world: World, kind: str, wanted: int) -> Iterator[WorldQuestion]:
    """Yield questions from all over the world: each try uses the next region of a permutation."""
    regions = permutation(world.layout.regions, world.layout.seed, "question", kind)
    starts: dict[Ref, int] = {}
    seen: set[object] = set()
    for number in range(min(_TRIES * wanted, _TRIES_IN_SMALL_WORLDS * world.layout.size)):
        region = regions(number % regions.n)
        question = _MAKERS[kind](world, region, world.layout.draws("question", kind, region, number))
        if question is None or question.identity in seen or starts.get(question.gold[0], 0) == _MAX_PER_START:
            continue
        starts[question.gold[0]] = starts.get(question.gold[0], 0) + 1
        seen.add(question.identity)
        yield question
        if len(seen) == wanted:
            return


# ---------------------------------------------------------------- chains


def _make_chain(hops: int) -> Callable[[World, int, Draws], WorldQuestion | None]:
    def make(world: World, region: int, draws: Draws) -> WorldQuestion | None:
        """Walk `hops` facts; return None if the walk ends early or an earlier fact has the same answer."""
        path, facts = _walk(world, draws.pick(world.region(region)), hops, draws)
        if len(facts) < hops or any(fact.object == facts[-1].object for passed in path[:-1] for fact in passed.facts):
            return None
        thing = first = _name_start(world, path[0], draws)
        for entity, fact in zip(path[:-1], facts, strict=False):
            ways = relations()[entity.ref.kind, fact.predicate].noun
            if thing != first:  # a nested name must come last
                ways = tuple(way for way in ways if way.endswith("{x}"))
            thing = draws.pick(ways).format(x=thing)
        text = draws.pick(relations()[path[-1].ref.kind, facts[-1].predicate].ask).format(x=thing)
        if world.written(facts[-1].object) in text:
            return None  # a family is named after its seat, a company after a town
        gold = tuple(entity.ref for entity in path)
        return WorldQuestion(text, gold, facts[-1].object, (gold, facts[-1].predicate))

    return make


def _walk(world: World, start: WorldEntity, hops: int, draws: Draws) -> tuple[list[WorldEntity], list[WorldFact]]:
    path, facts = [start], list[WorldFact]()
    while len(facts) < hops:
        last = len(facts) == hops - 1
        seen = {entity.ref for entity in path}
        links = [fact for fact in path[-1].facts if isinstance(fact.object, Ref) and fact.object not in seen]
        plain = [f for f in path[-1].facts if not isinstance(f.object, Ref) and f.predicate not in _GUESSABLE]
        choice = plain if last and (draws.chance(25) or not links) else links
        if not choice:
            break
        facts.append(draws.pick(choice))
        leads_to = facts[-1].object
        if not last and isinstance(leads_to, Ref):
            path.append(world.entity(leads_to))
    return path, facts


def _name_start(world: World, entity: WorldEntity, draws: Draws) -> str:
    """Return the entity's name, or for some works the award and its year.

    The award is used only if no other work of the region has the same award and year.
    """
    award, year = entity.get("award"), entity.text("year of the award")
    if not year or not isinstance(award, Ref) or not draws.chance(40):
        return name_in_sentence(world, entity.ref)
    if award.region == world.layout.capital_region(award.region) or award.region != entity.ref.region:
        return name_in_sentence(world, entity.ref)  # works of the whole country may have it
    rivals = [rival for rival in world.region(award.region) if rival.get("award") == award]
    if sum(rival.text("year of the award") == year for rival in rivals) > 1:
        return name_in_sentence(world, entity.ref)
    return f"the {entity.text('type')} that was given {name_in_sentence(world, award)} in {year}"


# ---------------------------------------------------------------- comparisons


class _Measure(NamedTuple):
    kind: str
    predicate: str
    highest: bool
    ask: str


_MEASURES = (
    _Measure("person", "year of birth", False, "Who was born first, {a} or {b}?"),
    _Measure("person", "year of birth", True, "Who was born later, {a} or {b}?"),
    _Measure("person", "year of death", False, "Who died first, {a} or {b}?"),
    _Measure("person", "year of death", True, "Who died later, {a} or {b}?"),
    _Measure("river", "length", True, "Which river is longer, {a} or {b}?"),
    _Measure("river", "length", False, "Which is the shorter river, {a} or {b}?"),
    _Measure("town", "population", True, "Which town has more inhabitants, {a} or {b}?"),
    _Measure("town", "population", False, "Which town is smaller by population, {a} or {b}?"),
    _Measure("town", "founded", False, "Which town was founded first, {a} or {b}?"),
    _Measure("company", "founded", False, "Which company is older, {a} or {b}?"),
    _Measure("company", "founded", True, "Which company was founded later, {a} or {b}?"),
    _Measure("work", "year", False, "Which appeared first, {a} or {b}?"),
    _Measure("award", "established", False, "Which award has been given for longer, {a} or {b}?"),
    _Measure("region", "area", True, "Which region is larger, {a} or {b}?"),
)


def _make_comparison(world: World, region: int, draws: Draws) -> WorldQuestion | None:
    """Compare two entities of a kind, named directly or, in half the cases, by the same predicate of two others."""
    elsewhere = world.anywhere(draws, region) if draws.chance(50) else region
    first = draws.pick(world.region(region))
    second = draws.pick([entity for entity in world.region(elsewhere) if entity.ref.kind == first.ref.kind] or [first])
    if draws.chance(50):
        return _compare(world, draws, (first, second), ((), ()), "")
    shared = {fact.predicate for fact in first.facts if isinstance(fact.object, Ref)}
    both = sorted(shared & {fact.predicate for fact in second.facts if isinstance(fact.object, Ref)})
    if not both:
        return None
    predicate = draws.pick(both)
    pair = tuple(world.entity(ref) for entity in (first, second) if isinstance(ref := entity.get(predicate), Ref))
    return _compare(world, draws, (pair[0], pair[1]), ((first.ref,), (second.ref,)), predicate)


def _compare(
    world: World,
    draws: Draws,
    pair: tuple[WorldEntity, WorldEntity],
    through: tuple[tuple[Ref, ...], tuple[Ref, ...]],
    predicate: str,
) -> WorldQuestion | None:
    kinds = {entity.ref.kind for entity in pair}
    measures = [each for each in _MEASURES if kinds == {each.kind}]
    gold = tuple(dict.fromkeys((*through[0], pair[0].ref, *through[1], pair[1].ref)))
    if not measures or len(gold) < 2 + len(through[0]) + len(through[1]):
        return None
    measure = draws.pick(measures)
    values = [int("".join(filter(str.isdigit, entity.text(measure.predicate)))) for entity in pair]
    if values[0] == values[1]:
        return None
    names = [name_in_sentence(world, (*step, entity.ref)[0]) for step, entity in zip(through, pair, strict=True)]
    if predicate:
        noun = draws.pick(relations()[through[0][0].kind, predicate].noun)
        names = [noun.format(x=name) for name in names]
    answer = pair[(values[1] > values[0]) == measure.highest].ref
    return WorldQuestion(measure.ask.format(a=names[0], b=names[1]), gold, answer, (frozenset(gold), measure.predicate))


_MAKERS: Mapping[str, Callable[[World, int, Draws], WorldQuestion | None]] = {
    "2hop": _make_chain(2),
    "3hop": _make_chain(3),
    "4hop": _make_chain(4),
    "comparison": _make_comparison,
    "intersection": intersection,
}

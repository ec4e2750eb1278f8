"""Questions for the only entity that meets two conditions."""

from collections.abc import Mapping
from typing import NamedTuple

from ragindex_eval.data.worlds.draws import Draws
from ragindex_eval.data.worlds.facts import World
from ragindex_eval.data.worlds.layout import Ref, WorldEntity
from ragindex_eval.data.worlds.prose import name_in_sentence
from ragindex_eval.data.worlds.wording import WorldQuestion


class Condition(NamedTuple):
    """Predicates to follow from an entity, and their wording in a question, in which {o} is the entity at the end."""

    path: tuple[str, ...]
    text: str


_NEAR_CONDITIONS: Mapping[str, tuple[Condition, ...]] = {  # their objects are in the same region or a neighbouring one
    "person": (
        Condition(("place of birth",), "born in {o}"),
        Condition(("place of death",), "who died in {o}"),
    ),
    "work": (
        Condition(("setting",), "set in {o}"),
        Condition(("scene",), "with a view of {o}"),
        Condition(("dedicated to",), "dedicated to {o}"),
    ),
    "company": (
        Condition(("headquarters",), "with headquarters in {o}"),
        Condition(("architect of its works",), "in a main building designed by {o}"),
    ),
}
_BIRTHPLACE, _TEACHER = ("place of birth",), ("teacher",)
_ANY_CONDITIONS: Mapping[str, tuple[Condition, ...]] = {
    "person": (
        Condition(("award",), "received {o}"),
        Condition(("employer",), "worked for {o}"),
        Condition(("teacher",), "studied under {o}"),
        Condition(("teacher", *_BIRTHPLACE), "studied under somebody born in {o}"),
        Condition(("teacher", "employer"), "studied under somebody who worked for {o}"),
        Condition(("employer", "headquarters"), "worked for a company based in {o}"),
        Condition(("employer", "founder"), "worked for a company founded by {o}"),
        Condition(("spouse", *_BIRTHPLACE), "married somebody born in {o}"),
    ),
    "work": (
        Condition(("award",), "won {o}"),
        Condition(("publisher",), "was published by {o}"),
        Condition(("publisher", "headquarters"), "was published by a company based in {o}"),
        Condition(("producer", "founder"), "was produced by a company founded by {o}"),
        Condition(("author", *_BIRTHPLACE), "was written by somebody born in {o}"),
        Condition(("author", *_TEACHER), "was written by a pupil of {o}"),
        Condition(("director", *_BIRTHPLACE), "was directed by somebody born in {o}"),
        Condition(("composer", *_BIRTHPLACE), "was composed by somebody born in {o}"),
        Condition(("painter", *_BIRTHPLACE), "was painted by somebody born in {o}"),
        Condition(("painter", *_TEACHER), "was painted by a pupil of {o}"),
    ),
    "company": (
        Condition(("owner",), "belongs to {o}"),
        Condition(("owner", "headquarters"), "belongs to a company based in {o}"),
        Condition(("founder", *_BIRTHPLACE), "was founded by somebody born in {o}"),
        Condition(("founder", *_TEACHER), "was founded by a pupil of {o}"),
        Condition(("founder", "spouse"), "was founded by somebody married to {o}"),
    ),
}


def intersection(world: World, region: int, draws: Draws) -> WorldQuestion | None:
    """Return a question for the entity that meets two conditions; None unless exactly one entity meets both."""
    entity = draws.pick([condition for condition in world.region(region) if condition.ref.kind in _NEAR_CONDITIONS])
    near = [condition for condition in _NEAR_CONDITIONS[entity.ref.kind] if _follow(world, entity, condition.path)]
    others = [condition for condition in _ANY_CONDITIONS[entity.ref.kind] if _follow(world, entity, condition.path)]
    if not near or not others:
        return None
    first, second = draws.pick(near), draws.pick(others)
    trails = _follow(world, entity, first.path), _follow(world, entity, second.path)
    ends = trails[0][-1], trails[1][-1]
    if (
        ends[0] == ends[1]
        or _is_capital(world, ends[0])
        or _find_matches(world, entity, (first, second)) != [entity.ref]
    ):
        return None
    texts = [
        condition.text.format(o=name_in_sentence(world, end))
        for condition, end in zip((first, second), ends, strict=True)
    ]
    gold = (entity.ref, *trails[1][:-1])
    return WorldQuestion(f"which {_noun(entity)} {texts[0]} {texts[1]}?", gold, entity.ref, (entity.ref, first, second))


def _find_matches(world: World, entity: WorldEntity, conditions: tuple[Condition, Condition]) -> list[Ref]:
    """Return all entities of the world that fit the question.

    Only the neighbourhood of the first condition's object is searched: whatever meets that condition is there.
    """
    wanted = [_follow(world, entity, condition.path)[-1] for condition in conditions]
    noun = _noun(entity)
    return [
        candidate.ref
        for region in world.layout.neighbours(wanted[0].region)
        for candidate in world.region(region)
        if candidate.ref.kind == entity.ref.kind
        and _noun(candidate) == noun
        and all(
            _follow(world, candidate, condition.path)[-1:] == [end]
            for condition, end in zip(conditions, wanted, strict=True)
        )
    ]


def _follow(world: World, entity: WorldEntity, path: tuple[str, ...]) -> list[Ref]:
    """Return the entities along a path of predicates; empty if the path breaks off."""
    refs: list[Ref] = []
    for predicate in path:
        leads_to = (world.entity(refs[-1]) if refs else entity).get(predicate)
        if not isinstance(leads_to, Ref):
            return []
        refs.append(leads_to)
    return refs


def _is_capital(world: World, ref: Ref) -> bool:
    return ref.kind == "town" and ref.slot == 0 and ref.region == world.layout.capital_region(ref.region)


def _noun(entity: WorldEntity) -> str:
    return entity.text({"person": "occupation", "work": "type"}.get(entity.ref.kind, "")) or "company"

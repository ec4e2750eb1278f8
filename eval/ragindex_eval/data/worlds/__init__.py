"""Worlds: fictional encyclopaedias generated from a seed, with questions whose answers are known.

The same size and seed give the same bytes on every machine. Sizes are not nested: a larger world is a different
world.
"""

from collections.abc import Iterator, Sequence

import regex

from ragindex.corpus import Corpus
from ragindex.errors import UsageError
from ragindex.types import Document, Triple
from ragindex_eval.data.questions import DatasetQuestion
from ragindex_eval.data.worlds.facts import World
from ragindex_eval.data.worlds.layout import Ref, WorldEntity
from ragindex_eval.data.worlds.prose import write_passage
from ragindex_eval.data.worlds.questions import QUESTION_KINDS, draw_questions

__all__ = [
    "LARGEST",
    "QUESTION_KINDS",
    "SMALLEST",
    "corpus",
    "describe_shortfall",
    "make_documents",
    "make_questions",
    "make_triples",
    "parse_world",
    "world_name",
]

SMALLEST, LARGEST = 50, 1_000_000
_WORLD_PATTERN = regex.compile(r"world:([0-9]+)([km]?)(?::([0-9]{1,18}))?", regex.IGNORECASE)
_UNITS = {"": 1, "k": 1_000, "m": 1_000_000}


def make_documents(size: int, seed: int = 0) -> Iterator[Document]:
    """Yield exactly `size` passages, region by region. Raises UsageError if the size or the seed is invalid."""
    world = World(*_check_world(size, seed))
    for region in range(world.layout.regions):
        entities = world.region(region)
        refs, linking = [entity.ref for entity in entities], _find_linking(entities)
        for entity in entities:
            text = write_passage(world, entity, refs, linking.get(entity.ref, ()))
            yield Document(world.layout.doc_id(entity.ref), world.names.name(entity.ref), text)


def make_triples(size: int, seed: int = 0) -> Iterator[tuple[str, Triple]]:
    """Yield every fact as a triple, with the id of the document that states it; subjects are document titles.

    Raises UsageError if the size or the seed is invalid.
    """
    world = World(*_check_world(size, seed))
    for region in range(world.layout.regions):
        for entity in world.region(region):
            id, title = world.layout.doc_id(entity.ref), world.names.name(entity.ref)
            for fact in entity.facts:
                yield id, Triple(title, fact.predicate, world.written(fact.object))


def make_questions(size: int, seed: int = 0, per_kind: int = 200) -> list[DatasetQuestion]:
    """Return up to `per_kind` questions of each of QUESTION_KINDS, with gold and all accepted forms of the answer.

    Raises UsageError if the size or the seed is invalid.
    """
    return draw_questions(World(*_check_world(size, seed)), per_kind)


def describe_shortfall(questions: Sequence[DatasetQuestion], per_kind: int = 200) -> str | None:
    """Return a sentence if `asked` has fewer than `per_kind` questions of some kind, else None."""
    counts = {
        kind: sum(question.gold is not None and question.gold.kind == kind for question in questions)
        for kind in QUESTION_KINDS
    }
    fewer = ", ".join(f"{count} {kind}" for kind, count in counts.items() if count < per_kind)
    return f"the world is too small for {per_kind} questions of each kind: it holds {fewer}" if fewer else None


def parse_world(written: str) -> tuple[int, int]:
    """Return size and seed of `world:SIZE[:SEED]`, with SIZE as 1000, 10k or 1m. Raises UsageError if it is invalid."""
    match = _WORLD_PATTERN.fullmatch(written)
    if match is None:
        raise UsageError(
            "A world is written world:SIZE or world:SIZE:SEED, as world:1000, world:10k or world:1m:7. "
            f"Got {written!r} instead."
        )
    size, unit, seed = match.groups()
    return _check_world(int(size) * _UNITS[unit.lower()] if len(size) < 8 else LARGEST + 1, int(seed or 0), written)


def world_name(size: int, seed: int) -> str:
    """Return the name of a world's corpus, however its size and seed were written."""
    return f"world-{size}-seed{seed}"


def corpus(written: str) -> Corpus:
    """Generate the corpus of `world:SIZE[:SEED]`, sorted by id. Raises UsageError if that is invalid."""
    size, seed = parse_world(written)
    documents = tuple(sorted(make_documents(size, seed), key=lambda document: document.id))
    return Corpus(world_name(size, seed), "world", documents, 0, (), True, root=f"world:{size}:{seed}")


def _check_world(size: int, seed: int, written: str | None = None) -> tuple[int, int]:
    got = f"{size!r}" if written is None else f"{written!r}"
    if type(size) is not int or not SMALLEST <= size <= LARGEST:
        raise UsageError(f"A world has {SMALLEST} to {LARGEST:,} passages. Got {got} instead.")
    if type(seed) is not int or seed < 0:
        raise UsageError(f"The seed of a world must be an int in the range [0, inf). Got {seed!r} instead.")
    return size, seed


def _find_linking(entities: Sequence[WorldEntity]) -> dict[Ref, list[Ref]]:
    """Return for each entity the entities of the region whose facts lead to it."""
    linking: dict[Ref, list[Ref]] = {}
    for entity in entities:
        for fact in entity.facts:
            if isinstance(fact.object, Ref):
                linking.setdefault(fact.object, []).append(entity.ref)
    return linking

"""Parts of GRIEVER: what they stand on, how they are written, and the ids of their records."""

import pytest

from ragindex._util import canonical
from ragindex.errors import UsageError
from ragindex.plugins import registry
from ragindex_retrievers.griever.lookups import RecentValues
from ragindex_retrievers.griever.parts.partial_triples import partial_id


@pytest.mark.parametrize(
    ("name", "parameter", "needed", "got"),
    [
        ("partial_triples", "over", "triples", "passages"),
        ("name_vectors", "over", "triples", "passages"),
        ("triple_passages", "of", "passages", "triples"),
        ("triple_passages", "over", "triples", "vectors"),
        ("same_as", "of", "name_vectors", "triples"),
        ("judged_same_as", "of", "same_as", "name_vectors"),
    ],
)
def test_other_parts_are_refused(name: str, parameter: str, needed: str, got: str) -> None:
    message = f"The '{parameter}' parameter of {name} must be {needed}. Got '{got}' instead."
    with pytest.raises(UsageError, match=message):
        registry.part(f"{name}({parameter}={got})")


@pytest.mark.parametrize(
    "label",
    [
        "partial_triples(over=triples(entity_key=casefold), scope=passage)",
        "name_vectors(over=triples(entity_key=casefold))",
        "triple_passages(over=triples(entity_key=casefold))",
        "same_as(of=name_vectors(over=triples(entity_key=casefold)), by=embedding)",
        "judged_same_as(of=same_as(passage_cosine=1))",
    ],
)
def test_labels(label: str) -> None:
    part = registry.part(label)
    assert registry.part(registry.describe(part)) == registry.part(registry.label(part)) == part


def test_ids_are_those_of_entity_predicate_and_direction() -> None:
    assert partial_id("Rhine", "rises in", False) == canonical.digest(["Rhine", "rises in", False])
    assert partial_id("Rhine", "rises in", True, "A#1") == f"A#1#{partial_id('Rhine', 'rises in', True)}"
    assert (
        len({partial_id(*names, inverse) for names in (("a b", "c"), ("a", "b c")) for inverse in (True, False)}) == 4
    )


def test_what_was_added_last_is_held() -> None:
    recent: RecentValues[int] = RecentValues(3)
    assert recent.split(["a", "b", "a"]) == ({}, ["a", "b"])
    assert recent.completed({}, {"a": 1, "b": 2}) == {"a": 1, "b": 2}
    assert recent.split(["b", "c"]) == ({"b": 2}, ["c"])
    assert recent.completed({"b": 2}, {"c": 3, "d": 4}) == {"b": 2, "c": 3, "d": 4}
    assert recent.values == {"b": 2, "c": 3, "d": 4}


def test_more_at_once_than_are_held_are_given_all_the_same() -> None:
    recent: RecentValues[int] = RecentValues(1)
    assert recent.completed({"a": 1}, {"b": 2, "c": 3}) == {"a": 1, "b": 2, "c": 3}
    assert recent.values == {"c": 3}

"""Filters of the frameworks: translated, they select what each framework says they select; the rest is refused."""

from collections.abc import Sequence
from typing import Any

import haystack
import pytest
from haystack.errors import FilterError
from haystack.utils.filters import document_matches_filter
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.structured_query import Comparator, Comparison, FilterDirective, Operation, Operator
from llama_index.core.vector_stores import FilterCondition, FilterOperator, MetadataFilter, MetadataFilters
from llama_index.core.vector_stores.utils import build_metadata_filter_fn

from examples import examples
from ragindex.errors import UsageError
from ragindex.filters import Filter, Terms, document_fields, passes
from ragindex.integrations.haystack import translate_haystack_filters
from ragindex.integrations.langchain import translate_langchain_filter
from ragindex.integrations.llama_index import translate_llama_index_filters

Metadata = dict[str, Any]

NUMBERS = st.one_of(st.integers(-3, 3), st.sampled_from([0.5, -0.5, 1e-300, -1e-300, 5e-324, 2**53, 1e17]))
WORDS = st.sampled_from(["", "a", "A", "aa", "a\0", "b", "ä", "12", "true", "'"])
DATES = st.sampled_from(["1931-05-01", "1931-05-02", "1850-12-31", "2001-01-01"])
VALUES = {"number": NUMBERS, "word": WORDS, "date": DATES}
LISTS = {
    "number": st.one_of(st.lists(st.integers(-3, 3), max_size=3), st.lists(st.sampled_from([0.5, -0.5]), max_size=3)),
    "word": st.lists(WORDS, max_size=3),
    "date": st.lists(DATES, max_size=3),
}
CORPORA = st.lists(st.fixed_dictionaries({}, optional={**VALUES, "flag": st.booleans()}), min_size=1, max_size=6)
COMPARED = ("==", "!=", ">", ">=", "<", "<=")


def select(where: Filter | None, corpus: Sequence[Metadata]) -> list[bool]:
    """The documents that pass."""
    assert where is not None
    return [passes(where, document_fields(str(row), metadata)) for row, metadata in enumerate(corpus)]


def comparisons(ordered: Sequence[str]) -> st.SearchStrategy[tuple[str, str, Any]]:
    """(key, operator, value), with an order for the keys `ordered`."""
    plain = [
        st.tuples(st.just(key), st.sampled_from(COMPARED if key in ordered else COMPARED[:2]), values)
        for key, values in VALUES.items()
    ]
    listed = [st.tuples(st.just(key), st.sampled_from(["in", "not in"]), values) for key, values in LISTS.items()]
    return st.one_of(*plain, *listed)


# ---------------------------------------------------------------- LangChain

NOTES = [
    {"word": "a", "date": "1931-05-01", "number": 1, "flag": True},
    {"word": "b", "number": 0.5},
    {"date": "1850-12-31"},
    {},
]


@pytest.mark.parametrize(
    ("wanted", "passing"),
    [
        ({}, [0, 1, 2, 3]),
        ({"word": "a"}, [0]),
        ({"word": ["a", "b"]}, [0, 1]),
        ({"flag": True}, [0]),
        ({"number": {"$eq": 0.5}}, [1]),
        ({"number": {"$gt": 0.5}}, [0]),
        ({"number": {"$gte": 0.5, "$lt": 1}}, [1]),
        ({"number": {"$lte": 0.5}}, [1]),
        ({"date": {"$lt": "1931-05-01"}}, [2]),
        ({"word": {"$ne": "a"}}, [1, 2, 3]),
        ({"word": {"$in": ["b", "c"]}}, [1]),
        ({"word": {"$in": []}}, []),
        ({"word": {"$nin": ["a", "c"]}}, [1, 2, 3]),
        ({"number": {"$not": {"$gt": 0.5}}}, [1, 2, 3]),
        ({"$and": [{"word": "a"}, {"number": {"$lt": 1}}]}, []),
        ({"$or": [{"word": "a"}, {"date": "1850-12-31"}]}, [0, 2]),
        ({"$not": {"$or": [{"word": "a"}, {"date": "1850-12-31"}]}}, [1, 3]),
        ({"word": "b", "$and": [{"number": 0.5}]}, [1]),
        ({"word": "b", "number": 1}, []),
    ],
)
def test_langchain_mappings(wanted: dict[str, Any], passing: list[int]) -> None:
    """As MongoDB means them."""
    assert [row for row, passes in enumerate(select(translate_langchain_filter(wanted), NOTES)) if passes] == passing


EARLY, MILL = Comparison(Comparator.LTE, "date", "1931-05-01"), Comparison(Comparator.IN, "word", ["a", "b"])


@pytest.mark.parametrize(
    ("wanted", "passing"),
    [
        (EARLY, [0, 2]),
        (MILL, [0, 1]),
        (Operation(Operator.AND, [EARLY, MILL]), [0]),
        (Operation(Operator.OR, [EARLY, MILL]), [0, 1, 2]),
        (Operation(Operator.NOT, [Operation(Operator.OR, [EARLY, MILL])]), [3]),
    ],
)
def test_langchain_directives(wanted: FilterDirective, passing: list[int]) -> None:
    assert [row for row, passes in enumerate(select(translate_langchain_filter(wanted), NOTES)) if passes] == passing


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ({"year": {"$exists": True}}, r"no operator '\$exists' in filters. Available: \$eq, "),
        ({"year": {"gte": 3}}, "no operator 'gte' in filters"),
        ({"year": {}}, "has no operator"),
        ({"$nor": [{"year": 3}]}, r"no operator '\$nor' in filters. Available: \$and, \$or, \$not"),
        ({"$and": []}, "takes a list of filters"),
        ({"$or": {"year": 3}}, "takes a list of filters"),
        ({"$not": 3}, "is a mapping or a FilterDirective"),
        ({3: 3}, "keys of a filter are strings"),
        ({"year": None}, "Got None for 'meta.year'"),
        ({"year": float("nan")}, "Got nan for 'meta.year'"),
        ({"year": {"$gt": float("inf")}}, "must be finite"),
        ({"year": {"$gt": True}}, "have an order. Got True"),
        ({"year": {"$gt": [3]}}, r"have an order. Got \[3\]"),
        ({"year": {"$eq": [3]}}, r"Got \[3\] for"),
        ({"year": {"$in": "abc"}}, "take a list of values"),
        ({"year": [[3]]}, r"Got \[3\] for"),
        ({"ragindex.score": 3}, "ragindex.doc_ids, ragindex.passage_ids"),
        (lambda document: True, "is a mapping or a FilterDirective"),
        (Comparison(Comparator.LIKE, "kind", "t%"), "no operator 'like' in filters"),
        (Comparison(Comparator.CONTAIN, "kind", "t"), "no operator 'contain' in filters"),
    ],
)
def test_langchain_refusals(wanted: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        translate_langchain_filter(wanted)


def test_ids_of_documents_are_a_field() -> None:
    assert translate_langchain_filter({"ragindex.doc_ids": ["a", "b"]}) == Terms("doc_ids", ("a", "b"))


# ---------------------------------------------------------------- LlamaIndex

LLAMA_INDEX = {**{name: name for name in COMPARED}, "in": "in", "not in": "nin"}


def _to_filter(comparison: tuple[str, str, Any]) -> MetadataFilter:
    return MetadataFilter(key=comparison[0], value=comparison[2], operator=FilterOperator(LLAMA_INDEX[comparison[1]]))


LLAMA_INDEX_FILTERS = st.recursive(
    comparisons(tuple(VALUES)).map(_to_filter),
    lambda inner: st.builds(
        lambda parts, condition: MetadataFilters(filters=parts, condition=condition),
        st.lists(inner, max_size=3),
        st.sampled_from(FilterCondition),
    ),
    max_leaves=5,
).filter(lambda wanted: isinstance(wanted, MetadataFilters))


def llama_index_matches(wanted: MetadataFilter | MetadataFilters, document: Metadata) -> bool:
    """LlamaIndex's own evaluation of single filters; it knows no nested ones, which are joined here."""
    if isinstance(wanted, MetadataFilter):
        alone = MetadataFilters(filters=[wanted])
        return build_metadata_filter_fn(lambda _: document, alone)("id")
    if not wanted.filters:
        return True
    inner = [llama_index_matches(part, document) for part in wanted.filters]
    return {"and": all(inner), "or": any(inner), "not": not any(inner)}[(wanted.condition or FilterCondition.AND).value]


@given(CORPORA, LLAMA_INDEX_FILTERS)
@settings(max_examples=examples(100))
def test_llama_index_filters(corpus: list[Metadata], wanted: MetadataFilters) -> None:
    translated = translate_llama_index_filters(wanted)
    expected = [llama_index_matches(wanted, metadata) for metadata in corpus]
    assert (select(translated, corpus) if translated else [True] * len(corpus)) == expected
    if not any(isinstance(part, MetadataFilters) for part in wanted.filters):
        flat = build_metadata_filter_fn(lambda id: corpus[int(id)], wanted)
        assert expected == [flat(str(row)) for row in range(len(corpus))]


@pytest.mark.parametrize("name", ["any", "all", "contains", "text_match", "text_match_insensitive", "is_empty"])
def test_llama_index_refuses_operators_that_look_into_values(name: str) -> None:
    wanted = MetadataFilter(key="tags", value=["a"], operator=FilterOperator(name))
    with pytest.raises(UsageError, match=f"no operator '{name}' in filters. Available: ==, !=, >, >=, <, <=, in, nin"):
        translate_llama_index_filters(MetadataFilters(filters=[MetadataFilters(filters=[wanted])]))


@pytest.mark.parametrize(("value", "name"), [(None, "=="), ([1], "=="), ("abc", "in"), (float("nan"), "<")])
def test_llama_index_refuses_values(value: Any, name: str) -> None:
    wanted = MetadataFilters(filters=[MetadataFilter(key="year", value=value, operator=FilterOperator(name))])
    with pytest.raises(UsageError, match="meta.year"):
        translate_llama_index_filters(wanted)


# ---------------------------------------------------------------- Haystack


def _to_condition(comparison: tuple[str, str, Any], prefix: str) -> dict[str, Any]:
    return {"field": f"{prefix}{comparison[0]}", "operator": comparison[1], "value": comparison[2]}


_NONE = st.tuples(st.sampled_from(list(VALUES)), st.sampled_from(COMPARED), st.none())
HAYSTACK_FILTERS = st.recursive(
    st.builds(_to_condition, st.one_of(comparisons(("number", "date")), _NONE), st.sampled_from(["meta.", ""])),
    lambda inner: st.fixed_dictionaries(
        {"operator": st.sampled_from(["AND", "OR", "NOT"]), "conditions": st.lists(inner, max_size=3)}
    ),
    max_leaves=5,
)


@given(CORPORA, HAYSTACK_FILTERS)
@settings(max_examples=examples(100))
def test_haystack_filters(corpus: list[Metadata], wanted: dict[str, Any]) -> None:
    expected = [document_matches_filter(wanted, haystack.Document(content="x", meta=metadata)) for metadata in corpus]
    assert select(translate_haystack_filters(wanted), corpus) == expected


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ({"operator": "NOR", "conditions": []}, "joined by AND, OR and NOT. Got 'NOR'"),
        ({"operator": "AND", "conditions": {}}, "'conditions' is a list of filters"),
        ({"operator": "AND", "conditions": [3]}, "is a mapping. Got 3"),
        ({"operator": "AND"}, "'conditions' is missing"),
        ({"year": 1931}, "'operator' is missing"),
        ({"field": "meta.year", "value": 1}, "'operator' is missing"),
        ({"field": "meta.year", "operator": "=="}, "'value' is missing"),
        ({"field": "meta.year", "operator": "~", "value": 1}, "no operator '~'"),
        ({"field": "meta.year", "operator": "in", "value": (1, 2)}, "takes a list"),
        ({"field": "meta.year", "operator": "in", "value": None}, "takes a list"),
        ({"field": "meta.year", "operator": ">", "value": "1931"}, "numbers and ISO dates"),
        ({"field": "meta.year", "operator": ">", "value": [1]}, r"have an order. Got \[1\]"),
        ({"field": "meta.year", "operator": "==", "value": {"a": 1}}, "Got {'a': 1}"),
        ({"field": "content", "operator": "==", "value": "x"}, "Got the field 'content'"),
        ({"field": "meta.person.name", "operator": "==", "value": "x"}, "not by what they hold"),
        ({"field": 3, "operator": "==", "value": "x"}, "Got the field 3"),
    ],
)
def test_haystack_refusals(wanted: Any, message: str) -> None:
    """They are errors of ragindex and of Haystack."""
    with pytest.raises(UsageError, match=message):
        translate_haystack_filters(wanted)
    with pytest.raises(FilterError, match=message):
        translate_haystack_filters(wanted)

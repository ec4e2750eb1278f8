"""Notes on what a filter asks for and no document has: keys of metadata, and their values."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice

from ragindex import filters
from ragindex._util.text import NAMES_COMPARED, describe_near, find_near_names, first_names
from ragindex.index.index import Index
from ragindex.interfaces import Scheme
from ragindex.stores.metered import MeteredCollection


def describe_unknown_filters(index: Index, scheme: Scheme, wanted: Mapping[str, Sequence[str]]) -> list[str]:
    """Return a sentence for each metadata key that no document has, and for each value of a key that none has.

    `wanted` maps keys to values as they are typed.
    """
    parts = (index.open_part(part) for part in index.all_parts(scheme)) if wanted else ()
    by_field: dict[str, MeteredCollection] = {}
    for part in parts:
        if isinstance(part, MeteredCollection):
            by_field |= dict.fromkeys(part.fields(), part)
    known = sorted(name.removeprefix("meta.") for name in by_field if name.startswith("meta."))
    said = list[str]()
    for key, values in wanted.items() if by_field else ():
        collection = by_field.get(f"meta.{key}")
        if collection is None:
            said.append(f"No document has the metadata key {key!r}. Available: {', '.join(known) or 'none'}.")
            continue
        said += [
            _describe_unknown_value(collection, key, value) for value in values if not _has(collection, key, value)
        ]
    return said


def _has(collection: MeteredCollection, key: str, value: str) -> bool:
    """Return whether a record has a value, as it is typed or as what it spells."""
    where = filters.meta(key, *filters.list_typed_terms(value))
    return any(len(batch) for batch in collection.scan((), where))


def _describe_unknown_value(collection: MeteredCollection, key: str, value: str) -> str:
    known = list(islice(_list_values(collection, key), NAMES_COMPARED))
    among = describe_near(find_near_names(value, known)) or f"values: {first_names(sorted(known))}"
    return f"No document has the value {value!r} of the metadata key {key!r} ({among})."


def _list_values(collection: MeteredCollection, key: str) -> Iterable[str]:
    """Return the values of a key, each once."""
    field = f"meta.{key}"
    columns = (batch.column(field).to_pylist() for batch in collection.scan((field,)))
    return dict.fromkeys(one for column in columns for value in column for one in filters.list_terms(value))

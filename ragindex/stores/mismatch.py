"""Messages for vectors and records that another encoder or version made than a collection."""

from ragindex.errors import StoreError
from ragindex.interfaces import Schema


def describe_dimensions(given: int, held: int) -> str:
    """Return what to do where the encoder of an index gives vectors of another length than those in it."""
    return (
        f"The encoder gave vectors of {given} dimensions, and the index has {held}, so another model answers under the "
        "name of the one that the index was built with. Use that one again (its server, address or files), or build "
        "the index with this one in another folder: ragindex index DOCUMENTS --index NEW_FOLDER --encoder ENCODER"
    )


def require_schema(name: str, held: Schema, schema: Schema) -> None:
    """Raise StoreError unless a collection was created with this schema."""
    if held == schema:
        return
    if held.dimensions and schema.dimensions and held.dimensions != schema.dimensions:
        raise StoreError(describe_dimensions(schema.dimensions, held.dimensions))
    raise StoreError(f"The collection {name} was created with {held}, not with {schema}.")

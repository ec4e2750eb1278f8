"""Weights of features, kept as JSON: those that come with the package, and those of a user's own questions."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, ValidationError

from ragindex.canonical import digest
from ragindex.errors import UsageError
from ragindex.plugins.strict_models import Strict

_SHIPPED = Path(__file__).parent / "weights"
_HASH_LENGTH = 12
_MOST_BYTES = 1_000_000


class FeatureWeights(Strict):
    """A calibrated logistic regression: the probability that a passage belongs to the answer is
    1 / (1 + exp(-(intercept + sum of weight × feature))).

    `bases` are the specifications of the methods whose ranks are features, `rank:LABEL` each; `made_from` says on what
    questions the weights were fitted, and `questions` has their ids (ragindex.judgements.question_id).
    """

    made_from: str
    questions: tuple[str, ...] = ()
    bases: tuple[Any, ...] = ()
    intercept: float = Field(allow_inf_nan=False)
    weights: Mapping[str, Annotated[float, Field(allow_inf_nan=False)]]


def resolve_weights(written: str) -> str:
    """Return the path of weights with a hash of their content appended, so that it names this content alone.

    Names of sets that come with the package stay as they are. Raises UsageError if the file cannot be read, or if
    `written` has a hash and the content has changed.
    """
    name, _, known = written.partition("#")
    if name in list_shipped():
        return name
    found = digest(read_weights(name).model_dump(mode="json", exclude={"questions"}))[:_HASH_LENGTH]
    if known and known != found:
        raise UsageError(
            f"The weights in {name} have changed: expected {known}, found {found}. "
            f"To use them as they are now, write weights={name}."
        )
    return f"{name}#{found}"


def read_weights(written: str) -> FeatureWeights:
    """Read weights by the name of a set that comes with the package, or by a path. Raises UsageError."""
    name = written.partition("#")[0]
    path = _SHIPPED / f"{name}.json" if name in list_shipped() else Path(name)
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise UsageError(f"{name} has more than {_MOST_BYTES:,} bytes; weights are a small JSON file.")
        return FeatureWeights.model_validate(json.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise UsageError(
            f"There are no weights {name!r}: expected a JSON file as `ragindex tune` writes it, "
            f"or one of {', '.join(list_shipped())}."
        ) from error
    except ValidationError as error:
        first = error.errors()[0]
        wrong = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
        raise UsageError(f"{name} has no weights as `ragindex tune` writes them. {wrong}") from error
    except ValueError as error:
        raise UsageError(f"{name} has no weights as `ragindex tune` writes them. It is not JSON: {error}") from error


def list_shipped() -> Sequence[str]:
    """Return the names of the sets that come with the package."""
    return sorted(path.stem for path in _SHIPPED.glob("*.json"))

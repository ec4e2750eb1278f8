"""Features of candidate passages: what the scores, the links and other rankings say of each, and their weights."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import Field, ValidationError

from ragindex._util.canonical import digest
from ragindex.errors import UsageError
from ragindex.parts.records import Doubles, Integers
from ragindex.plugins.strict_models import Strict
from ragindex_retrievers.links.walk import Hop, LinkWalk

FEATURES = (
    "cosine",
    "bm25",
    "named",
    "links",
    "mentioned",
    "mentions",
    "mentioned_new",
    "mentions_new",
    "seeds",
    "second_hop",
    "support",
    "cosine_rank",
    "bm25_rank",
    "links_rank",
)
"""Cosine and BM25 score, min-max normalized over the candidates; whether the question names the passage; its score by
`links`; the best link from a seed, and to one, as the seed's score times the link's weight; the same times what is new
beyond the seed; the share of the seeds that are linked; the best link of the second hop; for a seed, the best link to
a passage, as that passage's base score times the weight; and reciprocal ranks, 1 / (5 + rank)."""
MAY_COUNT_AGAINST = frozenset(
    ("mentioned", "mentions", "mentioned_new", "mentions_new", "seeds", "second_hop", "support")
)
"""Features that may have negative weights: much that is linked without adding anything is a hub. Scores and ranks may
not."""
_RANK_CONSTANT = 5


def build_features(walk: LinkWalk, links: Doubles, rankings: Sequence[Sequence[str]]) -> Doubles:
    """Return the features of all passages that a walk of two hops reached, (passages, FEATURES and rankings).

    `links` are the scores after the first hop, base scores for passages reached later; `rankings` are those of other
    methods, best first, each of which gives the reciprocal rank of each passage.
    """
    scores, count = walk.scores, len(walk.scores.rows)
    first, second = walk.hops
    backward = np.array([link.backward for link in first.links], np.bool_)
    forth, back = _strengths(first) * ~backward, _strengths(first) * backward
    columns = [
        scores.dense,
        scores.text,
        scores.named.astype(np.float64),
        links,
        _keep_largest(count, first.passages, forth),
        _keep_largest(count, first.passages, back),
        _keep_largest(count, first.passages, forth * first.new),
        _keep_largest(count, first.passages, back * first.new),
        _count_seeds(count, first) / max(1, walk.settings.seeds),
        _keep_largest(count, second.passages, _strengths(second)),
        _keep_largest(count, first.seeds, scores.base[first.passages] * _weights(first)),
        *(_rank(values, list(scores.rows)) for values in (scores.dense, scores.text, links)),
        *(_reciprocal_ranks(ranking, scores.rows) for ranking in rankings),
    ]
    return np.stack(columns, axis=1)


def _weights(hop: Hop) -> Doubles:
    return np.array([link.weight for link in hop.links], np.float64)


def _strengths(hop: Hop) -> Doubles:
    return hop.seed_scores * _weights(hop)


def _keep_largest(count: int, places: Integers, values: Doubles) -> Doubles:
    """Return the largest of the values at each place, 0 where there is none."""
    found = np.zeros(count)
    np.maximum.at(found, places, values)
    return found


def _count_seeds(count: int, hop: Hop) -> Doubles:
    """Return by how many seeds each passage is linked, in either direction."""
    pairs = np.unique(np.stack([hop.passages, hop.seeds]), axis=1)
    return np.bincount(pairs[0], minlength=count).astype(np.float64)


def _rank(values: Doubles, ids: Sequence[str]) -> Doubles:
    """Return reciprocal ranks by value, equal values by id; 0 where the value is 0."""
    order = sorted(range(len(ids)), key=lambda row: (-values[row], ids[row]))
    ranks = np.empty(len(ids))
    ranks[order] = np.arange(1, len(ids) + 1)
    return np.where(values > 0, 1 / (_RANK_CONSTANT + ranks), 0.0)


def _reciprocal_ranks(ranking: Sequence[str], rows: Mapping[str, int]) -> Doubles:
    values = np.zeros(len(rows))
    for rank, id in enumerate(ranking, start=1):
        if id in rows:
            values[rows[id]] = 1 / (_RANK_CONSTANT + rank)
    return values


# ---------------------------------------------------------------- weights, kept as JSON


_SHIPPED = Path(__file__).parent / "weights"
_HASH_LENGTH = 12
_MOST_BYTES = 1_000_000


class FeatureWeights(Strict):
    """A calibrated logistic regression: the probability that a passage belongs to the answer is
    1 / (1 + exp(-(intercept + sum of weight × feature))).

    `bases` are the specifications of the methods whose ranks are features, `rank:LABEL` each; `made_from` says on what
    questions the weights were fitted, and `questions` has their ids (ragindex.corpus.judgements.question_id).
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

"""The steps of HippoRAG as functions of values: where a walk begins, the walk, and what it makes of passages.

A walk is personalised PageRank (Page et al. 1999; Haveliwala 2002): from a node it goes on with the probability
`damping` along an edge drawn by weight, else back to where walks begin. What would go on from a node without edges is
lost; as igraph has it, it goes back too, which multiplies all values by one number and changes no ranking. Values are
for reset weights as they are given, not brought to a sum of one.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from ragindex.parts.support.arrays import Doubles
from ragindex.parts.triples.sparse_graph import AnyIntegers
from ragindex_baselines.hipporag.weighted_graph import Links, WeightedGraph

# ---------------------------------------------------------------- where a walk begins


def fact_seeds(sides: AnyIntegers, cosines: Doubles, held: AnyIntegers) -> tuple[AnyIntegers, Doubles]:
    """Phrases of the facts found, sorted, and their reset weights.

    `sides` (n, 2) are the places of subject and object, negative for none; `held` the number of passages with each
    phrase. A phrase weighs the cosine of its fact, by the number of its passages; in several facts, their mean.
    """
    both = sides.copy()
    both[both[:, 0] == both[:, 1], 1] = -1
    known = (both >= 0) & (cosines[:, None] > 0)
    nodes, facts = np.unique(both[known], return_inverse=True)
    total = _summed(facts, np.broadcast_to(cosines[:, None], both.shape)[known], len(nodes))
    return nodes, total / np.bincount(facts, minlength=len(nodes)) / held[nodes]


def entity_seeds(nodes: AnyIntegers, held: AnyIntegers) -> tuple[AnyIntegers, Doubles]:
    """The phrases that a question's entities are linked to, each once, weighted by their specificity."""
    found = np.unique(nodes[nodes >= 0])
    return found, 1.0 / held[found]


# ---------------------------------------------------------------- the walk


def push(links: Links, nodes: AnyIntegers, mass: Doubles, damping: float, tolerance: float) -> Doubles:
    """(n,): the values of a walk from distinct `nodes` with the reset weights `mass`, looking only at what it reaches.

    Forward push (Andersen, Chung and Lang, FOCS 2006), all nodes of a round at once: a node's residual is pushed along
    its edges while it exceeds `tolerance` times the sum of `mass` times its degree. In an undirected graph no value is
    then too small by more than that times its own degree, and at most 1 / (`tolerance` * (1 - `damping`)) units of
    degree are pushed, however large the graph is.
    """
    estimate, residual = np.zeros(len(links.degrees)), np.zeros(len(links.degrees))
    place = np.empty(len(links.degrees), np.int64)
    residual[nodes] = mass
    least = tolerance * mass.sum()
    while len(nodes := _distinct(nodes[residual[nodes] > least * links.degrees[nodes]], place)):
        amount, degrees = residual[nodes], links.degrees[nodes]
        estimate[nodes] += (1 - damping) * amount
        residual[nodes] = 0
        edges, lengths = _edges(links.starts[nodes], links.stops[nodes])
        share = np.repeat(damping * amount / np.where(degrees > 0, degrees, 1), lengths)
        nodes = links.ends[edges]
        np.add.at(residual, nodes, links.weights[edges] * share)
    return estimate + (1 - damping) * residual


def _distinct(nodes: AnyIntegers, place: AnyIntegers) -> AnyIntegers:
    """Each once, without sorting; `place` (n,) is room to work in."""
    numbers = np.arange(len(nodes))
    place[nodes] = numbers
    distinct: AnyIntegers = nodes[place[nodes] == numbers]
    return distinct


def _edges(starts: AnyIntegers, stops: AnyIntegers) -> tuple[AnyIntegers, AnyIntegers]:
    """The places from each start to its stop, one after the other, and how many each has."""
    lengths = stops - starts
    return np.repeat(starts - (np.cumsum(lengths) - lengths), lengths) + np.arange(lengths.sum()), lengths


# ---------------------------------------------------------------- passages


def phrase_sums(graph: WeightedGraph, values: Doubles) -> Doubles:
    """(passages,): the sum of the values of each passage's phrases; `values` are those of all phrases."""
    walked = np.flatnonzero(values)
    edges, lengths = _edges(graph.splits[walked], graph.starts[walked + 1])
    holding = graph.ends[edges] - len(graph.phrases)
    return _summed(holding, np.repeat(values[walked], lengths), len(graph.passages))


def most(values: Doubles, count: int) -> AnyIntegers:
    """The places of the `count` greatest of the values above 0, in no stated order."""
    places = np.flatnonzero(values)
    if len(places) <= count:
        return places
    return places[np.argpartition(-values[places], count)[:count]]


def sort_best_first(places: AnyIntegers, values: Doubles, count: int | None = None) -> tuple[AnyIntegers, Doubles]:
    """Places with a value above 0 and their values, best first, equal ones by place; the first `count` at least."""
    rows = np.flatnonzero(values > 0)
    if count is not None and count < len(rows):
        rows = rows[values[rows] >= np.partition(values[rows], -count)[-count]]
    rows = rows[np.lexsort((places[rows], -values[rows]))]
    return places[rows], values[rows]


def _summed(places: AnyIntegers, weights: npt.NDArray[Any], count: int) -> Doubles:
    return np.asarray(np.bincount(places, weights, count), np.float64)

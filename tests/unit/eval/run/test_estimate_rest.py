"""Which methods are compared if none is named, and what the others would take."""

from dataclasses import replace

import pytest
from made_comparisons import make_comparison

from ragindex.errors import UsageError
from ragindex.index.parts import topological_order
from ragindex.plugins import registry
from ragindex.types import PartFigures, Usage
from ragindex_eval.results.model import Comparison
from ragindex_eval.run import build_costs
from ragindex_eval.run.build_costs import describe_rest, format_duration
from ragindex_eval.run.plan import choose_methods
from ragindex_eval.run.settings import QUICK


def measured(passages: int, questions: int, seconds: float, encoder: str = "lsa") -> Comparison:
    """A comparison of `dense`, which took 10 ms a question, and `seconds` for the vectors of the passages."""
    comparison = make_comparison({"dense": [1.0]}, {"dense": [10.0]}, encoder=encoder)
    parts = {"vectors": PartFigures("vectors", seconds, 1000, "exact", Usage())}
    data = replace(comparison.dataset, passages=passages, questions=questions)
    return replace(comparison, dataset=data, methods=(replace(comparison.methods[0], parts=parts),))


def test_the_line_says_how_many_how_long_and_how_much_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rates: 30 s, 16.4 times the seconds of the vectors, 0.038 s a passage; 0.3 s + 100 times 10 ms a question."""
    monkeypatch.setattr(build_costs, "_peak_memory", lambda: 1_000_000_000)
    monkeypatch.setattr(registry, "plugin_names", lambda group: [*QUICK, "gear", "raptor"])
    local = measured(400, 50, 36.0, "sentence-transformers:all-MiniLM-L6-v2")
    beginning = "2 more methods: --methods all, about"
    assert describe_rest([local], asks=False) == (
        f"{beginning} 11 min to build, 65 s to ask, and 2.4 GB of memory here"  # 635.6 s; 1 + 1.2 + 400 * 0.0005
    )
    large = measured(20_000, 50, 36.0)
    assert describe_rest([large], asks=False) == (
        f"{beginning} 23 min to build, 65 s to ask, and 11.2 GB of memory here"  # 1,380.4 s; 1 + 0.2 + 20,000 * 0.0005
    )
    assert describe_rest([large], asks=False, building=2400.0) == (
        f"{beginning} 40 min to build, 65 s to ask, and 11.2 GB of memory here"
    )
    assert describe_rest([local], asks=True) == (
        "2 more methods: --methods all; what they ask the language model: ragindex estimate"
    )
    monkeypatch.setattr(build_costs, "_peak_memory", lambda: None)
    assert describe_rest([local, local], asks=False) == f"{beginning} 21 min to build, 2 min to ask here"
    monkeypatch.setattr(registry, "plugin_names", lambda group: list(QUICK))
    assert describe_rest([local], asks=False) == ""


@pytest.mark.parametrize(("seconds", "text"), [(42.4, "42 s"), (89.9, "90 s"), (540, "9 min"), (7300, "2 h")])
def test_times_have_the_unit_that_fits(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


def test_five_quick_methods_are_the_default() -> None:
    chosen, left_out = choose_methods(None)
    assert [method.label for method in chosen] == ["bm25", "dense", "hybrid", "links", "evidence"]
    assert left_out == []
    parts = topological_order([part for method in chosen for part in method.scheme.parts()])
    assert {registry.label(part) for part in parts} == {"passages", "vectors", "links"}
    assert not any("model" in part.uses for part in parts)


def test_all_stands_for_every_installed_method_beside_those_that_are_named() -> None:
    chosen, _ = choose_methods(["all", "hybrid(depth=7)"])
    every = set(registry.plugin_names("schemes"))
    assert {method.label for method in chosen if not method.asked_for} == every - {"http"}  # needs an address
    assert [method.label for method in chosen if method.asked_for] == ["hybrid(depth=7)"]
    with pytest.raises(UsageError, match="Two methods have the label 'bm25'"):
        choose_methods(["all", "bm25"])

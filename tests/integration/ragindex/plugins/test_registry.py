import subprocess
import sys
from importlib.metadata import EntryPoint
from typing import Any

import pytest
from pydantic import model_validator

from ragindex.errors import UsageError
from ragindex.plugins import registry
from ragindex_baselines.bm25 import BM25
from ragindex_baselines.dense import Dense
from ragindex_baselines.hybrid import Hybrid


def plant(monkeypatch: pytest.MonkeyPatch, *points: EntryPoint) -> None:
    """Pretend that more distributions are installed."""
    real = registry.entry_points
    registry._table.cache_clear()
    monkeypatch.setattr(
        registry, "entry_points", lambda group: [*real(group=group), *(p for p in points if p.group == group)]
    )


@pytest.fixture(autouse=True)
def _fresh_table() -> Any:
    yield
    registry._table.cache_clear()


def test_listing_imports_no_plugin() -> None:
    code = (
        "import sys; from ragindex.plugins import registry;"
        "names = [registry.plugin_names(group) for group in registry.PLUGIN_GROUPS];"
        "late = {'ragindex_baselines', 'ragindex_eval', 'lancedb', 'sklearn'};"
        "print([m for m in sys.modules if m.split('.')[0] in late])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("hybrid(rrfk=3)", "hybrid has no parameter 'rrfk'. Did you mean rrf_k?"),
        ("hybrid(depth=0)", "The 'depth' parameter of hybrid must be greater than or equal to 1. Got 0 instead."),
        ("composed(composed_score=max)", "must be 'cosine', 'sum', 'rrf' or 'weighted'. Got 'max' instead."),
        ("dense(over=passage)", "No part is called 'passage'. Did you mean passages"),
        ("bm25:x", "takes no argument after a colon"),
        ({"name": "bm25", "parameters": {}}, "{name, label, params}; 'parameters' is none of these"),
        ("hybrid(bases=bm25)", "must be a list, as [bm25, dense]. Got 'bm25' instead."),
        ({"params": {}}, "A plugin is written {name, label, params}, params by name; got"),
    ],
)
def test_what_is_wrong_is_said(written: Any, message: str) -> None:
    with pytest.raises(UsageError) as error:
        registry.scheme(written)
    assert message in str(error.value)


class _Weighted(Hybrid):
    @model_validator(mode="after")
    def _check_depth(self) -> "_Weighted":
        if self.depth < self.rrf_k:
            raise ValueError("depth must be at least rrf_k.")
        return self


def test_a_rule_about_several_parameters_is_told_behind_the_name(monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, EntryPoint("weighted", f"{__name__}:_Weighted", "ragindex.schemes"))
    with pytest.raises(UsageError) as error:
        registry.scheme("weighted(depth=5)")
    assert str(error.value) == "weighted: depth must be at least rrf_k. See: ragindex methods weighted"


def test_fingerprints_differ_where_results_may(monkeypatch: pytest.MonkeyPatch) -> None:
    assert registry.plugin_fingerprint(Hybrid()) == registry.plugin_fingerprint(registry.scheme("hybrid(depth=100)"))
    before = registry.plugin_fingerprint(Hybrid(bases=(BM25(), Dense())))
    assert before != registry.plugin_fingerprint(Hybrid(bases=(Dense(), BM25())))
    monkeypatch.setattr(Dense, "version", 2)
    assert registry.plugin_fingerprint(Hybrid(bases=(BM25(), Dense()))) != before

"""Spans of an extractive model, by hand; tests/slow runs real models."""

from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest

from ragindex.errors import UsageError
from ragindex_eval.metrics import extractive_qa
from ragindex_eval.metrics.extractive_qa import _rank_spans, open_span_model


def test_spans_are_in_the_context_and_end_where_they_start_or_later() -> None:
    starts, ends = np.array([9.0, 1.0, 3.0, 2.0]), np.array([9.0, 0.5, 2.5, 2.0])
    spans = sorted(_rank_spans(starts, ends, np.array([False, True, True, True])), reverse=True)
    assert spans == [(5.5, 2, 2), (5.0, 2, 3), (4.0, 3, 3), (3.5, 1, 2), (3.0, 1, 3), (1.5, 1, 1)]


def test_only_the_20_best_starts_and_ends_and_30_tokens() -> None:
    scores = np.zeros(60)
    scores[::2] = np.arange(30, 0, -1)  # the best are tokens 0, 2, … 38
    spans = {(first, last) for _, first, last in _rank_spans(scores, scores, np.ones(60, bool))}
    assert spans == {(a, b) for a in range(0, 40, 2) for b in range(a, min(a + 30, 40), 2)}


def test_what_is_no_model(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(place: str) -> None:
        raise OSError(f"{place} has no config.json")

    library = SimpleNamespace(AutoTokenizer=SimpleNamespace(from_pretrained=refuse))
    monkeypatch.setattr(extractive_qa, "require_module", lambda *names: library)  # transformers imports torch
    monkeypatch.setattr(extractive_qa, "hide_progress_bars", nullcontext)
    with pytest.raises(UsageError, match="--qa-model: '/no/such/folder' is no model for .*: /no/such/folder has no"):
        open_span_model("/no/such/folder")

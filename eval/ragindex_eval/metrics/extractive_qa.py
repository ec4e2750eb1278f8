"""Extractive question answering with a transformers model fine-tuned on SQuAD 2, for ASQA's Disambig-F1.

Long contexts are read in overlapping windows, and the best span competes with no answer, as in the published evaluation
of ASQA (eval.sh: transformers' run_qa.py with version_2_with_negative, max_seq_length 384 and null_score_diff_threshold
0; its defaults are doc_stride 128, n_best_size 20 and max_answer_length 30).
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np

from ragindex._util.distribution import require_module
from ragindex.encoders.local_models import choose_device, hide_progress_bars
from ragindex.encoders.model_hub import locate_model
from ragindex.errors import UsageError

_MAX_LENGTH = 384  # tokens of question and window
_STRIDE = 128  # tokens that windows share
_BEST = 20  # starts and ends that are combined
_LONGEST_SPAN = 30  # tokens
_BATCH = 16  # windows run at once
_LONGEST_QUESTION = 2_000  # characters
_MAX_CONTEXT = 100_000  # characters


@dataclass(frozen=True, slots=True)
class SpanModel:
    """Callable that finds the answer to each (question, context) as a span of the context; "" for no answer.

    Answers are kept, so that equal pairs are read once.
    """

    model: Any
    tokenizer: Any
    device: str
    known: dict[tuple[str, str], str] = field(default_factory=dict)

    def __call__(self, pairs: Sequence[tuple[str, str]]) -> list[str]:
        """Return the spans of the pairs, in order."""
        for pair in dict.fromkeys(pairs):
            if pair not in self.known:
                self.known[pair] = self._find_span(*pair)
        return [self.known[pair] for pair in pairs]

    def _find_span(self, question: str, context: str) -> str:
        context = context[:_MAX_CONTEXT]
        if not context.strip():
            return ""
        windows = self.tokenizer(
            question[:_LONGEST_QUESTION],
            context,
            truncation="only_second",
            max_length=min(_MAX_LENGTH, self.tokenizer.model_max_length),
            stride=_STRIDE,
            return_overflowing_tokens=True,
            return_offsets_mapping=True,
            padding=True,
            return_tensors="np",
        )
        offsets = windows.pop("offset_mapping")
        windows.pop("overflow_to_sample_mapping")
        in_context = [[sequence == 1 for sequence in windows.sequence_ids(number)] for number in range(len(offsets))]
        starts, ends = self._run(dict(windows))
        empty = float((starts[:, 0] + ends[:, 0]).min())
        spans = (
            (score, int(offsets[number, first, 0]), int(offsets[number, last, 1]))
            for number in range(len(offsets))
            for score, first, last in _rank_spans(starts[number], ends[number], np.array(in_context[number]))
        )
        score, start, end = max(spans, key=lambda span: span[0], default=(-np.inf, 0, 0))
        return context[start:end] if score >= empty else ""

    def _run(self, windows: dict[str, Any]) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """Return the start and the end logits of all windows, of shape (windows, tokens)."""
        torch = require_module("torch", "sentence-transformers", "--qa-model")
        starts, ends = [], []
        with torch.inference_mode():
            for batch in _batches(windows):
                given = {name: torch.from_numpy(value).to(self.device) for name, value in batch.items()}
                output = self.model(**given)
                starts.append(output.start_logits.float().cpu().numpy())
                ends.append(output.end_logits.float().cpu().numpy())
        return np.concatenate(starts), np.concatenate(ends)


def _batches(windows: dict[str, Any]) -> Iterator[dict[str, Any]]:
    count = len(next(iter(windows.values())))
    for start in range(0, count, _BATCH):
        yield {name: value[start : start + _BATCH] for name, value in windows.items()}


def _rank_spans(
    starts: np.ndarray[Any, Any], ends: np.ndarray[Any, Any], in_context: np.ndarray[Any, Any]
) -> Iterable[tuple[float, int, int]]:
    """Yield score, first and last token of the spans in the context among the best starts and ends."""
    best_starts = islice(np.argsort(-starts, kind="stable"), _BEST)
    best_ends = list(islice(np.argsort(-ends, kind="stable"), _BEST))
    return (
        (float(starts[first] + ends[last]), int(first), int(last))
        for first in best_starts
        for last in best_ends
        if in_context[first] and in_context[last] and 0 <= last - first < _LONGEST_SPAN
    )


def open_span_model(name: str) -> SpanModel:
    """Load a model for extractive QA by its folder or its name on the Hugging Face hub.

    Raises MissingExtraError if transformers and torch are not installed, and UsageError if the model cannot be loaded
    or has no fast tokenizer, whose offsets are needed.
    """
    place = locate_model(name)
    transformers = require_module("transformers", "sentence-transformers", "--qa-model")
    try:
        with hide_progress_bars():
            tokenizer = transformers.AutoTokenizer.from_pretrained(place)
            model = transformers.AutoModelForQuestionAnswering.from_pretrained(place)
    except (OSError, ValueError) as error:
        raise UsageError(f"--qa-model: {name!r} is no model for extractive QA: {str(error)[:300]}") from error
    if not tokenizer.is_fast:
        raise UsageError(f"--qa-model: {name!r} has no fast tokenizer (tokenizer.json).")
    device = choose_device("auto")
    return SpanModel(model.to(device).eval(), tokenizer, device)

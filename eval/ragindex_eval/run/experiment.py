"""The state that all methods of a comparison share."""

from dataclasses import dataclass

from ragindex.index.index import Index
from ragindex_eval.data.datasets import Dataset
from ragindex_eval.metrics.long_answers import SpanReader
from ragindex_eval.run.read_answers import AnswerReader


@dataclass(frozen=True, slots=True)
class Experiment:
    """Open index, dataset with questions and gold, cutoffs, and the reader of retrieved passages, if any.

    With `strict`, the first question on which a method fails ends the comparison. With `fresh`, all questions are asked
    again. `find_spans` is the model for extractive QA that Disambig-F1 needs, and `qa_model` its name.
    """

    index: Index
    dataset: Dataset
    ks: tuple[int, ...]
    reader: AnswerReader | None
    strict: bool
    fresh: bool
    find_spans: SpanReader | None = None
    qa_model: str = ""

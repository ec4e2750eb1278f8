"""What all methods of a comparison share."""

from dataclasses import dataclass

from ragindex.workspace.workspace import Workspace
from ragindex_eval.data.datasets import Dataset
from ragindex_eval.run.read_answers import AnswerReader


@dataclass(frozen=True, slots=True)
class Experiment:
    """An open index with the documents, the questions and their gold, the cutoffs, and the reader of what is found.

    With `strict`, the first question on which a method fails ends the comparison; with `fresh`, all questions are asked
    again.
    """

    index: Workspace
    dataset: Dataset
    ks: tuple[int, ...]
    reader: AnswerReader | None
    strict: bool
    fresh: bool

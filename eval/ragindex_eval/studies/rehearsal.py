"""Rehearsals: the methods of a study over a small world, by rules, so that its rows are seen before a payment."""

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ragindex.accounting import ledger
from ragindex_eval.conclusions.published import compare_published, list_measured_conditions
from ragindex_eval.data import datasets
from ragindex_eval.results.model import ComparedMethods
from ragindex_eval.results.records import PublishedComparison
from ragindex_eval.run.plan import make_plan
from ragindex_eval.run.study import evaluate
from ragindex_eval.studies.catalogue import PrintedStudy

WORLD, QUESTIONS = "world:50:7", 3


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """The published rows of each data set beside those of the rehearsal, and the labels that were not rehearsed."""

    published: Mapping[str, PublishedComparison]
    left_out: tuple[str, ...]


def rehearse(study: PrintedStudy, names: tuple[str, ...]) -> Rehearsal:
    """Run the methods of a study by rules over a small world; the rows of the named data sets are set beside them.

    Methods with a model of their own are left out. Nothing is paid, and nothing stays on disk.
    """
    by_rules = {"encoder": "lsa", "llm": "offline", "reader_llm": None, "published": None, "seed": 0}
    settings = study.settings.model_copy(update=by_rules)
    with tempfile.TemporaryDirectory() as folder, ledger.unrecorded():
        settings = settings.model_copy(update={"index": Path(folder, "index")})
        data = datasets.read_dataset(WORLD, limit=QUESTIONS)
        comparison = evaluate(make_plan(settings), settings, data)
    compared = ComparedMethods(ks=comparison.ks, methods=comparison.methods, pairs=comparison.pairs)
    conditions = list_measured_conditions(
        comparison.dataset,
        comparison.ks[-1],
        encoder=comparison.encoder,
        llm=comparison.llm,
        reader="none" if comparison.reader is None else comparison.reader.llm,
    )
    pools = {} if comparison.coverage is None else comparison.coverage.pools
    return Rehearsal(
        {name: compare_published(study.table, name, compared, conditions, comparison.bounds, pools) for name in names},
        tuple(str(method["label"]) for method in study.setup.with_weights),
    )

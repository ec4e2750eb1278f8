"""What a judging session needs: the methods built and asked, the pool made or read again, the model's judgements."""

import json
import tempfile
import warnings
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from ragindex._util import durable_files
from ragindex._util.canonical import digest
from ragindex._util.text import first_names, many
from ragindex.accounting import ledger
from ragindex.counting import Counting
from ragindex.encoders.paid_vectors import remember_paid_questions
from ragindex.errors import DataError, UsageError
from ragindex.estimate import Estimate, Pricing, price_calls
from ragindex.estimate_left import BuildPlan, find_payees, open_paid, require_keys, require_keys_of
from ragindex.index.index import Index
from ragindex.index.renames import read_renames
from ragindex.interfaces import Scheme
from ragindex.interfaces.llm import LLMSettings
from ragindex.llm.budget import parse_budget
from ragindex.plugins import registry
from ragindex.plugins.base import asks_service
from ragindex.plugins.registry import PluginSpec
from ragindex_eval.data.datasets import Dataset, dataset_fingerprint
from ragindex_eval.judge.model_judge import JUDGE, MODEL_FOLDER, count_judgements, judge_pool
from ragindex_eval.judge.pool import (
    Pool,
    PoolSource,
    hash_contents,
    list_renamed,
    load_pool,
    make_pool,
    require_equal,
    save_pool,
)
from ragindex_eval.results.model import MethodAnswer
from ragindex_eval.run.answers import ask_method
from ragindex_eval.run.ask import failure, reduce_retrieval
from ragindex_eval.run.estimate_comparison import estimate_comparison
from ragindex_eval.run.experiment import Experiment, load_experiment, prepare_index
from ragindex_eval.run.plan import Method, Plan, make_plan
from ragindex_eval.run.settings import CompareSettings

_RUN_FILE = "model.json"


@dataclass(frozen=True, slots=True)
class ModelRun:
    """The model that judges a pool, and whether it has judged the whole pool; a run that was stopped has not."""

    model: str
    whole: bool


def prepare_pool(
    settings: CompareSettings,
    data: Dataset | None,
    depth: int,
    out: Path,
    tell: Callable[[str], None],
    judge: PluginSpec | None = None,
) -> tuple[Pool, str]:
    """Return the pool in `out`, with the language of its texts.

    If there is none, make it: build the methods, ask them the questions, pool their first documents.

    With a `judge`, that model judges the pool. The gold of the data is not read. `tell` gets remarks. Raises
    UsageError if the pool in `out` was made from something else, and the errors of
    `ragindex_eval.run.study.evaluate`.
    """
    plan = make_plan(settings)
    bare = None if data is None else replace(data, gold=None)
    budget = parse_budget(settings.budget)
    with prepare_index(settings, bare, None, budget) as index, remember_paid_questions():
        experiment = load_experiment(settings, bare, plan.schemes.values(), index)
        pool = load_pool(out)
        if pool is not None:
            _require_same_pool(pool, experiment, _describe_source(experiment, plan, depth), out, tell)
        else:
            pool = _make(experiment, plan, depth, tell)
            save_pool(pool, out)
        if judge is not None:
            _judge_by_model(pool, index, judge, out / MODEL_FOLDER, tell)
        return pool, index.language


def estimate_judging(
    settings: CompareSettings,
    data: Dataset | None,
    folder: Path,
    depth: int,
    out: Path,
    judge: PluginSpec | None = None,
    *,
    thorough: bool = False,
) -> list[Estimate]:
    """Estimate what a session may still cost: building and asking the methods, and a `judge` of the pool.

    Without a pool in `out`, one is made by rules: that of the methods has about as many documents. Raises as
    `estimate_comparison` does.
    """
    schemes = make_plan(settings).schemes
    if not thorough:
        require_keys(folder, (), BuildPlan(llm=judge, keep_calls=not settings.no_cache), reads=judge is not None)
    estimates = estimate_comparison(settings, settings, data, schemes, folder=folder, thorough=thorough)
    model = None if judge is None else find_payees(folder, judge)[0]
    if model is None:
        return estimates
    pool = load_pool(out)
    if pool is None and data is not None:
        pool = _make_by_rules(settings, data, schemes, depth)
    if pool is None:
        return estimates
    setting = LLMSettings()
    with ledger.unrecorded():
        rules = Counting.beside(model, open_paid(folder, model, setting)).open()
        with ledger.record_calls() as tally:
            count_judgements(pool, rules, settings.language or "english")
    judging = price_calls(tally, JUDGE, Pricing.of(model, setting, batched=model.batches()))
    if not thorough:
        require_keys_of(judging, model, None, folder)
    return [*estimates, *judging]


def _make_by_rules(settings: CompareSettings, data: Dataset, schemes: Mapping[str, Scheme], depth: int) -> Pool:
    """Return the pool of methods that are built with rules in a temporary index."""
    k = max(*settings.k, depth)
    with (
        ledger.unrecorded(),
        warnings.catch_warnings(),
        tempfile.TemporaryDirectory() as folder,
        Index.open(Path(folder), language=settings.language, chunking=data.corpus.chunking, create=True) as index,
    ):
        warnings.simplefilter("ignore")  # the work itself warns
        index.add(data.corpus.documents)
        index.build(*schemes.values())
        free = {label: scheme for label, scheme in schemes.items() if not asks_service(scheme)}
        hits = {
            label: [reduce_retrieval(query, each).hits for query, each in zip(data.queries, retrievals, strict=True)]
            for label, scheme in free.items()
            for retrievals in [scheme.open(index).retrieve(data.queries, k)]
        }
        source = PoolSource(tuple(free), "", depth, settings.k, settings.seed or 0, "", "")
        return make_pool(source, [query.text for query in data.queries], data.corpus.documents, hits)


def _require_same_pool(
    pool: Pool, experiment: Experiment, wanted: PoolSource, out: Path, tell: Callable[[str], None]
) -> None:
    """Raise UsageError if the pool was made from something else. Documents that were renamed since keep their old ids.

    Their judgements are saved under these, which `compare --questions` follows as other gold.
    """
    if pool.source.documents != wanted.documents:
        renames = read_renames(experiment.index.folder)
        renamed = list_renamed(pool, wanted, experiment.dataset.corpus.documents, renames)
        if renamed is not None:
            wanted = replace(wanted, documents=pool.source.documents)
            if pairs := [f"{old} → {id}" for old, id in sorted(renamed.items())]:
                number = many(len(pairs), "document")
                tell(f"{number} of the pool, renamed since, can be judged further: {first_names(pairs)}")
    require_equal(pool.source, wanted, out)


def _describe_source(experiment: Experiment, plan: Plan, depth: int) -> PoolSource:
    index, dataset = experiment.index, experiment.dataset
    return PoolSource(
        tuple(plan.labels),
        registry.label(index.encoders.plugin),
        depth,
        experiment.ks,
        index.seed,
        dataset_fingerprint(dataset.corpus, (), None),
        digest([query.text for query in dataset.queries]),
        hash_contents(dataset.corpus.documents),
    )


def _make(experiment: Experiment, plan: Plan, depth: int, tell: Callable[[str], None]) -> Pool:
    k = max(*experiment.ks, depth)
    answers_by_method = {method.label: _ask(experiment, method, k, tell) for method in plan.methods}
    texts = [query.text for query in experiment.dataset.queries]
    source = _describe_source(experiment, plan, depth)
    hits = {label: [answer.hits for answer in answers] for label, answers in answers_by_method.items()}
    return make_pool(source, texts, experiment.dataset.corpus.documents, hits)


def _ask(experiment: Experiment, method: Method, k: int, tell: Callable[[str], None]) -> tuple[MethodAnswer, ...]:
    """Build a method and ask it all questions; answers stand where `ragindex compare` keeps its own."""
    index, queries = experiment.index, experiment.dataset.queries
    with ledger.attribute_calls(method=method.label):
        index.build(method.scheme)
        answers = ask_method(experiment, method.label, method.scheme, queries, k)
    index.close()
    failed = [reason for reason in map(failure, answers) if reason is not None]
    if failed:
        tell(f"{method.label} failed on {len(failed)} of {len(answers)} questions, the first time with: {failed[0]}")
    return answers


def _judge_by_model(pool: Pool, index: Index, judge: PluginSpec, folder: Path, tell: Callable[[str], None]) -> None:
    model = index.model_for(judge)
    index.require_prices((), also=model.plugin)
    model_run = read_model_run(folder)
    if model_run is not None and model_run.model != model.name:
        option = "--llm" if model is index.model else "--judge-llm"
        raise UsageError(
            f"The pool was judged by {model_run.model}, and {option} is {model.name}. "
            f"Give {option} {model_run.model}, or another --out."
        )
    folder.mkdir(parents=True, exist_ok=True)
    _write_model_run(folder, ModelRun(model.name, whole=False))
    with ledger.attribute_calls(phase="query"):
        failed = judge_pool(pool, model.language, index.language, folder)
    _write_model_run(folder, ModelRun(model.name, whole=True))
    if failed:
        tell(
            f"{model.name} gave no usable answer for {failed} of {pool.count()} documents. They count as not "
            "relevant in its figures. Those with two charged, unusable answers are asked for again with another "
            "model, the others the next time."
        )


def _write_model_run(folder: Path, run: ModelRun) -> None:
    durable_files.write_file(folder / _RUN_FILE, json.dumps(asdict(run)).encode())


def read_model_run(folder: Path) -> ModelRun | None:
    """Return the model whose judgements are in `folder`; None if there are none. Raises DataError."""
    path = folder / _RUN_FILE
    if not path.is_file():
        return None
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
        return ModelRun(str(value["model"]), value["whole"] is True)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError('{"model": NAME, "whole": true or false}', str(error), path=path) from error

"""What a comparison, a race or a judging session may still cost before it starts: building, asking, reading."""

import warnings
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from ragindex.accounting import ledger
from ragindex.corpus.formats import corpus_name
from ragindex.errors import MissingPartError
from ragindex.estimate import (
    Estimate,
    EstimateScope,
    ReadingPlan,
    estimate_question_vectors,
    estimate_questions,
    estimate_reading,
)
from ragindex.estimate_left import (
    MOST_CHARACTERS,
    BuildPlan,
    estimate_left,
    find_payees,
    open_paid,
    require_keys,
    require_keys_of,
)
from ragindex.index.index import Index
from ragindex.index.manifest import read_manifest
from ragindex.index.parts import TRIPLES, paid_by, tasks_of
from ragindex.interfaces import Scheme
from ragindex.interfaces.llm import LLMPlugin, LLMSettings
from ragindex.llm.answer_question import READER_TASKS
from ragindex.plugins.base import asks_service
from ragindex.plugins.registry import PluginSpec
from ragindex.types import Chunking, Query
from ragindex_eval.data.datasets import Dataset
from ragindex_eval.run.answers import answers_name
from ragindex_eval.run.answers_file import answer_keys, answers_folder, find_answers
from ragindex_eval.run.bounds import bound_sources
from ragindex_eval.run.read_answers import make_reader
from ragindex_eval.run.settings import CompareSettings, IndexAndModelSettings, MeasureSettings

SAMPLED_QUESTIONS = 20
"""Of more questions a sample is counted before a command starts."""
_PASSAGES_PER_SEARCH = 100  # as services that charge by the search define it
_DEPTH = 50  # passages of a rerank request, where the method does not say


def estimate_comparison(
    models: IndexAndModelSettings,
    measured: MeasureSettings,
    data: Dataset | None,
    schemes: Mapping[str, Scheme],
    *,
    folder: Path | None = None,
    setting: LLMSettings | None = None,
    sample: int = 0,
    thorough: bool = False,
) -> list[Estimate]:
    """Estimate what comparing `schemes`, by label, still costs; [] if nothing is paid for.

    `folder` is that of the index, by default the one that `models` name for the data set. Without `data` the documents
    of the index are searched. Nothing is asked or written, but for a `sample`, which is paid for with `setting`. By
    default the estimate comes before the work: of a large corpus and of many questions a part is counted, and keys that
    are needed must be set. If it is `thorough`, everything is counted, and no key is needed. A service that a method
    asks is counted by its requests. Raises as `estimate_questions` and `estimate_left` do.
    """
    folder = folder or models.index_folder(data.name if data else "")
    model, encoder = find_payees(folder, models.llm, models.encoder)
    reader = find_payees(folder, measured.reader_llm or models.llm)[0] if measured.read else None
    services = {label: scheme for label, scheme in schemes.items() if any(paid_by(scheme))}
    if model is None and reader is None and encoder is None and not services:
        return []
    plan = BuildPlan(
        llm=models.llm,
        encoder=models.encoder,
        language=models.language,
        seed=models.seed,
        keep_calls=not models.no_cache,
        imported=() if models.triples is None else (TRIPLES,),
        chunking=None if data is None else data.corpus.split,
    )
    if not thorough:
        require_keys_of_methods(models, measured, schemes, folder)
    setting = setting or LLMSettings(reuse_answers=models.reuse_answers)
    recording = nullcontext() if sample else ledger.unrecorded()  # a sample is paid for
    with recording, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the work itself warns
        estimates = estimate_left(
            folder,
            None if data is None else data.corpus,
            schemes,
            setting,
            plan,
            sample=sample,
            thorough=thorough,
        )
        if data is None or not data.queries:
            return estimates
        if encoder is not None:
            estimates += estimate_question_vectors(schemes, encoder, setting.prices, data.queries)
        if model is not None or reader is not None:
            asking = _Asking(models, measured, data, folder, model, reader, setting)
            estimates += asking.estimate(schemes, sample, thorough=thorough)
        estimates += [_estimate_service(label, scheme, data.queries) for label, scheme in services.items()]
        left = [estimate for estimate in estimates if estimate.calls]
        if not thorough:
            require_keys_of([row for row in left if row.step != "answers"], model, encoder, folder)
            require_keys_of([row for row in left if row.step == "answers"], reader, encoder, folder)
    return left


def require_keys_of_methods(
    models: IndexAndModelSettings, measured: MeasureSettings, schemes: Mapping[str, Scheme], folder: Path
) -> None:
    """Raise UsageError if the methods, or the reader, ask a service without a key. Sends no request."""
    imported = () if models.triples is None else (TRIPLES,)
    plan = BuildPlan(llm=models.llm, encoder=models.encoder, keep_calls=not models.no_cache, imported=imported)
    require_keys(folder, schemes.values(), plan)
    require_keys(folder, (), replace(plan, llm=measured.reader_llm or models.llm), reads=measured.read)


def require_keys_before_reading(
    settings: CompareSettings, schemes: Mapping[str, Scheme], judge: PluginSpec | None = None, *, thorough: bool = False
) -> None:
    """Raise UsageError as `require_keys_of_methods`, also for a `judge`, before the documents of a comparison are read.

    Of a repository, the folder of the index is not known until then, unless it is named. A `thorough` estimate needs
    no key.
    """
    data = settings.data
    if thorough:
        return
    if settings.index is not None or (data is not None and Path(data).exists()):
        folder = settings.index_folder("" if data is None else corpus_name(Path(data)))
        require_keys_of_methods(settings, settings, schemes, folder)
        require_keys(folder, (), BuildPlan(llm=judge, keep_calls=not settings.no_cache), reads=judge is not None)


@dataclass(frozen=True, slots=True)
class _Asking:
    """The questions of a data set that methods ask the `model`, and the `reader`; None for one that costs nothing."""

    models: IndexAndModelSettings
    measured: MeasureSettings
    data: Dataset
    folder: Path
    model: LLMPlugin | None
    reader: LLMPlugin | None
    setting: LLMSettings

    def estimate(self, schemes: Mapping[str, Scheme], sample: int, *, thorough: bool) -> list[Estimate]:
        """Estimate what is asked for the questions whose answers the index does not keep."""
        data, measured, models = self.data, self.measured, self.models
        chunking: Chunking | Literal["default"] | None = data.corpus.chunking
        paid, paid_answers = [
            None if models.no_cache or plugin is None else open_paid(self.folder, plugin, self.setting)
            for plugin in (self.model, self.reader)
        ]
        left = {label: list(data.queries) for label in schemes}
        if read_manifest(self.folder) is not None and not models.no_cache:
            with Index.open(self.folder, **models.opened_with(), read_only=True) as index:
                chunking = index.chunking
                left = {label: self._list_left(index, scheme) for label, scheme in schemes.items()}
        scope = EstimateScope(
            seed=models.seed or 0,
            language=models.language,
            chunking=chunking,
            paid=paid,
            sample=sample,
            most_characters=None if thorough else MOST_CHARACTERS,
            most_questions=None if thorough else SAMPLED_QUESTIONS,
        )
        reading = None
        if self.reader is not None:
            limits, task = measured.context_limits(), READER_TASKS[measured.reader_prompt]
            reading = ReadingPlan(self.reader, limits, task, paid_answers)
        groups: dict[tuple[str, ...], dict[str, Scheme]] = {}
        for label, scheme in schemes.items():
            if (reading is not None or (self.model is not None and tasks_of(scheme))) and not asks_service(scheme):
                groups.setdefault(tuple(query.id for query in left[label]), {})[label] = scheme
        estimates = list[Estimate]()
        for ids, group in groups.items():
            queries = [query for query in data.queries if query.id in ids]
            if queries:
                estimates += estimate_questions(
                    *(data.corpus, group, self.model, self.setting, queries),
                    reading=reading,
                    k=measured.k[-1],
                    scope=scope,
                )
        return estimates if reading is None else [*estimates, *self._estimate_bounds(chunking, reading)]

    def _list_left(self, index: Index, scheme: Scheme) -> list[Query]:
        """Return the questions whose answers the index does not keep."""
        data, measured, reader = self.data, self.measured, None
        if measured.read:
            reader = make_reader(index, measured, data.gold)
        path = answers_name(measured.k[-1], reader)
        try:
            answers = find_answers(answers_folder(index, scheme) / path, answer_keys(data.queries, data.gold))
        except MissingPartError:
            return list(data.queries)
        return [query for query in data.queries if query.id not in answers]

    def _estimate_bounds(self, chunking: Chunking | Literal["default"] | None, reading: ReadingPlan) -> list[Estimate]:
        """Estimate the answers without passages and from the gold passages, which `compare --read` asks for, too."""
        language = self.models.language or "english"
        cut = Chunking() if chunking == "default" else chunking
        queries, sources = bound_sources(self.data, cut, language)
        rules = reading.open_rules()
        return [
            estimate
            for label, source in sources.items()
            for retrievals in [source.retrieve(queries, self.measured.k[-1])]
            for estimate in estimate_reading(reading, rules, label, queries, retrievals, language, self.setting)
        ]


def _estimate_service(label: str, scheme: Scheme, queries: Sequence[Query]) -> Estimate:
    """Return the estimate of a service that a method asks for each question: its requests; their tokens are unknown."""
    prices = (getattr(part, "search_price", None) for part in paid_by(scheme))
    price = next((price for price in prices if price is not None), None)
    money = None if price is None else len(queries) * price / 1000
    return Estimate(
        f"requests, {label}",
        *(len(queries), 0, 0),
        money=money,
        sampled=False,
        counted=True,
        money_low=money,
        money_high=money,
        basis="counted",
        methods=(label,),
        step="questions",
    )

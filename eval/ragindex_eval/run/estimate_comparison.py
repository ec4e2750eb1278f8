"""What a comparison, a race or a judging session may still cost before it starts: building, asking, reading."""

import warnings
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Literal

from ragindex.accounting import ledger
from ragindex.counting import Counting
from ragindex.errors import MissingPartError
from ragindex.estimate import (
    Estimate,
    EstimateScope,
    Pricing,
    estimate_question_vectors,
    estimate_questions,
    estimate_reading,
)
from ragindex.estimate_left import MOST_CHARACTERS, BuildPlan, estimate_left, find_payees, open_paid
from ragindex.index.index import Index
from ragindex.index.manifest import read_manifest
from ragindex.index.parts import TRIPLES, paid_by, tasks_of
from ragindex.interfaces import Scheme
from ragindex.interfaces.llm import LLMPlugin, LLMSettings
from ragindex.llm import answer_question
from ragindex.plugins.base import asks_service
from ragindex.types import Chunking, Query, Retrieval
from ragindex_eval.data.datasets import Dataset
from ragindex_eval.run.answers import answers_name
from ragindex_eval.run.answers_file import answer_keys, answers_folder, find_answers
from ragindex_eval.run.bounds import bound_sources
from ragindex_eval.run.read_answers import make_reader
from ragindex_eval.run.settings import CompareSettings

SAMPLED_QUESTIONS = 20
"""Of more questions a sample is counted before a command starts."""
_PASSAGES_PER_SEARCH = 100  # as services that charge by the search define it
_DEPTH = 50  # passages of a rerank request, where the method does not say


def estimate_comparison(
    settings: CompareSettings,
    data: Dataset | None,
    folder: Path,
    schemes: Mapping[str, Scheme],
    *,
    setting: LLMSettings | None = None,
    sample: int = 0,
    thorough: bool = False,
) -> list[Estimate]:
    """Estimate what comparing `schemes`, by label, still costs in the index `folder`; [] if nothing is paid for.

    Without `data` the documents of the index are searched. Nothing is asked or written, but for a `sample`, which is
    paid for with `setting`. Of a large corpus and of many questions a part is counted, unless `thorough`. A service
    that a method asks is counted by its requests. Raises as `estimate_questions` does.
    """
    model, encoder = find_payees(folder, settings.llm, settings.encoder)
    services = {label: scheme for label, scheme in schemes.items() if any(paid_by(scheme))}
    if model is None and encoder is None and not services:
        return []
    setting = setting or LLMSettings(reuse_answers=settings.reuse_answers)
    recording = nullcontext() if sample else ledger.unrecorded()  # a sample is paid for
    with recording, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the work itself warns
        found = estimate_left(
            folder,
            None if data is None else data.corpus,
            schemes,
            setting,
            BuildPlan(
                llm=settings.llm,
                encoder=settings.encoder,
                language=settings.language,
                seed=settings.seed,
                keep_calls=not settings.no_cache,
                imported=() if settings.triples is None else (TRIPLES,),
            ),
            sample=sample,
            most_characters=None if thorough else MOST_CHARACTERS,
        )
        if data is None or not data.queries:
            return found
        if encoder is not None:
            found += estimate_question_vectors(schemes, encoder, setting.prices, data.queries)
        if model is not None:
            found += _estimate_asking(settings, data, folder, schemes, model, setting, sample, thorough=thorough)
        found += [_estimate_service(label, scheme, data.queries) for label, scheme in services.items()]
    return [one for one in found if one.calls]


def _estimate_asking(
    settings: CompareSettings,
    data: Dataset,
    folder: Path,
    schemes: Mapping[str, Scheme],
    model: LLMPlugin,
    setting: LLMSettings,
    sample: int,
    *,
    thorough: bool,
) -> list[Estimate]:
    """Estimate what the methods, and the reader, ask the language model for the questions that are left."""
    chunking: Chunking | Literal["default"] | None = data.corpus.chunking
    paid = None if settings.no_cache else open_paid(folder, model, setting)
    left = {label: list(data.queries) for label in schemes}
    if read_manifest(folder) is not None and not settings.no_cache:
        with Index.open(folder, **settings.opened_with(), read_only=True) as index:
            chunking = index.chunking
            left = {label: _list_left(settings, data, index, scheme) for label, scheme in schemes.items()}
    scope = EstimateScope(
        seed=settings.seed or 0,
        language=settings.language,
        chunking=chunking,
        paid=paid,
        sample=sample,
        most_characters=None if thorough else MOST_CHARACTERS,
        most_questions=None if thorough else SAMPLED_QUESTIONS,
    )
    groups: dict[tuple[str, ...], dict[str, Scheme]] = {}
    for label, scheme in schemes.items():
        if (settings.read or tasks_of(scheme)) and not asks_service(scheme):
            groups.setdefault(tuple(query.id for query in left[label]), {})[label] = scheme
    found = list[Estimate]()
    for ids, group in groups.items():
        queries = [query for query in data.queries if query.id in ids]
        if queries:
            found += estimate_questions(
                *(data.corpus, group, model, setting, queries),
                reads=settings.read,
                reader_tokens=settings.reader_tokens,
                k=settings.k[-1],
                scope=scope,
            )
    if settings.read:
        counting = Counting.beside(Pricing.of(model, setting).name, paid).open()
        found += estimate_bounds(settings, data, chunking, counting, Pricing.of(model, setting))
    return found


def _list_left(settings: CompareSettings, data: Dataset, index: Index, scheme: Scheme) -> list[Query]:
    """Return the questions whose answers the index does not keep."""
    keys, reader = answer_keys(data.queries, data.gold), None
    if settings.read:
        reader = make_reader(index, settings.reader_tokens, settings.reader_prompt, data.gold)
    try:
        answers = find_answers(answers_folder(index, scheme) / answers_name(settings.k[-1], reader), keys)
    except MissingPartError:
        return list(data.queries)
    return [query for query in data.queries if query.id not in answers]


def estimate_bounds(
    settings: CompareSettings, data: Dataset, chunking: Any, rules: Any, pricing: Pricing
) -> list[Estimate]:
    """Estimate the answers without passages and from the gold passages, which `compare --read` asks for, too."""
    cut = Chunking() if chunking == "default" else chunking
    queries, sources = bound_sources(data, cut, settings.language or "english")
    found = list[Estimate]()
    for label, source in sources.items():
        retrievals: list[Retrieval] = source.retrieve(queries, settings.k[-1])
        inputs = [
            answer_question.answer_inputs(
                query.text,
                answer_question.build_context(each.hits, each.notes, settings.reader_tokens, pricing.name),
                settings.language or "english",
            )
            for query, each in zip(queries, retrievals, strict=True)
        ]
        found += estimate_reading(inputs, (), rules, None, label, pricing=pricing)
    return found


def _estimate_service(label: str, scheme: Scheme, queries: Sequence[Query]) -> Estimate:
    """Return the estimate of a service that a method asks for each question: its requests; their tokens are unknown."""
    price = next((price for one in paid_by(scheme) if (price := getattr(one, "search_price", None)) is not None), None)
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

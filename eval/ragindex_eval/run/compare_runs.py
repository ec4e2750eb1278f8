"""A comparison of rankings in files with judgements in a file: no index and no documents are needed.

It has the scores, intervals, tests and report of any other comparison. What the files do not say is unknown: time,
money, size, and the texts of questions.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from ragindex._util.canonical import digest
from ragindex.errors import UsageError
from ragindex.types import Query
from ragindex_eval.conclusions.differences import compare_methods, with_intervals
from ragindex_eval.conclusions.questions import plan_questions
from ragindex_eval.data.gold import Gold
from ragindex_eval.data.run_files import RunFile, read_qrels, read_run
from ragindex_eval.format import many
from ragindex_eval.metrics import retrieval
from ragindex_eval.results.model import (
    NOT_TIMED,
    UNKNOWN,
    UNKNOWN_USAGE,
    ComparedMethods,
    Comparison,
    DatasetFacts,
    MethodAnswer,
    MethodResult,
    SavedHit,
    sort_methods,
)
from ragindex_eval.run.environment import environment
from ragindex_eval.run.settings import MeasureSettings


def compare_runs(
    files: Sequence[Path], qrels: Path, settings: MeasureSettings, seed: int = 0, *, ignore_identical_ids: bool = False
) -> Comparison:
    """Compare the rankings in files by the judgements of `qrels`.

    A question of the judgements that a file lacks, or that has no relevant document, scores 0, as ir_measures has it.
    With `ignore_identical_ids`, hits of a document with the question's own id are left out, as BEIR's evaluation does.
    Raises DataError for files that cannot be read, and UsageError if no question has a relevant document, or two runs
    have the same name.
    """
    grades = read_qrels(qrels)
    gold = {query: _make_gold(of_query) for query, of_query in grades.items()}
    if not any(right.doc_ids for right in gold.values()):
        raise UsageError(f"{qrels} judges no document as relevant, so no ranking can be scored.")
    runs = [read_run(path) for path in files]
    _require_different([run.name for run in runs])
    queries = tuple(Query(query, query) for query in grades)
    results = [_score_run(run, gold, settings.k, ignore_identical_ids=ignore_identical_ids) for run in runs]
    ranked = tuple(with_intervals(sort_methods(results, settings.k), gold, seed))
    identity = digest(grades)
    dataset = DatasetFacts(
        name=qrels.name,
        format="rankings in files",
        documents=None,
        passages=None,
        questions=len(queries),
        judged=len(queries),
        fingerprint=identity,
        questions_digest=identity,
        questions_file=qrels.name,
    )
    compared = ComparedMethods(ks=settings.k, methods=ranked, pairs=compare_methods(ranked, seed))
    return Comparison(
        dataset=dataset,
        encoder=UNKNOWN,
        encoder_id=None,
        llm=UNKNOWN,
        store=UNKNOWN,
        language=UNKNOWN,
        seed=seed,
        ks=settings.k,
        queries=queries,
        gold=gold,
        titles={},
        methods=compared.methods,
        pairs=compared.pairs,
        enough=plan_questions(compared, dataset.judged),
        notes=tuple(_list_notes(runs, gold, settings.k[-1], ignore_identical_ids=ignore_identical_ids)),
        left_out=(),
        environment=environment(),
        fingerprint=digest([dataset.fingerprint, list(settings.k), *sorted(result.fingerprint for result in results)]),
        asked=tuple(run.name for run in runs),
    )


def _make_gold(grades: Mapping[str, int]) -> Gold:
    relevant = {document: grade for document, grade in grades.items() if grade > 0}
    return Gold(frozenset(relevant), grades=relevant)


def _score_run(
    run: RunFile, gold: Mapping[str, Gold], ks: Sequence[int], *, ignore_identical_ids: bool
) -> MethodResult:
    """Return the result of a run; of what it took nothing is known."""
    answers, per_query = list[MethodAnswer](), dict[str, Mapping[str, float]]()
    nothing = dict.fromkeys(retrieval.metric_names(ks), 0.0)
    for query, right in gold.items():
        ranking = run.rankings.get(query, ())
        if ignore_identical_ids:
            ranking = tuple(scored for scored in ranking if scored[0] != query)
        hits = tuple(SavedHit(document, (document,), score) for document, score in ranking[: ks[-1]])
        answers.append(MethodAnswer(query, hits, usage=UNKNOWN_USAGE))
        documents = [hit.doc_ids for hit in hits]
        per_query[query] = retrieval.score_hits(documents, right.grades, ks) if right.doc_ids else nothing
    return MethodResult(
        name=run.name,
        label=run.name,
        params={},
        fingerprint=digest([[answer.query_id, [[hit.id, hit.score] for hit in answer.hits]] for answer in answers]),
        answers={ks[-1]: tuple(answers)},
        per_query=per_query,
        metrics=retrieval.means(list(per_query.values())),
        latency=NOT_TIMED,
        parts={},
        built=False,
    )


def _require_different(names: Sequence[str]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"Two runs are called {name!r}: rename one of the files, whose names are the labels.")


def _list_notes(runs: Sequence[RunFile], gold: Mapping[str, Gold], k: int, *, ignore_identical_ids: bool) -> list[str]:
    notes = ["rankings were read from files: what they took to build and to find is unknown"]
    own = sum(query in dict(ranked[:k]) for run in runs for query, ranked in run.rankings.items())
    if ignore_identical_ids:
        notes.append("hits of a document with the question's own id are left out, as BEIR's evaluation does")
    elif own:
        counted = f"{many(own, 'hit is', 'hits are')} of a document with the question's own id"
        notes.append(f"{counted}, and count, as trec_eval has it; --ignore-identical-ids leaves them out")
    for run in runs:
        missing = sum(query not in run.rankings for query in gold)
        if missing:
            notes.append(f"{run.name} lacks {many(missing, 'judged question')}: each scores 0")
        unjudged = sum(query not in gold for query in run.rankings)
        if unjudged:
            notes.append(f"{run.name} ranks for {many(unjudged, 'question')} without judgements, which are left out")
    unjudgeable = sum(not right.doc_ids for right in gold.values())
    if unjudgeable:
        have = many(unjudgeable, "question has", "questions have")
        notes.append(f"{have} no relevant document, and score 0, as ir_measures has it")
    return notes

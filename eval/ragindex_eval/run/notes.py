"""Notes of a comparison: what a user should know about the data, the index and the figures."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from ragindex._util.text import first_names
from ragindex.corpus import describe_ignored, describe_left_out
from ragindex.corpus.judgements import question_id
from ragindex.corpus.near_duplicates import Samples, are_almost_equal, sample_documents
from ragindex.index.notes import describe_old_fit, format_part_notes
from ragindex.llm.answer_question import parse_choice
from ragindex.plugins.base import walk_plugins
from ragindex.retrieval.trace import UNKNOWN_DOCUMENTS
from ragindex.types import Document
from ragindex_eval.conclusions.questions import FEWEST_OF_EACH
from ragindex_eval.data import gold_classes
from ragindex_eval.data.datasets import Dataset
from ragindex_eval.data.gold import Gold
from ragindex_eval.data.titles import find_naming
from ragindex_eval.format import many
from ragindex_eval.metrics.answers import select_shown
from ragindex_eval.metrics.retrieval import equivalents, judgements, list_judged, ranking, standing
from ragindex_eval.results.model import MethodAnswer, MethodResult
from ragindex_eval.run.answers_file import EarlierAnswers, note_of_earlier
from ragindex_eval.run.ask import describe_own_documents
from ragindex_eval.run.experiment import Experiment
from ragindex_eval.run.plan import Method

_HITS = 10  # of each method on a question
_MOST_SAMPLED = 2_000  # documents in all


def list_notes(
    experiment: Experiment,
    methods: Sequence[Method],
    ranked: Sequence[MethodResult],
    failed: Sequence[MethodResult],
    bounds: Sequence[MethodResult],
    near: Mapping[str, Mapping[str, str]],
    earlier: Mapping[str, EarlierAnswers],
) -> list[str]:
    """Return what changes a figure or the user's next step; all are shown.

    `near` is what `find_near_gold` returns, and `earlier` counts the answers reused from an earlier run, by label.
    """
    index, dataset, k = experiment.index, experiment.dataset, experiment.ks[0]
    compared = [method for method in methods if method.label in {result.label for result in ranked}]
    schemes = [method.scheme for method in compared]
    return [
        *describe_own_documents(dataset.gold),  # first, so that no list of notes is cut before it
        *filter(None, [note_of_earlier(earlier)]),
        *_price_notes(experiment, [*ranked, *failed], methods),
        *_elsewhere_notes([*ranked, *failed]),
        *_naming_notes(len(find_naming_questions(dataset)), _count_judged(dataset)),
        *_fitted_notes(dataset, compared),
        *filter(None, [describe_old_fit(index, schemes, [query.text for query in dataset.queries])]),
        *_data_notes(dataset),
        *describe_near_gold(dataset, near, k),
        *_unanswerable_notes(dataset),
        *_search_notes(ranked),
        *unknown_documents_notes({result.label: result.final for result in (*ranked, *failed)}),
        *format_part_notes(index, schemes),
        *(_reading_notes(dataset, ranked, bounds) if experiment.reader else ()),
        *(f"Disambig-F1 is by the spans of {name}" for name in list_qa_models(experiment)),
    ]


def find_naming_questions(dataset: Dataset) -> frozenset[str]:
    """Return the ids of the questions that name the title of a document that answers them; one alone is no group."""
    naming = find_naming(dataset.queries, dataset.gold, list_titles(dataset))
    return frozenset(naming) if len(naming) != 1 else frozenset()


def describe_naming(dataset: Dataset) -> str:
    """Return a sentence on how many questions name the title of a document that answers them; "" if none does."""
    naming = find_naming(dataset.queries, dataset.gold, list_titles(dataset))
    return _count_naming(len(naming), _count_judged(dataset))


def _count_judged(dataset: Dataset) -> int:
    return sum(bool(right.doc_ids) for right in (dataset.gold or {}).values())


def _count_naming(naming: int, judged: int) -> str:
    name, them = ("names", "it") if naming == 1 else ("name", "them")
    sentence = f"{naming:,} of {many(judged, 'question')} {name} the title of a document that answers {them}"
    return sentence if naming else ""


def list_titles(dataset: Dataset) -> Mapping[str, str]:
    """Return the titles of the gold documents by id."""
    wanted = {id for gold in (dataset.gold or {}).values() for id in gold.doc_ids}
    return {document.id: document.title for document in dataset.corpus.documents if document.id in wanted}


def _price_notes(experiment: Experiment, results: Sequence[MethodResult], methods: Sequence[Method]) -> list[str]:
    unknown = [result.label for result in results if result.built and _is_money_unknown(result)]
    if not unknown:
        return []
    reads = any(answer.reading is not None for result in results for answer in result.final)
    reader = experiment.reader.plugin if reads and experiment.reader else None
    names = experiment.index.unpriced((method.scheme for method in methods if method.label in unknown), also=reader)
    who = " and ".join(names) or "a model"
    advice = "set it in a price file named by RAGINDEX_PRICES; calls that are already made keep an unknown cost"
    return [f"no price of {who} is known, so the cost of {', '.join(unknown)} is unknown: {advice}"]


def _elsewhere_notes(results: Sequence[MethodResult]) -> list[str]:
    """Return a note on methods that were not built here; [] if all were."""
    labels = [result.label for result in results if not result.built]
    return [f"what {', '.join(labels)} took to build, and what it pays, is unknown"] if labels else []


def _is_money_unknown(result: MethodResult) -> bool:
    usages = [result.index_usage, result.query_usage, result.spent]
    return any(usage.money is None for usage in usages)


def _search_notes(results: Sequence[MethodResult]) -> list[str]:
    """Return notes on parts of the index whose search is approximate."""
    return [
        f"{result.label}: {name} is searched {figures.search}"
        for result in results
        for name, figures in result.parts.items()
        if figures.search.startswith("approximate")
    ]


def unknown_documents_notes(answers: Mapping[str, Sequence[MethodAnswer]]) -> list[str]:
    """Return a note for each label whose answers had hits of no document of the corpus, which count as misses."""
    notes = list[str]()
    for label, of_method in answers.items():
        unknown = [step.ids for answer in of_method for step in answer.trace if step.index == UNKNOWN_DOCUMENTS]
        if unknown:
            ids = list(dict.fromkeys(id for ids in unknown for id in ids))
            named = first_names([repr(id[:80]) for id in ids])
            counts = f"{many(sum(map(len, unknown)), 'hit')} on {len(unknown):,} of {many(len(of_method), 'question')}"
            notes.append(f"{label}: {counts} name no document of the corpus, and count as misses: {named}")
    return notes


def list_file_notes(dataset: Dataset) -> list[str]:
    """Return notes on files that stand out, such as one with most of all text, and on what was left out and why."""
    return [*dataset.corpus.notes, *describe_left_out(dataset.skipped)]


def _data_notes(dataset: Dataset) -> tuple[str, ...]:
    """Return the notes of the dataset, and notes on what was not read and why."""
    equal_texts = gold_classes.note(dataset.gold)
    return (
        *dataset.notes,
        *list_file_notes(dataset),
        *([equal_texts] if equal_texts else []),
        *describe_ignored(dataset.corpus.ignored, dataset.corpus.unread),
    )


def _unanswerable_notes(dataset: Dataset) -> list[str]:
    """Return a note if too few questions are marked as unanswerable to choose a threshold of the score."""
    count = sum(not right.answerable for right in (dataset.gold or {}).values())
    if not count or min(count, _count_judged(dataset)) >= FEWEST_OF_EACH:
        return []
    questions = f"{many(count, 'question')} of answerable=no and {_count_judged(dataset):,} with gold"
    return [f"{questions} are too few to measure who rightly finds nothing: {FEWEST_OF_EACH} of each are needed"]


def _fitted_notes(dataset: Dataset, methods: Sequence[Method]) -> Iterator[str]:
    """Yield a note for each method of which a parameter was fitted to questions of the dataset."""
    ids = {question_id(query.text) for query in dataset.queries}
    for method in methods:
        known = ids.intersection(id for plugin in walk_plugins(method.scheme) for id in plugin.fitted_to())
        if known:
            yield (
                f"{method.label} was fitted to {len(known):,} of these {many(len(ids), 'question')}, where its figures "
                "are too high: see those out of fold, of ragindex tune"
            )


def _naming_notes(naming: int, judged: int) -> list[str]:
    """Return a note that questions name titles of their gold documents; [] if none does."""
    sentence = _count_naming(naming, judged)
    if not sentence:
        return []
    if naming == judged:
        return [f"{sentence}: questions without it may rank the methods otherwise"]
    return [f"{sentence}: compare the figures of both groups of questions, because their mean hides the difference"]


def list_qa_models(experiment: Experiment) -> list[str]:
    """Return the name of the model for extractive QA, if it measures anything."""
    ambiguous = any(right.sub_questions for right in (experiment.dataset.gold or {}).values())
    return [experiment.qa_model] if experiment.qa_model and ambiguous else []


def _reading_notes(dataset: Dataset, methods: Sequence[MethodResult], bounds: Sequence[MethodResult]) -> Iterator[str]:
    """Yield notes on questions without accepted answers, on answers that name no option, and on answers not read."""
    questions, answerable = len(dataset.queries), len(bounds[0].final) if bounds else 0
    measured = _join_names(bounds[0].metrics) if bounds else ""
    if not answerable:
        yield "no question has accepted answers: answers were read, and not measured"
    elif answerable < questions:
        counts = f"{answerable:,} of {many(questions, 'question')}"
        yield f"{measured} are over {counts}: the others have no accepted answers"
    for method in (*methods, *bounds):
        reasons = [answer.reading.error for answer in method.final if answer.reading and answer.reading.error]
        if reasons:
            score = "scores" if len(reasons) == 1 else "score"
            missing = f"{many(len(reasons), 'answer')} could not be read and {score} 0 at {measured}"
            yield f"{method.label}: {missing}: {reasons[0]}"
        if unnamed := _count_unnamed(method, dataset.gold or {}):
            yield f"{method.label}: {many(unnamed, 'answer')} named no option and count as wrong"


def _join_names(metrics: Iterable[str]) -> str:
    return " and ".join(select_shown(list(metrics)))


def _count_unnamed(method: MethodResult, gold: Mapping[str, Gold]) -> int:
    """Return how many answers to multiple-choice questions were read, and name no option."""
    options = {id: item.options for id, item in gold.items() if item.options and item.answers}
    read = [(item.reading, options[item.query_id]) for item in method.final if item.query_id in options]
    return sum(
        reading is not None and reading.error is None and parse_choice(reading.answer, among) is None
        for reading, among in read
    )


# ---------------------------------------------------------------- documents that are almost gold


def find_near_gold(dataset: Dataset, methods: Sequence[MethodResult], k: int) -> dict[str, dict[str, str]]:
    """Return by question the found documents that are almost equal to a gold document that a method missed at k.

    Each is mapped to that gold document. The first hits of each method are looked at.
    """
    documents = {document.id: document for document in dataset.corpus.documents}
    answers = [{answer.query_id: answer for answer in method.final} for method in methods]
    samples, near_gold = Samples(), dict[str, dict[str, str]]()
    for query in list_judged(dataset):
        grades, equal = judgements(dataset.gold, query.id), equivalents(dataset.gold, query.id)
        pairs = dict[str, str]()
        for answer in (of_method[query.id] for of_method in answers if query.id in of_method):
            missed = sorted(grades.keys() - standing(ranking(hit.doc_ids for hit in answer.hits[:k]), equal)[:k])
            others = [id for id in _first_documents(answer) if id not in grades and id not in equal] if missed else []
            pairs |= _pair(others, missed, documents, samples)
        if pairs:
            near_gold[query.id] = pairs
    return near_gold


def _first_documents(answer: MethodAnswer) -> list[str]:
    return ranking(hit.doc_ids for hit in answer.hits[:_HITS])


def _pair(
    others: Sequence[str], missed: Sequence[str], documents: Mapping[str, Document], samples: Samples
) -> dict[str, str]:
    """Return which of the others is almost equal to which missed document; adds to `samples` what it compares."""
    for id in (*others, *missed) if others else ():
        if id not in samples and id in documents and len(samples) < _MOST_SAMPLED:
            samples |= sample_documents([documents[id]])
    return {
        other: id
        for other in others
        for id in reversed(missed)
        if other in samples and id in samples and are_almost_equal(samples[other], samples[id])
    }


def describe_near_gold(dataset: Dataset, near: Mapping[str, Mapping[str, str]], k: int) -> list[str]:
    """Return a note on what was found in place of gold documents; [] if there is nothing."""
    if not near:
        return []
    query, pairs = next(iter(near.items()))
    other, gold = next(iter(pairs.items()))
    of = "a gold document that a method missed"
    either = f": if either counts, write {gold}|{other} under 'documents'" if dataset.questions_file else ""
    was = "a document was" if sum(map(len, near.values())) == 1 else "documents were"
    return [
        f"on {many(len(near), 'question')} {was} found with nearly the text of {of} at {k}, "
        f"as {other} for {gold} ({query}){either}"
    ]

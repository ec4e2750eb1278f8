"""Readers of the questions of benchmarks, with their gold, from the published files.

`ragindex.corpus.benchmarks` and `ragindex.corpus.benchmarks` read the corpora and name the sources of the formats.
"""

from collections.abc import Iterator, Mapping
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, TypeAlias

import regex

from ragindex.corpus.benchmarks import (
    asqa_passages,
    find_ircot_questions,
    find_multihop_rag_files,
    parse_context_entry,
    parse_paragraph,
    read_asqa_items,
)
from ragindex.corpus.corpus import parse_id
from ragindex.corpus.json_reader import Item, Problems, read_json_items, read_json_lines
from ragindex_eval.data.gold import Gold, SubQuestion
from ragindex_eval.data.questions import DatasetQuestion, DocumentFinder, require_text

_Content: TypeAlias = tuple[str, str]  # title and text
_HOPS = regex.compile(r"(\d+hop\d*)__")  # MuSiQue's ids: 2hop__…, 3hop1__…
_REFERENCE = regex.compile(r"#(\d)")  # an earlier answer in a question of MuSiQue's decompositions
_MOST_OPTIONS = 26  # the reader names them A to Z
_KINDS_OF_DIFFICULTY = {0: "easy", 1: "hard"}


# ---------------------------------------------------------------- HippoRAG, MuSiQue, HotpotQA, 2WikiMultihopQA


def read_benchmark_questions(path: Path, finder: DocumentFinder, problems: Problems) -> Iterator[DatasetQuestion]:
    """Yield the questions of HippoRAG, MuSiQue, HotpotQA or 2WikiMultihopQA, with supporting texts as gold."""
    return problems.each(lambda item: _benchmark_question(item, finder), read_json_items(path, problems))


def _benchmark_question(item: Item, finder: DocumentFinder) -> DatasetQuestion:
    text = require_text(item, item.text("question"))
    if "paragraphs" in item.fields:
        gold, listed = _supporting_paragraphs(item, finder)
    elif "supporting_facts" in item.fields:
        gold, listed = _supporting_facts(item, finder)
    else:
        raise item.error("gold under 'paragraphs' or 'supporting_facts'", item.under("paragraphs"))
    source_id = parse_id(item) or ""
    kind = _hops(source_id) or item.text("type", default="")
    candidates = frozenset(id for title, body in listed if (id := finder.candidate(title, body)) is not None)
    return DatasetQuestion(text, Gold(frozenset(gold), _answers(item), kind, source_id, candidates=candidates))


def _hops(source_id: str) -> str:
    match = _HOPS.match(source_id)
    return match[1] if match else ""


def _supporting_paragraphs(item: Item, finder: DocumentFinder) -> tuple[list[str], list[_Content]]:
    """Return the ids of the supporting paragraphs, and title and text of every paragraph."""
    gold, listed, paragraphs = list[str](), list[_Content](), item.array("paragraphs")
    if not paragraphs:
        raise item.error("a question with paragraphs", "one without any")
    for value in paragraphs:
        paragraph = item.within(value, "a paragraph")
        supporting = _is_supporting(paragraph)
        listed.append(parse_paragraph(paragraph))
        if supporting:
            gold += finder.content(*listed[-1], paragraph)
    return gold, listed


def _is_supporting(paragraph: Item) -> bool:
    supporting = paragraph.fields.get("is_supporting", False)
    if not isinstance(supporting, bool):
        raise paragraph.error("true or false under 'is_supporting'", paragraph.under("is_supporting"))
    return supporting


def _supporting_facts(item: Item, finder: DocumentFinder) -> tuple[list[str], list[_Content]]:
    """Return the ids of the supporting documents, and title and text of every entry of the context."""
    entries = item.array("context") if "context" in item.fields else []
    listed = [parse_context_entry(item, value) for value in entries]
    contents = dict(listed)
    titles = []
    for fact in item.array("supporting_facts"):
        if not isinstance(fact, list) or not fact:
            raise item.error("supporting_facts of [title, sentence number] pairs", item.under("supporting_facts"))
        titles.append(item.unicode(fact[0], "a title in supporting_facts"))
    return [id for title in dict.fromkeys(titles) for id in finder.title(title, contents, item)], listed


def _answers(item: Item) -> tuple[str, ...]:
    answers = [*_strings(item, "answer"), *_strings(item, "answer_aliases")]
    return tuple(dict.fromkeys(answer for answer in answers if answer.strip()))


def _strings(item: Item, key: str) -> list[str]:
    value: Any = item.fields.get(key)
    values = [] if value is None else value if isinstance(value, list) else [value]
    return [item.unicode(entry, f"a string or an array of strings under {key!r}") for entry in values]


# ---------------------------------------------------------------- single hops of MuSiQue


def read_single_hop_questions(
    path: Path, finder: DocumentFinder, problems: Problems, *, filled: bool
) -> Iterator[DatasetQuestion]:
    """Yield the questions of `question_decomposition` in a MuSiQue file, each once, with its one paragraph as gold.

    Questions that refer to an earlier answer (`#1`) are left out, or, if `filled`, the answer takes the place of the
    reference, as in IRCoT (process_musique.py).
    """
    seen = set[tuple[str, frozenset[str]]]()
    for question in chain.from_iterable(
        problems.each(partial(_single_hops, finder=finder, filled=filled), read_json_items(path, problems))
    ):
        identity = question.text, frozenset() if question.gold is None else question.gold.doc_ids
        if identity not in seen:
            seen.add(identity)
            yield question


def _single_hops(item: Item, finder: DocumentFinder, filled: bool) -> list[DatasetQuestion]:
    paragraphs = [item.within(value, "a paragraph") for value in item.array("paragraphs")]
    by_number = {paragraph.fields.get("idx", place): paragraph for place, paragraph in enumerate(paragraphs)}
    last, answers, questions = _answers(item), dict[str, str](), list[DatasetQuestion]()
    for number, value in enumerate(item.array("question_decomposition"), 1):
        step = item.within(value, "a step of 'question_decomposition'")
        text, answer = require_text(step, step.text("question")), step.text("answer")
        refers = _REFERENCE.search(text) is not None
        answers[str(number)] = answer
        if refers and not filled:
            continue
        accepted = last if answer in last else (answer,)
        gold = Gold(_step_gold(step, by_number, finder), accepted, "filled" if refers else "", parse_id(step) or "")
        questions.append(DatasetQuestion(_fill_references(step, text, answers), gold))
    return questions


def _fill_references(step: Item, text: str, answers: Mapping[str, str]) -> str:
    unknown = [number for number in _REFERENCE.findall(text) if number not in answers]
    if unknown:
        raise step.error("references to earlier steps", f"#{unknown[0]} in {text[:80]!r}")
    return str(_REFERENCE.sub(lambda match: answers[match[1]], text))


def _step_gold(step: Item, by_number: Mapping[Any, Item], finder: DocumentFinder) -> frozenset[str]:
    """Return the ids of the paragraph that answers a step; none if it is null, as in unanswerable questions."""
    number = step.fields.get("paragraph_support_idx")
    if number is None:
        return frozenset()
    if type(number) is not int or number not in by_number:
        expected = "the number of a paragraph under 'paragraph_support_idx'"
        raise step.error(expected, step.under("paragraph_support_idx"))
    paragraph = by_number[number]
    return frozenset(finder.content(*parse_paragraph(paragraph), paragraph))


# ---------------------------------------------------------------- IRCoT


def read_ircot_questions(path: Path, finder: DocumentFinder, problems: Problems) -> Iterator[DatasetQuestion]:
    """Yield the questions of IRCoT's processed files; gold are the contexts with `is_supporting`.

    Accepted answers are the `spans` of all `answers_objects`; the processed files leave out MuSiQue's aliases.
    """
    items = read_json_lines(find_ircot_questions(path), problems)
    return problems.each(lambda item: _ircot_question(item, finder), items)


def _ircot_question(item: Item, finder: DocumentFinder) -> DatasetQuestion:
    text, source_id, gold = require_text(item, item.text("question_text")), item.text("question_id"), list[str]()
    for value in item.array("contexts"):
        context = item.within(value, "a context")
        if _is_supporting(context):
            title, body = parse_paragraph(context)
            gold += finder.content(title.strip(), body.strip(), context)
    given = [item.within(value, "an object in 'answers_objects'") for value in item.array("answers_objects")]
    spans = [paragraph.unicode(span, "a string in 'spans'") for paragraph in given for span in paragraph.array("spans")]
    answers = tuple(dict.fromkeys(span for span in spans if span.strip()))
    return DatasetQuestion(text, Gold(frozenset(gold), answers, _hops(source_id), source_id))


# ---------------------------------------------------------------- MultiHop-RAG


def read_multihop_rag_questions(path: Path, finder: DocumentFinder, problems: Problems) -> Iterator[DatasetQuestion]:
    """Yield the queries of MultiHopRAG.json; gold are the articles of `evidence_list`, by url or else by title.

    A `null_query` has no evidence, so nothing is relevant.
    """
    by_url = {url: id for id, document in finder.ids.items() if (url := document.metadata.get("url"))}

    def parse_query(item: Item) -> DatasetQuestion:
        gold = set[str]()
        for value in item.array("evidence_list"):
            evidence = item.within(value, "an evidence")
            id = by_url.get(evidence.text("url", default=""))
            gold.update([id] if id is not None else finder.title(evidence.text("title"), {}, evidence))
        kind, text = item.text("question_type", default=""), require_text(item, item.text("query"))
        return DatasetQuestion(text, Gold(frozenset(gold), _answers(item), kind))

    return problems.each(parse_query, read_json_items(find_multihop_rag_files(path)[0], problems))


# ---------------------------------------------------------------- QuALITY


def read_quality_questions(path: Path, finder: DocumentFinder, problems: Problems) -> Iterator[DatasetQuestion]:
    """Yield the multiple-choice questions of a QuALITY file; gold are the article and the option `gold_label`.

    The kind is `hard` where `difficult` is 1, else `easy`. The published test file has no labels, and so no answers.
    """

    def list_questions(item: Item) -> list[tuple[Item, Any]]:
        return [(item, value) for value in item.array("questions")]

    values = chain.from_iterable(problems.each(list_questions, read_json_lines(path, problems)))
    return problems.each(lambda row: _quality_question(*row, finder), values)


def _quality_question(line: Item, value: Any, finder: DocumentFinder) -> DatasetQuestion:
    item = line.within(value, "a question")
    articles = finder.content(line.text("title", default=""), line.text("article"), line)
    text = require_text(item, item.text("question"))
    options = tuple(item.unicode(option, "an array of strings under 'options'") for option in item.array("options"))
    if not 2 <= len(options) <= _MOST_OPTIONS:
        raise item.error(f"2 to {_MOST_OPTIONS} options", f"{len(options)}")
    label, difficult = item.fields.get("gold_label"), item.fields.get("difficult")
    if label is not None and (type(label) is not int or not 1 <= label <= len(options)):
        raise item.error(f"a number from 1 to {len(options)} under 'gold_label'", item.under("gold_label"))
    kind = _KINDS_OF_DIFFICULTY.get(difficult, "") if isinstance(difficult, int) else ""
    answers = () if label is None else (options[label - 1],)
    source_id = item.text("question_unique_id", default="")
    return DatasetQuestion(text, Gold(frozenset(articles), answers, kind, source_id, options=options))


# ---------------------------------------------------------------- ASQA


def read_asqa_questions(
    path: Path, finder: DocumentFinder | None, problems: Problems, split: str = "dev"
) -> Iterator[DatasetQuestion]:
    """Yield the ambiguous questions of a split of ASQA.json; of every split if it has none of that name.

    Accepted answers are the long ones of all annotators, and `sub_questions` the `qa_pairs`. Gold documents are the
    passages that came with the question; none without a `finder`, where a corpus of one's own is searched.
    """
    entries = list(read_asqa_items(path, problems))
    chosen = [entry for entry in entries if entry[0] == split] or entries
    return problems.each(lambda entry: _asqa_question(entry[1], entry[2], finder), chosen)


def _asqa_question(source_id: str, item: Item, finder: DocumentFinder | None) -> DatasetQuestion:
    text = require_text(item, item.text("ambiguous_question"))
    pairs = [item.within(value, "a pair in 'qa_pairs'") for value in item.array("qa_pairs")]
    parts = tuple(SubQuestion(require_text(pair, pair.text("question")), _short_answers(pair)) for pair in pairs)
    if not parts:
        raise item.error("at least one pair in 'qa_pairs'", "none")
    annotations = [item.within(value, "an annotation") for value in item.array("annotations")]
    long = tuple(dict.fromkeys(require_text(annotation, annotation.text("long_answer")) for annotation in annotations))
    if not long:
        raise item.error("at least one long answer in 'annotations'", "none")
    passages = asqa_passages(item) if finder is not None else []
    gold = [id for title, body in passages if finder is not None for id in finder.content(title, body, item)]
    return DatasetQuestion(text, Gold(frozenset(gold), long, "", source_id, sub_questions=parts))


def _short_answers(pair: Item) -> tuple[str, ...]:
    answers = tuple(dict.fromkeys(string for string in _strings(pair, "short_answers") if string.strip()))
    if not answers:
        raise pair.error("an answer under 'short_answers'", pair.under("short_answers"))
    return answers

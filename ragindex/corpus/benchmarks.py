"""Readers for the corpora of benchmark files. Fields that reveal gold (is_supporting, idx, question_id …) are not read.

The formats are those of the published files: BEIR (github.com/beir-cellar/beir), HippoRAG
(github.com/OSU-NLP-Group/HippoRAG), MuSiQue (github.com/StonyBrookNLP/musique), HotpotQA (hotpotqa.github.io),
2WikiMultihopQA (github.com/Alab-NII/2wikimultihop), IRCoT (github.com/StonyBrookNLP/ircot, download/raw_data.sh and
retriever_server/build_index.py), MultiHop-RAG (github.com/yixuantt/MultiHop-RAG, dataset/), QuALITY
(github.com/nyu-mll/quality, "Data README") and ASQA (github.com/google-research/language, language/asqa).
"""

from collections.abc import Iterator
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import regex

from ragindex._util.canonical import digest
from ragindex.corpus.corpus import Gathered, RawDocument, gather, parse_id, parse_metadata
from ragindex.corpus.json_reader import (
    Item,
    Problems,
    check_array_items,
    format_value,
    read_json_items,
    read_json_lines,
    read_json_value,
    read_start,
)
from ragindex.errors import DataError
from ragindex.types import NO_METADATA

_CORPUS_KEYS = ("_id", "id", "title", "text", "metadata")
_IRCOT_QUESTIONS = ("test_subsampled.jsonl", "dev_subsampled.jsonl")
_IRCOT_RAW = (
    tuple(f"musique_{kind}_v1.0_{split}.jsonl" for kind in ("ans", "full") for split in ("dev", "test", "train")),
    ("train.json", "dev.json", "test.json"),
)
"""Files whose paragraphs are the corpora of MuSiQue and of 2WikiMultihopQA."""
_ARTICLE_METADATA = ("author", "source", "category", "published_at", "url")
_STORY_METADATA = ("author", "source", "topic", "year", "url")
_HTML = regex.compile(r"</(?:p|html|body)>", regex.IGNORECASE)
_GLANCE_BYTES = 2**20
_NO_CONTEXT = "No context provided"


# ---------------------------------------------------------------- IRCoT


def join_sentences(sentences: list[str]) -> str:
    """Join sentences: without a separator if they contain their own leading white space, else with spaces."""
    spaced = any(sentence[:1].isspace() for sentence in sentences[1:])
    return ("" if spaced else " ").join(sentences)


def join_body(item: Item, value: Any) -> str:
    """Return a text given as a string or as an array of sentences. Raises DataError for anything else."""
    if isinstance(value, list):
        return join_sentences([item.unicode(sentence, "an array of strings as sentences") for sentence in value])
    return item.unicode(value, "a string or an array of sentences as text")


def parse_paragraph(item: Item) -> tuple[str, str]:
    """Return title and text of a paragraph in the format of MuSiQue or HippoRAG. Raises DataError without a text."""
    key = "text" if item.fields.get("text") is not None else "paragraph_text"
    if item.fields.get(key) is None:
        raise item.error("a text under 'text' or 'paragraph_text'", item.under("text"))
    return item.text("title", default=""), join_body(item, item.fields[key])


def parse_context_entry(item: Item, value: Any) -> tuple[str, str]:
    """Return title and text of an entry `[title, [sentence, …]]` of a HotpotQA or 2WikiMultihopQA context."""
    if not isinstance(value, list) or len(value) != 2:
        raise item.error("a context of [title, [sentence, …]] pairs", format_value(value))
    return item.unicode(value[0], "a string as title"), join_body(item, value[1])


def read_jsonl(path: Path, problems: Problems) -> Gathered:
    """Read one document per line: `_id` or `id`, `title`, `text`, `metadata`; other keys become metadata."""
    file = path / "corpus.jsonl" if path.is_dir() else path

    def parse_line(item: Item) -> RawDocument:
        others = [key for key in item.fields if key not in _CORPUS_KEYS]
        if {"_id", "id"} <= item.fields.keys():
            others.append("id")
        text = item.text("text")
        return RawDocument(parse_id(item), item.text("title", default=""), text, parse_metadata(item, *others), item)

    return gather(problems.each(parse_line, read_json_lines(file, problems)), problems)


def find_file_pair(path: Path) -> tuple[Path, Path]:
    """Return the paths of questions and corpus of a HippoRAG folder, or of `X.json` with `X_corpus.json` beside it."""
    if path.is_dir():
        return path / "questions.json", path / "corpus.json"
    corpus_file = path.with_name(f"{path.stem}_corpus.json")
    return path, corpus_file if corpus_file.exists() or path.name != "questions.json" else path.with_name("corpus.json")


def read_hipporag(path: Path, problems: Problems) -> Gathered:
    """Read a HippoRAG corpus file: a list of {title, text}, or a mapping of titles to texts or sentences."""
    file = find_file_pair(path)[1]
    value = read_json_value(file)
    if isinstance(value, list):
        items = check_array_items(value, file, problems)
        documents = problems.each(
            lambda item: RawDocument(parse_id(item), *parse_paragraph(item), parse_metadata(item), item), items
        )
        return gather(documents, problems)
    if not isinstance(value, dict):
        raise DataError("a list of {title, text} or a mapping of titles to sentences", format_value(value), path=file)
    titled = ((Item({"title": title}, file, None, n), text) for n, (title, text) in enumerate(value.items(), 1))
    return gather(
        problems.each(lambda pair: _make_document(pair[0], pair[0].text("title"), join_body(*pair)), titled), problems
    )


def _make_document(item: Item, title: str, text: str) -> RawDocument:
    return RawDocument(None, title, text, NO_METADATA, item)


def read_paragraphs(path: Path, problems: Problems) -> Gathered:
    """Read the paragraphs of all questions of a MuSiQue file, without duplicates."""

    def of_question(item: Item) -> list[RawDocument]:
        paragraphs = [item.within(value, "a paragraph") for value in item.array("paragraphs")]
        return [_make_document(paragraph, *parse_paragraph(paragraph)) for paragraph in paragraphs]

    return gather(chain.from_iterable(problems.each(of_question, read_json_items(path, problems))), problems)


def read_contexts(path: Path, problems: Problems) -> Gathered:
    """Read the contexts of all questions of a HotpotQA or 2WikiMultihopQA file, without duplicates."""

    def of_question(item: Item) -> list[RawDocument]:
        return [_make_document(item, *parse_context_entry(item, value)) for value in item.array("context")]

    return gather(chain.from_iterable(problems.each(of_question, read_json_items(path, problems))), problems)


def find_ircot_questions(path: Path) -> Path:
    """Return the file of sub-sampled questions: `path`, or the one in that folder, test before dev."""
    if not path.is_dir():
        return path
    return next((path / name for name in _IRCOT_QUESTIONS if (path / name).is_file()), path / _IRCOT_QUESTIONS[0])


def find_ircot_raw_files(path: Path) -> list[Path]:
    """Return the raw files beside the questions, or in raw_data/NAME where they are in processed_data/NAME.

    Raises DataError unless all files of MuSiQue, or all of 2WikiMultihopQA, are in one of these folders.
    """
    beside = find_ircot_questions(path.resolve()).parent
    folders = [beside, *([beside.parents[1] / "raw_data" / beside.name] if len(beside.parents) > 1 else [])]
    sets = [
        ([folder / name for name in names], [name for name in names if not (folder / name).is_file()])
        for folder in folders
        for names in _IRCOT_RAW
    ]
    files, absent = min(sets, key=lambda files_and_absent: len(files_and_absent[1]) / len(files_and_absent[0]))
    if absent:
        expected = " or ".join(", ".join(names) for names in _IRCOT_RAW)
        reason = "none of them" if len(absent) == len(files) else f"no {', '.join(absent)}"
        raise DataError(f"the raw files {expected} beside the questions or in raw_data/NAME", reason, path=path)
    return files


def read_ircot(path: Path, problems: Problems) -> Gathered:
    """Read the full corpus of IRCoT: the paragraphs of all raw files of a data set, without duplicates.

    As in IRCoT (build_index.py), the paragraphs of train, dev and test are one corpus, and sentences are joined with
    spaces; texts and titles are stripped, as those of its questions are.
    """
    items = chain.from_iterable(read_json_items(file, problems) for file in find_ircot_raw_files(path))

    def of_question(item: Item) -> list[RawDocument]:
        if "context" in item.fields:
            pairs = [parse_context_entry(item, value) for value in map(_with_spaces, item.array("context"))]
        else:
            pairs = [parse_paragraph(item.within(value, "a paragraph")) for value in item.array("paragraphs")]
        return [_make_document(item, title.strip(), text.strip()) for title, text in pairs]

    return gather(chain.from_iterable(problems.each(of_question, items)), problems)


def _with_spaces(entry: object) -> object:
    """Return a context entry with its sentences as one text, joined with spaces; any other value as it is."""
    if isinstance(entry, list) and len(entry) == 2 and isinstance(entry[1], list):
        sentences = entry[1]
        return [entry[0], " ".join(sentences)] if all(isinstance(text, str) for text in sentences) else entry
    return entry


# ---------------------------------------------------------------- MultiHop-RAG, QuALITY


def find_multihop_rag_files(path: Path) -> tuple[Path, Path]:
    """Return the paths of questions and articles: MultiHopRAG.json, or the file `path`, and corpus.json beside it."""
    questions = path / "MultiHopRAG.json" if path.is_dir() else path
    return questions, questions.with_name("corpus.json")


def read_multihop_rag(path: Path, problems: Problems) -> Gathered:
    """Read the news articles of corpus.json: title and body; source, category, date, author and url are metadata."""

    def parse_article(item: Item) -> RawDocument:
        metadata = parse_metadata(item, *_given(item, _ARTICLE_METADATA))
        return RawDocument(None, item.text("title", default=""), item.text("body"), metadata, item)

    articles = read_json_items(find_multihop_rag_files(path)[1], problems)
    return gather(problems.each(parse_article, articles), problems)


def read_quality(path: Path, problems: Problems) -> Gathered:
    """Read the articles of a QuALITY file without HTML, one document per `article_id`.

    Two lines, from two writers of questions, hold the same article. Raises DataError if their texts differ.
    """
    digests: dict[str, str] = {}

    def parse_article(item: Item) -> list[RawDocument]:
        id, title, text = item.text("article_id"), item.text("title", default=""), item.text("article")
        if _HTML.search(text):
            raise item.error("an article without HTML, as in the htmlstripped files of QuALITY", format_value(text))
        metadata = parse_metadata(item, *_given(item, _STORY_METADATA))
        known, digests[id] = digests.get(id), digest([title, text])
        if known not in (None, digests[id]):
            raise item.error("one text for each article_id", f"another text for {id!r}")
        return [] if known else [RawDocument(id, title, text, metadata, item)]

    return gather(chain.from_iterable(problems.each(parse_article, read_json_lines(path, problems))), problems)


def _given(item: Item, names: tuple[str, ...]) -> list[str]:
    return [name for name in names if item.fields.get(name) is not None]


# ---------------------------------------------------------------- ASQA


def is_asqa(path: Path) -> bool:
    """Return whether a file is an object whose beginning holds the key `ambiguous_question`, as ASQA.json is."""
    start = read_start(path, _GLANCE_BYTES)
    return start.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{") and b'"ambiguous_question"' in start


def read_asqa_items(path: Path, problems: Problems) -> Iterator[tuple[str, str, Item]]:
    """Yield split, id and fields of each instance of ASQA.json, an object of splits, each an object of instances."""
    value, number = read_json_value(path), 0
    for split, instances in value.items() if isinstance(value, dict) else [("", value)]:
        if not isinstance(instances, dict):
            raise DataError("splits as objects of instances by id, as in ASQA.json", format_value(instances), path=path)
        for id, instance in instances.items():
            number += 1
            place = Item({}, path, None, number)
            items = problems.each(partial(place.within, what="an instance"), [instance])
            yield from ((split, id, item) for item in items)


def asqa_passages(item: Item) -> list[tuple[str, str]]:
    """Return title and text of the passages of Wikipedia that ASQA's annotators gave with a question."""
    pieces = [(item.within(value, "a pair in 'qa_pairs'"), "context") for value in item.array("qa_pairs")]
    for value in item.array("annotations"):
        annotation = item.within(value, "an annotation")
        knowledge = annotation.array("knowledge")
        pieces += [(item.within(piece, "a piece of 'knowledge'"), "content") for piece in knowledge]
    passages = [(piece.text("wikipage", default=""), piece.text(key, default="").strip()) for piece, key in pieces]
    return list(dict.fromkeys((title, text) for title, text in passages if text and text != _NO_CONTEXT))


def read_asqa(path: Path, problems: Problems) -> Gathered:
    """Read the passages that come with the questions of all splits of ASQA.json, without duplicates.

    ASQA has no corpus of its own, and its questions are asked of Wikipedia. These passages are the annotators'
    evidence, without distractors other than the evidence of other questions.
    """

    def of_instance(instance: tuple[str, str, Item]) -> list[RawDocument]:
        return [_make_document(instance[2], title, text) for title, text in asqa_passages(instance[2])]

    return gather(chain.from_iterable(problems.each(of_instance, read_asqa_items(path, problems))), problems)

"""Readers for the corpora of benchmark files. Fields that reveal gold (is_supporting, idx, question_id …) are not read.

Formats: BEIR (github.com/beir-cellar/beir), HippoRAG (github.com/OSU-NLP-Group/HippoRAG), MuSiQue
(github.com/StonyBrookNLP/musique), HotpotQA (hotpotqa.github.io), 2WikiMultihopQA (github.com/Alab-NII/2wikimultihop).
`ragindex.corpus.more_benchmarks` reads further ones.
"""

from itertools import chain
from pathlib import Path
from typing import Any

from ragindex.corpus.corpus import Gathered, RawDocument, gather, parse_id, parse_metadata
from ragindex.corpus.json_reader import (
    Item,
    Problems,
    check_array_items,
    format_value,
    read_json_items,
    read_json_lines,
    read_json_value,
)
from ragindex.errors import DataError
from ragindex.types import NO_METADATA

_CORPUS_KEYS = ("_id", "id", "title", "text", "metadata")


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
    return gather(problems.each(_parse_corpus_line, read_json_lines(file, problems)), problems)


def _parse_corpus_line(item: Item) -> RawDocument:
    others = [key for key in item.fields if key not in _CORPUS_KEYS]
    if {"_id", "id"} <= item.fields.keys():
        others.append("id")
    text = item.text("text")
    return RawDocument(parse_id(item), item.text("title", default=""), text, parse_metadata(item, *others), item)


def find_file_pair(path: Path) -> tuple[Path, Path]:
    """Return the paths of questions and corpus of a HippoRAG folder, or of `X.json` with `X_corpus.json` beside it."""
    if path.is_dir():
        return path / "questions.json", path / "corpus.json"
    named = path.with_name(f"{path.stem}_corpus.json")
    return path, named if named.exists() or path.name != "questions.json" else path.with_name("corpus.json")


def read_hipporag(path: Path, problems: Problems) -> Gathered:
    """Read a HippoRAG corpus file: a list of {title, text}, or a mapping of titles to texts or sentences."""
    file = find_file_pair(path)[1]
    value = read_json_value(file)
    if isinstance(value, list):
        return gather(problems.each(_parse_list_item, check_array_items(value, file, problems)), problems)
    if not isinstance(value, dict):
        raise DataError("a list of {title, text} or a mapping of titles to sentences", format_value(value), path=file)
    titled = ((Item({"title": title}, file, None, n), text) for n, (title, text) in enumerate(value.items(), 1))
    return gather(
        problems.each(lambda pair: _make_document(pair[0], pair[0].text("title"), join_body(*pair)), titled), problems
    )


def _parse_list_item(item: Item) -> RawDocument:
    return RawDocument(parse_id(item), *parse_paragraph(item), parse_metadata(item), item)


def _make_document(item: Item, title: str, text: str) -> RawDocument:
    return RawDocument(None, title, text, NO_METADATA, item)


def read_paragraphs(path: Path, problems: Problems) -> Gathered:
    """Read the paragraphs of all questions of a MuSiQue file, without duplicates."""

    def of_question(item: Item) -> list[RawDocument]:
        inner = [item.within(value, "a paragraph") for value in item.array("paragraphs")]
        return [_make_document(one, *parse_paragraph(one)) for one in inner]

    return gather(chain.from_iterable(problems.each(of_question, read_json_items(path, problems))), problems)


def read_contexts(path: Path, problems: Problems) -> Gathered:
    """Read the contexts of all questions of a HotpotQA or 2WikiMultihopQA file, without duplicates."""

    def of_question(item: Item) -> list[RawDocument]:
        return [_make_document(item, *parse_context_entry(item, value)) for value in item.array("context")]

    return gather(chain.from_iterable(problems.each(of_question, read_json_items(path, problems))), problems)

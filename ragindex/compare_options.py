"""The options of `ragindex.compare`, for editors and type checkers; the evaluation checks their values."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypedDict

from ragindex.index.index import Index
from ragindex.plugins.registry import PluginSpec

CompareMethod: TypeAlias = PluginSpec | Callable[[str, int], Any] | Any
"""A method: as it is written, an object of it, a function of question and k, or a retriever of another library."""


class CompareOptions(TypedDict, total=False):
    """Options of a comparison in Python. They are those of the command `ragindex compare`, which `--help` explains."""

    index: str | Path | Index | None
    # documents and questions
    limit: int | None
    kinds: Mapping[str, int] | str | None
    format: str | None
    skip_bad: bool | None
    strict: bool
    include: Sequence[str]
    exclude: Sequence[str]
    encoding: str | None
    max_file_mb: float
    ocr: bool
    skip_stubs: bool
    chunking: str | None
    rows: Any
    # methods
    with_rerank: bool
    reranker: PluginSpec | None
    grid: Sequence[str]
    # index and models
    encoder: PluginSpec | None
    llm: PluginSpec | None
    budget: float | None
    no_cache: bool
    reuse_answers: bool
    triples: str | Path | None
    store: PluginSpec | None
    language: str | None
    seed: int | None
    workers: int | str | None
    # figures
    k: int | str | Sequence[int]
    read: bool
    reader_llm: PluginSpec | None
    reader_tokens: int | None
    reader_passages: int | None
    reader_input: Literal["notes", "passages"]
    reader_prompt: Literal["short", "six-words", "fewest-words"]
    qa_model: str | None
    holdout: str | Path | None
    reuse_holdout: bool
    published: Mapping[str, Any] | None
    published_data: str | None
    # results
    fresh: bool

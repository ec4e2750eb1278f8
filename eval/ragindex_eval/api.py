"""The function `compare`, which `ragindex.compare` finds through its entry point."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Unpack

from ragindex.compare_options import CompareMethod, CompareOptions
from ragindex.corpus import Corpus
from ragindex.errors import UsageError
from ragindex.index.index import Index
from ragindex_eval.data import datasets, gold_classes
from ragindex_eval.data.datasets import Dataset
from ragindex_eval.result import Result
from ragindex_eval.run.experiment import load_dataset, split_documents
from ragindex_eval.run.plan import make_plan
from ragindex_eval.run.settings import CompareSettings, make_settings
from ragindex_eval.run.study import evaluate

_SELECTION = ("include", "exclude", "encoding", "max_file_mb", "ocr", "rows", "skip_stubs")
_COMMAND_ONLY = ("corpora", "encoders", "seeds", "out", "json_file", "fail_below", "trace", "name")


def compare(
    data: str | Path | Corpus | Dataset | None = None,
    methods: str | Sequence[CompareMethod] | None = None,
    *,
    questions: str | Path | None = None,
    **options: Unpack[CompareOptions],
) -> Result:
    """Build `methods` over `data`, ask the questions, and measure the quality, latency and cost of each method.

    `data` is a path (a folder or file of documents, a benchmark in BEIR's or another known format), a name such as
    `world:1k`, a `Corpus`, or a `Dataset`. Without it, the documents in the index are searched. `methods` are specs
    as on the command line (`"hybrid(rrf_k=20)"`), scheme objects, or functions `search(question, k)` that return ids
    of documents, best first, with or without scores; retrievers of LangChain, LlamaIndex and Haystack are asked
    likewise. `"all"` is every installed method, and the default is the quick ones. `questions` is a `.csv` or `.jsonl`
    with gold, or a `.txt`. `index` is the folder of the index, which is kept for the next run (default:
    ragindex-workspaces/NAME), or an open index, which keeps its own encoder, store, language, seed and LLM.

    `options` are those of `ragindex compare` by name: `encoder`, `llm`, `k`, `seed`, `limit`, `read`, …
    `CompareOptions` lists all of them.

    Raises UsageError for invalid options, and the errors of `ragindex_eval.run.study.evaluate`.
    """
    index = options.get("index")
    given: dict[str, Any] = {"methods": methods, "questions": questions, **options}
    path = data if isinstance(data, str | Path) else None
    opened = index if isinstance(index, Index) else None
    given |= {"data": None if path is None else str(path), "index": None if opened else index}
    _refuse([name for name in options if name in _COMMAND_ONLY], "is an option of the command alone")
    values = {name: value for name, value in given.items() if value is not None}
    settings = make_settings(values, "compare: ", without=_COMMAND_ONLY)
    comparison = evaluate(make_plan(settings), settings, _resolve_dataset(data, settings), index=opened)
    return Result(comparison, opened or settings.index_folder(comparison.dataset.name))


def _resolve_dataset(data: str | Path | Corpus | Dataset | None, settings: CompareSettings) -> Dataset | None:
    if data is None:
        return None
    if isinstance(data, str | Path):
        return load_dataset(settings, settings.seed, settings.index)
    if isinstance(data, Corpus):
        _refuse(_given(settings, ("format", *_SELECTION)), "describes a path, and the data is a Corpus")
        if settings.questions is None:
            raise UsageError("compare: a Corpus comes without questions. Give questions=FILE, a .csv, .jsonl or .txt.")
        dataset = datasets.add_questions(
            data,
            settings.questions,
            skip_bad=settings.skip_bad,
            limit=settings.limit,
            kinds=settings.kinds,
            seed=settings.seed or 0,
        )
        return replace(dataset, corpus=split_documents(dataset.corpus, settings.chunking))
    given = _given(settings, ("questions", "format", "limit", "kinds", *_SELECTION))
    _refuse(given, "describes a path, and the data is a Dataset, which is read already")
    if data.gold is not None:
        data = replace(data, gold=gold_classes.in_classes(data.corpus.documents, data.gold))
    return replace(data, corpus=split_documents(data.corpus, settings.chunking))


def _given(settings: CompareSettings, names: Sequence[str]) -> list[str]:
    """Return those of the settings that have another value than the default."""
    fields = CompareSettings.model_fields
    return [name for name in names if getattr(settings, name) != fields[name].get_default()]


def _refuse(names: Sequence[str], reason: str) -> None:
    if names:
        raise UsageError(f"compare: {names[0]!r} {reason}.")

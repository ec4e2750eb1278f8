"""What all methods of a comparison share: the open index, the data set as the index holds it, the reader."""

import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from ragindex._util.text import first_names, many
from ragindex.corpus import Corpus, FileSelection
from ragindex.errors import UsageError
from ragindex.index.documents import DocumentChanges, Removals
from ragindex.index.index import Index
from ragindex.index.manifest import read_manifest, require_apart, require_chunking
from ragindex.index.notes import format_changes
from ragindex.index.parts import TRIPLES
from ragindex.index.readings import find_reading
from ragindex.interfaces import Scheme
from ragindex.interfaces.llm import LLMSettings
from ragindex.llm.budget import Budget, parse_budget
from ragindex.parts.text.passages import parse_chunking
from ragindex_eval.data import datasets
from ragindex_eval.data.datasets import Dataset
from ragindex_eval.metrics.extractive_qa import open_span_model
from ragindex_eval.metrics.long_answers import SpanReader
from ragindex_eval.run import read_answers
from ragindex_eval.run.read_answers import AnswerReader
from ragindex_eval.run.settings import CompareSettings, DataSettings, IndexAndModelSettings, default_index

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Experiment:
    """Open index, dataset with questions and gold, cutoffs, and the reader of retrieved passages, if any.

    With `strict`, the first question on which a method fails ends the comparison. With `fresh`, all questions are asked
    again. `find_spans` is the model for extractive QA that Disambig-F1 needs, and `qa_model` its name.
    """

    index: Index
    dataset: Dataset
    ks: tuple[int, ...]
    reader: AnswerReader | None
    strict: bool
    fresh: bool
    find_spans: SpanReader | None = None
    qa_model: str = ""


def load_dataset(settings: DataSettings, seed: int | None, index: Path | None = None) -> Dataset:
    """Load the documents and questions that the settings of one comparison name; the seed draws the questions.

    Where they do not say how files are read, an index that is named reads its source as it did before. Questions may
    name documents by ids that these had before in the folder `index`, by default that of the dataset.
    """
    dataset = datasets.read_dataset(
        settings.data or "",
        questions=settings.questions,
        format=settings.format,
        skip_bad=False if settings.strict else settings.skip_bad,
        selection=choose_selection(settings, index),
        limit=settings.limit,
        kinds=settings.kinds,
        seed=seed or 0,
        list_renames=partial(_list_renames, index),
    )
    return replace(dataset, corpus=split_documents(dataset.corpus, settings.chunking))


def choose_selection(settings: DataSettings, index: Path | None) -> FileSelection:
    """Return how files are read: as the settings say, else as an index that is named has read them."""
    selection, manifest = settings.selected_files(), None if index is None else read_manifest(index)
    if manifest is None or selection != FileSelection() or settings.data is None:
        return selection
    remembered = find_reading(manifest.sources, str(settings.data))
    return selection if remembered is None else remembered.options.selection


def split_documents(corpus: Corpus, chunking: str | None) -> Corpus:
    """Return the corpus with its documents in these chunks, if any are named. Raises UsageError."""
    return corpus if chunking is None else replace(corpus, split=parse_chunking(chunking))


def _list_renames(folder: Path | None, corpus: Corpus) -> dict[str, str]:
    """Return the ids of documents by those that they had before in the index of a comparison, if there is one."""
    folder = folder or default_index(corpus.name)
    if read_manifest(folder) is None:
        return {}
    with Index.open(folder, read_only=True) as index:
        return index.renames(corpus)


@contextmanager
def prepare_index(
    settings: IndexAndModelSettings, data: Dataset | None, index: Index | None, budget: Budget | None
) -> Iterator[Index]:
    """Open the index of the settings, or yield the open one. Raises UsageError if neither data nor index is named.

    Raises UsageError too if the index splits its documents by another chunking than that of the data.
    """
    if index is None and settings.index is None and data is None:
        raise UsageError("compare needs DATA, or --index with documents and --questions FILE.")
    folder = index.folder if index is not None else settings.index_folder(data.name if data else "")
    if data is not None:
        require_apart(folder, data.source, data.corpus)
    chunking = "default" if data is None else data.corpus.chunking
    if index is not None:
        require_chunking(folder, index.manifest.settings, chunking)
        yield index
        return
    with Index.open(
        folder,
        **settings.opened_with(),
        chunking=chunking,
        llm_settings=LLMSettings(budget=budget or parse_budget(settings.budget), reuse_answers=settings.reuse_answers),
        keep_calls=not settings.no_cache,
        create=True,
    ) as opened:
        yield opened


def load_experiment(
    settings: CompareSettings, data: Dataset | None, schemes: Iterable[Scheme], index: Index
) -> Experiment:
    """Load the documents into the index, and the dataset as the index holds it, for these methods."""
    if data is None:
        dataset = _read_indexed(index, settings)
    else:
        _warn_of_changes(index, index.replace(data.corpus, announce=partial(_announce_leaving, index)))
        dataset = datasets.match_index(data, index)
    dataset = replace(dataset, notes=(*dataset.notes, *_describe_commits(index)))
    if not dataset.queries:
        raise UsageError(
            f"The dataset {dataset.name} has no questions. Give some: --questions FILE.csv (question,answer,documents) "
            "or FILE.txt (one a line)."
        )
    if settings.triples is not None:
        index.import_part(TRIPLES, settings.triples)
    reads = index.model_for(settings.reader_llm).plugin if settings.read else None
    index.require_prices(list(schemes), also=reads)
    reader = read_answers.make_reader(index, settings, dataset.gold) if settings.read else None
    name = settings.qa_model if settings.read and settings.qa_model else ""
    spans = open_span_model(name) if name else None
    return Experiment(index, dataset, settings.k, reader, settings.strict, settings.fresh, spans, name)


def _describe_commits(index: Index) -> list[str]:
    """Return the commit of each git repository that documents of the index were read from."""
    sources = index.manifest.sources.items()
    commits = {name: source.reading.commit for name, source in sources if source.reading is not None}
    return [f"The documents of {name} are those of the commit {commit}." for name, commit in commits.items() if commit]


def _announce_leaving(index: Index, removals: Removals) -> None:
    """Say which documents leave an index before they do: a pattern such as --exclude may be of another command.

    Raises UsageError if they are so many that a source may be incomplete.
    """
    if removals.renamed == len(removals.ids):
        return
    leave = many(len(removals.ids), "document leaves", "documents leave")
    if removals.suspicious:
        raise UsageError(
            f"{leave} {index.folder}, of {removals.documents:,} of the source {removals.source}, as this command does "
            f"not read them: {first_names(removals.ids)}. Nothing was done. To keep them: other --include and "
            "--exclude, or --index ANOTHER. To remove them, run: "
            f"{index.command('index', 'DATA', '--allow-removals')}"
        )
    _log.warning(
        "%s %s, as this command does not read them: %s. Retrievers exported from it are refused until they are "
        "exported again. To keep them: other --include and --exclude, or --index ANOTHER",
        leave,
        index.folder,
        first_names(removals.ids),
    )


def _warn_of_changes(index: Index, changed: DocumentChanges) -> None:
    """Say how the documents of an index that had some have changed: another command may have left files out."""
    if changed.changed or changed.removed or changed.renamed or (changed.added and changed.unchanged):
        _log.warning("the documents of %s were others until now: %s", index.folder, format_changes(changed))


def _read_indexed(index: Index, settings: DataSettings) -> Dataset:
    """Make a dataset of the documents in the index and questions from a file."""
    if settings.questions is None:
        raise UsageError("compare needs DATA, or --questions FILE beside --index.")
    if settings.chunking is not None:
        raise UsageError(
            "--chunking is for DATA. To split the documents of an index otherwise, run: "
            f"{index.command('index', '--chunking', settings.chunking)}"
        )
    documents = tuple(sorted(index.documents, key=lambda document: document.id))
    corpus = Corpus(index.folder.name, "workspace", documents, 0, (), index.chunking is None)
    return datasets.add_questions(
        corpus,
        settings.questions,
        skip_bad=settings.skip_bad,
        limit=settings.limit,
        kinds=settings.kinds,
        seed=index.seed,
        list_renames=index.renames,
    )

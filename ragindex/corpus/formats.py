"""Recognize the format of a path and read its documents."""

import os
import shlex
import unicodedata
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ragindex._util.durable_files import expand_home
from ragindex._util.ids import ROW_SUFFIXES
from ragindex._util.redaction import hide_secrets
from ragindex._util.text import describe_near, find_near_names, find_near_paths, first_names, many, suggest_names
from ragindex.corpus.benchmarks import (
    find_file_pair,
    find_ircot_questions,
    find_ircot_raw_files,
    find_multihop_rag_files,
    is_asqa,
    read_asqa,
    read_contexts,
    read_hipporag,
    read_ircot,
    read_jsonl,
    read_multihop_rag,
    read_paragraphs,
    read_quality,
)
from ragindex.corpus.corpus import Corpus, Gathered, require_documents
from ragindex.corpus.file_selection import MAX_FILE_MB, DataReading, FileSelection
from ragindex.corpus.git_source import FORMAT as GIT
from ragindex.corpus.git_source import parse_address, read_repository, readers_version
from ragindex.corpus.json_reader import Problems, read_first_item
from ragindex.corpus.local_files import (
    NO_FILES,
    SUFFIXES,
    FolderListing,
    KnownFiles,
    PassedOver,
    is_file_within,
    read_folder,
    walk_files,
)
from ragindex.corpus.near_duplicates import find_holders, find_near_duplicates, sample_documents
from ragindex.corpus.readers import DATA_SUFFIXES
from ragindex.corpus.readers.rows import Rows, parse_rows
from ragindex.errors import DataError, LeftOutWarning, UnknownNameError, UsageError
from ragindex.plugins import registry
from ragindex.types import Document

SINGLE_HOP, SINGLE_HOP_FILLED = "musique-single-hop", "musique-single-hop-filled"
"""Formats of MuSiQue's files, with the single-hop questions that its questions are composed of."""


def _read_single_hop(path: Path, problems: Problems) -> Gathered:
    """Read the corpus beside the questions, as HippoRAG publishes it, or else the paragraphs of the questions."""
    return (read_hipporag if find_file_pair(path)[1].exists() else read_paragraphs)(path, problems)


_READERS: Mapping[str, Callable[[Path, Problems], Gathered]] = {
    "jsonl": read_jsonl,
    "beir": read_jsonl,
    "hipporag": read_hipporag,
    "musique": read_paragraphs,
    "hotpotqa": read_contexts,
    "2wikimultihopqa": read_contexts,
    SINGLE_HOP: _read_single_hop,
    SINGLE_HOP_FILLED: _read_single_hop,
    "ircot": read_ircot,
    "multihop-rag": read_multihop_rag,
    "quality": read_quality,
    "asqa": read_asqa,
}
_SHAPES = (
    ({"question_text", "contexts"}, "ircot"),
    ({"query", "evidence_list"}, "multihop-rag"),
    ({"article_id", "article", "questions"}, "quality"),
    ({"paragraphs"}, "musique"),
    ({"context", "supporting_facts", "evidences"}, "2wikimultihopqa"),
    ({"context", "supporting_facts"}, "hotpotqa"),
)
"""Keys of the items of a file, and the format that they mean."""
_CHUNKED = frozenset({"folder", "multihop-rag", "quality"})
"""Formats of long documents, which are chunked; each document of the others is one passage."""
FORMATS = ("folder", *_READERS)
_LONG_TEXT, _LARGE_SHARE = 500_000, 0.25  # characters, and share of all text, from which a document is mentioned


def read(
    path: Path | str,
    *,
    format: str | None = None,
    skip_bad: bool | None = None,
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    encoding: str | None = None,
    max_file_mb: float = MAX_FILE_MB,
    ocr: bool = False,
    rows: bool | str | Rows | None = None,
    skip_stubs: bool = False,
    ref: str | None = None,
) -> Corpus:
    """Read the documents of a file or folder; the format is detected unless `format` names it (see FORMATS).

    Example:
        corpus = ragindex.read("my-documents", exclude=["*.log", "drafts/*"])

    A folder may contain text, Markdown, HTML, PDF, Word, PowerPoint, notebooks, tables and source code; a file may be a
    data set (BEIR, HippoRAG, MuSiQue, ...). If the path does not exist and has the form NAME:REST, such as world:1k,
    the plugin NAME generates the corpus. `include`, `exclude`, `encoding`, `max_file_mb` and `ocr` say which files
    of a folder are read, and how (FileSelection). With `rows=True`, or `rows=Rows(...)`, each row of a table (CSV,
    JSON, a spreadsheet, Parquet) is a document FILE/ROW. With `skip_stubs`, pages whose content has moved are left out.
    `git+file:///CLONE`, or a path in a clone with `ref` (a branch, tag or commit), is read from that commit.

    Files of a folder that cannot be read are left out with a LeftOutWarning, and `Corpus.skipped` names each
    with the reason. An item of a data set that cannot be read raises DataError, with file and line: without it, it is
    another data set. With `skip_bad=True` items are left out too, without a warning, and with False files raise too.
    Raises UsageError for an unknown format or encoding, a selection from what is no folder, or `rows` of a table that
    has no such columns, and DataError if no document can be read.
    """
    corpus = read_selected(
        path if str(path).startswith("git+") else expand_home(path),
        format=format,
        skip_bad=skip_bad,
        ref=ref,
        selection=FileSelection(
            tuple(include), tuple(exclude), encoding, max_file_mb, ocr, parse_rows(rows), skip_stubs
        ),
    )
    if corpus.skipped and skip_bad is None:
        what = many(len(corpus.skipped), "file that cannot be read is", "files that cannot be read are")
        warnings.warn(f"{what} left out of {path}: {corpus.skipped[0]}", LeftOutWarning, stacklevel=2)
    return corpus


def read_selected(
    path: Path | str,
    *,
    format: str | None,
    skip_bad: bool | None,
    selection: FileSelection | None = None,
    ref: str | None = None,
    since: str = "",
    known: KnownFiles = NO_FILES,
) -> Corpus:
    """Read documents as `read` does, with the selection of files as one value (None: all).

    Of a git repository, files that have not changed since the commit `since` are not read, and of a folder those whose
    contents are `known`.
    """
    selection = selection or FileSelection()
    if (address := parse_address(str(path), ref)) is not None:
        if format not in (None, GIT):
            raise UsageError(f"Files of a repository have no format of a data set. Omit --format. Got {format!r}.")
        return read_repository(address, ref=ref, skip_bad=skip_bad, selection=selection, since=since)
    path, generated = Path(path), _generate_corpus(str(path), format)
    if generated is not None:
        _require_no_selection(generated.format, selection)
        return replace(generated, reading=DataReading(hide_secrets(str(path)), None, skip_bad))
    if format is None and selection.rows is not None and path.is_file() and path.suffix.lower() in ROW_SUFFIXES:
        format = "folder"
    named_format = format
    format = recognise_format(path) if format is None else _check_format(path, format)
    problems = Problems(format == "folder" if skip_bad is None else skip_bad)
    listing, notes = FolderListing(), tuple[str, ...]()
    if format == "folder":
        gathered, listing = read_folder(path, problems, selection, known=known)
        notes = (*listing.notes(), *_describe_texts(gathered[0]))
    else:
        _require_no_selection(format, selection)
        gathered = _READERS[format](path, problems)
    documents, repeats = gathered if listing.untouched else require_documents(gathered, path, problems)
    root, only = _find_origin(path, format)
    return Corpus(
        name=corpus_name(path),
        format=format,
        documents=documents,
        repeats=repeats,
        skipped=problems.left_out,
        undivided=format not in _CHUNKED,
        ignored=Counter(listing.ignored.values()),
        root=str(root),
        only=only,
        notes=notes,
        unread=listing.unread(),
        files=listing.digests,
        reading=DataReading(os.path.abspath(path), named_format, skip_bad, selection, readers=readers_version()),
        untouched=listing.untouched,
    )


def corpus_name(path: Path) -> str:
    """Return the name of the corpus in a folder or a file."""
    resolved = path.resolve()
    if path.is_dir():
        return resolved.name
    return resolved.parent.name if resolved.stem in ("questions", "corpus") else resolved.stem


def _require_no_selection(format: str, selection: FileSelection) -> None:
    if selection != FileSelection():
        raise UsageError(
            f"Files can be selected from folders. This is the format {format}: omit --include, --exclude, --encoding, "
            "--max-file-mb, --ocr, --rows and --skip-stubs."
        )


def _describe_texts(documents: Sequence[Document]) -> Iterator[str]:
    """Yield sentences for documents that are a large share of all text or hold others, and for near-duplicates."""
    lengths = {document.id: len(document.text) for document in documents}
    total = sum(lengths.values())
    for id, length in lengths.items():
        if len(lengths) > 1 and length > max(_LONG_TEXT, _LARGE_SHARE * total):
            yield f"{id} has {length / total:.0%} of all text. To leave it out: --exclude {shlex.quote(id)}"
    samples = sample_documents(documents)
    for id, inside in find_holders(documents, samples).items():
        yield (
            f"{id} holds the texts of {many(len(inside), 'other document')} ({first_names(inside)}), so that its "
            f"passages take the places of theirs. To leave it out: --exclude {shlex.quote(id)}"
        )
    pairs = find_near_duplicates(samples)
    if pairs:
        pair_names = first_names([f"{second} ~ {first}" for first, second in pairs])
        were = "1 document is" if len(pairs) == 1 else f"{len(pairs)} documents are"
        yield f"{were} almost equal to another: {pair_names}"


def list_source_files(path: Path) -> list[Path]:
    """Return every file that may be read for the documents and questions at `path`; some need not exist.

    These are all files of a folder except hidden ones, or the file with its corpus beside it, and IRCoT's raw files.
    Links out of a folder are among them: the folder may be that of a model.
    """
    if not os.path.exists(path):
        return []
    outside = list[Path]()

    def pass_over(path: Path, why: PassedOver) -> None:
        if why == "outside" and os.path.isfile(path):
            outside.append(path)

    if path.is_dir():
        own = [*walk_files(path, Problems(skip_bad=True), pass_over), *outside]
    else:
        own = [*find_file_pair(path), find_multihop_rag_files(path)[1]]
    try:
        raw = find_ircot_raw_files(path)
    except (DataError, OSError):
        raw = []
    return list(dict.fromkeys([*own, *raw]))


def _generate_corpus(written: str, format: str | None) -> Corpus | None:
    """Return the corpus that the plugin NAME of `NAME:REST` generates; None if there is none, or the path exists."""
    name, colon, _ = written.partition(":")
    if not colon or name not in registry.plugin_names("corpora") or os.path.exists(written):
        return None
    if format is not None:
        raise UsageError(f"{written} is generated and has no format. Omit --format. Got {format!r}.")
    corpus: Corpus = registry.load_plugin("corpora", name)(written)
    return replace(corpus, root=hide_secrets(corpus.root or written))


def _find_origin(path: Path, format: str) -> tuple[Path, str]:
    """Return the resolved path of the source, and the name of the only file read from it ("" for all files).

    Links to folders are resolved. A link to a file keeps its name, because the name is the document's id.
    """
    if format == "folder":
        real = path.resolve() if path.is_dir() else path.parent.resolve()
        return real, "" if path.is_dir() else unicodedata.normalize("NFC", path.name)
    if format in ("jsonl", "beir") and path.is_dir():
        path = path / "corpus.jsonl"
    if format in ("hipporag", SINGLE_HOP, SINGLE_HOP_FILLED):
        path = next(file for file in find_file_pair(path) if file.exists())
    if format == "multihop-rag":
        path = find_multihop_rag_files(path)[1]
    return path.resolve(), ""


def recognise_format(path: Path) -> str:
    """Return the name of the format. Raises DataError if the path does not exist or the format is unknown."""
    _require_existing(path)
    if path.is_dir():
        return _recognise_folder(path)
    suffix = path.suffix.lower()
    if suffix in SUFFIXES and suffix not in DATA_SUFFIXES:
        return "folder"
    if path.name.startswith("QuALITY."):
        return "quality"
    if suffix == ".json" and find_file_pair(path)[1].exists():
        return "hipporag"
    if suffix in (".json", ".jsonl"):
        return _recognise_items(path)
    got = f"{path.name}{', whose rows --rows reads' if suffix in ROW_SUFFIXES else ''}"
    raise DataError(f"a folder, or a file ending in {', '.join(SUFFIXES)}", got, path=path)


def _check_format(path: Path, format: str) -> str:
    if format not in FORMATS:
        raise UnknownNameError(f"Unknown format {format!r}. {suggest_names(format, FORMATS)}")
    _require_existing(path)
    if format == "beir" and not path.is_dir():
        raise DataError("a BEIR folder (corpus.jsonl, queries.jsonl, qrels/)", "a file", path=path)
    if path.is_dir() and format in ("musique", "hotpotqa", "2wikimultihopqa", "quality", "asqa"):
        raise DataError(f"a {format} file (.json or .jsonl)", "a folder", path=path)
    return format


def _require_existing(path: Path) -> None:
    if not os.path.exists(path):  # unlike Path.exists, no error for impossible names
        kind, colon, size = path.name.partition(":")
        corpora = [f"{name}:{size}" for name in find_near_names(kind, registry.plugin_names("corpora"))]
        near = describe_near([*find_near_paths(path), *(corpora if colon else ())])
        raise DataError("a file or a folder", f"no such path ({near})" if near else "no such path", path=path)


def _recognise_folder(path: Path) -> str:
    if is_file_within(path / "corpus.jsonl", path):
        return "beir" if is_file_within(path / "queries.jsonl", path) else "jsonl"
    if is_file_within(find_ircot_questions(path), path):
        return "ircot"
    if all(is_file_within(file, path) for file in find_multihop_rag_files(path)):
        return "multihop-rag"
    both = (path / "questions.json", path / "corpus.json")
    return "hipporag" if all(is_file_within(file, path) for file in both) else "folder"


def _recognise_items(path: Path) -> str:
    keys = read_first_item(path).keys()
    for required, format in _SHAPES:
        if required <= keys:
            return format
    if is_asqa(path):
        return "asqa"
    if path.suffix.lower() == ".jsonl":
        return "jsonl"
    raise DataError(
        "a file of questions with 'paragraphs' (MuSiQue) or with 'context' and 'supporting_facts' (HotpotQA), or of "
        "any questions where their corpus stands beside them: X.json and X_corpus.json, questions.json and corpus.json",
        f"items with the keys {', '.join(map(repr, keys))}" if keys else "not a list of objects",
        path=path,
    )

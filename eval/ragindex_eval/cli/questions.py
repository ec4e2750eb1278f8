"""The command `questions`, which drafts questions with their source documents into a CSV for `compare`."""

import csv
import io
import os
import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated

import regex
import typer

from ragindex._util.text import many
from ragindex.cli.console import escape_markup, print_note, quote_argument, require_writable, write_result
from ragindex.cli.console import stdout as standard_output
from ragindex.cli.documents import ReadingOptions
from ragindex.cli.option_groups import group_of, with_groups
from ragindex.cli.options import (
    JsonOption,
    LanguageOption,
)
from ragindex.corpus import Corpus, chunk, describe_ignored, describe_left_out, read_selected
from ragindex.errors import DataError, StoreError, UsageError
from ragindex.index.manifest import require_seed
from ragindex.text_analysis import analyse, language_warning
from ragindex.types import Document
from ragindex_eval.cli.settings_options import write_reading_options
from ragindex_eval.data.drafting import FORMULA, Draft, make_drafts
from ragindex_eval.data.gold_classes import content

COLUMNS = ("question", "answer", "documents", "kind", "source", "evidence")
_UNSAFE_IN_ID = regex.compile(r"[;\p{Cc}\p{Cs}]")


@with_groups
def questions(
    data: Annotated[Path, typer.Argument(metavar="DATA", help="Documents: a folder or a file.")],
    out: Annotated[Path, typer.Option("--out", metavar="FILE.csv", help="Where the questions are written.")],
    reading: Annotated[ReadingOptions, group_of(ReadingOptions, "Documents")],
    n: Annotated[int, typer.Option("--n", metavar="N", min=1, help="How many questions to draft.")] = 50,
    seed: Annotated[int, typer.Option(metavar="S", help="The seed of which documents and sentences are taken.")] = 0,
    language: LanguageOption = None,
    without_titles: Annotated[
        bool, typer.Option("--without-titles", help="No question names the title of a document that answers it.")
    ] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace FILE.csv, edited or not.")] = False,
    json: JsonOption = None,
) -> None:
    """Draft questions about DATA, with answers and source documents, for you to accept, edit or drop.

    By rule, without a model: about half need one document, half need two that share a name.

    Example: ragindex questions my-documents/ --n 50 --out drafted.csv
    """
    _check(out, overwrite)
    analyse("", language or "english")
    selection = reading.select_files()
    corpus = read_selected(data, format=reading.format, skip_bad=reading.skip_bad, selection=selection)
    left_out = _read_notes(corpus, language)
    usable = _drop_copies([document for document in corpus.documents if readable(document.id)])
    passages = [passage for document in usable for passage in chunk(document, None)]
    drafted = make_drafts(passages, n, require_seed(seed), language or "english", titles=not without_titles)
    for sentence in (*left_out, *(_explain_shortfall(drafted, n) if drafted else ())):
        print_note(sentence)
    if not drafted:
        raise _no_drafts_error(data, len(corpus.documents))
    _write(out, as_csv(drafted, {document.id: document.text for document in usable}), overwrite)
    summary = f"{_format_counts(drafted)} in {escape_markup(str(out))}"
    read = [*write_reading_options(reading.format, selection), *(["--language", language] if language else [])]
    command = shlex.join(["ragindex", "compare", str(data), "--questions", str(out), *read])
    value = {
        "file": str(out),
        "asked_for": n,
        "single": sum(draft.kind == "single" for draft in drafted),
        "two": sum(draft.kind == "two" for draft in drafted),
        "notes": [*left_out, *_explain_shortfall(drafted, n)],
        "questions": [_as_json(draft) for draft in drafted],
        "next": command,
    }

    def show() -> None:
        standard_output().print(f"{summary}. They are drafts: accept, edit or delete each line.", soft_wrap=True)
        standard_output().print(f"Then: {escape_markup(command)}", soft_wrap=True)

    write_result(value, json, show)


def readable(id: str) -> bool:
    """Return whether a document id survives the column `documents` unchanged and is plain text to a spreadsheet."""
    return id == id.strip() != "" and not _UNSAFE_IN_ID.search(id) and id[:1] not in FORMULA


def _drop_copies(documents: Iterable[Document]) -> list[Document]:
    """Return the first document of each text.

    A copy adds nothing to the drafts, and `ragindex_eval.data.gold_classes` counts it as gold like the first.
    """
    kept_documents: dict[tuple[str, str], Document] = {}
    for document in documents:
        kept_documents.setdefault(content(document), document)
    return list(kept_documents.values())


def as_csv(drafted: Iterable[Draft], texts: Mapping[str, str]) -> str:
    """Return the drafts as CSV with a header; `texts` are those of the documents by id.

    Every cell is quoted. `source` begins with a quotation mark, so that a spreadsheet reads no formula.
    `evidence` are the same sentences, or empty unless each stands once in the documents and can be quoted in a cell.
    """
    text = io.StringIO(newline="")
    writer = csv.writer(text, quoting=csv.QUOTE_ALL)
    writer.writerow(COLUMNS)
    for draft in drafted:
        source = " ".join(f"“{sentence}”" for sentence in draft.source)
        writer.writerow(
            (draft.question, draft.answer, ";".join(draft.documents), draft.kind, source, _quote(draft, texts))
        )
    return text.getvalue()


def _quote(draft: Draft, texts: Mapping[str, str]) -> str:
    """Return the column `evidence` of a draft."""
    document_texts = [" ".join(texts[id].split()) for id in draft.documents]
    quotes = [" ".join(sentence.split()) for sentence in draft.source]
    exact = all(sum(text.count(quote) for text in document_texts) == 1 and "||" not in quote for quote in quotes)
    return " || ".join(quotes) if exact and quotes[0][:1] not in FORMULA else ""


def _check(out: Path, overwrite: bool) -> None:
    """Raise errors about the output file before the work starts."""
    if out.suffix.lower() != ".csv":
        raise UsageError(f"--out must be a file ending in .csv, which compare reads. Got {str(out)!r} instead.")
    if os.path.isdir(out):
        raise UsageError(f"--out must be a file. {out} is a folder.")
    if out.exists() and not overwrite:
        raise _exists_error(out)
    require_writable(out.parent)


def _exists_error(out: Path) -> UsageError:
    return UsageError(f"{out} already exists and may have been edited. Name another --out, or pass --overwrite.")


def _write(out: Path, text: str, overwrite: bool) -> None:
    """Write the CSV with a byte order mark, without which spreadsheets do not recognize UTF-8."""
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with out.open("w" if overwrite else "x", encoding="utf-8-sig", newline="") as file:
            file.write(text)
    except FileExistsError as error:
        raise _exists_error(out) from error
    except OSError as error:
        raise StoreError(f"{out} could not be written: {error.strerror}. Name another --out.") from error


def _read_notes(corpus: Corpus, language: str | None) -> list[str]:
    """Return notes on what was not read or not used, and why."""
    texts = [document.text for document in corpus.documents]
    other = language_warning(texts, "english") if language is None else None
    unreadable = sum(not readable(document.id) for document in corpus.documents)
    copies = len(corpus.documents) - len(_drop_copies(corpus.documents))
    have = many(copies, "document has", "documents have")
    return [
        *describe_left_out(corpus.skipped),
        *corpus.notes,
        *describe_ignored(corpus.ignored, corpus.unread),
        *([f"{other}: real questions are drafted in English only, others with a gap."] if other else []),
        *([f"{many(unreadable, 'document is', 'documents are')} left out: {_BAD_ID}."] if unreadable else []),
        *([f"{have} the text of another: it is drafted from once."] if copies else []),
    ]


_BAD_ID = "their ids hold a semicolon or a control character, begin like a formula, or end in a space"


def _explain_shortfall(drafted: Sequence[Draft], asked_for: int) -> list[str]:
    """Return why there are fewer questions than requested, or fewer than half over two documents."""
    two = sum(draft.kind == "two" for draft in drafted)
    few = "few names stand in two to five documents, in sentences that can be understood alone"
    no_more = "no more sentences hold a date, number, name or term that can be asked for"
    sentences = [f"Only {two} of {asked_for // 2} questions over two documents: {few}."] if two < asked_for // 2 else []
    if len(drafted) < asked_for:
        sentences.append(f"Only {len(drafted)} of {asked_for} questions: {no_more}. Write others yourself.")
    return sentences


def _format_counts(drafted: Sequence[Draft]) -> str:
    two = sum(draft.kind == "two" for draft in drafted)
    return f"{many(len(drafted), 'question')} ({len(drafted) - two} over one document, {two} over two)"


def _no_drafts_error(data: Path, documents: int) -> DataError:
    expected = "sentences that a question can be drafted from, with names, dates or numbers"
    got = (
        f"none in {many(documents, 'document')}; write questions yourself, one a line in a .txt, and run: "
        f"ragindex compare {quote_argument(data)} --questions questions.txt"
    )
    return DataError(expected, got, path=data)


def _as_json(draft: Draft) -> dict[str, str | list[str]]:
    return {
        "question": draft.question,
        "answer": draft.answer,
        "documents": list(draft.documents),
        "kind": draft.kind,
        "source": list(draft.source),
    }

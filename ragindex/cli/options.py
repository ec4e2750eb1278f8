"""The options that several commands share."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from ragindex.cli.console import json_destination

JsonOption = Annotated[
    str | None,
    typer.Option(
        "--json", metavar="FILE|-", callback=json_destination, help="Write the result as JSON; - is standard output."
    ),
]
WaitOption = Annotated[
    float,
    typer.Option(
        metavar="SECONDS", min=0.0, help="While another process writes to the index, wait for it so long. Default: 0."
    ),
]
IndexOption = Annotated[Path, typer.Option("--index", metavar="DIR", help="Folder of the index.")]
EncoderOption = Annotated[
    str | None,
    typer.Option("--encoder", metavar="E", help="lsa, sentence-transformers:NAME_OR_PATH or openai:NAME."),
]
StoreOption = Annotated[
    str | None, typer.Option("--store", metavar="S", help="Store of the index, e.g. lancedb(memory_gib=4).")
]
LlmOption = Annotated[
    str | None, typer.Option("--llm", metavar="L", help="openai:MODEL, or offline (rules). Default: the index's LLM.")
]
BudgetOption = Annotated[
    float | None,
    typer.Option("--budget", metavar="DOLLARS", help="Stop before a call would exceed this; progress is saved."),
]
CacheOption = Annotated[
    Path | None,
    typer.Option(
        "--cache",
        metavar="FILE",
        help="Keep new answers of paid services in this file. Default: in the index, in memory if it is only read.",
    ),
]
YesOption = Annotated[
    bool, typer.Option("--yes", help="Do not ask before this spends more than RAGINDEX_CONFIRM_ABOVE ($1).")
]
DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Say what this may cost, and end: nothing is done and nothing is paid.")
]
NoCacheOption = Annotated[bool, typer.Option("--no-cache", help="Neither read nor write cached LLM responses.")]
ReuseAnswersOption = Annotated[
    bool,
    typer.Option(
        "--reuse-answers",
        help="Keep answers of the same model that were paid for under other settings: another address, temperature, "
        "seed, structure or prompt.",
    ),
]
FormatOption = Annotated[
    str | None, typer.Option("--format", metavar="F", help="Format of DATA. Default: detected from its files.")
]
SkipBadOption = Annotated[
    bool | None,
    typer.Option(
        "--skip-bad/--strict",
        help="Leave out all that cannot be read, or stop at the first. Default: leave out files, with exit code 11.",
    ),
]
IncludeOption = Annotated[
    list[str] | None,
    typer.Option("--include", metavar="GLOB", help="Read only files that match, as '*.md'. Repeatable."),
]
ExcludeOption = Annotated[
    list[str] | None,
    typer.Option("--exclude", metavar="GLOB", help="Leave out files that match, as 'drafts/*'. Repeatable."),
]
EncodingOption = Annotated[
    str | None, typer.Option("--encoding", metavar="E", help="Encoding of text files. Default: detected.")
]
MaxFileOption = Annotated[
    float | None, typer.Option("--max-file-mb", metavar="MB", help="Leave out larger files, and say so. Default: 50.")
]
OcrOption = Annotated[
    bool | None, typer.Option("--ocr/--no-ocr", help="Recognise the text of scanned pages in PDF files.")
]
SkipStubsOption = Annotated[
    bool | None,
    typer.Option("--skip-stubs/--keep-stubs", help="Leave out pages that only say where their content has moved."),
]
RefOption = Annotated[
    str | None,
    typer.Option("--ref", metavar="REF", help="Read DATA, a clone or a folder in one, at this branch, tag or commit."),
]
ForgetOption = Annotated[
    bool,
    typer.Option(
        "--forget-options", help="Read DATA with the options of this command alone, not with those remembered of it."
    ),
]
RowsOption = Annotated[
    str | None,
    typer.Option(
        "--rows",
        metavar="[text=COLUMN,…]",  # brackets: it may be left out
        help="Each row of a table is a document. Columns: 'text=A+B,title=A,id=C', or by name.",
    ),
]
AsOption = Annotated[
    str,
    typer.Option("--as", metavar="NAME", help="Prefix of the document ids. Required for every folder but the first."),
]
LanguageOption = Annotated[str | None, typer.Option("--language", metavar="L", help="Language of the documents.")]
ChunkingOption = Annotated[
    str | None,
    typer.Option(
        "--chunking", metavar="P", help="How the index splits documents, e.g. 'passages(by=headings, size=200)'."
    ),
]
WorkersOption = Annotated[
    str | None,
    typer.Option(
        "--workers",
        metavar="N",
        help="Processes for reading, rules and clustering, or a Dask cluster, also for encoding: "
        "dask:tcp://HOST:8786. Default: the cores.",
    ),
]
SeedOption = Annotated[
    int | None, typer.Option("--seed", metavar="S", help="Seed of all random choices. Default: the index's seed.")
]
AllowRemovalsOption = Annotated[
    bool, typer.Option("--allow-removals", help="Do not ask before many documents of a source are removed.")
]
RetryFailedOption = Annotated[
    bool,
    typer.Option(
        "--retry-failed", help="Ask again about passages that are set aside after two charged, unusable answers."
    ),
]


@dataclass(frozen=True, slots=True)
class Approval:
    """How the user has answered in advance, and where the JSON of the command goes (`json`)."""

    yes: bool = False
    budget: float | None = None
    dry_run: bool = False
    json: str | None = None


@dataclass(frozen=True, slots=True)
class ConsentFlags:
    """How the user answers in advance whether the command may pay."""

    yes: YesOption = False
    dry_run: DryRunOption = False

    def answer(self, budget: float | None, json: str | None) -> Approval:
        """Return the answer, with the budget, and where the JSON of the command goes."""
        return Approval(self.yes, budget, self.dry_run, json)

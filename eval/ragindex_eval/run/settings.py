"""Settings of a comparison, as one value from command-line flags, a YAML file (`compare --config`) or Python.

A new option needs one field here and one key in `ragindex.compare_options`: commands make their options from the
fields (`ragindex_eval.cli.settings_options`). Fields that were not given are not in `model_fields_set`, so that any
option of the command overrides the file.
"""

import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, TypeAlias

import regex
import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    PlainValidator,
    ValidationError,
    field_validator,
)

from ragindex._util.text import suggest_names
from ragindex._util.workers import check_workers
from ragindex.corpus import FileSelection
from ragindex.corpus.file_selection import MAX_FILE_MB
from ragindex.corpus.readers.rows import Rows, parse_rows
from ragindex.errors import DataError, UsageError
from ragindex.index.manifest import current_values, read_manifest
from ragindex.llm.tokens import DEFAULT_TOKENS
from ragindex.plugins import registry
from ragindex.plugins.registry import PluginSpec
from ragindex.plugins.specs import Spec, parse_many
from ragindex.plugins.strict_models import BOOLEAN_FOR_NUMBER, Strict
from ragindex_eval.data.published import PublishedTable
from ragindex_eval.format import shown
from ragindex_eval.results.files import folder_name
from ragindex_eval.run.functions import is_function

if TYPE_CHECKING:
    from ragindex.llm.answer_question import ContextLimits

QUICK = ("bm25", "dense", "hybrid", "links", "evidence")
"""The methods that are compared if none is named: they ask no language model and read no triples."""
ALL = "all"
"""Stands for every installed method that needs no address."""
_ONE_OR_MANY = (("data", "corpora"), ("encoder", "encoders"), ("seed", "seeds"))
_CUTOFFS = "Input should be one or more whole numbers in the range [1, inf), as 5,10,20"
_VARIABLE = regex.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


def _require_plugin(value: Any) -> PluginSpec:
    if not isinstance(value, str | Mapping | Spec | BaseModel):
        raise ValueError("Input should be a text, as hybrid(depth=50), or a mapping with a name")
    return value


_Plugin: TypeAlias = Annotated[Any, PlainValidator(_require_plugin)]
"""A plugin as it is written, or made already."""


def _require_method(value: Any) -> Any:
    return value if is_function(value) else _require_plugin(value)


_Method: TypeAlias = Annotated[Any, PlainValidator(_require_method)]
"""A method as it is written or made already, or a function."""
_Rows: TypeAlias = Annotated[Rows | None, BeforeValidator(parse_rows)]


def _split_kinds(value: Any) -> Any:
    """Split the text `2hop=50,3hop=50`."""
    if not isinstance(value, str):
        return value
    pairs = [entry.rpartition("=") for entry in value.split(",")]
    if not all(kind.strip() and count.strip().isdecimal() for kind, _, count in pairs):
        raise ValueError("Input should be kinds with numbers of questions, as 2hop=50,3hop=50")
    return {kind.strip(): int(count) for kind, _, count in pairs}


_Kinds: TypeAlias = Annotated[dict[str, Annotated[int, Field(ge=1)]] | None, BeforeValidator(_split_kinds)]


def _field(metavar: str | None, help: str, default: Any = None, least: int | None = None, **limits: Any) -> Any:
    """Return a field that is an option of commands: how its value is written, its help, and its least value there."""
    shown_as: dict[str, JsonValue] = {"metavar": metavar, "least": least}
    return Field(default=default, description=help, json_schema_extra=shown_as, **limits)


def default_index(dataset: str) -> Path:
    """Return the default folder of a data set's index: ragindex-workspaces/NAME."""
    return Path("ragindex-workspaces", folder_name(dataset))


class _Settings(Strict):
    model_config = ConfigDict(frozen=True, extra="forbid")


class CorpusSettings(_Settings):
    """One of several corpora of a study, with its own settings."""

    data: str
    questions: Path | None = None
    format: str | None = None
    language: str | None = None
    limit: int | None = None
    kinds: _Kinds = None
    published_data: str | None = None


class DataSettings(_Settings):
    """Documents and questions, and how they are read."""

    data: str | None = Field(default=None, description="A folder, a file, or world:1k.")
    corpora: list[str | CorpusSettings] | None = Field(default=None, min_length=1)
    questions: Path | None = _field("FILE", "A .csv, .jsonl or folder of judgements with gold, or a .txt.")
    limit: int | None = _field("N", "Ask N questions, drawn by the seed; a larger N adds to them.", least=1)
    kinds: _Kinds = _field("KIND=N,…", "Ask only N questions of each kind, drawn by the seed, as '2hop=50,3hop=50'.")
    format: str | None = _field("F", "The format of DATA, where it is not recognised.")
    skip_bad: bool | None = _field(None, "Leave out all that cannot be read. Default: files alone, with exit code 11.")
    strict: bool = _field(None, "Stop at the first file that cannot be read, or question that fails.", default=False)
    include: list[str] = _field("GLOB", "Read only files that match, as '*.md'. Repeatable.", default=[])
    exclude: list[str] = _field("GLOB", "Leave out files that match, as 'drafts/*'. Repeatable.", default=[])
    encoding: str | None = _field("E", "Encoding of text files. Default: detected.")
    max_file_mb: float = _field(
        "MB", f"Leave out larger files, and say so. Default: {MAX_FILE_MB:g}.", default=MAX_FILE_MB, gt=0
    )
    ocr: bool = _field(None, "Recognise the text of scanned pages in PDF files.", default=False)
    skip_stubs: bool = _field(None, "Leave out pages that only say where their content has moved.", default=False)
    chunking: str | None = _field(
        "P", "How the index splits documents, as 'passages(by=words, size=100)'. Default: as suits DATA."
    )
    rows: _Rows = _field(
        "[text=COLUMN,…]", "Each row of a table is a document. Columns: 'text=A+B,title=A,id=C', or by name."
    )

    def all_corpora(self) -> list[CorpusSettings | None]:
        """Return the corpora of the study; [None] if the documents in the index are searched."""
        if self.corpora is None:
            return [None] if self.data is None else [CorpusSettings(data=self.data)]
        return [CorpusSettings(data=corpus) if isinstance(corpus, str) else corpus for corpus in self.corpora]

    def selected_files(self) -> FileSelection:
        """Return which files of a folder are read, and how."""
        return FileSelection(
            *(tuple(self.include), tuple(self.exclude), self.encoding, self.max_file_mb, self.ocr),
            *(self.rows, self.skip_stubs),
        )


class MethodSettings(_Settings):
    """Methods to compare."""

    methods: str | list[_Method] | None = _field(
        "a,b", f"The methods, as bm25,hybrid(depth=50), or {ALL}. Default: {', '.join(QUICK)}."
    )
    with_rerank: bool = _field(None, "Compare each method with the same method reranked.", default=False)
    reranker: _Plugin | None = _field("R", "cross-encoder:MODEL or endpoint:MODEL; implies --with-rerank.")
    grid: list[str] = _field(
        "[LABEL:]P=V,V",
        "Variants, as 'hybrid:rrf_k=10,60', or of every method, as 'over=passages,passages(size=64)'. Repeatable.",
        default=[],
    )

    def written_methods(self) -> Sequence[PluginSpec] | None:
        """Return the methods as specs; None for the quick ones."""
        return parse_many(self.methods) if isinstance(self.methods, str) else self.methods

    def rerank_with(self) -> PluginSpec | bool:
        """Return the reranker of each method's reranked one: True for the default one, False for none."""
        return self.reranker or self.with_rerank


class IndexAndModelSettings(_Settings):
    """Index, its encoder and language model, and what the work on it may take."""

    index: Path | None = _field("DIR", "The index's folder, kept. Default: ragindex-workspaces/NAME.")
    encoder: _Plugin | None = _field(
        "E", "lsa, sentence-transformers:NAME_OR_PATH or openai:NAME. Default: the index's own, or lsa."
    )
    encoders: list[_Plugin] | None = Field(default=None, min_length=1)
    llm: _Plugin | None = _field("L", "openai:MODEL, or offline (rules). Default: the index's own, or offline.")
    budget: float | None = _field("DOLLARS", "Stop before the calls cost more.")
    no_cache: bool = _field(None, "Neither read nor write the cache of LLM calls.", default=False)
    reuse_answers: bool = _field(
        None,
        "Keep answers of the same model that were paid for under other settings: another address, temperature, seed, "
        "structure or prompt.",
        default=False,
    )
    triples: Path | None = _field("FILE", "Published extractions (HippoRAG's OpenIE), used instead of an LLM.")
    store: _Plugin | None = _field("S", "The store. Default: the index's own, or lancedb.")
    language: str | None = _field("L", "The language of the documents. Default: the index's own, or english.")
    seed: int | None = _field("S", "The seed of everything random. Default: the index's own, or 0.")
    seeds: list[int] | None = Field(default=None, min_length=1)
    workers: Annotated[int | str | None, AfterValidator(check_workers)] = _field(
        "N",
        "Processes for reading, rules and clustering, or a Dask cluster, also for encoding: dask:tcp://HOST:8786. "
        "Default: the cores.",
    )

    def index_folder(self, dataset: str) -> Path:
        """Return the folder of the index of a data set."""
        return self.index or default_index(dataset)

    def on_index(self, folder: Path) -> Self:
        """Return the settings with the index's own encoder, LLM, store, language and seed where they name no others."""
        used = {**current_values(read_manifest(folder)), **self.opened_with()}
        labels = {
            "encoder": registry.label(registry.encoder(used["encoder"])),
            "llm": registry.label(registry.llm(used["llm"])),
            "store": registry.label(registry.store(used["store"])),
        }
        return self.model_copy(update={**used, **labels})

    def all_encoders(self) -> list[PluginSpec | None]:
        """Return the encoders of the study; None is that of the index."""
        return [self.encoder] if self.encoders is None else list(self.encoders)

    def opened_with(self) -> dict[str, Any]:
        """Return the given ones of encoder, LLM, store, language and seed."""
        given = {"encoder": self.encoder, "llm": self.llm, "store": self.store, "language": self.language}
        return {name: value for name, value in (*given.items(), ("seed", self.seed)) if value is not None}


class ReaderSettings(_Settings):
    """Answers read from what was found: by which model, from how much of it, and in how many words."""

    read: bool = _field(None, "Answer each question from what was found; measure EM and F1.", default=False)
    reader_llm: _Plugin | None = _field("L", "The model that reads, as openai:MODEL. Default: that of --llm.")
    reader_tokens: int | None = _field(
        "N",
        f"The most tokens that the reader is given. Default: {DEFAULT_TOKENS}, or no limit with --reader-passages.",
        least=1,
        ge=1,
    )
    reader_passages: int | None = _field(
        "N", "The most hits that the reader is given, in full. Default: those at the largest k.", least=1, ge=1
    )
    reader_input: Literal["notes", "passages"] = _field(
        "WHAT", "notes (default): what a method noted, then its hits; passages: the hits alone.", default="notes"
    )
    reader_prompt: Literal["short", "six-words", "fewest-words"] = _field(
        "STYLE",
        "short (default), six-words (GeAR's) or fewest-words (SiReRAG's): how short answers are asked for.",
        default="short",
    )
    qa_model: str | None = _field(
        "NAME_OR_PATH", "With --read: a model for extractive QA (SQuAD 2), for Disambig-F1 and DR of ASQA."
    )

    def context_limits(self) -> "ContextLimits":
        """Return what the reader is given of a retrieval."""
        from ragindex.llm.answer_question import ContextLimits  # rules for English, which rankings of files do not need

        return ContextLimits.of(self.reader_tokens, self.reader_passages, notes=self.reader_input == "notes")


class MeasureSettings(ReaderSettings):
    """What is measured: cutoffs, answers of a reader, thresholds, a holdout, published figures."""

    k: tuple[int, ...] = _field("5,10,20", "The cutoffs. Default: 5,10,20.", default=(5, 10, 20))
    holdout: Path | None = _field("FILE", "Questions with gold that confirm the choice; they may be used once.")
    reuse_holdout: bool = _field(None, "Use a holdout again. The report says that it confirms nothing.", default=False)
    fail_below: list[str] = _field("LABEL:M=V", "Exit with 8 below it, as 'dense:R@5=0.60'. Repeatable.", default=[])
    published: PublishedTable | None = None
    published_data: str | None = _field(
        "NAME", "The data set of the published table in --config that DATA is, as musique."
    )

    @field_validator("k", mode="before")
    @classmethod
    def _split_cutoffs(cls, value: Any) -> Any:
        """Split the text `5,10,20`, and wrap a single number in a list."""
        if not isinstance(value, str):
            return [value] if isinstance(value, int) else value
        if not all(number.strip().isdecimal() for number in value.split(",")):
            raise ValueError(_CUTOFFS)
        return value.split(",")

    @field_validator("k")
    @classmethod
    def _sort_cutoffs(cls, value: tuple[int, ...]) -> tuple[int, ...]:
        if not value or min(value) < 1:
            raise ValueError(_CUTOFFS)
        return tuple(sorted(set(value)))


class OutputSettings(_Settings):
    """Where results go, and what of earlier runs is used again."""

    out: Path | None = _field("DIR", "Rankings, figures and report. Default: ragindex-results/NAME.")
    fresh: bool = _field(None, "Ask and time every question again; ignore the results of earlier runs.", default=False)
    trace: bool = _field(None, "Record each new retrieval as an MLflow span.", default=False)
    name: str | None = None
    json_file: str | None = None


class CompareSettings(DataSettings, MethodSettings, IndexAndModelSettings, MeasureSettings, OutputSettings):
    """Settings of a comparison, or of a study if `corpora`, `encoders` or `seeds` list several values.

    They are grouped: a function that reads one group alone takes that group.
    """

    def over(self, other: "CompareSettings") -> "CompareSettings":
        """Return these settings completed with those of `other`; a value such as `seed` here replaces `seeds` there."""
        here, there = given_values(self), given_values(other)
        replaced = {name for pair in _ONE_OR_MANY for name in pair if any(alias in here for alias in pair)}
        others = {name: value for name, value in there.items() if name not in replaced}
        return CompareSettings.model_validate({**others, **here})

    def over_file(self, path: Path | None) -> "CompareSettings":
        """Return these settings completed with those of a YAML file, if one is named. Raises as `read_settings`."""
        return self if path is None else self.over(read_settings(path))

    def index_folder(self, dataset: str) -> Path:
        """Return the folder of the index of a data set; each of several has its own."""
        several = self.index is not None and len(self.all_corpora()) > 1
        return self.index / folder_name(dataset) if self.index and several else super().index_folder(dataset)

    def for_one(self, corpus: CorpusSettings | None, encoder: PluginSpec | None, seed: int | None) -> "CompareSettings":
        """Return the settings of one comparison of the study."""
        own = {} if corpus is None else {name: value for name, value in dict(corpus).items() if value is not None}
        single = {"corpora": None, "encoder": encoder, "encoders": None, "seed": seed, "seeds": None}
        return self.model_copy(update={**own, **single})


GROUPS: Mapping[str, type[Strict]] = {
    "Documents and questions": DataSettings,
    "Methods": MethodSettings,
    "Index and models": IndexAndModelSettings,
    "Answers": ReaderSettings,
    "Figures": MeasureSettings,
    "Results": OutputSettings,
}
"""The groups of settings, by the titles that help shows."""


def given_values(settings: CompareSettings) -> dict[str, Any]:
    """Return the explicitly given values by field name, in the order of the fields."""
    given = settings.model_fields_set
    return {name: getattr(settings, name) for name in type(settings).model_fields if name in given}


def make_settings(values: Mapping[str, Any], where: str = "", without: Collection[str] = ()) -> CompareSettings:
    """Build settings from values. Raises UsageError, prefixed with `where`, for unknown names and invalid values.

    An error that lists the settings leaves out those of `without`.
    """
    _require_known(values, where, without)
    for single, several in _ONE_OR_MANY:
        if single in values and several in values:
            raise UsageError(f"{where}give {single!r} or {several!r}, not both.")
    try:
        return CompareSettings.model_validate(dict(values))
    except ValidationError as error:
        raise UsageError(f"{where}{_explain(error)}") from error


def read_settings(path: Path) -> CompareSettings:
    """Read settings from a YAML file, whose keys are flag names and whose texts may contain ${NAME}.

    Raises DataError if the file is not a YAML mapping, and UsageError for unknown keys, invalid values and environment
    variables that are not set.
    """
    try:
        value = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise DataError("a YAML file", error.strerror or str(error), path=path) from error
    except (UnicodeDecodeError, yaml.YAMLError) as error:
        mark = getattr(error, "problem_mark", None)
        line = None if mark is None else mark.line + 1
        raise DataError("YAML", getattr(error, "problem", None) or str(error), path=path, line=line) from error
    if not isinstance(value, dict):
        raise DataError("keys and values, as in 'methods: [bm25, dense]'", repr(value)[:80], path=path)
    return make_settings({_field_name(key): _expand(item, path) for key, item in value.items()}, f"{path}: ")


def _field_name(key: Any) -> str:
    """Return the field name of a key.

    `skip-bad` becomes `skip_bad`, and `json` becomes `json_file`, because pydantic models have a method `json`.
    """
    name = str(key).replace("-", "_")
    return "json_file" if name == "json" else name


def _require_known(names: Mapping[str, Any], where: str, without: Collection[str]) -> None:
    fields = CompareSettings.model_fields
    known = [name.removesuffix("_file").replace("_", "-") for name in fields if name not in without]
    for name in names:
        if name not in fields:
            hint = suggest_names(name.replace("_", "-"), sorted(known))
            raise UsageError(f"{where}there is no setting {name!r}. {hint}")


def _expand(value: Any, path: Path) -> Any:
    """Replace ${NAME} in all texts of `value` by environment variables."""
    if isinstance(value, dict):
        return {key: _expand(item, path) for key, item in value.items()}
    if isinstance(value, list):
        return [_expand(item, path) for item in value]
    return _VARIABLE.sub(lambda match: _read_variable(match[1], path), value) if isinstance(value, str) else value


def _read_variable(name: str, path: Path) -> str:
    value = os.environ.get(name)
    if value is None:
        raise UsageError(f"{path}: the environment variable {name} is not set. Run: export {name}=…")
    return value


def _explain(error: ValidationError) -> str:
    problems = error.errors()
    problem = next((problem for problem in problems if problem["type"] == BOOLEAN_FOR_NUMBER), problems[0])
    where = ".".join(str(part) for part in problem["loc"][:1]).replace("json_file", "json").replace("_", "-")
    return (
        f"{where!r}: {problem['msg'].removeprefix('Value error, ')}. Got {shown(repr(problem['input']), 80)} instead."
    )

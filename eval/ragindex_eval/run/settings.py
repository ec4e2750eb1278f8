"""The file that `compare --config` reads: YAML with ${NAME} for environment variables, keys named as the flags."""

import difflib
import os
from pathlib import Path
from typing import Any

import regex
import yaml
from pydantic import ConfigDict, Field, ValidationError

from ragindex.errors import DataError, UsageError
from ragindex.plugins.registry import Written
from ragindex.plugins.specs import parse_many
from ragindex.plugins.strict_models import BOOLEAN_FOR_NUMBER, Strict

_ONE_OR_MANY = (("data", "corpora"), ("encoder", "encoders"), ("seed", "seeds"))
_VARIABLE = regex.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


class CorpusSettings(Strict):
    """One of several corpora of a study, with what is said of it alone."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    data: str
    questions: Path | None = None
    format: str | None = None
    language: str | None = None
    limit: int | None = None


class Settings(Strict):
    """What a comparison or a study is asked for, by flags or in a file. None: not said.

    `corpora`, `encoders` and `seeds` are for studies, in place of `data`, `encoder` and `seed`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    data: str | None = None
    corpora: list[str | CorpusSettings] | None = Field(default=None, min_length=1)
    questions: Path | None = None
    format: str | None = None
    skip_bad: bool | None = None
    language: str | None = None
    methods: str | list[str | dict[str, Any]] | None = None
    with_rerank: bool | None = None
    reranker: str | dict[str, Any] | None = None
    encoder: str | dict[str, Any] | None = None
    encoders: list[str | dict[str, Any]] | None = Field(default=None, min_length=1)
    llm: str | dict[str, Any] | None = None
    budget: float | None = None
    no_cache: bool | None = None
    triples: Path | None = None
    read: bool | None = None
    reader_tokens: int | None = Field(default=None, ge=1)
    store: str | dict[str, Any] | None = None
    k: str | int | list[int] | None = None
    limit: int | None = None
    seed: int | None = None
    seeds: list[int] | None = Field(default=None, min_length=1)
    grid: list[str] | None = None
    fail_below: list[str] | None = None
    strict: bool | None = None
    fresh: bool | None = None
    trace: bool | None = None
    name: str | None = None
    workspace: Path | None = None
    out: Path | None = None
    json_file: str | None = None

    def over(self, other: "Settings") -> "Settings":
        """These, and those of `other` where nothing is said here: `seed` here replaces `seeds` there."""
        here, there = _said(self), _said(other)
        replaced = {name for pair in _ONE_OR_MANY for name in pair if any(one in here for one in pair)}
        return Settings.model_validate({**{n: v for n, v in there.items() if n not in replaced}, **here})

    def each_corpus(self) -> list[CorpusSettings | None]:
        """The corpora of the study; [None] where the documents of the workspace are searched."""
        if self.corpora is None:
            return [None] if self.data is None else [CorpusSettings(data=self.data)]
        return [CorpusSettings(data=one) if isinstance(one, str) else one for one in self.corpora]

    def each_encoder(self) -> list[Written]:
        """The encoders of the study: lsa where none is named."""
        return list(self.encoders) if self.encoders is not None else [self.encoder or "lsa"]

    def written_methods(self) -> list[Written] | None:
        """The methods as they were written; None: every one that can be made."""
        if isinstance(self.methods, str):
            return list(parse_many(self.methods))
        return None if self.methods is None else list(self.methods)

    def twins(self) -> Written | bool:
        """What reranks the twin of every method: a reranker, True for the default one, False for no twins."""
        return self.reranker or bool(self.with_rerank)

    def cutoffs(self) -> tuple[int, ...] | None:
        """The k's. Raises UsageError where one is no whole number from 1 on."""
        if self.k is None:
            return None
        written = self.k.split(",") if isinstance(self.k, str) else self.k if isinstance(self.k, list) else [self.k]
        wrong = UsageError(
            f"--k must be whole numbers separated by commas, as 5,10,20, each in the range [1, inf). Got {self.k!r}."
        )
        try:
            ks = tuple(int(part) for part in written)
        except ValueError as error:
            raise wrong from error
        if not ks or min(ks) < 1:
            raise wrong
        return ks


def _said(settings: Settings) -> dict[str, Any]:
    return {name: value for name in Settings.model_fields if (value := getattr(settings, name)) is not None}


def read(path: Path) -> Settings:
    """The settings in a file. Raises DataError where it is no YAML, UsageError for keys and values that cannot be."""
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
    expanded = {_key(key, path): _expanded(item, path) for key, item in value.items()}
    for one, many in _ONE_OR_MANY:
        if one in expanded and many in expanded:
            raise UsageError(f"{path}: give {one!r} or {many!r}, not both.")
    try:
        return Settings.model_validate(expanded)
    except ValidationError as error:
        raise UsageError(f"{path}: {_explain(error)}") from error


def _key(key: Any, path: Path) -> str:
    """A key of the file as a field of Settings (`json_file`, because pydantic models have a method `json`)."""
    known = {name.removesuffix("_file").replace("_", "-"): name for name in Settings.model_fields}
    name = known.get(str(key).replace("_", "-"))
    if name is None:
        near = difflib.get_close_matches(str(key), known, n=3, cutoff=0.5)
        hint = f"Did you mean {' or '.join(near)}?" if near else f"There are: {', '.join(sorted(known))}."
        raise UsageError(f"{path}: no setting is called {str(key)!r}. {hint}")
    return name


def _expanded(value: Any, path: Path) -> Any:
    """`value` with ${NAME} replaced in all its texts."""
    if isinstance(value, dict):
        return {key: _expanded(item, path) for key, item in value.items()}
    if isinstance(value, list):
        return [_expanded(item, path) for item in value]
    return _VARIABLE.sub(lambda found: _variable(found[1], path), value) if isinstance(value, str) else value


def _variable(name: str, path: Path) -> str:
    value = os.environ.get(name)
    if value is None:
        raise UsageError(f"{path}: the environment variable {name} is not set. Run: export {name}=…")
    return value


def _explain(error: ValidationError) -> str:
    problems = error.errors()
    problem = next((one for one in problems if one["type"] == BOOLEAN_FOR_NUMBER), problems[0])
    where = ".".join(str(part) for part in problem["loc"][:1]).replace("json_file", "json")
    return f"{where!r}: {problem['msg']}. Got {problem['input']!r} instead."

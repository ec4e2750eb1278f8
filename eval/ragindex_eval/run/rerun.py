"""Reruns of a finished study: its saved results stand as long as nothing that they depend on has changed.

A study that finished without a failure leaves a record beside its results: hashes of the documents, questions and all
other files that it read, of its settings, of code and installed packages, of the indexes, and of the result files. The
same command then shows the saved results, if all of these are as they were. A file with the same size, times and inode
is not read again; any other file is compared by its content. `docs/how-to/resume-and-repeat-a-run.md` lists what is
compared.
"""

import hashlib
import json
import os
import stat
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import regex
from pydantic import BaseModel, ValidationError

from ragindex._util import durable_files
from ragindex._util.canonical import digest, encodable
from ragindex._util.redaction import bare_address
from ragindex.corpus.formats import list_source_files
from ragindex.errors import DataError, StoreError
from ragindex.index.manifest import MANIFEST_FILE, read_manifest
from ragindex.llm.prices import PRICES_VARIABLE
from ragindex.plugins import code_fingerprint, registry
from ragindex_eval.results.files import REPORT_FILE, RESULTS, folder_name, load_results
from ragindex_eval.results.model import MethodResult, Study
from ragindex_eval.results.records import NO_USAGE
from ragindex_eval.run.ask import failure
from ragindex_eval.run.environment import environment
from ragindex_eval.run.settings import CompareSettings, IndexAndModelSettings, MeasureSettings
from ragindex_eval.run.thresholds import parse_threshold, require_methods

_QUESTIONS = "questions"
_NO_RESULT = {"out", "json_file", "fresh", "trace", "workers", "fail_below", "budget"}
"""Settings that change no figure."""
_PLUGINS = {"methods", "grid", "encoder", "encoders", "llm", "reader_llm", "reranker", "store"}
"""Settings that are specifications of plugins, in which paths of models and weights may stand."""
_LATER = ("skip_stubs", "chunking", "kinds", "reader_llm", "reader_passages", "reader_input")
"""Settings that records of earlier versions do not know."""
_QUOTED = regex.compile(r'"(?:[^"\\]|\\.)*"')
_WORD = regex.compile(r"[\p{L}_][\w.\-]*")
_SETTLED = 2_000_000_000  # nanoseconds; a file changed later than this before it was hashed may change unnoticed


class FileState(BaseModel, frozen=True, extra="forbid"):
    """Hash of a file's content, and its size, times and inode; None if it cannot be read, or was changed just now."""

    hash: str | None
    stamp: tuple[int, int, int, int] | None


class FinishedStudy(BaseModel, frozen=True, extra="forbid"):
    """What a finished study depends on, its files, and its runs in MLflow by store. `finished` is in Unix seconds."""

    finished: float
    digests: Mapping[str, str]
    files: Mapping[str, FileState]
    indexes: Mapping[str, str]
    results: Mapping[str, str]
    tracked: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True)
class Inputs:
    """What a study depends on before it runs: digests of settings, code and machine, and the files that it reads."""

    digests: Mapping[str, str]
    files: Mapping[str, FileState]

    def matches(self, other: "Inputs | FinishedStudy") -> bool:
        """Return whether digests and contents are equal."""
        return self.digests == other.digests and _hashes(self.files) == _hashes(other.files)


def results_folder(out: Path | None, questions: Path | None, name: str) -> Path:
    """Return the folder of the results of a study, which is `out` if that is named.

    By default it is named after the documents, and after the questions unless these are called questions: results of
    other questions do not replace them.
    """
    stem = _QUESTIONS if questions is None else questions.stem
    return out or RESULTS / folder_name(name if stem == _QUESTIONS else f"{name}-{stem}")


def find_record(settings_hash: str, out: Path | None) -> tuple[Path, FinishedStudy] | None:
    """Return the results folder and the record of a finished study with equal settings; None if there is none."""
    name = _record_name(settings_hash)
    places = [out / name] if out else sorted(RESULTS.glob(f"*/{name}"))
    return next(((path.parent, record) for path in places if (record := _read_record(path)) is not None), None)


def describe_inputs(settings: CompareSettings, known: Mapping[str, FileState] | None = None) -> Inputs:
    """Describe what a study of these settings depends on; files that are as in `known` are not read."""
    digests = {
        "settings": settings_digest(settings),
        "code": _code_digest(),
        "packages": digest(sorted(_packages())),
        "machine": digest(dict(environment())),
        "variables": digest(dict(_variables())),
        "models": digest(dict(_hub_revisions())),
    }
    files = {name: _describe_file(path, (known or {}).get(name)) for name, path in _input_files(settings)}
    return Inputs(digests, files)


def load_unchanged(models: IndexAndModelSettings, folder: Path, record: FinishedStudy, inputs: Inputs) -> Study | None:
    """Load the results of a finished study; None if anything that they depend on, or one of their files, changed."""
    if not inputs.matches(record) or record.indexes != _index_hashes(models, record.indexes):
        return None
    if any(durable_files.find_file_damage(folder / name, hash) for name, hash in record.results.items()):
        return None
    try:
        return load_results(folder)
    except DataError:
        return None


def spent_nothing(study: Study) -> Study:
    """Return the study as a run shows it that read it from files: `spent` is what this run paid, which is nothing."""

    def free(results: Sequence[MethodResult]) -> tuple[MethodResult, ...]:
        return tuple(replace(result, spent=NO_USAGE) for result in results)

    comparisons = (
        replace(
            comparison,
            methods=free(comparison.methods),
            failed=free(comparison.failed),
            bounds=free(comparison.bounds),
            paid=NO_USAGE,
        )
        for comparison in study.comparisons
    )
    return replace(study, comparisons=tuple(comparisons))


def require_thresholds(measured: MeasureSettings, study: Study) -> None:
    """Check that the thresholds name methods of the study, as `run_study` does before it runs. Raises UsageError."""
    thresholds = [parse_threshold(written, measured.k) for written in measured.fail_below]
    require_methods(thresholds, [label for comparison in study.comparisons for label in comparison.asked])


def record_finished(
    models: IndexAndModelSettings, inputs: Inputs, study: Study, folder: Path, results: Mapping[str, str]
) -> FinishedStudy | None:
    """Record a finished study, whose files have the hashes `results`; None if the next run has to do some of it again.

    That is so if a question, a method or a passage failed. `inputs` are those of before and after the study.
    """
    names = dict.fromkeys(comparison.dataset.name for comparison in study.comparisons)
    complete = all(encodable(name) == name for name in names) and not _has_failures(study)
    if not complete or any(_has_failed_passages(models.index_folder(name)) for name in names):
        return None
    record = FinishedStudy(
        finished=time.time(),
        digests=inputs.digests,
        files=inputs.files,
        indexes=_index_hashes(models, names),
        results={**results, REPORT_FILE: durable_files.hash_file(folder / REPORT_FILE)},
    )
    write_record(folder, record)
    return record


def write_record(folder: Path, record: FinishedStudy) -> None:
    """Write the record of a study into its results folder. Raises StoreError if it cannot be written."""
    path = folder / _record_name(record.digests["settings"])
    try:
        durable_files.write_file(path, durable_files.dump_hashed_json(record.model_dump(mode="json")))
    except OSError as error:
        raise StoreError(f"{path} could not be written: {error.strerror or error}.") from error


def _record_name(settings_hash: str) -> str:
    return f"inputs-{settings_hash}.json"


def _read_record(path: Path) -> FinishedStudy | None:
    """Read a record; None if there is none, or it is damaged."""
    try:
        return FinishedStudy.model_validate(durable_files.load_hashed_json(path.read_bytes()))
    except (OSError, ValidationError):
        return None


# ---------------------------------------------------------------- settings, code, machine


def settings_digest(settings: CompareSettings) -> str:
    """Return a hash of the settings that figures depend on.

    Settings that came later are no part of it while they have their defaults, so that earlier records stay valid.
    """
    values = settings.model_dump(mode="json", exclude=_NO_RESULT)
    values["reader_tokens"] = settings.context_limits().tokens
    fields = type(settings).model_fields
    later = {name for name in _LATER if values[name] == fields[name].get_default()}
    return digest({name: value for name, value in values.items() if name not in later})


def _code_digest() -> str:
    """Return a hash of all files of our packages and of the code of third-party plugins."""
    return digest([_hash_own_code(), code_fingerprint.of_modules(registry.plugin_modules())])


def _hash_own_code() -> str:
    hashed = hashlib.sha256()
    for top in sorted(code_fingerprint.OURS):
        spec = find_spec(top)
        for place in (spec.submodule_search_locations or ()) if spec else ():
            for name in _list_files(place):
                hashed.update(f"{top}/{name} {durable_files.hash_file(Path(place, name))}\n".encode())
    return hashed.hexdigest()


def _list_files(place: str) -> list[str]:
    """Return the files of a folder by their path in it, but those that Python compiled; paths are slow for hundreds."""
    names = list[str]()
    for folder, folders, files in os.walk(place):
        folders[:] = [name for name in folders if name != "__pycache__"]
        inner = folder.removeprefix(place).strip(os.sep).replace(os.sep, "/")
        names += [f"{inner}/{name}" if inner else name for name in files]
    return sorted(names, key=lambda name: name.split("/"))


def _packages() -> Iterator[str]:
    """Yield the names of the installed distributions with their versions, as their metadata folders are called."""
    for place in sys.path:
        with suppress(OSError):  # the path may name folders that are not there
            yield from (name for name in os.listdir(place or ".") if name.endswith((".dist-info", ".egg-info")))


def _variables() -> Iterator[tuple[str, str]]:
    """Yield the environment variables that name services and settings, without logins and tokens."""
    for name, value in sorted(os.environ.items()):
        if name.endswith("_URL") or name.startswith("RAGINDEX_"):
            yield name, bare_address(value)


def _hub_revisions() -> Iterator[tuple[str, str]]:
    """Yield the revisions of the models in the Hugging Face cache, as (model/refs/NAME, revision)."""
    home = os.environ.get("HF_HOME") or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "huggingface")
    caches = (os.environ.get("HF_HUB_CACHE") or Path(home, "hub"), os.environ.get("SENTENCE_TRANSFORMERS_HOME"))
    for cache in (Path(cache).expanduser() for cache in caches if cache):
        for path in sorted(cache.glob("models--*/refs/*")):
            with suppress(OSError):
                yield path.relative_to(cache).as_posix(), path.read_text(encoding="utf-8", errors="replace")


# ---------------------------------------------------------------- files


def _input_files(settings: CompareSettings) -> Iterator[tuple[str, Path]]:
    """Yield the files that a study may read, with names that tell them apart: every path that a setting contains."""
    named = [path for corpus in settings.all_corpora() if corpus for path in (corpus.data, corpus.questions)]
    named += [
        settings.questions,
        settings.holdout,
        settings.triples,
        settings.qa_model,
        os.environ.get(PRICES_VARIABLE, "").strip(),
    ]
    plugins = settings.model_dump(mode="json", include=_PLUGINS)
    texts = [*map(str, filter(None, named)), *filter(None, _texts(plugins))]
    roots = [Path(os.path.expanduser(text)) for text in dict.fromkeys(texts)]
    for number, root in enumerate(roots):
        for file in list_source_files(root):
            name = f"{number}/{os.path.relpath(file, root)}"
            yield name.encode("utf-8", "backslashreplace").decode(), file


def _texts(value: Any) -> Iterator[str]:
    """Yield the texts in specifications of plugins that may be paths: whole ones, arguments, quoted ones and words."""
    if isinstance(value, str):
        quoted = (_unquote(match) for match in _QUOTED.findall(value))
        for text in (value, *quoted):
            for path in (text, text.partition(":")[2]):
                yield from (path, path.partition("#")[0])  # FILE#HASH names a file with its content
        yield from _WORD.findall(value)
    elif isinstance(value, Mapping):
        yield from (text for name, item in value.items() if name not in ("name", "label") for text in _texts(item))
    elif isinstance(value, list):
        yield from (text for item in value for text in _texts(item))


def _unquote(written: str) -> str:
    try:
        return str(json.loads(written))
    except ValueError:
        return ""


def _describe_file(path: Path, known: FileState | None) -> FileState:
    """Describe a file; `known` if its size, times and inode are as they were."""
    try:
        status = path.stat()
        stamp = (status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)
        if known is not None and known.stamp == stamp:
            return known
        if not stat.S_ISREG(status.st_mode):  # reading a pipe would wait for ever
            return FileState(hash=None, stamp=None)
        settled = time.time_ns() - max(status.st_mtime_ns, status.st_ctime_ns) > _SETTLED
        return FileState(hash=durable_files.hash_file(path), stamp=stamp if settled else None)
    except OSError:
        return FileState(hash=None, stamp=None)


def _hashes(files: Mapping[str, FileState]) -> dict[str, str | None]:
    return {name: state.hash for name, state in files.items()}


# ---------------------------------------------------------------- indexes and results


def _index_hashes(models: IndexAndModelSettings, names: Mapping[str, Any]) -> dict[str, str]:
    """Return a hash of the manifest and the own models of each data set's index, "" if it cannot be read."""
    hashes = {}
    for name in names:
        folder = models.index_folder(name)
        try:
            hashes[name] = digest([durable_files.hash_file(folder / MANIFEST_FILE), _hash_own_models(models, folder)])
        except OSError:
            hashes[name] = ""
    return hashes


def _hash_own_models(models: IndexAndModelSettings, index: Path) -> dict[str, str]:
    """Return the hashes of files that the index's own encoder and LLM name, where the settings name no others."""
    own = models.on_index(index)
    labels = [getattr(own, name) for name in ("encoder", "llm") if getattr(models, name) is None]
    roots = [Path(os.path.expanduser(text)) for text in dict.fromkeys(filter(None, _texts(labels)))]
    return {str(file): durable_files.hash_file(file) for root in roots for file in list_source_files(root)}


def _has_failed_passages(index: Path) -> bool:
    """Return whether a part of the index lacks passages that failed, or the index is gone."""
    manifest = read_manifest(index)
    return manifest is None or any(part.failed for part in manifest.parts.values())


def _has_failures(study: Study) -> bool:
    """Return whether a method or the reader failed on a question, which the next run asks again."""
    compared = study.comparisons
    results = (result for each in compared for result in (*each.methods, *each.failed, *each.bounds))
    answers = (answer for result in results for by_k in result.answers.values() for answer in by_k)
    return any(failure(answer) is not None for answer in answers)

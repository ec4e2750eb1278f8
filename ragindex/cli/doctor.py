"""The command `doctor`: list what is installed and what is missing, or what is wrong in an index and was not read."""

import importlib.util
import os
import platform
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated

import typer

from ragindex._util import distribution, durable_files
from ragindex._util.ids import list_places
from ragindex._util.text import many
from ragindex.cli.console import SHOW_TRACEBACK, stdout, text_table, write_result
from ragindex.cli.options import JsonOption
from ragindex.corpus.local_files import READ_SHARE
from ragindex.encoders.sentence_transformer import describe_engine
from ragindex.errors import MissingExtraError, RagindexError
from ragindex.index.index import Index
from ragindex.index.notes import describe_fit, describe_readers, describe_unknown_passages
from ragindex.index.parts import require_working_default
from ragindex.plugins import registry
from ragindex.stores.lancedb.engine import check_processor

_EXTRAS = {  # extra: the module that it installs, and the feature that needs the module
    "neural": ("sentence_transformers", "encoders and rerankers that run on torch"),
    "fast": ("onnxruntime", "encoders in ONNX form, without torch"),
    "elasticsearch": ("elasticsearch", "store elasticsearch"),
    "umap": ("umap", "clustering with UMAP"),
    "eval": ("mlflow", "recording comparisons and retrievals in MLflow"),
    "langchain": ("langchain_core", "ragindex.integrations.langchain"),
    "llama-index": ("llama_index", "ragindex.integrations.llama_index"),
    "haystack": ("haystack", "ragindex.integrations.haystack"),
    "dspy": ("dspy", "ragindex.integrations.dspy"),
    "serve": ("mcp", "ragindex serve and ragindex mcp"),
    "watch": ("watchfiles", "ragindex update --watch"),
    "dask": ("distributed", "--workers dask:ADDRESS"),
}
_CHECKED_GROUPS: tuple[registry.PluginGroup, ...] = ("schemes", "encoders", "stores")
_THIRD_PARTY_GROUPS: tuple[registry.PluginGroup, ...] = ("parts", "llms", "corpora", "commands")
_VARIABLES = {
    "OPENAI_API_KEY": "the key for --encoder openai:NAME",
    "OPENAI_BASE_URL": "default: https://api.openai.com/v1",
    "EMBEDDING_API_KEY": "default: OPENAI_API_KEY",
    "EMBEDDING_BASE_URL": "default: OPENAI_BASE_URL",
    "ELASTICSEARCH_URL": "the address for --store elasticsearch",
    "ELASTICSEARCH_API_KEY": "the key for it; or ELASTICSEARCH_USER and ELASTICSEARCH_PASSWORD",
    "ELASTICSEARCH_USER": "default: no user",
    "ELASTICSEARCH_PASSWORD": "the user's",
    "ELASTICSEARCH_CA_FILE": "the certificate of your own authority; default: the system's",
    "RAGINDEX_WORKERS": "processes for reading, rules and clustering; default: the cores",
    "RAGINDEX_CACHE": "the folder of models in ONNX form; default: ~/.cache/ragindex",
    "RAGINDEX_DAILY_BUDGET": "US dollars that all runs may pay in a day; default: no limit",
    "RAGINDEX_STATE": "the folder of the log of what was paid; default: ~/.local/state/ragindex",
    SHOW_TRACEBACK: "1: an error in a plugin shows its traceback",
    "MLFLOW_TRACKING_URI": "default: sqlite:///mlflow.db",
    "MLFLOW_EXPERIMENT_NAME": "default: ragindex",
}
_COLUMNS = ("what", "state", "detail")
_ASIDE = "set aside"


def doctor(
    folder: Annotated[
        Path | None,
        typer.Option(
            "--index", metavar="DIR", help="Check this index: its own files, and those read in part or left out."
        ),
    ] = None,
    json: JsonOption = None,
) -> None:
    """Check the installation: list what is installed, what is missing, and how to install it.

    With --index, check an index instead: list its own files that have changed since they were written, the documents
    of which words are missing, the files that were left out when its folders were last read, and the passages that
    are set aside because a model's charged answers about them cannot be used. It also lists how old the encoder's fit
    is, and which other processes have the index open.

    Example: ragindex doctor --index my-index
    """
    rows = check_installation() if folder is None else _check_index(folder)
    if folder is None:
        hint = "Try it: ragindex demo. On your documents: ragindex compare DATA --questions FILE"
    elif any(state == _ASIDE for _, state, _ in rows):
        hint = f"To ask again about what is set aside: ragindex index --index {shlex.quote(str(folder))} --retry-failed"
    else:
        hint = "What is read of a file: ragindex read FOLDER --show FILE"

    def show() -> None:
        stdout().print(text_table(_COLUMNS, rows))
        stdout().print(f"\n{hint}")

    write_result([dict(zip(_COLUMNS, row, strict=True)) for row in rows], json, show)


def _check_index(folder: Path) -> list[tuple[str, str, str]]:
    """Return (item, state, detail) for the index, its damage, each document read in part, file left out, and passage
    set aside.
    """
    with Index.open(folder, read_only=True) as index:
        counts, documents, changed = index.counts(), index.documents, index.find_changes()
        shares = documents.find_metadata(READ_SHARE)
        aside = [
            (passage, name, reason) for name, failed in index.set_aside().items() for passage, reason in failed.items()
        ]
        left_out = {id: reason for source in index.manifest.sources.values() for id, reason in source.left_out.items()}
        readers = describe_readers(index)
        fit, unknown = index.fit_state(), describe_unknown_passages(index)
        kept_documents = left_out.keys() & {place for id in documents.sources() for place in list_places(id)}
    sizes = f"{many(counts.documents, 'document')}, {many(counts.passages, 'passage')}"
    return [
        ("index", "damaged" if changed else "ok", sizes),
        *([("fit", "old" if unknown else "ok", unknown or describe_fit(fit))] if fit else []),
        *((row["reader"], "has it open", _describe_reading(row)) for row in readers),
        *(("index", "damaged", f"{wrong}. {durable_files.repair_hint(folder)}") for wrong in changed),
        *((id, "read in part", f"to {100 * share:.0f} %") for id, share in sorted(shares.items())),
        *((id, "kept as it was" if id in kept_documents else "left out", reason) for id, reason in left_out.items()),
        *((passage, _ASIDE, f"{name}: {reason}") for passage, name, reason in sorted(aside)),
    ]


def _describe_reading(reader: Mapping[str, str | None]) -> str:
    since = f" since {reader['since']}" if reader["since"] else ""
    return f"It reads {reader['reads']}{since}. {reader['advice']}".rstrip()


def check_installation() -> list[tuple[str, str, str]]:
    """Return (item, state, detail) for each check; the detail is a version, a use or the install command."""
    return [
        ("python", "ok", platform.python_version()),
        ("ragindex", "ok", distribution.find_distribution().version),
        *(_check_extra(name) for name in sorted(_EXTRAS)),
        *(_check_plugin(group, name) for group in _CHECKED_GROUPS for name in registry.plugin_names(group)),
        ("engine of sentence-transformers", *describe_engine()),
        *(_check_plugin(group, name) for group, name in _find_third_party_plugins()),
        *((name, "set" if os.environ.get(name) else "not set", use) for name, use in _VARIABLES.items()),
    ]


def _check_extra(name: str) -> tuple[str, str, str]:
    module, use = _EXTRAS[name]
    there = importlib.util.find_spec(module) is not None
    return (
        f"extra {name}",
        "ok" if there else "missing",
        f"for {use}" if there else f"for {use}: {_get_install_command(name)}",
    )


def _get_install_command(extra: str) -> str:
    return distribution.install_line(*map(distribution.package_of, distribution.read_extras()[extra]))


def _check_plugin(group: registry.PluginGroup, name: str) -> tuple[str, str, str]:
    what = f"{group.removesuffix('s')} {name}".replace("scheme", "method")
    try:
        registry.load_plugin(group, name)
        if group == "schemes":
            require_working_default(name)
        if what == "store lancedb":
            check_processor()
    except MissingExtraError as error:
        return (what, "missing", str(error))
    except RagindexError as error:
        return (what, "broken", str(error))
    for extra, (module, use) in _EXTRAS.items():
        if use == what and importlib.util.find_spec(module) is None:
            return (what, "missing", _get_install_command(extra))
    return (what, "ok", registry.entry(group, name).value)


def _find_third_party_plugins() -> Iterator[tuple[registry.PluginGroup, str]]:
    """Yield installed plugins of other distributions that are not checked above."""
    return (
        (group, name)
        for group in _THIRD_PARTY_GROUPS
        for name in registry.plugin_names(group)
        if not registry.is_ours(group, name)
    )

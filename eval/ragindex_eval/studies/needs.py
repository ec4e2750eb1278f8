"""What the real run of a study needs, and what of it is missing: files, keys, weights of models, and prices."""

import importlib.util
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from ragindex._util.http import read_variable
from ragindex.encoders import model_hub
from ragindex.encoders.local_models import LocalModelPlugin
from ragindex.encoders.sentence_transformer import SentenceTransformers, describe_engine
from ragindex.interfaces.llm import PaidPlugin
from ragindex.llm.prices import load_prices
from ragindex.plugins import registry
from ragindex.plugins.base import Plugin, walk_plugins
from ragindex_eval.run.plan import make_plan
from ragindex_eval.run.settings import CompareSettings
from ragindex_eval.studies.catalogue import DataSource

NeedKind: TypeAlias = Literal["files", "key", "weights", "software", "price"]
_HUB_KEY = ("HF_TOKEN",)  # of the hub that weights are downloaded from


@dataclass(frozen=True, slots=True)
class Need:
    """Something that a run needs: whether it is there, and what to do if it is not.

    What is not `required` does not stop a run: weights that can be downloaded, and a price that nothing limits.
    """

    kind: NeedKind
    what: str
    there: bool
    advice: str = ""
    required: bool = True

    @property
    def state(self) -> str:
        """The state in a word."""
        return "ok" if self.there else "missing" if self.required else "open"


def list_needs(settings: CompareSettings, source: DataSource, folder: Path) -> list[Need]:
    """Return what a run with these settings needs. Sends nothing but a request to the hub where weights are missing."""
    plugins = list({(type(plugin), repr(plugin)): plugin for plugin in _list_plugins(settings)}.values())
    return [_describe_files(source, folder), *_list_keys(plugins), *_list_weights(plugins), *_list_prices(plugins)]


def _list_plugins(settings: CompareSettings) -> Iterator[Plugin]:
    """Yield the plugins that a run opens, with those in their parameters."""
    given = [registry.encoder(settings.encoder or "lsa"), registry.llm(settings.llm or "offline")]
    given += [registry.llm(settings.reader_llm)] if settings.read and settings.reader_llm is not None else []
    for plugin in (*given, *make_plan(settings).schemes.values()):
        yield from walk_plugins(plugin)


def _describe_files(source: DataSource, folder: Path) -> Need:
    missing = [name for name in source.files if not (folder / name).exists()]
    advice = f"from {source.page} into {folder}" if missing else ""
    return Need("files", ", ".join(missing or source.files), not missing, advice)


def _list_keys(plugins: Iterable[Plugin]) -> Iterator[Need]:
    """Yield the keys of the services, each once."""
    by_keys: dict[tuple[str, ...], str] = {}
    for plugin in plugins:
        for contact in plugin.contacts():
            if contact.keys and contact.keys != _HUB_KEY:
                by_keys.setdefault(contact.keys, contact.host)
    for keys, host in by_keys.items():
        files = [f"{name}_FILE" for name in keys]
        there = read_variable([*keys, *files]) is not None
        yield Need("key", " or ".join(keys), there, "" if there else f"export {keys[-1]}=… for {host}")


def _list_weights(plugins: Iterable[Plugin]) -> Iterator[Need]:
    """Yield the weights of local models, and what runs them."""
    for plugin in plugins:
        if not isinstance(plugin, SentenceTransformers | LocalModelPlugin):
            continue
        model = plugin.model
        in_reach = bool(plugin.model_folders()) or model_hub.find_snapshot(model) is not None
        problem = None if in_reach else model_hub.find_problem()
        advice = "" if in_reach else f"downloaded from {model_hub.model_hub().host} at the first run"
        if problem is not None:
            advice = f"the hub does not answer ({problem}); give a folder with the weights"
        yield Need("weights", model, in_reach, advice, required=problem is not None)
        yield _describe_software(plugin)


def _describe_software(plugin: Plugin) -> Need:
    """Return what runs a local model: an engine for sentence encoders, else sentence-transformers itself."""
    if isinstance(plugin, SentenceTransformers):
        engine, detail = describe_engine()
        return Need("software", engine, engine != "none", "" if engine != "none" else detail)
    there = importlib.util.find_spec("sentence_transformers") is not None
    return Need("software", "sentence-transformers", there, "" if there else "pip install sentence-transformers")


def _list_prices(plugins: Iterable[Plugin]) -> Iterator[Need]:
    prices = load_prices()
    for plugin in plugins:
        if isinstance(plugin, PaidPlugin):
            missing = plugin.price_missing(prices)
            yield Need("price", registry.label(plugin), missing is None, missing or "", required=False)


def list_missing(needs: Mapping[str, Iterable[Need]]) -> list[str]:
    """Return a sentence for each required thing that is missing, by data set; what several lack comes once."""
    missing: dict[str, list[str]] = {}
    for data, of_data in needs.items():
        for need in of_data:
            if need.required and not need.there:
                missing.setdefault(f"{need.kind} {need.what}: {need.advice}", []).append(data)
    return [f"{', '.join(names)}: {sentence}" for sentence, names in missing.items()]

"""The state of a built method that its answers depend on: described when it is exported, compared when it is loaded."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ragindex._util.canonical import digest
from ragindex.export.retriever_file import ExportedIndex, ExportedPart, ExportedPlugin, ExportedRetriever
from ragindex.index.manifest import INDEX_FORMAT, PartRecord
from ragindex.index.parts import inputs_of, uses_encoder
from ragindex.index.state import IndexState
from ragindex.interfaces import Part, Scheme
from ragindex.plugins import code_fingerprint, registry
from ragindex.plugins.base import Plugin, walk_plugins


def describe_plugin(plugin: Plugin, id: str | None = None, files: Mapping[str, str] | None = None) -> ExportedPlugin:
    """Describe a plugin. `files` maps the values of parameters that name a file to what is written in their place."""
    described = registry.describe(plugin)
    return ExportedPlugin(
        label=registry.label(plugin),
        name=described["name"],
        parameters=json.dumps(_replace_texts(described["params"], files or {}), sort_keys=True, ensure_ascii=False),
        id=id,
        plugins=tuple(dict.fromkeys(map(_name_version, walk_plugins(plugin)))),
    )


def _name_version(plugin: Plugin) -> str:
    source = code_fingerprint.of(type(plugin))
    version_name = f"{registry.name_of(plugin)} {getattr(type(plugin), 'version', 0)}"
    return version_name if source is None else f"{version_name} {source}"


def _replace_texts(value: Any, texts: Mapping[str, str]) -> Any:
    """Return a JSON value in which each text that is a key of `texts` is replaced."""
    if isinstance(value, str):
        return texts.get(value, value)
    if isinstance(value, dict):
        return {key: _replace_texts(inner, texts) for key, inner in value.items()}
    return [_replace_texts(inner, texts) for inner in value] if isinstance(value, list) else value


def replace_parameters(described: Mapping[str, Any], texts: Mapping[str, str]) -> dict[str, Any]:
    """Return the description of a plugin in which parameters that are keys of `texts` are replaced."""
    return {**described, "params": _replace_texts(described["params"], texts)}


def describe_index(index: IndexState, path: str) -> ExportedIndex:
    """Describe the index at its last finished sync."""
    manifest, settings = index.manifest, index.manifest.settings
    return ExportedIndex(
        path=path,
        identity=manifest.documents_identity,
        format=INDEX_FORMAT,
        language=settings.language,
        by=settings.by,
        size=settings.size,
        overlap=settings.overlap,
        seed=index.seed,
        documents=manifest.documents,
        passages=manifest.passages,
    )


def describe_parts(index: IndexState, scheme: Scheme) -> tuple[ExportedPart, ...]:
    """Describe the parts of a method, inputs first. Raises MissingPartError if one is not built."""
    return tuple(_describe_part(index, part) for part in index.all_parts(scheme))


def _describe_part(index: IndexState, part: Part[Any]) -> ExportedPart:
    record = index.record(part)
    return ExportedPart(
        label=registry.label(part),
        version=part.version,
        key=index.key(part, index.pinned_encoder(part)),
        corpus=record.corpus,
        failed=digest(sorted(record.failed)) if record.failed else None,
        made=digest(record.identities) if _asks(part, index) else None,
    )


def _asks(part: Part[Any], index: IndexState) -> bool:
    """Return whether an LLM made the part or one of its inputs: made again, its content would be another."""
    own = "model" in part.uses and index.imported(part) is None and index.model.id != "offline rules"
    return own or any(_asks(source, index) for source in inputs_of(part))


def needs_encoder(scheme: Scheme, parts: Sequence[Part[Any]]) -> bool:
    """Return whether a method has parts that were made with the index's encoder."""
    return any(uses_encoder(part) for part in (*parts, *scheme.parts()))


def part_records(index: IndexState, scheme: Scheme) -> dict[str, PartRecord]:
    """Return the records of the parts of a method by key. Raises MissingPartError."""
    return {index.key(part, index.pinned_encoder(part)): index.record(part) for part in index.all_parts(scheme)}


# ---------------------------------------------------------------- what would answer differently


def find_other_plugins(exported: ExportedPlugin, plugin: Plugin, files: Mapping[str, str]) -> list[str]:
    """Say how an installed plugin differs from the exported one: other versions or parameters.

    A parameter that was added since makes no difference: with its default, a plugin of the same version answers as
    before.
    """
    here = describe_plugin(plugin, files=files)
    was, now = (dict(plugin.partition(" ")[::2] for plugin in each.plugins) for each in (exported, here))
    differences = [
        f"{name} has the version {now[name]}, and was exported with {version}"
        for name, version in was.items()
        if name in now and now[name] != version
    ]
    if was.keys() != now.keys():
        differences.append(f"{exported.label} is made of {', '.join(now)}, and was of {', '.join(was)}")
    if not _has_values(json.loads(here.parameters), exported.describe()["params"]):
        differences.append(
            f"the parameters of {exported.label} mean {here.parameters} here, and were {exported.parameters}"
        )
    return differences


def _has_values(value: Any, exported: Any) -> bool:
    """Return whether all exported values are in `value`, whose mappings may have more keys."""
    if isinstance(value, dict) and isinstance(exported, dict):
        return all(name in value and _has_values(value[name], inner) for name, inner in exported.items())
    if isinstance(value, list) and isinstance(exported, list):
        return len(value) == len(exported) and all(map(_has_values, value, exported))
    return bool(value == exported)


def find_other_settings(exported: ExportedIndex, here: ExportedIndex) -> list[str]:
    """Say which settings of the index differ."""
    names = ("language", "by", "size", "overlap")
    return [
        f"the index has the {name} {getattr(here, name)}, and had {getattr(exported, name)}"
        for name in names
        if getattr(here, name) != getattr(exported, name)
    ]


def find_other_parts(exported: ExportedRetriever, index: IndexState, scheme: Scheme) -> list[str]:
    """Say which parts would answer differently from those that were exported. Raises MissingPartError."""
    here = describe_parts(index, scheme)
    if [own_part.label for own_part in here] != [part.label for part in exported.parts]:
        labels = (", ".join(own_part.label for own_part in each) for each in (here, exported.parts))
        return ["the method has the parts {}, and had {}".format(*labels)]
    differences = [text for was, now in zip(exported.parts, here, strict=True) for text in _compare_part(was, now)]
    was_index, now_index = exported.index, describe_index(index, "")
    if any(was.corpus != now.corpus for was, now in zip(exported.parts, here, strict=True)):
        was_count, now_count = was_index.documents, now_index.documents
        counts = "" if was_count == now_count else f" ({was_count} documents then, {now_count} now)"
        differences.insert(0, f"its documents have changed since{counts}")
    return differences


def _compare_part(was: ExportedPart, now: ExportedPart) -> list[str]:
    if was.version != now.version:
        return [f"the part {was.label} has the version {now.version}, and was exported with {was.version}"]
    if was.key != now.key:
        return [f"the part {was.label} was made anew with another encoder, LLM, prompt or setting"]
    if was.failed != now.failed:
        return [f"other passages of the part {was.label} could not be processed"]
    return [f"an LLM made the part {was.label} again"] if was.made != now.made else []

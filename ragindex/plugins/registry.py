"""The plugin registry: find plugins by name, create them from specifications, and describe them.

Plugins are entry points of installed distributions, including this one. Listing them imports none of them.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint
from typing import Annotated, Any, Literal, TypeAlias, cast

from pydantic import AfterValidator, BaseModel, BeforeValidator, PlainSerializer, ValidationError

from ragindex._util.canonical import digest
from ragindex._util.distribution import entry_points
from ragindex._util.text import suggest_names
from ragindex.errors import (
    BrokenPluginError,
    MissingExtraError,
    NameTakenError,
    RagindexError,
    UnknownNameError,
    UsageError,
)
from ragindex.interfaces import EncoderPlugin, FittedEncoderPlugin, Part, Scheme, SearchKind, StorePlugin
from ragindex.interfaces.llm import LLMPlugin
from ragindex.llm.tasks import list_task_names
from ragindex.plugins import code_fingerprint
from ragindex.plugins.base import Plugin, require_no_secrets
from ragindex.plugins.specs import Spec, parse_spec, render_spec
from ragindex.types import Chunking

PluginGroup: TypeAlias = Literal["schemes", "parts", "encoders", "stores", "llms", "corpora", "commands"]
PLUGIN_GROUPS: tuple[PluginGroup, ...] = ("schemes", "parts", "encoders", "stores", "llms", "corpora", "commands")
_SINGULAR = {
    "schemes": "method",
    "parts": "part",
    "encoders": "encoder",
    "stores": "store",
    "llms": "language model",
    "corpora": "corpus",
    "commands": "command",
}
_BASES: Mapping[str, tuple[type[Plugin], ...]] = {
    "schemes": (Scheme,),
    "parts": (Part,),
    "encoders": (EncoderPlugin, FittedEncoderPlugin),
    "stores": (StorePlugin,),
    "llms": (LLMPlugin,),
}
"""The base classes of the plugins in each group."""
PluginSpec: TypeAlias = str | Mapping[str, Any] | Spec | BaseModel


@dataclass(frozen=True, slots=True)
class _Table:
    """The entry points of a group by name, and the first name of each class, by `module:Class`."""

    points: dict[str, tuple[EntryPoint, ...]]
    names: dict[str, str]


@cache
def _table(group: PluginGroup) -> _Table:
    table = _Table({}, {})
    for point in entry_points(group=f"ragindex.{group}"):
        others = table.points.get(point.name, ())
        if all(point.value != other.value for other in others):
            table.points[point.name] = (*others, point)
            table.names.setdefault(point.value, point.name)
    return table


def plugin_names(group: PluginGroup) -> list[str]:
    """Return the names of the plugins in a group, sorted. Imports no plugin."""
    return sorted(_table(group).points)


def plugin_modules() -> set[str]:
    """Return the names of the modules that define plugins of any group. Imports no plugin."""
    return {point.module for group in PLUGIN_GROUPS for point in entries(group)}


def entries(group: PluginGroup) -> Iterator[EntryPoint]:
    """Yield the entry points of a group, those of all distributions that claim a name. Imports no plugin."""
    return (point for points in _table(group).points.values() for point in points)


def entry(group: PluginGroup, name: str) -> EntryPoint:
    """Return the entry point of a name. Raises UnknownNameError with similar names, NameTakenError if two claim it."""
    points = _table(group).points.get(name)
    if points is None:
        hint = suggest_names(name, plugin_names(group))
        raise UnknownNameError(f"No {_SINGULAR[group]} is called {name!r}. {hint}")
    if len(points) > 1:
        owners = " and ".join(f"{p.value} ({p.dist.name if p.dist else 'unknown'})" for p in points)
        raise NameTakenError(f"The {_SINGULAR[group]} name {name!r} is claimed by {owners}. Uninstall one of them.")
    return points[0]


def load_plugin(group: PluginGroup, name: str) -> Any:
    """Load the plugin with a name: a class, or a function for corpora and commands.

    Raises MissingExtraError if a package that it imports is missing, and BrokenPluginError if it cannot be loaded for
    another reason or has the wrong type for the group. Also raises the errors of `entry`.
    """
    point = entry(group, name)
    try:
        loaded = point.load()
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            f"The {_SINGULAR[group]} {name!r} needs the package {error.name!r}, which is not installed. "
            f"{_get_install_advice(point)}"
        ) from error
    except (Exception, SystemExit) as error:
        raise _make_broken_error(group, name, point, describe_error(error)) from error
    wrong = _explain_mismatch(group, loaded)
    if wrong:
        raise _make_broken_error(group, name, point, wrong)
    return loaded


def describe_error(error: BaseException) -> str:
    """Return the type, the message and the notes of a foreign error on one line."""
    notes = getattr(error, "__notes__", ())
    return " ".join(" ".join([f"{type(error).__name__}: {error}", *notes]).split())


def _explain_mismatch(group: PluginGroup, loaded: Any) -> str | None:
    """Return why an object has the wrong type for the group; None if it is right."""
    bases = _BASES.get(group)
    if bases is None:
        return None if callable(loaded) else f"a {_SINGULAR[group]} must be a function, and it is {loaded!r}"
    if not (isinstance(loaded, type) and issubclass(loaded, bases)):
        base_names = " or ".join(f"{base.__module__}.{base.__name__}" for base in bases)
        return f"a {_SINGULAR[group]} must be a subclass of {base_names}, and it is {loaded!r}"
    if issubclass(loaded, Scheme) and not (loaded.open is Scheme.open and loaded.parts is Scheme.parts):
        return "a method must define '_open' and '_parts' in place of 'open' and 'parts', which call them"
    missing = sorted(loaded.__abstractmethods__)
    if issubclass(loaded, Scheme | Part) and not isinstance(getattr(loaded, "version", None), int):
        missing.append("version")
    return f"a {_SINGULAR[group]} must define {missing[0]!r}, and it does not" if missing else None


def _make_broken_error(group: PluginGroup, name: str, point: EntryPoint, reason: str) -> BrokenPluginError:
    owner = f" of {point.dist.name}" if point.dist else ""
    return BrokenPluginError(
        f"The {_SINGULAR[group]} {name!r} ({point.value}{owner}) is broken: {reason}. Fix or uninstall it."
    )


def _get_install_advice(point: EntryPoint) -> str:
    """Return how to install the packages that an entry point lacks, by the extras that it names."""
    extras = f"[{','.join(point.extras)}]" if point.extras else ""
    return f"Run: pip install '{point.dist.name}{extras}'" if point.dist else "Install it."


def create(group: PluginGroup, written: PluginSpec) -> Any:
    """Create a plugin from a specification and validate it; return a plugin object unchanged.

    Raises UsageError for a malformed specification, an unknown plugin or an invalid parameter.
    """
    if isinstance(written, BaseModel):
        if not isinstance(written, _BASES.get(group, ())):
            raise UsageError(f"{type(written).__name__} is not a {_SINGULAR[group]}.")
        return written
    spec = _to_spec(written)
    plugin = load_plugin(group, spec.name)
    params = {key: _spec_to_json(value) for key, value in spec.params.items()}
    if spec.argument is not None:
        field = plugin.argument
        if field is None:
            raise UsageError(
                f"The {_SINGULAR[group]} {spec.name!r} takes no argument after a colon; got {spec.argument!r}."
            )
        params[field] = spec.argument
    require_no_secrets(spec.name, params, plugin.keys_from)
    try:
        return plugin.model_validate(params)
    except ValidationError as error:
        raise UsageError(_explain_validation_error(spec.name, plugin, error)) from error
    except RagindexError:  # raised by a nested plugin
        raise
    except Exception as error:
        raise _make_broken_error(group, spec.name, entry(group, spec.name), describe_error(error)) from error


def _to_spec(value: Any) -> Spec:
    if isinstance(value, Spec):
        return value
    if isinstance(value, str):
        return parse_spec(value)
    if not isinstance(value, Mapping):
        raise UsageError(f"A plugin is written NAME, NAME(PARAMETER=VALUE) or {{name, params}}. Got {value!r}.")
    unknown = sorted(set(value) - {"name", "params", "label"})
    if unknown:
        raise UsageError(f"A plugin is written {{name, label, params}}; {unknown[0]!r} is none of these.")
    if not isinstance(value.get("name"), str) or not isinstance(value.get("params") or {}, Mapping):
        raise UsageError(f"A plugin is written {{name, label, params}}, params by name; got {dict(value)!r}.")
    return Spec(value["name"], dict(value.get("params") or {}))


def _spec_to_json(value: Any) -> Any:
    if isinstance(value, Spec):
        return {"name": value.name, "params": _spec_to_json(value.params)}
    if isinstance(value, Mapping):
        return {key: _spec_to_json(item) for key, item in value.items()}
    return [_spec_to_json(item) for item in value] if isinstance(value, list) else value


def _explain_validation_error(name: str, plugin: type[BaseModel], error: ValidationError) -> str:
    """Return one sentence per problem: the parameter, what is allowed, and what was given."""
    sentences = []
    for problem in error.errors():
        where = ".".join(str(part) for part in problem["loc"])
        if problem["type"] == "extra_forbidden":
            sentences.append(f"{name} has no parameter {where!r}. {suggest_names(where, plugin.model_fields)}")
            continue
        must = problem["msg"].removeprefix("Input should be ").removeprefix("Value error, ")
        if not where:  # the error of a model validator concerns several parameters
            sentences.append(f"{name}: {must.removesuffix('.')}.")
        else:
            must = must.replace("a valid tuple", "a list, as [bm25, dense]")
            must = must.replace("a valid dictionary", "a mapping, as {key: value}")
            sentences.append(f"The {where!r} parameter of {name} must be {must}. Got {problem.get('input')!r} instead.")
    return " ".join(sentences) + f" See: ragindex methods {name}"


# ---------------------------------------------------------------- names and descriptions


def is_ours(group: PluginGroup, name: str) -> bool:
    """Return whether all plugins of that name belong to this distribution. Imports nothing."""
    return all(point.module.partition(".")[0] in code_fingerprint.OURS for point in _table(group).points.get(name, ()))


def kind_of(group: PluginGroup) -> str:
    """Return what a plugin of a group is: method, part, encoder, …"""
    return _SINGULAR[group]


def name_of(plugin: BaseModel) -> str:
    """Return the registered name of a plugin object; `module:Class` if it is not registered."""
    return _name_of_class(type(plugin))


def is_registered(plugin: BaseModel) -> bool:
    """Return whether an entry point names the class of the plugin, so that its name alone finds it."""
    return name_of(plugin) != _class_path(type(plugin))


def _class_path(plugin: type[BaseModel]) -> str:
    return f"{plugin.__module__}:{plugin.__qualname__}"


def _name_of_class(plugin: type[BaseModel]) -> str:
    value = _class_path(plugin)
    return next((name for group in PLUGIN_GROUPS if (name := _table(group).names.get(value))), value)


def describe(plugin: BaseModel) -> dict[str, Any]:
    """Return `{"name", "params"}` as JSON with every parameter, from which the plugin can be created again."""
    return {"name": name_of(plugin), "params": plugin.model_dump(mode="json")}


def label(plugin: BaseModel) -> str:
    """Return the shortest text that recreates the plugin: its name and the parameters that differ from the defaults."""
    plugin = plugin.to_label() if isinstance(plugin, Part) else plugin
    short = _shorten_spec(describe(plugin), plugin)
    argument = plugin.argument if isinstance(plugin, Plugin) else None
    if argument is not None and set(short.params) == {argument} and isinstance(short.params[argument], str):
        return f"{short.name}:{short.params[argument]}"
    return render_spec(short)


def _shorten_spec(described: Mapping[str, Any], plugin: BaseModel) -> Spec:
    defaults = {key: field.get_default(call_default_factory=True) for key, field in type(plugin).model_fields.items()}
    changed = {
        key: _shorten_value(getattr(plugin, key), value)
        for key, value in described["params"].items()
        if getattr(plugin, key) != defaults[key]
    }
    return Spec(described["name"], changed)


def _shorten_value(value: Any, dumped: Any) -> Any:
    if isinstance(value, Chunking):
        return Spec("passages", {key: item for key, item in dumped.items() if item not in (None, 0, "title")})
    if isinstance(value, BaseModel):
        return _shorten_spec(dumped, value)
    if isinstance(value, tuple | list):
        return [_shorten_value(*pair) for pair in zip(value, dumped, strict=True)]
    return dumped


def plugin_fingerprint(plugin: BaseModel) -> str:
    """Return a hash of a plugin's name, version and parameters, including nested plugins.

    For third-party plugins it includes their code (ragindex.plugins.code_fingerprint).
    """
    return digest(_with_versions(plugin, None))


def _with_versions(value: Any, plain: Any) -> Any:
    """Return plugins as name, version, parameters and code hash, and every other value as the JSON `plain`."""
    if isinstance(value, BaseModel):
        plain = value.model_dump(mode="json")
        fields = {key: _with_versions(getattr(value, key), plain.get(key)) for key in type(value).model_fields}
        source = code_fingerprint.of(type(value))
        code = {} if source is None else {"source": source}
        return {"name": name_of(value), "version": getattr(type(value), "version", 0), "params": fields, **code}
    if isinstance(value, tuple | list):
        return [_with_versions(*pair) for pair in zip(value, plain, strict=True)]
    return plain


# ---------------------------------------------------------------- plugins as parameters of plugins


def scheme(spec: PluginSpec) -> Scheme:
    """Create a scheme from its name or specification. Raises UsageError."""
    return cast(Scheme, create("schemes", spec))


def part(spec: PluginSpec) -> Part[Any]:
    """Create a part from its name or specification. Raises UsageError."""
    return cast("Part[Any]", create("parts", spec))


def encoder(spec: PluginSpec) -> EncoderPlugin | FittedEncoderPlugin:
    """Create an encoder plugin from its name or specification. Raises UsageError."""
    return cast("EncoderPlugin | FittedEncoderPlugin", create("encoders", spec))


def llm(spec: PluginSpec) -> LLMPlugin:
    """Create an LLM plugin from its name or specification. Raises UsageError, also for prompts of an unknown task."""
    plugin = cast(LLMPlugin, create("llms", spec))
    _require_tasks(getattr(plugin, "own_prompts", {}), label(plugin))
    return plugin


def _require_tasks(prompts: Mapping[str, str], owner: str) -> None:
    """Raise UsageError for a prompt of a task that no installed plugin has. Imports plugins only to know it."""
    if prompts.keys() <= list_task_names():
        return
    for group in ("schemes", "parts", "commands"):
        for name in plugin_names(group):
            with suppress(UsageError):  # a broken plugin, or one that lacks an extra
                load_plugin(group, name)
    if unknown := sorted(prompts.keys() - list_task_names()):
        hint = suggest_names(unknown[0], sorted(list_task_names()))
        raise UsageError(f"{owner} has a prompt for {unknown[0]!r}, and there is no such task. {hint}")


def store(spec: PluginSpec) -> StorePlugin:
    """Create a store plugin from its name or specification. Raises UsageError."""
    return cast(StorePlugin, create("stores", spec))


_plugin_serializer = PlainSerializer(describe, return_type=dict[str, Any])
SchemeField: TypeAlias = Annotated[Scheme, BeforeValidator(scheme), _plugin_serializer]
"""The annotation of a parameter that is itself a scheme, such as `base`."""
PartField: TypeAlias = Annotated[Any, BeforeValidator(part), _plugin_serializer]
"""The annotation of a parameter that is a part, such as `over`."""


def searched_by(*kinds: SearchKind) -> AfterValidator:
    """Return a validator that restricts a PartField to parts whose records can be searched in all these ways.

    Usage: `over: Annotated[PartField, searched_by("text")] = Passages()`. Parts that do not state it are let through.
    """
    words = {"text": "words", "vectors": "vectors"}

    def check(plugin: Part[Any]) -> Part[Any]:
        own = type(plugin).searched_by
        if own is None or own.issuperset(kinds):
            return plugin
        able = [name for name in plugin_names("parts") if _is_searched(name, kinds)]
        ways = " and ".join(words[kind] for kind in kinds)
        raise ValueError(f"a part whose records can be searched by {ways}: {', '.join(able)}")

    return AfterValidator(check)


def _is_searched(name: str, kinds: Sequence[SearchKind]) -> bool:
    """Return whether the installed part of a name states that its records can be searched in all these ways."""
    try:
        return (load_plugin("parts", name).searched_by or frozenset()).issuperset(kinds)
    except UsageError:  # a broken plugin, or one that lacks an extra
        return False


def of_class(*classes: type[BaseModel]) -> AfterValidator:
    """Return a validator that restricts a PartField or SchemeField to plugins of some classes.

    Usage: `over: Annotated[PartField, of_class(Triples)] = Triples()`.
    """

    def check(plugin: BaseModel) -> BaseModel:
        if not isinstance(plugin, classes):
            raise ValueError(" or ".join(_name_of_class(each) for each in classes))
        return plugin

    return AfterValidator(check)

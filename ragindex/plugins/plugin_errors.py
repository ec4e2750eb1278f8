"""What is wrong with a third-party plugin, and where in its code an error was raised: what its author has to read."""

import traceback
from inspect import getsourcefile
from typing import Any, TypeVar

from pydantic_core import PydanticSerializationError

from ragindex._util.redaction import hide_secrets
from ragindex.errors import BrokenPluginError, RagindexError
from ragindex.plugins import code_fingerprint, registry
from ragindex.plugins.base import Plugin

_Opened = TypeVar("_Opened")
# What the code of a plugin may raise, programming errors included, because plugins are not our code.
_MISTAKES = (
    *(ValueError, ArithmeticError, LookupError, RuntimeError, OSError),
    *(TypeError, AttributeError, AssertionError, ImportError, NameError),
)


def describe_class(plugin: Plugin) -> str:
    """Return the class of a plugin and its file."""
    kind = type(plugin)
    try:
        file = getsourcefile(kind)
    except TypeError:  # the class was defined in an interactive session
        file = None
    return f"{kind.__qualname__} ({file or kind.__module__})"


def find_fault(plugin: Plugin) -> str | None:
    """Return what a scheme or part lacks before any of its methods is called; None if it lacks nothing."""
    if not isinstance(getattr(plugin, "version", None), int):
        return "has no version. Add: version: ClassVar[int] = 1"
    return _find_unwritable(plugin) or _find_wrong_entry_point(plugin)


def check_opened(plugin: Plugin, opened: _Opened, base: type[Any]) -> _Opened:
    """Return what a plugin has opened. Raises BrokenPluginError unless it is of its base class in ragindex.interfaces.

    Its methods with defaults are called without a check, so another object would fail later and less plainly.
    """
    if isinstance(opened, base):
        return opened
    kind = type(opened).__qualname__
    raise BrokenPluginError(
        f"{describe_class(plugin)} opens {kind}, which must be a subclass of ragindex.interfaces.{base.__qualname__}. "
        f"Write: class {kind}({base.__qualname__})"
    )


def _find_unwritable(plugin: Plugin) -> str | None:
    """Return the fault if a parameter is not JSON, or is read back from its JSON as another value.

    Plugins among the parameters that no entry point names cannot be read back; then only the first is checked.
    """
    values = dict[str, Any]()
    for name in type(plugin).model_fields:
        try:
            values |= plugin.model_dump(mode="json", include={name})
        except PydanticSerializationError:
            return f"the parameter {name!r} must be JSON, and {getattr(plugin, name)!r} is not"
    if not _can_be_read(plugin):
        return None
    again = type(plugin).model_validate(values)
    for name, text in values.items():
        if getattr(again, name) != getattr(plugin, name):
            return f"the parameter {name!r} is {getattr(plugin, name)!r}, and from its JSON {text!r} it becomes another"
    return None


def _can_be_read(plugin: Plugin) -> bool:
    return all(registry.is_registered(inner) and _can_be_read(inner) for inner in plugin.inner_plugins())


def _find_wrong_entry_point(plugin: Plugin) -> str | None:
    """Return the fault if an entry point of the plugin's distribution names a module that only imports the class.

    The name would not be found from the class, so its parts would be built twice.
    """
    kind = type(plugin)
    own, top = f"{kind.__module__}:{kind.__qualname__}", _top_of(kind.__module__)
    points = (*registry.entries("schemes"), *registry.entries("parts"))
    doubtful = [point for point in points if point.attr == kind.__qualname__ and point.value != own]
    if not doubtful:
        return None
    owners = {point.dist.name for point in points if point.dist and _top_of(point.module) == top}
    for point in doubtful:
        related = _top_of(point.module) == top or (point.dist is not None and point.dist.name in owners)
        if related and point.load() is kind:
            return (
                f"the entry point {point.name!r} names {point.value}, which imports the class from elsewhere. "
                f"Name the module that defines it: {own}"
            )
    return None


def _top_of(module: str) -> str:
    return module.partition(".")[0]


def describe_failure(error: BaseException, plugin: Plugin | None = None) -> str:
    """Return type, message and notes of an error on one line, and the place in third-party code that it came from.

    That is the last line reached in the modules of installed plugins, in that of `plugin`, or in a user's script.
    """
    place = find_place(error, plugin)
    return hide_secrets(f"{registry.describe_error(error)}{f' ({place})' if place else ''}")


def is_of_plugin(error: BaseException, plugin: Plugin | None = None) -> bool:
    """Return whether an error tells of a method and not of ragindex or the machine.

    It is of one of the classes that any code may raise, or came from third-party code, which may have its own classes.
    A RagindexError says itself what it tells of.
    """
    if isinstance(error, RagindexError):
        return False
    return isinstance(error, _MISTAKES) or find_place(error, plugin) is not None


def find_place(error: BaseException, plugin: Plugin | None = None) -> str | None:
    """Return file, line and function of the last line reached in third-party plugins; None if there is none.

    A script counts as one, for its methods are registered nowhere. The traceback begins where our code caught the
    error, so it has no line of a script that only calls our code.
    """
    package_names = {"__main__", *(_top_of(module) for module in registry.plugin_modules())}
    own = set() if plugin is None else {_top_of(type(plugin).__module__)}
    tops = {top for top in package_names | own if code_fingerprint.foreign(top)}
    place = None
    for frame, line in traceback.walk_tb(error.__traceback__):
        if _top_of(str(frame.f_globals.get("__name__"))) in tops:
            place = f"{frame.f_code.co_filename}, line {line}, in {frame.f_code.co_name}"
    return place

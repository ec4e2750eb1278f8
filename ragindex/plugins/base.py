"""The base class of all plugins, whose fields are the plugin's parameters."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar
from urllib.parse import urlsplit

from pydantic import ConfigDict, model_validator

from ragindex._util.redaction import find_secret_parameter
from ragindex.errors import UsageError
from ragindex.plugins.strict_models import Strict


@dataclass(frozen=True, slots=True)
class Contact:
    """A host, as HOST or HOST:PORT, that a plugin sends requests to, and the environment variables of the keys sent."""

    host: str
    keys: tuple[str, ...] = ()

    @staticmethod
    def of_address(address: str, keys: tuple[str, ...] = ()) -> "Contact":
        """Return the contact of an address, without its user and password."""
        return Contact(urlsplit(address).netloc.rpartition("@")[2].lower(), keys)


class Plugin(Strict):
    """A frozen pydantic model. Plugins with equal parameters are equal; unknown parameters are rejected.

    Booleans are not accepted as numbers, nor numbers as booleans. Parameters are written to files, reports and traces,
    so they must not contain secrets.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
    argument: ClassVar[str | None] = None
    """The parameter that is set by the text after `NAME:`."""
    keys_from: ClassVar[str] = "Keys and passwords belong in environment variables."
    """A sentence on where keys and passwords belong, for the error that rejects them as parameters."""

    @model_validator(mode="before")
    @classmethod
    def _without_secrets(cls, data: Any) -> Any:
        if isinstance(data, Mapping):
            require_no_secrets(cls.__name__, data, cls.keys_from)
        return data

    def contacts(self) -> tuple[Contact, ...]:
        """Return the hosts that the plugin, once opened, sends requests to. Default: none. Contacts nothing.

        A retriever that is loaded from a file sends nothing unless the one who loads it allows each host by name.
        """
        return ()

    def model_folders(self) -> tuple[str, ...]:
        """Return the folders of models that the plugin loads. Default: none."""
        return ()

    def own_files(self) -> tuple[str, ...]:
        """Return the parameters whose values name a small file, as PATH or PATH#HASH, that belongs to the method."""
        return ()

    def fitted_to(self) -> frozenset[str]:
        """Return the ids of the questions that its parameters were fitted to (`corpus.judgements`). Default: none.

        On these its figures are too high, and `ragindex compare` says so.
        """
        return frozenset()

    def inner_plugins(self) -> "Iterator[Plugin]":
        """Yield the plugins among the parameters, alone or in lists, but not the plugins nested in them."""
        for name in type(self).model_fields:
            value = getattr(self, name)
            members = value if isinstance(value, tuple | list) else (value,)
            yield from (member for member in members if isinstance(member, Plugin))


def require_no_secrets(who: str, parameters: Mapping[str, Any], keys_from: str = Plugin.keys_from) -> None:
    """Raise UsageError, without repeating the secret, if a parameter of the plugin `who` holds one."""
    name = find_secret_parameter(parameters)
    if name is not None:
        raise UsageError(
            f"The {name!r} parameter of {who} must not contain a user, password, key or token: parameters go to "
            f"files and reports. {keys_from}"
        )


def walk_plugins(plugin: Plugin) -> Iterator[Plugin]:
    """Yield a plugin and the plugins in its parameters, at any depth."""
    yield plugin
    for inner in plugin.inner_plugins():
        yield from walk_plugins(inner)


def asks_service(plugin: Plugin) -> bool:
    """Return whether a plugin or one in its parameters contacts a host."""
    return any(inner.contacts() for inner in walk_plugins(plugin))

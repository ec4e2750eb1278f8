"""The base of every plugin: its fields are its parameters."""

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from pydantic import ConfigDict, model_validator

from ragindex.errors import UsageError
from ragindex.plugins.strict_models import Strict
from ragindex.redaction import find_secret_parameter


class Plugin(Strict):
    """A frozen pydantic model. Equal parameters make equal plugins; unknown parameters are refused by name.

    A boolean is no number, and a number is no boolean. Parameters are written into files, reports and traces, so none
    may hold a secret.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
    argument: ClassVar[str | None] = None
    """The parameter that the text after `NAME:` is for."""
    keys_from: ClassVar[str] = "Keys and passwords belong in environment variables."
    """Where keys and passwords come from, for the message that refuses them as parameters."""

    @model_validator(mode="before")
    @classmethod
    def _without_secrets(cls, data: Any) -> Any:
        if isinstance(data, Mapping):
            require_no_secrets(cls.__name__, data, cls.keys_from)
        return data

    def inner_plugins(self) -> "Iterator[Plugin]":
        """The plugins among the parameters, alone or in a list; not those inside of these."""
        for name in type(self).model_fields:
            value = getattr(self, name)
            members = value if isinstance(value, tuple | list) else (value,)
            yield from (member for member in members if isinstance(member, Plugin))


def require_no_secrets(who: str, parameters: Mapping[str, Any], keys_from: str = Plugin.keys_from) -> None:
    """Raises UsageError, which does not repeat it, where a parameter of the plugin `who` holds a secret."""
    name = find_secret_parameter(parameters)
    if name is not None:
        raise UsageError(
            f"The {name!r} parameter of {who} must not contain a user, password, key or token: parameters go to "
            f"files and reports. {keys_from}"
        )

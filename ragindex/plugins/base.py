"""The base of every plugin: its fields are its parameters."""

from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import ConfigDict, model_validator

from ragindex.errors import UsageError
from ragindex.plugins.strict_models import Strict
from ragindex.redaction import secret_parameter


class Plugin(Strict):
    """A frozen pydantic model. Equal parameters make equal plugins; unknown parameters are refused by name.

    A boolean is taken for no number, and a number for no boolean. Parameters are written into files, reports and
    traces, so none may hold a secret; `keys_from` says where keys and passwords are taken from.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
    keys_from: ClassVar[str] = "Keys and passwords belong in environment variables."

    @model_validator(mode="before")
    @classmethod
    def _without_secrets(cls, data: Any) -> Any:
        if isinstance(data, Mapping):
            require_no_secrets(cls.__name__, data, cls.keys_from)
        return data


def require_no_secrets(who: str, parameters: Mapping[str, Any], keys_from: str = Plugin.keys_from) -> None:
    """Raises UsageError, which does not repeat it, where a parameter of the plugin `who` holds a secret."""
    name = secret_parameter(parameters)
    if name is not None:
        raise UsageError(
            f"The {name!r} parameter of {who} must hold no user, password, key or token: parameters are written into "
            f"files and reports. {keys_from}"
        )

"""The base of every plugin: its fields are its parameters."""

from pydantic import BaseModel


class Plugin(BaseModel, frozen=True, extra="forbid", strict=False, allow_inf_nan=False):
    """A frozen pydantic model. Equal parameters make equal plugins; unknown parameters are refused by name."""

"""The base of every plugin: its fields are its parameters."""

from pydantic import BaseModel, ConfigDict


class Plugin(BaseModel):
    """A frozen pydantic model. Equal parameters make equal plugins; unknown parameters are refused by name."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

"""The base of every plugin: its fields are its parameters."""

from pydantic import ConfigDict

from ragindex.strict import Strict


class Plugin(Strict):
    """A frozen pydantic model. Equal parameters make equal plugins; unknown parameters are refused by name.

    A boolean is taken for no number, and a number for no boolean.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

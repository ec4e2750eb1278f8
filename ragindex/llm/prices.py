"""Token prices of models, read from editable data files; never guessed."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from functools import cache
from pathlib import Path

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ragindex.errors import DataError, UsageError
from ragindex.plugins.strict_models import Strict

PRICES_VARIABLE = "RAGINDEX_PRICES"
_BUILT_IN = Path(__file__).with_name("prices.yaml")


class Price(Strict):
    """US dollars per million tokens. `cached` is the price of cached input tokens; the default is that of input.

    `batch` is the share of all three that a request in a batch costs (`ragindex.llm.batches`).
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    input: float = Field(ge=0)
    cached: float | None = Field(default=None, ge=0)
    output: float = Field(ge=0)
    batch: float = Field(default=0.5, ge=0, le=1)
    as_of: date | None = None
    source: str = ""


class _PriceFile(BaseModel):
    model_config = ConfigDict(extra="forbid")

    models: dict[str, Price]


@dataclass(frozen=True)
class Prices:
    """Prices by model name, as used in requests."""

    models: Mapping[str, Price]

    def money(
        self, model: str, input_tokens: int, cached_tokens: int, output_tokens: int, *, batched: bool = False
    ) -> float | None:
        """Return the cost in US dollars, or None if the model has no price. `input_tokens` include `cached_tokens`."""
        price = self.models.get(model)
        if price is None:
            return None
        cached = price.input if price.cached is None else price.cached
        fresh = input_tokens - cached_tokens
        whole = (fresh * price.input + cached_tokens * cached + output_tokens * price.output) / 1e6
        return whole * price.batch if batched else whole

    def require(self, model: str) -> None:
        """Raise UsageError, with the line to add to the price file, if the model has no price."""
        missing = self.missing(model)
        if missing is not None:
            raise UsageError(missing)

    def missing(self, model: str) -> str | None:
        """Return an error message, with the line to add to the price file, if the model has no price; else None."""
        if model in self.models:
            return None
        own = os.environ.get(PRICES_VARIABLE)
        where = own or f"a file named in {PRICES_VARIABLE}"
        name = model if model.replace("-", "").replace(".", "").replace("/", "").isalnum() else json.dumps(model)
        return (
            f"A budget needs the price of {model}, which is not listed. Add to {where}, in dollars for a million "
            f"tokens, under the line 'models:' this one: '  {name}: {{input: 0.00, cached: 0.00, output: 0.00}}'"
        )


def load_prices(path: Path | None = None) -> Prices:
    """Load the built-in prices, overridden by those of `path` or of the file named by RAGINDEX_PRICES.

    Raises DataError if that file cannot be read or has another format.
    """
    named = os.environ.get(PRICES_VARIABLE, "").strip()
    own = path or (Path(named).expanduser() if named else None)
    return Prices({**_built_in_prices(), **(_read_prices(own) if own else {})})


@cache
def _built_in_prices() -> dict[str, Price]:
    return _read_prices(_BUILT_IN)


def _read_prices(path: Path) -> dict[str, Price]:
    expected = "'models:' and under it lines like 'NAME: {input: 0.15, cached: 0.075, output: 0.60}'"
    try:
        return _PriceFile.model_validate(yaml.safe_load(path.read_text(encoding="utf-8"))).models
    except ValidationError as error:
        problem = error.errors()[0]
        found = f"{problem['msg']} at {'.'.join(map(str, problem['loc'])) or 'the top'}"
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        found = " ".join(str(error).split())
    raise DataError(expected, found, path=path)

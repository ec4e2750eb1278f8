"""Token prices of models: of your own file, else of the snapshot that the package genai-prices has; never guessed."""

import ipaddress
import json
import os
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from functools import cache
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import regex
import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ragindex._util.http import DEFAULT_URL
from ragindex.accounting import ledger
from ragindex.errors import DataError, UsageError, ZeroPriceWarning
from ragindex.plugins.strict_models import Strict

if TYPE_CHECKING:
    from genai_prices.data_snapshot import DataSnapshot
    from genai_prices.types import ModelInfo, Provider

PRICES_VARIABLE = "RAGINDEX_PRICES"
_BATCHED = {"processing": "batch"}  # genai-prices' words for the price of a request in a batch
_DATE = regex.compile(r"-20[0-9]{2}-[01][0-9]-[0-3][0-9]$")
"""The date at the end of a model's name."""
_OPEN_WEIGHTS = "gpt-oss"  # models in OpenAI's list that anyone may serve


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

    def money(self, input_tokens: int, cached_tokens: int, output_tokens: int, *, batched: bool = False) -> float:
        """Return the cost of a request in US dollars. `input_tokens` include `cached_tokens`."""
        cached = self.input if self.cached is None else self.cached
        fresh = input_tokens - cached_tokens
        dollars = (fresh * self.input + cached_tokens * cached + output_tokens * self.output) / 1e6
        return dollars * self.batch if batched else dollars


@dataclass(frozen=True)
class ListedPrice:
    """The price of a model at a provider in genai-prices, with its tiers of long inputs and its dates."""

    provider: "Provider"
    model: "ModelInfo"

    @property
    def as_of(self) -> date | None:
        """The day from which the price of today holds; None if the list has only one."""
        now, prices = datetime.now(UTC), self.model.prices
        periods = [price.constraint for price in reversed(prices)] if isinstance(prices, list) else []
        active = next((period for period in periods if period is None or period.active(now)), None)
        return getattr(active, "start_date", None)

    @property
    def source(self) -> str:
        """The version of genai-prices, the provider and the model that were matched, and the provider's page."""
        from genai_prices import __version__

        pages = self.provider.pricing_urls or [""]
        return f"genai-prices {__version__}, {self.provider.id}: {self.model.id} {pages[0]}".rstrip()

    def money(self, input_tokens: float, cached_tokens: float, output_tokens: float, *, batched: bool = False) -> float:
        """Return the cost of a request at this moment in US dollars. `input_tokens` include `cached_tokens`.

        A request in a batch costs what the provider's list says of batches, or the full price if it says nothing.
        """
        from genai_prices import Usage

        usage = Usage(input_tokens=input_tokens, cache_read_tokens=cached_tokens, output_tokens=output_tokens)
        context = _BATCHED if batched else None
        return float(self.model.calc_price(usage, self.provider, price_context=context).total_price)


@dataclass(frozen=True)
class Prices:
    """Prices by model name, as used in requests to `address`.

    If `listed`, a model that is not in `models` is looked up in genai-prices.
    """

    models: Mapping[str, Price]
    listed: bool = False
    address: str = DEFAULT_URL

    def at(self, address: str) -> "Prices":
        """Return the prices of the service at an address."""
        return replace(self, address=address)

    def find(self, model: str) -> Price | ListedPrice | None:
        """Return the price of a model, with its `source` and `as_of`; None if it is not known.

        A name with a date of its own, as gpt-4o-2024-08-06, that is not listed has the price of the name without it.
        """
        base = _DATE.sub("", model)
        for name in dict.fromkeys((model, base)):
            own = self.models.get(name)
            price = find_listed_price(name, self.address) if own is None and self.listed else own
            if price is not None:
                return price
        return None

    def money(
        self,
        model: str,
        input_tokens: int,
        cached_tokens: int,
        output_tokens: int,
        *,
        batched: bool = False,
        requests: int = 1,
    ) -> float | None:
        """Return the cost in US dollars, or None if the model has no price. `input_tokens` include `cached_tokens`.

        The tokens are those of so many `requests` of one length: prices may depend on the length of each.
        """
        price = self.find(model)
        if price is None:
            return None
        if requests <= 1 or isinstance(price, Price):
            return price.money(input_tokens, cached_tokens, output_tokens, batched=batched)
        mean = (count / requests for count in (input_tokens, cached_tokens, output_tokens))
        return requests * price.money(*mean, batched=batched)

    def require(self, model: str) -> None:
        """Raise UsageError, with the line to add to the price file, if the model has no price."""
        missing = self.missing(model)
        if missing is not None:
            raise UsageError(missing)

    def missing(self, model: str) -> str | None:
        """Return an error message, with the line to add to the price file, if the model has no price; else None."""
        if self.find(model) is not None:
            return None
        own = os.environ.get(PRICES_VARIABLE)
        where = own or f"a file named in {PRICES_VARIABLE}"
        name = model if model.replace("-", "").replace(".", "").replace("/", "").isalnum() else json.dumps(model)
        return (
            f"A budget needs the price of {model}, which is not listed. Add to {where}, in dollars for a million "
            f"tokens, under the line 'models:' this one with its prices: '  {name}: {{input: PRICE, output: PRICE}}'"
        )

    def warn_of_zero(self, model: str, *, writes: bool) -> None:
        """Warn if your price of a model, that of outputs too if it `writes`, is 0 and its service on a public host."""
        own = self.models.get(model)
        if own is not None:
            warn_of_zero_price(model, self.address, min(own.input, own.output) if writes else own.input)


def warn_of_zero_price(model: str, address: str, price: float | None) -> None:
    """Warn if a price is 0 at a public host: no budget limits the service then. Weights of your own cost nothing."""
    if price == 0 and not is_local(address):
        warnings.warn(
            f"The price of {model} at {urlsplit(address).hostname} is 0, so no --budget limits it. Set the price that "
            "this host charges.",
            ZeroPriceWarning,
            stacklevel=3,
        )


def load_prices(path: Path | None = None) -> Prices:
    """Load the prices of `path` or of the file named by RAGINDEX_PRICES, which come before those of genai-prices.

    Raises DataError if that file cannot be read or has another format.
    """
    variable = os.environ.get(PRICES_VARIABLE, "").strip()
    own = path or (Path(variable).expanduser() if variable else None)
    return Prices(_read_prices(own) if own else {}, listed=True)


class _PriceFile(BaseModel):
    model_config = ConfigDict(extra="forbid")

    models: dict[str, Price]


def _read_prices(path: Path) -> dict[str, Price]:
    expected = "'models:' and under it lines like 'NAME: {input: 0.15, cached: 0.075, output: 0.60}'"
    try:
        return _PriceFile.model_validate(yaml.safe_load(path.read_text(encoding="utf-8"))).models
    except ValidationError as error:
        problem = error.errors()[0]
        problem_text = f"{problem['msg']} at {'.'.join(map(str, problem['loc'])) or 'the top'}"
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        problem_text = " ".join(str(error).split())
    raise DataError(expected, problem_text, path=path)


# ---------------------------------------------------------------- genai-prices


@cache
def find_listed_price(model: str, address: str) -> ListedPrice | None:
    """Return the price in genai-prices of a model that is asked for at an address; None if it has none for tokens.

    The provider is the one whose address it is. At another address, as of a proxy, it is the one that begins the name
    (`anthropic/claude-sonnet-4-5`), else OpenAI; at a local or private one only OpenAI, as other names there are those
    of weights that cost nothing. Loading the list counts in no measured time.
    """
    start = perf_counter()
    snapshot = _load_snapshot()
    ledger.add_time(0.0, perf_counter() - start)
    try:
        provider, name = snapshot.find_provider(None, None, address), model
    except LookupError:
        first, slash, rest = model.partition("/")
        providers = [
            each for each in snapshot.providers if slash and each.id == first.lower() and not is_local(address)
        ]
        provider, name = (providers[0], rest) if providers else (snapshot.find_provider(None, "openai", None), model)
        if name.lower().startswith(_OPEN_WEIGHTS):
            return None
    match = provider.find_model(name, all_providers=snapshot.providers)
    if match is None or match.get_prices(datetime.now(UTC)).input_mtok is None:
        return None
    return ListedPrice(provider, match)


def is_local(address: str) -> bool:
    """Return whether an address is this machine, or is reached only in its own network."""
    host = urlsplit(address).hostname or ""
    try:
        return not ipaddress.ip_address(host).is_global
    except ValueError:
        return "." not in host or host.endswith((".local", ".internal", ".lan", ".localhost"))


@cache
def _load_snapshot() -> "DataSnapshot":
    """Return the prices that the installed package contains, whatever another library has downloaded."""
    from genai_prices.data import providers
    from genai_prices.data_snapshot import DataSnapshot

    return DataSnapshot(providers=providers, from_auto_update=False)

"""Prices: those of a file of one's own, else those of genai-prices for the provider whose address it is."""

from pathlib import Path

import pytest
from genai_prices import Usage, calc_price
from hypothesis import given
from hypothesis import strategies as st

from ragindex.errors import DataError, UsageError
from ragindex.llm.prices import Price, Prices, is_local, load_prices

OPENAI, GOOGLE = "https://api.openai.com/v1", "https://generativelanguage.googleapis.com/v1beta/openai/"
TIERED = "gemini-2.5-pro"  # costs more above 200,000 input tokens
MODELS = [
    *((OPENAI, "openai", model) for model in ("gpt-3.5-turbo", "gpt-4o", "gpt-4o-mini-2024-07-18", "gpt-4.1-nano")),
    *((OPENAI, "openai", model) for model in ("gpt-5", "gpt-5-mini", "o3-mini", "ft:gpt-4o-mini-2024-07-18:us::id")),
    *((OPENAI, "openai", model) for model in ("text-embedding-3-small", "text-embedding-3-large")),
    *((GOOGLE, "google", model) for model in (TIERED, "gemini-2.5-flash", "gemini-embedding-001")),
    ("https://api.anthropic.com/v1", "anthropic", "claude-sonnet-4-5"),
    ("https://api.mistral.ai/v1", "mistral", "mistral-small-latest"),
    ("https://api.groq.com/openai/v1", "groq", "openai/gpt-oss-20b"),
    ("https://openrouter.ai/api/v1", "openrouter", "anthropic/claude-sonnet-4.5"),
    ("https://me.openai.azure.com/openai/deployments/x", "azure", "gpt-4o-mini"),
    ("https://api.voyageai.com/v1", "voyageai", "voyage-3"),
    ("https://api.x.ai/v1", "x-ai", "grok-3"),
]


@given(st.sampled_from(MODELS), st.integers(0, 500_000), st.floats(0, 1), st.integers(0, 100_000), st.booleans())
def test_money_equals_genai_prices(
    served: tuple[str, str, str], read: int, share: float, written: int, batched: bool
) -> None:
    address, provider, model = served
    cached = int(read * share)
    usage = Usage(input_tokens=read, cache_read_tokens=cached, output_tokens=written)
    context = {"processing": "batch"} if batched else None
    expected = calc_price(usage, model, provider_id=provider, price_context=context).total_price
    assert load_prices().at(address).money(model, read, cached, written, batched=batched) == float(expected)


@pytest.mark.parametrize(
    ("address", "model", "source"),
    [
        (OPENAI, "gpt-4o-mini", "openai: gpt-4o-mini https://developers.openai.com"),
        ("https://api.groq.com/openai/v1", "openai/gpt-oss-20b", "groq: openai/gpt-oss-20b"),
        ("https://proxy.example.com/v1", "anthropic/claude-sonnet-4-5", "anthropic: claude-sonnet-4-5"),
        ("https://proxy.example.com/v1", "gpt-4o-mini", "openai: gpt-4o-mini"),
        ("https://proxy.example.com/v1", "openai/gpt-oss-20b", None),  # of weights that anyone may serve
        ("https://proxy.example.com/v1", "deepseek-chat", None),
        ("https://api.deepseek.com", "gpt-4o-mini", None),
        ("http://localhost:4000/v1", "gpt-4o-mini", "openai: gpt-4o-mini"),
        ("http://localhost:8000/v1", "moonshotai/kimi-k2", None),
        ("http://192.168.1.5:8000/v1", "gpt-oss-20b", None),
        ("http://localhost:11434/v1", "deepseek-r1", None),
        (GOOGLE, "gemma-3-27b-it", None),  # listed without a price for tokens
        (OPENAI, "whisper-1", None),  # priced by the hour
    ],
)
def test_listed_price(address: str, model: str, source: str | None) -> None:
    price = load_prices().at(address).find(model)
    assert (price is None) if source is None else (price is not None and source in price.source)


def test_a_dated_name_that_is_not_listed_has_the_price_of_its_base(tmp_path: Path) -> None:
    listed = load_prices()
    for dated, base in (("gpt-4o-2024-08-06", "gpt-4o"), ("gpt-4o-mini-2099-12-31", "gpt-4o-mini")):
        assert listed.money(dated, 1_000_000, 0, 0) == listed.money(base, 1_000_000, 0, 0)
    assert listed.money("gpt-4o-2024-05-13", 1_000_000, 0, 0) == 5.0  # it is listed with a price of its own
    assert listed.find("gpt-4o-2024-99-99") is listed.find("nobody-2024-08-06") is None
    own = Prices({"mine": Price(input=3, output=3), "mine-2024-08-06": Price(input=4, output=4)})
    inputs = [own.money(name, 1_000_000, 0, 0) for name in ("mine", "mine-2024-08-06", "mine-2025-01-01", "other")]
    assert inputs == [3.0, 4.0, 3.0, None]


def test_local_addresses() -> None:
    local = ("localhost", "127.0.0.1:8000", "[::1]:80", "10.1.2.3", "ollama", "gpu.internal")
    assert all(is_local(f"http://{host}/v1") for host in local)
    assert not any(is_local(f"https://{host}/v1") for host in ("api.openai.com", "8.8.8.8", "example.org:8443"))


def test_money_of_requests_is_priced_by_length_of_each() -> None:
    prices = load_prices().at(GOOGLE)
    price = prices.money(TIERED, 100_000, 0, 500)
    assert price is not None
    assert prices.money(TIERED, 1_000_000, 0, 5_000, requests=10) == pytest.approx(10 * price)
    assert prices.money(TIERED, 1_000_000, 0, 5_000) == pytest.approx(1_000_000 * 2.5e-6 + 5_000 * 15e-6)


# ---------------------------------------------------------------- a file of one's own


def test_own_money() -> None:
    prices = Prices({"a": Price(input=1.0, cached=0.5, output=4.0), "b": Price(input=1.0, output=0)})
    assert prices.money("a", 1_000_000, 400_000, 10_000) == pytest.approx(0.6 + 0.2 + 0.04)
    assert prices.money("a", 1_000_000, 400_000, 10_000, batched=True, requests=7) == pytest.approx(0.42)
    assert prices.money("b", 1_000_000, 400_000, 10_000) == pytest.approx(1.0)
    assert prices.money("gpt-4o-mini", 1, 0, 1) is None
    prices.require("a")


def test_own_file_overrides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAGINDEX_PRICES", raising=False)
    with pytest.raises(
        UsageError, match='Add to a file named in RAGINDEX_PRICES, .*\'  "x:y": {input: PRICE'
    ) as caught:
        load_prices().require("x:y")
    line = str(caught.value).rpartition("its prices: '")[2].rstrip("'")
    own = tmp_path / "prices.yaml"
    own.write_text(f"models:\n{line}\n  gpt-4o-mini: {{input: 7, output: 8}}\n")
    with pytest.raises(DataError, match="models.x:y.input"):
        load_prices(own)  # as printed, it is no price
    own.write_text(own.read_text().replace("PRICE", "3"))
    monkeypatch.setenv("RAGINDEX_PRICES", str(own))
    prices = load_prices()
    assert prices == load_prices(own)
    assert prices.models == {"x:y": Price(input=3, output=3), "gpt-4o-mini": Price(input=7, output=8)}
    assert prices.money("gpt-4o-mini", 1_000_000, 0, 0) == 7.0
    prices.require("x:y")
    prices.require("gpt-5-mini")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("models:\n  a: {input: -1, output: 0}", "models.a.input"),
        ("a: 1", "models"),
        ("[", "while parsing"),
        ("", "the top"),
    ],
)
def test_malformed_own_file(tmp_path: Path, text: str, expected: str) -> None:
    path = tmp_path / "prices.yaml"
    path.write_text(text)
    with pytest.raises(DataError, match=f"prices.yaml: expected 'models:' .*; found .*{expected}"):
        load_prices(path)

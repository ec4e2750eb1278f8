"""Secrets in addresses, parameters, errors and reports of files: they are found, refused and hidden."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from planted_secrets import ADDRESSES, PARAMETERS, PLANTED, QUOTED, find_needles

from ragindex._util.redaction import bare_address, hide_secrets, holds_secret
from ragindex.corpus import describe_left_out, read
from ragindex.errors import DataError, RagindexError, UsageError
from ragindex.plugins import registry
from ragindex.plugins.base import Plugin

LOGIN_ADDRESS = ADDRESSES["a user and a password"]


@pytest.mark.parametrize("kind", PARAMETERS)
@pytest.mark.parametrize("how", ADDRESSES)
def test_parameter_refuses_address_with_secret(how: str, kind: str) -> None:
    if kind == "encoder" and how in ("a query of another name", "a fragment", "no scheme"):
        pytest.skip("a model's name is no address")
    group, written = PARAMETERS[kind]
    with pytest.raises(UsageError) as error:
        registry.create(group, written.format(ADDRESSES[how]))  # type: ignore[arg-type]
    assert how == "no scheme" or "Set " in str(error.value)
    assert find_needles(f"{error.value!s} {error.value!r}") == []


@pytest.mark.parametrize(
    ("group", "name", "params"),
    [
        ("llms", "openai", {"extra": {"api_key": PLANTED}}),
        ("llms", "openai", {"extra": {"headers": {"Authorization": PLANTED}}}),
        ("llms", "openai", {"extra": {"proxy": f"http://me:{QUOTED}@h"}}),
        ("llms", "openai", {"key_variable": PLANTED}),
        ("llms", "openai", {"api_key": PLANTED}),
        ("encoders", "sentence-transformers", {"model": f"https://me:{QUOTED}@h/model"}),
        ("encoders", "openai", {"password": PLANTED}),
        ("schemes", "bm25", {"over": {"name": "passages", "params": {"api-key": PLANTED}}}),
    ],
)
def test_parameter_refuses_secret(group: registry.PluginGroup, name: str, params: dict[str, Any]) -> None:
    model = {} if group == "schemes" else {"model": "m"}
    with pytest.raises(UsageError) as error:
        registry.create(group, {"name": name, "params": {**model, **params}})
    assert find_needles(f"{error.value!s} {error.value!r}") == []


@pytest.mark.parametrize("scheme", ["Bearer", "BEARER", "apikey", "API\N{KELVIN SIGN}EY"])
def test_header_is_hidden_in_any_case(scheme: str) -> None:
    assert hide_secrets(f"401 for {scheme} {PLANTED}-0123456789abcdef.") == f"401 for {scheme} …"


def test_any_plugin_refuses_secret() -> None:
    class Theirs(Plugin):
        hosts: tuple[str, ...] = ()
        password: str = ""

    assert Theirs(hosts=("http://h/@scope/x?page=2", "https://h:9200/a@b"), password="").hosts
    for given_ in ({"hosts": ["http://h", LOGIN_ADDRESS]}, {"password": PLANTED}):
        with pytest.raises(UsageError, match="parameter of Theirs must not contain a user, password"):
            Theirs.model_validate(given_)


def test_errors_hide_what_they_quote(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANYBODYS_API_KEY", PLANTED)
    for make_error in (RagindexError, UsageError, lambda text: DataError(text, text, path=text)):
        error = make_error(f"{PLANTED} and {LOGIN_ADDRESS}")  # type: ignore[operator]
        assert find_needles(f"{error} {error!r} {error.args}") == []


def test_items_left_out_hide_what_they_quote(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANYBODYS_API_KEY", PLANTED)
    bad = json.dumps({"_id": "1", "text": ["a", PLANTED, LOGIN_ADDRESS]})
    (tmp_path / "corpus.jsonl").write_text(f'{bad}\n{bad}\n{{"_id": "2", "text": "good"}}\n')
    skipped = read(tmp_path / "corpus.jsonl", skip_bad=True).skipped
    assert [item.place.rpartition(", ")[2] for item in skipped] == ["line 1", "line 2"]
    text = f"{skipped} {list(map(str, skipped))} {describe_left_out(skipped)}"
    assert "found" in text
    assert find_needles(text) == []


USERS = st.text("abcXYZ019._~!$'()*,;=%-", max_size=8)
PASSWORDS = st.text("abcXYZ019._~!$()*,;=%-:@", min_size=1, max_size=12)


@given(st.sampled_from(["http", "postgresql+psycopg2", "s3"]), USERS, PASSWORDS, st.sampled_from(["", ":9200"]))
def test_any_login_is_found_hidden_and_left_out(scheme: str, user: str, password: str, port: str) -> None:
    secret = f"QQ{password}QQ"
    address = f"{scheme}://{user}:{secret}@host.example{port}/path"
    assert holds_secret(address)
    assert secret not in hide_secrets(f"GET {address}: no answer")
    assert bare_address(address) == f"{scheme}://host.example{port}/path"


HOSTS = st.text("abcz.", min_size=1, max_size=9)
ENDS = st.sampled_from(["", "/", "/a@b", "/v1/0@9//", ":80", ":9200/x@1/y", "?q=key1", "/a@b?page=2", ":1/@a/b?v=0z"])


@given(st.sampled_from(["http", "https"]), HOSTS, ENDS)
def test_other_addresses_stay_as_they_are(scheme: str, host: str, end: str) -> None:
    address = f"{scheme}://{host}{end}"
    assert not holds_secret(address)
    assert hide_secrets(address) == address

"""Proxies of the environment: which are refused and with what words, and which one an address goes through."""

import pytest

from ragindex._util import http as proxies
from ragindex.errors import MissingExtraError, UsageError

NAMES = [name for kind in ("http", "https", "all", "no") for name in (f"{kind}_proxy", f"{kind}_proxy".upper())]


@pytest.fixture(autouse=True)
def _without_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(proxies, "_SOCKS_PACKAGE", "no_such_package_for_socks")


@pytest.mark.parametrize("name", ["ALL_PROXY", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY"])
@pytest.mark.parametrize("proxy", ["socks5://127.0.0.1:1080", "SOCKS5H://host:1"])
def test_socks_without_its_package(name: str, proxy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, proxy)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    words = f"^{name} names a SOCKS proxy, .* Run: pip install 'httpx\\[socks\\]'. Or unset {name}\\.$"
    with pytest.raises(MissingExtraError, match=words):
        proxies.check_proxies()
    monkeypatch.setattr(proxies, "_SOCKS_PACKAGE", "json")
    proxies.check_proxies()


@pytest.mark.parametrize("proxy", ["socks://127.0.0.1:7891/", "socks4://h", "ftp://h", "http://h:port", "http://"])
def test_what_is_no_proxy(proxy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", proxy)
    with pytest.raises(UsageError, match=r"^ALL_PROXY is not the address of a proxy .*socks5://.* unset ALL_PROXY\.$"):
        proxies.check_proxies()


@pytest.mark.parametrize("proxy", ["http://user:word@host:3128", "https://host", "host:3128", ""])
def test_proxies_that_can_be_used(proxy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", proxy)
    monkeypatch.setenv("FTP_PROXY", "ftp://host")
    proxies.check_proxies()


@pytest.mark.parametrize(
    ("variables", "address", "name"),
    [
        ({}, "http://a.example/v1", ""),
        ({"HTTP_PROXY": "http://p:1"}, "http://a.example/v1", "HTTP_PROXY"),
        ({"HTTP_PROXY": "http://p:1"}, "https://a.example/v1", ""),
        ({"HTTPS_PROXY": "http://p:1", "ALL_PROXY": "http://q:1"}, "https://a.example/v1", "HTTPS_PROXY"),
        ({"ALL_PROXY": "http://q:1"}, "http://user:word@a.example:80/v1", "ALL_PROXY"),
        ({"http_proxy": "http://p:1", "HTTP_PROXY": "http://q:1"}, "http://a.example/v1", "http_proxy"),
        ({"HTTP_PROXY": "http://p:1", "NO_PROXY": "a.example"}, "http://a.example:8000/v1", ""),
        ({"HTTP_PROXY": "http://p:1", "NO_PROXY": "b.example"}, "http://a.example/v1", "HTTP_PROXY"),
    ],
)
def test_the_proxy_of_an_address(
    variables: dict[str, str], address: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable, value in variables.items():
        monkeypatch.setenv(variable, value)
    assert proxies.name_proxy(address) == name

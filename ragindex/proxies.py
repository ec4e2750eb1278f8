"""The proxies of the environment, which the HTTP client of the openai package uses: checks, and their names."""

import os
from importlib.util import find_spec
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from ragindex.errors import MissingExtraError, UsageError

_SCHEMES = ("http", "https", "socks5", "socks5h")
_KINDS = ("http", "https", "all")  # of other addresses, proxies are not used
_SOCKS_PACKAGE = "socksio"


def check_proxies() -> None:
    """Raise UsageError for a proxy that the HTTP client cannot use: it reads all of them, whatever NO_PROXY exempts."""
    for kind, proxy in getproxies().items():
        if kind not in _KINDS or not proxy:
            continue
        name = _find_variable(kind)
        scheme = proxy.partition("://")[0].lower() if "://" in proxy else "http"
        if scheme not in _SCHEMES or not _is_valid(proxy):
            raise UsageError(
                f"{name} is not the address of a proxy that can be used: it must begin with "
                f"{'://, '.join(_SCHEMES)}:// and name a host. Change it, or unset {name}."
            )
        if scheme.startswith("socks") and find_spec(_SOCKS_PACKAGE) is None:
            raise MissingExtraError(
                f"{name} names a SOCKS proxy, and the package that speaks SOCKS is missing. "
                f"Run: pip install 'httpx[socks]'. Or unset {name}."
            )


def name_proxy(address: str) -> str:
    """Return the variable whose proxy requests to an address go through; empty if there is none."""
    parts = urlsplit(address)
    proxies = getproxies()
    kind = next((kind for kind in (parts.scheme, "all") if proxies.get(kind)), None)
    return "" if kind is None or proxy_bypass(parts.netloc.rpartition("@")[2]) else _find_variable(kind)


def _is_valid(proxy: str) -> bool:
    parts = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
    try:
        return bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        return False


def _find_variable(kind: str) -> str:
    """Return the variable that sets the proxy of a kind of addresses; the one in lower case wins."""
    names = (f"{kind}_proxy", f"{kind}_PROXY".upper())
    return next((name for name in names if os.environ.get(name)), "the proxy in the settings of the system")

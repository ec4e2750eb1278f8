"""Secrets in texts: keys of the environment, and users, passwords and tokens in addresses.

Parameters are written into files, reports and traces, so a parameter that contains a secret is refused. Texts of
others (a server, a client that quotes the address) go through `hide_secrets`; every RagindexError does so by itself.
"""

import base64
import os
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import unquote

import regex

MARK = "…"
_SHORTEST = 8  # characters: shorter values of variables are placeholders, and words of sentences
_LOGIN = regex.compile(r"(?<=\w:/{1,2})(?:[^\s/?#\"<>]*|[^\s/?#@:\"<>]+:(?!\d+(?:[/?#\s]|$))[^\s\"<>]*)@")
"""User and password, also where the password holds what it must not; a port before a path with an @ is none."""
_NAMED = r"api[-_]?key|(?:access|auth)[-_]?(?:key|token)|authorization|password|passwd|secret|credentials?"
_IN_QUERY = regex.compile(
    rf"(?i)(?<=[?&;#](?:[\w.-]*[-_])?(?:{_NAMED}|key|token|pwd|sig|signature|auth)=)[^\s&#;'\"<>]+"
)
_IN_HEADER = regex.compile(r"(?i)(?<=\b(?:bearer|apikey)\s)[\w+/=.~-]{16,}")
_NAME = regex.compile(rf"(?i)(?:.*[-_])?(?:{_NAMED})")
_PLUGIN = {"name", "params", "label"}
_VARIABLE = regex.compile(r"(?i)(?:API_?KEY|ACCESS_KEY|PASSWORD|PASSWD|TOKEN|SECRET)$")


def hide_secrets(text: str) -> str:
    """The text without logins and tokens in addresses, and without the keys that the environment holds."""
    for pattern, put in ((_LOGIN, f"{MARK}@"), (_IN_QUERY, MARK), (_IN_HEADER, MARK)):
        text = pattern.sub(put, text)
    for secret in sorted(set(_known()), key=len, reverse=True):
        text = text.replace(secret, MARK)
    return text


def bare_address(address: str) -> str:
    """The address without user, password, query and fragment, for people to read."""
    return str(_LOGIN.sub("", address, count=1)).partition("?")[0].partition("#")[0]


def find_secrets(address: str) -> Iterator[str]:
    """What must not be repeated of an address: its password, or a user without one, as written and as it is sent."""
    for found in _LOGIN.finditer(address):
        login = found[0].removesuffix("@")
        user, colon, password = login.partition(":")
        secret = password if colon else user
        yield from (secret, unquote(secret), base64.b64encode(unquote(login).encode()).decode())
    for found in _IN_QUERY.finditer(address):
        yield from (found[0], unquote(found[0]))


def holds_secret(value: Any) -> bool:
    """Whether a parameter's value has a login or a token in an address, or a field that is named like a secret."""
    if isinstance(value, str):
        logins = (found for found in _LOGIN.finditer(value) if value[: found.start()].endswith("//"))
        return _IN_QUERY.search(value) is not None or any(True for _ in logins)
    if isinstance(value, list | tuple):
        return any(map(holds_secret, value))
    if isinstance(value, Mapping) and not (value.keys() <= _PLUGIN and "name" in value):  # which is looked at by itself
        return any(_named_so(name, one) or holds_secret(one) for name, one in value.items())
    return False


def find_secret_parameter(parameters: Mapping[str, Any]) -> str | None:
    """The name of a parameter that holds a secret."""
    return next((name for name, value in parameters.items() if _named_so(name, value) or holds_secret(value)), None)


def _named_so(name: Any, value: Any) -> bool:
    return isinstance(value, str) and value != "" and _NAME.fullmatch(str(name)) is not None


def _known() -> Iterator[str]:
    """The secrets of the environment, those in addresses too."""
    for name, value in os.environ.items():
        found = [value.strip()] if _VARIABLE.search(name) else []
        found += find_secrets(value) if "://" in value else ()
        yield from (secret for secret in found if len(secret) >= _SHORTEST)

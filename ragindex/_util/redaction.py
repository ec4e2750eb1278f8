"""Detection and removal of secrets in texts: API keys of the environment, and logins and tokens in addresses.

Parameters are written to files, reports and traces, so a parameter that contains a secret is refused. Foreign texts
(of a server, or of a client that quotes its address) go through `hide_secrets`; RagindexError calls it itself.
"""

import base64
import os
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import unquote

import regex

MARK = "…"
_LONG = 10_000  # characters; in shorter texts, to give the interpreter's lock away takes longer than the search
_MIN_SECRET_LENGTH = 8  # characters; shorter values of variables are placeholders, or ordinary words
_WORD = regex.compile(r"[^\s\"<>]++")
"""A word ends where an address does. Logins are searched in words up to their last @, so that each is found in a time
that grows with the text and not with its square."""
_LOGIN = regex.compile(r"(?<=\w:/{1,2})(?:[^/?#]*|[^/?#@:]+:(?!\d+[/?#]).*)@", regex.DOTALL)
"""User and password, even if the password contains characters that must be escaped. A port before a path with an @ is
not a login."""
_CREDENTIAL_WORDS = r"api[-_]?key|(?:access|auth)[-_]?(?:key|token)|authorization|password|passwd|secret|credentials?"
_IN_QUERY = regex.compile(
    rf"(?i)(?<=[?&;#](?:[\w.-]*[-_])?(?:{_CREDENTIAL_WORDS}|key|token|pwd|sig|signature|auth)=)[^\s&#;'\"<>]+"
)
_IN_HEADER = regex.compile(r"(?i)(?<=\b(?:bearer|apikey)\s)[\w+/=.~-]{16,}")
_SECRET_NAME = regex.compile(rf"(?i)(?:\A|[-_])(?:{_CREDENTIAL_WORDS})\Z")
_PLUGIN_KEYS = {"name", "params", "label"}
_VARIABLE = regex.compile(r"(?i)(?:API_?KEY|ACCESS_KEY|PASSWORD|PASSWD|TOKEN|SECRET)$")


def hide_secrets(text: str) -> str:
    """Return the text without logins and tokens in addresses, and without secrets from the environment."""
    text = _replace_logins(text, f"{MARK}@")
    if "=" in text:
        text = _IN_QUERY.sub(MARK, text, concurrent=len(text) > _LONG)
    folded = text.lower()
    if "bearer" in folded or "apikey" in folded:  # the pattern looks back at every word, in each line of the log
        text = _IN_HEADER.sub(MARK, text, concurrent=len(text) > _LONG)
    for secret in _environment_secrets.find():
        text = text.replace(secret, MARK)
    return text


def bare_address(address: str) -> str:
    """Return the address without user, password, query and fragment, for messages."""
    return _replace_logins(address, "").partition("?")[0].partition("#")[0]


def _replace_logins(text: str, replacement: str) -> str:
    def replace(word: regex.Match[str]) -> str:
        head, at, rest = word[0].rpartition("@")
        return f"{_LOGIN.sub(replacement, head + at)}{rest}"

    return str(_WORD.sub(replace, text)) if "@" in text else text


def _find_logins(text: str) -> Iterator[regex.Match[str]]:
    for word in _WORD.findall(text) if "@" in text else ():
        yield from _LOGIN.finditer(word[: word.rfind("@") + 1])


def find_secrets(address: str) -> Iterator[str]:
    """Yield the secrets of an address (passwords, users without a password, tokens), as written and as sent."""
    for match in _find_logins(address):
        login = match[0].removesuffix("@")
        user, colon, password = login.partition(":")
        secret = password if colon else user
        yield from (secret, unquote(secret), base64.b64encode(unquote(login).encode()).decode())
    for match in _IN_QUERY.finditer(address):
        yield from (match[0], unquote(match[0]))


def holds_secret(value: Any) -> bool:
    """Return whether a value contains an address with a login or token, or a field whose name marks a secret."""
    if isinstance(value, str):
        has_login = any(login.string.startswith("//", login.start() - 2) for login in _find_logins(value))
        return has_login or _IN_QUERY.search(value) is not None
    if isinstance(value, list | tuple):
        return any(map(holds_secret, value))
    if isinstance(value, Mapping) and not (value.keys() <= _PLUGIN_KEYS and "name" in value):  # a plugin checks itself
        return any(_is_named_secret(name, item) or holds_secret(item) for name, item in value.items())
    return False


def find_secret_parameter(parameters: Mapping[str, Any]) -> str | None:
    """Return the name of the first parameter that holds a secret; None if there is none."""
    return next(
        (name for name, value in parameters.items() if _is_named_secret(name, value) or holds_secret(value)), None
    )


def _is_named_secret(name: Any, value: Any) -> bool:
    return isinstance(value, str) and value != "" and _SECRET_NAME.search(str(name)) is not None


def names_secret(variable: str) -> bool:
    """Return whether a text is the name of an environment variable whose value `hide_secrets` removes."""
    return variable.isidentifier() and variable.isascii() and _VARIABLE.search(variable) is not None


class _EnvironmentSecrets:
    """The secrets of the environment, the longest first, found anew only after a variable has changed."""

    def __init__(self) -> None:
        self._cached: tuple[Mapping[Any, Any], tuple[str, ...]] = ({}, ())

    def find(self) -> tuple[str, ...]:
        """Return the secrets of the variables as they are now."""
        variables, secrets = self._cached
        # The bytes, because decoding all variables takes 60 times longer.
        now: Mapping[Any, Any] = getattr(os.environ, "_data", os.environ)
        if now != variables:
            secrets = tuple(sorted(set(_find_environment_secrets()), key=len, reverse=True))
            self._cached = (dict(now), secrets)
        return secrets


_environment_secrets = _EnvironmentSecrets()


def _find_environment_secrets() -> Iterator[str]:
    """Yield the secrets of the environment variables, including those in addresses."""
    for name, value in os.environ.items():
        secrets = [value.strip()] if _VARIABLE.search(name) else []
        secrets += find_secrets(value) if "://" in value else ()
        yield from (secret for secret in secrets if len(secret) >= _MIN_SECRET_LENGTH)

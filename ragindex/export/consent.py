"""Consent of the one who loads a retriever to what it reaches: hosts by name, and folders of models.

A file that names an address or a folder must not decide alone that questions and keys go there, or that weights are
loaded from it.
"""

import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PureWindowsPath
from typing import Any
from urllib.parse import urlsplit

from ragindex.errors import UsageError
from ragindex.plugins import registry
from ragindex.plugins.base import Contact, Plugin, walk_plugins


@dataclass(frozen=True, slots=True)
class Consent:
    """The hosts and folders that must be allowed to load a retriever."""

    hosts: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()

    def write_arguments(self) -> str:
        """Return the arguments of `ragindex.load` after the path, "" if nothing must be allowed."""
        permissions = {"allow_hosts": self.hosts, "allow_folders": self.folders}
        return "".join(f", {name}={list(values)!r}" for name, values in permissions.items() if values)

    def write_flags(self) -> str:
        """Return the flags of commands that load the retriever, each after a blank."""
        permissions = {"--allow-host": self.hosts, "--allow-folder": self.folders}
        return "".join(f" {flag} {shlex.quote(value)}" for flag, values in permissions.items() for value in values)


def list_needed(plugins: Iterable[Plugin], described: Any) -> Consent:
    """Return what must be allowed for plugins, with all in them; `described` are their parameters as JSON values."""
    reached = [inner for plugin in plugins for inner in walk_plugins(plugin)]
    hosts = [contact.host for plugin in reached for contact in plugin.contacts()]
    folders = [folder for plugin in reached for folder in plugin.model_folders()]
    folders += [text.partition("#")[0] for text in find_texts(described) if _is_path(text)]
    return Consent(tuple(dict.fromkeys(hosts)), tuple(dict.fromkeys(folders)))


def check_hosts(allow_hosts: Sequence[str]) -> tuple[str, ...]:
    """Return allowed hosts in lower case. Raises UsageError if one is no HOST or HOST:PORT."""
    if isinstance(allow_hosts, str):
        raise UsageError(
            f"'allow_hosts' must be a list of hosts. Got the string {allow_hosts!r}: write [{allow_hosts!r}]."
        )
    for host in allow_hosts:
        if not host or any(sign in host for sign in "/@?# *"):
            raise UsageError(f"A host is allowed as NAME or NAME:PORT, such as api.openai.com. Got {host!r}.")
    return tuple(host.lower() for host in allow_hosts)


def require_hosts(plugins: Iterable[Plugin], allow_hosts: Sequence[str], name: str) -> None:
    """Raise UsageError, which names all missing hosts, if a plugin sends requests to a host that is not allowed."""
    missing = {
        contact: plugin for plugin in plugins for contact in plugin.contacts() if not is_allowed(contact, allow_hosts)
    }
    if missing:
        requests = "; ".join(
            f"{contact.host} for {registry.label(plugin)}{_name_keys(contact)}" for contact, plugin in missing.items()
        )
        hosts = list(dict.fromkeys(contact.host for contact in missing))
        flags = " ".join(f"--allow-host {host}" for host in hosts)
        raise UsageError(
            f"{name} sends requests to {requests}. Allow it by name: allow_hosts={hosts}, or on the command line "
            f"{flags}. Nothing was sent."
        )


def is_allowed(contact: Contact, allow_hosts: Sequence[str]) -> bool:
    """Return whether a host is allowed: by its name on every port, or by name and port."""
    return contact.host in allow_hosts or urlsplit(f"//{contact.host}").hostname in allow_hosts


def _name_keys(contact: Contact) -> str:
    return f", with the key in {' or '.join(contact.keys)} where it is set" if contact.keys else ""


def require_folders(plugins: Iterable[Plugin], allow_folders: Sequence[str | Path], name: str) -> None:
    """Raise UsageError if a plugin loads a model from a folder that is not allowed."""
    allowed = {_resolve(folder) for folder in allow_folders}
    for plugin in plugins:
        for folder in plugin.model_folders():
            if _resolve(folder) not in allowed:
                raise _refusal(folder, name)


def require_no_paths(values: Any, allow_folders: Sequence[str | Path], name: str) -> None:
    """Raise UsageError if a parameter is an absolute path, or one with .., that is not allowed.

    Called before plugins are made of the parameters, because some read the files that these name.
    """
    allowed = {_resolve(folder) for folder in allow_folders}
    for text in find_texts(values):
        if _is_path(text) and _resolve(text.partition("#")[0]) not in allowed:
            raise _refusal(text, name)


def _refusal(path: str, name: str) -> UsageError:
    return UsageError(
        f"{name} names the path {path!r} on this machine. If it may be read, allow it: allow_folders=[{path!r}], or "
        f"on the command line --allow-folder {path!r}."
    )


def _is_path(text: str) -> bool:
    outside = text.startswith(("/", "\\", "~")) or PureWindowsPath(text).is_absolute()
    return outside or ".." in text.replace("\\", "/").split("/")


def _resolve(folder: str | Path) -> Path:
    return Path(folder).expanduser().absolute()


def find_texts(values: Any) -> Iterator[str]:
    """Yield all texts of a JSON value, at any depth, without the names of keys."""
    if isinstance(values, str):
        yield values
    for inner in values.values() if isinstance(values, dict) else values if isinstance(values, list) else ():
        yield from find_texts(inner)

"""Schemes and checks of the contract as parameters of tests; a check that a quicker one covers is slow."""

from collections.abc import Iterable
from functools import cache
from typing import Any

import pytest

from ragindex.index.parts import topological_order
from ragindex.interfaces import Scheme
from ragindex.plugins import registry
from ragindex.testing import CHECKS, check_crash, check_law


def schemes_and_checks(schemes: Iterable[str], slow: bool = False) -> list[Any]:
    """Return every scheme with every check; what is slow is marked, or all of it.

    A crash takes an index for each place to stop at. The law is slow for a scheme whose parts all belong to others: an
    update writes parts.
    """
    new_parts = schemes_with_new_parts()
    return [
        pytest.param(
            scheme,
            check,
            id=f"{scheme}-{check.__name__}",
            marks=pytest.mark.slow
            if slow or check is check_crash or (check is check_law and scheme not in new_parts)
            else (),
        )
        for scheme in schemes
        for check in CHECKS
    ]


@cache
def schemes_with_new_parts() -> frozenset[str]:
    """Return the registered schemes with a part that no earlier one has, and those without any part.

    An index writes, updates and packs parts: one scheme for each part shows whether that works.
    """
    names: set[str] = set()
    earlier: set[str] = set()
    for name in registry.plugin_names("schemes"):
        parts = {registry.label(part) for part in topological_order(_read_scheme(name).parts())}
        if not parts or not parts <= earlier:
            names.add(name)
        earlier |= parts
    return frozenset(names)


def _read_scheme(name: str) -> Scheme:
    return registry.scheme({"name": name, "params": {"url": "http://127.0.0.1/search"}} if name == "http" else name)

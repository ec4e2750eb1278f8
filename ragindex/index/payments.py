"""Checks that the prices of paid plugins are known before money is spent."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ragindex.errors import UsageError
from ragindex.interfaces import Part, Scheme
from ragindex.llm.plugins import PaidPlugin
from ragindex.plugins import registry
from ragindex.workspace.part_keys import paid_by, parts_of, tasks_of, topological_order
from ragindex.workspace.session import Session


def unpriced(session: Session, plugins: Iterable[Scheme | Part[Any]], *, reads: bool = False) -> dict[str, str]:
    """Return a message for each paid service that `plugins` would call and that has no price, by service label.

    With `reads`, the LLM that reads retrieved passages counts too. Sends no request.
    """
    prices, found = session.model.setting.prices, dict[str, str]()
    for plugin in _find_paid_plugins(session, tuple(plugins), reads):
        missing = plugin.price_missing(prices)
        if missing is not None:
            found[registry.label(plugin)] = missing
    return found


def require_prices(session: Session, plugins: Iterable[Scheme | Part[Any]], *, reads: bool = False) -> None:
    """Raise UsageError if there is a budget and a paid service that `plugins` would call has no price."""
    if session.model.setting.budget is not None:
        for missing in unpriced(session, plugins, reads=reads).values():
            raise UsageError(missing)


def asks_llm(session: Session, plugins: Iterable[Scheme | Part[Any]]) -> bool:
    """Return whether `plugins` or their parts call an LLM (or the offline rules). Imported parts do not."""
    return any(
        (isinstance(plugin, Scheme) and tasks_of(plugin))
        or any("model" in part.uses and session.imported(part) is None for part in topological_order(parts_of(plugin)))
        for plugin in plugins
    )


def may_cost(session: Session, plugins: Sequence[Scheme | Part[Any]]) -> bool:
    """Return whether a question to `plugins` may cost money: they ask an LLM, or anything else that is paid."""
    return asks_llm(session, plugins) or any(True for _ in _find_paid_plugins(session, plugins, reads=False))


def _find_paid_plugins(session: Session, plugins: Sequence[Scheme | Part[Any]], reads: bool) -> Iterator[PaidPlugin]:
    parts = topological_order(part for plugin in plugins for part in parts_of(plugin))
    yield from (one for plugin in (*plugins, *parts) for one in paid_by(plugin))
    if isinstance(session.model.plugin, PaidPlugin) and (reads or asks_llm(session, plugins)):
        yield session.model.plugin
    if any("encoder" in part.uses for part in parts) and isinstance(session.encoders.plugin, PaidPlugin):
        yield session.encoders.plugin

"""Which plugins cost money, and whether their prices are known before anything is spent."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ragindex.errors import UsageError
from ragindex.interfaces import Part, Scheme
from ragindex.llm.plugins import PaidPlugin
from ragindex.plugins import registry
from ragindex.workspace.part_keys import paid_by, parts_of, tasks_of, topological_order
from ragindex.workspace.session import Session


def unpriced(session: Session, plugins: Iterable[Scheme | Part[Any]], *, reads: bool = False) -> dict[str, str]:
    """Of who would be paid for `plugins`, and with `reads` for reading, those without a price.

    What to say of each, by how it is written. Asks nobody.
    """
    prices, found = session.model.setting.prices, dict[str, str]()
    for plugin in _paid_plugins(session, tuple(plugins), reads):
        missing = plugin.price_missing(prices)
        if missing is not None:
            found[registry.label(plugin)] = missing
    return found


def require_prices(session: Session, plugins: Iterable[Scheme | Part[Any]], *, reads: bool = False) -> None:
    """Raises UsageError where there is a budget, and somebody who would be paid for `plugins` has no price."""
    if session.model.setting.budget is not None:
        for missing in unpriced(session, plugins, reads=reads).values():
            raise UsageError(missing)


def asks_llm(session: Session, plugins: Iterable[Scheme | Part[Any]]) -> bool:
    """Whether one of `plugins` or of their parts asks an LLM, or the rules in its place; imported parts do not."""
    return any(
        (isinstance(plugin, Scheme) and tasks_of(plugin))
        or any("model" in part.uses and session.imported(part) is None for part in topological_order(parts_of(plugin)))
        for plugin in plugins
    )


def _paid_plugins(session: Session, plugins: Sequence[Scheme | Part[Any]], reads: bool) -> Iterator[PaidPlugin]:
    parts = topological_order(part for plugin in plugins for part in parts_of(plugin))
    yield from (one for plugin in (*plugins, *parts) for one in paid_by(plugin))
    if isinstance(session.model.plugin, PaidPlugin) and (reads or asks_llm(session, plugins)):
        yield session.model.plugin
    if any("encoder" in part.uses for part in parts) and isinstance(session.encoders.plugin, PaidPlugin):
        yield session.encoders.plugin

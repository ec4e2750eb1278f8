"""The command `mcp`: offer an index to an assistant over MCP's standard input and output."""

from typing import Annotated

import typer

from ragindex._util.distribution import SERVER_PACKAGES, require_all_installed
from ragindex.accounting import ledger
from ragindex.cli.options import BudgetOption, CacheOption


def mcp(
    collections: Annotated[
        list[str], typer.Argument(metavar="INDEX...", help="Folders of indexes, or NAME=FOLDER.", show_default=False)
    ],
    method: Annotated[
        list[str] | None,
        typer.Option(metavar="METHOD", help="Method that searches, or NAME=METHOD. Repeatable."),
    ] = None,
    budget: BudgetOption = None,
    cache: CacheOption = None,
) -> None:
    """Offer indexes to an assistant over MCP, on standard input and output: the tools search and fetch.

    An assistant starts this command itself; nothing is written to the index. What the index has paid for is read from
    it, and new answers of paid services stay in memory or in the file of --cache.

    Example: ragindex mcp my-index --method hybrid
    """
    require_all_installed(SERVER_PACKAGES, "ragindex mcp")
    import asyncio

    from ragindex.serve.config import ServeSettings, parse_collections
    from ragindex.serve.keys import LOCAL
    from ragindex.serve.mcp import make_mcp_server
    from ragindex.serve.service import Service

    settings = ServeSettings(parse_collections(collections, method or []), read_only=True, budget=budget, cache=cache)
    service = Service(settings)
    try:
        with ledger.unrecorded():  # each request records its own; a server's would grow without end
            asyncio.run(make_mcp_server(service, LOCAL).run_stdio_async())
    finally:
        service.close()

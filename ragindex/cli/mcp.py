"""The command `mcp`: offer an index to an assistant over MCP's standard input and output."""

from typing import Annotated

import typer

from ragindex._util.distribution import SERVER_PACKAGES, require_all_installed
from ragindex.accounting import ledger


def mcp(
    collections: Annotated[
        list[str], typer.Argument(metavar="INDEX...", help="Folders of indexes, or NAME=FOLDER.", show_default=False)
    ],
    method: Annotated[
        list[str] | None,
        typer.Option(metavar="METHOD", help="Method that searches, or NAME=METHOD. Repeatable."),
    ] = None,
) -> None:
    """Offer indexes to an assistant over MCP, on standard input and output: the tools search and fetch.

    An assistant starts this command itself; nothing is written to the index.

    Example: ragindex mcp my-index --method hybrid
    """
    require_all_installed(SERVER_PACKAGES, "ragindex mcp")
    import asyncio

    from ragindex.serve.config import ServeSettings, parse_collections
    from ragindex.serve.keys import LOCAL
    from ragindex.serve.mcp import make_mcp_server
    from ragindex.serve.service import Service

    service = Service(ServeSettings(parse_collections(collections, method or []), read_only=True))
    try:
        with ledger.unrecorded():  # each request records its own; a server's would grow without end
            asyncio.run(make_mcp_server(service, LOCAL).run_stdio_async())
    finally:
        service.close()

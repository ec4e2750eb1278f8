"""The command `serve`: serve indexes over HTTP."""

import signal
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from ragindex._util.distribution import SERVER_PACKAGES, require_all_installed
from ragindex.accounting import ledger
from ragindex.cli.console import print_note
from ragindex.cli.option_groups import group_of, with_groups
from ragindex.cli.options import CacheOption


@dataclass(frozen=True, slots=True)
class AccessOptions:
    """Who may call the server, and which hosts exported retrievers may."""

    allow_host: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Name that clients may call the server by. Repeatable.")
    ] = None
    allow_origin: Annotated[
        list[str] | None, typer.Option(metavar="URL", help="Origin of web pages that may call the server. Repeatable.")
    ] = None
    retriever_host: Annotated[
        list[str] | None,
        typer.Option(metavar="HOST", help="Host that exported retrievers may contact. Repeatable."),
    ] = None


@dataclass(frozen=True, slots=True)
class LimitOptions:
    """What requests may take, and what may be paid for them."""

    concurrent: Annotated[int, typer.Option(metavar="N", min=1, help="Most requests that are answered at once.")] = 64
    timeout: Annotated[float, typer.Option(metavar="SECONDS", min=0.1, help="Most time of a request.")] = 30.0
    budget: Annotated[
        float | None,
        typer.Option(metavar="DOLLARS", help="Most that the server pays from its start on, for all keys together."),
    ] = None
    cache: CacheOption = None


@dataclass(frozen=True, slots=True)
class LogOptions:
    """What is recorded of searches."""

    log_texts: Annotated[bool, typer.Option("--log-texts", help="Log the texts of questions.")] = False
    trace: Annotated[
        float, typer.Option(metavar="SHARE", help="Share of searches to record as MLflow traces, 0 to 1.")
    ] = 0.0


@with_groups
def serve(
    collections: Annotated[
        list[str],
        typer.Argument(
            metavar="INDEX...", help="Indexes or exported retrievers: FOLDER, FILE, or NAME=FOLDER.", show_default=False
        ),
    ],
    access: Annotated[AccessOptions, group_of(AccessOptions, "Access")],
    limits: Annotated[LimitOptions, group_of(LimitOptions, "Limits")],
    logs: Annotated[LogOptions, group_of(LogOptions, "Logs and traces")],
    method: Annotated[
        list[str] | None,
        typer.Option(
            metavar="METHOD", help="Method that searches, or NAME=METHOD. Repeatable; the first is the default."
        ),
    ] = None,
    host: Annotated[str, typer.Option(metavar="ADDRESS", help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(metavar="N", min=0, max=65535, help="Port to listen on; 0: any free one.")
    ] = 8080,
    keys: Annotated[Path | None, typer.Option(metavar="FILE", help="TOML file of API keys.")] = None,
    read_only: Annotated[bool, typer.Option("--read-only", help="Accept no documents, and write nothing.")] = False,
) -> None:
    """Serve indexes and exported retrievers over HTTP: REST, OpenAI's vector-store search, and MCP at /mcp.

    Keys come from the variables RAGINDEX_READ_KEY, RAGINDEX_WRITE_KEY and RAGINDEX_JUDGE_KEY, or from --keys.
    SIGHUP reads those of files again.

    Example: ragindex serve my-index --method hybrid
    """
    require_all_installed(SERVER_PACKAGES, "ragindex serve")
    from ragindex.serve.app import run_server
    from ragindex.serve.config import RequestLimits, ServeSettings, parse_collections
    from ragindex.serve.keys import load_keyring
    from ragindex.serve.service import Service
    from ragindex.serve.telemetry import show_logs

    specs = parse_collections(collections, method or [])
    read_keys = partial(load_keyring, keys, [spec.name for spec in specs])
    settings = ServeSettings(
        collections=specs,
        host=host,
        port=port,
        keys=read_keys(),
        allowed_hosts=tuple(access.allow_host or ()),
        allowed_origins=tuple(access.allow_origin or ()),
        limits=RequestLimits(concurrent=limits.concurrent, timeout=limits.timeout),
        log_texts=logs.log_texts,
        trace_ratio=logs.trace,
        read_only=read_only,
        retriever_hosts=tuple(access.retriever_host or ()),
        budget=limits.budget,
        cache=limits.cache,
    )
    show_logs()
    service = Service(settings, read_keys)
    for name, collection in service.collections.items():
        encoder = "" if collection.state.encoder is None else f", encoder {collection.state.encoder}"
        print_note(f"{name}: {', '.join(collection.methods)}{encoder}")
    for sentence in service.describe_unknown_fields():
        print_note(f"warning: {sentence}")
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # the server ends its requests first and then raises it again
    with ledger.unrecorded():  # each request records its own; a server's would grow without end
        run_server(service, lambda address: print_note(f"Serving {', '.join(service.collections)} at {address}"))

"""A Starlette route around a retriever, without keys, limits and logs: `python -m benchmarks.bare_route FOLDER METHOD`.

Prints its port. `serve_load route` compares the server with it.
"""

import sys
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

import ragindex
from ragindex.retrieval.formatting import hit_to_json
from ragindex.serve.app import bind_address


def main(folder: str, method: str) -> None:
    """Serve until the process is ended."""
    with ragindex.open(Path(folder), read_only=True) as index, bind_address("127.0.0.1", 0) as listening:
        retriever = index.retriever(method)

        async def search(request: Request) -> JSONResponse:
            body = await request.json()
            hits = await run_in_threadpool(retriever.search, body["query"], k=body["k"])
            return JSONResponse({"hits": [hit_to_json(hit) for hit in hits]})

        print(listening.getsockname()[1], flush=True)
        app = Starlette(routes=[Route("/search", search, methods=["POST"])])
        uvicorn.Server(uvicorn.Config(app, access_log=False, log_level="warning")).run([listening])


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Clients of remote services, when nobody has them any more."""

import gc
import socket

import pytest
from openai_server import KEY, OpenAIServer

from ragindex._util.http import make_http_client


def test_a_forgotten_client_closes_its_connections_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """The garbage collector finalises in the order of its list. Where a socket comes before the client, it warns."""
    shown: list[str] = []
    monkeypatch.setattr("sys.unraisablehook", lambda problem: shown.append(repr(problem.exc_value)))
    with OpenAIServer() as server:
        client = make_http_client(server.url, KEY, 5.0)
        client.embeddings.create(model="text-embedding-3-small", input=["a text"])
        [connection] = client._client._transport._pool.connections
        pair = [connection._connection._network_stream.get_extra_info("socket"), client]
        assert isinstance(pair[0], socket.socket)
        gc.collect()  # what `pair` names first now comes first in the collector's list
        pair.append(pair)
        del client, connection, pair
        gc.collect()
    assert shown == []

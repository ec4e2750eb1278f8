"""Three real nodes that can be killed, paused and brought back, on ports of 127.0.0.1 that they keep."""

import os
import shutil
import signal
import socket
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from elasticsearch_node.node import FOLDER, Node, NoNodeError, build, place, start
from filelock import FileLock
from made_elasticsearch import unchecked_client

from ragindex.stores.elasticsearch.client import Server, connect

COUNT = 3
_PATIENCE = 120.0
"""Seconds that nodes may take to find one another and their shards, on a machine that does other things too."""


@dataclass(slots=True)
class Cluster:
    """`nodes` by number, dead ones among them; `run` holds their logs, `data` their files."""

    run: Path
    data: Path
    ports: Sequence[tuple[int, int]]
    nodes: dict[int, Node] = field(default_factory=dict)

    @property
    def addresses(self) -> str:
        """What a client is given."""
        return ",".join(f"http://127.0.0.1:{http}" for http, _ in self.ports)

    @property
    def server(self) -> Server:
        """A client of one's own."""
        return connect(self.addresses, 60.0, 8)

    def bring(self) -> None:
        """Start the nodes that are not there, at once, with the files that they had; the whole cluster is green then.

        Raises NoNodeError.
        """
        away = [number for number in range(COUNT) if number not in self.nodes or not self.nodes[number].alive()]
        with ThreadPoolExecutor(COUNT) as pool:
            self.nodes |= dict(zip(away, pool.map(self._start, away), strict=True))
        self.wait("green", COUNT)

    def wait(self, status: str, count: int) -> None:
        """Until `count` nodes have a master, and every index at least this health."""
        health = self.server.ask(
            f"become {status}",
            lambda client: client.options(request_timeout=_PATIENCE + 10).cluster.health(
                wait_for_status=status, wait_for_nodes=str(count), timeout=f"{_PATIENCE:.0f}s"
            ),
        )
        assert not health["timed_out"], f"after {_PATIENCE:.0f} s the cluster is {health['status']}"

    def _start(self, number: int) -> Node:
        http, transport = self.ports[number]
        settings = [
            f"http.port={http}",
            f"transport.port={transport}",
            f"discovery.seed_hosts={','.join(f'127.0.0.1:{port}' for _, port in self.ports)}",
            f"cluster.initial_master_nodes={','.join(f'node{other}' for other in range(COUNT))}",
            "cluster.name=ragindex-faults",
            "thread_pool.write.size=1",
            "thread_pool.write.queue_size=2",
        ]
        return start(self.run / f"node{number}", self.data / str(number), settings, heap="256m")

    def kill(self, numbers: Sequence[int]) -> None:
        """As the power does."""
        for number in numbers:
            self.nodes[number].stop(signal.SIGKILL)

    def pause(self) -> None:
        """Every node is there, and answers nothing."""
        for node in self.nodes.values():
            os.kill(node.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """They go on where they stopped."""
        for node in self.nodes.values():
            os.kill(node.pid, signal.SIGCONT)

    def with_primary(self, index: str) -> int:
        """The number of the node that holds the primary shard of an index."""
        with unchecked_client(self.addresses.split(",")) as client:  # the framework never asks this
            shards = client.cat.shards(index=index, format="json", h="prirep,node")
        (name,) = [shard["node"] for shard in shards if shard["prirep"] == "p"]
        return int(name.removeprefix("node"))


@contextmanager
def cluster(run: Path) -> Iterator[Cluster]:
    """All nodes, up and green; skips the test, with the reason, where there can be none."""
    pytest.importorskip("elasticsearch", reason="the extra elasticsearch is not installed")
    try:
        FOLDER.mkdir(exist_ok=True)
        with FileLock(FOLDER / "lock"):
            build()
    except NoNodeError as error:
        pytest.skip(f"no Elasticsearch: {error}")
    nodes = Cluster(run, place(f"faults-{os.getpid()}"), [(_free(), _free()) for _ in range(COUNT)])
    try:
        nodes.bring()
        yield nodes
    finally:
        nodes.kill(list(nodes.nodes))
        shutil.rmtree(nodes.data, ignore_errors=True)


def _free() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port

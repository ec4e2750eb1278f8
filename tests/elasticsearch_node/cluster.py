"""Three real nodes that can be killed, paused and brought back, on ports of 127.0.0.1 that they keep."""

import os
import signal
import socket
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from elasticsearch_node.node import FOLDER, Node, NoNodeError, build, start
from filelock import FileLock

from ragindex.stores.elastic_client import Server, connect

COUNT = 3


@dataclass(slots=True)
class Cluster:
    """`nodes` by number; one that was killed stays in the list until it is brought back."""

    folder: Path
    ports: Sequence[tuple[int, int]]
    nodes: list[Node] = field(default_factory=list)

    @property
    def addresses(self) -> str:
        """What a client is given."""
        return ",".join(f"http://127.0.0.1:{http}" for http, _ in self.ports)

    @property
    def server(self) -> Server:
        """A client of one's own."""
        return connect(self.addresses, 60.0, 8)

    def bring(self, numbers: Sequence[int]) -> None:
        """Start nodes, at once, with the files that they had; the whole cluster is green then."""
        with ThreadPoolExecutor(COUNT) as pool:
            started = list(pool.map(self._start, numbers))
        kept = {number: node for number, node in enumerate(self.nodes) if number not in numbers}
        kept |= dict(zip(numbers, started, strict=True))
        self.nodes = [kept[number] for number in sorted(kept)]
        self.server.ask(
            "become green",
            lambda client: client.cluster.health(wait_for_status="green", wait_for_nodes=str(COUNT), timeout="60s"),
        )

    def _start(self, number: int) -> Node:
        http, transport = self.ports[number]
        settings = [
            f"http.port={http}",
            f"transport.port={transport}",
            f"discovery.seed_hosts={','.join(f'127.0.0.1:{port}' for _, port in self.ports)}",
            f"cluster.initial_master_nodes={','.join(f'node{one}' for one in range(COUNT))}",
            "cluster.name=ragindex-faults",
            "thread_pool.write.size=1",
            "thread_pool.write.queue_size=2",
        ]
        return start(self.folder / f"node{number}", self.folder / f"data{number}", settings, keep=True, heap="256m")

    def kill(self, numbers: Sequence[int]) -> None:
        """As the power does."""
        for number in numbers:
            self.nodes[number].stop(signal.SIGKILL)

    def pause(self) -> None:
        """Every node is there, and answers nothing."""
        for node in self.nodes:
            os.kill(node.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """They go on where they stopped."""
        for node in self.nodes:
            os.kill(node.pid, signal.SIGCONT)

    def with_primary(self, index: str) -> int:
        """The number of the node that holds the primary shard of an index."""
        shards = self.server.ask("look", lambda client: client.cat.shards(index=index, format="json", h="prirep,node"))
        (name,) = [one["node"] for one in shards if one["prirep"] == "p"]
        return int(name.removeprefix("node"))


def cluster(folder: Path) -> Cluster:
    """All nodes, up and green; skips the test, with the reason, where there can be none."""
    pytest.importorskip("elasticsearch", reason="the extra elasticsearch is not installed")
    try:
        FOLDER.mkdir(exist_ok=True)
        with FileLock(FOLDER / "lock"):
            build()
    except NoNodeError as error:
        pytest.skip(f"no Elasticsearch: {error}")
    made = Cluster(folder, [(_free(), _free()) for _ in range(COUNT)])
    made.bring(range(COUNT))
    return made


def _free() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port

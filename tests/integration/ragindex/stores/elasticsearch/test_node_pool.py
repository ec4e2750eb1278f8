"""The pool of nodes when one thread chooses a node while another marks one as dead."""

from collections.abc import Callable
from threading import Thread

from ragindex.stores.elasticsearch.client import create_client


class Interrupting(set[object]):
    """A set that runs a function when it is asked for a member: in the middle of the choice of a node."""

    def __init__(self, interrupt: Callable[[], None]) -> None:
        super().__init__()
        self.interrupt = interrupt

    def __contains__(self, member: object) -> bool:
        self.interrupt()
        return False


def test_a_node_may_die_while_another_is_chosen() -> None:
    with create_client(["http://127.0.0.1:1", "http://127.0.0.1:2", "http://127.0.0.1:3"]) as client:
        pool = client.transport.node_pool
        threads: list[Thread] = []

        def mark_one_dead() -> None:
            if not threads:
                threads.append(Thread(target=pool.mark_dead, args=(pool.all()[1],)))
                threads[0].start()
                threads[0].join(0.2)  # with a lock it waits until the node is chosen

        pool._removed_nodes = Interrupting(mark_one_dead)
        assert pool.get() in pool.all()
        threads[0].join()
        assert len(pool._alive_nodes) == 2
        pool.mark_live(pool.all()[1])
        assert len(pool._alive_nodes) == 3

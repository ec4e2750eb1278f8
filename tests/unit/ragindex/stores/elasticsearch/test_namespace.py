"""The name of an index in the store: all that open a new index at once work under one."""

import threading
from pathlib import Path

from ragindex.stores.elasticsearch import store


def test_new_index_opened_at_once_has_one_name(tmp_path: Path) -> None:
    names, start = list[str](), threading.Barrier(8)

    def read() -> None:
        start.wait()
        names.append(store._read_namespace(tmp_path / "w" / "store"))

    threads = [threading.Thread(target=read) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(names), len(set(names))) == (8, 1)

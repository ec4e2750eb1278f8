"""A key that may not do all: the error names the right that it lacks. Asked of a stand-in, in a real server's words."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from elasticsearch_stand_in import INFO, Answer, StandIn, failed
from made_elasticsearch import TEXT, texts

from ragindex.errors import StoreError
from ragindex.interfaces import TextQuery
from ragindex.plugins import registry
from ragindex.stores.elasticsearch import lease
from ragindex.stores.elasticsearch.indices import Generation
from ragindex.stores.elasticsearch.store import ElasticsearchCollection

pytest.importorskip("elasticsearch", reason="the extra elasticsearch is not installed")
NEEDED = "It needs the cluster privilege monitor and, on the store's indices, manage, read and write."
SEALED = {"generation": 1, "version": 3, "at": 0.0, "records": 1, "stale": 0, "filled": 1, "tokens": 2, "longest": 2}
NOTE = {
    **{"format": 3, "namespace": "w", "name": "texts", "analyser": None, "vectors": "flat"},
    **{"schema": {"stored": ["text"], "keywords": [], "numbers": [], "text": ["text"]}},
}
NOTE["schema"] |= {"language": "english", "dimensions": None}  # type: ignore[operator]


def unauthorized(action: str) -> dict[str, str]:
    """As a server 8 says it."""
    message = (
        f"action [{action}] is unauthorized for API key id [abc] of user [someone] on indices [ragindex-w-texts-1]"
    )
    return {"type": "security_exception", "reason": f"{message}, this action is granted by the index privileges [all]"}


@pytest.fixture
def refusing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Any]]:
    """A store whose key may do all but one action."""
    stand_ins: list[StandIn] = []
    for name in ("API_KEY", "USER", "PASSWORD", "CA_FILE"):
        monkeypatch.delenv(f"ELASTICSEARCH_{name}", raising=False)

    def opened(action: str) -> Any:
        stand_ins.append(StandIn(lambda path, *_: _answer(path, action)))
        written = {"name": "elasticsearch", "params": {"url": stand_ins[-1].url, "namespace": "w"}}
        return registry.store(written).open(tmp_path)

    yield opened
    for stand_in in stand_ins:
        stand_in.stop()


def _answer(path: str, action: str) -> Answer:
    refused = unauthorized(action)
    if path == "/":
        return failed(**_spread(refused)) if action == "cluster:monitor/main" else (200, INFO)
    if "_bulk" in path and action.startswith("indices:data/write/bulk"):
        return 200, {"errors": True, "items": [{"index": {"status": 403, "error": refused}}]}
    if "_msearch" in path:
        return 200, {"responses": [{"status": 403, "error": refused}]}
    if "_mget" in path:
        return 200, {"docs": [{"_id": "a", "error": refused}]}
    if "expand_wildcards" in path and action.startswith("indices:data/write/"):
        settings = {"index": {"number_of_shards": "1"}}
        return 200, {"ragindex-w-texts-1": {"mappings": {"_meta": {"ragindex": NOTE}}, "settings": settings}}
    return failed(**_spread(refused))


def _spread(refused: dict[str, str]) -> dict[str, Any]:
    return {"kind": refused["type"], "reason": refused["reason"], "status": 403}


def pinned(store: Any) -> ElasticsearchCollection:
    """A reader of a finished state."""
    totals = {**SEALED, "fields": [], "groups": []}
    return ElasticsearchCollection(
        store, "texts", TEXT, Generation("ragindex-w-texts-1", True, 1, {**NOTE, "sealed": totals})
    )


def write(store: Any) -> None:
    ElasticsearchCollection(store, "texts", TEXT).upsert(texts({"a": "x"}))


def scan(store: Any) -> list[pa.RecordBatch]:
    return list(pinned(store).scan(()))


def take(store: Any) -> lease.WriterLease:
    return lease.acquire_lease(store.server, store._state, "somebody", 30.0)


ON = "on the store's indices"


@pytest.mark.parametrize(
    ("action", "lacking", "call"),
    [
        ("cluster:monitor/main", "the cluster privilege monitor", lambda _: None),
        ("indices:admin/get", f"the privilege manage {ON}", lambda store: store.names()),
        ("indices:admin/create", f"the privilege manage {ON}", take),
        ("indices:monitor/stats", f"the privilege manage {ON}", lambda store: pinned(store).describe()),
        (
            "indices:data/read/search",
            f"the privilege read {ON}",
            lambda store: pinned(store).search([TextQuery("x", 1)]),
        ),
        ("indices:data/read/mget[shard]", f"the privilege read {ON}", lambda store: pinned(store).get(["a"], ())),
        ("indices:data/read/open_point_in_time", f"the privilege read {ON}", scan),
        ("indices:data/write/bulk[s]", f"the privilege write {ON}", write),
        ("odd:thing", "a right", lambda store: store.names()),
    ],
)
def test_the_right_that_is_lacking_is_named(
    action: str, lacking: str, call: Callable[[Any], Any], refusing: Callable[[str], Any]
) -> None:
    with pytest.raises(StoreError) as error:
        call(refusing(action))
    assert f"[{action}] is unauthorized" in str(error.value)
    assert str(error.value).endswith(f". The key lacks {lacking}. {NEEDED}")


def test_an_index_that_was_blocked_is_no_question_of_rights(refusing: Callable[[str], Any]) -> None:
    store = refusing("odd:thing")
    from ragindex._util.http import RequestProblem

    message = str(store.server.failure("write", RequestProblem("blocked by: disk", 403, "cluster_block_exception")))
    assert "lacks" not in message
    assert message.endswith("Check its disk space and GET _cluster/health.")

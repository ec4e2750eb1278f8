"""LiteLLM's client, which DSPy brings. Earlier versions than 1.110 give all errors of the server one class."""

import asyncio
import os
from collections.abc import Iterator
from typing import Any

import pytest
from served import RunningServer, build_index, serving

from ragindex.serve.keys import load_keyring

os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # else the import downloads prices
import litellm

pytestmark = pytest.mark.filterwarnings("ignore")  # its dependencies deprecate one another
KEY = "read-key-0123456789abcdef"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    folder = build_index(tmp_path_factory.mktemp("litellm") / "docs")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAGINDEX_READ_KEY", KEY)
        keys = load_keyring(None, ["docs"])
    with serving(f"docs={folder}", keys=keys) as running:
        yield running


def how(server: RunningServer, key: str = KEY) -> dict[str, Any]:
    return {"custom_llm_provider": "openai", "api_base": f"{server.url}/v1", "api_key": key}


def test_it_searches_with_filters(server: RunningServer) -> None:
    where = {"type": "ne", "key": "team", "value": "blue"}
    hits = litellm.vector_stores.search(
        "docs", "When was the lighthouse built?", filters=where, max_num_results=2, **how(server)
    )
    first = hits["data"][0]
    assert (hits["object"], first["file_id"], first["filename"]) == (
        "vector_store.search_results.page",
        "lindau",
        "Lindau",
    )
    assert first["content"][0]["text"].startswith("The lighthouse of Lindau was built in 1856.")
    assert (first["attributes"]["year"], first["attributes"]["team"]) == (1856, "red")
    assert "vault" not in [hit["file_id"] for hit in hits["data"]]


def test_it_searches_asynchronously_with_several_questions(server: RunningServer) -> None:
    report = asyncio.run(litellm.vector_stores.asearch("docs:bm25", ["ferry", "Bregenz"], **how(server)))
    assert report["data"][0]["file_id"] == "ferry"
    assert report["search_query"] == ["ferry", "Bregenz"]


def test_its_errors_are_those_of_the_server(server: RunningServer) -> None:
    with pytest.raises(litellm.exceptions.AuthenticationError, match="not valid"):
        litellm.vector_stores.search("docs", "ferry", **how(server, "wrong-0123456789abcdef"))
    with pytest.raises(litellm.exceptions.NotFoundError, match="no collection"):
        litellm.vector_stores.search("other", "ferry", **how(server))

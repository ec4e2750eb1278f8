"""A model behind a real server in this process."""

from collections.abc import Iterator

import pytest
from made_language import answering
from openai_server import OpenAIServer


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenAIServer]:
    for name in ("OPENAI_BASE_URL", "OPENAI_API_KEY_FILE"):
        monkeypatch.delenv(name, raising=False)
    with answering(monkeypatch) as running:
        yield running

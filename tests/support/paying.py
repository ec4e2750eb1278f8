"""The three kinds of calls that are paid and kept in a file, each as one function of a server, a file and texts."""

import json
import os
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from made_language import ECHO, PRICES, QUICK
from openai_server import OpenAIServer

from ragindex.encoders.openai_compatible import OpenAICompatible, OpenAIEncoder
from ragindex.encoders.vector_cache import CachedEncoder
from ragindex.interfaces.llm import LLMSettings
from ragindex.llm.cache import SQLiteCache
from ragindex.llm.openai_compatible import OpenAICompatibleChat
from ragindex.llm.rate_limits import Limits
from ragindex_baselines.rerank.endpoint import Endpoint, EndpointScoring

KEY = "sk-a-secret-of-this-test"


def chats(url: str, path: Path) -> Callable[[Sequence[str]], object]:
    language = OpenAICompatibleChat(model="small", base_url=url).open(
        LLMSettings(cache=SQLiteCache(path), prices=PRICES, clock=QUICK)
    )
    return lambda texts: language.map(ECHO, [{"text": text} for text in texts])


def reranks(url: str, path: Path) -> Callable[[Sequence[str]], object]:
    setting, cache = LLMSettings(prices=PRICES, clock=QUICK), SQLiteCache(path)
    scoring = EndpointScoring(Endpoint(model="small", base_url=url), setting, cache, Limits(8, clock=QUICK))
    return lambda texts: [scoring.scores(text, [("", "slate")]) for text in texts]


def embeds(url: str, path: Path) -> Callable[[Sequence[str]], object]:
    plugin = OpenAICompatible(model="small", dimensions=8)
    encoder = CachedEncoder(OpenAIEncoder(plugin, url, KEY, LLMSettings(prices=PRICES, clock=QUICK)), path)
    return lambda texts: [encoder.encode_documents([text]) for text in texts]


KINDS = {"chat": chats, "rerank": reranks, "embed": embeds}


PATHS = ("same", "folder", "link", "dots", "relative")
"""How the second cache gets the file of the first."""


def seen_as(how: str, path: Path) -> Path:
    """Another path of the file: through a linked folder, a link to the file itself, dots, or the working folder."""
    if how == "folder":
        linked = path.parent.parent / "linked"
        if not linked.exists():
            linked.symlink_to(path.parent, target_is_directory=True)
        return linked / path.name
    if how == "link":
        link = path.parent.parent / "link.sqlite"
        if not link.is_symlink():
            link.symlink_to(path)
        return link
    if how == "dots":
        return path.parent / ".." / path.parent.name / path.name
    return Path(os.path.relpath(path)) if how == "relative" else path


def paid(server: OpenAIServer) -> Counter[str]:
    """How often each call was asked for, whatever its headers."""
    return Counter(json.dumps(received.body, sort_keys=True) for received in server.requests)

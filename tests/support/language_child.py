"""Ask a server for many texts, to be killed at any moment. Run as: language_child.py URL CACHE COUNT CONCURRENCY"""

import sys
from pathlib import Path

import openai  # noqa: F401  # imported before "ready", so that the kill falls into the work
from made_language import ECHO, PRICES, QUICK, texts

from ragindex.accounting import ledger
from ragindex.interfaces.llm import LLMSettings
from ragindex.llm.cache import SQLiteCache
from ragindex.llm.openai_compatible import OpenAICompatibleChat

if __name__ == "__main__":
    url, path, count, concurrency = sys.argv[1:]
    plugin = OpenAICompatibleChat(model="small", base_url=url, concurrency=int(concurrency))
    language = plugin.open(LLMSettings(cache=SQLiteCache(Path(path)), prices=PRICES, clock=QUICK))
    print("ready", flush=True)
    sys.stdin.readline()
    with ledger.record_calls() as tally:
        language.map(ECHO, texts(int(count)))
    print(tally.calls, tally.replayed, flush=True)

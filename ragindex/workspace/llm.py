"""The LLM that a workspace was opened with."""

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from pydantic import BaseModel

from ragindex.llm.cache import NoCache, ResponseCache, SQLiteCache
from ragindex.llm.plugins import LLMPlugin
from ragindex.llm.settings import LLMSettings
from ragindex.llm.tasks import LLM
from ragindex.plugins import code_fingerprint, registry

CALLS = "calls.sqlite"


@dataclass
class Model:
    """An LLM plugin with its settings; the LLM itself is opened on first use. Its calls are cached in the workspace."""

    folder: Path
    plugin: LLMPlugin
    setting: LLMSettings
    keep_calls: bool = True

    @property
    def name(self) -> str:
        """The label of the LLM, as written in a configuration."""
        assert isinstance(self.plugin, BaseModel)  # noqa: S101  # the registry makes nothing else
        return registry.label(self.plugin)

    @cached_property
    def language(self) -> LLM:
        """The LLM, opened on first access. Opening sends no request."""
        return self.plugin.open(replace(self.setting, cache=self.calls, workspace=self.folder))

    @property
    def calls(self) -> ResponseCache:
        """The cache of LLM calls: the one in `setting` if given, else the workspace's own."""
        if not isinstance(self.setting.cache, NoCache) or not self.keep_calls:
            return self.setting.cache
        return SQLiteCache(self.folder / CALLS)

    @cached_property
    def id(self) -> str:
        """The LLM's identity, on which its answers depend. Needs no API key and no cache."""
        return code_fingerprint.sourced(self.plugin, self.plugin.open(replace(self.setting, budget=None)).id)

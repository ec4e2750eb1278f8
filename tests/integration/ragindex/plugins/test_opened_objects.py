"""What a plugin opens must be of the base class that has the defaults, as that of an older plugin is not."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from letters import LettersEncoder

from ragindex.errors import BrokenPluginError
from ragindex.index.index import Index
from ragindex.interfaces import EncoderPlugin, FittedEncoderPlugin, LLMPlugin, StorePlugin
from ragindex.llm.offline import OfflineRules
from ragindex.stores.lancedb.store import LanceDB
from ragindex.types import Document

DOCUMENTS = [Document("a", "Murano", "Glass is made on Murano.")]


class Old:
    """An object with the methods of another one, and without its base class."""

    def __init__(self, model: object) -> None:
        self.model = model

    def __getattr__(self, name: str) -> Any:
        return getattr(self.model, name)


class OldEncoder(EncoderPlugin):
    def open(self, setting: object = None) -> Any:
        return Old(LettersEncoder())


class OldFit(FittedEncoderPlugin):
    def fit(self, texts: object, language: str, seed: int, folder: Path) -> None:
        (folder / "fit").write_text("fitted")

    def load(self, folder: Path) -> Any:
        return Old(LettersEncoder())


class OldLLM(LLMPlugin):
    def open(self, setting: object = None) -> Any:
        return Old(OfflineRules())


class OldStore(StorePlugin):
    def open(self, folder: Path) -> Any:
        return Old(LanceDB().open(folder))


@pytest.mark.parametrize(
    ("plugins", "work", "base"),
    [
        ({"encoder": OldEncoder()}, lambda index: index.build("dense"), "ragindex.interfaces.Encoder"),
        ({"encoder": OldFit()}, lambda index: index.build("dense"), "ragindex.interfaces.Encoder"),
        ({"llm": OldLLM()}, lambda index: index.llm, "ragindex.interfaces.LLM"),
        ({"store": OldStore()}, lambda index: None, "ragindex.interfaces.Store"),
    ],
)
def test_object_without_base_class_is_refused_in_one_sentence(
    tmp_path: Path, plugins: dict[str, Any], work: Callable[[Index], object], base: str
) -> None:
    expected = rf"^Old\w+ \(.*\) opens Old, which must be a subclass of {base}\. Write: class Old\(\w+\)$"
    with pytest.raises(BrokenPluginError, match=expected):  # a store is opened with the index
        index = Index.open(tmp_path / "w", create=True, **plugins)
        index.add(DOCUMENTS)
        work(index)

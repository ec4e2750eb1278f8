"""What an undisturbed workspace answers, whose collections are searched from memory whatever the engine of a history:
made once for a corpus and settings, in a folder in memory where enough is left.
"""

import shutil
import tempfile
from collections import OrderedDict
from dataclasses import dataclass, field
from pathlib import Path

from memory_folder import folder_in_memory

from histories import materials
from histories.faults import pressed
from ragindex.index.index import Index
from ragindex.types import Retrieval

_KEPT = 24
K = 50
"""More hits than there are records of most kinds: the whole ranking is compared."""


@dataclass(frozen=True)
class Conditions:
    """What answers depend on besides documents and method. `fit` is the folder of the fits of an encoder that learns;
    `fitted` names them."""

    encoder: str
    chunking: str
    imported: Path | None = None
    failed: frozenset[tuple[str, str, str]] = frozenset()
    fitted: str = ""
    fit: Path | None = field(default=None, compare=False)


@dataclass
class Fresh:
    """Undisturbed workspaces under `root`, the last ones kept; and all their answers."""

    root: Path
    _answers: dict[tuple[object, ...], list[Retrieval]] = field(default_factory=dict)
    _spaces: "OrderedDict[tuple[object, ...], Index]" = field(default_factory=OrderedDict)
    _made_count: int = 0

    def answers(self, corpus: materials.Corpus, means: Conditions, method: str) -> list[Retrieval]:
        """To `materials.QUERIES`; nothing where there are no documents."""
        if not corpus:
            return [Retrieval(()) for _ in materials.QUERIES]
        key = (tuple(sorted((name, tuple(sentences)) for name, sentences in corpus.items())), means)
        if (*key, method) not in self._answers:
            space, scheme = self._space(key, corpus, means), materials.METHODS[method]
            with materials.failing(materials.with_passages(means.failed)), pressed(1024, 64):
                space.build(scheme)
            self._answers[*key, method] = scheme.open(space).retrieve(materials.QUERIES, K)
        return self._answers[*key, method]

    def _space(self, key: tuple[object, ...], corpus: materials.Corpus, means: Conditions) -> Index:
        if key in self._spaces:
            self._spaces.move_to_end(key)
            return self._spaces[key]
        self._made_count += 1
        folder = self.root / f"{self._made_count}"
        if means.fit is not None:
            shutil.copytree(means.fit, folder / "encoders")
        chunking = materials.CUTTINGS[means.chunking]
        space = Index.open(
            folder, encoder=materials.ENCODERS[means.encoder], llm=materials.Model(), chunking=chunking, create=True
        )
        space.add(materials.documents(corpus))
        if means.imported is not None:
            space.import_part("extractions", means.imported)
        self._spaces[key] = space
        while len(self._spaces) > _KEPT:
            _, old = self._spaces.popitem(last=False)
            shutil.rmtree(old.folder, ignore_errors=True)
        return space


def make_folder(prefix: str) -> Path:
    """A folder in memory where enough is left: what waits for no disk is quick."""
    return Path(tempfile.mkdtemp(prefix=prefix, dir=folder_in_memory(1 << 30)))

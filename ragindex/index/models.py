"""The encoder and the LLM that an index was opened with.

The encoder is opened once, with a vector cache, and fitted if it learns from the corpus. A fit is a folder under
`encoders/`, named by the encoder's id, and written completely before the first vector is computed. A pointer file next
to it names the fit that builds use; readers use the fit named in the manifest. Both are hashed. If one is damaged, the
next sync fits again. The same passages give the same fit; other passages give another fit, with which parts are
rebuilt. The LLM is opened on first use, and its calls are cached in the index.
"""

import shlex
import shutil
import time
from collections.abc import Callable, Sequence, Set
from contextlib import AbstractContextManager, suppress
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path

from pydantic import BaseModel

from ragindex._util import canonical, durable_files
from ragindex._util.progress import progress_bar
from ragindex.encoders.on_workers import make_worker_encoder
from ragindex.encoders.vector_cache import CachedEncoder
from ragindex.encoders.vectors import WordCount
from ragindex.errors import DamagedError, MissingPartError, UsageError
from ragindex.index.fit_watch import (
    FittedTexts,
    PassageSample,
    SampledWords,
    describe_lack,
    read_counts,
    write_counts,
)
from ragindex.index.manifest import wrap_write_errors
from ragindex.interfaces import Encoder, EncoderPlugin, FittedEncoderPlugin
from ragindex.interfaces.llm import LLM, LLMPlugin, LLMSettings, PaidPlugin
from ragindex.llm.cache import NoCache, ResponseCache, SQLiteCache
from ragindex.llm.reading_cache import keeps_questions
from ragindex.plugins import code_fingerprint, registry
from ragindex.plugins.code_fingerprint import sourced
from ragindex.plugins.plugin_errors import check_opened

ASKED_FOR = "it was asked for"
"""Why an encoder is fitted again after `Encoders.ask_refit`."""
_GROWTH_LIMIT, _SHRINK_LIMIT = 1.5, 0.5
"""The encoder is fitted again once the corpus has grown or shrunk by half since the last fit."""


@dataclass(frozen=True, slots=True)
class Fit:
    """The fit of an encoder: its id, the number of passages it was fitted on, and its cost.

    A `size` of 0 asks for a new fit. `unknown` is the share of the words of its passages that it does not know, as its
    vocabulary is full; `at` is its time in seconds since 1970, or 0 for a fit of an earlier version. `fit` is the
    encoder's own id. `id` includes the code's fingerprint if the encoder is not part of ragindex.
    """

    id: str
    size: int
    seconds: float
    bytes: int
    fit: str = ""
    unknown: float = 0.0
    at: float = 0.0


@dataclass(frozen=True, slots=True)
class Refit:
    """A fit that replaced another: the encoder's label, its seconds, and why it was made, as a clause."""

    encoder: str
    seconds: float
    reason: str


@dataclass(slots=True)
class Encoders:
    """The encoder an index was opened with; `vectors` is the file of cached vectors (default: in the folder)."""

    folder: Path
    plugin: EncoderPlugin | FittedEncoderPlugin
    language: str
    seed: int
    setting: LLMSettings = field(default_factory=LLMSettings)
    vectors: Path | None = None
    _opened: dict[str, CachedEncoder] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The encoder's label, with the seed if a fit depends on it; the manifest stores encoder ids by this name."""
        assert isinstance(self.plugin, BaseModel)  # noqa: S101  # the registry makes nothing else
        label = registry.label(self.plugin)
        seeded = isinstance(self.plugin, FittedEncoderPlugin) and self.seed != 0
        return f"{label}, seed {self.seed}" if seeded else label

    def prepare(
        self, texts: Callable[[], Sequence[str]], size: int, sample: PassageSample, *, watch: bool = True
    ) -> Refit | None:
        """Fit the encoder, if it learns from the corpus and has no intact fit for about `size` passages.

        With `watch`, it is fitted again too once it does not know enough words of a `sample` of the passages. Returns
        the fit if it replaces another.
        """
        if not isinstance(self.plugin, FittedEncoderPlugin):
            return None
        current = self._current()
        reason = ASKED_FOR if current is None else self._find_refit_reason(current, size, sample, watch)
        if reason is None:
            return None
        start = time.perf_counter()
        partial = self.folder / "encoders" / "fitting.partial"
        with self._writing():
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir(parents=True)
            with progress_bar(f"fitting {self.name} to {size:,} passages", None):
                fitted_texts = texts()
                self.plugin.fit(fitted_texts, self.language, self.seed, partial)
            FittedTexts.write(partial, fitted_texts, sample.revisions)
            durable_files.write_hashes(partial)
            fitted = check_opened(self.plugin, self.plugin.load(partial), Encoder).id
            id = sourced(self.plugin, fitted)
            if self.damage(id):
                self._opened.pop(id, None)
                durable_files.move_durably(partial, self._place(id))
            shutil.rmtree(partial, ignore_errors=True)
            taken = sum(file.stat().st_size for file in self._place(id).iterdir())
            fit = Fit(id, size, time.perf_counter() - start, taken, fitted, at=time.time())
            self._point_to(replace(fit, unknown=self._count_unknown(fit, sample).total.unknown_share))
        return None if current is None else Refit(self.name, fit.seconds, reason)

    def _find_refit_reason(self, current: Fit, size: int, sample: PassageSample, watch: bool) -> str | None:
        """Return why the encoder has to be fitted again; None if it has not."""
        if current.size == 0:
            return ASKED_FOR
        if current.id != sourced(self.plugin, current.fit or current.id):
            return "its code has changed"
        if self.damage(current.id):
            return "its files were damaged"
        with self._writing():
            words = self._count_unknown(current, sample)
        if not _SHRINK_LIMIT * current.size < size < _GROWTH_LIMIT * current.size:
            return f"there are {size:,} passages, and it was fitted to {current.size:,}"
        lack = describe_lack(words.total.unknown_share, words.unknown_new, words.new_share, current.unknown)
        return f"it did not know {lack}" if watch and lack is not None else None

    def _count_unknown(self, fit: Fit, sample: PassageSample) -> SampledWords:
        """Return how many words of a sample of the passages a fit does not know, and keep the counts for the next."""
        known = read_counts(self._counts(), fit.id)
        words = sample.count(self.open(fit.id), known or SampledWords(), self._place(fit.id))
        if words != known:
            write_counts(self._counts(), fit.id, words)
        return words

    def unknown_words(self, fit: Fit) -> SampledWords:
        """Return how many words of the passages a fit does not know, as the last sync has counted them in a sample."""
        return read_counts(self._counts(), fit.id) or SampledWords()

    def question_words(self, fit: Fit) -> WordCount:
        """Return how many words of the questions that were asked since the index was opened a fit does not know."""
        encoder = self._opened.get(fit.id)
        return WordCount() if encoder is None else encoder.question_words

    def ask_refit(self) -> None:
        """Make the next `prepare` fit the encoder again. Raises UsageError if it is not fitted to the corpus."""
        if not isinstance(self.plugin, FittedEncoderPlugin):
            raise UsageError(
                f"The encoder {self.name} learns nothing from the documents, so it cannot be fitted again."
            )
        current = self._current()
        if current is not None:
            with self._writing():
                self._point_to(replace(current, size=0))

    def awaits_refit(self) -> bool:
        """Return whether `ask_refit` was called after the last fit."""
        current = self._current()
        return current is not None and current.size == 0

    def _writing(self) -> AbstractContextManager[None]:
        return wrap_write_errors(f"The fit of {self.name} could not be written to {self.folder / 'encoders'}")

    def damage(self, id: str | None) -> str | None:
        """Return what is wrong with the fit `id` or with the pointer file, or None if both are intact."""
        if id is None or not isinstance(self.plugin, FittedEncoderPlugin):
            return None
        pointed = None if self._current() else f"{self._pointer()} is missing or has changed since it was written"
        return durable_files.find_folder_damage(self._place(id)) or pointed

    def building(self) -> CachedEncoder:
        """Return the encoder that parts are built with. Call `prepare` first."""
        current = self._current()
        return self.open(current.id if current else None)

    def fit(self, id: str | None) -> "Fit | None":
        """Return the fit `id` if it is the newest one, else None. Encoders that are not fitted have no fit."""
        current = self._current()
        return current if current and current.id == id else None

    def open(self, id: str | None) -> CachedEncoder:
        """Open the encoder with the fit `id`, which is ignored if the encoder is not fitted.

        Raises MissingPartError if there is no fit, and DamagedError if it is damaged.
        """
        fitted = isinstance(self.plugin, FittedEncoderPlugin)
        if fitted and id is None:
            raise MissingPartError(f"The encoder {self.name} has not been fitted to this corpus. Run: ragindex index")
        key = id if fitted and id else ""
        if key not in self._opened:
            encoder = self._load(key)
            vectors = self.vectors or vector_cache_path(self.folder)
            paid = isinstance(self.plugin, PaidPlugin) and keeps_questions(self.setting.cache)
            questions = self.setting.cache if paid else None
            on_workers = make_worker_encoder(self.plugin, encoder)
            self._opened[key] = CachedEncoder(encoder, vectors, sourced(self.plugin, encoder.id), questions, on_workers)
        return self._opened[key]

    def _load(self, id: str) -> Encoder:
        with suppress(OSError):  # an index that cannot be written is read, and reading caches no vectors
            (self.folder / "caches").mkdir(exist_ok=True)
        if not isinstance(self.plugin, FittedEncoderPlugin):
            return check_opened(self.plugin, self.plugin.open(replace(self.setting, workspace=self.folder)), Encoder)
        wrong = durable_files.find_folder_damage(self._place(id))
        if wrong is not None:
            seed = ["--seed", str(self.seed)] if self.seed else []
            flags = shlex.join(["--encoder", registry.label(self.plugin), *seed])
            raise DamagedError(
                f"The fit of the encoder {self.name}: {wrong}. {durable_files.repair_hint(self.folder)} {flags}"
            )
        return check_opened(self.plugin, self.plugin.load(self._place(id)), Encoder)

    def _place(self, id: str) -> Path:
        return self.folder / "encoders" / id

    def _pointer(self) -> Path:
        return self.folder / "encoders" / f"{canonical.digest(self.name)}.json"

    def _counts(self) -> Path:
        return self._pointer().with_suffix(".words")

    def _point_to(self, fit: Fit) -> None:
        durable_files.write_file(self._pointer(), durable_files.dump_hashed_json(asdict(fit)))

    def _current(self) -> "Fit | None":
        if not isinstance(self.plugin, FittedEncoderPlugin):
            return None
        try:
            value = durable_files.load_hashed_json(self._pointer().read_bytes())
        except FileNotFoundError:
            return None
        return None if value is None else Fit(**value)


def vector_cache_path(folder: Path) -> Path:
    """Return the path of the vector cache of the index in `folder`."""
    return folder / "caches" / "vectors.sqlite"


def keep_fits(folder: Path, ids: Set[str]) -> None:
    """Remove the fits of the index in `folder` that are neither in `ids` nor used by builds."""
    root = folder / "encoders"
    if not root.is_dir():
        return
    pointers = [durable_files.load_hashed_json(pointer.read_bytes()) for pointer in root.glob("*.json")]
    if None in pointers:
        return  # a damaged pointer may name any of them; the next sync that fits rewrites it
    used = {str(pointer["id"]) for pointer in pointers if pointer}
    for path in root.iterdir():
        if path.is_dir() and path.name not in used | ids:
            shutil.rmtree(path, ignore_errors=True)


CALLS = "calls.sqlite"


@dataclass
class Model:
    """An LLM plugin with its settings; the LLM itself is opened on first use. Its calls are cached in the index."""

    folder: Path
    plugin: LLMPlugin
    setting: LLMSettings
    keep_calls: bool = True

    @property
    def name(self) -> str:
        """The label of the LLM, as written in a configuration."""
        assert isinstance(self.plugin, BaseModel)  # noqa: S101  # the registry makes nothing else
        return registry.label(self.plugin)

    @property
    def tokens_counted_by(self) -> str:
        """The model whose tokenizer counts tokens; empty for the rules, whose tokens are estimated."""
        return str(getattr(self.plugin, "model", ""))

    @cached_property
    def language(self) -> LLM:
        """The LLM, opened on first access. Opening sends no request."""
        opened = self.plugin.open(replace(self.setting, cache=self.calls, workspace=self.folder))
        return check_opened(self.plugin, opened, LLM)

    @property
    def calls(self) -> ResponseCache:
        """The cache of LLM calls: the one in `setting` if given, else the index's own."""
        if not isinstance(self.setting.cache, NoCache) or not self.keep_calls:
            return self.setting.cache
        return SQLiteCache(self.folder / CALLS)

    @cached_property
    def id(self) -> str:
        """The LLM's identity, on which its answers depend. Needs no API key and no cache."""
        return code_fingerprint.sourced(self.plugin, self.plugin.open(replace(self.setting, budget=None)).id)

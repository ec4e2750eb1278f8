"""Rerankers: their base class, a local cross-encoder, and the index's LLM."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import Any, ClassVar, Protocol, TypeAlias

import numpy as np
import regex
from pydantic import BaseModel, Field

from ragindex._util.canonical import encodable
from ragindex.corpus import passage_text
from ragindex.encoders.local_models import LocalModelPlugin, load_local_model
from ragindex.english import nearest_texts
from ragindex.errors import UsageError
from ragindex.interfaces import OpenIndex
from ragindex.interfaces.llm import LLM
from ragindex.llm.answer_question import NumberedPassage
from ragindex.llm.output import read_chosen_numbers
from ragindex.llm.tasks import Task
from ragindex.plugins.base import Plugin

TitledText: TypeAlias = tuple[str, str]
"""Title and text of a passage."""
TitledTexts: TypeAlias = Sequence[TitledText]
PlaceScores: TypeAlias = Sequence[tuple[int, float]]
"""Positions of candidates and their scores, as a reranker returned them and not yet validated."""


class PassageScorer(Protocol):
    """An open reranker. Thread-safe."""

    def scores(self, question: str, passages: TitledTexts, bridge: TitledText | None = None) -> PlaceScores:
        """Score passages for a question, or for a question beside the passage `bridge`, which is known already.

        Return pairs of a position in `passages` and a score; higher is better.
        """
        ...


def join_bridge(question: str, bridge: TitledText | None) -> str:
    """Return the query of a model that reads a query and a passage: the question, and the known passage below it."""
    return encodable(question if bridge is None else f"{question}\n{passage_text(*bridge)}")


class Reranker(Plugin):
    """Base class of a reranker's parameters."""

    def tasks(self, *, beside: bool = False) -> tuple[Task[Any], ...]:
        """Return the tasks that the reranker gives the index's LLM; `beside`: with a bridge. Default: none."""
        return ()

    @abstractmethod
    def open(self, index: OpenIndex) -> PassageScorer:
        """Open the reranker. Raises UsageError if something that it needs is missing."""


# ---------------------------------------------------------------- a cross-encoder


class CrossEncoder(LocalModelPlugin, Reranker):
    """A cross-encoder of sentence-transformers, from a folder or by its name on the Hugging Face hub.

    It reads question and passage together and returns one number: the raw output of the model, before any
    sigmoid. `revision` is the hash of the files in a folder, computed if it is not given.
    """

    version: ClassVar[int] = 1
    batch_size: int = Field(default=32, ge=1, description="Pairs scored at once.")

    def open(self, index: OpenIndex) -> PassageScorer:
        """Return a scorer with the model, which is loaded once per process."""
        return CrossEncoding(_load_cross_encoder(self.model, self.revision, self.device), self.batch_size, self.model)


@dataclass(frozen=True, slots=True)
class CrossEncoding:
    """The open CrossEncoder. One thread computes at a time, because tokenizers cannot be shared."""

    model: Any
    batch_size: int
    name: str
    lock: Lock = field(default_factory=Lock)

    def scores(self, question: str, passages: TitledTexts, bridge: TitledText | None = None) -> PlaceScores:
        """Score every passage; equal texts are read once, so their scores are equal."""
        import torch

        texts = [encodable(passage_text(title, text)) for title, text in passages]
        distinct = list(dict.fromkeys(texts))
        query = join_bridge(question, bridge)
        with self.lock:
            scored = self.model.predict(
                [[query, text] for text in distinct],
                batch_size=self.batch_size,
                activation_fn=torch.nn.Identity(),
                show_progress_bar=False,
            )
        if scored.shape != (len(distinct),) or not np.isfinite(scored).any():
            raise UsageError(
                f"The cross-encoder {self.name!r} must give one number a passage. Got an array of the shape "
                f"{scored.shape} with {int(np.isfinite(scored).sum())} numbers. Name another model."
            )
        by_text = dict(zip(distinct, scored.tolist(), strict=True))
        return [(place, by_text[text]) for place, text in enumerate(texts)]


@lru_cache(maxsize=1)
def _load_cross_encoder(model: str, revision: str, device: str) -> Any:
    return load_local_model(
        "CrossEncoder", model, revision, f"rerank(reranker=cross-encoder(model={model}))", device=device
    )


# ---------------------------------------------------------------- the language model


_PROMPTS = Path(__file__).with_name("prompts")
_CHOSEN_BY_RULE = 2
_LAST_SPACE = regex.compile(r"(?<=\S)\s+\S*+$")


class PassageChoice(BaseModel):
    """The numbers of the helpful passages, most helpful first."""

    passages: list[int]


def choose_by_rule(inputs: Mapping[str, Any]) -> PassageChoice:
    """Return the two passages that share most with the question, and with the known passage if there is one.

    Shared words carry too little information to order more than two.
    """
    numbers: dict[str, list[int]] = {}
    for passage in inputs["passages"]:
        numbers.setdefault(passage_text(passage.title, passage.text), []).append(passage.number)
    known = inputs.get("bridge")
    query = join_bridge(inputs["question"], None if known is None else (known.title, known.text))
    nearest = nearest_texts(query, list(numbers), _CHOSEN_BY_RULE, inputs["language"])
    return PassageChoice(passages=[number for text in nearest for number in numbers[text]])


def read_choice(text: str) -> PassageChoice:
    """Return the numbers in a plain text, in order. Raises ValueError if it has none and does not say `none`."""
    return PassageChoice(passages=read_chosen_numbers(text, "passage"))


RERANK = Task(
    name="rerank",
    version=1,
    prompt=_PROMPTS / "rerank.jinja",
    output=PassageChoice,
    rule=choose_by_rule,
    max_tokens=512,
    read=read_choice,
)
RERANK_BESIDE = replace(RERANK, name="rerank-beside", prompt=_PROMPTS / "rerank_bridge.jinja")


class LanguageModel(Reranker):
    """The index's LLM as a reranker: one call per question returns the order of all candidates.

    The LLM sees the first `characters` of each passage, whole words. Without an LLM, a rule names the two passages that
    share most with the question, which is only a stand-in.
    """

    version: ClassVar[int] = 1
    characters: int = Field(default=2_000, ge=1, description="Characters of each passage that the LLM is shown.")

    def tasks(self, *, beside: bool = False) -> tuple[Task[Any], ...]:
        """Return the one task."""
        return (RERANK_BESIDE if beside else RERANK,)

    def open(self, index: OpenIndex) -> PassageScorer:
        """Return a scorer. No call is made yet."""
        return Listing(index.llm, index.language, self.characters)


@dataclass(frozen=True, slots=True)
class Listing:
    """The open LanguageModel."""

    llm: LLM
    language: str
    characters: int

    def scores(self, question: str, passages: TitledTexts, bridge: TitledText | None = None) -> PlaceScores:
        """Score the passages that the LLM names: n points for the first of n passages, then one point less for each.

        Raises what `LLM.run` raises.
        """
        shown = [
            NumberedPassage(number, "", title, _shorten(text, self.characters))
            for number, (title, text) in enumerate(passages, start=1)
        ]
        inputs = {"question": question, "passages": shown, "language": self.language}
        if bridge is None:
            chosen = self.llm.run(RERANK, inputs)
        else:
            title, text = bridge
            known = NumberedPassage(0, "", title, _shorten(text, self.characters))
            chosen = self.llm.run(RERANK_BESIDE, {**inputs, "bridge": known})
        return [(number - 1, float(len(passages) - rank)) for rank, number in enumerate(chosen.passages)]


def _shorten(text: str, characters: int) -> str:
    """Return the beginning of a text, up to the last white space within so many characters where there is one."""
    if len(text) <= characters:
        return text
    return text[:characters] if text[characters].isspace() else _LAST_SPACE.split(text[:characters])[0]

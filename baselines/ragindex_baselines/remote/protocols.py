"""What is sent to a service and what it sends back: a small protocol of our own, and OpenAI's vector-store search."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ragindex.canonical import encodable
from ragindex.http import Trouble, TroubleError

_LONGEST_ID, _LONGEST_TITLE, _LONGEST_TEXT = 2_000, 500, 50_000  # characters; more is cut


@dataclass(frozen=True, slots=True)
class ServiceHit:
    """A hit as a service sends it.

    `id` is its own id. `documents` are ways of naming its documents: the first one that names a known one counts.
    """

    id: str
    documents: tuple[tuple[str, ...], ...]
    title: str
    text: str
    score: float | None


@dataclass(frozen=True, slots=True)
class Protocol:
    """How questions and hits are written. `hits` is the field of an answer that holds the hits.

    At most `most` hits may be asked for. With `by_file_name`, hits name documents by the last part of a path, too.
    """

    write: Callable[[str, int], dict[str, Any]]
    hits: str
    read_hit: Callable[[Mapping[str, Any]], ServiceHit]
    most: int
    by_file_name: bool = False

    def read(self, answer: Any, k: int) -> list[ServiceHit]:
        """Return the first `k` hits of an answer. Raises TroubleError if they are not as the protocol has them."""
        found = answer.get(self.hits) if isinstance(answer, Mapping) else None
        if not isinstance(found, list) or not all(isinstance(one, Mapping) for one in found):
            raise TroubleError(Trouble(f"expected an object with a list {self.hits!r} of objects", 200))
        return [self.read_hit(one) for one in found[:k]]


def _read_plain(one: Mapping[str, Any]) -> ServiceHit:
    given = one.get("doc_ids")
    documents = tuple(filter(None, map(_read_id, given))) if isinstance(given, list) else ()
    id = _read_id(one.get("id"))
    if not id:
        raise TroubleError(Trouble("expected an 'id' in every hit", 200))
    title, text = _read_text(one.get("title"), _LONGEST_TITLE), _read_text(one.get("text"), _LONGEST_TEXT)
    return ServiceHit(id, (documents, (id,)), title, text, _read_score(one))


def _read_openai(one: Mapping[str, Any]) -> ServiceHit:
    content = one.get("content")
    texts = [part.get("text") for part in content if isinstance(part, Mapping)] if isinstance(content, list) else []
    text = "\n".join(text for text in texts if isinstance(text, str))
    file, name = _read_id(one.get("file_id")), _read_id(one.get("filename"))
    if not file:
        raise TroubleError(Trouble("expected a 'file_id' in every result", 200))
    return ServiceHit(file, ((file,), (name,)), name[:_LONGEST_TITLE], text[:_LONGEST_TEXT], _read_score(one))


PROTOCOLS: Mapping[str, Protocol] = {
    "plain": Protocol(lambda text, k: {"query": text, "k": k}, "hits", _read_plain, 1_000),
    "openai": Protocol(
        lambda text, k: {"query": text, "max_num_results": k}, "data", _read_openai, 50, by_file_name=True
    ),
}


def _read_id(value: Any) -> str:
    """Return an id, which may also be an int; "" if there is none."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        return ""
    return encodable(str(value))[:_LONGEST_ID]


def _read_text(value: Any, longest: int) -> str:
    return encodable(value[:longest]).replace("\0", "") if isinstance(value, str) else ""


def _read_score(one: Mapping[str, Any]) -> float | None:
    score = one.get("score")
    known = isinstance(score, int | float) and not isinstance(score, bool) and math.isfinite(score)
    return float(score) if known else None  # type: ignore[arg-type]  # it is a number

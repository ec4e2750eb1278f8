"""Calls that were paid: what a history keeps of them in a workspace, hands on, loses and takes back."""

import hashlib
import json
import shutil
from pathlib import Path

from histories.left import BrokenError
from ragindex.index.index import Index
from ragindex.index.models import CALLS
from ragindex.llm.cache import CachedResponse, CallSource, SQLiteCache, export_calls, import_calls

CALLS_DRAWN = range(6)
_ORIGIN = CallSource("extract", 1, "openai", "a-model", "https://models.example/v1")


def pay(space: Index, call: int) -> None:
    """Keep the answer of one call."""
    cache = SQLiteCache(space.folder / CALLS)
    cache.put(_key(call), _ORIGIN, _answer(call))
    cache.close()


def hand_on(space: Index, file: str) -> None:
    """Write all answers to the file."""
    cache = SQLiteCache(space.folder / CALLS)
    export_calls(cache, Path(file))
    cache.close()


def take_back(space: Index, file: str) -> None:
    """Add those of the file."""
    cache = SQLiteCache(space.folder / CALLS)
    import_calls(cache, Path(file))
    cache.close()


def lose(folder: Path) -> None:
    """Somebody deletes the file."""
    for path in folder.glob(f"{CALLS}*"):
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def list_kept_calls(folder: Path) -> frozenset[int]:
    """The calls whose answers are kept. Raises BrokenError where one is another than was paid for."""
    if not (folder / CALLS).exists():
        return frozenset()
    cache = SQLiteCache(folder / CALLS)
    answers = {call: cache.get(_key(call)) for call in CALLS_DRAWN}
    cache.close()
    for call, answer in answers.items():
        if answer not in (None, _answer(call)):
            raise BrokenError("paid", f"the answer of call {call} is {answer}")
    return frozenset(call for call, answer in answers.items() if answer is not None)


def handed_on(file: Path) -> frozenset[int]:
    """The calls of an export. Raises BrokenError where it is not whole."""
    if not file.exists():
        return frozenset()
    try:
        keys = {json.loads(line)["key"] for line in file.read_text(encoding="utf-8").splitlines()}
    except ValueError as error:
        raise BrokenError("paid", f"the export cannot be read: {error}") from error
    return frozenset(call for call in CALLS_DRAWN if _key(call) in keys)


def _key(call: int) -> str:
    return hashlib.sha256(f"call {call}".encode()).hexdigest()


def _answer(call: int) -> CachedResponse:
    return CachedResponse(
        text=json.dumps({"answer": call}),
        finish="stop",
        refusal="",
        structure="schema",
        input_tokens=10 * call,
        cached_tokens=0,
        output_tokens=call,
        estimated=False,
        money=None if call % 3 == 0 else call / 1000,
        seconds=0.5,
        at=1_700_000_000.0,
    )

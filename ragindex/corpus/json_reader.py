"""Reading JSON and JSON Lines so that every fault is named with file and line."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from ragindex.errors import DataError

_GLANCE = 4 * 2**20  # bytes of an array that are looked at for its first item
_In = TypeVar("_In")
_Out = TypeVar("_Out")


@dataclass(slots=True)
class Problems:
    """What to do with an item that cannot be read: raise, or, with `skip_bad`, leave it out and say so."""

    skip_bad: bool
    sentences: list[str] = field(default_factory=list)

    def note(self, error: DataError) -> None:
        """Raises the error, or records it as the sentence that says what was left out."""
        if not self.skip_bad:
            raise error
        self.sentences.append(str(error))

    def each(self, function: Callable[[_In], _Out], items: Iterable[_In]) -> Iterator[_Out]:
        """`function` of every item that it can read."""
        for item in items:
            try:
                result = function(item)
            except DataError as error:
                self.note(error)
            else:
                yield result


@dataclass(frozen=True, slots=True)
class Item:
    """One JSON object and where it stands: `line` of a JSON Lines file, or `number` (from 1) in an array."""

    fields: Mapping[str, Any]
    path: Path
    line: int | None = None
    number: int | None = None

    def error(self, expected: str, found: str) -> DataError:
        """The error that names this item."""
        suffix = "" if self.number is None else f" in item {self.number}"
        return DataError(expected, found + suffix, path=self.path, line=self.line)

    def within(self, value: Any, what: str) -> "Item":
        """An object inside this one, such as a paragraph of a question."""
        if not isinstance(value, Mapping):
            raise self.error(f"{what} to be an object", format_value(value))
        return Item(value, self.path, self.line, self.number)

    def array(self, key: str) -> list[Any]:
        """The array under `key`."""
        value = self.fields.get(key)
        if not isinstance(value, list):
            raise self.error(f"an array under {key!r}", self.under(key))
        return value

    def text(self, *keys: str, default: str | None = None) -> str:
        """The string under the first of `keys` that is there; null counts as not there."""
        for key in keys:
            if self.fields.get(key) is not None:
                return self.unicode(self.fields[key], f"a string under {key!r}")
        if default is None:
            raise self.error(f"a string under {' or '.join(map(repr, keys))}", self.under(keys[0]))
        return default

    def unicode(self, value: Any, expected: str) -> str:
        """`value`, which must be a string that UTF-8 can hold."""
        if not isinstance(value, str):
            raise self.error(expected, format_value(value))
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise self.error(f"{expected} that UTF-8 can hold", f"a lone surrogate in {format_value(value)}") from error
        return value

    def under(self, key: str) -> str:
        """What stands under `key`, for an error."""
        if key in self.fields:
            return format_value(self.fields[key])
        return f"only the keys {', '.join(map(repr, self.fields))}" if self.fields else "an empty object"


def format_value(value: Any) -> str:
    """A value as it stands in an error: JSON, shortened."""
    text = json.dumps(value, default=repr, ensure_ascii=False).encode("utf-8", "backslashreplace").decode()
    return text if len(text) <= 80 else f"{text[:77]}…"


def read_bytes(path: Path) -> bytes:
    """The bytes of a file. Raises DataError where it cannot be opened."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise unreadable_error(path, error) from error


def unreadable_error(path: Path, error: OSError) -> DataError:
    """The error for a file that the operating system does not give."""
    return DataError("a file that can be read", error.strerror or type(error).__name__, path=path)


def decode_utf8(raw: bytes, path: Path, line: int = 1) -> str:
    """UTF-8 text, without the byte order mark; `line` is the line that the bytes begin at."""
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        at = line + raw.count(b"\n", 0, error.start)
        found = f"the byte 0x{raw[error.start]:02x}"
        if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
            found = "UTF-16"
        raise DataError("text in UTF-8", found, path=path, line=at) from error


def read_json_value(path: Path) -> Any:
    """The value that a JSON file holds."""
    return _parse(decode_utf8(read_bytes(path), path), path, None)


def read_json_items(path: Path, problems: Problems) -> Iterator[Item]:
    """The objects of a JSON array, or of a JSON Lines file (`.jsonl`), whose blank lines are passed over."""
    if path.suffix.lower() == ".jsonl":
        return read_json_lines(path, problems)
    return check_array_items(read_json_value(path), path, problems)


def check_array_items(value: Any, path: Path, problems: Problems) -> Iterator[Item]:
    """The objects of a JSON value that should be an array of objects."""
    if not isinstance(value, list):
        raise DataError("an array of objects", format_value(value), path=path)
    return problems.each(_as_item, ((item, Item({}, path, None, number)) for number, item in enumerate(value, 1)))


def _as_item(found: tuple[Any, Item]) -> Item:
    value, place = found
    return place.within(value, "an item")


def read_json_lines(path: Path, problems: Problems) -> Iterator[Item]:
    """The objects of a JSON Lines file, whatever its name."""
    return problems.each(_as_item, _json_lines(path, problems))


def _json_lines(path: Path, problems: Problems) -> Iterator[tuple[Any, Item]]:
    try:
        with path.open("rb") as file:
            lines = ((Item({}, path, number), raw) for number, raw in enumerate(file, 1) if raw.strip())
            yield from problems.each(_parse_line, lines)
    except OSError as error:
        raise unreadable_error(path, error) from error


def _parse_line(found: tuple[Item, bytes]) -> tuple[Any, Item]:
    place, raw = found
    return _parse(decode_utf8(raw.rstrip(b"\r\n"), place.path, place.line or 1), place.path, place.line), place


def read_first_item(path: Path) -> Mapping[str, Any]:
    """The first object of a `.json` array or a `.jsonl` file, an empty one where it starts otherwise."""
    if path.suffix.lower() == ".jsonl":
        item = next(read_json_lines(path, Problems(skip_bad=True)), None)
        return {} if item is None else item.fields
    value = _glance(path)
    return value if isinstance(value, Mapping) else {}


def _glance(path: Path) -> Any:
    try:
        with path.open("rb") as file:
            start = file.read(_GLANCE).decode("utf-8-sig", "ignore").lstrip()
    except OSError as error:
        raise unreadable_error(path, error) from error
    try:
        return json.JSONDecoder().raw_decode(start.removeprefix("[").lstrip())[0] if start[:1] == "[" else None
    except (ValueError, RecursionError):
        whole = read_json_value(path)
        return whole[0] if isinstance(whole, list) and whole else None


def _parse(text: str, path: Path, line: int | None) -> Any:
    try:
        return json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_unique)
    except json.JSONDecodeError as error:
        rest = text[error.pos : error.pos + 30]
        found = f"{format_value(rest) if rest else 'the end'} at character {error.colno} ({error.msg})"
        raise DataError("JSON", found, path=path, line=error.lineno if line is None else line) from error
    except (ValueError, RecursionError) as error:
        raise DataError("JSON", str(error), path=path, line=line) from error


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name}, which is not a JSON number")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"the key {next(key for key in keys if keys.count(key) > 1)!r} twice in one object")
    return found

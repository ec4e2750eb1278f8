"""A reader for JSON and JSON Lines whose errors name file and line."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from ragindex._util.durable_files import open_regular
from ragindex._util.text import describe_near, find_near_paths
from ragindex.errors import DataError

_NAMED_ERRORS = 9  # beside the first one
_GLANCE_BYTES = 4 * 2**20  # bytes of an array that are read to find its first item
_In = TypeVar("_In")
_Out = TypeVar("_Out")


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A file or an item of it that was left out: `place` and `reason` are those of the DataError.

    `kind` is what was expected, which is the same for files that are left out for the same reason.
    """

    path: str
    place: str
    reason: str
    kind: str = ""

    def __str__(self) -> str:
        return f"{self.place}: {self.reason}" if self.place else self.reason


def left_out_by(error: DataError) -> LeftOut:
    """Return what `error` makes one leave out."""
    return LeftOut("" if error.path is None else str(error.path), error.place, error.reason, error.expected)


@dataclass(slots=True)
class Problems:
    """A handler for items that cannot be read: raise the error, or, with `skip_bad`, skip the item and record why."""

    skip_bad: bool
    errors: list[DataError] = field(default_factory=list)

    @property
    def left_out(self) -> tuple[LeftOut, ...]:
        """The items that were skipped."""
        return tuple(map(left_out_by, self.errors))

    def note(self, error: DataError) -> None:
        """Raise the error, or, with `skip_bad`, record it."""
        if not self.skip_bad:
            raise error
        self.errors.append(error)

    def each(self, function: Callable[[_In], _Out], items: Iterable[_In]) -> Iterator[_Out]:
        """Yield `function(item)` for each item; skip or raise a DataError as `note` does."""
        for item in items:
            try:
                result = function(item)
            except DataError as error:
                self.note(error)
            else:
                yield result

    def all(self, function: Callable[[_In], _Out], items: Iterable[_In]) -> Iterator[_Out]:
        """Yield as `each` does, but raise after the last item, so that one error names all that cannot be read.

        For files that people write and correct: they see every mistake at once.
        """
        gathered = Problems(skip_bad=True)
        yield from gathered.each(function, items)
        if gathered.errors and not self.skip_bad:
            raise _combine(gathered.errors)
        self.errors += gathered.errors


def _combine(errors: Sequence[DataError]) -> DataError:
    """Return the first error, with the positions and reasons of the others in its message."""
    first, *others = errors
    if not others:
        return first
    reasons = [
        f"{'' if error.line is None else f'line {error.line}: '}"
        f"{'' if error.expected == first.expected else f'expected {error.expected}; '}found {error.found}"
        for error in others[:_NAMED_ERRORS]
    ]
    more = f"; and {len(others) - _NAMED_ERRORS:,} more" if len(others) > _NAMED_ERRORS else ""
    listed = f"{first.found}. {len(others):,} more cannot be read: {'; '.join(reasons)}{more}"
    return DataError(first.expected, listed, path=first.path, line=first.line)


@dataclass(frozen=True, slots=True)
class Item:
    """A JSON object and its position: `line` of a JSON Lines file, or `number` (from 1) in an array."""

    fields: Mapping[str, Any]
    path: Path
    line: int | None = None
    number: int | None = None

    def error(self, expected: str, found: str) -> DataError:
        """Return a DataError that names the position of this item."""
        suffix = "" if self.number is None else f" in item {self.number}"
        return DataError(expected, found + suffix, path=self.path, line=self.line)

    def within(self, value: Any, what: str) -> "Item":
        """Return an object inside this one, such as a paragraph, as an Item. Raises DataError if it is no object."""
        if not isinstance(value, Mapping):
            raise self.error(f"{what} to be an object", format_value(value))
        return Item(value, self.path, self.line, self.number)

    def array(self, key: str) -> list[Any]:
        """Return the array under `key`. Raises DataError if it is missing or not an array."""
        value = self.fields.get(key)
        if not isinstance(value, list):
            raise self.error(f"an array under {key!r}", self.under(key))
        return value

    def text(self, *keys: str, default: str | None = None) -> str:
        """Return the string under the first of `keys` that is not missing or null, else `default`. Raises DataError."""
        for key in keys:
            if self.fields.get(key) is not None:
                return self.unicode(self.fields[key], f"a string under {key!r}")
        if default is None:
            raise self.error(f"a string under {' or '.join(map(repr, keys))}", self.under(keys[0]))
        return default

    def unicode(self, value: Any, expected: str) -> str:
        """Return `value`. Raises DataError unless it is a string that UTF-8 can encode."""
        if not isinstance(value, str):
            raise self.error(expected, format_value(value))
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise self.error(f"{expected} that UTF-8 can hold", f"a lone surrogate in {format_value(value)}") from error
        return value

    def under(self, key: str) -> str:
        """Describe the value under `key`, for an error message."""
        if key in self.fields:
            return format_value(self.fields[key])
        return f"only the keys {', '.join(map(repr, self.fields))}" if self.fields else "an empty object"


def format_value(value: Any) -> str:
    """Format a value for an error message: JSON of at most 80 characters."""
    text = json.dumps(value, default=repr, ensure_ascii=False).encode("utf-8", "backslashreplace").decode()
    return text if len(text) <= 80 else f"{text[:77]}…"


def read_bytes(path: Path) -> bytes:
    """Return the bytes of a file. Raises DataError if it cannot be read."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise unreadable_error(path, error) from error


def read_start(path: Path, most_bytes: int) -> bytes:
    """Return the first bytes of a file. Raises DataError if it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(most_bytes)
    except OSError as error:
        raise unreadable_error(path, error) from error


def read_bounded(path: Path, most_bytes: int) -> bytes:
    """Return the bytes of a regular file, and no link. Raises DataError if it cannot be read, or turns out longer."""
    try:
        with open_regular(path) as file:
            content = file.read(most_bytes + 1)
    except OSError as error:
        raise unreadable_error(path, error) from error
    if len(content) > most_bytes:
        raise DataError(f"a file of at most {most_bytes / 1e6:g} MB", "one that grew while it was read", path=path)
    return content


def unreadable_error(path: Path, error: OSError) -> DataError:
    """Return the DataError for a file that the operating system cannot read."""
    near = describe_near(find_near_paths(path)) if isinstance(error, FileNotFoundError) else ""
    reason = error.strerror or type(error).__name__
    return DataError("a file that can be read", f"{reason} ({near})" if near else reason, path=path)


def decode_utf8(raw: bytes, path: Path, line: int = 1) -> str:
    """Decode UTF-8 without its byte order mark; `line` is the first line of the bytes in the file. Raises DataError."""
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        at = line + raw.count(b"\n", 0, error.start)
        got = f"the byte 0x{raw[error.start]:02x}"
        if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
            got = "UTF-16"
        raise DataError("text in UTF-8", got, path=path, line=at) from error


def read_json_value(path: Path) -> Any:
    """Return the value of a JSON file. Raises DataError."""
    return parse_json(decode_utf8(read_bytes(path), path), path, None)


def read_json_items(path: Path, problems: Problems) -> Iterator[Item]:
    """Yield the objects of a JSON array, or of a JSON Lines file (`.jsonl`), skipping blank lines."""
    if path.suffix.lower() == ".jsonl":
        return read_json_lines(path, problems)
    return check_array_items(read_json_value(path), path, problems)


def check_array_items(value: Any, path: Path, problems: Problems) -> Iterator[Item]:
    """Return the objects of a JSON value. Raises DataError if it is not an array of objects."""
    if not isinstance(value, list):
        raise DataError("an array of objects", format_value(value), path=path)
    return problems.each(_as_item, ((item, Item({}, path, None, number)) for number, item in enumerate(value, 1)))


def _as_item(value_and_place: tuple[Any, Item]) -> Item:
    value, place = value_and_place
    return place.within(value, "an item")


def read_json_lines(path: Path, problems: Problems) -> Iterator[Item]:
    """Yield the objects of a JSON Lines file with any suffix."""
    try:
        with path.open("rb") as file:
            yield from parse_json_lines(file, path, problems)
    except OSError as error:
        raise unreadable_error(path, error) from error


def parse_json_lines(lines: Iterable[bytes], path: Path, problems: Problems) -> Iterator[Item]:
    """Yield the objects of lines of JSON; `path` is for messages."""

    def parse_line(numbered: tuple[int, bytes]) -> tuple[Any, Item]:
        number, raw = numbered
        return parse_json(decode_utf8(raw.rstrip(b"\r\n"), path, number), path, number), Item({}, path, number)

    numbered = ((number, raw) for number, raw in enumerate(lines, 1) if raw.strip())
    return problems.each(_as_item, problems.each(parse_line, numbered))


def read_first_item(path: Path) -> Mapping[str, Any]:
    """Return the first object of a `.json` array or `.jsonl` file; an empty mapping if there is none."""
    if path.suffix.lower() == ".jsonl":
        item = next(read_json_lines(path, Problems(skip_bad=True)), None)
        return {} if item is None else item.fields
    start = read_start(path, _GLANCE_BYTES).decode("utf-8-sig", "ignore").lstrip()
    try:
        value = json.JSONDecoder().raw_decode(start.removeprefix("[").lstrip())[0] if start[:1] == "[" else None
    except (ValueError, RecursionError):
        items = read_json_value(path)
        value = items[0] if isinstance(items, list) and items else None
    return value if isinstance(value, Mapping) else {}


def parse_json(text: str, path: Path, line: int | None = None) -> Any:
    """Return the value of JSON text; `line` is that of the text in a file of lines. Raises DataError."""
    try:
        return json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_build_object)
    except json.JSONDecodeError as error:
        rest = text[error.pos : error.pos + 30]
        got = f"{format_value(rest) if rest else 'the end'} at character {error.colno} ({error.msg})"
        raise DataError("JSON", got, path=path, line=error.lineno if line is None else line) from error
    except (ValueError, RecursionError) as error:
        raise DataError("JSON", str(error), path=path, line=line) from error


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name}, which is not a JSON number")


def _build_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"the key {next(key for key in keys if keys.count(key) > 1)!r} twice in one object")
    return fields

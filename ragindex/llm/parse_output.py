"""Parser of LLM output: strict JSON first, then increasingly tolerant readings.

The text is never executed, and the work is bounded for any text.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Generic, NamedTuple, TypeVar, get_args, get_origin

import regex
from pydantic import BaseModel, ValidationError

from ragindex.canonical import encodable
from ragindex.llm.coerce import reshape
from ragindex.llm.repair_json import normalize_brackets, repair_text
from ragindex.llm.thoughts import drop_thoughts

ParsedOutput = TypeVar("ParsedOutput", bound=BaseModel)
_MOST_OPENINGS = 50
_MOST_PROBLEMS = 3
_SURROGATE_PAIR = regex.compile("[\ud800-\udbff][\udc00-\udfff]")
_FENCE = regex.compile(r"^[ \t]*```[^\n]*\n(.*?)(?:^[ \t]*```|\Z)", regex.MULTILINE | regex.DOTALL)
_OPENING = regex.compile(r"""\{|(?:^|:|```\w*)[ \t]*\[|^[ \t]*\((?=\s*["'(\[])""", regex.MULTILINE)

_TOKEN = regex.compile(r"""\"(?:[^"\\]|\\.)*+(?:(?P<closing>")|\Z)|[\[\]{}]""", regex.DOTALL)
_CLOSING = {"[": "]", "{": "}"}
_NEXT_VALUE = regex.compile(r"\s*,\s*[\[{]")
_FENCE_MARK = "```"
_WORDS = regex.compile(rf"\p{{L}}|{_FENCE_MARK}")  # between two answers; digits and bullets number the parts of one
_OPEN_KEY = regex.compile(r"""\{\s*["']""")
_SCALARS = (str, int, float, bool)


class UnusableError(Exception):
    """An answer cannot be used. `kind` is that of `LLMError`."""

    def __init__(self, kind: str, reason: str) -> None:
        super().__init__(reason)
        self.kind, self.reason = kind, reason


class Reading(NamedTuple, Generic[ParsedOutput]):
    """The output in a text, how it was read (see `read_json`), and the number of earlier answers in the same text."""

    output: ParsedOutput
    stage: str
    drafts: int = 0


def read_json(text: str, output: type[ParsedOutput], tolerant: bool = True) -> Reading[ParsedOutput]:
    """Parse the output in a text. Only `strict` is tried unless `tolerant`.

    `strict`: the text is valid JSON of the output type. `found`: JSON inside code fences, prose or thoughts, or split
    into consecutive objects. `repaired`: broken JSON. `reshaped`: JSON of another known form (see
    `ragindex.llm.coerce`). Of several answers, the last complete one counts alone. Raises UnusableError if no reading
    fits the output type, or if the rest is missing whatever the server says: the text ends within a list, before a
    field of an object that is not closed, or within a further answer.
    """
    try:
        decoded = _decoder.decode(text)
        return Reading(_validate(decoded, output), "strict")
    except (_NotFittingError, ValueError, RecursionError) as error:
        reason = str(error)
        written = decoded if isinstance(error, _NotFittingError) and isinstance(decoded, str) else None
    if not tolerant:
        raise UnusableError("malformed", reason)
    if "[" in _find_unclosed(_extract_body(text)[1]):
        raise UnusableError("truncated", "it ends within a list")
    before, body, after = _extract_body(text if written is None else written)
    if _ends_in_another(body, output):
        raise UnusableError("truncated", "it ends within another answer")
    answers = [*_list_objects(before, output), *_split_answers(body, output), *_list_objects(after, output)]
    last, drafts = _choose_answer(answers, output)
    if last is None:
        return Reading(*_read_answer(body, written, output, reason), drafts)
    return Reading(*_read_answer(last, None, output, reason), drafts)


def _read_answer(body: str, written: str | None, output: type[ParsedOutput], reason: str) -> tuple[ParsedOutput, str]:
    """Read one answer. Raises UnusableError, with `reason` if there is no better one."""
    is_open = bool(_find_unclosed(body))
    for value, stage in _yield_readings(body, written, output):
        try:
            read = _validate(value, output)
        except _NotFittingError as error:
            reason = reason if stage == "reshaped" else str(error)  # about the model's own text, not a reshaped form
            continue
        if not is_open or read.model_fields_set == output.model_fields.keys():
            return read, stage
        missing = ", ".join(name for name in output.model_fields if name not in read.model_fields_set)
        raise UnusableError("truncated", f"it ends before {missing}")
    raise UnusableError("malformed", reason)


# ---------------------------------------------------------------- several answers in one text


def _choose_answer(answers: list[str], output: type[BaseModel]) -> tuple[str | None, int]:
    """Return the last of several answers that fits, None if there is none or no other, and the number before it."""
    fitting = [answer for answer in answers if _is_answer(answer, output)] if len(answers) > 1 else []
    return (fitting[-1], len(fitting) - 1) if fitting else (None, 0)


def _list_objects(outside: str, output: type[BaseModel]) -> list[str]:
    """Return the answers outside of code fences; lists there are quotations more often than answers."""
    return [text for text in _split_answers(outside, output) if text.startswith("{") and _is_answer(text, output)]


def _ends_in_another(body: str, output: type[BaseModel]) -> bool:
    """Return whether a text with JSON goes on, after words, with an object that is cut before its first field."""
    *others, last = _split_blocks(body) or [""]
    return bool(others and _OPEN_KEY.match(last) and _find_unclosed(last)) and not _is_answer(last, output)


def _is_answer(text: str, output: type[BaseModel]) -> bool:
    """Return whether a text reads as an answer, or as one that is cut."""
    try:
        _read_answer(text, None, output, "")
    except UnusableError as error:
        return error.kind == "truncated"
    return True


def _split_answers(body: str, output: type[BaseModel]) -> list[str]:
    """Return the answers in a text, in order. Another one begins where a field of the output comes again after words.

    Objects that have no field in common are parts of one answer, and so are those that have none of the output's: they
    are items of its list.
    """
    blocks = _split_blocks(body)
    if len(blocks) < 2:
        return blocks
    answers, named = list[str](), set[str]()
    for block in reversed(blocks):
        fields = _name_fields(block, output)
        if answers and not fields & named:
            answers[-1] = f"{block}\n{answers[-1]}"
        else:
            answers.append(block)
            named = set()
        named |= fields
    return answers[::-1]


def _split_blocks(body: str) -> list[str]:
    """Return the last blocks of JSON, valid or broken, with words or fences between them."""
    blocks, start, end = list[str](), -1, 0
    while (opening := (start >= 0 and _NEXT_VALUE.match(body, end)) or _OPENING.search(body, end)) is not None:
        at = opening.end() - 1
        if start >= 0 and _WORDS.search(body, end, at):
            blocks.append(body[start:end])
            start = -1
        start, end = at if start < 0 else start, _find_end(body, at)
    if start >= 0:
        blocks.append(body[start:end])
    return blocks[-_MOST_OPENINGS:]


def _find_end(body: str, start: int) -> int:
    """Return the end of the JSON that begins at a bracket: of a tuple its line's, of an open bracket the text's."""
    if body[start] == "(":
        newline = body.find("\n", start)
        return len(body) if newline < 0 else newline
    depth = 0
    for match in _TOKEN.finditer(body, start):
        depth += (match.group() in _CLOSING) - (match.group() in _CLOSING.values())
        if depth == 0:
            return match.end()
    return len(body)


def _name_fields(block: str, output: type[BaseModel]) -> set[str]:
    """Return the fields of the output that a block has values for; none if it is a single item of a list."""
    values, whole = _find_values(block)
    if not whole:
        values = next(filter(None, _yield_repairs(block)), values)
    only = values[0] if len(values) == 1 else None
    if isinstance(only, list) and not _has_scalars(output):
        flat = not any(isinstance(item, list | Mapping) for item in only)
        if flat or (block.startswith("(") and "\n" not in block):
            return set()
    shapes = (reshape(value, output) for value in _list_candidates(values))
    keys = {key for shape in shapes if isinstance(shape, Mapping) for key in shape}
    return keys & {info.alias or name for name, info in output.model_fields.items()}


def _has_scalars(output: type[BaseModel]) -> bool:
    """Return whether an output has a list of texts or numbers, which a flat list may be."""
    kinds = (info.annotation for info in output.model_fields.values())
    return any(get_origin(kind) is list and get_args(kind)[0] in _SCALARS for kind in kinds)


# ---------------------------------------------------------------- from strict to tolerant


def _yield_readings(body: str, written: str | None, output: type[BaseModel]) -> Iterator[tuple[Any, str]]:
    """Yield possible readings of the text, best first. `written` is the content if the whole text was a JSON string."""
    found, whole = _find_values(body)
    if whole:  # otherwise what was found may be a fragment of broken JSON
        yield from _yield_forms(found, "found", output)
    for again in _yield_repairs(body):
        yield from _yield_forms(again, "repaired", output)
    if not whole:
        yield from _yield_forms(found, "found", output)
    if written is not None:
        yield reshape(written, output), "reshaped"


def _yield_forms(values: list[Any], stage: str, output: type[BaseModel]) -> Iterator[tuple[Any, str]]:
    for value in _list_candidates(values):
        yield value, stage
        yield reshape(value, output), "reshaped"


def _yield_repairs(body: str) -> Iterator[list[Any]]:
    """Yield the values of the text with normalized brackets if all of them parse, then those of the repaired text.

    If only closing brackets are missing, they are added first.
    """
    found, whole = _find_values(normalize_brackets(_close_brackets(body)))
    if found and whole:
        yield found
    yield _repair_value(body)


def _list_candidates(values: list[Any]) -> list[Any]:
    """Return the values to try: consecutive objects merged into one if possible, else each value, the last first.

    The last one comes first because it may correct the earlier ones. Values that cannot be merged are first tried
    together, as one list.
    """
    if len(values) == 1 and isinstance(values[0], list):
        return [*_collect_items(values[0]), *(_merge_objects(values[0]) or values)]
    together = _merge_objects(values) or ([values, *values[: -_MOST_OPENINGS - 1 : -1]] if len(values) > 1 else values)
    return [*_collect_items(values), *together]


def _collect_items(values: list[Any]) -> list[Any]:
    """Return one object with the items of several objects that have one each under a key in the singular: `triple`."""
    keys = {tuple(value) if isinstance(value, dict) else () for value in values}
    key = keys.pop() if len(keys) == 1 < len(values) else ()
    return [{key[0]: [value[key[0]] for value in values]}] if len(key) == 1 and not key[0].endswith("s") else []


def _merge_objects(values: list[Any]) -> list[Any]:
    """Merge objects into one, joining lists with equal keys. Return [] if other values have equal keys."""
    if len(values) < 2 or not all(isinstance(value, dict) for value in values):
        return []
    merged: dict[str, Any] = {}
    for key, item in (pair for value in values for pair in value.items()):
        if key in merged and not (isinstance(item, list) and isinstance(merged[key], list)):
            return []
        if key in merged:
            merged[key].extend(item)
        else:
            merged[key] = [*item] if isinstance(item, list) else item
    return [merged]


# ---------------------------------------------------------------- finding JSON in a text


def _refuse_constant(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


_decoder = json.JSONDecoder(parse_constant=_refuse_constant)


def _find_unclosed(body: str) -> set[str]:
    """Return `[` if a list in the JSON of a text is still open at its end, and `{` if an object is.

    If the text ends within a string, its quotes may be broken, and brackets are counted wherever they stand.
    """
    open_brackets, in_string = _find_open(body)
    if not in_string:
        return set(open_brackets)
    start = _find_start(body)
    return {sign for sign, closing in _CLOSING.items() if body.count(sign, start) > body.count(closing, start)}


def _find_start(body: str) -> int:
    """Return where the JSON of a text begins, or its length if there is none."""
    opening = _OPENING.search(body)
    return len(body) if opening is None else opening.start()


def _find_open(body: str) -> tuple[list[str], bool]:
    """Return the brackets of a text's JSON that are open at its end, and whether it ends within a string."""
    open_brackets, in_string = list[str](), False
    for match in _TOKEN.finditer(body, _find_start(body)):
        sign = match.group()
        if sign in "[{":
            open_brackets.append(sign)
        elif sign not in "]}":
            in_string = match["closing"] is None
        elif open_brackets:
            open_brackets.pop()
    return open_brackets, in_string


def _close_brackets(body: str) -> str:
    """Return a text with the closing brackets that are missing at its end; as it is if it ends within a string."""
    open_brackets, in_string = _find_open(body)
    return body if in_string else body + "".join(_CLOSING[sign] for sign in reversed(open_brackets))


def _extract_body(text: str) -> tuple[str, str, str]:
    """Return the content of the code fences, if it contains JSON, between the texts before and after the last fence.

    Without JSON in fences, the whole text is the content. Thoughts and the byte-order mark are left out.
    """
    text = drop_thoughts(text)
    fences = list(_FENCE.finditer(text))
    fenced = f"\n{_FENCE_MARK}\n".join(fence[1] for fence in fences)
    if not _OPENING.search(fenced):
        return "", text, ""
    end = fences[-1].end()
    return _FENCE.sub(f"\n{_FENCE_MARK}\n", text[:end]), fenced, text[end:]


def _find_values(text: str) -> tuple[list[Any], bool]:
    """Return the JSON objects and lists in a text, and whether every possible opening bracket began a valid one."""
    values: list[Any] = []
    at, failures = 0, 0
    while failures < _MOST_OPENINGS:
        beside = _NEXT_VALUE.match(text, at) if values else None  # consecutive lists on one line
        opening = beside or _OPENING.search(text, at)
        if opening is None:
            return values, not failures
        try:
            value, at = _decoder.raw_decode(text, opening.end() - 1)
            values.append(value)
        except (ValueError, RecursionError):
            at, failures = opening.end(), failures + 1
    return values, False


def _repair_value(text: str) -> list[Any]:
    """Return the repaired value that begins at the first bracket of the text, in a list; [] if there is none."""
    opening = _OPENING.search(text)
    value = None if opening is None else repair_text(_slice_from(text, opening.end() - 1))
    if isinstance(value, list) and opening is not None and opening.group() == "{" and not text.rstrip().endswith("}"):
        return []  # an object that ends before its first value, of whose key json_repair makes an item
    return [value] if isinstance(value, dict | list) else []


def _slice_from(text: str, start: int) -> str:
    """Return the text from `start` on; bare tuples, one per line, become a list."""
    if text[start] != "(":
        return text[start:]
    lines = (line.strip().rstrip(",") for line in text[start:].split("\n"))
    return f"[{','.join(line for line in lines if line.startswith('('))}]"


# ---------------------------------------------------------------- fitting the output


class _NotFittingError(Exception):
    """JSON that does not fit the output type."""


def _validate(value: Any, output: type[ParsedOutput]) -> ParsedOutput:
    """Validate a value. Raises _NotFittingError, also if no field is present: defaults alone are not an answer."""
    fields = {name for field, info in output.model_fields.items() for name in (field, info.alias or field)}
    if not isinstance(value, Mapping):
        raise _NotFittingError(f"expected a JSON object, got {type(value).__name__}")
    if fields and not fields & value.keys():
        raise _NotFittingError(f"expected the keys {', '.join(output.model_fields)}; got {_format_keys(value)}")
    try:
        return output.model_validate(_make_encodable(value))
    except ValidationError as error:
        problems = error.errors(include_input=False, include_url=False, include_context=False)[:_MOST_PROBLEMS]
    except RecursionError:
        raise _NotFittingError("nested too deeply") from None
    raise _NotFittingError("; ".join(f"{'.'.join(map(str, p['loc']))[:100]}: {p['msg'][:200]}" for p in problems))


def _join_surrogates(pair: regex.Match[str]) -> str:
    return pair[0].encode("utf-16-le", "surrogatepass").decode("utf-16-le")


def _make_encodable(value: Any) -> Any:
    """Join surrogate pairs, which a repair leaves apart, and remove lone ones, which no file or store accepts."""
    if isinstance(value, str):
        return encodable(_SURROGATE_PAIR.sub(_join_surrogates, value))
    if isinstance(value, Mapping):
        return {_make_encodable(key): _make_encodable(item) for key, item in value.items()}
    return [_make_encodable(item) for item in value] if isinstance(value, list) else value


def _format_keys(value: Mapping[str, Any]) -> str:
    return ", ".join(str(key)[:40] for key in list(value)[:10]) or "none"

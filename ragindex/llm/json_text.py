"""JSON in a text that a model wrote: without its thoughts, inside code fences or prose, whole, broken or cut.

The text is never executed, and the work is bounded for any text.

What a model thought before it answered stands between the marks that chat templates write for it:

| marks | models |
|---|---|
| `<think>`, `<thinking>`, `<thought>`, `<reasoning>`, `<seed:think>`, in any case | DeepSeek-R1, Qwen3, Seed-OSS |
| `[THINK]` | Magistral |
| `◁think▷` | Kimi |
| `<|begin_of_thought|>`, with the answer in `<|begin_of_solution|>` | Sky-T1, OpenThinker |
| `<|channel>thought` … `<channel|>` | Gemma |
| `<|channel|>analysis` … `<|channel|>final<|message|>` | gpt-oss (harmony), also where a server dropped the marks |
"""

import json
from collections.abc import Iterator
from typing import Any, SupportsIndex

import json_repair
import regex

_NAMES = r"(?:seed:)?(?:think|thinking|thought|reasoning)"
_MARK = regex.compile(
    rf"(?P<open><{_NAMES}>|\[think\]|◁think▷|<\|begin_of_thought\|>|<\|channel>thought\b)"
    rf"|</{_NAMES}>|\[/think\]|◁/think▷|<\|end_of_thought\|>|<channel\|>",
    regex.IGNORECASE,
)
_SOLUTION = regex.compile(r"<\|(?:begin|end)_of_solution\|>", regex.IGNORECASE)
_CHANNEL = regex.compile(r"<\|channel\|>\s*(\w+)[^<]*(?:<\|constrain\|>[^<]*)?<\|message\|>")
_CHANNEL_END = regex.compile(r"<\|(?:end|return|start|call)\|>")
_BARE_CHANNELS = regex.compile(r"\s*analysis.*?assistantfinal", regex.DOTALL)


def drop_thoughts(text: str) -> str:
    r"""Return an answer without what the model thought; blank if it never stopped thinking.

    A closing mark alone ends a thought from the start on, because chat templates may write the opening one.

    >>> drop_thoughts("[THINK]<think>no</think> or [/THINK]{}"), drop_thoughts("what? </think>yes")
    ('{}', 'yes')
    """
    text = text.lstrip("\ufeff")
    channels = list(_CHANNEL.finditer(text))
    if channels:
        final = next((channel for channel in reversed(channels) if channel[1] == "final"), None)
        return "" if final is None else _CHANNEL_END.split(text[final.end() :], maxsplit=1)[0]
    if (bare := _BARE_CHANNELS.match(text)) is not None:
        return text[bare.end() :]
    return _SOLUTION.sub("", _drop_marked(text))


def _drop_marked(text: str) -> str:
    """Return the text without what stands between opening and closing marks, which may be nested."""
    pieces, start, depth, opened = list[str](), 0, 0, 0
    for mark in _MARK.finditer(text):
        if mark["open"]:
            opened = mark.start() if depth == 0 else opened
            depth += 1
        elif depth > 1:
            depth -= 1
        else:
            if depth:
                pieces.append(text[start:opened])
            else:
                pieces.clear()
            start, depth = mark.end(), 0
    before = "".join(pieces)
    if depth and not (before + text[start:opened]).strip():
        return ""
    return (before if before.strip() else "") + text[start:]


# ---------------------------------------------------------------- finding JSON in a text

MOST_BLOCKS = 50
_FENCE_MARK = "```"
_FENCE = regex.compile(r"^[ \t]*```[^\n]*\n(.*?)(?:^[ \t]*```|\Z)", regex.MULTILINE | regex.DOTALL)
_OPENING = regex.compile(r"\{|(?:^|:|```\w*)[ \t]*\[", regex.MULTILINE)
_TOKEN = regex.compile(r"""\"(?:[^"\\]|\\.)*+(?:(?P<closing>")|\Z)|[\[\]{}]""", regex.DOTALL)
_CLOSING = {"[": "]", "{": "}"}
_NEXT_VALUE = regex.compile(r"\s*,\s*[\[{]")
_WORDS = regex.compile(rf"\p{{L}}|{_FENCE_MARK}")  # between two answers; digits and bullets number the parts of one


def _refuse_constant(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


decoder = json.JSONDecoder(parse_constant=_refuse_constant)


def list_blocks(text: str) -> Iterator[tuple[str, bool]]:
    """Yield the blocks of JSON in a text, valid or broken, that may be answers, and whether it may be cut within them.

    Beside code fences with JSON these are objects only: lists there are quotations more often than answers.
    """
    before, body, after = _split_at_fences(text)
    for part in (before, body, after):
        blocks = _split_blocks(part)
        for block in blocks:
            if part is body or block[0] == "{":
                yield block, part is not before and block is blocks[-1]


def _split_at_fences(text: str) -> tuple[str, str, str]:
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
    return blocks[-MOST_BLOCKS:]


def _find_end(body: str, start: int) -> int:
    """Return the end of the JSON that begins at a bracket; that of the text if it is not closed."""
    depth = 0
    for match in _TOKEN.finditer(body, start):
        depth += (match.group() in _CLOSING) - (match.group() in _CLOSING.values())
        if depth == 0:
            return match.end()
    return len(body)


def find_values(text: str) -> tuple[list[Any], bool]:
    """Return the JSON objects and lists in a text, and whether every possible opening bracket began a valid one."""
    values: list[Any] = []
    at, failures = 0, 0
    while failures < MOST_BLOCKS:
        beside = _NEXT_VALUE.match(text, at) if values else None  # consecutive lists on one line
        opening = beside or _OPENING.search(text, at)
        if opening is None:
            return values, not failures
        try:
            value, at = decoder.raw_decode(text, opening.end() - 1)
            values.append(value)
        except (ValueError, RecursionError):
            at, failures = opening.end(), failures + 1
    return values, False


def find_unclosed(block: str) -> set[str]:
    """Return `[` if a list is still open at the end of a block, and `{` if an object is.

    If the block ends within a string, its quotes may be broken, and brackets are counted wherever they stand.
    """
    open_brackets, in_string = _find_open(block)
    if not in_string:
        return set(open_brackets)
    return {sign for sign, closing in _CLOSING.items() if block.count(sign) > block.count(closing)}


def _find_open(block: str) -> tuple[list[str], bool]:
    """Return the brackets that are open at the end of a block, and whether it ends within a string."""
    open_brackets, in_string = list[str](), False
    for match in _TOKEN.finditer(block):
        sign = match.group()
        if sign in "[{":
            open_brackets.append(sign)
        elif sign not in "]}":
            in_string = match["closing"] is None
        elif open_brackets:
            open_brackets.pop()
    return open_brackets, in_string


def close_brackets(block: str) -> str:
    """Return a block with the closing brackets that are missing at its end; as it is if it ends within a string."""
    open_brackets, in_string = _find_open(block)
    return block if in_string else block + "".join(_CLOSING[sign] for sign in reversed(open_brackets))


# ---------------------------------------------------------------- repair in bounded time

_MAX_LENGTH = 65_536  # characters; longer texts are not a single answer
_MAX_DEPTH = 64  # nested brackets
_MAX_LOOKUPS = 1_000_000
_LOOKUP_LENGTH = 64  # characters that count as one look
_SYNTAX_SLIP = regex.compile(r"""\"(?:[^"\\]|\\.)*+(?:"|\Z)|[()]|,(?=\s*+[\])}])""", regex.DOTALL)
_REPLACEMENTS = {"(": "[", ")": "]", ",": ""}
_NO_VALUE = regex.compile(r"""["']\s*+:\s*+(?:[,}\])]|\Z)""")
_BRACKET = regex.compile(r"[\[({]|[\])}]")


def repair_text(text: str) -> Any:
    """Return the value that json_repair reads from a text that begins with a bracket.

    Return None if the repair fails or would take too long, or if a key has no value, which json_repair would invent.
    """
    if len(text) > _MAX_LENGTH or _NO_VALUE.search(text) or _measure_depth(text) > _MAX_DEPTH:
        return None
    try:
        return json_repair.loads(_MeteredText(text), skip_json_loads=True)
    except (ValueError, RecursionError, _TooMuchError):
        return None


def normalize_brackets(text: str) -> str:
    """Replace parentheses by square brackets and remove trailing commas, except inside strings."""
    return _SYNTAX_SLIP.sub(lambda slip: _REPLACEMENTS.get(slip.group(), slip.group()), text)


class _TooMuchError(Exception):
    """The repair takes too long."""


class _MeteredText(str):
    """String that allows a million lookups, because json_repair takes quadratic time for some texts."""

    left = _MAX_LOOKUPS

    def __getitem__(self, index: SupportsIndex | slice) -> str:
        part = super().__getitem__(index)
        self.left -= 1 + len(part) // _LOOKUP_LENGTH
        if self.left < 0:
            raise _TooMuchError
        return part


def _measure_depth(text: str) -> int:
    depth = deepest = 0
    for bracket in _BRACKET.finditer(text):
        depth = depth + 1 if bracket.group() in "[({" else max(0, depth - 1)
        deepest = max(deepest, depth)
    return deepest

"""Text extraction for drafting: prose without markup, split into sentences, and the mentions in them.

Every pattern takes time linear in the text, and at most the first 100,000 characters of a text are read.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import unescape
from typing import Literal

import regex

LONGEST_TEXT = 100_000
_LONGEST_BLOCK = 20_000
_SENTENCE_LENGTHS = range(20, 401)  # characters of a sentence that is quick to judge
_DENSE_LENGTHS = range(8, 201)  # the same in a script without spaces

MentionKind = Literal["date", "year", "number", "name"]


@dataclass(frozen=True, slots=True)
class Mention:
    """Date, year, number or name in a sentence, at the characters `start` to `end`. A name may be `quoted`."""

    kind: MentionKind
    start: int
    end: int
    text: str
    quoted: bool = False


# ---------------------------------------------------------------- prose

_FENCE = regex.compile(r"^ {0,3}(`{3,}|~{3,}).*$")
_FRONT_MATTER = regex.compile(r"\A---[ \t]*\n(?:.*\n){0,200}?---[ \t]*(?:\n|\Z)")
_NOT_PROSE = regex.compile(
    r"^(?: {4,}|\t)\S"  # indented code
    r"|^ {0,3}\#{1,6}(?:\s|$)"  # a heading
    r"|^ {0,3}(?:[-*_=] *){3,}$"  # a rule, or the line below a heading
    r"|^ {0,3}\[[^\]]{1,200}\]:"  # the target of a link
    r"|^\s*\|"  # a table
)
_MARKER = regex.compile(r"^\s*(?:>\s?)*(?:[-*+•]\s+(?:\[[ xX]\]\s+)?|\d{1,3}[.)]\s+)?")
_ITEM = regex.compile(r"^\s*(?:>|(?:[-*+•]|\d{1,3}[.)])\s+\S)")
_INLINE = (
    (regex.compile(r"<!--[^>]{0,2000}-->|</?[a-zA-Z][^<>]{0,300}>"), " "),
    (regex.compile(r"!\[[^\]]{0,300}\]\([^()]{0,500}\)"), " "),
    (regex.compile(r"\[([^\[\]]{1,300})\](?:\([^()]{0,500}\)|\[[^\[\]]{0,100}\])"), r"\1"),
    (regex.compile(r"\[\^?(?:\d{1,3}|[a-z]|citation needed|note \d+)\]"), ""),  # references of an encyclopaedia
    (regex.compile(r"(?<![\w*])\*{1,3}([^\s*](?:[^*]{0,500}?[^\s*])?)\*{1,3}(?![\w*])"), r"\1"),
    (regex.compile(r"(?<!\w)_{1,2}([^\s_](?:[^_]{0,500}?[^\s_])?)_{1,2}(?!\w)"), r"\1"),
    (regex.compile(r"~~([^~]{1,300})~~"), r"\1"),
    (regex.compile(r"(?<!`)`++([^`]{1,300})`++"), r"\1"),
)
# Control characters and those that change the writing direction: they could hide the content of a cell.
_INVISIBLE = regex.compile(r"[\p{Cc}\p{Cs}\u200b\u200e\u200f\u202a-\u202e\u2060\u2066-\u2069\ufeff]+")
_PARENTHESES = regex.compile(r"(?:(?<!\s)\s++)?+(?:\([^()]{0,400}\)|（[^（）]{0,400}）)")


def split_blocks(text: str) -> Iterator[str]:
    """Yield the paragraphs and list items of a text, each on one line, without code, tables, headings and markup."""
    lines: list[str] = []
    fence = ""
    for line in [*_FRONT_MATTER.sub("", text[:LONGEST_TEXT]).split("\n"), ""]:
        mark = _FENCE.match(line)
        if mark and (not fence or line.strip().startswith(fence)):
            fence = "" if fence else mark[1]
        blank = bool(fence or mark) or not line.strip() or bool(_NOT_PROSE.match(line))
        if lines and (blank or _ITEM.match(line)):
            yield from _strip_markup(lines)
            lines = []
        if not blank:
            lines.append(_MARKER.sub("", line, count=1))
    yield from _strip_markup(lines)


def _strip_markup(lines: Sequence[str]) -> Iterator[str]:
    text = " ".join(lines)
    for pattern, replacement in _INLINE:
        text = pattern.sub(replacement, text)
    joined = one_line(unescape(text))
    for start in range(0, len(joined), _LONGEST_BLOCK):
        yield joined[start : start + _LONGEST_BLOCK]


def one_line(text: str) -> str:
    """Return the text with single spaces and without invisible characters."""
    return " ".join(_INVISIBLE.sub(" ", text).split())


# ---------------------------------------------------------------- sentences

_SENTENCE_END = regex.compile(r"""(?<=[.!?][”"’')\]]?)\s+(?=[\p{Lu}\p{Lo}\p{N}“"‘'(\[])|(?<=[。！？])""")
_ABBREVIATION = regex.compile(
    r"(?:(?<![\p{L}\p{N}])(?:\p{Lu}|c|ca|v|vs|cf|approx|no|nos|vol|pp?|fl|b|d|r|St|Dr|Mr|Mrs|Ms|Jr|Sr|Prof|Rev|Gen|Col"
    r"|Lt|Sgt|Capt|Gov|Sen|Rep|Hon|Mt|Ft|Inc|Ltd|Co|Corp|Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept?|Oct|Nov|Dec|Fig|No)"
    r"|\b(?:e\.g|i\.e|a\.k\.a|U\.S|U\.K|Ph\.D|etc))\.$"
)
_NOT_A_SENTENCE = regex.compile(
    r"\p{Ll}{3}\. \p{Ll}|https?://|www\.|\||[{}<>\\^]|==|\.\.\.|…|\[|\]|::|->|→"
    r"|[.?] \."  # the leaders of a table of contents
    r"|\p{L} [?!,;:.](?:[ .,]|$)"  # a sign that is a word, as of code
    r"|\p{Ll}\.\p{Lu}\p{Ll}"  # two sentences with no space between, or an identifier
    r"|\p{L}- \p{Ll}"  # a word that was broken at the end of a line
    r"|(?:\A|\s)[#_*~+]+(?:[\s.,;:]|\Z)"  # a sign alone, of markup
    r"|\A\d+(?:\.\d+)* \p{Lu}"  # a page or section number, and a heading or sentence after it
)
_HEADINGS = "NAME|SYNOPSIS|DESCRIPTION|OPTIONS|EXAMPLES?|NOTES?|BUGS|SECURITY|DIAGNOSTICS|HISTORY|FILES|ENVIRONMENT"
_HEADING = regex.compile(rf"\A(?:(?:{_HEADINGS}) |(?:[\p{{Lu}}\p{{N}}/&,-]{{2,}} ){{2,}})(?=\p{{Lu}}\p{{Ll}})")
"""A heading in capitals that stands before a sentence, as in manual pages."""
_BALANCED = (("(", ")"), ("“", "”"), ("«", "»"), ("《", "》"), ("「", "」"))


def select_sentences(block: str) -> list[str]:
    """Return the sentences of a block that can stand alone.

    They are complete, of a readable length, and without links, code or remarks in brackets.
    """
    pieces: list[str] = []
    start = 0
    for gap in [*(match.span() for match in _SENTENCE_END.finditer(block)), (len(block), len(block))]:
        piece = block[start : gap[0]].strip()
        if gap[0] < len(block) and _ABBREVIATION.search(piece[-12:]):
            continue
        pieces.append(piece)
        start = gap[1]
    return [clean for piece in pieces if (clean := _clean_sentence(piece)) is not None]


def _clean_sentence(piece: str) -> str | None:
    """Return the sentence without parentheses and a heading before it; None if it is not usable."""
    bare = _HEADING.sub("", _PARENTHESES.sub("", piece).strip())
    readable = len(bare) in (_DENSE_LENGTHS if bare.endswith(("。", "！")) else _SENTENCE_LENGTHS)
    is_whole = readable and bare.endswith((".", "!", "。", "！", '."', ".”"))
    if not is_whole or _NOT_A_SENTENCE.search(bare) or not regex.match(r"[\p{L}\p{N}“\"《「]", bare):
        return None
    return bare if is_balanced(bare) else None


def is_balanced(text: str) -> bool:
    """Return whether every parenthesis and quotation mark of a text has its counterpart."""
    return all(text.count(opening) == text.count(closing) for opening, closing in _BALANCED) and not text.count('"') % 2


# ---------------------------------------------------------------- mentions

MONTHS = "January|February|March|April|May|June|July|August|September|October|November|December"
_DAY = r"\d{1,2}(?:st|nd|rd|th)?"
_DATE = regex.compile(
    rf"\b(?:{_DAY} (?:{MONTHS}),? \d{{4}}|(?:{MONTHS}) {_DAY}, \d{{4}}|\d{{4}}-\d\d-\d\d|(?:{MONTHS}) \d{{4}})\b"
    r"|\d{4}年(?:\d{1,2}月(?:\d{1,2}日)?)?"
)
_YEAR = regex.compile(r"\b(?:1[0-9]{3}|20[0-9]{2})\b(?![,.]\d|[-–/%°]|\s?(?:BC|AD|CE)\b)")
_WORDS = (
    "two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|thirteen|fourteen|fifteen|sixteen|seventeen|eighteen|"
    "nineteen|twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety"
)
_NUMBER = regex.compile(
    rf"(?<![a-zA-Z0-9_.,:/$€£¥%#+–−-])(?:\d{{1,3}}(?:,\d{{3}})+|\d+(?:\.\d+)?|(?:{_WORDS}))"
    r"(?: (?:million|billion|thousand|hundred))?(?![a-zA-Z0-9_:/%–-]|[.,]\d)"
)
_QUOTED = regex.compile(r"“([^“”]{2,80})”|\"([^\"]{2,80})\"|《([^《》]{1,60})》|「([^「」]{1,60})」")
NAME_WORD = r"\p{Lu}[\p{L}\p{M}\p{N}]*(?:[’'&.-](?!s\b)[\p{L}\p{N}]+)*"
_CAPITALISED = rf"(?:(?:\p{{Lu}}\.)+(?= \p{{Lu}})|{NAME_WORD})"
NAME = (
    rf"{_CAPITALISED}(?: (?:(?:of|the|de|del|della|di|da|la|le|van|von|der|den|du|bin|al|y|&) ){{0,3}}{_CAPITALISED})*"
)
_NAME = regex.compile(rf"(?<![\p{{L}}\p{{N}}_’'-]){NAME}(?![\p{{L}}\p{{N}}_])")

_SMALL_WORDS = (
    "in on at by for from to with as after before since until during although though while when where if because "
    "despite under over between among through according following due one some many much most several all each every "
    "no not but and or so yet now today later once only even just more another other both either neither his her its "
    "their my our this that these those such he she it they we you i there here what which who how why let see "
    "using given unlike like an a the"
)
FUNCTION_WORDS = frozenset(_SMALL_WORDS.split())
"""Words that start no name, though they may start a sentence."""


def list_mentions(sentence: str) -> list[Mention]:
    """Return the mentions of a sentence from left to right, without overlap: dates, years, numbers, names, titles."""
    taken: list[Mention] = []
    patterns: tuple[tuple[MentionKind, regex.Pattern[str]], ...] = (
        ("date", _DATE),
        ("name", _QUOTED),
        ("year", _YEAR),
        ("name", _NAME),
        ("number", _NUMBER),
    )
    for kind, pattern in patterns:
        if kind == "name" and pattern is _NAME and shouted(sentence):
            continue
        for match in pattern.finditer(sentence):
            group = next((number for number, text in enumerate(match.groups(), 1) if text), 0)
            start, end = match.span(group)
            first = sentence[start:end].split(" ", 1)[0]
            if kind == "name" and not group and first.lower() in FUNCTION_WORDS:
                start += len(first) + 1
            if start < end and all(end <= other.start or other.end <= start for other in taken):
                taken.append(Mention(kind, start, end, sentence[start:end], group > 0))
    return sorted(taken, key=lambda mention: mention.start)


def shouted(sentence: str) -> bool:
    """Return whether most letters are capitals, so that capitals do not indicate names."""
    capitals = sum(character.isupper() for character in sentence)
    return capitals * 2 > sum(character.isalpha() for character in sentence)

"""Formatting of text and figures for a report: length limits, and removal of characters that XML does not allow."""

from collections.abc import Sequence
from math import ceil

import regex

from ragindex._util.text import many as many

LONGEST = 500
"""No text from the data is shown longer than this many characters."""

# XML does not allow control characters, unpaired surrogates and noncharacters. Marks that change the writing direction
# would reverse the text of the page around them.
_FORBIDDEN = regex.compile(r"[\p{Cc}\p{Cs}\p{Noncharacter_Code_Point}\u202a-\u202e\u2066-\u2069]")
_SPACE = regex.compile(r"\s+")
_ROOT = r"(?<![\w./\\~])(?<!:(?=//))(?:file://)?(?:/|~/|[A-Za-z]:[\\/]|\\\\)"
_ABSOLUTE = regex.compile(_ROOT + r"(?=[\w.])(?:[^\s/\\'\"(),;:]+[/\\]+)*+")
_SMALLEST_SHOWN = 0.0005  # smaller shares would show as 0.0 percent
_ROUNDING = 1e-9  # sums of equal figures may differ by this much
_LONGEST_READ = 10_000  # characters
_CLEANED_FACTOR = 2  # clean only this many times the length shown, so that long texts cost no time


def count_known(count: int | None, noun: str) -> str:
    """Return a number with its noun, as `many` does; that it is unknown if it is None."""
    return f"{noun}s unknown" if count is None else many(count, noun)


def shown(text: str, longest: int = LONGEST) -> str:
    """Return `text` on one line, cut at `longest` characters with an ellipsis.

    Characters that cannot be shown become U+FFFD.
    """
    start = _SPACE.sub(" ", text[: _CLEANED_FACTOR * longest]).strip()
    cut = start[:longest] if len(start) > longest or len(text) > _CLEANED_FACTOR * longest else start
    cleaned = str(_FORBIDDEN.sub("\N{REPLACEMENT CHARACTER}", cut))
    return cleaned if cut == start and len(text) <= _CLEANED_FACTOR * longest else f"{cleaned.rstrip()}…"


def block(text: str, longest: int) -> str:
    """Return `text` as `shown` does, but keep its line breaks and white space."""
    cut = text if len(text) <= longest else f"{text[:longest].rstrip()}…"
    return "\n".join(str(_FORBIDDEN.sub("\N{REPLACEMENT CHARACTER}", line)) for line in cut.split("\n"))


def without_folders(text: str) -> str:
    """Replace the folders of absolute paths with `…/`, because a published report must not reveal the machine.

    Texts of more than 10,000 characters, which no report shows in full, are cut.
    """
    start = text if len(text) <= _LONGEST_READ else f"{text[:_LONGEST_READ]}…"
    return str(_ABSOLUTE.sub("…/", start))


def join_names(names: Sequence[str]) -> str:
    """Join names as in a sentence: `a`, `a and b`, `a, b and c`."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def percent(value: float) -> str:
    """Format a share from 0 to 1 as a percentage with one decimal."""
    return _set_minus(f"{100 * value:.1f}")


def points(difference: float) -> str:
    """Format a difference of two shares as signed percentage points; nonzero differences are never shown as 0."""
    form = ".1g" if _ROUNDING < abs(difference) < _SMALLEST_SHOWN else ".1f"
    return _set_minus(f"{100 * difference:+{form}}")


def short(value: float) -> str:
    """Format a figure with about three digits and thousands separators: 0.21, 16.4, 1,280."""
    return _set_minus(f"{value:{_figure_format(value)}}")


def signed(value: float) -> str:
    """Format a difference as `short` does, with its sign."""
    return _set_minus(f"{value:+{_figure_format(value)}}")


def probability(p: float) -> str:
    """Format a p-value as papers do: `p < 0.001`, `p = 0.012`, `p = 0.34`."""
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}" if p < 0.1 else f"p = {p:.2f}"


def _figure_format(value: float) -> str:
    size = abs(value)
    return ".1g" if 0 < size < 0.01 or size >= 1e15 else f",.{2 if size < 10 else 1 if size < 100 else 0}f"


def _set_minus(text: str) -> str:
    """Replace hyphens with minus signs, and remove the sign of zero."""
    is_zero = not any(character in text for character in "123456789infa")
    return text.lstrip("+-") if is_zero else text.replace("-", "\N{MINUS SIGN}")


_MOST_QUESTIONS = 10_000


def about_questions(count: float) -> str:
    """Format an estimated number of questions: "about 2,100", or "more than 10,000"."""
    return f"more than {_MOST_QUESTIONS:,}" if count > _MOST_QUESTIONS else f"about {round_up(count):,}"


def round_up(count: float) -> int:
    """Round a count up to two digits: 2,027 to 2,100. For counts that are only estimated."""
    unit: int = 10 ** max(0, len(str(int(count))) - 2)
    return ceil(count / unit) * unit


def describe_lsa(encoder: str, labels: Sequence[str]) -> str:
    """Return a note that methods rest on `lsa`, which is no neural model; "" for another encoder or no method."""
    if encoder.partition(":")[0].partition("(")[0] != "lsa" or not labels:
        return ""
    rest = "rests" if len(labels) == 1 else "rest"
    return (
        f"{join_names(labels)} {rest} on vectors of {encoder}, learnt from these documents alone. A neural model may "
        "rank otherwise: --encoder sentence-transformers:NAME_OR_PATH"
    )

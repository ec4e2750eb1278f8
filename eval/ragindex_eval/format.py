"""Text and figures as a report shows them: bounded, without what a page or an XML parser cannot hold."""

import regex

LONGEST = 500
"""No text from the data is shown longer than this many characters."""

# Control characters, halves of surrogate pairs and noncharacters are not allowed in XML; marks that change the
# direction of writing would turn the page around them.
_NOT_SHOWN = regex.compile(r"[\p{Cc}\p{Cs}\p{Noncharacter_Code_Point}\u202a-\u202e\u2066-\u2069]")
_SPACE = regex.compile(r"\s+")
_ROOT = r"(?<![\w./:\\~])(?:file://)?(?:/|~/|[A-Za-z]:[\\/]|\\\\)"
_ABSOLUTE = regex.compile(_ROOT + r"(?=[\w.])(?:[^\s/\\'\"(),;:]+[/\\]+)*+")
_VISIBLE = 0.0005  # a share that one decimal of a percent shows
_ROUNDING = 1e-9  # what sums of equal figures may differ by
_READ = 10_000  # characters
_KEPT = 2  # a text is cleaned only in its first characters: white space may shrink, but a megabyte is not read


def shown(text: str, longest: int = LONGEST) -> str:
    """`text` on one line, cut at `longest` characters with an ellipsis; what cannot be shown becomes U+FFFD."""
    start = _SPACE.sub(" ", text[: _KEPT * longest]).strip()
    cut = start[:longest] if len(start) > longest or len(text) > _KEPT * longest else start
    cleaned = str(_NOT_SHOWN.sub("\N{REPLACEMENT CHARACTER}", cut))
    return cleaned if cut == start and len(text) <= _KEPT * longest else f"{cleaned.rstrip()}…"


def block(text: str, longest: int) -> str:
    """As `shown`, with the lines kept as they are."""
    cut = text if len(text) <= longest else f"{text[:longest].rstrip()}…"
    return "\n".join(str(_NOT_SHOWN.sub("\N{REPLACEMENT CHARACTER}", line)) for line in cut.split("\n"))


def without_folders(text: str) -> str:
    """`text` with the folders of absolute paths left out: a report may be published, the machine it ran on not.

    Of a text longer than any that is shown, the start alone.
    """
    start = text if len(text) <= _READ else f"{text[:_READ]}…"
    return str(_ABSOLUTE.sub("…/", start))


def percent(value: float) -> str:
    """A share of one as percent, with one decimal."""
    return _typeset(f"{100 * value:.1f}")


def points(difference: float) -> str:
    """A difference of two shares in percentage points, with its sign; what is not 0 is not shown as 0."""
    return _typeset(f"{100 * difference:+{points_form(difference)}}")


def points_form(difference: float) -> str:
    """The format of a difference in percentage points: one decimal, or one digit of what that would show as 0."""
    return ".1g" if _ROUNDING < abs(difference) < _VISIBLE else ".1f"


def short(value: float) -> str:
    """A figure in three digits or so, with thousands separated: 0.21, 16.4, 1,280."""
    return _typeset(f"{value:{_form(value)}}")


def signed(value: float) -> str:
    """`short`, with the sign of a difference."""
    return _typeset(f"{value:+{_form(value)}}")


def probability(p: float) -> str:
    """A p-value as papers print it."""
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}" if p < 0.1 else f"p = {p:.2f}"


def many(count: int, what: str) -> str:
    """`1 question`, `1,200 questions`."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _form(value: float) -> str:
    size = abs(value)
    return ".1g" if 0 < size < 0.01 or size >= 1e15 else f",.{2 if size < 10 else 1 if size < 100 else 0}f"


def _typeset(text: str) -> str:
    """With a real minus sign; zero has no sign at all."""
    is_zero = not any(character in text for character in "123456789infa")
    return text.lstrip("+-") if is_zero else text.replace("-", "\N{MINUS SIGN}")

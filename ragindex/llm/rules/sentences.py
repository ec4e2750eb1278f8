"""From a text to its sentences. Every pattern takes time linear in the text."""

import unicodedata

import regex

from ragindex.llm.rules.words import ABBREVIATIONS, ENGLISH_FUNCTION_WORDS

MAX_TEXT_LENGTH = 100_000
"""Characters of a text that are read; `extract` says so where there are more."""

MAX_SENTENCE_LENGTH = 1_200
"""A sentence that does not end within so many characters is cut at a space."""

_SHORT_LINE = 60

_QUOTES = str.maketrans(
    {"“": '"', "”": '"', "„": '"', "‘": "'", "’": "'", "–": "-", "—": "-", "\u00a0": " ", "…": "..."}
)
_INVISIBLE = regex.compile(r"[\p{Cs}\p{Co}\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]+|(?![\n\t\r])\p{Cc}")
_REFERENCE = regex.compile(r"\[(?:\d{1,3}|[a-z]|citation needed|note \d{1,3})\]")
_EMPTY_BRACKETS = regex.compile(r"\([\s,;:]{0,10}\)")
_LOOSE_BRACKET = regex.compile(r"\([,;:\s]{1,10}(?=\S)")
_SPACED_HYPHEN = regex.compile(r"(?<=[\p{L}\p{N}]) - (?=([\p{L}\p{N}]+))")
_HYPHEN = regex.compile(r"\p{L}-\p{L}")


def normalize_text(text: str) -> str:
    """The text as the rules read it: compatibility forms composed, straight quotes, single spaces, no references.

    A line break stays where a paragraph or a short line ends; elsewhere it is a space. Only the first LONGEST_TEXT
    characters are read.
    """
    text = unicodedata.normalize("NFC", text[:MAX_TEXT_LENGTH]).replace("''", '"').replace("``", '"').translate(_QUOTES)
    text = _EMPTY_BRACKETS.sub("", _REFERENCE.sub("", _INVISIBLE.sub("", text)))
    text = "\n".join(_paragraphs(_LOOSE_BRACKET.sub("(", text)))
    if " - " in text and not _HYPHEN.search(text):
        text = _SPACED_HYPHEN.sub(_joined, text)
    return text


def _joined(match: regex.Match[str]) -> str:
    """Text that was cut into tokens writes every hyphen with spaces; before a function word it is a dash."""
    return " - " if match[1].lower() in ENGLISH_FUNCTION_WORDS else "-"


def _paragraphs(text: str) -> list[str]:
    """Lines joined to paragraphs: a line runs on where it is long, as wrapped text is, and no blank line follows."""
    found: list[list[str]] = [[]]
    runs_on = False
    for line in text.splitlines():
        words = " ".join(line.split())
        if not (runs_on and words):
            found.append([])
        found[-1].append(words)
        runs_on = len(words) >= _SHORT_LINE or words.endswith(",")
    return [joined for lines in found if (joined := " ".join(lines).strip())]


# ---------------------------------------------------------------- sentences

_END = regex.compile(r"""([.!?])["')\]]{0,3}\s+(?=["']{0,2}[\p{Lu}\p{Lo}\p{N}])|[。！？।॥؟]["'」』）]{0,2}\s*|\n+""")
_NEXT_WORD = regex.compile(r"\p{L}++(?!\.)")
_LAST_WORD = regex.compile(r"[\p{L}.]+\Z")


def split_sentences(text: str) -> list[str]:
    """The sentences of a text, in order, normalised; none is empty or longer than LONGEST_SENTENCE characters."""
    return split_normalized(normalize_text(text))


def split_normalized(text: str) -> list[str]:
    """The sentences of a text that is normalised."""
    found: list[str] = []
    start = 0
    for match in _END.finditer(text):
        if match[1] and not _ends(text, start, match):
            continue
        found += _pieces(text[start : match.end()].strip())
        start = match.end()
    return found + _pieces(text[start:].strip())


def _ends(text: str, start: int, match: regex.Match[str]) -> bool:
    """Whether a sentence ends at this mark: not after an abbreviation or an initial, nor within brackets."""
    if match[1] == ".":
        word = _LAST_WORD.search(text, max(start, match.start() - 20), match.start())
        if word is not None and _abbreviated(word[0].lower()) and not _opens(text, match.end()):
            return False
    sentence = text[max(start, match.end() - MAX_SENTENCE_LENGTH) : match.end()]
    return sentence.count("(") <= sentence.count(")")


def _opens(text: str, position: int) -> bool:
    """Whether a word stands there that is no name: behind an abbreviation, its capital tells of a new sentence."""
    word = _NEXT_WORD.match(text, position)
    return word is not None and word[0].lower() in ENGLISH_FUNCTION_WORDS


def _abbreviated(word: str) -> bool:
    return word in ABBREVIATIONS or len(word) == 1 or ("." in word and len(word.split(".")[-1]) == 1)


def _pieces(sentence: str) -> list[str]:
    found = []
    while len(sentence) > MAX_SENTENCE_LENGTH:
        cut = sentence.rfind(" ", MAX_SENTENCE_LENGTH // 2, MAX_SENTENCE_LENGTH)
        cut = MAX_SENTENCE_LENGTH if cut < 0 else cut
        found.append(sentence[:cut].strip())
        sentence = sentence[cut:].strip()
    return [piece for piece in [*found, sentence] if piece]

"""Names taken apart: what is their head, what is left out before it and after, what they may be abbreviated to.

For names in English text; pure functions.
"""

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import regex

from ragindex.llm.rules.subjects import is_likely_person, may_be_person
from ragindex.llm.rules.tokens import is_number
from ragindex.llm.rules.words import (
    ARTICLES,
    CONJUNCTIONS,
    ENGLISH_FUNCTION_WORDS,
    HONORIFICS,
    MONTH_NAMES,
    PERSON_NOUNS,
    PREPOSITIONS,
    THING_NOUNS,
)
from ragindex.text_analysis import analyse


def name_words(text: str) -> frozenset[str]:
    """A list that is easy to read."""
    return frozenset(text.split())


_PARENTHESIS = regex.compile(r"^(.*\S)\s*\(([^()]+)\)$")
_ARTICLE = regex.compile(r"^(the|an?)\s+(?=\S)", regex.IGNORECASE)
_GENERATION = regex.compile(r"^(.*\S),?\s+(Jr|Sr|Junior|Senior)\.?$")
_COMPANY = regex.compile(
    r"^(.*[^\s,]),?\s+(Inc\.?|Incorporated|Ltd\.?|Limited|LLC|L\.L\.C\.|Corp\.?|Corporation|Co\.?|Company|plc|PLC|GmbH"
    r"|AG|S\.?A\.?|N\.?V\.?|S\.?p\.?A\.?|AB|Oy|A/S|Pty)$"
)
_FORM_OF_STATE = regex.compile(
    r"^(Republic|Kingdom|Commonwealth|Dominion|Principality|State|City|Town|Village) of (?!the\b)(?=\p{Lu})"
)
_TITLES = HONORIFICS | name_words(
    "Mr Mrs Ms Dr President King Queen Pope Emperor Empress Colonel General Captain Chancellor"
)
_WHEN = regex.compile(rf"^(.*\S) ((?:in|on|since) (?:(?:{'|'.join(MONTH_NAMES)})\b ?)?(?:\d{{1,2}}, )?[12]\d{{3}})$")
_ACRONYM = regex.compile(
    r"(?=(?:[^\p{Lu}]*\p{Lu}){2})\p{Lu}[\p{L}]{0,6}\p{Lu}s?|(?:\p{L}\.){2,8}|(?:\p{Lu}\.){1,7}\p{Lu}"
)
_INITIALS = regex.compile(r"\b(?:\p{Lu}\.){2,}")
_WORD = regex.compile(r"\p{L}[\p{L}\p{M}]*")
_NUMERAL = regex.compile(r"[ivxlc]+")
_SPELT_OUT = {"u s a": "united states", "u s": "united states", "u k": "united kingdom", "st": "saint", "mt": "mount"}
_SPELT_OUT |= {"US": "united states", "USA": "united states", "UK": "united kingdom"}
_NO_PERSONS = name_words("north south east west northern southern eastern western central new old greater upper lower")
_NO_NAMES = THING_NOUNS | PERSON_NOUNS | ENGLISH_FUNCTION_WORDS
_LONGEST = 80  # characters: what is longer is a clause, and no name


@dataclass(frozen=True)
class Name:
    """A name taken apart.

    `head` is what is left when an article, a title, a company's or a person's suffix and what qualifies it ("(film)",
    ", Kentucky", "in 1981") are `left`; `beside` are the qualifiers as they are written. `person`: it is written as the
    name of a person is, of two words at least.
    """

    text: str
    head: str
    left: tuple[str, ...]
    beside: tuple[str, ...]
    generation: str
    person: bool

    @cached_property
    def words(self) -> tuple[str, ...]:
        """The words of the head, folded."""
        return folded(self.head)

    @cached_property
    def parts(self) -> tuple[str, ...]:
        """A person's names, folded, each of one word: "Saxby-Junna" is one."""
        return tuple(filter(None, (_joined(folded(word)) for word in _spaced(self.head).split())))

    @cached_property
    def key(self) -> str:
        """What spellings of the head share: folded, without spaces or marks."""
        return _joined(self.words)

    @cached_property
    def whole(self) -> str:
        """The same of head and qualifiers."""
        return _joined(folded(" ".join([self.head, *self.beside, self.generation])))

    @cached_property
    def acronym(self) -> str:
        """Its letters, folded, where the whole name is an acronym; else ""."""
        known = " ".join(self.words) in _SPELT_OUT.values()
        return _letters(self.head) if not self.beside and not known and _ACRONYM.fullmatch(self.head) else ""

    @cached_property
    def stated(self) -> str:
        """The acronym that it states itself, as in "European Free Trade Association (EFTA)"; else ""."""
        inside = self.beside[0] if len(self.beside) == 1 and " " not in self.beside[0] else ""
        letters = _letters(inside) if _ACRONYM.fullmatch(inside) else ""
        return letters if _in_order(letters, self.words) else ""

    @cached_property
    def initials(self) -> str:
        """The initials of its words with capitals; "" where it is not written as what is abbreviated."""
        return self._abbreviated(frozenset())

    @cached_property
    def all_initials(self) -> str:
        """The same with those of small words but articles: DOD for the Department of Defense."""
        return self._abbreviated(ENGLISH_FUNCTION_WORDS - ARTICLES)

    def _abbreviated(self, counted: Container[str]) -> str:
        words = _WORD.findall(self.head)
        small = [word for word in words if word.islower()]
        initials = "".join(word[0] for word in words if not word.islower() or word in counted).lower()
        written = (
            len(words) > 1
            and words[0][:1].isupper()
            and max(map(len, words)) > 1
            and ENGLISH_FUNCTION_WORDS.issuperset(small)
        )
        return initials if written and len(initials) > 1 else ""

    @cached_property
    def last_name(self) -> bool:
        """Whether it may be a person's last name alone."""
        return self.head == self.text and self.head.isalpha() and may_be_person(self.head) and not self.acronym


def taken_apart(text: str, common: Container[str] = ()) -> Name:
    """The parts of a name. `common` are words that somebody writes without a capital: they are no person's name."""
    spaced = " ".join(text.split())
    head, beside = _unqualified(spaced)
    left: list[str] = []
    generation = ""
    if match := _GENERATION.match(head):
        head, generation = match[1], match[2][:1].lower() + "r"
    elif match := _COMPANY.match(head):
        head = match[1]
        left.append(match[2])
    for pattern in (_ARTICLE, _FORM_OF_STATE):
        if match := pattern.match(head):
            head = head[match.end() :]
            left.append(match[0].strip())
    head, title = _untitled(head)
    head = head.strip(" ,")
    return Name(spaced, head, (*left, *title), beside, generation, not beside and _person_like(head, common))


def _person_like(head: str, common: Container[str]) -> bool:
    words = _spaced(head).lower().split()
    plain = "/" not in head and "'s" not in head.replace("’", "'") and not _ACRONYM.fullmatch(head)
    known = any(word in common or word in _NO_PERSONS for word in words) or is_numeral(words[-1] if words else "")
    return plain and not known and is_likely_person(_spaced(head))


def _spaced(head: str) -> str:
    """Initials as words of their own: "J.K. Rowling" is "J. K. Rowling"."""
    return " ".join(_INITIALS.sub(lambda match: match[0].replace(".", ". "), head).split())


def _unqualified(text: str) -> tuple[str, tuple[str, ...]]:
    """What qualifies a name at its end: a parenthesis, a year or day, the places after commas."""
    beside: tuple[str, ...] = ()
    if match := _PARENTHESIS.match(text):
        text, beside = match[1], (match[2],)
    if (match := _WHEN.match(text)) and text[:1].isupper():
        text, beside = match[1], (match[2], *beside)
    first, *places = text.split(", ")
    if places and first[:1].isupper() and all(map(_place, places)) and not is_number(text):
        return first, (*places, *beside)
    return text, beside


def _place(text: str) -> bool:
    words = text.split()
    suffix = _GENERATION.match(f"X {text}") or _COMPANY.match(f"X {text}")
    capitals = all(word[:1].isupper() or word == "of" for word in words)
    return 0 < len(words) < 4 and not suffix and capitals and not CONJUNCTIONS & {*text.lower().split()}


def _untitled(head: str) -> tuple[str, tuple[str, ...]]:
    """Without "President" and the like, where what is left may be a person's whole name."""
    first, _, rest = head.partition(" ")
    return (rest, (first,)) if first in _TITLES and is_likely_person(rest) else (head, ())


def folded(text: str) -> tuple[str, ...]:
    """Words in folded case, without marks; what everybody knows is spelt out: U.S. is United States."""
    plain = _INITIALS.sub(lambda match: match[0].replace(".", ". "), text.replace("&", " and "))
    words = [_SPELT_OUT.get(word) or word for word in plain.split()]
    folded = f" {' '.join(analyse(' '.join(words), 'none'))} "
    for short, long in _SPELT_OUT.items():
        folded = folded.replace(f" {short} ", f" {long} ")
    return tuple(folded.split())


def _joined(words: Sequence[str]) -> str:
    """Without spaces, but for those between digits: 3.5 is not 35."""
    return regex.sub(r"(?<!\d) | (?!\d)", "", " ".join(words))


def _letters(text: str) -> str:
    letters = "".join(_WORD.findall(text))
    return (letters[:-1] if letters.endswith("s") else letters).lower()


def is_numeral(word: str) -> bool:
    """Whether it is written as a Roman numeral."""
    return _NUMERAL.fullmatch(word.lower()) is not None


def _in_order(letters: str, words: Sequence[str]) -> bool:
    """Whether an acronym begins as the words do and its letters come in their order."""
    rest = iter("".join(words))
    return len(words) > 1 and letters[:1] == words[0][:1] != "" and all(letter in rest for letter in letters)


def may_be_a_name(text: str) -> bool:
    """Whether a side of a statement about names can be one: no common noun alone, nothing that only goes on with it."""
    words = text.split()
    if not words or len(text) > _LONGEST or words[0].lower() in PREPOSITIONS:
        return False
    return not all(word.lower() in _NO_NAMES for word in words)


# ---------------------------------------------------------------- by which they are compared

WITHIN = "within"
"""What keys begin with that hold only within one passage."""


def keys(name: Name) -> Iterator[str]:
    """Names that share none of these are not compared. The longer name of a person has that of the last word."""
    if len(name.text) > _LONGEST or not name.key:
        return
    yield f"words {name.key}"
    if name.whole != name.key:
        yield f"words {name.whole}"
    for letters in sorted({name.acronym, name.stated, name.initials, name.all_initials} - {""}):
        yield f"letters {letters}" if len(letters) > 2 else f"{WITHIN} letters {letters}"
    if name.person and len(name.parts) > 1:
        yield f"ends {name.parts[0]} {name.parts[-1]}"
    if name.person or name.last_name:
        yield f"{WITHIN} {name.parts[-1]}"

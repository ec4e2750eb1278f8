"""Parsing of names into head, qualifiers, titles, suffixes and abbreviations.

Pure functions, for names in English text.
"""

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import regex

from ragindex.english import is_likely_person, is_number, may_be_person
from ragindex.english.words import (
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
    """Return the words of a text as a set, so that word lists stay easy to read."""
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
_DATE_QUALIFIER = regex.compile(
    rf"^(.*\S) ((?:in|on|since) (?:(?:{'|'.join(MONTH_NAMES)})\b ?)?(?:\d{{1,2}}, )?[12]\d{{3}})$"
)
_ACRONYM = regex.compile(
    r"(?=(?:[^\p{Lu}]*\p{Lu}){2})\p{Lu}[\p{L}]{0,6}\p{Lu}s?|(?:\p{L}\.){2,8}|(?:\p{Lu}\.){1,7}\p{Lu}"
)
_INITIALS = regex.compile(r"\b(?:\p{Lu}\.){2,}")
_WORD = regex.compile(r"\p{L}[\p{L}\p{M}]*")
_NUMERAL = regex.compile(r"[ivxlc]+")
_EXPANSIONS = {"u s a": "united states", "u s": "united states", "u k": "united kingdom", "st": "saint", "mt": "mount"}
_EXPANSIONS |= {"US": "united states", "USA": "united states", "UK": "united kingdom"}
_NON_PERSON_WORDS = name_words(
    "north south east west northern southern eastern western central new old greater upper lower"
)
_COMMON_WORDS = THING_NOUNS | PERSON_NOUNS | ENGLISH_FUNCTION_WORDS
_MAX_LENGTH = 80  # characters; a longer text is a clause, not a name


@dataclass(frozen=True)
class Name:
    """A parsed name.

    `head` is the name without article, title, suffix of a company or person, and qualifier ("(film)", ",
    Kentucky", "in 1981"). `left` are the parts that were removed, `beside` the qualifiers as written,
    `generation` is "jr", "sr" or "". `person`: the name is written like the name of a person, with at least two
    words.
    """

    text: str
    head: str
    left: tuple[str, ...]
    beside: tuple[str, ...]
    generation: str
    person: bool

    @cached_property
    def words(self) -> tuple[str, ...]:
        """Return the folded words of the head."""
        return folded(self.head)

    @cached_property
    def parts(self) -> tuple[str, ...]:
        """Return the names of a person, folded; "Saxby-Junna" is one."""
        return tuple(filter(None, (_join_words(folded(word)) for word in _space_initials(self.head).split())))

    @cached_property
    def key(self) -> str:
        """Return the key that all spellings of the head share: folded, without spaces or marks."""
        return _join_words(self.words)

    @cached_property
    def full_key(self) -> str:
        """Return the same key for head, qualifiers and generation together."""
        return _join_words(folded(" ".join([self.head, *self.beside, self.generation])))

    @cached_property
    def acronym(self) -> str:
        """Return the folded letters if the whole name is an acronym; else ""."""
        known = " ".join(self.words) in _EXPANSIONS.values()
        return _fold_letters(self.head) if not self.beside and not known and _ACRONYM.fullmatch(self.head) else ""

    @cached_property
    def stated(self) -> str:
        """Return the acronym that the name itself states, as in "European Free Trade Association (EFTA)"; else ""."""
        inside = self.beside[0] if len(self.beside) == 1 and " " not in self.beside[0] else ""
        letters = _fold_letters(inside) if _ACRONYM.fullmatch(inside) else ""
        return letters if _is_abbreviation(letters, self.words) else ""

    @cached_property
    def initials(self) -> str:
        """Return the initials of the capitalized words; "" if the name is not written like one that is abbreviated."""
        return self._abbreviated(frozenset())

    @cached_property
    def all_initials(self) -> str:
        """Return the initials including those of small words other than articles: DOD for Department of Defense."""
        return self._abbreviated(ENGLISH_FUNCTION_WORDS - ARTICLES)

    def _abbreviated(self, counted: Container[str]) -> str:
        words = _WORD.findall(self.head)
        small = [word for word in words if word.islower()]
        initials = "".join(word[0] for word in words if not word.islower() or word in counted).lower()
        abbreviation = (
            len(words) > 1
            and words[0][:1].isupper()
            and max(map(len, words)) > 1
            and ENGLISH_FUNCTION_WORDS.issuperset(small)
        )
        return initials if abbreviation and len(initials) > 1 else ""

    @cached_property
    def last_name(self) -> bool:
        """Return whether the name may be the last name of a person alone."""
        return self.head == self.text and self.head.isalpha() and may_be_person(self.head) and not self.acronym


def taken_apart(text: str, common: Container[str] = ()) -> Name:
    """Parse a name.

    `common` are words that some name writes without a capital: they are not part of a person's name.
    """
    spaced = " ".join(text.split())
    head, beside = _split_qualifiers(spaced)
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
    head, title = _split_title(head)
    head = head.strip(" ,")
    return Name(spaced, head, (*left, *title), beside, generation, not beside and _is_person_like(head, common))


def _is_person_like(head: str, common: Container[str]) -> bool:
    words = _space_initials(head).lower().split()
    plain = "/" not in head and "'s" not in head.replace("’", "'") and not _ACRONYM.fullmatch(head)
    known = any(word in common or word in _NON_PERSON_WORDS for word in words) or is_numeral(words[-1] if words else "")
    return plain and not known and is_likely_person(_space_initials(head))


def _space_initials(head: str) -> str:
    """Separate initials: "J.K. Rowling" becomes "J. K. Rowling"."""
    return " ".join(_INITIALS.sub(lambda match: match[0].replace(".", ". "), head).split())


def _split_qualifiers(text: str) -> tuple[str, tuple[str, ...]]:
    """Split a name into head and qualifiers: a parenthesis, a year or day, the places after commas."""
    beside: tuple[str, ...] = ()
    if match := _PARENTHESIS.match(text):
        text, beside = match[1], (match[2],)
    if (match := _DATE_QUALIFIER.match(text)) and text[:1].isupper():
        text, beside = match[1], (match[2], *beside)
    first, *places = text.split(", ")
    if places and first[:1].isupper() and all(map(_is_place, places)) and not is_number(text):
        return first, (*places, *beside)
    return text, beside


def _is_place(text: str) -> bool:
    words = text.split()
    suffix = _GENERATION.match(f"X {text}") or _COMPANY.match(f"X {text}")
    capitals = all(word[:1].isupper() or word == "of" for word in words)
    return 0 < len(words) < 4 and not suffix and capitals and not CONJUNCTIONS & {*text.lower().split()}


def _split_title(head: str) -> tuple[str, tuple[str, ...]]:
    """Split off a title such as "President" if the rest may be the full name of a person."""
    first, _, rest = head.partition(" ")
    return (rest, (first,)) if first in _TITLES and is_likely_person(rest) else (head, ())


def folded(text: str) -> tuple[str, ...]:
    """Return the case-folded words without marks, with common abbreviations spelt out: U.S. becomes United States."""
    plain = _INITIALS.sub(lambda match: match[0].replace(".", ". "), text.replace("&", " and "))
    words = [_EXPANSIONS.get(word) or word for word in plain.split()]
    folded = f" {' '.join(analyse(' '.join(words), 'none'))} "
    for short, long in _EXPANSIONS.items():
        folded = folded.replace(f" {short} ", f" {long} ")
    return tuple(folded.split())


def _join_words(words: Sequence[str]) -> str:
    """Join words without spaces, except between digits: 3.5 is not 35."""
    return regex.sub(r"(?<!\d) | (?!\d)", "", " ".join(words))


def _fold_letters(text: str) -> str:
    letters = "".join(_WORD.findall(text))
    return (letters[:-1] if letters.endswith("s") else letters).lower()


def is_numeral(word: str) -> bool:
    """Return whether a word is written as a Roman numeral."""
    return _NUMERAL.fullmatch(word.lower()) is not None


def _is_abbreviation(letters: str, words: Sequence[str]) -> bool:
    """Return whether an acronym starts like the words and its letters occur in them in order."""
    rest = iter("".join(words))
    return len(words) > 1 and letters[:1] == words[0][:1] != "" and all(letter in rest for letter in letters)


def may_be_a_name(text: str) -> bool:
    """Return whether a text can be a name.

    It must not be empty or overlong, consist of common nouns alone, or start with a preposition.
    """
    words = text.split()
    if not words or len(text) > _MAX_LENGTH or words[0].lower() in PREPOSITIONS:
        return False
    return not all(word.lower() in _COMMON_WORDS for word in words)


# ---------------------------------------------------------------- keys of names

WITHIN = "within"
"""Prefix of keys that hold only within one passage."""


def keys(name: Name) -> Iterator[str]:
    """Yield the keys under which a name is compared; names without a shared key are not compared.

    The full name of a person also has the key of its last word.
    """
    if len(name.text) > _MAX_LENGTH or not name.key:
        return
    yield f"words {name.key}"
    if name.full_key != name.key:
        yield f"words {name.full_key}"
    for letters in sorted({name.acronym, name.stated, name.initials, name.all_initials} - {""}):
        yield f"letters {letters}" if len(letters) > 2 else f"{WITHIN} letters {letters}"
    if name.person and len(name.parts) > 1:
        yield f"ends {name.parts[0]} {name.parts[-1]}"
    if name.person or name.last_name:
        yield f"{WITHIN} {name.parts[-1]}"

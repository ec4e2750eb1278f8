"""Alias-like predicates, which state that subject and object are names of one thing: a rule on English words."""

from collections.abc import Iterator

from ragindex.text_analysis import analyse
from ragindex_retrievers.griever.parts.alias_names import name_words


def _split_phrases(text: str) -> frozenset[str]:
    return frozenset(" ".join(phrase.split()) for phrase in text.split(","))


_COPULAS = name_words("is was are were be been being")
_ADVERBS = name_words("""
    also formerly previously originally initially first once now currently presently later then subsequently today
    recently alternatively alternately otherwise sometimes often occasionally commonly usually generally frequently
    popularly colloquially informally unofficially officially formally legally affectionately historically locally
    internationally traditionally simply better best widely more properly professionally collectively
""")
_FILLERS = name_words("has had have having a an became becomes become came come will")

SAY_SO = _split_phrases("""
    known as, known by the name, known under the name, known by the nickname, known by the stage name, referred to as,
    nicknamed, nicknamed as, nickname, nickname of, nickname for, dubbed, alias, alias of, alias for, aka,
    born as, same as, same person as, same thing as, one and same as,
    renamed, renamed to, renamed as, renamed from, changed name to, changed name from, changed its name to,
    changed its name from, changed its trading name to, changed his name to, changed her name to, changed their name to,
    name changed to, name changed from, title changed to, title changed from, rebranded as, rebranded to, retitled,
    retitled as, retitled to, abbreviated, abbreviated as, abbreviated to, abbreviation, abbreviation of,
    abbreviation for, shortened to, shortened as, short for, short form of, stands for, stand for, stood for, acronym,
    acronym of, acronym for, initialism of, initialism for, synonym, synonym of, synonym for, synonymous with,
    used as synonym for, treated as synonym of, goes by, goes by the name, goes by the name of, went by,
    went by the name, went by the name of, played under the name, sold under the name, performs as,
    performs under the name, credited as, billed as, spelled, spelled as, spelt, spelt as, written as, translated as,
    translates as, transliterated as, romanized as, styled as, stylized as, branded as, trades as, trading as,
    doing business as, codenamed, codenamed as, code named, code named as
""")
"""Alias-like phrases without copulas, adverbs and fillers: "was formerly known as" becomes "known as"."""

_NAMED_BY_ADVERB = _split_phrases("named, called, titled, entitled, designated, name, title")
"""Phrases that are alias-like only with an adverb ("originally named"): "named" alone says who gave a name."""

_NAMED_BY_COPULA = _split_phrases("called")
"""Phrases that are alias-like also as a passive ("is called"), but not as an active verb (who called for what)."""

_KINDS_OF_NAME = name_words("""
    full real birth maiden stage pen brand official original former short long alternative other another common
    scientific legal public old new previous current native
""")
_OF_NAME = _split_phrases("name, name of, name for, name as, title, title of")


def alias_predicate(predicate: str) -> bool:
    """Return whether a predicate states that subject and object are the same.

    Examples: "is also known as", "stands for", "has official name".
    """
    words = analyse(predicate.replace("a.k.a", "aka"), "none")
    held = [word for word in words if word not in _COPULAS and word not in _FILLERS]
    held = held[held[:1] == ["the"] :]
    core = [word for word in held if word not in _ADVERBS]
    return " ".join(core) in SAY_SO or " ".join(held) in SAY_SO or any(_check_naming(words, held, core))


def _check_naming(words: list[str], held: list[str], core: list[str]) -> Iterator[bool]:
    phrase = " ".join(core)
    yield phrase in _NAMED_BY_ADVERB and len(held) > len(core)
    yield phrase in _NAMED_BY_COPULA and not _COPULAS.isdisjoint(words)
    yield len(core) > 1 and core[0] in _KINDS_OF_NAME and " ".join(core[1:]) in _OF_NAME

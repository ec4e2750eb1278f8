"""Words that names and facts are made of, read from words.txt."""

from ragindex_eval.data.worlds.blocks import read_blocks

_LISTS = {
    head: tuple(part.strip() for part in text.split("|" if "|" in text else None))
    for head, lines in read_blocks("words.txt")
    for text in [" ".join(lines)]
}

WOMEN, MEN = _LISTS["women"], _LISTS["men"]
FIRST_NAMES = tuple(name for pair in zip(WOMEN, (*MEN, ""), strict=True) for name in pair if name)
"""Women's names at even places, men's at odd ones. Their number is a prime, which naming relies on."""

ONSETS, VOWELS, MIDDLES = _LISTS["onsets"], _LISTS["vowels"], _LISTS["middles"]
ENDINGS = {head.removesuffix(" endings"): words for head, words in _LISTS.items() if head.endswith(" endings")}
"""Endings by kind; each begins with a vowel, so that an invented name can be split in one way only."""

TOWN_SHAPES, REGION_SHAPES = _LISTS["town shapes"], _LISTS["region shapes"]
ADJECTIVES, NOUNS, PRIZES = _LISTS["adjectives"], _LISTS["nouns"], _LISTS["prizes"]
TITLE_ENDS = ("", *(f" {end}" for end in _LISTS["title ends"]))

PRODUCTS = tuple((ending, product) for ending, _, product in (one.partition(": ") for one in _LISTS["products"]))
"""Ending of a company's name, and its product. The first two are assigned by slot; the others are 23, a prime."""

TYPES = {creator: made for creator, _, made in (one.partition(": ") for one in _LISTS["creators"])}
CREATORS, PROFESSIONS = tuple(TYPES), _LISTS["professions"]
CURRENCIES, TRADES, SEAS = _LISTS["currencies"], _LISTS["trades"], _LISTS["seas"]

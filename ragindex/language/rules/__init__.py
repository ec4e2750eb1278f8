"""Rules that do a language model's jobs without one: deterministic, pure functions on values, work linear in the text.

They are written for English with capitals. What they find is links between names, in the words of the text, and no
facts to quote.
"""

from ragindex.language.rules.answering import answer
from ragindex.language.rules.extracting import ALSO, Extraction, Proposition, entity_key, extract
from ragindex.language.rules.mentions import Mention, MentionKind, mentions
from ragindex.language.rules.nearest import nearest_texts, nearest_triples
from ragindex.language.rules.relations import ASSOCIATED
from ragindex.language.rules.sentences import LONGEST_TEXT, normalised, sentences
from ragindex.language.rules.summarising import summarise
from ragindex.language.rules.tokens import is_number

__all__ = [
    "ALSO",
    "ASSOCIATED",
    "LONGEST_TEXT",
    "Extraction",
    "Mention",
    "MentionKind",
    "Proposition",
    "answer",
    "entity_key",
    "extract",
    "is_number",
    "mentions",
    "nearest_texts",
    "nearest_triples",
    "normalised",
    "sentences",
    "summarise",
]

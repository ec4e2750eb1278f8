"""Rules that do a language model's jobs without one: deterministic, pure functions on values, work linear in the text.

They are written for English with capitals. What they find is links between names, in the words of the text, and no
facts to quote.
"""

from ragindex.llm.rules.answering import answer
from ragindex.llm.rules.extracting import ALSO, Extraction, Proposition, entity_key, extract
from ragindex.llm.rules.lexical_overlap import nearest_texts, nearest_triples
from ragindex.llm.rules.mentions import Mention, MentionKind, mentions
from ragindex.llm.rules.sentences import LONGEST_TEXT, normalize_text, sentences
from ragindex.llm.rules.summarising import summarise
from ragindex.llm.rules.tokens import is_number
from ragindex.llm.rules.triples import ASSOCIATED

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
    "normalize_text",
    "sentences",
    "summarise",
]

"""Rules that do a language model's jobs without one: deterministic, pure functions on values, work linear in the text.

They are written for English with capitals. What they find is links between names, in the words of the text, and no
facts to quote.
"""

from ragindex.llm.rules.answering import extract_answer
from ragindex.llm.rules.extracting import ALSO, ExtractedProposition, Extraction, entity_key, extract
from ragindex.llm.rules.lexical_overlap import nearest_texts, nearest_triples
from ragindex.llm.rules.mentions import MentionSpan, MentionSpanKind, find_mentions
from ragindex.llm.rules.sentences import MAX_TEXT_LENGTH, normalize_text, split_sentences
from ragindex.llm.rules.summarising import summarise
from ragindex.llm.rules.tokens import is_number
from ragindex.llm.rules.triples import ASSOCIATED

__all__ = [
    "ALSO",
    "ASSOCIATED",
    "MAX_TEXT_LENGTH",
    "ExtractedProposition",
    "Extraction",
    "MentionSpan",
    "MentionSpanKind",
    "entity_key",
    "extract",
    "extract_answer",
    "find_mentions",
    "is_number",
    "nearest_texts",
    "nearest_triples",
    "normalize_text",
    "split_sentences",
    "summarise",
]

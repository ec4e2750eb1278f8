"""Rules that do LLM tasks without a model: deterministic pure functions whose run time is linear in the text.

They are written for English text with capitals. They find links between names, in the words of the text; their output
is not meant to be quoted as fact.
"""

from ragindex.llm.rules.answering import extract_answer
from ragindex.llm.rules.extracting import ALSO, ExtractedProposition, Extraction, entity_key, extract
from ragindex.llm.rules.lexical_overlap import nearest_texts, nearest_triples
from ragindex.llm.rules.mentions import MentionSpan, MentionSpanKind, find_mentions
from ragindex.llm.rules.sentences import MAX_TEXT_LENGTH, find_sentences, normalize_text, split_sentences
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
    "find_sentences",
    "is_number",
    "nearest_texts",
    "nearest_triples",
    "normalize_text",
    "split_sentences",
    "summarise",
]

"""Rules for English text with capitals: sentences, names, triples, answers and summaries without a model.

They are deterministic pure functions whose run time is linear in the text. They find links between names, in the words
of the text; their output is not meant to be quoted as fact. Tokens of texts, in any language, are those of
`ragindex.text_analysis`; the word lists are in `ragindex.english.words`.
"""

from ragindex.english.answering import (
    ChainFact,
    extract_answer,
    find_new_name,
    find_next_fact,
    list_facts,
    nearest_texts,
    nearest_triples,
    overlaps,
    unmentioned_names,
    unmentioned_words,
    write_sentence,
)
from ragindex.english.coreference import is_likely_person, may_be_person, strip_brackets
from ragindex.english.extracting import ALSO, ExtractedProposition, Extraction, entity_key, extract
from ragindex.english.mentions import MentionSpan, MentionSpanKind, find_mentions, find_names
from ragindex.english.sentences import MAX_TEXT_LENGTH, find_sentences, is_number, normalize_text, split_sentences
from ragindex.english.summarising import summarise
from ragindex.english.triples import ASSOCIATED

__all__ = [
    "ALSO",
    "ASSOCIATED",
    "MAX_TEXT_LENGTH",
    "ChainFact",
    "ExtractedProposition",
    "Extraction",
    "MentionSpan",
    "MentionSpanKind",
    "entity_key",
    "extract",
    "extract_answer",
    "find_mentions",
    "find_names",
    "find_new_name",
    "find_next_fact",
    "find_sentences",
    "is_likely_person",
    "is_number",
    "list_facts",
    "may_be_person",
    "nearest_texts",
    "nearest_triples",
    "normalize_text",
    "overlaps",
    "split_sentences",
    "strip_brackets",
    "summarise",
    "unmentioned_names",
    "unmentioned_words",
    "write_sentence",
]

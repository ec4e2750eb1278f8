"""Notes on the words of a question: which of them passages contain, and which the encoder does not know."""

from collections.abc import Sequence

from ragindex._util.text import first_names
from ragindex.corpus import passage_text
from ragindex.index.index import Index
from ragindex.index.notes import suggest_for_unknown_words
from ragindex.interfaces import Scheme, TextQuery, VocabularyEncoder
from ragindex.parts.text.passages import Passages

_SEEN_PASSAGES = 20  # of those that hold a word: whether any has it as it is asked


def find_words_in_passages(index: Index, scheme: Scheme, words: Sequence[str]) -> list[str]:
    """Return those of `words` that a passage of the index contains, by the text search of the scheme's passages."""
    return list(_find_texts(index, scheme, words))


def _find_texts(index: Index, scheme: Scheme, words: Sequence[str]) -> dict[str, list[str]]:
    """Return the best passages for each word that any contains, as it is or in another form."""
    passages = [part for part in index.all_parts(scheme) if isinstance(part, Passages)]
    if not words or not passages:
        return {}
    queries = [TextQuery(word, _SEEN_PASSAGES, ("title", "text")) for word in words]
    found = zip(words, index.open_part(passages[0]).search(queries), strict=True)
    return {
        word: [
            passage_text(title, text)
            for title, text in zip(*(one.records.column(name).to_pylist() for name in ("title", "text")), strict=True)
        ]
        for word, one in found
        if one.ids
    }


def describe_question_words(index: Index, scheme: Scheme, question: str) -> str | None:
    """Return a sentence if the scheme's encoder does not know words of a question that passages contain, or any word.

    Methods with vectors rank by the other words then, so that the passages with these may come late.
    """
    name = index.encoder_of(scheme)
    if name is None:
        return None
    encoder = index.encoder
    if not isinstance(encoder, VocabularyEncoder):  # others know parts of every word
        return None
    checked = encoder.check_words(question)
    unknown = [word for word, is_known in checked.items() if not is_known]
    held = _find_texts(index, scheme, unknown)
    if held:
        # a new fit learns words as they stand in the passages, and no other forms of them
        learns = any(word in encoder.check_words(text) for word, texts in held.items() for text in texts)
        form, advice = ("", f" {suggest_for_unknown_words(index)}") if learns else (" in other forms", "")
        return (
            f"The encoder {name} does not know {first_names(list(held))}, which passages contain{form}: vectors rank "
            "by the other words, so these passages may come late or not at all. To search by words: --method bm25."
            f"{advice}"
        )
    if encoder.encode_queries([question]).any():
        return None
    known = [word for word in checked if word not in unknown]
    if known:
        return (
            f"The encoder {name} knows {first_names(known)}, but its vector of the question is empty, so nothing is "
            f"found by vectors. {suggest_for_unknown_words(index)}"
        )
    return (
        f"No word of the question is known to the encoder {name}, so nothing is found by vectors. Ask in words of "
        "the documents, or with a method that searches by words: --method bm25."
    )

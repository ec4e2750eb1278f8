"""Notes on the words of a question: which of them passages contain, and which the encoder does not know."""

from collections.abc import Sequence

from ragindex.counts import first_names
from ragindex.interfaces import Scheme, TextQuery, VocabularyEncoder
from ragindex.parts.text.passages import Passages
from ragindex.workspace.notes import suggest_for_unknown_words
from ragindex.workspace.part_keys import uses_encoder
from ragindex.workspace.workspace import Workspace


def find_words_in_passages(workspace: Workspace, scheme: Scheme, words: Sequence[str]) -> list[str]:
    """Return those of `words` that a passage of the index contains, by the text search of the scheme's passages."""
    passages = [part for part in workspace.all_parts(scheme) if isinstance(part, Passages)]
    if not words or not passages:
        return []
    found = workspace.open_part(passages[0]).search([TextQuery(word, 1) for word in words])
    return [word for word, one in zip(words, found, strict=True) if one.ids]


def describe_question_words(workspace: Workspace, scheme: Scheme, question: str) -> str | None:
    """Return a sentence if the scheme's encoder does not know words of a question that passages contain, or any word.

    Methods with vectors rank by the other words then, so that the passages with these may come late.
    """
    if not any(uses_encoder(part) for part in workspace.all_parts(scheme)):
        return None
    encoder, name = workspace.encoder, workspace.encoder_name
    if not isinstance(encoder, VocabularyEncoder):  # others know parts of every word
        return None
    unknown = [word for word, is_known in encoder.check_words(question).items() if not is_known]
    held = find_words_in_passages(workspace, scheme, unknown)
    if held:
        return (
            f"The encoder {name} does not know {first_names(held)}, which passages contain: vectors rank by the other "
            "words, so these passages may come late or not at all. To search by words: --method bm25. "
            f"{suggest_for_unknown_words(workspace)}"
        )
    if not encoder.encode_queries([question]).any():
        return (
            f"No word of the question is known to the encoder {name}, so nothing is found by vectors. Ask in words of "
            "the documents, or with a method that searches by words: --method bm25. "
            f"Documents that were added since its fit may have these words. {suggest_for_unknown_words(workspace)}"
        )
    return None

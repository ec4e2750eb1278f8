"""The texts of a cluster, as an LLM is shown them: cut to a limit, and without the lines that repeat."""

from collections.abc import Sequence

from ragindex.llm.answer_question import build_context
from ragindex.llm.tokens import count_text_tokens


def count_shown_tokens(text: str) -> int:
    """Return the tokens (estimated) of a text and its separator, as `answer_question.build_context` counts them."""
    return count_text_tokens(f"{text}\n\n", "").tokens


def cut_texts(texts: list[str], limit: int) -> list[str]:
    """Return the texts, with the longest ones cut to a common length if all exceed `limit` tokens (estimated)."""
    left = limit
    for place, size in enumerate(sorted(map(count_shown_tokens, texts))):
        share = left // (len(texts) - place)
        if size > share:
            return [
                text if count_shown_tokens(text) <= share else "".join(build_context((), [text], share).notes)
                for text in texts
            ]
        left -= size
    return texts


def drop_repeated_lines(texts: Sequence[str]) -> list[str]:
    """Return the texts without lines that stand in one before them, and without texts of which nothing is left.

    Aggregates of entities that share propositions repeat them line by line. The rules weigh what is repeated, so they
    get the whole texts.
    """
    seen: set[str] = set()
    left = []
    for text in texts:
        lines = [line for line in text.split("\n") if line.strip() not in seen]
        seen.update(line.strip() for line in text.split("\n") if line.strip())
        left.append("\n".join(lines))
    return [text for text in left if text.strip()]

"""How many words of texts an encoder knows."""

from dataclasses import dataclass

from ragindex.interfaces import Encoder


@dataclass(frozen=True, slots=True)
class WordCount:
    """How many words there are, and how many of them an encoder does not know. A word counts once in each text."""

    words: int = 0
    unknown: int = 0

    @property
    def unknown_share(self) -> float:
        """The share of the words that is unknown."""
        return self.unknown / self.words if self.words else 0.0

    def __add__(self, other: "WordCount") -> "WordCount":
        return WordCount(self.words + other.words, self.unknown + other.unknown)


def count_words(encoder: Encoder, text: str) -> WordCount:
    """Count the words of a text; none of an encoder that knows parts of every word."""
    known = encoder.check_words(text) or {}
    return WordCount(len(known), sum(not is_known for is_known in known.values()))

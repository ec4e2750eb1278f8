"""Extractive summaries: the most representative sentences of texts."""

from collections import Counter
from collections.abc import Iterator, Sequence

from ragindex.english.sentences import MAX_TEXT_LENGTH, split_sentences
from ragindex.text_analysis import analyse

_MOST_SENTENCES = 500
_MIN_TOKENS = 4  # a shorter sentence counts as so many tokens, as it makes a poor summary


def summarise(texts: Sequence[str], max_words: int = 100, language: str = "english") -> str:
    """Return the most representative sentences of texts, in their order, with at most `max_words` words.

    Sentences are selected greedily: each time the one with the highest mean frequency of its distinct tokens, whose
    frequencies are then squared (SumBasic; Nenkova and Vanderwende 2005). If no sentence fits, the one with the most
    tokens is truncated. Return "" if the texts are empty. At most 500 sentences are read.
    """
    sentences = list(_list_sentences(texts))
    tokens = [tuple(dict.fromkeys(analyse(sentence, language))) for sentence in sentences]
    chosen = _choose_sentences([len(sentence.split()) for sentence in sentences], tokens, max_words)
    if not chosen and sentences and max_words > 0:
        longest = max(range(len(sentences)), key=lambda place: (len(tokens[place]), -place))
        return " ".join(sentences[longest].split()[:max_words])
    return " ".join(sentences[place] for place in sorted(chosen))


def _list_sentences(texts: Sequence[str]) -> Iterator[str]:
    """Yield the distinct sentences, within the limits of sentences and characters."""
    earlier: set[str] = set()
    characters = 0
    for text in texts:
        for sentence in split_sentences(text):
            if sentence not in earlier:
                earlier.add(sentence)
                yield sentence
            if len(earlier) >= _MOST_SENTENCES:
                return
        characters += len(text)
        if characters >= MAX_TEXT_LENGTH:
            return


def _choose_sentences(words: Sequence[int], tokens: Sequence[Sequence[str]], max_words: int) -> list[int]:
    """Return the places of the sentences of a summary, in the order of choice, given the number of `words` of each."""
    counts = Counter(token for each in tokens for token in each)
    total = sum(counts.values())
    share = {token: count / total for token, count in counts.items()}

    def score(place: int) -> tuple[float, int]:
        return sum(share[token] for token in tokens[place]) / max(len(tokens[place]), _MIN_TOKENS), -place

    left = [place for place, each in enumerate(tokens) if each]
    chosen: list[int] = []
    while left := [place for place in left if words[place] <= max_words]:
        best = max(left, key=score)
        chosen.append(best)
        max_words -= words[best]
        left.remove(best)
        share |= {token: share[token] ** 2 for token in tokens[best]}
    return chosen

"""Extractive summaries: the most representative sentences of texts."""

from collections import Counter
from collections.abc import Iterator, Sequence

from ragindex.english.sentences import MAX_TEXT_LENGTH, split_sentences
from ragindex.text_analysis import analyse

_MOST_SENTENCES = 500
_MIN_TOKENS = 4


def summarise(texts: Sequence[str], max_words: int = 100, language: str = "english") -> str:
    """Return the most representative sentences of texts, in their order, with at most `max_words` words.

    Sentences are selected greedily: each time the one with the highest mean frequency of its distinct tokens, whose
    frequencies are then squared (SumBasic; Nenkova and Vanderwende 2005). If no sentence fits, the one with the most
    tokens is truncated. Return "" if the texts are empty. At most 500 sentences are read.
    """
    held = list(_yield_sentences(texts))
    tokens = [tuple(dict.fromkeys(analyse(sentence, language))) for sentence in held]
    chosen = _choose_sentences(held, tokens, max_words)
    if not chosen and held and max_words > 0:
        best = max(range(len(held)), key=lambda place: (len(tokens[place]), -place))
        return " ".join(held[best].split()[:max_words])
    return " ".join(held[place] for place in sorted(chosen))


def _yield_sentences(texts: Sequence[str]) -> Iterator[str]:
    """Yield the distinct sentences, within the limits of sentences and characters."""
    seen: set[str] = set()
    characters = 0
    for text in texts:
        for sentence in split_sentences(text):
            if sentence not in seen:
                seen.add(sentence)
                yield sentence
            if len(seen) >= _MOST_SENTENCES:
                return
        characters += len(text)
        if characters >= MAX_TEXT_LENGTH:
            return


def _choose_sentences(held: Sequence[str], tokens: Sequence[Sequence[str]], room: int) -> list[int]:
    counts = Counter(token for one in tokens for token in one)
    total = sum(counts.values())
    share = {token: count / total for token, count in counts.items()}
    left = [place for place, one in enumerate(tokens) if one]
    chosen: list[int] = []
    while True:
        left = [place for place in left if len(held[place].split()) <= room]
        if not left:
            return chosen
        best = max(left, key=lambda place: (_score_sentence(tokens[place], share), -place))
        chosen.append(best)
        room -= len(held[best].split())
        left.remove(best)
        share |= {token: share[token] ** 2 for token in tokens[best]}


def _score_sentence(tokens: Sequence[str], share: dict[str, float]) -> float:
    """Return the mean token frequency; a shorter sentence counts as four tokens, as it makes a poor summary."""
    return sum(share[token] for token in tokens) / max(len(tokens), _MIN_TOKENS)

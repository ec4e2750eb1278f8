"""Summaries made of the sentences of the texts."""

from collections import Counter
from collections.abc import Iterator, Sequence

from ragindex.llm.rules.sentences import MAX_TEXT_LENGTH, split_sentences
from ragindex.text_analysis import analyse

_MOST_SENTENCES = 500
_FEWEST_TOKENS = 4


def summarise(texts: Sequence[str], max_words: int = 100, language: str = "english") -> str:
    """The sentences that say most of what the texts say, in the order of the texts, at most `max_words` words.

    Sentences are taken one by one: each time the one whose words are most frequent in the texts (the mean share of its
    distinct tokens), after which the words it holds count for less (SumBasic; Nenkova and Vanderwende 2005). Where not
    one sentence fits, the best is cut. "" where the texts are empty. At most 500 sentences are read.
    """
    held = list(_sentences(texts))
    tokens = [tuple(dict.fromkeys(analyse(sentence, language))) for sentence in held]
    chosen = _chosen(held, tokens, max_words)
    if not chosen and held and max_words > 0:
        best = max(range(len(held)), key=lambda place: (len(tokens[place]), -place))
        return " ".join(held[best].split()[:max_words])
    return " ".join(held[place] for place in sorted(chosen))


def _sentences(texts: Sequence[str]) -> Iterator[str]:
    """The distinct sentences, no more of them and no more characters than are read."""
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


def _chosen(held: Sequence[str], tokens: Sequence[Sequence[str]], room: int) -> list[int]:
    counts = Counter(token for one in tokens for token in one)
    total = sum(counts.values())
    share = {token: count / total for token, count in counts.items()}
    left = [place for place, one in enumerate(tokens) if one]
    chosen: list[int] = []
    while True:
        left = [place for place in left if len(held[place].split()) <= room]
        if not left:
            return chosen
        best = max(left, key=lambda place: (_mean(tokens[place], share), -place))
        chosen.append(best)
        room -= len(held[best].split())
        left.remove(best)
        share |= {token: share[token] ** 2 for token in tokens[best]}


def _mean(tokens: Sequence[str], share: dict[str, float]) -> float:
    """A sentence of a word or two is no summary: it counts as if it had four."""
    return sum(share[token] for token in tokens) / max(len(tokens), _FEWEST_TOKENS)

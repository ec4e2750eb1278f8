"""Metrics of long answers to ambiguous questions, as ASQA defines them (Stelmakh et al. 2022, sections 4 and 5).

They follow its published evaluation (github.com/google-research/language, language/asqa/scoring.py):

- STR-EM: the share of sub-questions of which an alias occurs in the answer, after SQuAD's normalization.
- Disambig-F1: a model for extractive QA answers each sub-question from the answer; the mean of the spans' F1.
- ROUGE-Lsum: Google's summary-level ROUGE-L F-measure with stemming, the best over the reference answers.
- DR: the geometric mean of the means of Disambig-F1 and ROUGE-Lsum over all questions.
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import Stemmer

from ragindex.english import split_sentences
from ragindex_eval.metrics.answers import MAX_WORDS, WORDS, normalised, token_f1

SpanReader: TypeAlias = Callable[[Sequence[tuple[str, str]]], Sequence[str]]
"""Extractive QA: for each (question, context) the span of the context that answers it, "" if there is none."""
_UNSTEMMED = 3  # words of at most so many characters are not stemmed


def string_exact_match(answer: str, groups: Sequence[Sequence[str]]) -> float:
    """Return STR-EM: the share of groups of aliases of which at least one occurs in the answer; 0 without groups.

    An alias occurs if it is a part of the answer, both normalized, even inside a word. Unlike in the published
    evaluation, an alias of nothing but punctuation and articles occurs nowhere, not everywhere.
    """
    given = normalised(answer)
    met = [any(alias and alias in given for alias in map(normalised, group)) for group in groups]
    return sum(met) / len(met) if met else 0.0


def disambiguated_f1(spans: Sequence[str], groups: Sequence[Sequence[str]]) -> float:
    """Return the mean over sub-questions of a span's word-level F1, the best over the aliases; 0 without groups."""
    best = [
        max((token_f1(normalised(span), normalised(alias)) for alias in group), default=0.0)
        for span, group in zip(spans, groups, strict=True)
    ]
    return math.fsum(best) / len(best) if best else 0.0


def add_disambiguated_rouge(means: Mapping[str, float]) -> dict[str, float]:
    """Return the means with DR, where Disambig-F1 and ROUGE-Lsum are among them."""
    if not {"Disambig-F1", "ROUGE-Lsum"} <= means.keys():
        return dict(means)
    return {**means, "DR": math.sqrt(means["Disambig-F1"] * means["ROUGE-Lsum"])}


def rouge_lsum(answer: str, references: Sequence[str]) -> float:
    """Return the summary-level ROUGE-L F-measure, the best over the references.

    Each sentence of a reference is matched with the union of its longest common subsequences with the sentences of the
    answer (Lin 2004, section 3.2). Words are stemmed by Snowball's Porter stemmer. Google's package stems with NLTK's,
    which treats a few endings differently (`play`, `died`), and splits sentences with NLTK.
    """
    given = _sentences(answer)
    return max((_score_summary(given, _sentences(reference)) for reference in references), default=0.0)


def _sentences(text: str) -> list[list[str]]:
    stem = Stemmer.Stemmer("porter").stemWord
    words_left, sentences = MAX_WORDS, list[list[str]]()
    for sentence in split_sentences(text):
        words = WORDS.findall(sentence.lower())[:words_left]
        words_left -= len(words)
        sentences.append([stem(word) if len(word) > _UNSTEMMED else word for word in words])
    return sentences


def _score_summary(given: Sequence[Sequence[str]], wanted: Sequence[Sequence[str]]) -> float:
    lengths = sum(map(len, given)), sum(map(len, wanted))
    if not all(lengths):
        return 0.0
    left = Counter(word for sentence in given for word in sentence)
    matched = 0
    for sentence in wanted:
        places = set[int]().union(*(_common_places(sentence, other) for other in given))
        for place in sorted(places):
            word = sentence[place]
            matched += left[word] > 0
            left[word] -= left[word] > 0
    return 2 * matched / sum(lengths)


def _common_places(wanted: Sequence[str], given: Sequence[str]) -> set[int]:
    """Return the places in `wanted` of a longest common subsequence; of several, Google's choice."""
    table = [[0] * (len(given) + 1)]
    for word in wanted:
        above, row = table[-1], [0]
        for at, candidate in enumerate(given):
            row.append(above[at] + 1 if word == candidate else max(above[at + 1], row[at]))
        table.append(row)
    places, i, j = set[int](), len(wanted), len(given)
    while i and j:
        if wanted[i - 1] == given[j - 1]:
            i, j = i - 1, j - 1
            places.add(i)
        elif table[i][j - 1] > table[i - 1][j]:
            j -= 1
        else:
            i -= 1
    return places

"""Measures of an answer against accepted answers: pure functions of texts, each from 0 to 1.

EM and F1 follow the SQuAD rule (Rajpurkar et al. 2016): lower case, without punctuation and the articles a, an, the;
the best over all accepted answers. As HotpotQA's own evaluation has it, F1 is 0 where one of the two is yes, no or
noanswer and the other is something else. String-EM is ASQA's (Stelmakh et al. 2022): the share of short answers that
stand in a longer one. ROUGE-L (Lin 2004) is the F-measure of the longest common subsequence of words.
"""

import re
import string
from collections import Counter
from collections.abc import Sequence

ANSWER_METRICS = ("EM", "F1", "string_EM", "ROUGE-L")
ANSWER_METRICS_SHOWN = ("EM", "F1")
"""Those that tables show; the others are in the files."""
_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)
_CLOSED = {"yes", "no", "noanswer"}
_WORDS = re.compile(r"[a-z0-9]+")
_LONGEST = 2_000  # words of a text that ROUGE-L reads: its work is the product of both lengths


def normalised(text: str) -> str:
    """The form in which answers are compared."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def exact_match(answer: str, accepted: Sequence[str]) -> float:
    """1 where the answer is one of the accepted ones."""
    return float(any(normalised(answer) == normalised(one) for one in accepted))


def f1(answer: str, accepted: Sequence[str]) -> float:
    """The harmonic mean of precision and recall of words, the best over the accepted answers."""
    return max((_f1(normalised(answer), normalised(one)) for one in accepted), default=0.0)


def string_exact_match(answer: str, accepted: Sequence[str]) -> float:
    """The share of accepted answers that stand in the answer: for data whose answers are all wanted."""
    if not accepted:
        return 0.0
    said = normalised(answer)
    return sum(normalised(one) in said for one in accepted) / len(accepted)


def rouge_l(answer: str, accepted: Sequence[str]) -> float:
    """The best over the accepted answers."""
    return max((_rouge_l(_words(answer), _words(one)) for one in accepted), default=0.0)


def _f1(answer: str, accepted: str) -> float:
    if answer != accepted and (answer in _CLOSED or accepted in _CLOSED):
        return 0.0
    said, wanted = answer.split(), accepted.split()
    if not said or not wanted:
        return float(said == wanted)
    same = sum((Counter(said) & Counter(wanted)).values())
    return 2 * same / (len(said) + len(wanted))


def _words(text: str) -> list[str]:
    return _WORDS.findall(text.lower())[:_LONGEST]


def _rouge_l(said: Sequence[str], wanted: Sequence[str]) -> float:
    if not said or not wanted:
        return 0.0
    return 2 * _longest_common(said, wanted) / (len(said) + len(wanted))


def _longest_common(one: Sequence[str], other: Sequence[str]) -> int:
    """The length of the longest common subsequence."""
    row = [0] * (len(other) + 1)
    for word in one:
        diagonal = 0
        for at, candidate in enumerate(other, start=1):
            above = row[at]
            row[at] = diagonal + 1 if word == candidate else max(above, row[at - 1])
            diagonal = above
    return row[-1]

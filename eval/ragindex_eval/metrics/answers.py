"""Metrics of an answer against accepted answers: pure functions of texts with values from 0 to 1.

EM and F1 follow SQuAD (Rajpurkar et al. 2016): texts are lower-cased, punctuation and the articles a, an, the are
removed, and the best score over all accepted answers counts. As in the HotpotQA evaluation script, F1 is 0 if one of
the two texts is yes, no or noanswer and the other is different. ROUGE-L (Lin 2004) is the F-measure of the longest
common subsequence of words. Accuracy counts the chosen options of multiple-choice questions.
`ragindex_eval.metrics.long_answers` has the metrics of ASQA.
"""

import re
import string
from collections import Counter
from collections.abc import Collection, Sequence

ANSWER_METRICS = ("EM", "F1", "accuracy", "STR-EM", "ROUGE-L", "ROUGE-Lsum", "Disambig-F1", "DR")
_FIRST = ("EM", "F1", "accuracy")
_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)
_CLOSED_ANSWERS = {"yes", "no", "noanswer"}
WORDS = re.compile(r"[a-z0-9]+")
MAX_WORDS = 2_000  # words of a text that ROUGE-L reads, because its run time is the product of both lengths


def select_shown(measured: Collection[str]) -> list[str]:
    """Return the answer metrics that tables show: EM, F1 and accuracy where they are measured, else those of ASQA.

    The others are in the files.
    """
    first = [name for name in _FIRST if name in measured]
    return first or [name for name in ANSWER_METRICS if name in measured]


def normalised(text: str) -> str:
    """Normalize a text for comparison, as SQuAD does: lower case, no punctuation, no articles, single spaces."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def exact_match(answer: str, accepted: Sequence[str]) -> float:
    """Return 1.0 if the normalized answer equals an accepted one, else 0.0."""
    return float(any(normalised(answer) == normalised(accepted_answer) for accepted_answer in accepted))


def f1(answer: str, accepted: Sequence[str]) -> float:
    """Return the word-level F1, the harmonic mean of precision and recall; the best over the accepted answers."""
    return max((_f1(normalised(answer), normalised(accepted_answer)) for accepted_answer in accepted), default=0.0)


def accuracy(answer: str, accepted: Sequence[str], options: Sequence[str]) -> float:
    """Return 1.0 if the answer names the accepted option (`parse_choice`), else 0.0, also if it names none."""
    from ragindex.llm.answer_question import parse_choice  # rankings are compared without

    place = parse_choice(answer, options)
    return float(place is not None and options[place] in accepted)


def rouge_l(answer: str, accepted: Sequence[str]) -> float:
    """Return the ROUGE-L F-measure, the best over the accepted answers."""
    return max((_rouge_l(_words(answer), _words(accepted_answer)) for accepted_answer in accepted), default=0.0)


def _f1(answer: str, accepted: str) -> float:
    if answer != accepted and (answer in _CLOSED_ANSWERS or accepted in _CLOSED_ANSWERS):
        return 0.0
    return token_f1(answer, accepted)


def token_f1(answer: str, accepted: str) -> float:
    """Return the word-level F1 of two normalized texts, as SQuAD 2 does: 1.0 if both are empty, 0.0 if one is."""
    given, wanted = answer.split(), accepted.split()
    if not given or not wanted:
        return float(given == wanted)
    same = sum((Counter(given) & Counter(wanted)).values())
    return 2 * same / (len(given) + len(wanted))


def _words(text: str) -> list[str]:
    return WORDS.findall(text.lower())[:MAX_WORDS]


def _rouge_l(given: Sequence[str], wanted: Sequence[str]) -> float:
    if not given or not wanted:
        return 0.0
    return 2 * _lcs_length(given, wanted) / (len(given) + len(wanted))


def _lcs_length(first: Sequence[str], second: Sequence[str]) -> int:
    """Return the length of the longest common subsequence."""
    row = [0] * (len(second) + 1)
    for word in first:
        diagonal = 0
        for at, candidate in enumerate(second, start=1):
            above = row[at]
            row[at] = diagonal + 1 if word == candidate else max(above, row[at - 1])
            diagonal = above
    return row[-1]

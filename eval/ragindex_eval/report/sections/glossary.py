"""Report section that explains the figures."""

from ragindex_eval.report.tables import metrics_shown
from ragindex_eval.results.model import Study

_QUALITY = {
    "R": (
        "R@k, recall",
        "The share of a question's gold documents that are in the first k hits; several hits may be of one document.",
    ),
    "full_R": (
        "full R@k",
        "The share of questions with every gold document in the first k hits: what a question of several hops needs.",
    ),
    "nDCG": (
        "nDCG@k",
        "Gold documents count less the lower they are ranked, by the logarithm of the rank; 100 is the best order.",
    ),
    "evidence_R": (
        "evidence R@k",
        "The share of the places that answer a question which the first k hits hold together, whatever the chunking.",
    ),
    "one_doc_R": (
        "one doc R@k",
        "Recall over the hits that name exactly one document. Shown where summaries of several add to R@k.",
    ),
    "EM": (
        "EM, exact match",
        "The share of questions whose answer is an accepted one: without case, punctuation, and the words a, an, the.",
    ),
    "F1": (
        "F1",
        "How many words the answer shares with the nearest accepted one: the harmonic mean of precision and recall.",
    ),
    "accuracy": (
        "accuracy",
        "The share of multiple-choice questions whose answer names the right option, by letter, number or text. "
        "An answer that names none is wrong.",
    ),
    "STR-EM": (
        "STR-EM, string exact match",
        "Of the sub-questions of an ambiguous question, the share of which any accepted answer stands in the answer.",
    ),
    "ROUGE-Lsum": (
        "ROUGE-Lsum",
        "How much of the answer and of the nearest reference answer are common subsequences of stemmed words, "
        "sentence by sentence: the harmonic mean of precision and recall.",
    ),
    "Disambig-F1": (
        "Disambig-F1",
        "A model for extractive question answering reads the answer for each sub-question: the mean F1 of its spans.",
    ),
    "DR": ("DR", "The geometric mean of the means of Disambig-F1 and ROUGE-Lsum over all questions."),
}
_TESTS = (
    (
        "95 % interval",
        "How the figure would vary with other questions like these, not with other documents. It leaves room for what "
        "few questions cannot show: of quality, it has a width even where all questions are alike.",
    ),
    (
        "p",
        "How often a difference at least as large would come about if both methods had the same mean (paired t test, "
        "two-sided, with two more questions, one that each method wins). It is corrected for all pairs of methods by "
        "the max-T method, which takes into account how alike the methods are. What is tested is what is shown beside "
        "it: a difference of means or, of latency, a ratio of geometric means. The interval of a difference is that of "
        "the corrected test: it leaves out 0 exactly if p is under 0.05.",
    ),
    (
        "better, worse, no significant difference",
        "Better or worse if the corrected p is under 0.05. No significant difference does not mean no difference: more "
        "questions might show one. Less than twofold: the latencies differ significantly, by a factor under two, which "
        "may be another on another machine.",
    ),
    (
        "bold",
        "The methods that cannot be excluded as the best of a column: none is better by the column's corrected p, and "
        "by latency none is at least twice as fast besides. Nothing is bold where none can be excluded.",
    ),
)
_UNANSWERED = (
    "not answered",
    "A question on which a method failed scores 0 for it. It never drops out of a mean. A method that failed on every "
    "question is named in the warnings, and not compared.",
)
_COST = (
    (
        "p50, p95",
        "The time within which half, or 95 %, of the questions were answered, each asked alone after a warm-up. "
        "All methods were timed in one run, question by question; of few questions, each several times. Faster is who "
        "takes at most half as long, in the geometric mean over the same questions and in p50, and no longer in p95. "
        "An interval of p50 takes 6 questions at least, of p95 72. "
        "The interval of a ratio includes how much the time of one and the same computation varied meanwhile.",
    ),
    (
        "index s, index MB",
        "Seconds of building and megabytes on disk, as if the method were built alone. Measured once.",
    ),
)
_AGREEMENT = (
    "overlap",
    "Of the documents that either of two methods has in its first k hits, the share that both have. Two methods that "
    "agree may both be wrong.",
)


def render_glossary(study: Study) -> tuple[tuple[str, str], ...]:
    """Return the terms that the page uses, with their meanings."""
    names = {name.partition("@")[0] for comparison in study.comparisons for name in metrics_shown(comparison)}
    quality = [entry for name, entry in _QUALITY.items() if name in names]
    bare = any(not comparison.dataset.judged for comparison in study.comparisons)
    return (*quality, *_COST, *_TESTS, *([_UNANSWERED] if quality else []), *([_AGREEMENT] if bare else []))

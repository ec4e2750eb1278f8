"""Names of metrics as tables write them: which are of 0 and 1, and which rise with k."""

from dataclasses import dataclass

import regex

_CUT = r"\s*(?:@\s*(?P<k>[0-9]{1,6})(?P<thousands>k)?)"
_BINARY = (
    r"(?:(?:sub|cover)[ _-]?)?EM|exact[ _-]?match|(?:(?:LLM|GPT|judge|answer|contain|cover|string)[ _-]?)?acc(?:uracy)?"
    r"|(?P<wins>win(?:[ _-]?rate)?s?)|correct(?:ness)?|top[ -]?[0-9]{1,6}(?: acc(?:uracy)?)?"
)
_BINARY_AT_K = r"hits?|hit[ _-]?rate|success|S|full_R|AR|acc(?:uracy)?"
_GRADED = (
    r"(?:(?:answer|token|macro|micro|disambig)[ -])?F-?1(?:[ -]match)?|ROUGE(?:-?[L0-9])?|METEOR|n?DCG|MRR|RR|MAP|AP"
    r"|precision|recall|coverage|STR-EM|faithfulness|relevance|overall|comprehensiveness|diversity|empowerment"
)
_GRADED_AT_K = r"R|recall|rec|n?DCG|MRR|RR|MAP|AP|P|precision|one_doc_R"
_CORPUS = r"(?:sacre)?BLEU(?:-?[0-9])?|perplexity|PPL"
_NAME = regex.compile(
    rf"(?P<binary_k>{_BINARY_AT_K}){_CUT}|(?P<graded_k>{_GRADED_AT_K}){_CUT}|(?P<corpus>{_CORPUS})"
    rf"|(?P<binary>{_BINARY})|(?P<graded>{_GRADED})",
    regex.IGNORECASE,
)
_DECORATION = regex.compile(r"(?: ?(?:[(\[] ?(?:%|in %|percent) ?[)\]]|%|[↑↓⬆⬇]|\.))++$", regex.IGNORECASE)
_MEASURED_TO_K = regex.compile(r"R|recall|rec|hits?|hit[ _-]?rate|success|S|full_R|AR", regex.IGNORECASE)


@dataclass(frozen=True, slots=True)
class MetricName:
    """What the name of a metric says.

    `binary` says that its value for a question is 0 or 1; `known` that the name is known, without which nothing is
    assumed but values in [0, 1]. `corpus` is of metrics that are no mean over questions, `wins` of shares of questions
    that one of two methods wins. `family` and `k` are those of metrics that cannot fall with k, else "" and None.
    """

    name: str
    binary: bool = False
    known: bool = True
    corpus: bool = False
    wins: bool = False
    family: str = ""
    k: int | None = None


def read_metric(name: str) -> MetricName:
    """Return what a name says, which may be in any case."""
    match = _NAME.fullmatch(_strip_decoration(name))
    if match is None:
        return MetricName(name, known=False)
    family = match["binary_k"] or match["graded_k"] or ""
    rises = bool(family) and _MEASURED_TO_K.fullmatch(family) is not None
    return MetricName(
        name=name,
        binary=bool(match["binary"] or match["binary_k"]),
        corpus=bool(match["corpus"]),
        wins=bool(match["wins"]),
        family=family.casefold() if rises else "",
        k=int(match["k"]) * (1000 if match["thousands"] else 1) if rises else None,
    )


def split_heading(heading: str) -> tuple[str, str]:
    """Return the data set and the metric in the heading of a column, each "" if it has none: `MuSiQue R@5`.

    In brackets, either may come first: `Accuracy (QuALITY)`.
    """
    text = _strip_decoration(heading)
    first, _, bracketed = text.partition("(")
    first, second = first.rstrip(), bracketed.removesuffix(")")
    if first and second and bracketed.endswith(")"):
        if read_metric(first).known:
            return second, first
        if read_metric(second).known:
            return first, second
    if read_metric(text).known:
        return "", text
    words = regex.split(r"\s+|(?<=\w)[/:](?=\w)", text)
    for start in range(1, len(words)):
        metric = " ".join(words[start:])
        if read_metric(metric).known:
            return " ".join(words[:start]).rstrip(" ,:-–"), metric
    return text, ""


def _strip_decoration(heading: str) -> str:
    """Return a heading with single spaces, without a unit, arrows and a full stop at its end."""
    text = " ".join(heading.split())
    return str(_DECORATION.sub("", text)) or text

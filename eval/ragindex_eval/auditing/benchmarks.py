"""How many questions the public benchmarks have, by name, so that a table need not say it."""

from collections.abc import Mapping

import regex

from ragindex._util.text import find_near_names
from ragindex.errors import UsageError

_BEIR = {
    "TREC-COVID": 50,
    "NFCorpus": 323,
    "NQ": 3452,
    "BEIR-HotpotQA": 7405,
    "FiQA": 648,
    "FiQA-2018": 648,
    "ArguAna": 1406,
    "Touché-2020": 49,
    "Touche-2020": 49,
    "Webis-Touche2020": 49,
    "CQADupStack": 13145,
    "Quora": 10000,
    "DBPedia": 400,
    "DBPedia-entity": 400,
    "SCIDOCS": 1000,
    "FEVER": 6666,
    "Climate-FEVER": 1535,
    "SciFact": 300,
    "BioASQ": 500,
    "Signal-1M": 97,
    "TREC-NEWS": 57,
    "Robust04": 249,
}
"""Test questions: Thakur et al. 2021 (BEIR), Table 1."""
_RETRIEVAL = {
    "MS MARCO": 6980,
    "MSMARCO dev": 6980,
    "TREC DL 2019": 43,
    "TREC DL 2020": 54,
    "LoTTE writing": 1071,
    "LoTTE recreation": 924,
    "LoTTE science": 617,
    "LoTTE technology": 596,
    "LoTTE lifestyle": 661,
    "LoTTE pooled": 3869,
}
"""MS MARCO: the small dev set; TREC DL: topics with judgements; LoTTE: search questions of the test split."""
_ANSWERS = {
    "QuALITY dev": 2086,
    "QuALITY test": 2128,
    "QASPER dev": 1005,
    "QASPER test": 1451,
    "NarrativeQA test": 10557,
    "MultiHop-RAG": 2556,
    "Bamboogle": 125,
    "NQ-open": 3610,
    "WebQuestions": 2032,
    "MuSiQue dev": 2417,
    "2Wiki dev": 12576,
    "2WikiMultihopQA dev": 12576,
    "HotpotQA dev": 7405,
    "MuSiQue HippoRAG": 1000,
    "2Wiki HippoRAG": 1000,
    "HotpotQA HippoRAG": 1000,
    "NQ HippoRAG": 1000,
    "PopQA HippoRAG": 1000,
    "LV-Eval HippoRAG": 124,
    "NarrativeQA HippoRAG": 293,
    "MuSiQue IRCoT": 500,
    "2Wiki IRCoT": 500,
    "HotpotQA IRCoT": 500,
    "UltraDomain": 125,
}
"""Splits of question answering, and the samples of HippoRAG (2024, 2025), IRCoT (2023) and LightRAG (2024)."""
KNOWN: Mapping[str, int] = {**_BEIR, **_RETRIEVAL, **_ANSWERS}


def find_count(name: str) -> int | None:
    """Return how many questions a benchmark has; None if the name is of none, or of several splits."""
    return next((count for known, count in KNOWN.items() if _fold(known) == _fold(name)), None)


def require_count(name: str) -> int:
    """Return how many questions a benchmark has. Raises UsageError, which names its splits and samples."""
    count = find_count(name)
    if count is not None:
        return count
    several = [f"{known!r} ({count:,})" for known, count in KNOWN.items() if _fold(known).startswith(_fold(name))]
    if several and _fold(name):
        raise UsageError(f"{name!r} has several numbers of questions: {', '.join(several)}. Give one, or the number.")
    near = find_near_names(name, KNOWN)
    also = f" Did you mean {', '.join(map(repr, near))}?" if near else ""
    raise UsageError(f"It is unknown how many questions {name!r} has.{also} Give the number: --n 1000")


def _fold(name: str) -> str:
    return str(regex.sub(r"[^\p{L}\p{N}]", "", name.casefold()))

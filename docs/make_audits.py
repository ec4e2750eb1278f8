"""Write docs/dev/audit-of-published-tables.md from the tables of studies/: `python docs/make_audits.py`."""

import textwrap
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from ragindex_eval.auditing.audit import Audit, audit
from ragindex_eval.auditing.claims import VERDICTS
from ragindex_eval.auditing.show import claim_cells

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "dev" / "audit-of-published-tables.md"
WIDTH = 100
HEAD = """# Audits of published tables

What tables of papers and READMEs can and cannot show, from their printed means and the number of questions alone. Made
by `python docs/make_audits.py` with [`ragindex audit`](../how-to/audit-a-published-table.md), whose
[verdicts](evidence/audits-of-printed-means.md) explain the columns. The figures are those of
[studies/](../../studies/README.md) and [studies/tables](../../studies/tables), as their sources print them.

A verdict is about chance in the choice of questions, nothing else. *Impossible* (not significant, however the questions
fell) does not mean that two methods are equal, and *significant* (however they fell) says nothing of data, prompts or
models that differ between the rows. *Likely* and *unlikely* are claims that are, and are not, significant at every
plausible correlation of outcomes; *open* ones depend on it. The level is 0.05 over the claims of a column that are
shown. None of these tables states a paired test of all its claims; HippoRAG 2 states one of its answers.
"""


class Entry(NamedTuple):
    """A table: its file, its rows of interest (all if none), and facts that the file does not say."""

    title: str
    file: str
    source: str
    questions: str
    methods: tuple[str, ...] = ()
    baseline: str | None = None
    n: int | None = None
    remark: str = ""


def _place(entry: Entry) -> str:
    """Return the file of a table: that of a study of the package, or one of `studies/tables`."""
    return f"studies/{entry.file}" if entry.file.startswith("tables/") else f"eval/ragindex_eval/studies/{entry.file}"


ENTRIES = (
    Entry(
        "GeAR, Table 2: recall",
        "gear-table-2.yaml",
        "Shen et al. 2025, [arXiv 2412.18431](https://arxiv.org/abs/2412.18431)",
        "500 (MuSiQue, 2Wiki) and 1,000 (HotpotQA): Table 5 there",
        methods=("GEAR", "GEAR, 2 rounds", "Hybrid + SyncGE"),
    ),
    Entry(
        "GeAR, Table 3: answers",
        "gear-table-3.yaml",
        "the same paper",
        "as above",
        methods=("GEAR", "GEAR, 2 rounds", "Hybrid + SyncGE"),
    ),
    Entry(
        "GRIEVER, Table 1: recall",
        "griever-table-1.yaml",
        "Melo et al., the paper in this project's [fidelity](fidelity.md)",
        "500 (MuSiQue, 2Wiki) and 1,000 (HotpotQA), by the sources of its data",
        methods=("GRIEVER",),
        remark="Over *Composed*, its first step, which is the strongest of its baselines on most columns.",
    ),
    Entry(
        "GRIEVER, Table 2: answers",
        "griever-table-2.yaml",
        "the same paper",
        "as above",
        methods=("GRIEVER",),
    ),
    Entry(
        "SiReRAG, Table 4: answers",
        "sirerag-table-4.yaml",
        "Zhang et al. 2025, [arXiv 2412.06206](https://arxiv.org/abs/2412.06206)",
        "1,000 of each validation set: section 5.1 there",
        methods=("SiReRAG",),
    ),
    Entry(
        "SiReRAG, Table 8: two trees or one",
        "sirerag-table-8.yaml",
        "the same paper",
        "as above",
    ),
    Entry(
        "HippoRAG 2, Table 2: answers",
        "tables/hipporag2-table-2.csv",
        "Gutiérrez et al. 2025, [arXiv 2502.14802](https://arxiv.org/abs/2502.14802)",
        "1,000 each, 124 (LV-Eval), 293 (NarrativeQA): Table 1 there",
        methods=("HippoRAG 2",),
        baseline="NV-Embed-v2 (7B)",
        remark="The paper had the pairs, and states by a bootstrap test that NQ, MuSiQue, 2Wiki and LV-Eval are "
        "significant: none of these four is *unlikely* or *impossible* here, and the other three are.",
    ),
    Entry(
        "HippoRAG 2, Table 3: recall",
        "tables/hipporag2-table-3.csv",
        "the same paper",
        "1,000 each",
        methods=("HippoRAG 2",),
        baseline="NV-Embed-v2 (7B)",
    ),
    Entry(
        "SAG, Table 1",
        "tables/sag-table-1.csv",
        "Wu et al. 2026, [arXiv 2606.15971](https://arxiv.org/abs/2606.15971)",
        "1,000 each: section 4.1 there",
        n=1000,
        methods=("SAG",),
        remark="Over the best of the other rows of each column.",
    ),
    Entry(
        "RAPTOR, Table 2: with and without its tree",
        "tables/raptor-table-2.csv",
        "Sarthi et al. 2024, [arXiv 2401.18059](https://arxiv.org/abs/2401.18059)",
        "assumed: 2,086 (QuALITY, dev) and 1,451 (QASPER, test); the paper does not say which split",
    ),
    Entry(
        "RAPTOR, Table 8: layers of the tree, on one story",
        "tables/raptor-table-8.csv",
        "the same paper",
        "19, inferred: the figures are 10, 11, 12 and 14 of 19, with digits cut off",
        n=19,
        baseline="1, layer 0",
    ),
    Entry(
        "LightRAG, overall win rates",
        "tables/lightrag-overall.csv",
        "Guo et al. 2024, [arXiv 2410.05779](https://arxiv.org/abs/2410.05779), table of its README",
        "125 a data set (5 users, 5 tasks, 5 questions: `docs/Reproduce.md` there)",
        n=125,
        remark="The shares are multiples of 1/250, so each question seems to be judged twice. Two judgements of one "
        "question are no two questions, so the number stays 125.",
    ),
    Entry(
        "BEIR, Table 2: late interaction against BM25",
        "tables/beir-table-2.csv",
        "Thakur et al. 2021, [arXiv 2104.08663](https://arxiv.org/abs/2104.08663)",
        "those of Table 1 there",
        methods=("ColBERT",),
        baseline="BM25",
    ),
    Entry(
        "Vector Graph RAG, comparison of its documentation",
        "tables/vector-graph-rag.md",
        "[zilliztech/vector-graph-rag](https://zilliztech.github.io/vector-graph-rag/evaluation/)",
        "1,000 each: the evaluation of HippoRAG",
        methods=("Vector Graph RAG",),
        baseline="HippoRAG 2",
        n=1000,
    ),
)


def page() -> str:
    """Return the page."""
    audits = [
        (entry, audit(ROOT / _place(entry), n=entry.n, baseline=entry.baseline, methods=entry.methods))
        for entry in ENTRIES
    ]
    lines = [HEAD, *_overview(audits)]
    for entry, result in audits:
        lines += ["", f"## {entry.title}", "", *_describe(entry, result)]
    return "\n".join(lines) + "\n"


def _overview(audits: list[tuple[Entry, Audit]]) -> Iterator[str]:
    yield "| table | claims | " + " | ".join(VERDICTS) + " |"
    yield "|---|--:" + "|--:" * len(VERDICTS) + "|"
    for entry, result in audits:
        counts = Counter(claim.verdict for claim in result.claims)
        cells = " | ".join(str(counts[verdict] or "") for verdict in VERDICTS)
        yield f"| {entry.title} | {len(result.claims)} | {cells} |"


def _describe(entry: Entry, result: Audit) -> Iterator[str]:
    yield from _wrap(f"Source: {entry.source}. Questions: {entry.questions}. {entry.remark}".rstrip())
    yield ""
    yield "| claim | difference | p | verdict | questions to show it |"
    yield "|---|--:|--:|---|--:|"
    for claim in result.claims:
        yield f"| {' | '.join(claim_cells(claim))} |"
    claims = max(claim.comparisons for claim in result.claims)
    level = f"p < 0.05 / {claims}" if claims > 1 else "p < 0.05"
    yield ""
    yield from _wrap(f"Significant is {level}.{_list_impossible(result)}")
    options = f" --n {entry.n}" if entry.n else ""
    options += f" --baseline '{entry.baseline}'" if entry.baseline else ""
    options += "".join(f" --method '{method}'" for method in entry.methods)
    yield f"`ragindex audit {_place(entry)}{options}`"


def _list_impossible(result: Audit) -> str:
    return f" Figures that cannot be: {'; '.join(result.impossible)}." if result.impossible else ""


def _wrap(text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, break_long_words=False, break_on_hyphens=False)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")

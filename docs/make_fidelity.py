"""Write docs/dev/fidelity.md from docs/dev/evidence and studies/results: `python docs/make_fidelity.py`.

With folders that `ragindex compare --out` wrote, keep their published figures in studies/results first:
`python docs/make_fidelity.py ragindex-results/griever-table-1`.
"""

import json
import re
import sys
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from ragindex_eval.report.sections.published import PublishedRow, tabulate_published
from ragindex_eval.results.files import load_results
from ragindex_eval.results.records import PublishedComparison

ROOT = Path(__file__).resolve().parents[1]
PAGE, RESULTS = ROOT / "docs" / "dev" / "fidelity.md", ROOT / "studies" / "results"
METHODS = ("griever", "gear", "sirerag")
COLUMNS = ("of the paper", "section", "here", "checked by", "study")
HEAD = """# Fidelity to the papers

What the papers describe, whether it is done as described, how that was checked, and the figures of
the [studies](../../studies/README.md) that were run here, beside the published ones. Made by
`python docs/make_fidelity.py` from the section *Fidelity* of each method's [evidence](evidence/griever.md)
and from `studies/results`; G, S and V are readings on these pages. A figure in these tables is the first of
its row; in brackets are 95 % intervals; a gain agrees if it has the published sign. Where the LLM
or the reader is “rules”, no model was asked. Rules answer poorly, so EM and F1 of their answers say
little about a method. The gist memory of GEAR by rules is [mostly
empty](evidence/gear.md#without-a-model), so its rows do not test it. The papers' other tables and
figures, and what was not run, are listed under [analyses](../../studies/README.md#analyses).

"""
STUDIES_HEAD = (
    "## Studies run here",
    "",
    "Figures are in percent. [Comparing](../../studies/README.md#settings-of-a-published-table) defines the verdicts.",
    "",
)


class StudyResult(NamedTuple):
    """The result of a study on one data set; `outdated` says how it was run otherwise than the study says now."""

    study: str
    command: str
    published: PublishedComparison
    outdated: str = ""


def keep(folder: Path) -> None:
    """Keep the published figures of a study's results, without data and without folders of this machine."""
    study = load_results(folder)
    for comparison in study.comparisons:
        if comparison.published is None:
            raise SystemExit(f"{folder} has no published figures: run it with ragindex study NAME")
        command = re.sub(r"(?<![\w.])/(?:[^/\s]+/)+", "", study.command)
        text = json.dumps({"study": study.name, "command": command, "published": comparison.published.to_json()})
        value = json.loads(text, parse_float=lambda number: round(float(number), 8))
        RESULTS.mkdir(exist_ok=True)
        path = RESULTS / f"{study.name}-{comparison.published.data}.json"
        path.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def page() -> str:
    """The whole page."""
    records = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(RESULTS.glob("*.json"))]
    results = [
        StudyResult(
            record["study"],
            record["command"],
            PublishedComparison.from_json(record["published"]),
            record.get("outdated", ""),
        )
        for record in records
    ]
    lines = [line for method in METHODS for line in _method(method, results)]
    lines += [*STUDIES_HEAD, *(line for result in results for line in _study(result))]
    return HEAD + "\n".join(lines).rstrip() + "\n"


def claims(method: str) -> list[list[str]]:
    """The rows of the table *Fidelity* of a method's evidence."""
    text = (ROOT / "docs" / "dev" / "evidence" / f"{method}.md").read_text(encoding="utf-8")
    heads = re.escape(" | ".join(COLUMNS))
    table = re.search(rf"^\| {heads} \|\n\|[-|]+\|\n((?:\|.*\n)+)", text, re.MULTILINE)
    if table is None:
        raise SystemExit(f"docs/dev/evidence/{method}.md has no table with the columns {', '.join(COLUMNS)}")
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table[1].splitlines()]
    if any(len(row) != len(COLUMNS) for row in rows):
        raise SystemExit(f"docs/dev/evidence/{method}.md: a row of Fidelity has not {len(COLUMNS)} columns")
    return rows


def _method(method: str, results: Sequence[StudyResult]) -> Iterator[str]:
    yield from (f"## {method}", "", f"[Its evidence](evidence/{method}.md) has the readings.", "")
    yield from ("| of the paper | section | here | checked by | published, and reached |", "|---|---|---|---|---|")
    for *cells, written in claims(method):
        study, _, label = written.partition(": ")
        figures = " ".join(
            filter(None, (_reached(result.published, label) for result in results if result.study == study))
        )
        reached = f"{written}: {figures or 'not run'}" if written else ""
        yield f"| {' | '.join([*cells, reached])} |"
    yield ""


def _reached(published: PublishedComparison, label: str) -> str:
    """The first figure of a row and its gain; agents of two rounds have rows of their own."""
    labels = (label, f"{label}, 2 rounds")
    row = next((row for row in tabulate_published(published).rows if row.method in labels), None)
    if row is None:
        return ""
    gain = f"; over {row.over} published {row.published_gain}, here {row.gain}, {row.direction}" if row.over else ""
    return f"{published.data} {row.metric} published {row.published}, here {row.here}{gain}."


def _study(result: StudyResult) -> Iterator[str]:
    table = tabulate_published(result.published)
    yield from (f"### {result.study}, {result.published.data}", "", f"    {result.command}", "")
    if result.outdated:
        yield from (f"**Not as the study is now.** {result.outdated}", "")
    yield from (textwrap.fill(f"{table.title}. {' '.join(table.sentences)}", 100), "")
    yield "| method | metric | published | here | here − published | verdict | gain |"
    yield "|---|---|---|---|---|---|---|"
    yield from (f"| {' | '.join(_cells(row))} |" for row in table.rows)
    yield ""


def _cells(row: PublishedRow) -> Sequence[str]:
    gain = f"over {row.over}: published {row.published_gain}, here {row.gain}: {row.direction}" if row.over else ""
    cells = (row.method, row.metric, row.published, row.here, row.difference, row.verdict, gain)
    return [re.sub(r"([|<>\[\]*_`])", r"\\\1", cell) for cell in cells]


if __name__ == "__main__":
    for result in sys.argv[1:]:
        keep(Path(result))
    PAGE.write_text(page(), encoding="utf-8")

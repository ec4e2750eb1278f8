"""Write docs/dev/fidelity.md from docs/dev/evidence and studies/results: `python docs/make_fidelity.py`.

With folders that `ragindex compare --out` wrote, keep their published figures in studies/results first:
`python docs/make_fidelity.py ragindex-results/griever-table-1`.
"""

import json
import re
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from generated_pages import count_empty_memories

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
little about a method. The gist memory of GEAR by rules is [often
empty](evidence/gear.md#without-a-model) when a question ends, and each of its tables says for how many questions:
no row by rules tests it. The papers' other tables and
figures, and what was not run, are listed under [analyses](../../studies/README.md#analyses).

HippoRAG's rows have the encoder of the study where the papers have ColBERTv2. `hipporag` cannot be given it:
a phrase has one vector, by which names are linked and synonyms found within cells, and late interaction
has a matrix for each phrase. It would need phrases as records that `multi_vectors` can be made of, links by
MaxSim, and synonyms by a threshold of its own, since 0.8 is a cosine. The mean of ColBERT's vectors in the
place of one would be another method.

"""
STUDIES_HEAD = (
    "## Studies run here",
    "",
    "Figures are in percent. [Comparing](../../studies/README.md#settings-of-a-published-table) defines the verdicts.",
    "",
)


class StudyResult(NamedTuple):
    """The result of a study on one data set.

    `empty_memories` has, for each agent with a gist memory, for how many questions it is empty at the end, and of how
    many. `outdated` says what has changed since.
    """

    study: str
    command: str
    date: str
    version: str
    published: PublishedComparison
    empty_memories: Mapping[str, Sequence[int]] = {}
    outdated: str = ""


def keep(folder: Path) -> None:
    """Keep the published figures of a study's results, without data and without folders of this machine."""
    study = load_results(folder)
    for comparison in study.comparisons:
        if comparison.published is None:
            raise SystemExit(f"{folder} has no published figures: run it with ragindex study NAME")
        command = re.sub(r"(?<![\w.])/(?:[^/\s]+/)+", "", study.command)
        record = {
            "study": study.name,
            "command": command,
            "date": study.started[:10],
            "version": comparison.environment["ragindex"],
            "empty_memories": count_empty_memories(comparison.methods),
            "published": comparison.published.to_json(),
        }
        text = json.dumps(record)
        value = json.loads(text, parse_float=lambda number: round(float(number), 8))
        RESULTS.mkdir(exist_ok=True)
        path = RESULTS / f"{study.name}-{comparison.published.data}.json"
        path.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def page() -> str:
    """The whole page."""
    records = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(RESULTS.glob("*.json"))]
    results = [
        StudyResult(**{**record, "published": PublishedComparison.from_json(record["published"])}) for record in records
    ]
    lines = [line for method in METHODS for line in _method(method, results)]
    newest = max(result.version for result in results)
    lines += [*STUDIES_HEAD, *(line for result in results for line in _study(result, newest))]
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
        figures = " ".join(filter(None, (_reached(result, label) for result in results if result.study == study)))
        reached = f"{written}: {figures or 'not run'}" if written else ""
        yield f"| {' | '.join([*cells, reached])} |"
    yield ""


def _reached(result: StudyResult, label: str) -> str:
    """The first figure of a row and its gain; agents of two rounds have rows of their own."""
    labels, published = (label, f"{label}, 2 rounds"), result.published
    row = next((row for row in tabulate_published(published).rows if row.method in labels), None)
    if row is None:
        return ""
    gain = f"; over {row.over} published {row.published_gain}, here {row.gain}, {row.direction}" if row.over else ""
    memory = f" ({_describe_memory(result, row.method)})" if row.method in result.empty_memories else ""
    encoder = next(condition.here for condition in published.conditions if condition.name == "encoder")
    return f"{published.data}, {encoder}: {row.metric} published {row.published}, here {row.here}{gain}{memory}."


def _describe_memory(result: StudyResult, method: str) -> str:
    empty, questions = result.empty_memories[method]
    return f"memory empty for {empty} of {questions}"


def _study(result: StudyResult, newest: str) -> Iterator[str]:
    table = tabulate_published(result.published)
    yield from (f"### {result.study}, {result.published.data}", "", f"    {result.command}", "")
    since = " **Not run again since.**" if result.outdated or result.version != newest else ""
    yield from (f"Run {result.date} with ragindex {result.version}.{since} {result.outdated}".rstrip(), "")
    memories = [f"{method}, {_describe_memory(result, method)}" for method in result.empty_memories]
    if memories:
        yield from (f"No test of the gist memory: {'; '.join(memories)} questions.", "")
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

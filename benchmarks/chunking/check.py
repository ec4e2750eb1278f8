"""Check questions with quoted evidence: python -m benchmarks.chunking.check FOLDER QUESTIONS.csv.

Every named document must exist, every quote must stand in the named documents together exactly once and in no
other document of the folder, and every named document must hold a quote. White space is collapsed.
"""

import csv
import statistics
import sys
from pathlib import Path

import ragindex

COLUMNS = ["question", "answer", "documents", "evidence", "kind"]


def find_problems(texts: dict[str, str], rows: list[dict[str, str]]) -> list[str]:
    """Return a line for each quote or document of `rows` that does not fit `texts` (text by document id)."""
    flat = {name: " ".join(text.split()) for name, text in texts.items()}
    problems = []
    for number, row in enumerate(rows, 2):
        named = row["documents"].split(";")
        problems += [f"line {number}: no document {name}" for name in named if name not in flat]
        quoted = set()
        for quote in row["evidence"].split(" || "):
            places = {name: count for name, text in flat.items() if (count := text.count(quote))}
            quoted |= set(places)
            if sum(places.values()) != 1 or not set(places) <= set(named):
                problems.append(f"line {number}: {quote!r} stands in {places or 'no document'}")
            if len(quote.split()) > 15:
                problems.append(f"line {number}: {quote!r} has {len(quote.split())} words, more than 15")
        problems += [f"line {number}: no quote is of {name}" for name in named if name in flat and name not in quoted]
    return problems


def read_rows(path: Path) -> list[dict[str, str]]:
    """Return the rows of a file of questions; raise ValueError unless its columns are `COLUMNS`."""
    with path.open(encoding="utf-8", newline="") as file:
        reader = csv.DictReader(file)
        if reader.fieldnames != COLUMNS:
            raise ValueError(f"{path}: columns {reader.fieldnames}, not {COLUMNS}")
        return list(reader)


def main(folder: str, questions: str) -> int:
    """Print the problems and the sizes of a corpus; return 1 if there are problems."""
    texts = {document.id: document.text for document in ragindex.read(folder).documents}
    rows = read_rows(Path(questions))
    problems = find_problems(texts, rows)
    words = [len(text.split()) for text in texts.values()]
    print(*problems, sep="\n")
    print(f"{len(rows)} questions, {len(problems)} problems; {len(words)} documents, {sum(words)} words, ", end="")
    print(f"median {statistics.median(words):g}, longest {max(words)}")
    return bool(problems)


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))

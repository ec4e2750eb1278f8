"""What readers keep of real files: sentences that belong to the text, and words of navigation that do not.

    .venv/bin/python -m benchmarks.readers FOLDER [trafilatura markitdown]

FOLDER has the files of reader_snippets.json, under the names that stand first there; the second says where each comes
from. The snippets were chosen by hand, from the beginning and the end of each file. Printed is, for this project's
readers and for other libraries that are installed, how many of either kind are in the text, and the seconds.
"""

import json
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path

from ragindex.corpus.readers import READERS


def read_here(path: Path) -> str:
    """Return the text of this project's reader."""
    return READERS[path.suffix](path.read_bytes(), path, None).text


def read_with_trafilatura(path: Path) -> str:
    """Return trafilatura's text of a page, "" for other files."""
    import trafilatura

    page = path.read_text(encoding="utf-8", errors="replace") if path.suffix == ".html" else ""
    return (
        trafilatura.extract(page, include_comments=False, include_tables=True, favor_recall=True) or "" if page else ""
    )


def read_with_markitdown(path: Path) -> str:
    """Return MarkItDown's text; it needs its extra `pdf` for PDF files."""
    from markitdown import MarkItDown

    try:
        return str(MarkItDown().convert(path).text_content)
    except Exception as error:  # noqa: BLE001  # another library's own errors, which count as no text
        print(f"markitdown: {path.name}: {type(error).__name__}", file=sys.stderr)
        return ""


READING: dict[str, Callable[[Path], str]] = {
    "ragindex": read_here,
    "trafilatura": read_with_trafilatura,
    "markitdown": read_with_markitdown,
}


def without_marks(text: str) -> str:
    """Return a text without the marks of Markdown, which some libraries write, and with single spaces."""
    return " ".join(re.sub(r"[*_`\[\]\\]", "", text).split())


def main(folder: Path, others: list[str]) -> None:
    """Print the figures of this project's readers and of `others`."""
    files = json.loads(Path(__file__).with_name("reader_snippets.json").read_text(encoding="utf-8"))
    pages = [file for file in files if file[0].endswith(".html")]
    for name in ("ragindex", *others):
        for what, chosen in (("HTML", pages), ("others", [file for file in files if file not in pages])):
            kept, left, wanted, unwanted, start = 0, 0, 0, 0, time.perf_counter()
            missed = []
            for file, _, there, gone in chosen:
                text = without_marks(READING[name](folder / file))
                missed += [f"{file}: lost {one!r}" for one in there if without_marks(one) not in text]
                missed += [f"{file}: kept {one!r}" for one in gone if without_marks(one) in text]
                kept += sum(without_marks(one) in text for one in there)
                left += sum(without_marks(one) in text for one in gone)
                wanted, unwanted = wanted + len(there), unwanted + len(gone)
            seconds = time.perf_counter() - start
            print(f"{name}, {len(chosen)} {what}: text {kept}/{wanted}, navigation {left}/{unwanted}, {seconds:.2f} s")
            print("".join(f"    {one}\n" for one in missed), end="")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])

"""Which share of real files is read: words, rows of tables, headings and indented lines, by format.

    .venv/bin/python -m benchmarks.reading FOLDER [--files] [--meter]

FOLDER has the files, at any depth; the figures of docs/dev/evidence/reading-of-files.md are of test files of Apache
Tika (`apache/tika`, folders `test-documents`) and pandoc (`jgm/pandoc`, folder `test`), which are not part of this
project. Each is read in the process that reads files, with its limits, and compared with what stands in it by another
way: the text nodes of its XML, lxml's tree of a page, the standard library for CSV and mail, pypdf for PDF,
office-oxide for .xls. Needs lxml and pypdf (extra `dev`).

Recall is the share of the words of a file, as a multiset, that were read. Printed for each format are its mean over the
files that have words, with a refused file as 0, how many are below 95 and 80 %, and how many of the latter no note
names. The meter is compared with the truth: of the files that lose 5 % of their words or more, how many are refused or
have a note (`noted`), and of those that lose none, how many the meter says to have lost words (`false`). `--files`
lists all below 95 %, with + for those that are noted, and all false alarms. Since little is lost, `--meter` prints how
many of these files and of two copies of each, without 6 to 40 % of the lines that were read, the meter notes.
"""

import csv
import email
import email.policy
import io
import json
import re
import sys
import time
import unicodedata
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from math import ceil
from pathlib import Path
from random import Random
from typing import Any

import office_oxide
import pypdf
from lxml import etree, html

from ragindex.corpus.readers import READERS, FileContent
from ragindex.corpus.readers.meter import LEAST_SHARE, measure
from ragindex.corpus.readers.process import ReadingLimits
from ragindex.corpus.reading_processes import ReadingProcesses
from ragindex.errors import DataError

_WORD = re.compile(
    r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\u0e00-\u0e7f]|[^\W_\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\u0e00-\u0e7f]+"
)
_INVISIBLE = dict.fromkeys(map(ord, "\u00ad\u200b\u200c\u200d\ufeff\u2060\u200e\u200f"))
_PARSER = etree.XMLParser(resolve_entities=False, no_network=True, recover=True, huge_tree=True)
_UNREAD_HTML = frozenset(("script", "style", "template", "noscript", "nav", "head", "iframe", "object", "svg", "math"))
_LOSSY = 0.95
_FEWEST_WORDS = 10  # of a file by which the meter is judged
_DELETED = frozenset(
    ("del", "moveFrom", "Fallback", "instrText", "delText", "tracked-changes", "note-citation", "page-number", "rPh")
)
_DUBLIN_CORE = "{http://purl.org/dc/elements/1.1/}"  # of who wrote a comment, and when
_BLOCKS = frozenset(("p", "h", "tc", "tr", "br", "tab", "cr", "table-cell", "s", "line-break"))


@dataclass(slots=True)
class Truth:
    """What stands in a file: its text, the cells of each row of its tables, its headings, and its indented lines."""

    text: str
    rows: list[tuple[str, ...]] = field(default_factory=list)
    headings: list[str] = field(default_factory=list)
    indented: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Score:
    """What was read of a file. `rows`, `headings` and `indented` are how many were read, and how many there are."""

    recall: float | None
    rows: tuple[int, int] = (0, 0)
    headings: tuple[int, int] = (0, 0)
    indented: tuple[int, int] = (0, 0)
    error: str = ""
    is_noted: bool = False
    is_metered: bool = False  # and too few of its words, by the count of the meter, were read
    seconds: float = 0.0
    megabytes: float = 0.0


def list_words(text: str) -> Counter[str]:
    """Return the words of a text in lower case, with how often each occurs; Chinese characters are words."""
    return Counter(_WORD.findall(unicodedata.normalize("NFKC", text.translate(_INVISIBLE)).casefold()))


# ---------------------------------------------------------------- what stands in a file


def _local(element: Any) -> str:
    return etree.QName(element.tag).localname if isinstance(element.tag, str) else ""


def _walk_text(element: Any, texts: frozenset[str], pieces: list[str]) -> None:
    """Add the text of an XML part: of elements of these names, or of all of them if there are none."""
    name = _local(element)
    number = name == "fld" and element.get("type") == "slidenum"
    if name in _DELETED or not name or number or element.tag.startswith(_DUBLIN_CORE):
        return
    pieces.append("\n" if name in _BLOCKS else "")
    if element.text and (name in texts or not texts):
        pieces.append(element.text)
    for child in element:
        _walk_text(child, texts, pieces)
        if child.tail and not texts:
            pieces.append(child.tail)
    pieces.append("\n" if name in _BLOCKS else "")


def _read_text(element: Any, *texts: str) -> str:
    pieces = list[str]()
    _walk_text(element, frozenset(texts), pieces)
    return "".join(pieces)


def _cells(row: Any, cell: str, *texts: str) -> tuple[str, ...]:
    return tuple(" ".join(_read_text(element, *texts).split()) for element in row if _local(element) == cell)


def _parse_part(archive: zipfile.ZipFile, name: str) -> Any:
    return etree.fromstring(archive.read(name), _PARSER)


def _find_main_part(archive: zipfile.ZipFile) -> str:
    relations = _parse_part(archive, "_rels/.rels")
    return next(
        str(part.get("Target")) for part in relations if str(part.get("Type")).endswith("/officeDocument")
    ).lstrip("/")


def read_word_truth(raw: bytes) -> Truth:
    """Text nodes of a .docx file, without what was deleted; rows without merged cells and tables inside of tables."""
    archive = zipfile.ZipFile(io.BytesIO(raw))
    root = _parse_part(archive, _find_main_part(archive))
    merged = {"gridSpan", "vMerge", "tbl", "hMerge"}
    rows = [row for row in root.iter() if _local(row) == "tr" and not merged & {_local(node) for node in row.iter()}]
    return Truth(_read_text(root, "t"), [_cells(row, "tc", "t") for row in rows])


def read_slides_truth(raw: bytes) -> Truth:
    """Text nodes of the slides and the speaker's notes of a .pptx file."""
    archive = zipfile.ZipFile(io.BytesIO(raw))
    slides = [
        name for name in archive.namelist() if re.fullmatch(r"ppt/(?:slides/s|notesSlides/notesS)lide\d+\.xml", name)
    ]
    roots = [_parse_part(archive, name) for name in slides]
    rows = [row for root in roots for row in root.iter() if _local(row) == "tr"]
    plain = [
        row for row in rows if not any(cell.get("gridSpan") or cell.get("hMerge") or cell.get("vMerge") for cell in row)
    ]
    return Truth("\n".join(_read_text(root, "t") for root in roots), [_cells(row, "tc", "t") for row in plain])


def read_sheets_truth(raw: bytes) -> Truth:
    """The texts of the cells of an .xlsx file; numbers depend on their format and are not compared."""
    archive = zipfile.ZipFile(io.BytesIO(raw))
    names = archive.namelist()
    shared = [name for name in names if name.endswith("sharedStrings.xml")]
    strings = [_read_text(node, "t") for name in shared for node in _parse_part(archive, name) if _local(node) == "si"]
    texts = list[str]()
    for name in names:
        if re.fullmatch(r"xl/worksheets/sheet\d+\.xml", name):
            for cell in _parse_part(archive, name).iter():
                if _local(cell) == "c" and cell.get("t") in ("s", "inlineStr", "str"):
                    value = _read_text(cell, "v", "t").strip()
                    texts.append(strings[int(value)] if cell.get("t") == "s" and value else value)
    return Truth("\n".join(texts))


def read_old_sheets_truth(raw: bytes) -> Truth:
    """The texts of the cells of an .xls file by office-oxide, which is not its reader; numbers are not compared."""
    lines = office_oxide.Document.from_bytes(raw, "xls").plain_text().split("\n")
    cells = (cell for line in lines for cell in line.split("\t"))
    return Truth("\n".join(cell for cell in cells if not any(map(str.isdigit, cell))))


def read_open_document_truth(raw: bytes) -> Truth:
    """The paragraphs and headings of an .odt, .odp or .ods file."""
    root = _parse_part(zipfile.ZipFile(io.BytesIO(raw)), "content.xml")
    body = next(element for element in root.iter() if _local(element) == "body")
    headings = [" ".join(_read_text(element).split()) for element in body.iter() if _local(element) == "h"]
    return Truth(_read_text(body), headings=[heading for heading in headings if heading])


def read_book_truth(raw: bytes) -> Truth:
    """The pages of an .epub file that its spine names."""
    archive = zipfile.ZipFile(io.BytesIO(raw))
    package = next(
        node.get("full-path") for node in _parse_part(archive, "META-INF/container.xml").iter() if node.get("full-path")
    )
    root, folder = _parse_part(archive, package), package.rpartition("/")[0]
    files = {node.get("id"): node.get("href") for node in root.iter() if _local(node) == "item"}
    spine = [
        files[node.get("idref")] for node in root.iter() if _local(node) == "itemref" and node.get("linear") != "no"
    ]
    pages = [read_page_truth(archive.read(f"{folder}/{name}" if folder else name)) for name in spine]
    return Truth("\n".join(page.text for page in pages), headings=[node for page in pages for node in page.headings])


def read_page_truth(raw: bytes) -> Truth:
    """The text nodes of a page outside of scripts, styles and navigation elements."""
    try:
        raw.decode()
        page = html.document_fromstring(raw, parser=html.HTMLParser(encoding="utf-8"))
    except UnicodeDecodeError:
        page = html.document_fromstring(raw)
    for element in list(page.iter()):
        if element.tag in _UNREAD_HTML or not isinstance(element.tag, str):
            element.drop_tree()
    headings = [" ".join(node.text_content().split()) for node in page.iter("h1", "h2", "h3", "h4", "h5", "h6")]
    rows = [row for row in page.iter("tr") if not row.xpath(".//table|.//*[@colspan]|.//*[@rowspan]")]
    cells = [tuple(" ".join(node.itertext()) for node in row if node.tag in ("td", "th")) for row in rows]
    lines = [line for node in page.iter("pre") for line in node.text_content().split("\n") if line.startswith("  ")]
    return Truth(" ".join(page.itertext()), cells, [re.sub(r"[¶§🔗]", "", node) for node in headings if node], lines)


def read_table_truth(raw: bytes) -> Truth:
    """The cells of a .csv or .tsv file."""
    text = raw.decode("utf-8-sig", "replace")
    rows = [tuple(row) for row in csv.reader(io.StringIO(text), delimiter="\t" if "\t" in text else ",")]
    return Truth("\n".join(" ".join(row) for row in rows), rows)


def read_mail_truth(raw: bytes) -> Truth:
    """The subject and the body of a mail."""
    message = email.message_from_bytes(raw, policy=email.policy.default)
    body = message.get_body(("plain", "html"))
    text = "" if body is None else str(body.get_content())
    is_page = body is not None and body.get_content_type() == "text/html" and bool(text.strip())
    return Truth(f"{message['subject'] or ''}\n{read_page_truth(text.encode()).text if is_page else text}")


def read_pdf_truth(raw: bytes) -> Truth:
    """The text that pypdf reads, which makes mistakes of its own."""
    return Truth("\n".join(page.extract_text() for page in pypdf.PdfReader(io.BytesIO(raw)).pages))


def read_notebook_truth(raw: bytes) -> Truth:
    """The sources of the cells of a notebook."""
    return Truth("\n".join("".join(cell.get("source", "")) for cell in json.loads(raw)["cells"]))


TRUTHS: Mapping[str, Callable[[bytes], Truth]] = {
    ".docx": read_word_truth,
    ".pptx": read_slides_truth,
    ".xlsx": read_sheets_truth,
    ".xls": read_old_sheets_truth,
    ".odt": read_open_document_truth,
    ".odp": read_open_document_truth,
    ".ods": read_open_document_truth,
    ".epub": read_book_truth,
    ".html": read_page_truth,
    ".csv": read_table_truth,
    ".tsv": read_table_truth,
    ".eml": read_mail_truth,
    ".pdf": read_pdf_truth,
    ".ipynb": read_notebook_truth,
}


# ---------------------------------------------------------------- what was read


def score_content(truth: Truth, content: FileContent) -> Score:
    """Compare what was read with what stands in the file."""
    words, text = list_words(truth.text), f"{content.title}\n{content.text}"
    recall = (words & list_words(text)).total() / words.total() if words else None
    rows = Counter(_trim(row) for row in truth.rows if len(row) > 1 and any(cell.strip() for cell in row))
    read_rows = Counter(_trim(row) for row in _list_rows(content.text))
    headings = Counter(_squeeze(heading) for heading in truth.headings if _squeeze(heading))
    read_headings = Counter(_squeeze(section.headings[-1]) for section in content.sections if section.headings)
    lines = [line.rstrip() for line in truth.indented if line.strip()]
    return Score(
        recall,
        ((rows & read_rows).total(), rows.total()),
        ((headings & read_headings).total(), headings.total()),
        (sum(line in content.text for line in lines), len(lines)),
        is_noted=bool(content.notes),
        is_metered=content.reading is not None and content.reading.share < LEAST_SHARE,
    )


def _list_rows(text: str) -> Iterator[tuple[str, ...]]:
    for line in text.split("\n"):
        if line.strip().startswith("|"):
            yield tuple(re.split(r"(?<!\\)\|", line.strip().strip("|")))


def _trim(row: tuple[str, ...]) -> tuple[str, ...]:
    cells = [_squeeze(cell) for cell in row]
    while cells and not cells[-1]:
        cells.pop()
    return tuple(cells)


def _squeeze(text: str) -> str:
    return re.sub(r"[\W_]+", "", unicodedata.normalize("NFKC", text)).casefold()


def score_file(path: Path, processes: ReadingProcesses) -> Score:
    """Read a file and compare it. Raises what a library of the truth raises for a damaged file."""
    raw = path.read_bytes()
    truth = TRUTHS[path.suffix.lower()](raw)
    start = time.perf_counter()
    try:
        content = processes.read(raw, path, path.suffix.lower(), None, ReadingLimits())
    except DataError as error:
        return Score(0.0 if list_words(truth.text) else None, error=f"expected {error.expected}, found {error.found}")
    seconds = time.perf_counter() - start
    score = score_content(truth, content)
    score.seconds, score.megabytes = seconds, len(raw) / 1e6
    return score


def judge_meter(path: Path) -> Iterator[tuple[float, bool]]:
    """Yield what share of a file was read, and whether the meter notes a loss, as it is and with lines removed."""
    raw, suffix, random = path.read_bytes(), path.suffix.lower(), Random(path.name)
    truth = TRUTHS[suffix](raw)
    content = READERS[suffix](raw, path, None)
    lines = content.text.split("\n")
    for share in (0.0, random.uniform(0.06, 0.4), random.uniform(0.06, 0.4)):
        count = ceil(len(lines) * share)
        first = random.randrange(len(lines) - count + 1)
        start, end = (len("\n".join(lines[:at])) for at in (first, first + count))
        sections = (
            replace(section, start=section.start if section.start <= start else max(start, section.start - end + start))
            for section in content.sections
        )
        text = content.text[:start] + content.text[end:]
        cut = replace(content, text=text, sections=tuple(sections))
        recall, reading = score_content(truth, cut).recall, measure(raw, suffix, cut)
        if recall is not None and list_words(truth.text).total() >= _FEWEST_WORDS:
            yield recall, reading is not None and reading.share < LEAST_SHARE


def print_meter(files: Sequence[Path]) -> None:
    """Print how many files that lose words, and how many that lose none, the meter notes."""
    print("| format | lose 5 % or more | of these noted | lose nothing | of these noted |\n|---|---|---|---|---|")
    judged = dict[str, list[tuple[float, bool]]]()
    for path in files:
        with suppress(Exception):  # of damaged files, and what libraries of the truth raise
            judged.setdefault(path.suffix.lower(), []).extend(judge_meter(path))
    judged["all"] = [pair for pairs in judged.values() for pair in pairs]
    for suffix, pairs in judged.items():
        lossy, complete = ([noted for recall, noted in pairs if chosen(recall)] for chosen in (_is_lossy, _is_whole))
        print(f"| {suffix} | {len(lossy)} | {sum(lossy)} | {len(complete)} | {sum(complete)} |")


def _is_lossy(recall: float) -> bool:
    return recall <= _LOSSY


def _is_whole(recall: float) -> bool:
    return recall == 1


def main(folder: Path, lists_files: bool, checks_meter: bool) -> None:
    """Print the table, and the files below 95 %; or the table of the meter."""
    files = sorted(path for path in folder.rglob("*") if path.suffix.lower() in TRUTHS.keys() & READERS.keys())
    if checks_meter:
        print_meter(files)
        return
    scores = dict[str, dict[Path, Score]]()
    unknown = Counter[str]()
    with ReadingProcesses() as processes:
        for path in files:
            suffix = path.suffix.lower()
            try:
                scores.setdefault(suffix, {})[path] = score_file(path, processes)
            except Exception:  # noqa: BLE001  # libraries of the truth raise anything for damaged files
                unknown[suffix] += 1
    columns = [
        "format",
        "files",
        "refused",
        "recall",
        "<95",
        "<80",
        "unsaid",
        "noted",
        "false",
        "rows",
        "headings",
        "indented",
        "files/s",
        "s/MB",
    ]
    print(f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}")
    for suffix, of_suffix in scores.items():
        print(f"| {' | '.join(_list_cells(suffix, list(of_suffix.values())))} |")
    print(f"without a truth: {dict(unknown)}")
    for path, score in (pair for of_suffix in scores.values() for pair in of_suffix.items() if lists_files):
        if score.recall is not None and (score.recall < 0.95 or (score.recall == 1 and score.is_metered)):
            mark = "+" if score.is_noted or score.error else "-"
            print(f"{mark} {score.recall:.2f} {path.relative_to(folder)} {score.error[:150]}")


def _list_cells(suffix: str, scores: list[Score]) -> list[str]:
    recalls = [score.recall for score in scores if score.recall is not None]
    silent = [
        file for file in scores if file.recall is not None and file.recall < 0.8 and not (file.is_noted or file.error)
    ]
    lossy = [file for file in scores if file.recall is not None and _is_lossy(file.recall)]
    complete = [file for file in scores if file.recall is not None and _is_whole(file.recall)]
    seconds, megabytes = sum(score.seconds for score in scores), sum(score.megabytes for score in scores)
    return [
        suffix,
        str(len(recalls)),
        str(sum(bool(score.error) for score in scores)),
        _percent(sum(recalls), len(recalls)),
        str(sum(recall < 0.95 for recall in recalls)),
        str(sum(recall < 0.8 for recall in recalls)),
        str(len(silent)),
        f"{sum(file.is_noted or bool(file.error) for file in lossy)}/{len(lossy)}",
        f"{sum(file.is_metered for file in complete)}/{len(complete)}",
        *(
            _percent(sum(getattr(score, name)[0] for score in scores), sum(getattr(score, name)[1] for score in scores))
            for name in ("rows", "headings", "indented")
        ),
        f"{len(scores) / seconds:.0f}" if seconds else "–",
        f"{seconds / megabytes:.2f}" if megabytes else "–",
    ]


def _percent(part: float, total: float) -> str:
    return f"{100 * part / total:.1f}" if total else "–"


if __name__ == "__main__":
    main(Path(sys.argv[1]), "--files" in sys.argv[2:], "--meter" in sys.argv[2:])

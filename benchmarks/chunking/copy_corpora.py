"""Copy the documents that the questions ask about: python -m benchmarks.chunking.copy_corpora UNPACKED CORPORA."""

import re
import shutil
import sys
from pathlib import Path

SQLITE_LEFT_OUT = re.compile(
    r"34to35|capi3|changes|chronology|consortium|doc_|doclist|docs|fileformat\.|hlr|keyword_index|matrix|news|oldnews"
    r"|requirements|sitemap|sqlanalyze|syntaxdiagrams|toc|vdbe$"
)
POSTGRESQL_LEFT_OUT = re.compile(r"release|bookindex|errcodes|features|biblio|unsupported|index|ecpg-des|information")
POSTFIX_LEFT_OUT = {"TLS_LEGACY_README", "POSTSCREEN_3_5_README"}
"""Older versions of two other pages, with most of their sentences."""
LATEX = {
    "amsmath": "amscd amsldoc",
    "base": "cfgguide clsguide cyrguide doc docstrip encguide fntguide ifthen inputenc lb2 letter lppl ltcmdhooks-doc"
    " ltfilehook-doc lthooks-doc ltmarks-doc ltnews ltpara-doc ltshipout-doc ltx3info modguide slides syntonly"
    " usrguide utf8ienc",
    "fancyhdr": "fancyhdr",
    "geometry": "geometry",
    "graphics": "color graphics grfguide keyval rotating trig",
    "kvoptions": "kvoptions",
    "l3packages/xparse": "xparse",
    "natbib": "natbib",
    "tools": "afterpage array bm calc dcolumn enumerate hhline layout longtable multicol showkeys tabularx theorem"
    " varioref verbatim xr xspace",
}


def count_words(page: Path) -> int:
    """Count the words of an HTML page without its tags, scripts and styles."""
    text = page.read_text(encoding="utf-8", errors="replace")
    return len(re.sub(r"(?s)<(script|style).*?</\1>|<[^>]+>", " ", text).split())


def main(unpacked: str, corpora: str) -> None:
    """Copy long pages of SQLite (2,000 to 20,000 words) and PostgreSQL (2,600 and more), and others by name."""
    doc = Path(unpacked) / "usr/share/doc"
    sqlite = [
        page
        for page in (doc / "sqlite3").glob("*.html")
        if 2000 <= count_words(page) <= 20000 and not SQLITE_LEFT_OUT.match(page.name)
    ]
    postgresql = [
        page
        for page in (doc / "postgresql-doc-15/html").glob("*.html")
        if count_words(page) >= 2600 and not POSTGRESQL_LEFT_OUT.match(page.name)
    ]
    manual = doc / "postfix/html"
    postfix = [
        page
        for page in (*manual.glob("*_README.html"), manual / "INSTALL.html", manual / "OVERVIEW.html")
        if page.stem not in POSTFIX_LEFT_OUT
    ]
    latex = [
        doc / "texlive-doc/latex" / folder / f"{name}.pdf" for folder, names in LATEX.items() for name in names.split()
    ]
    for corpus, files in {"sqlite": sqlite, "postgresql": postgresql, "postfix": postfix, "latex": latex}.items():
        target = Path(corpora) / corpus
        target.mkdir(parents=True)
        for file in files:
            shutil.copy(file, target / file.name)


if __name__ == "__main__":
    main(*sys.argv[1:])

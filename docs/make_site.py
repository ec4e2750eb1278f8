"""Make the site of the documentation in build/site: `make docs`. Fails at a link that leads to no page.

The pages keep the places that they have in the repository, so that their links hold on the site too.
"""

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build"
PAGES, SITE = BUILD / "pages", BUILD / "site"
_FOLDERS = ("docs", "examples", "studies", "benchmarks")
_SUFFIXES = (".md", ".png")
_UNSEARCHED = ("CHANGELOG.md", "docs/dev/", "benchmarks/", "studies/")
"""Pages that the search leaves out: reasons and evidence, which would come before the page that answers."""


def copy_pages() -> None:
    """Copy the pages and their pictures to PAGES, in place of those of the last time."""
    shutil.rmtree(PAGES, ignore_errors=True)
    sources = [*ROOT.glob("*.md"), *(path for name in _FOLDERS for path in (ROOT / name).rglob("*"))]
    for source in sources:
        if source.suffix in _SUFFIXES:
            copy = PAGES / source.relative_to(ROOT)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, copy)
            if source.suffix == ".md" and source.relative_to(ROOT).as_posix().startswith(_UNSEARCHED):
                copy.write_text(f"---\nsearch:\n  exclude: true\n---\n\n{source.read_text('utf-8')}", "utf-8")


def main() -> int:
    """Build the site, and print where it is. Returns the exit status of the build."""
    copy_pages()
    shutil.rmtree(SITE, ignore_errors=True)
    shutil.copyfile(ROOT / "docs" / "zensical.toml", BUILD / "zensical.toml")  # it names the folders beside it
    status = subprocess.run([sys.executable, "-m", "zensical", "build", "--strict", "--clean"], cwd=BUILD).returncode
    if status == 0:
        pass
    return status


if __name__ == "__main__":
    sys.exit(main())

"""Draw the demo's report and its tables in a terminal into docs/: `python docs/make_pictures.py`. Needs Chromium."""

import io
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import TerminalTheme

from ragindex_eval.report.terminal import render_study
from ragindex_eval.results.files import load_results
from ragindex_eval.results.model import Study

PICTURES = Path(__file__).resolve().parent / "pictures"
BROWSERS = ("chromium", "google-chrome", "chromium-browser", "chromium-headless-shell")
TERMINALS = {80: (700, 765), 120: (1040, 530)}
"""Columns of a terminal, and the width and height of its picture in pixels."""
REPORT = (1080, 1380)
THEME = TerminalTheme(
    (255, 255, 255),
    (0, 0, 0),
    [(0, 0, 0), (170, 0, 0), (0, 120, 0), (128, 128, 0), (0, 0, 170), (130, 0, 130), (0, 120, 120), (90, 90, 90)],
)
PAGE = """<!doctype html><meta charset="utf-8"><style>
body {{ margin: 12px; background: {background}; color: {foreground}; }}
pre {{ margin: 0; font: 14px/18px "DejaVu Sans Mono", monospace; }}
</style><pre>{code}</pre>"""


def main() -> None:
    """Run the demo in a folder of its own and draw its results."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        command = [sys.executable, "-m", "ragindex", "demo", "--dir", str(folder / "demo")]
        subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)  # noqa: S603  # a fixed command
        results = folder / "demo" / "results"
        draw(results / "report.html", PICTURES / "report.png", REPORT)
        study = load_results(results)
        for columns, size in TERMINALS.items():
            (folder / "terminal.html").write_text(show_in_terminal(study, columns), encoding="utf-8")
            draw(folder / "terminal.html", PICTURES / f"terminal-{columns}.png", size)


def show_in_terminal(study: Study, columns: int) -> str:
    """Return a page with the tables of a study as a terminal of `columns` shows them."""
    console = Console(
        file=io.StringIO(), record=True, width=columns, force_terminal=True, color_system="standard", highlight=False
    )
    console.print(render_study(study))
    return console.export_html(theme=THEME, code_format=PAGE, inline_styles=True)


def draw(page: Path, picture: Path, size: tuple[int, int]) -> None:
    """Draw the upper part of a page as a browser shows it in a window of `size`, in pixels."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        raise SystemExit(f"None of {', '.join(BROWSERS)} is installed.")
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
    window = f"--window-size={size[0]},{size[1]}"
    command = [browser, *flags, window, f"--screenshot={picture}", page.as_uri()]
    subprocess.run(command, check=True, stderr=subprocess.DEVNULL)  # noqa: S603  # a browser of the search path


if __name__ == "__main__":
    main()

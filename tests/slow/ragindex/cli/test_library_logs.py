"""What libraries log while a command reads files is not among its own words."""

import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest
from joblib.externals.loky import get_reusable_executor

from ragindex._util import workers
from ragindex._util.workers import map_in_processes, use_workers

PAGE = b"""%PDF-1.4
1 0 obj
<< /Type /Catalog /Pages 2 0 R >>
endobj
2 0 obj
<< /Type /Pages /Kids [3 0 R] /Count 1 >>
endobj
3 0 obj
<< /Type /Page /Parent 2 0 R /MediaBox [0 0 300 300] /Contents 4 0 R
/Resources << /Font << /F1 << /Type /Font /Subtype /Type1 /BaseFont /Helvetica >> >> >> >>
endobj
4 0 obj
<< /Length 61 >>
stream
BT /F1 12 Tf 20 200 Td (The mill was built in 1871, said Ada.) Tj ET
endstream
endobj
xref
0 1
0000000000 65535 f
trailer
<< /Size 5 /Root 1 0 R >>
startxref
7
%%EOF
"""


PDF_READER_SAYS = ("EOF", "startxref", "xref", "invalid pdf header", "Object Streams")


def index(folder: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    """Run the command in a process of its own: pytest's handlers at the root logger would hide what is printed."""
    command = [sys.executable, "-m", "ragindex", "index", "notes", "--index", "w", "--methods", "bm25", *flags]
    environment = {**os.environ, "COLUMNS": "200"}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_a_broken_pdf_is_named_by_us_alone(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "damaged.pdf").write_bytes(PAGE)  # its cross-references are wrong, its text can be read
    (notes / "cut.pdf").write_bytes(PAGE[:200])
    (notes / "no.pdf").write_bytes(b"no PDF at all")
    done = index(tmp_path)
    assert done.returncode == 11
    assert not [words for words in PDF_READER_SAYS if words in done.stdout + done.stderr]
    assert sorted(name for name in ("cut.pdf", "damaged.pdf", "no.pdf") if name in done.stderr) == ["cut.pdf", "no.pdf"]


def warn(number: int) -> int:
    logging.getLogger("pypdf._reader").warning("a library's words")
    logging.getLogger("ragindex.corpus").warning("our words")
    return number


def test_worker_processes_print_our_warnings_alone(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    get_reusable_executor().shutdown()  # processes of an earlier test print where that test's output went
    monkeypatch.setattr(workers, "SERIAL_SECONDS", 0.0)
    with use_workers(2):
        assert list(map_in_processes(warn, [1, 2, 3])) == [1, 2, 3]
    assert capfd.readouterr().err == "our words\n" * 3

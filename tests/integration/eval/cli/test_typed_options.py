"""A type checker sees the options of `ragindex.compare`."""

import subprocess
import sys
from pathlib import Path

import ragindex


def test_type_checker_rejects_a_misspelt_option(tmp_path: Path) -> None:
    package = Path(ragindex.__file__).parent
    call = 'import ragindex\nragindex.compare("notes", ["bm25"], questions="q.csv", {}=1)\n'
    (tmp_path / "right.py").write_text(call.format("seed"))
    (tmp_path / "misspelt.py").write_text(call.format("sead"))
    arguments = ["--follow-imports=skip", "--ignore-missing-imports", "--no-incremental"]
    sources = [package / "__init__.py", package / "compare_options.py", tmp_path / "right.py", tmp_path / "misspelt.py"]
    # in a process of its own: mypy raises the recursion limit
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *arguments, *map(str, sources)], capture_output=True, text=True, check=False
    )
    (error,) = [line for line in done.stdout.splitlines() if "error:" in line]
    assert error.endswith('misspelt.py:2: error: Unexpected keyword argument "sead" for "compare"  [call-arg]')

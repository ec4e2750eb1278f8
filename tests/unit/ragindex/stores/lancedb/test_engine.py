"""A processor that LanceDB is not compiled for is named; one that runs it is remembered."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ragindex.cli.doctor import check_installation
from ragindex.errors import StoreError
from ragindex.stores.lancedb import engine


@pytest.mark.parametrize("status", [-signal.SIGILL, 0xC000001D, 0, 1])
def test_processor(status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGINDEX_CACHE", str(tmp_path))
    probes = []

    def probe(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        probes.append(command)
        return subprocess.CompletedProcess(command, status)

    monkeypatch.setattr(subprocess, "run", probe)
    for _ in range(2):
        if status in (0, 1):  # 1: an error that the import itself tells
            engine.check_processor()
        else:
            with pytest.raises(StoreError, match="lacks instructions \\(AVX2\\) that LanceDB .* --store elasticsearch"):
                engine.check_processor()
    assert len(probes) == (1 if status == 0 else 2)
    assert probes[0][3:] == sys.path


def test_doctor_names_processor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGINDEX_CACHE", str(tmp_path))
    monkeypatch.setattr(subprocess, "run", lambda command, **_: subprocess.CompletedProcess(command, -signal.SIGILL))
    (row,) = [row for row in check_installation() if row[0] == "store lancedb"]
    assert row[1] == "broken"
    assert "AVX2" in row[2]

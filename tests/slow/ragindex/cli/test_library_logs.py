"""What libraries log while a command reads files is not among its own words."""

import logging

import pytest
from joblib.externals.loky import get_reusable_executor

from ragindex._util import workers
from ragindex._util.workers import map_in_processes, use_workers


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

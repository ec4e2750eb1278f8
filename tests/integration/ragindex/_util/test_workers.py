"""Work on processes: the results of one process, in order; errors, warnings, an interrupt and a death."""

import os
import signal
import threading
import time
import warnings
from typing import Any

import pytest
from joblib.externals.loky.process_executor import ProcessPoolExecutor

from ragindex import errors
from ragindex._util import workers
from ragindex._util.workers import available_workers, map_in_processes, use_workers
from ragindex.accounting import ledger
from ragindex.errors import DataError, LLMError, RagindexError, UsageError
from ragindex.estimate import CountingRules
from ragindex.llm.offline import OfflineRules
from ragindex.llm.tasks import Failure
from ragindex.parts.trees.summary_tree import SUMMARY


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Two processes from the first item on."""
    monkeypatch.setattr(workers, "SERIAL_SECONDS", 0.0)
    with use_workers(2):
        yield


def _square(number: int) -> tuple[int, int]:
    return number * number, os.getpid()


def _warn(number: int) -> int:
    warnings.warn(f"number {number}", UserWarning, stacklevel=2)
    return number


def _fail(number: int) -> int:
    if number == 3:
        raise DataError("a number", "three", path="file", line=3)
    return number


@pytest.mark.usefixtures("processes")
def test_results_come_in_order_from_other_processes() -> None:
    squares = list(map_in_processes(_square, range(50)))
    assert [result for result, _ in squares] == [number * number for number in range(50)]
    assert os.getpid() not in {process for _, process in squares}
    assert list(map_in_processes(_square, [])) == []


def test_little_work_stays_in_this_process() -> None:
    with use_workers(2):
        assert {process for _, process in map_in_processes(_square, range(50))} == {os.getpid()}


@pytest.mark.usefixtures("processes")
def test_errors_keep_their_attributes() -> None:
    sent = [
        DataError("a", "b", path="c"),
        LLMError("refused", "refusal"),
        errors.MissingExtraError("x"),
        UsageError("y"),
    ]
    for error, copy in zip(sent, map_in_processes(_give_back, sent), strict=True):
        assert (type(copy), str(copy), copy.__dict__) == (type(error), str(error), error.__dict__)


def _give_back(error: RagindexError) -> RagindexError:
    return error


@pytest.mark.parametrize("written", ["0", "-1", "two", "1.5"])
def test_bad_numbers_of_workers(written: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(workers.WORKERS, written)
    with pytest.raises(UsageError, match="RAGINDEX_WORKERS must be a whole number of at least 1. Got"):
        available_workers()
    with pytest.raises(UsageError, match="workers must be a whole number"), use_workers(0):
        pass


@pytest.mark.usefixtures("processes")
def test_rules_answer_as_in_one_process() -> None:
    texts = [f"The harbour of town {number} was built in 18{number:02}. It has a mole." for number in range(20)]
    inputs = [{"texts": [text], "words": 5, "language": "english"} for text in texts]
    outputs = OfflineRules().map(SUMMARY, inputs)
    with use_workers(1):
        assert OfflineRules().map(SUMMARY, inputs) == outputs
    assert not any(isinstance(output, Failure) for output in outputs)


@pytest.mark.usefixtures("processes")
def test_rules_that_count_see_every_answer() -> None:
    texts = [[f"Text {number}."] for number in range(20)]
    inputs = [{"texts": text, "shown": text, "words": 5, "language": "english"} for text in texts]
    with ledger.record_calls() as recorded:
        CountingRules("gpt-4o-mini").map(SUMMARY, inputs)
    assert [(entry.task, entry.item) for entry in recorded.entries] == [(SUMMARY.name, number) for number in range(20)]
    assert all(entry.input_tokens and entry.output_tokens for entry in recorded.entries)


def _ask_handler(number: int) -> bool:
    return signal.getsignal(signal.SIGINT) is signal.SIG_IGN


@pytest.mark.usefixtures("processes")
def test_ctrl_c_reaches_the_command_and_not_its_workers() -> None:
    assert list(map_in_processes(_ask_handler, range(4))) == [True] * 4


@pytest.mark.usefixtures("processes")
def test_work_that_is_given_up_ends_with_the_command() -> None:
    """The results that an error leaves behind stay referenced by its traceback."""
    results = map_in_processes(_square, range(50))
    next(results)
    workers.end_work()
    assert list(results) == []
    assert [result for result, _ in map_in_processes(_square, [7])] == [49]


@pytest.mark.usefixtures("processes")
def test_end_of_work_beside_new_work_is_silent(monkeypatch: pytest.MonkeyPatch, capfd: Any) -> None:
    """The thread that has just taken more work, and not passed it on, neither fails nor writes to standard error."""
    submitted, submit = threading.Event(), ProcessPoolExecutor.submit

    def submit_slowly(*given: Any, **named: Any) -> Any:
        future = submit(*given, **named)
        if threading.current_thread() is not threading.main_thread():
            submitted.set()
            time.sleep(0.5)  # meanwhile, the main thread ends the work
        return future

    monkeypatch.setattr(ProcessPoolExecutor, "submit", submit_slowly)
    results = map_in_processes(_square, range(50))
    next(results)
    submitted.clear()
    assert submitted.wait(60)
    workers.end_work()
    assert list(results) == []
    assert capfd.readouterr().err == ""
    assert [result for result, _ in map_in_processes(_square, [7])] == [49]


@pytest.mark.usefixtures("processes")
def test_warnings_and_errors_of_processes_are_those_of_one() -> None:
    with pytest.warns(UserWarning, match="^number 0$"):
        assert list(map_in_processes(_warn, [0])) == [0]
    with pytest.raises(DataError, match="file, line 3: expected a number; found three") as raised:
        list(map_in_processes(_fail, range(10)))
    assert (raised.value.path, raised.value.line, raised.value.expected) == ("file", 3, "a number")

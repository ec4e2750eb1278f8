"""The log of what all runs have paid: lines that many processes append, broken ones, months, and the sum of a day."""

import json
import stat
import time
import warnings
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Thread

import pytest

from ragindex.accounting import ledger, spending_log
from ragindex.accounting.spending_log import DaySum, log_folder, log_payment, name_command, read_payments
from ragindex.errors import StoreError

SECRET = "sk-a-secret-of-this-test"
NOW = datetime.now().astimezone()
TODAY = NOW.date()


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RAGINDEX_STATE", str(tmp_path / "state"))
    monkeypatch.setattr(spending_log, "_command", "python")
    return tmp_path / "state" / "spending"


def pay(money: float | None = 0.25, **given: object) -> None:
    values = {"index": "/data/w", "model": "small", "task": "extract", "input_tokens": 7, "output_tokens": 3}
    log_payment(**{**values, **given}, money=money)  # type: ignore[arg-type]


def month_file(folder: Path) -> Path:
    (path,) = folder.iterdir()
    return path


def test_line_has_what_was_paid_and_is_private(folder: Path) -> None:
    name_command("index")
    before = time.time()
    pay()
    path = month_file(folder)
    assert path.name == f"{datetime.now(UTC):%Y-%m}.jsonl"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    line = json.loads(path.read_text())
    assert before <= line.pop("at") <= time.time()
    assert line == {
        **{"command": "index", "index": "/data/w", "model": "small", "task": "extract"},
        **{"calls": 1, "input_tokens": 7, "output_tokens": 3, "money": 0.25, "estimated": False},
        "possibly_charged": False,
    }


def test_folder_follows_state_variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert log_folder() == tmp_path / "state" / "spending"
    monkeypatch.delenv("RAGINDEX_STATE")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "xdg"))
    assert log_folder() == tmp_path / "xdg" / "ragindex" / "spending"
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert log_folder() == tmp_path / "home" / ".local" / "state" / "ragindex" / "spending"


def test_only_paid_calls_are_logged(folder: Path) -> None:
    call = ledger.CallRecord("extract", "small", input_tokens=7, output_tokens=3, money=0.25, index="/data/w")
    for free in ({"replayed": True}, {"batched": True}, {"rule": True}, {"money": 0.0}):
        ledger.record_call(ledger.CallRecord("extract", "small", **{"money": 0.25, **free}), 0.0)  # type: ignore[arg-type]
    assert not folder.exists()
    with ledger.unrecorded():
        ledger.record_call(call, 0.0)
    ledger.record_call(ledger.CallRecord("extract", "unlisted", money=None), 0.0)
    payments = read_payments(TODAY).payments
    assert [(payment.model, payment.money, payment.index) for payment in payments] == [
        ("small", 0.25, "/data/w"),
        ("unlisted", None, ""),
    ]


def test_secrets_and_long_names_do_not_enter(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    pay(index="/data/\x01" * 5000 + "/w", model=f"https://user:word@host/{SECRET}", task="\x02" * 5000)
    content = month_file(folder).read_bytes()
    assert len(content) < spending_log.MOST_LINE
    assert SECRET.encode() not in content
    assert b"word" not in content
    assert read_payments(TODAY).payments[0].money == 0.25
    pay(index="/a" * 300 + "/my-index")
    assert read_payments(TODAY).payments[1].index.endswith("/my-index")


def test_broken_lines_are_counted_and_left_out(folder: Path) -> None:
    pay(0.5)
    path = month_file(folder)
    content = path.read_bytes()
    wrong = json.loads(content)
    lines = [
        b"no json",
        b'{"at": 1}',
        b"[]",
        json.dumps({**wrong, "money": -1}).encode(),
        json.dumps({**wrong, "money": "1"}).encode(),
        json.dumps({**wrong, "calls": None}).encode(),
        json.dumps({**wrong, "at": 1e300}).encode(),
        b"\xff\xfe" * 10,
        b"[" * 100_000,
    ]
    path.write_bytes(content + b"\n".join(lines) + b"\n" + content[:40] + content)
    log = read_payments(TODAY)
    assert [payment.money for payment in log.payments] == [0.5, 0.5]  # the last follows half a line
    assert log.broken == len(lines)
    assert DaySum().read() == 1.0


def test_threads_append_whole_lines(folder: Path) -> None:
    threads = [Thread(target=lambda: [pay(0.001) for _ in range(100)]) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    log = read_payments(TODAY)
    assert (len(log.payments), log.broken) == (800, 0)
    assert DaySum().read() == pytest.approx(0.8)


def test_days_are_those_of_local_time(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Pacific/Kiritimati")  # fourteen hours before UTC
    time.tzset()
    try:
        today = datetime.now().astimezone()
        midnight = today.replace(hour=0, minute=0, second=0, microsecond=0).timestamp()
        for at, money in ((midnight - 1, 1.0), (midnight + 1, 2.0), (midnight - 40 * 86400, 4.0)):
            monkeypatch.setattr(time, "time", lambda at=at: at)
            pay(money)
        assert [payment.money for payment in read_payments(today.date()).payments] == [2.0]
        assert DaySum().read() == 2.0
        assert {payment.money for payment in read_payments(today.date() - timedelta(days=1)).payments} == {1.0, 2.0}
    finally:
        monkeypatch.undo()
        time.tzset()


def test_old_months_are_removed(folder: Path) -> None:
    folder.mkdir(parents=True)
    recent = [f"{year}-{month:02}.jsonl" for year in (2019, 2020) for month in range(1, 13)]
    for name in (*recent, "notes.txt", "mine.jsonl"):
        (folder / name).write_text("")
    pay()
    left = sorted(path.name for path in folder.iterdir())
    assert "notes.txt" in left
    assert "mine.jsonl" in left
    assert len([name for name in left if name[:2] == "20"]) <= 13
    assert f"{datetime.now(UTC):%Y-%m}.jsonl" in left
    assert "2019-01.jsonl" not in left
    assert "2020-12.jsonl" in left


def test_day_sum_reads_what_is_new_and_starts_again_after_removal(folder: Path) -> None:
    day = DaySum()
    assert day.read() == 0
    pay(1.0)
    assert day.read() == 1.0
    path = month_file(folder)
    line = path.read_bytes()
    with path.open("ab") as file:
        file.write(line[:30])
        file.flush()
        assert day.read() == 1.0  # half a line is not read yet
        file.write(line[30:])
    assert day.read() == 2.0
    path.unlink()
    pay(0.5)
    assert day.read() == 0.5


def test_unwritable_log_is_warned_of_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spending_log, "_warned", False)
    folder.parent.mkdir(parents=True)
    folder.write_text("a file in place of the folder")
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        pay()
        pay()
    assert [str(warning.message).partition(" in ")[0] for warning in warned] == ["What is paid cannot be logged"]
    with pytest.raises(StoreError, match="RAGINDEX_STATE"):
        spending_log.require_log()

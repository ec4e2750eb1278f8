"""Rate and time left of work that is shown."""

import pytest
from rich.progress import Progress, Task

from ragindex._util import progress


@pytest.mark.parametrize(
    ("done", "total", "seconds", "line"),
    [
        (0, 3840, 40.0, "0 of 3,840, 40 s"),
        (256, 3840, 51.2, "256 of 3,840, 51 s, 5.0/s, 12 min left"),
        (3, 40, 60.0, "3 of 40, 60 s, 0.05/s, 12 min left"),
        (120, 200, 10.0, "120 of 200, 10 s, 12/s, 7 s left"),
        (10, 100_010, 10.0, "10 of 100,010, 10 s, 1.0/s, 27.8 h left"),
        (9, 9, 3.0, "9 of 9, 3 s, 3.0/s, 0 s left"),
        (7, None, 3.0, "3 s"),
    ],
)
def test_a_line_has_rate_and_time_left(done: int, total: int | None, seconds: float, line: str) -> None:
    assert progress._describe_pace(done, total, seconds) == line


def test_a_bar_of_batches_of_a_minute_has_rate_and_time_left() -> None:
    """Rich knows no speed of batches that take longer than its period of half a minute."""
    clock = [0.0]
    rate, left = progress._RateColumn(), progress._TimeLeftColumn()
    bars = Progress(rate, left, get_time=lambda: clock[-1])
    task_id = bars.add_task("encoding", total=3840)
    shown = list[tuple[str, str]]()
    for seconds in (60.0, 120.0):
        clock.append(seconds)
        bars.advance(task_id, 256)
        (task,) = bars.tasks
        shown.append((rate.render(task).plain, left.render(task).plain))
        assert task.speed is None
    assert shown == [("4.3/s", "14 min left"), ("4.3/s", "13 min left")]


def test_a_line_ends_with_what_was_paid() -> None:
    with progress.show_costs(lambda: "$0.0123, 45 cached"):
        assert progress._describe_pace(3, 40, 60.0) == "3 of 40, 60 s, 0.05/s, 12 min left, $0.0123, 45 cached"
        (task,) = _begin(progress._CostColumn())
        assert progress._CostColumn().render(task).plain == "$0.0123, 45 cached"
    assert progress._describe_pace(3, 40, 60.0) == "3 of 40, 60 s, 0.05/s, 12 min left"


def _begin(column: progress.ProgressColumn) -> list[Task]:
    bars = Progress(column)
    bars.add_task("asking", total=2)
    return list(bars.tasks)

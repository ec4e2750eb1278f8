"""Which latencies stand beside one another: those of one run on one machine, whatever was timed when."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from timed import QUERIES, NamedRetriever, read_journal, runs, timings

from ragindex.accounting.ledger import CallRecord, record_call
from ragindex.errors import ServiceError
from ragindex.index.index import Index
from ragindex.types import Query, Retrieval
from ragindex_eval.run import environment, latency

pytestmark = pytest.mark.usefixtures("all_rounds")


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Index]:
    with Index.open(tmp_path / "w", create=True) as opened:
        yield opened


def test_a_method_that_joins_is_timed_together_with_those_that_were_timed_before(workspace: Index) -> None:
    first = latency.measure_latency(timings(workspace, "ab"), QUERIES, 5, 0)
    assert read_journal(workspace) == "ab"
    joined = latency.measure_latency(timings(workspace, "abc"), QUERIES, 5, 0)
    assert read_journal(workspace) == "abc"
    assert len(runs(joined)) == 1
    assert all(method.latency.reference.keys() == method.latency.per_query.keys() for method in joined)
    assert runs(joined) != runs(first)
    fewer = latency.measure_latency(timings(workspace, "ca"), QUERIES, 5, 0)  # two of one run: nothing is asked again
    assert read_journal(workspace) == ""
    assert [method.latency for method in fewer] == [joined[2].latency, joined[0].latency]


def test_times_of_another_machine_or_of_other_versions_are_not_used(
    workspace: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = environment.environment()
    latency.measure_latency(timings(workspace, "ab"), QUERIES, 5, 0)
    read_journal(workspace)
    for name, value in (("processor", "another model"), ("processors", "96"), ("numpy", "0.1"), ("system", "Plan 9")):
        monkeypatch.setattr(latency, "environment", lambda name=name, value=value: {**here, name: value})
        latency.measure_latency(timings(workspace, "ab"), QUERIES, 5, 0)
        assert read_journal(workspace) == "ab"
    monkeypatch.setattr(latency, "environment", lambda: here)
    latency.measure_latency(timings(workspace, "ab"), QUERIES, 5, 0)
    assert read_journal(workspace) == ""  # those of this machine are still there
    assert here["processor"]


def test_other_questions_are_timed_again(workspace: Index) -> None:
    latency.measure_latency(timings(workspace, "ab", failed=["q0"]), QUERIES, 5, 0)
    read_journal(workspace)
    healed = latency.measure_latency(timings(workspace, "ab"), QUERIES, 5, 0)
    assert read_journal(workspace) == "ab"
    assert [method.latency.questions for method in healed] == [4, 4]
    latency.measure_latency(timings(workspace, "ab"), QUERIES[:3], 5, 0)
    assert read_journal(workspace) == "ab"


def test_a_method_that_cannot_be_timed_leaves_no_file_and_is_timed_when_it_can(workspace: Index) -> None:
    """Once the empty file was kept, and the method had no latency ever after."""
    broken = latency.measure_latency(timings(workspace, "ab", raises="b"), QUERIES, 5, 0)
    assert [method.latency.questions for method in broken] == [4, 0]
    assert not timings(workspace, "b")[0].path.exists()
    never = latency.measure_latency(
        timings(workspace, "a") + timings(workspace, "b", failed=[query.id for query in QUERIES]), QUERIES, 5, 0
    )
    assert [method.latency.questions for method in never] == [4, 0]
    read_journal(workspace)
    repaired = latency.measure_latency(timings(workspace, "ab"), QUERIES, 5, 0)
    assert read_journal(workspace) == "ab"
    assert [method.latency.questions for method in repaired] == [4, 4]


@pytest.mark.parametrize(
    "content", ["", "{}", '{"seconds": {}}', "[1]", '{"run": "x", "taken": "", "asked": ["q0"], "seconds": {}}']
)
def test_a_file_that_says_nothing_is_not_read(workspace: Index, content: str) -> None:
    (timing,) = timings(workspace, "a")
    timing.path.parent.mkdir(parents=True)
    timing.path.write_text(content)
    (measured,) = latency.measure_latency([timing], QUERIES, 5, 0)
    assert measured.latency.questions == 4


def test_what_ends_a_comparison_ends_its_timing(workspace: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    def raises(*_: object) -> None:
        raise ServiceError("the key is wrong")

    monkeypatch.setattr(NamedRetriever, "retrieve", raises)
    with pytest.raises(ServiceError, match="the key is wrong"):
        latency.measure_latency(timings(workspace, "a"), QUERIES, 5, 0)


def test_of_repeats_the_median_counts_with_its_parts() -> None:
    repeats = [[0.3, 0.1, 0.0, 0.2, 0.05], [0.1, 0.04, 0.0, 0.06, 0.01], [0.2, 0.1, 0.1, 0.0, 0.02]]
    assert latency._take_median(repeats) == [0.2, 0.1, 0.1, 0.0, 0.02]
    assert latency._take_median(repeats[:2]) == [0.1, 0.04, 0.0, 0.06, 0.01]


def test_requests_that_are_paid_for_are_not_repeated(workspace: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    retrieve = NamedRetriever.retrieve

    def pays(self: NamedRetriever, queries: Sequence[Query], k: int) -> list[Retrieval]:
        if self.scheme.name == "b":
            record_call(CallRecord("answer", "a model", input_tokens=10, output_tokens=2, money=0.001), 0.0)
        return retrieve(self, queries, k)

    monkeypatch.setattr(NamedRetriever, "retrieve", pays)
    latency.measure_latency(timings(workspace, "ab"), QUERIES, 5, 0)
    lines = (workspace.folder / "journal").read_text().split()
    assert (lines.count("a"), lines.count("b")) == (5 + 10 * 4, 5 + 4)

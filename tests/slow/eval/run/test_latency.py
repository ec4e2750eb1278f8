"""Latencies of one table over random histories of comparisons."""

import json
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from timed import QUERIES, runs, timings

from examples import examples
from ragindex.index.index import Index
from ragindex_eval.run import latency

steps = st.lists(
    st.tuples(st.sets(st.sampled_from("abcd"), min_size=1), st.sampled_from(["here", "there"]), st.booleans()),
    min_size=1,
    max_size=8,
)


@given(steps)
@settings(max_examples=examples(60))
def test_whatever_was_timed_before_one_table_holds_one_run(history: list[tuple[set[str], str, bool]]) -> None:
    """Over any history of comparisons, on two machines that share a workspace, some of them stopped halfway."""
    with (
        TemporaryDirectory() as folder,
        pytest.MonkeyPatch.context() as patch,
        Index.open(Path(folder), create=True) as opened,
    ):
        for names, machine, stops in history:
            patch.setattr(latency, "environment", lambda machine=machine: {"processor": machine})
            timed = timings(opened, "".join(sorted(names)))
            if stops:
                timed[-1].path.unlink(missing_ok=True)  # as if it had died before this one was written
            measured = latency.measure_latency(timed, QUERIES, 5, 0)
            assert len(runs(measured)) == 1
            assert all(times.latency.questions == 4 for times in measured)
            for timing, times in zip(timed, measured, strict=True):
                record = json.loads((opened.folder / timing.label / latency.latency_file_name(5)).read_text())
                assert {record["run"]} == runs(measured)
                assert {id: row[0] * 1e3 for id, row in record["seconds"].items()} == times.latency.per_query

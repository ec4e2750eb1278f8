"""The rank of a wanted document at the stages of a search, as methods record it."""

import pytest

from ragindex.index.explanation import DocumentExplanation, find_losing_place
from ragindex.retrieval.stages import StageRank, StageRecorder, is_recording, record_ranking, record_stages
from ragindex.types import Hit


def test_nothing_is_recorded_outside_of_a_record() -> None:
    recorder = StageRecorder("d", frozenset(("d#0",)))
    record_ranking("before", ["d#0"])
    with record_stages(recorder):
        assert is_recording()
        with record_stages(None):
            assert not is_recording()
            record_ranking("within", ["d#0"])
        record_ranking("fusion", (id for id in ("a#0", "d#0")), 1, "when?")
    record_ranking("after", ["d#0"])
    assert recorder.stages == [StageRank("fusion", "when?", 2, 1, 2)]


def test_rank_is_that_of_the_best_passage_of_the_document() -> None:
    recorder = StageRecorder("d", frozenset(("d#0", "d#1")))
    summary = Hit("s", "summary", ("a#0", "d#1"), ("a", "d"), "", "", 1.0, "raptor")
    with record_stages(recorder):
        record_ranking("ids", ["a#0", "d#1", "d#0"])
        record_ranking("hits", [summary], 5)
        record_ranking("none", ["a#0"], 5)
    assert [(stage.rank, stage.passed, stage.goes_on) for stage in recorder.stages] == [
        (2, 3, True),
        (1, 1, True),
        (None, 1, False),
    ]


@pytest.mark.parametrize(
    ("ranks", "place"),
    [
        ([None, None, None], 0),
        ([143, None, None], 0),  # 100 go on
        ([None, 143, None, None], 1),
        ([12, None, 101, None], 2),
        ([12, None, 30, None, None], 3),  # dropped by the stage after
        ([None, 30, None, 40, 120, None], 4),
    ],
)
def test_losing_stage_is_the_first_after_which_nothing_ranks_the_document(ranks: list[int | None], place: int) -> None:
    assert find_losing_place([StageRank(f"s{n}", "", rank, 100, 200) for n, rank in enumerate(ranks)]) == place


def test_explanation_after_a_further_cut() -> None:
    stages = (StageRank("text", "", 3, 5, 9), StageRank("hits", "", 3, 5, 5))
    explanation = DocumentExplanation("d", "bm25", 5, 3, stages, None, "d is hit 3 of 5.")
    assert explanation.keep_first(3, "--max-tokens") == explanation
    cut = explanation.keep_first(2, "--max-tokens")
    assert (cut.rank, cut.lost_at) == (None, "--max-tokens")
    assert cut.reason == "--max-tokens left out d: rank 3 of 5, of which the first 2 go on."
    assert cut.to_json()["stages"][-1] == {
        "stage": "--max-tokens",
        "query": "",
        "rank": 3,
        "passed": 2,
        "results": 5,
        "is_cut": False,
    }

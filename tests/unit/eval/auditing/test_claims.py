"""Claims of tables: verdicts against samples drawn with the same means, and figures that cannot be."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from examples import examples
from ragindex.errors import UsageError
from ragindex_eval.auditing.claims import Claim, audit_claims, audit_figures, check_figures
from ragindex_eval.auditing.tables import read_figures
from ragindex_eval.stats.printed_means import paired_p


def claims_of(*rows: Mapping[str, Any], baseline: str = "", n: str = "1000") -> tuple[Claim, ...]:
    return audit_claims(read_figures(list(rows), n).figures, baseline)


def checks_of(*rows: Mapping[str, Any], n: str = "1000") -> list[str]:
    return check_figures(read_figures(list(rows), n).figures)


@pytest.mark.parametrize(
    ("metric", "values", "n", "verdict"),
    [
        ("accuracy", ("73.68", "57.9"), "19", "impossible"),  # 14 and 11 of 19 questions: RAPTOR, Table 8
        ("EM", ("40.50", "40.20"), "1000", "impossible"),  # three questions: SiReRAG, Table 8
        ("EM", ("40.50", "36.40"), "1000", "likely"),
        ("EM", ("46.2", "43.3"), "1000", "open"),
        ("EM", ("61.70", "60.30"), "1000", "unlikely"),
        ("EM", ("59.60", "22.50"), "1000", "significant"),
        ("R@15", ("0.919", "0.917"), "1000", "unlikely"),
        ("F1", ("53.08", "53.06"), "1000", "impossible"),
    ],
)
def test_verdict(metric: str, values: Sequence[str], n: str, verdict: str) -> None:
    rows = [{"method": name, metric: value} for name, value in zip("ab", values, strict=True)]
    (claim,) = claims_of(*rows, n=n)
    assert claim.verdict == verdict


@settings(max_examples=examples(60))
@given(st.integers(20, 120), st.data())
def test_verdicts_hold_for_every_sample(questions: int, data: st.DataObject) -> None:
    """A statement on all samples is true of this one: of its McNemar test, and of its t test with two more."""
    first = np.array(data.draw(st.lists(st.booleans(), min_size=questions, max_size=questions)), dtype=float)
    second = np.array(data.draw(st.lists(st.booleans(), min_size=questions, max_size=questions)), dtype=float)
    rows = [{"method": name, "EM": f"{100 * values.mean():.2f}%"} for name, values in (("a", first), ("b", second))]
    (claim,) = claims_of(*rows, baseline="b", n=str(questions))
    won, lost = int((first > second).sum()), int((first < second).sum())
    exact = stats.binomtest(won, won + lost).pvalue if won + lost else 1.0
    ours = stats.ttest_1samp([*(first - second), 1.0, -1.0], 0).pvalue
    if claim.verdict == "significant":
        assert max(exact, ours) < 0.05
    if claim.verdict == "impossible":
        assert min(exact, ours) >= 0.05
    elif claim.disagreements is not None and claim.difference:
        assert (ours < 0.05) == (won + lost <= claim.disagreements)


def test_claims_of_a_column_share_the_level() -> None:
    rows = [{"method": name, "EM": value} for name, value in (("a", 30), ("b", 20), ("c", 25), ("d", 26))]
    claims = claims_of(*rows, baseline="b")
    assert [(claim.method, claim.baseline) for claim in claims] == [("a", "b"), ("c", "b"), ("d", "b")]
    assert {claim.level for claim in claims} == {0.05 / 3}
    (best,) = claims_of(*rows)
    assert (best.method, best.baseline, best.level) == ("a", "d", 0.05 / 3)
    figures = read_figures(rows, "1000").figures  # and claims of some rows alone
    over = audit_claims(figures, "b", ["a", "d"])
    assert [(claim.method, claim.baseline, claim.level) for claim in over] == [("a", "b", 0.025), ("d", "b", 0.025)]
    (best,) = audit_claims(figures, methods=["c"])
    assert (best.method, best.baseline, best.level) == ("c", "a", 0.05)
    with pytest.raises(UsageError, match="No row is called 'x'"):
        audit_claims(figures, methods=["x"])


def test_claims_that_cannot_be() -> None:
    with pytest.raises(UsageError, match="No row is called 'RAPTR'. Did you mean RAPTOR?"):
        claims_of({"method": "RAPTOR", "EM": 30}, {"method": "x", "EM": 31}, baseline="RAPTR")
    with pytest.raises(UsageError, match="must be of the same questions. Got 500 and 1,000"):
        claims_of({"method": "a", "EM": 30.2, "n": 500}, {"method": "b", "EM": 30, "n": 1000})


def test_shares_won_leave_nothing_open() -> None:
    """Of 250 judgements, 169 and 81: one method wins each, so the sign test is known."""
    (claim,) = claims_of({"method": "a", "win rate": "67.6%"}, {"method": "b", "win rate": "32.4%"}, n="250")
    expected = stats.binomtest(169, 250).pvalue
    assert claim.exact_p == pytest.approx((expected, expected))
    assert claim.verdict == "significant"
    assert claim.needed_questions[0] == claim.needed_questions[1]
    (twice,) = claims_of({"method": "a", "win rate": "54.8%"}, {"method": "b", "win rate": "45.2%"}, n="125")
    assert twice.exact_p is twice.correlation is None  # no share of 125: questions may be divided
    assert (twice.verdict, twice.p[1]) == ("open", pytest.approx(paired_p(125, 125 * 0.095, 125)))
    (even,) = claims_of({"method": "a", "win rate": "52%"}, {"method": "b", "win rate": "48%"}, n="250")
    assert even.verdict == "impossible"


def test_figures_have_intervals_and_smallest_differences() -> None:
    (figure,) = audit_figures(read_figures([{"method": "a", "EM": 40.5}], "1000").figures)
    expected = stats.binomtest(405, 1000).proportion_ci(method="wilson")
    assert figure.interval == pytest.approx((expected.low, expected.high), abs=0.002)
    assert figure.smallest == (0.028, 0.052)


@pytest.mark.parametrize(("written", "value"), [("0", 0.0), ("100", 1.0)])
def test_all_and_none_are_as_printed(written: str, value: float) -> None:
    rows = [{"method": "a", "EM": written}, {"method": "b", "EM": "50"}]
    first, _ = audit_figures(read_figures(rows, "40").figures)
    expected = stats.binomtest(int(40 * value), 40).proportion_ci(method="exact")
    assert first.value == value
    assert first.interval[1 - int(value)] == pytest.approx((expected.low, expected.high)[1 - int(value)])
    (audited, other) = audit_figures(
        read_figures([{"method": "a", "EM": written}, {"method": "b", "EM": 50}], "1").figures
    )
    assert audited.interval == pytest.approx((max(0, value - 0.975), min(1, value + 0.975)))
    assert 0 <= other.interval[0] < other.interval[1] <= 1


# ---------------------------------------------------------------- what cannot be


def test_shares_of_no_whole_number() -> None:
    checks = checks_of({"method": "a", "win rate": "67.6%"}, {"method": "b", "win rate": "32.4%"}, n="125")
    assert checks == [
        "win rate: 2 of 2 figures are no share of 125 questions (a 67.6, b 32.4); all figures are shares of 250, as of "
        "2 runs"
    ]
    assert checks_of({"method": "a", "EM": "63.15"}, n="19") == [  # 12 of 19 is 63.158
        "EM: 1 of 1 figures are no share of 19 questions (a 63.1), unless digits were cut off instead of rounded"
    ]
    assert checks_of({"method": "a", "EM": "67.6"}, n="250") == []
    assert checks_of({"method": "a", "F1": "67.63"}, n="10") == []  # not of 0 and 1


def test_recall_does_not_fall() -> None:
    checks = checks_of({"method": "a", "2Wiki R@10": 86.6, "2Wiki R@15": 69.7}, {"method": "b", "2Wiki R@10": 50})
    assert checks == ["2Wiki: a falls from R@10 to R@15, 86.6 to 69.7, which cannot be"]
    assert checks_of({"method": "a", "nDCG@10": 50, "nDCG@20": 40, "R@5": 41.2, "R@10": 41.2}) == []


def test_exact_match_is_not_above_f1() -> None:
    assert checks_of({"method": "a", "EM": 41.2, "F1": 40.1}) == ["a has EM 41.2 and F1 40.1; F1 cannot be below EM"]
    assert checks_of({"method": "a", "EM": 41.2, "F1": 41.2}) == []

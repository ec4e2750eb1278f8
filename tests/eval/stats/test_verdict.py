"""The words follow the figures."""

from made_comparisons import made

from ragindex_eval.results.model import LATENCY
from ragindex_eval.stats.conclusions import agreement, leaders, overlap, sentence

GOOD, FAIR, BAD = [1.0] * 40, [1.0] * 38 + [0.0] * 2, [0.0] * 40
FAST, SLOW = [1.0 + n / 1000 for n in range(40)], [4.0 + n / 1000 for n in range(40)]


def test_one_leads_and_a_faster_one_is_as_good_further_down() -> None:
    assert leaders(made({"a": BAD, "b": GOOD}), "R@5") == ("b",)
    assert sentence(made({"a": BAD, "b": GOOD})) == "b is best at R@5 (100.0; +100.0, 100.0 to 100.0, over a)."


def test_the_best_and_those_not_told_apart_from_it() -> None:
    comparison = made({"a": FAIR, "b": BAD, "c": GOOD}, {"a": FAST, "b": FAST, "c": SLOW})
    assert leaders(comparison, "R@5") == ("c", "a")
    assert sentence(comparison) == (
        "c leads at R@5 (100.0), and a is not significantly different (n = 40); "
        "a is the fastest of them, 3.9 times faster than c (geometric mean)."
    )


def test_nothing_is_better_inside_the_noise() -> None:
    comparison = made({"a": FAIR, "b": GOOD}, {"a": SLOW, "b": SLOW})
    assert leaders(comparison, "R@5") == ("b", "a")
    assert sentence(comparison) == ("No significant difference in R@5 (n = 40): they score 95.0 to 100.0.")


def test_all_equal() -> None:
    said = sentence(made({"a": FAIR, "b": FAIR}, {"a": SLOW, "b": FAST}))
    assert said == (
        "No significant difference in R@5 (n = 40): all 2 score 95.0; "
        "b is the fastest of them, 3.9 times faster than a (geometric mean)."
    )
    assert "best" not in said


def test_few_questions_are_a_hint() -> None:
    assert sentence(made({"a": [1], "b": [0]})) == (
        "No significant difference in R@5 (n = 1): they score 0.0 to 100.0. "
        "With one judged question this is a hint, no more."
    )
    assert sentence(made({"a": [1] * 8, "b": [0] * 8})) == (
        "a is best at R@5 (100.0; +100.0, 100.0 to 100.0, over b). With 8 judged questions this is a hint, no more."
    )


def test_one_method() -> None:
    assert sentence(made({"a": FAIR})) == "a reaches 95.0 at R@5; there is nothing to compare it with."


def test_the_fastest_is_told_by_its_own_test() -> None:
    comparison = made({"a": GOOD, "b": GOOD, "c": GOOD}, {"a": SLOW, "b": FAST, "c": FAST})
    assert leaders(comparison, LATENCY) == ("b", "c")
    assert leaders(made({"a": GOOD}), LATENCY) == ()
    assert leaders(made({"a": [], "b": []}, {"a": FAST, "b": FAST}), "R@5") == ()


def test_a_block_of_noise_makes_nobody_faster() -> None:
    """Certain for every question, and less than twice as long: machines drift as far."""
    slower = [value * 1.9 for value in FAST]
    comparison = made({"a": GOOD, "b": GOOD}, {"a": FAST, "b": slower})
    assert comparison.pair("a", "b", LATENCY).p_adjusted < 0.001
    assert leaders(comparison, LATENCY) == ("a", "b")
    assert "faster" not in sentence(comparison)


FOUND = {"a": [["x", "y"], ["x", "y"]], "b": [["y", "x"], ["x", "z"]], "c": [[], ["q"]]}


def test_agreement_is_the_share_of_documents_that_both_have() -> None:
    comparison = made({"a": [], "b": [], "c": []}, found=FOUND)
    assert agreement(comparison, 2) == {("a", "b"): (1 + 1 / 3) / 2, ("a", "c"): 0.0, ("b", "c"): 0.0}
    assert agreement(comparison, 1)["a", "b"] == 0.5
    nothing = comparison.method("c").final[0]
    assert overlap(nothing, nothing, 5) == 1.0


def test_without_gold_no_quality_is_claimed() -> None:
    comparison = made({"a": [], "b": []}, {"a": FAST, "b": SLOW}, found={"a": [["x"]] * 40, "b": [["y"]] * 40})
    assert sentence(comparison) == (
        "No quality was measured: the questions have no gold documents. a is fastest, 3.9 times faster than b "
        "(geometric mean). a and b agree least: 0% of their first 5 documents are the same."
    )

"""Search of trees: results that share no passages before those that do; lines that a model is shown once."""

from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples
from ragindex.parts.trees.tasks import drop_repeated_lines
from ragindex.parts.trees.tree_search import diversify_hits
from ragindex.types import Hit


def hit(id: str, score: float, *passages: str) -> Hit:
    return Hit(id, "summary", tuple(passages), tuple(passages), "", id, score, "test")


def test_by_hand() -> None:
    hits = [hit("p", 1.0, "1"), hit("s", 0.9, "1", "2"), hit("a", 0.8, "1"), hit("q", 0.6, "3")]
    # p 1; then s .9 - .5 x 1/2 = .65, a .8 - .5 x 1 = .3, q .6; then a .3, q .6; then a .3
    diversified = diversify_hits(hits, 4, 0.5)
    assert [(hit_record.id, round(hit_record.score, 9)) for hit_record in diversified] == [
        ("p", 1.0),
        ("s", 0.65),
        ("q", 0.6),
        ("a", 0.3),
    ]
    assert [hit_record.id for hit_record in diversify_hits(hits, 2, 1.0)] == ["p", "q"]
    assert diversify_hits([], 3, 1.0) == ()


_HITS = st.lists(st.tuples(st.floats(-2, 2), st.frozensets(st.sampled_from("abcd"), max_size=3)), max_size=8).map(
    lambda scored: [hit(str(place), score, *sorted(passages)) for place, (score, passages) in enumerate(scored)]
)


@settings(max_examples=examples(50))
@given(_HITS)
def test_without_weight_the_order_stays(hits: list[Hit]) -> None:
    ranked = sorted(hits, key=lambda item: -item.score)
    assert [record.id for record in diversify_hits(ranked, len(ranked), 0.0)] == [record.id for record in ranked]


def test_a_model_is_shown_the_lines_of_a_cluster_once() -> None:
    texts = ["a\nb", " a \nb", "b\nc\n\nd", "d", "e"]
    assert drop_repeated_lines(texts) == ["a\nb", "c\n\nd", "e"]
    assert drop_repeated_lines(["a\n\na", "", "x"]) == ["a\n\na", "x"]

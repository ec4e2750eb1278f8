"""What GRIEVER keeps of what it looked up."""

from ragindex_retrievers.griever.lookups import RecentValues


def test_what_was_added_last_is_held() -> None:
    recent: RecentValues[int] = RecentValues(3)
    assert recent.split(["a", "b", "a"]) == ({}, ["a", "b"])
    assert recent.completed({}, {"a": 1, "b": 2}) == {"a": 1, "b": 2}
    assert recent.split(["b", "c"]) == ({"b": 2}, ["c"])
    assert recent.completed({"b": 2}, {"c": 3, "d": 4}) == {"b": 2, "c": 3, "d": 4}
    assert recent.values == {"b": 2, "c": 3, "d": 4}


def test_more_at_once_than_are_held_are_given_all_the_same() -> None:
    recent: RecentValues[int] = RecentValues(1)
    assert recent.completed({"a": 1}, {"b": 2, "c": 3}) == {"a": 1, "b": 2, "c": 3}
    assert recent.values == {"c": 3}

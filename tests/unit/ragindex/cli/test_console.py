"""What commands read from their options."""

from ragindex.cli.console import parse_filters


def test_values_of_a_key_are_alternatives_in_all_their_spellings() -> None:
    assert parse_filters(["n=3.0", "kind=a=b", "n=True"]) == {"n": ("3.0", "True"), "kind": ("a=b",)}

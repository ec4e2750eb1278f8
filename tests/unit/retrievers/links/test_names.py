"""Names of passages, places where they may stand, hyperlinks, and the gains of linked passages."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragindex_retrievers.links import names
from ragindex_retrievers.links.method import CandidateScores, Links
from ragindex_retrievers.links.names import Window


@pytest.mark.parametrize(
    ("title", "text", "keys"),
    [
        ("Red Harbour (film)", "", ["red harbour"]),
        ("(What's the Story)", "", ["what s the story"]),
        ("Salt", "", ["salt"]),
        ("It", "", []),  # one short word
        ("1 2 3 4 5 6 7 8 9", "", []),  # more than eight words
        ("", "The Red Harbour was directed by Ada Lund.", ["red harbour"]),
        ("", "nothing here has a capital", []),
    ],
)
def test_keys(title: str, text: str, keys: list[str]) -> None:
    assert names.find_keys(title, text, "p1") == keys


def test_headings_are_keys_without_their_numbers() -> None:
    headings = ["2. Install steps", "2.1 Guide", "3.4.2. Tides", "2001 A Space Odyssey", "1.", ""]
    assert names.find_keys("Guide", "# Text", "p1", headings) == [
        *("guide", "install steps", "tides", "2001 a space odyssey")
    ]


def test_a_file_has_its_id_as_a_key() -> None:
    assert names.find_keys("Guide", "", "docs/a guide.md") == ["guide", "/docs/a%20guide.md"]


def test_windows_begin_where_a_name_may() -> None:
    text = 'The film won. In Oslo, "salt and light" and `read_csv` were seen by Ada. ' + "x " * 20 + "Lund"
    window, last = names.find_windows(text)
    marked = [word for word, mark in zip(window.words, window.starts, strict=True) if mark == "1"]
    assert marked == ["in", "oslo", "salt", "read_csv", "ada"]  # "The film": a function word before no capital
    assert last == Window(["lund"], "1")


def test_windows_without_a_start_are_left_out() -> None:
    assert names.find_windows("no capitals here") == []
    assert names.find_windows("", ["b.md"]) == [Window(("/b.md",), "1")]


@given(st.text(max_size=300))
def test_windows_are_read_as_they_were_written(text: str) -> None:
    windows = [Window(list(window.words), window.starts) for window in names.find_windows(text, ["a b/c.md"])]
    assert names.read_windows(names.write_windows(windows)) == windows
    assert all(len(window.words) == len(window.starts) for window in windows)


@given(st.text(alphabet='Aab \n."', max_size=80))
def test_longer_runs_are_those_of_the_occurrences(text: str) -> None:
    windows = names.find_windows(text)
    occurrences = names.find_occurrences(windows)
    everywhere = [(run, place) for run, places in occurrences.items() for place in places]
    for run, places in occurrences.items():
        around = [sorted(other for other, outer in everywhere if outer.contains(place)) for place in places]
        long = [[words for words in each if names.is_key(words.split(" "))] for each in names.find_longer(run, windows)]
        assert sorted(map(sorted, long)) == sorted(around)


@pytest.mark.parametrize(
    ("address", "target"),
    [
        ("b.md", ["docs/b.md"]),
        ("../c%20d.md#part", ["c d.md"]),
        ("/e.md?x=1", ["e.md"]),
        ("#part", []),
        ("a.md#part", []),  # the document itself
        ("https://example.com/b.md", []),
        ("mailto:me@example.com", []),
        ("http://[", []),
    ],
)
def test_targets_of_hyperlinks(address: str, target: list[str]) -> None:
    assert names.find_targets(f"See [it]({address}).", "docs/a.md") == target
    assert names.find_targets("See it.", "docs/a.md", [("it", address), ("not here", "z.md")]) == target


@pytest.mark.parametrize(("k", "depends"), [(9, False), (10, False), (11, True)])
def test_first_hits_depend_on_k_above_depth(k: int, depends: bool) -> None:
    assert Links(depth=10).depends_on_k(k) is depends


@pytest.mark.parametrize(
    ("gains", "taken", "raised"),
    [
        ([0.25, 0.5, 0.125], [1, 2], [0.5, 0.125]),
        ([0.5, 0.5, 0.75], [2, 0], [0.5, 0.75]),  # of equal gains the first is taken
        ([0.25, 0.0, 0.0], [0], [0.25, 0.0]),  # a gain of 0 raises nothing
    ],
)
def test_each_passage_has_its_largest_gain(
    gains: Sequence[float], taken: Sequence[int], raised: Sequence[float]
) -> None:
    scores = CandidateScores(0.5)
    scores.add(["a", "b"], np.array([0.0, 1.0]), np.ones((2, 1)))
    assert scores.raise_gains(np.array([0, 0, 1]), np.array(gains)).tolist() == taken
    assert scores.gain.tolist() == raised

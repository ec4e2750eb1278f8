"""Documents that are almost equal, compared with the exact share of common word sequences."""

import random
from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples
from ragindex.corpus.near_duplicates import RESEMBLANCE, find_holders, find_near_duplicates, sample_documents
from ragindex.types import Document


def pairs(documents: Sequence[Document]) -> list[tuple[str, str]]:
    return find_near_duplicates(sample_documents(documents))


def holders(documents: Sequence[Document]) -> dict[str, list[str]]:
    return find_holders(documents, sample_documents(documents))


def resemblance(first: str, second: str) -> float:
    """The exact Jaccard index of the sequences of five words."""
    every = [
        {tuple(words[place : place + 5]) for place in range(len(words) - 4)}
        for words in (first.split(), second.split())
    ]
    return len(every[0] & every[1]) / len(every[0] | every[1])


@given(st.integers(0, 400), st.integers(0, 60))
@settings(max_examples=examples(60))
def test_pairs_are_those_that_are_almost_equal(seed: int, changes: int) -> None:
    random_ = random.Random(seed)
    words = [f"w{random_.randrange(10_000)}" for _ in range(400)]
    other = list(words)
    for _ in range(changes):
        other[random_.randrange(len(other))] = f"n{random_.randrange(10_000)}"
    texts = [" ".join(words), " ".join(other), " ".join(f"x{random_.randrange(10_000)}" for _ in range(400))]
    share = resemblance(texts[0], texts[1])
    near = pairs([Document(str(number), "", text) for number, text in enumerate(texts)])
    if share > RESEMBLANCE + 0.15:  # a sample of 64 is exact to 0.05 (its standard error)
        assert near == [("0", "1")]
    elif share < RESEMBLANCE - 0.2:
        assert near == []
    else:
        assert near in ([], [("0", "1")])


def test_each_document_is_named_once_with_the_first_of_its_kind() -> None:
    text = " ".join(f"w{number}" for number in range(50))
    documents = [Document(id, "", text + f" {id}") for id in ("a", "b", "c")]
    assert pairs([*documents, Document("d", "", "too short to tell")]) == [("a", "b"), ("a", "c")]


def test_texts_without_spaces() -> None:
    text = "東京は日本の首都であり、世界でも有数の大都市です。多くの人がここで暮らしています。"
    assert pairs([Document("a", "", text), Document("b", "", text + "。")]) == [("a", "b")]


def test_short_texts_that_repeat_everywhere_are_not_compared() -> None:
    assert pairs([Document(str(number), "", "See the first page.") for number in range(200)]) == []


def words(seed: int, count: int) -> str:
    random_ = random.Random(seed)
    return " ".join(f"w{random_.randrange(10_000)}" for _ in range(count))


def test_a_manual_on_one_page_holds_its_pages() -> None:
    pages = [words(number, 200) for number in range(5)]
    text = "Contents\n".join(["", *pages[:4]])
    documents = [*(Document(f"p{number}", "", page) for number, page in enumerate(pages)), Document("all", "", text)]
    assert holders(documents) == {"all": ["p0", "p1", "p2", "p3"]}
    longer = Document("longer", "", "Contents\n".join(["", *pages[:3]]))  # more than half of it
    short = Document("short", "", "Contents")
    assert holders([short, *documents, longer]) == {"all": ["p0", "p1", "p2", "p3"], "longer": ["p0", "p1", "p2"]}
    assert holders(documents[:2] + documents[-1:]) == {}  # two are no reason to leave the whole out
    assert holders([*documents[:4], Document("near", "", pages[0] + " end")]) == {}  # no longer than what it holds

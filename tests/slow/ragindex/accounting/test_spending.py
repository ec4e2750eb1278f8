"""What a service billed is what `spent` says, for every command."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import ragindex, write
from till import DOLLARS, METHODS, PAID, RERANKED, Till, billing, checked, of_comparison, open_desk


@pytest.fixture
def till() -> Iterator[Till]:
    with billing() as till:
        yield till


@pytest.fixture
def desk(till: Till, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return open_desk(till, tmp_path, monkeypatch)


def test_every_command_says_what_was_billed(till: Till, desk: Path) -> None:
    write(desk / "more", {"mill.txt": "The mill of Nether Quill grinds rye."})
    where = ("--index", "w")
    built = ragindex("index", "notes", *where, *PAID, "--methods", METHODS, "--json", "-")
    assert till.kinds == {"/v1/chat/completions", "/v1/embeddings"}
    checked(till, built.json["spent"])
    again = ragindex("index", "notes", *where, *PAID, "--methods", METHODS, "--json", "-")
    assert (again.json["spent"]["money"], till.receipts) == (0.0, [])
    result = ragindex("search", "Which hill?", *where, *PAID, "--method", RERANKED, "--json", "-")
    assert till.kinds == {"/v1/embeddings", "/v1/rerank"}
    checked(till, result.json["spent"])
    answered = ragindex("ask", "Which hill?", *where, *PAID, "--method", "dense", "--json", "-")
    assert till.kinds == {"/v1/chat/completions", "/v1/embeddings"}
    checked(till, answered.json["spent"])
    added = ragindex("add", "more", "--as", "more", *where, "--json", "-")
    assert till.kinds == {"/v1/chat/completions", "/v1/embeddings"}
    checked(till, added.json["spent"])
    checked(till, ragindex("remove", "more/mill.txt", *where, "--json", "-").json["spent"])
    assert ragindex("questions", "notes", "--out", "drafts.csv").code == 0
    assert till.receipts == []  # questions are drafted by rule


def test_a_comparison_says_what_was_billed(till: Till, desk: Path) -> None:
    command = ("compare", "notes", "--questions", "questions.csv", *PAID, "--methods", METHODS, "--read", "--k", "1,2")
    first = ragindex(*command, "--index", "w", "--json", "-")
    assert first.code == 0, first.err
    assert till.kinds == set(DOLLARS)
    indexed = sum(
        part["money"] for part in first.json["methods"][1]["index"]["parts"].values()
    )  # as if built alone, so the same whoever came first
    assert indexed > 0
    checked(till, of_comparison(first.json))
    second = ragindex(*command, "--index", "w", "--json", "-")
    assert (of_comparison(second.json)["money"], till.receipts) == (0.0, [])
    fresh = ragindex(*command, "--index", "w", "--fresh", "--json", "-")
    assert till.kinds == {"/v1/embeddings"}  # the calls of models and rerankers are kept; questions are encoded again
    checked(till, of_comparison(fresh.json))
    for at in (0, 1, 2):
        for phase in ("index", "query"):
            sums = [result.json["methods"][at]["usage"][phase]["money"] for result in (first, second, fresh)]
            assert sums == pytest.approx([sums[0]] * 3)

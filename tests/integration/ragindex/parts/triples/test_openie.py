"""Published extractions: what is taken from a file, what is counted, and files that hold none."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from made_extractions import asking, imported, notes, rows, spelt
from openai_server import KEY, OpenAIServer

from ragindex.errors import DataError
from ragindex.parts.triples.extractions import Extractions
from ragindex.parts.triples.triple_json import read_openie
from ragindex.parts.triples.triples import Triples
from ragindex.types import Document


def entry(title: str, triples: list[Any], **texts: str) -> dict[str, Any]:
    return {"title": title, **texts, "extracted_entities": [title], "extracted_triples": triples}


PUBLISHED = [
    entry("Rhine", [["Rhine", "rises in", "Alps"], ["Rhine", "long"], ["a", "b", "c", "d"], "x"], text="The  Rhine."),
    entry("Basel", [["Basel", "is", "town"], ["Basel", "", "x"]], passage="Basel\nBasel is a town."),
    entry("", [["Oslo", "is", "far"]], passage="Oslo\nOslo is far."),
    entry("Rhine", [["never", "to be", "seen"]], text="The Rhine."),
    entry("Gone", [["Gone", "is", "gone"], ["Gone"]], text="Not in the corpus."),
]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenAIServer]:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with OpenAIServer() as running:
        yield running


def test_an_imported_file_is_counted_and_no_model_is_asked(server: OpenAIServer, tmp_path: Path) -> None:
    file = tmp_path / "file.json"
    file.write_text(json.dumps({"docs": PUBLISHED}))
    workspace = asking(tmp_path / "w", server)
    workspace.import_part("extractions", file)
    workspace.add(
        [
            Document("1", "Rhine", "The Rhine.\n"),
            Document("2", "Basel", "Basel is a town."),
            Document("3", "Oslo", "Oslo is far."),
            Document("4", "Rhine", "The Rhine is another text."),
            Document("5", "Rhine", "The Rhine."),
        ]
    )
    workspace.build(Triples())
    assert [(row["id"], row["text"], row["doc_ids"]) for row in rows(workspace, Triples())] == [
        ("1#t0000", "Rhine rises in Alps", ["1"]),
        ("2#t0000", "Basel is town", ["2"]),
        ("3#t0000", "Oslo is far", ["3"]),
        ("5#t0000", "Rhine rises in Alps", ["5"]),
    ]
    records = rows(workspace, Extractions(), "source", "dropped")
    assert [(row["source"], row["dropped"]) for row in records] == [
        ("file", 3.0),
        ("file", 1.0),
        ("file", 0.0),
        ("missing", 0.0),
        ("file", 3.0),
    ]
    assert notes(workspace, "extractions") == [
        "7 of 11 triples were malformed and dropped.",
        "Imported: 4 of 5 passages are in the file; the others have no triples. "
        "1 of 4 passages of the file are not in the corpus.",
        "1 passage stands in the file more than once: the first counts.",
    ]
    assert server.requests == []


@pytest.mark.parametrize(
    ("written", "complaint"),
    [
        ("{", "expected JSON; found"),
        ("[" * 100_000, "expected JSON; found"),
        ("[]", 'expected an object with a list "docs"; found []'),
        ('{"docs": 1}', "expected an object with a list \"docs\"; found {'docs': 1}"),
        ('{"docs": [3]}', "expected an object as passage 1; found 3"),
        ('{"docs": [{"title": "a"}]}', 'expected "text" or "passage" in passage 1; found the keys title'),
        (
            '{"docs": [{"text": "a", "extracted_entities": [1], "extracted_triples": []}]}',
            'expected a list of texts as "extracted_entities" of passage 1; found [1]',
        ),
        (
            '{"docs": [{"text": "a", "extracted_entities": []}]}',
            'expected a list as "extracted_triples" of passage 1; found None',
        ),
    ],
)
def test_a_file_that_holds_no_extractions(written: str, complaint: str, tmp_path: Path) -> None:
    file = tmp_path / "file.json"
    file.write_text(written)
    with pytest.raises(DataError) as raised:
        imported(tmp_path / "w", file, [spelt("1", "a|knows|b")])
    assert complaint in str(raised.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="No such file"):
        read_openie(tmp_path / "nothing.json")

"""Vectors of entities and predicates: which there are, and that each is encoded once."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from letters import ENCODED, Letters
from made_extractions import imported, openie, spelt

from ragindex.index.index import Index
from ragindex.interfaces import VectorQuery
from ragindex.parts.triples.triples import Triples
from ragindex.types import Document
from ragindex_retrievers.griever.parts.name_vectors import NameCollections, NameVectors

A = spelt("A", "Rhine|rises in|Alps", "Rhine|reaches|Rotterdam", "Rhine|rises in|Alps")
B = spelt("B", "rhine|Rises In|Mont  Blanc", "Alps|is|Alps")
D = Document("D", "", "Nothing is said here.", {"id": "D"})


def build(folder: Path, documents: Sequence[Document], part: NameVectors) -> Index:
    workspace = imported(folder / "w", openie(folder / "f.json", [A, B, D]), documents, Letters())  # type: ignore[arg-type]
    workspace.build(part)
    return workspace


def read_names(workspace: Index, part: NameVectors) -> tuple[dict[str, Any], dict[str, Any]]:
    """The vectors of entities and of predicates, by id."""
    names: NameCollections = workspace.open_part(part)
    entities, predicates = (
        {row["id"]: row["vector"] for batch in collection.scan(("vector",)) for row in batch.to_pylist()}
        for collection in (names.entities, names.predicates)
    )
    return entities, predicates


def by_hand(*names: str) -> dict[str, Any]:
    return {name: pytest.approx(Letters().open().encode_queries([name])[0].tolist()) for name in names}


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Index:
    """All names, encoded two at a time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ragindex.parts.vectors.encoded_names._BLOCK", 2)
        return build(tmp_path_factory.mktemp("names"), [A, B, D], NameVectors())


def test_entities_by_key_and_predicates_as_written(workspace: Index) -> None:
    exact = NameVectors()
    entities, predicates = read_names(workspace, exact)
    assert entities == by_hand("Rhine", "rhine", "Alps", "Rotterdam", "Mont  Blanc")
    assert predicates == by_hand("rises in", "Rises In", "reaches", "is")
    folded = NameVectors(over=Triples(entity_key="casefold"))
    workspace.build(folded)
    entities, predicates = read_names(workspace, folded)
    assert entities == by_hand("rhine", "alps", "rotterdam", "mont blanc")
    assert predicates == by_hand("rises in", "Rises In", "reaches", "is")


def test_they_are_searched_by_vector(workspace: Index) -> None:
    names: NameCollections = workspace.open_part(NameVectors())
    vector = np.array(by_hand("Alps")["Alps"].expected, np.float32)
    hits = names.entities.search([VectorQuery(vector, 2)])[0]
    assert (hits.ids, hits.scores.tolist()) == (["Alps", "Mont  Blanc"], pytest.approx([1, 2 / 44**0.5]))


def test_each_name_is_encoded_once(tmp_path: Path) -> None:
    ENCODED.clear()
    workspace = build(tmp_path, [A], NameVectors())
    assert ENCODED == ["Alps", "Rhine", "Rotterdam", "reaches", "rises in"]
    workspace.add([B])
    workspace.build()
    assert ENCODED[5:] == ["Mont  Blanc", "rhine", "Rises In", "is"]
    workspace.remove(["A"])
    workspace.build()
    names = [sorted(records) for records in read_names(workspace, NameVectors())]
    assert names == [["Alps", "Mont  Blanc", "rhine"], ["Rises In", "is"]]
    workspace.add([A])
    workspace.build()
    assert len(ENCODED) == 9

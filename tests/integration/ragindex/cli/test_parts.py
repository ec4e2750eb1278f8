"""The command `parts`: what a workspace holds, and the aliases that it joined."""

import io
import shutil
from pathlib import Path
from typing import Any

import pytest
from command_line import failed, ragindex
from made_extractions import openie, spelt
from made_trees import Compass, around, at
from rich.console import Console

from ragindex.cli.parts import render_tree, summarize_tree
from ragindex.index.index import Index
from ragindex.plugins import registry
from ragindex.testing import DOCUMENTS as DOCUMENTS_OF_CHECKS
from ragindex.types import Document
from ragindex_retrievers.griever.parts.same_as import SameAs

NASTY = "[red]Burma[/red] \x1b[31m(x)"
DOCUMENTS = (
    spelt("A", "Siam|renamed to|Thailand", "Siam|lies in|Asia"),
    spelt("B", f"{NASTY}|also known as|Myanmar"),
    spelt("C", "Winston Churchill|led|Britain", "Churchill|met|Roosevelt"),
)
SAME_AS = SameAs()
EMBEDDED = SameAs(by="embedding", cosine=1.0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace with the part same_as over three documents."""
    place = tmp_path_factory.mktemp("parts")
    with Index.open(place / "w", chunking=None, encoder="lsa", create=True) as workspace:
        workspace.import_part("extractions", openie(place / "f.json", DOCUMENTS))
        workspace.add(DOCUMENTS)
        workspace.build(SAME_AS)
    return place / "w"


def audited(folder: Path, name: str, *arguments: object) -> list[dict[str, Any]]:
    done = ragindex("parts", name, "--index", folder, "--audit", "--json", "-", *arguments)
    return list(done.json["shown"])


def test_the_list(folder: Path) -> None:
    done = ragindex("parts", "--index", folder)
    rows = [line.split() for line in done.out.splitlines()]
    assert rows[0] == ["part", "encoder", "records", "MB", "seconds"]
    assert [row[0] for row in rows[1:7]] == ["extractions", "name_vectors", "passages", "same_as", "triples", "vectors"]
    assert rows[2][1:6] == ["lsa", "9", "entities,", "5", "predicates"]
    assert [row[-3] for row in rows[3:6]] == ["3", "3", "5"]
    assert rows[7] == ["source", "documents", "ids", "begin", "with", "format", "from"]
    assert (rows[8][0], rows[9]) == ("program", ["on", "disk", "MB"])
    assert [row[0] for row in rows[10:14]] == ["parts", "documents", "fits", "together,"]
    assert (rows[-2][:3], rows[-1][:3]) == (["the", "whole", "folder"], ["The", "encoder", "lsa"])


def test_the_list_names_the_sources(folder: Path) -> None:
    row = {"name": "program", "root": "", "format": "program", "prefix": "", "documents": 3, "options": ""}
    assert ragindex("parts", "--index", folder, "--json", "-").json["sources"] == [row]


def test_the_list_as_json(folder: Path) -> None:
    rows = ragindex("parts", "same_as", "--index", folder, "--json", "-").json["parts"]
    record = next(part for part in Index.open(folder, create=True).manifest.parts.values() if part.name == "same_as")
    assert [(row["part"], row["encoder"], row["records"]) for row in rows] == [("same_as", None, {"records": 3})]
    assert (rows[0]["bytes"], rows[0]["seconds"], rows[0]["notes"]) == (
        record.bytes,
        record.seconds,
        [
            "3 pairs of names are taken for one (2 by predicate, 1 by last name). "
            "0 more were dropped: no passages agree on them."
        ],
    )


def test_audit_the_weakest_first(folder: Path) -> None:
    lines = ragindex("parts", "same_as", "--index", folder, "--audit").out.splitlines()
    assert [line.split("  ")[0].rstrip() for line in lines] == [
        "names",
        "Churchill = Winston Churchill",
        "Myanmar = [red]Burma[/red] \N{REPLACEMENT CHARACTER}[31m(x)",
        "Siam = Thailand",
    ]
    assert lines[1].split()[4:8] == ["last", "name", "0.70", "1"]
    assert lines[3].split()[3:8] == ["predicate:", "renamed", "to", "0.90", "1"]


def test_a_sample_depends_on_the_seed_alone(folder: Path) -> None:
    def drawn(*arguments: object) -> list[str]:
        return [row["text"] for row in audited(folder, "same_as", *arguments)]

    everything = drawn()
    assert drawn("--sample", 3) == drawn("--sample", 9) == everything
    samples = [drawn("--sample", 1, "--seed", seed) for seed in range(6)]
    assert samples[:2] == [drawn("--sample", 1, "--seed", seed) for seed in range(2)]
    assert {text for sample in samples for text in sample} == {*everything}


def test_what_cannot_be_shown(folder: Path, tmp_path: Path) -> None:
    assert failed(2, "parts", "--index", folder, "--audit") == (
        "--audit needs one of these parts: same_as, judged_same_as. Got no part instead."
    )
    assert failed(2, "parts", "triples", "--index", folder, "--audit") == (
        "--audit needs one of these parts: same_as, judged_same_as. Got triples instead."
    )
    assert failed(4, "parts", "communities", "--index", folder) == (
        f"The index {folder} has no part communities for its encoder and seed. "
        f"Run: ragindex index --index {folder} --methods graphrag"
    )
    assert "No part is called 'sameas'" in failed(2, "parts", "sameas", "--index", folder)
    assert failed(2, "parts", "same_as", "--index", folder, "--sample", 2) == (
        "--limit, --sample and --seed need a view. Add --audit or --show."
    )
    assert failed(2, "parts", "same_as", "--index", folder, "--show") == (
        "--show needs one of these parts: summary_tree. Got same_as instead."
    )
    assert failed(4, "parts", "--index", tmp_path / "none").startswith("No index in")


SMALL = "summary_tree(dimensions=2, stop_at=2)"


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace with three rings, the first two bridged by m, and a text that stands alone; summaries by rules."""
    place = tmp_path_factory.mktemp("tree")
    documents = [*around("a", 0, 0.5, 8), *around("b", 1, 0.5, 8), *around("c", 2, 0.1, 3), at("m", 1, 1, 0)]
    with Index.open(place / "w", chunking=None, encoder=Compass(), create=True) as workspace:
        workspace.add([*documents, Document("x", "", "no direction")])
        workspace.build(registry.part(SMALL))
    return place / "w"


def test_a_tree_folded(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Index.open(tree, encoder=Compass(), create=True) as workspace:
        counts, roots = summarize_tree(workspace.open_part(registry.part(SMALL)))
    assert counts == {"levels": {"0": 21, "1": 3, "2": 1}, "alone": 1}
    (root,) = roots
    assert (root["level"], root["children"], root["passages"]) == (2, 3, 20)
    assert [(node["level"], node["children"], node["passages"]) for node in root["below"]] == [(1, 9, 9)] * 2 + [
        (1, 3, 3)
    ]
    assert [node["below"] for node in root["below"]] == [[], [], []]
    assert root["below"][2]["text"] == "c1 @0.100,0.000,1.000 c2 @-0.050,0.087,1.000 c3 @-0.050,-0.087,1.000"
    text = drawn_as_text(render_tree(counts, roots, roots))
    assert text.splitlines()[0] == ("Nodes: 21 on level 0, 3 on level 1, 1 on level 2. 1 leaf is below no summary.")
    assert [line[:38] for line in text.splitlines()[1:]] == [
        "level 2, 3 children, 20 passages, " + root["id"][:4],
        *("├── level 1, 9 children, 9 passages, " + node["id"][:1] for node in root["below"][:2]),
        "└── level 1, 3 children, 3 passages, " + root["below"][2]["id"][:1],
    ]
    assert drawn_as_text(render_tree(counts, roots, [])).splitlines()[1:] == ["… and 1 more root"]


def drawn_as_text(value: Any) -> str:
    console = Console(width=200, file=io.StringIO())
    console.print(value)
    return console.file.getvalue()  # type: ignore[attr-defined]


def test_the_tree_of_a_method_is_shown_by_the_command(tmp_path: Path) -> None:
    with Index.open(tmp_path / "w", chunking=None, encoder="lsa", create=True) as workspace:
        workspace.add(DOCUMENTS_OF_CHECKS)
        workspace.build(registry.scheme("raptor"))
    value = ragindex("parts", "summary_tree", "--index", tmp_path / "w", "--show", "--json", "-").json
    assert list(value) == ["levels", "alone", "roots", "shown"]
    assert value["levels"]["0"] == 24
    assert value["roots"] == len(value["shown"])
    first = ragindex("parts", "summary_tree", "--index", tmp_path / "w", "--show", "--limit", 1).out.splitlines()
    assert first[1].startswith(f"level 1, {value['shown'][0]['children']} children, ")
    assert first[-1] == f"… and {value['roots'] - 1} more roots"
    missing = failed(4, "parts", "summary_tree(over=aggregates)", "--index", tmp_path / "w", "--show")
    assert missing.endswith("--methods sirerag")  # raptor has another tree


def test_several_of_one_name(folder: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(folder, tmp_path / "w")
    with Index.open(folder, create=True) as workspace:
        workspace.build(EMBEDDED)
    wanted = registry.label(EMBEDDED)
    assert wanted == "same_as(by=embedding, cosine=1)"
    listed = ragindex("parts", "same_as", "--index", folder, "--json", "-").json["parts"]
    assert [row["part"] for row in listed] == ["same_as", wanted]
    evidence = {name: {row["evidence"] for row in audited(folder, name)} for name in ("same_as", wanted)}
    assert evidence == {
        "same_as": {"last name", "predicate: renamed to", "predicate: also known as"},
        wanted: {"neighbour: 1.00"},
    }
    missing = failed(4, "parts", "same_as(cosine=0.7)", "--index", folder, "--audit")
    assert missing.startswith(f"The index {folder} has no part same_as(cosine=0.7) for its encoder and seed.")

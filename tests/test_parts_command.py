"""The command `parts`: what a workspace holds, and the aliases that it joined."""

import json
from pathlib import Path
from typing import Any

import pytest
from command_line import failed, ragindex
from made_extractions import openie, spelt

from ragindex import registry
from ragindex.parts.same_as import SameAs
from ragindex.workspace import Workspace

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
    made = tmp_path_factory.mktemp("parts")
    with Workspace.open(made / "w", cutting=None, encoder="lsa") as workspace:
        workspace.import_part("extractions", openie(made / "f.json", DOCUMENTS))
        workspace.add(DOCUMENTS)
        workspace.sync([SAME_AS])
    return made / "w"


def audited(folder: Path, name: str, *arguments: object) -> list[dict[str, Any]]:
    done = ragindex("parts", name, "--workspace", folder, "--audit", "--json", "-", *arguments)
    return list(done.json["shown"])


def test_the_list(folder: Path) -> None:
    done = ragindex("parts", "--workspace", folder)
    rows = [line.split() for line in done.out.splitlines()]
    assert rows[0] == ["part", "encoder", "records", "MB", "seconds"]
    assert [row[0] for row in rows[1:]] == ["extractions", "name_vectors", "passages", "same_as", "triples", "vectors"]
    assert rows[2][1:6] == ["lsa", "9", "entities,", "5", "predicates"]
    assert [row[-3] for row in rows[3:6]] == ["3", "3", "5"]


def test_the_list_as_json(folder: Path) -> None:
    rows = ragindex("parts", "same_as", "--workspace", folder, "--json", "-").json["parts"]
    record = next(one for one in Workspace.open(folder).manifest.parts.values() if one.name == "same_as")
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
    lines = ragindex("parts", "same_as", "--workspace", folder, "--audit").out.splitlines()
    assert [line.split("  ")[0].rstrip() for line in lines] == [
        "names",
        "Churchill = Winston Churchill",
        "Myanmar = [red]Burma[/red] \N{REPLACEMENT CHARACTER}[31m(x)",
        "Siam = Thailand",
    ]
    assert lines[1].split()[4:8] == ["last", "name", "0.70", "1"]
    assert lines[3].split()[3:8] == ["predicate:", "renamed", "to", "0.90", "1"]


def test_audit_as_json(folder: Path, tmp_path: Path) -> None:
    shown = ragindex("parts", "same_as", "--workspace", folder, "--audit", "--limit", 2, "--json", tmp_path / "a.json")
    value = json.loads((tmp_path / "a.json").read_text())
    assert value["pairs"] == 3
    assert [row["text"] for row in value["shown"]] == ["Churchill = Winston Churchill", f"Myanmar = {NASTY}"]
    assert value["shown"][1]["aliases"] == ["Myanmar", NASTY]
    assert len(shown.out.splitlines()) == 3


def test_a_sample_depends_on_the_seed_alone(folder: Path) -> None:
    def drawn(*arguments: object) -> list[str]:
        return [row["text"] for row in audited(folder, "same_as", *arguments)]

    everything = drawn()
    assert drawn("--sample", 3) == drawn("--sample", 9) == everything
    samples = [drawn("--sample", 1, "--seed", seed) for seed in range(12)]
    assert samples == [drawn("--sample", 1, "--seed", seed) for seed in range(12)]
    assert {text for sample in samples for text in sample} == {*everything}


def test_what_cannot_be_shown(folder: Path, tmp_path: Path) -> None:
    assert failed(2, "parts", "--workspace", folder, "--audit") == (
        "--audit shows one of these parts: same_as. Got no part instead."
    )
    assert failed(2, "parts", "triples", "--workspace", folder, "--audit") == (
        "--audit shows one of these parts: same_as. Got triples instead."
    )
    assert failed(4, "parts", "communities", "--workspace", folder) == (
        f"The workspace {folder} holds no part communities for its encoder and seed. "
        f"Run: ragindex index --workspace {folder} --methods graphrag"
    )
    assert "No part is called 'sameas'" in failed(2, "parts", "sameas", "--workspace", folder)
    assert failed(2, "parts", "same_as", "--workspace", folder, "--sample", 2) == (
        "--limit, --sample and --seed say how much a view shows. Name one: --audit."
    )
    assert failed(4, "parts", "--workspace", tmp_path / "none").startswith("There is no workspace in")


def test_several_of_one_name(folder: Path) -> None:
    with Workspace.open(folder) as workspace:
        workspace.sync([EMBEDDED])
    wanted = registry.label(EMBEDDED)
    assert wanted == "same_as(by=embedding, cosine=1)"
    listed = ragindex("parts", "same_as", "--workspace", folder, "--json", "-").json["parts"]
    assert [row["part"] for row in listed] == ["same_as", wanted]
    evidence = {name: {row["evidence"] for row in audited(folder, name)} for name in ("same_as", wanted)}
    assert evidence == {
        "same_as": {"last name", "predicate: renamed to", "predicate: also known as"},
        wanted: {"neighbour: 1.00"},
    }
    missing = failed(4, "parts", "same_as(cosine=0.7)", "--workspace", folder, "--audit")
    assert missing.startswith(f"The workspace {folder} holds no part same_as(cosine=0.7) for its encoder and seed.")

"""The entity graph and its communities: by hand, on graphs that are unkind, and with a model behind HTTP."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_extractions import asking, imported, notes, openie, spells_out, spelt
from made_language import PRICES, answering
from openai_server import OpenAIServer, chat

from examples import examples
from ragindex.accounting import ledger
from ragindex.corpus import Corpus
from ragindex.errors import UsageError
from ragindex.estimate import estimate
from ragindex.index import fit_watch
from ragindex.index.index import Index
from ragindex.interfaces.llm import LLMSettings
from ragindex.llm.openai_compatible import OpenAICompatibleChat
from ragindex.parts.records import DIGEST
from ragindex.parts.triples.extractions import Extractions
from ragindex.parts.triples.triples import Triples
from ragindex.plugins.registry import part
from ragindex.types import Document
from ragindex_baselines.graphrag.communities import REPORT, Communities, find_communities
from ragindex_baselines.graphrag.entity_graph import EntityGraph, EntityVectors, relation_id

TRIANGLES = (
    spelt("1", "Ann|knows|Bob", "Bob|knows|Cid"),
    spelt("2", "Cid|knows|Ann", "Ann|knows|Bob"),
    spelt("3", "Cid|met|Dan"),
    spelt("4", "Dan|likes|Eve", "Eve|likes|Fay"),
    spelt("5", "Fay|likes|Dan"),
)
"""Two triangles and a bridge."""


def built(folder: Path, documents: Sequence[Document], of: Any = None) -> Index:
    workspace = imported(folder / "w", openie(folder / "openie.json", documents), documents)
    workspace.build(of or Communities())
    return workspace


def table(collection: Any) -> dict[str, dict[str, Any]]:
    """Rows by id, without what only says whether they changed."""
    fields = [name for name in collection.fields() if name != DIGEST]
    rows = [row for batch in collection.scan(fields) for row in batch.to_pylist()]
    return {row.pop("id"): row for row in rows}


def reports(workspace: Index, of: Any = None) -> dict[str, dict[str, Any]]:
    """The reports by their communities' members, sorted."""
    rows = table(workspace.open_part(of or Communities()).reports)
    return {" ".join(sorted(row["entities"])): row for row in rows.values()}


# ---------------------------------------------------------------- the graph


@pytest.fixture(scope="module")
def triangles(tmp_path_factory: pytest.TempPathFactory) -> Index:
    return built(tmp_path_factory.mktemp("triangles"), TRIANGLES)


def test_the_graph_by_hand(triangles: Index) -> None:
    graph = triangles.open_part(EntityGraph())
    entities, relations = table(graph.entities), table(graph.relations)
    assert sorted(entities) == ["Ann", "Bob", "Cid", "Dan", "Eve", "Fay"]
    assert entities["Ann"] == {
        "name": "Ann",
        "text": "Ann knows Bob\nCid knows Ann",  # the more frequent statement first
        "passage_ids": ["2", "1"],  # two statements, one
        "neighbours": ["Bob", "Cid"],  # weights 2 and 1
        "degree": 2.0,
    }
    assert entities["Cid"]["neighbours"] == ["Dan", "Ann", "Bob"]  # all of weight 1: degrees 3, 2, 2
    assert entities["Cid"]["text"] == "Bob knows Cid\nCid knows Ann\nCid met Dan"
    assert entities["Cid"]["passage_ids"] == ["1", "2", "3"]
    assert relations[relation_id("Bob", "Ann")] == {
        "source": "Ann",
        "target": "Bob",
        "triples": '[["Ann", "knows", "Bob"]]',
        "passage_ids": ["1", "2"],
        "weight": 2.0,
    }
    assert sorted((row["source"], row["target"], row["weight"]) for row in relations.values()) == [
        ("Ann", "Bob", 2.0),
        ("Ann", "Cid", 1.0),
        ("Bob", "Cid", 1.0),
        ("Cid", "Dan", 1.0),
        ("Dan", "Eve", 1.0),
        ("Dan", "Fay", 1.0),
        ("Eve", "Fay", 1.0),
    ]


def listing(folder: Path, documents: Sequence[Document], names: Mapping[str, list[str]]) -> Index:
    """`built`, with the names that passages list beside their triples."""
    file = openie(folder / "openie.json", documents)
    value = json.loads(file.read_text())
    for passage, document in zip(value["docs"], documents, strict=True):
        passage["extracted_entities"] = names.get(document.id, [])
    file.write_text(json.dumps(value))
    workspace = imported(folder / "w", file, documents)
    workspace.build(EntityVectors(of=part("entity_graph(of=triples(entity_key=casefold))")), EntityVectors())
    return workspace


def test_numbers_loops_names_without_triples_and_ways_to_write_one(tmp_path: Path) -> None:
    documents = [
        spelt("1", "ANN|born in|1871", "Ann|is|ann"),
        spelt("2", "Ann|lives in|Ülm"),
        spelt("3", "1871|precedes|1872"),
        spelt("4", "no triple"),
    ]
    workspace = listing(tmp_path, documents, {"3": ["Ülm"], "2": ["Zoe", "ZOE", "ZOE"]})
    folded = EntityGraph(of=Triples(entity_key="casefold"))
    graph = workspace.open_part(folded)
    entities = table(graph.entities)
    assert sorted(entities) == ["ann", "zoe", "ülm"]
    assert (entities["ann"]["name"], entities["zoe"]["name"]) == ("Ann", "ZOE")  # the most frequent way
    assert entities["ann"]["text"] == "ANN born in 1871\nAnn is ann\nAnn lives in Ülm"  # the loop is stated once
    assert entities["ann"]["passage_ids"] == ["1", "2"]
    assert (entities["ann"]["neighbours"], entities["ann"]["degree"]) == (["ülm"], 1.0)  # itself is no neighbour
    assert entities["zoe"] == {"name": "ZOE", "text": "", "passage_ids": ["2"], "neighbours": [], "degree": 0.0}
    assert entities["ülm"]["passage_ids"] == ["2", "3"]  # a passage that only lists it comes last
    assert list(table(graph.relations)) == [relation_id("ülm", "ann")]
    assert notes(workspace, "entity_graph") == ["1 passages name no entity: no entity leads to them."] * 2
    assert sorted(table(workspace.open_part(EntityGraph()).entities)) == ["ANN", "Ann", "ZOE", "Zoe", "ann", "Ülm"]
    vectors = workspace.open_part(EntityVectors(of=folded))
    assert sorted(table(vectors)) == ["ann", "zoe", "ülm"]
    assert table(vectors)["ülm"]["passage_ids"] == ["2", "3"]


def test_with_numbers(tmp_path: Path) -> None:
    with_numbers = EntityGraph(numbers=True)
    graph = built(tmp_path, [spelt("1", "Ann|born in|1871")], with_numbers).open_part(with_numbers)
    assert sorted(table(graph.entities)) == ["1871", "Ann"]
    assert [row["weight"] for row in table(graph.relations).values()] == [1.0]


def test_only_what_changed_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fit_watch, "UNKNOWN_LIMIT", 1.0)  # "Gus" is new, and a new fit would encode all again
    monkeypatch.setattr(fit_watch, "TURNOVER_LIMIT", 2.0)
    more = spelt("6", "Eve|likes|Gus")
    file = openie(tmp_path / "openie.json", [*TRIANGLES, more])
    workspace = imported(tmp_path / "w", file, TRIANGLES)
    workspace.build(Communities(), EntityVectors())
    before = table(workspace.open_part(EntityGraph()).entities)
    written: list[list[str]] = []
    create_collection = workspace.store.create
    workspace.add([more])

    def create(name: str, schema: Any) -> Any:
        collection = create_collection(name, schema)
        if "entities" in name or "entity_vectors" in name:
            upsert = type(collection).upsert
            spy = type("Spied", (type(collection),), {"upsert": lambda self, rows: note(self, rows, upsert)})
            collection = spy(collection.database, collection.name)
        return collection

    def note(collection: Any, records: Any, upsert: Any) -> None:
        if DIGEST in records.schema.names:
            written.append(sorted(records.column("id").to_pylist()))
        upsert(collection, records)

    workspace.store = Spy(workspace.store, create)
    workspace.build()
    assert written == [["Eve", "Gus"]] * 2  # the graph's entities, and their vectors
    workspace.remove(["6"])
    workspace.build()
    assert written[2:] == [["Eve"]] * 2
    assert table(workspace.open_part(EntityGraph()).entities) == before


class Spy:
    def __init__(self, inner: Any, create: Any) -> None:
        self.inner, self.create = inner, create

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


# ---------------------------------------------------------------- unkind graphs


def cluster_pairs(
    pairs: Sequence[tuple[int, int]], weights: Sequence[float] = (), **given: Any
) -> list[tuple[int, ...]]:
    wanted = {"max_size": 10, "level": 2, "largest_component": False, "seed": 7, **given}
    each = np.array(weights or [1.0] * len(pairs), np.float64)
    return find_communities(np.array(sorted(pairs), np.int64).reshape(-1, 2), each, **wanted)


def clique(first: int, size: int) -> list[tuple[int, int]]:
    return [(low, high) for low in range(first, first + size) for high in range(low + 1, first + size)]


def test_two_cliques_and_a_bridge() -> None:
    assert cluster_pairs([*clique(0, 5), *clique(5, 4), (4, 5)]) == [(0, 1, 2, 3, 4), (5, 6, 7, 8)]


def test_weights_count() -> None:
    square = [(0, 1), (0, 3), (1, 2), (2, 3)]
    assert cluster_pairs(square, [9, 1, 1, 9]) == [(0, 1), (2, 3)]
    assert cluster_pairs(square, [1, 9, 9, 1]) == [(0, 3), (1, 2)]


def test_the_largest_component() -> None:
    pairs = [*clique(2, 3), *clique(10, 3), (20, 21)]
    assert cluster_pairs(pairs) == [(2, 3, 4), (10, 11, 12), (20, 21)]
    assert cluster_pairs(pairs, largest_component=True) == [(2, 3, 4)]  # of two equal ones that with the least node
    assert cluster_pairs([*clique(2, 3), *clique(10, 4)], largest_component=True) == [(10, 11, 12, 13)]


def test_large_communities_are_split_as_often_as_the_level_says() -> None:
    ring = [*((number, number + 1) for number in range(999)), (0, 999)]
    sizes = [max(map(len, cluster_pairs(ring, level=level))) for level in range(4)]
    assert sizes[0] > 10 >= sizes[1] == sizes[3]
    assert sorted(node for nodes in cluster_pairs(ring) for node in nodes) == list(range(1000))
    assert max(map(len, cluster_pairs(ring, level=9, max_size=2))) <= 3


def test_what_cannot_be_split_stays_whole() -> None:
    assert cluster_pairs(clique(0, 60)) == [tuple(range(60))]
    hub = [(0, leaf) for leaf in range(1, 20_001)]
    assert cluster_pairs(hub) == [tuple(range(20_001))]


def test_no_edges() -> None:
    assert cluster_pairs([]) == []
    assert cluster_pairs([], largest_component=True) == []


def test_the_seed_decides_and_no_process_matters() -> None:
    drawn = np.unique(np.sort(np.random.default_rng(1).integers(0, 300, (900, 2))), axis=0).tolist()
    pairs = [(low, high) for low, high in drawn if low < high]
    first, again, other = (cluster_pairs(pairs, largest_component=True, seed=seed) for seed in (0, 0, 1))
    assert first == again != other
    code = (
        "import numpy as np; from ragindex_baselines.graphrag.communities import find_communities; "
        f"given = dict(max_size=10, level=2, largest_component=True, seed=0); pairs = {pairs}; "
        "print(find_communities(np.array(pairs, np.int64), np.ones(len(pairs)), **given))"
    )
    hashed = {**os.environ, "PYTHONHASHSEED": "1"}
    run = subprocess.run([sys.executable, "-c", code], env=hashed, capture_output=True, check=True, text=True)
    assert run.stdout.strip() == str(first)


@settings(max_examples=examples(50))
@given(st.sets(st.tuples(st.integers(0, 30), st.integers(0, 30)).filter(lambda pair: pair[0] < pair[1])))
def test_communities_share_nothing_and_leave_nothing_out(pairs: set[tuple[int, int]]) -> None:
    nodes = sorted({node for pair in pairs for node in pair})
    parts = cluster_pairs(sorted(pairs))
    assert sorted(node for nodes in parts for node in nodes) == nodes
    assert parts == sorted(tuple(sorted(names)) for names in parts)
    for community in parts:  # each is connected
        reached, edge = {community[0]}, {community[0]}
        while edge:
            near = {b if a in edge else a for a, b in pairs if (a in edge) != (b in edge) and {a, b} <= set(community)}
            edge = near - reached
            reached |= near
        assert reached == set(community)


def test_as_good_as_another_program() -> None:
    networkx = pytest.importorskip("networkx")
    club = networkx.convert_node_labels_to_integers(networkx.karate_club_graph())
    ours = cluster_pairs([tuple(sorted(pair)) for pair in club.edges], max_size=100)
    others = [networkx.community.louvain_communities(club, weight=None, seed=seed) for seed in range(5)]
    scores = [networkx.community.modularity(club, partition, weight=None) for partition in (ours, *others)]
    assert scores[0] == pytest.approx(max(scores), abs=0.01)


def test_a_hub_strange_names_and_other_alphabets(tmp_path: Path) -> None:
    long, count = "x" * 1000, 100
    documents = [spelt(f"{number:03d}", f"Hub|has|N{number:03d}y") for number in range(count)]
    documents += [
        spelt("a", f"Hub|has|{long}"),
        spelt("b", f"a|is in|{long}"),
        spelt("c", "東京|首都|日本", "日本|在|Ω"),
    ]
    workspace = built(tmp_path, documents)
    graph = workspace.open_part(EntityGraph())
    entities = table(graph.entities)
    assert len(entities) == count + 6
    assert (entities["Hub"]["degree"], len(entities["Hub"]["passage_ids"])) == (count + 1, count + 1)
    assert len(entities["Hub"]["neighbours"]) == 50
    assert entities["Hub"]["neighbours"][0] == long  # of equal weight, that of more relations
    assert len(entities["Hub"]["text"]) < 1000  # 200 tokens
    star, pair = sorted(reports(workspace).values(), key=lambda row: -len(row["entities"]))
    assert (len(star["entities"]), star["entities"][:2]) == (count + 1, ["Hub", "N000y"])  # a star is not split
    assert pair["entities"] == [long, "a"]
    assert len(star["passage_ids"]) == count + 1
    assert len(star["text"]) < 3000
    everywhere = Communities(largest_component=False)
    workspace.build(everywhere)
    assert sorted(len(row["entities"]) for row in reports(workspace, everywhere).values()) == [2, 3, count + 1]
    japan = reports(workspace, everywhere)["Ω 日本 東京"]
    assert japan["title"] == "日本, Ω, 東京"


def test_nothing_to_join(tmp_path: Path) -> None:
    workspace = built(tmp_path, [spelt("1", "Ann|born in|1871"), spelt("2", "nothing")])
    assert reports(workspace) == {}
    assert table(workspace.open_part(Communities()).memberships) == {}
    assert notes(workspace, "communities") == ["0 communities of 0 of 1 entities; the largest has 0. 0 have a report."]
    workspace.remove(["1", "2"])
    workspace.build()
    assert table(workspace.open_part(EntityGraph()).entities) == {}


def test_the_parts_say_what_they_can_stand_on() -> None:
    with pytest.raises(UsageError, match="'of' parameter of communities must be entity_graph"):
        part("communities(of=triples)")
    with pytest.raises(UsageError, match="'of' parameter of entity_graph must be triples"):
        part("entity_graph(of=passages)")
    with pytest.raises(UsageError, match="max_size"):
        part("communities(max_size=1)")


# ---------------------------------------------------------------- reports


def test_reports_by_rule(triangles: Index) -> None:
    written = reports(triangles)
    assert sorted(written) == ["Ann Bob Cid", "Dan Eve Fay"]
    assert written["Ann Bob Cid"] == {
        "title": "Cid, Ann, Bob",  # Cid has three relations
        "text": "Cid, Ann, Bob\nCid knows Ann. Bob knows Cid. Ann knows Bob. Cid met Dan.\n"
        "- Cid knows Ann.\n- Bob knows Cid.\n- Ann knows Bob.\n- Cid met Dan.",
        "entities": ["Cid", "Ann", "Bob"],
        "passage_ids": ["1", "2", "3"],
    }
    memberships = table(triangles.open_part(Communities()).memberships)
    assert memberships["Ann"] == memberships["Bob"] == memberships["Cid"] != memberships["Dan"]
    assert notes(triangles, "communities") == [
        "2 communities of 6 of 6 entities; the largest has 3. 2 have a report.",
        "Reports were made by rules, not by a language model.",
    ]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenAIServer]:
    with answering(monkeypatch, write) as running:
        yield running


def is_report(body: Mapping[str, Any]) -> bool:
    return bool(body["response_format"]["json_schema"]["schema"]["required"][0] == "title")


def write(body: Mapping[str, Any]) -> str:
    """Extracts what the text spells out; the title of a report is the line of its members."""
    if not is_report(body):
        return spells_out(body)
    members, *_ = read_content(body).splitlines()
    return json.dumps({"title": members, "summary": "They belong together.", "findings": ["One.", " ", "Two\nlines."]})


def read_content(body: Mapping[str, Any]) -> str:
    return str(body["messages"][-1]["content"])


def report_calls(server: OpenAIServer) -> list[Mapping[str, Any]]:
    return sorted((request.body for request in server.requests if is_report(request.body)), key=read_content)


def test_what_a_model_is_asked_and_what_it_costs(server: OpenAIServer, tmp_path: Path) -> None:
    workspace = asking(tmp_path, server)
    workspace.add(TRIANGLES)
    with ledger.record_calls() as tally:
        workspace.build(Communities())
    calls = report_calls(server)
    assert (len(server.requests), len(calls)) == (5 + 2, 2)
    assert [read_content(body) for body in calls] == [
        "Members: Cid; Ann; Bob\n\nStatements:\nCid knows Ann\nBob knows Cid\nAnn knows Bob\nCid met Dan",
        "Members: Dan; Eve; Fay\n\nStatements:\nDan likes Eve\nFay likes Dan\nEve likes Fay\nCid met Dan",
    ]
    assert [message["role"] for message in calls[0]["messages"]] == ["system", "user", "assistant", "user"]
    entries = [entry for entry in tally.entries if entry.task == REPORT.name]
    read = sum(len(message["content"].split()) for body in calls for message in body["messages"])
    written = sum(len(write(body).split()) for body in calls)
    assert (sum(entry.input_tokens for entry in entries), sum(entry.output_tokens for entry in entries)) == (
        read,
        written,
    )
    assert reports(workspace)["Dan Eve Fay"]["text"] == (
        "Members: Dan; Eve; Fay\nThey belong together.\n- One.\n- Two lines."
    )
    record = next(record for record in workspace.manifest.parts.values() if record.name == "communities")
    assert (record.input_tokens, record.output_tokens) == (read, written)
    assert record.money == pytest.approx((read * 1000 + written * 3000) / 1e6)
    assert notes(workspace, "communities") == ["2 communities of 6 of 6 entities; the largest has 3. 2 have a report."]


def test_the_input_of_a_report_is_bounded(server: OpenAIServer, tmp_path: Path) -> None:
    workspace = asking(tmp_path, server)
    workspace.add([spelt(f"{n:03d}", f"Hub|has the very long property number {n} of|Leaf{n}") for n in range(30)])
    small = Communities(input_tokens=100)
    workspace.build(small)
    (body,) = report_calls(server)
    members, _, _, *statements = read_content(body).splitlines()
    assert 300 < len("\n".join(statements)) <= 400  # four characters a token
    assert statements[0].startswith("Hub has the very long property number")
    assert len(members) <= 2000


def test_small_communities_are_reported_without_a_model(server: OpenAIServer, tmp_path: Path) -> None:
    workspace = asking(tmp_path, server)
    workspace.add(TRIANGLES)
    by_model, by_rule = {"Members: Cid; Ann; Bob", "Members: Dan; Eve; Fay"}, {"Cid, Ann, Bob", "Dan, Eve, Fay"}
    for least, calls, titles in ((5, 0, by_rule), (4, 2, by_model), (0, 2, by_model)):  # answers are kept
        part = Communities(least_statements=least)
        workspace.build(part)
        assert len(report_calls(server)) == calls
        assert {row["title"] for row in table(workspace.open_part(part).reports).values()} == titles


def test_reports_are_asked_again_only_where_something_changed(server: OpenAIServer, tmp_path: Path) -> None:
    workspace = asking(tmp_path / "often", server)
    workspace.add(TRIANGLES)
    workspace.build(Communities())
    before = reports(workspace)
    workspace.add([spelt("6", "Eve|likes|Gus")])
    workspace.build()
    assert len(report_calls(server)) == 3
    assert sorted(reports(workspace)) == ["Ann Bob Cid", "Dan Eve Fay Gus"]
    workspace.add([spelt("6", "Eve|likes|Gus", "Eve|sees|Fay")])
    workspace.build()
    assert len(report_calls(server)) == 4
    workspace.remove(["6"])
    workspace.build()
    assert len(report_calls(server)) == 4  # the answers were kept
    assert reports(workspace) == before
    record = next(record for record in workspace.manifest.parts.values() if record.name == "communities")
    read = [len(message["content"].split()) for body in report_calls(server) for message in body["messages"]]
    assert 0 < record.input_tokens < sum(read)  # built alone: two reports, not four


def test_failed_report_is_counted_and_retried_on_request(server: OpenAIServer, tmp_path: Path) -> None:
    answer = '{"title": " ", "summary": "x", "findings": []}'
    server.choose = lambda received, earlier: (
        chat(content=answer) if is_report(received.body) and "Dan; Eve; Fay" in json.dumps(received.body) else None
    )
    workspace = asking(tmp_path, server)
    workspace.add(TRIANGLES)
    workspace.build(Communities())
    assert sorted(reports(workspace)) == ["Ann Bob Cid"]
    memberships = table(workspace.open_part(Communities()).memberships)
    record = next(record for record in workspace.manifest.parts.values() if record.name == "communities")
    assert list(record.failed) == [memberships["Dan"]["community"]]
    assert record.failed[memberships["Dan"]["community"]].startswith("community_report: small gave no usable answer")
    assert record.details == ("2 communities of 6 of 6 entities; the largest has 3. 1 have a report.",)
    server.choose = lambda received, earlier: None
    before = len(server.requests)
    workspace.build(Communities())
    assert len(server.requests) == before  # it is set aside
    workspace.build(Communities(), retry_failed=True)
    assert len(server.requests) == before + 1
    assert sorted(reports(workspace)) == ["Ann Bob Cid", "Dan Eve Fay"]


def test_an_estimate_counts_the_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    documents = [
        Document(str(n), f"Person{n} Miller", f"Person{n} Miller was born in Town{n // 3} Vale.") for n in range(9)
    ]
    corpus = Corpus("towns", "made", tuple(documents), 0, (), True)

    parts = {"reports": Communities(largest_component=False), "vectors": EntityVectors()}
    extracting, reporting = estimate(corpus, parts, OpenAICompatibleChat(model="small"), LLMSettings(prices=PRICES))
    assert (extracting.task, extracting.calls) == ("extract", 9)
    assert (extracting.methods, reporting.methods) == (("reports", "vectors"), ("reports",))
    # a community a town by rules; models connect more names, and make 0.17 times as many communities
    assert (reporting.task, reporting.calls) == (REPORT.name, 1)
    assert 3 * 300 * 0.17 < reporting.input_tokens < 3 * 1000 * 0.17
    assert Extractions in [type(input_part) for input_part in Triples().inputs()]

"""Why a document is not among the hits: reasons before the search, the stages of the search, and the command."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from command_line import TEXTS, build, ragindex, write
from till import METHODS, PAID, billing, open_desk

from ragindex.errors import StaleWarning, UsageError
from ragindex.index.explanation import FILTER, HITS, INDEX, PART, DocumentExplanation
from ragindex.index.index import Index
from ragindex.interfaces import Schema, TextQuery, VectorQuery
from ragindex.plugins import registry
from ragindex.retrieval.stages import DEEPEST, StageRank, StageRecorder, record_search, record_stages
from ragindex.types import Document

DOCUMENTS = [
    Document(f"d{number}", f"Harbour {number}", f"The harbour of town {number} has {number} cranes.", {"year": number})
    for number in range(20)
]


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Index]:
    with Index.open(tmp_path_factory.mktemp("explained") / "w", create=True) as index:
        index.add(DOCUMENTS)
        index.build("hybrid", "parent(base=bm25, unit=document)")
        yield index


def ranks(explanation: DocumentExplanation) -> dict[str, tuple[int | None, int, int]]:
    return {stage.stage: (stage.rank, stage.passed, stage.results) for stage in explanation.stages}


def test_rank_beyond_the_depth_of_a_method(index: Index) -> None:
    """Both searches lose it before the fusion: the explanation says how far it was from that."""
    question = "Which harbour has 3 cranes?"
    deep = index.explain_document(question, "d17", "hybrid", 3)
    place = ranks(deep)["text"][0]
    assert place > 4, deep
    explanation = index.explain_document(question, "d17", "hybrid(depth=4)", 3)
    assert ranks(explanation)["text"] == (place, 4, 20)
    assert [stage.stage for stage in explanation.stages] == ["text", "vectors", "fusion", HITS]
    assert (explanation.rank, explanation.lost_at) == (None, "vectors")
    assert explanation.reason.startswith("hybrid(depth=4) lost d17 at vectors: rank ")
    assert explanation.reason.endswith(" of 20, of which the first 4 go on.")


def test_document_that_is_found(index: Index) -> None:
    explanation = index.explain_document("Which harbour has 3 cranes?", "d3", "hybrid", 3)
    assert (explanation.rank, explanation.lost_at, explanation.notes) == (1, None, ())
    assert explanation.reason == "d3 is hit 1 of 3."
    assert str(explanation).splitlines()[-2:] == ["hits: rank 1 of 3", "d3 is hit 1 of 3."]


def test_stage_that_groups_passages(index: Index) -> None:
    explanation = index.explain_document("3 cranes", "d12", "parent(base=bm25, unit=document, candidate_factor=2)", 2)
    assert [stage.stage for stage in explanation.stages] == ["text", "parent", HITS]
    assert (explanation.lost_at, ranks(explanation)["text"][1:]) == ("text", (4, 20))


def test_passage_can_be_expected(index: Index) -> None:
    passage = index.retriever("hybrid").search("Which harbour has 3 cranes?", k=1)[0]
    explanation = index.explain_document("Which harbour has 3 cranes?", passage.passage_ids[0], "hybrid", 3)
    assert explanation.rank == 1


def test_reasons_before_the_search(index: Index) -> None:
    """The failing condition of several is named; a near id of one that is not in the index."""
    for where, reason in (
        ({"meta.year": {"gte": 5}}, "meta.year lies between 5 and None, and it has 3."),
        ({"meta.year": {"lte": 9}, "doc_ids": ["d4", "d5"]}, "doc_ids is one of d4, d5."),
    ):
        explanation = index.explain_document("Which harbour has 3 cranes?", "d3", "hybrid", where=where)
        assert explanation.lost_at == FILTER
        assert explanation.reason == f"d3 does not pass the filter: {reason}"
    passing = index.explain_document("Which harbour has 3 cranes?", "d3", "hybrid", where={"meta.year": 3})
    assert (passing.rank, passing.lost_at) == (1, None)
    unknown = index.explain_document("Which harbour?", "d21", "hybrid")
    assert unknown.lost_at == INDEX
    assert unknown.reason.startswith(f"No document or passage of the index {index.folder} has the id 'd21' (near it")
    with pytest.raises(UsageError, match="empty"):
        index.explain_document(" ", "d1")


def test_documents_that_are_not_built_yet_left_out_or_renamed(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    write(notes, TEXTS | {"broken.pdf": "no PDF"})
    assert ragindex("index", notes, "--index", tmp_path / "w", "--skip-bad").code == 0
    (notes / "hill.md").rename(notes / "mountain.md")
    assert ragindex("index", notes, "--index", tmp_path / "w", "--skip-bad").code == 0
    with Index.open(tmp_path / "w") as index:
        explain = index.explain_document
        left_out = explain("Which hill?", "broken.pdf")
        assert left_out.lost_at == INDEX
        assert left_out.reason.startswith("broken.pdf is not in the index: it was left out when it was read (")
        assert explain("Which hill?", "hill.md").reason == "hill.md is not in the index: it was renamed to mountain.md."
        index.add([Document("new", "New", "A new hill.")])
        with pytest.warns(StaleWarning, match="older than the corpus"):
            new = index.explain_document("Which hill?", "new", "bm25")
        command = f"ragindex index --index {index.folder} --methods bm25"
        assert (new.lost_at, new.reason) == (
            PART,
            f"new is in the index, but no part of bm25 has it yet. Run: {command}",
        )


def test_failed_passages_are_noted(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    passage = index.retriever("hybrid").search("Which harbour has 3 cranes?", k=1)[0].passage_ids[0]
    failed, record = {passage: "no answer", "another": "no answer"}, Index.record
    monkeypatch.setattr(Index, "record", lambda self, part: record(self, part).model_copy(update={"failed": failed}))
    explanation = index.explain_document("Which harbour has 3 cranes?", "d3", "hybrid")
    assert explanation.notes == tuple(
        f"{part} failed on 1 passage of it ({passage}): no answer" for part in ("passages", "vectors")
    )


def test_search_is_looked_at_beyond_what_it_asks_for(tmp_path: Path) -> None:
    store = registry.store("lancedb").open(tmp_path)
    collection = store.create("texts", Schema(stored=("text",), text=("text",), dimensions=2))
    count = DEEPEST + 100
    angles = np.linspace(0.0, 1.0, count)
    vectors = np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)
    columns = {
        "id": pa.array([f"p{number:04d}" for number in range(count)]),
        "text": pa.array(["slate"] * count),
        "vector": pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), 2),
    }
    collection.upsert(pa.record_batch(columns))
    collection.finish()
    near, far = (StageRecorder("", frozenset((id,))) for id in ("p0143", f"p{count - 1}"))
    for recorder in (near, far):
        with record_stages(recorder):
            requests = [VectorQuery(vectors[0], 100)]
            record_search("vectors", collection, requests, ["where?"])
            record_search("text", collection, [TextQuery("granite", 5)], ["where?"])
    assert near.stages == [
        StageRank("vectors", "where?", 144, 100, DEEPEST, is_cut=True),
        StageRank("text", "where?", None, 0, 0),
    ]
    assert far.stages[0] == StageRank("vectors", "where?", None, 100, DEEPEST, is_cut=True)


def test_command_shows_stages_and_writes_json(tmp_path: Path) -> None:
    folder = build(tmp_path)
    common = ("search", "Which river has gorges?", "--index", folder, "--method", "hybrid", "-k", "1")
    result = ragindex(*common, "--expect", "rivers/orla.md")
    assert "rivers/orla.md is hit 1 of 1." in result.out
    lost = ragindex(*common, "--expect", "rivers/sarn.md", "--json", "-").json
    assert lost["expected"]["lost_at"] == "fusion"
    assert [stage["stage"] for stage in lost["expected"]["stages"]] == ["text", "vectors", "fusion", "hits"]
    assert lost["expected"]["stages"][2] | {"rank": 2, "passed": 1} == lost["expected"]["stages"][2]
    shown = ragindex(*common, "--expect", "rivers/sarn.md").out
    assert "hybrid lost rivers/sarn.md at fusion: rank 2 of " in shown
    assert "stage    rank of rivers/sarn.md  go on" in shown
    plain = ragindex(*common, "--json", "-").json
    without = {name: value for name, value in lost.items() if name not in ("expected", "trace")}
    assert without == {name: value for name, value in plain.items() if name != "trace"}
    unknown = ragindex(*common, "--expect", "rivers/sam.md").out
    assert "has the id 'rivers/sam.md' (near it are 'rivers/sarn.md', 'rivers/orla.md')" in unknown
    assert "go on" not in unknown


def test_limit_of_tokens_can_lose_a_hit_and_exported_retrievers_explain_too(tmp_path: Path) -> None:
    folder = build(tmp_path)
    common = ("search", "river slate", "--index", folder, "-k", "4")
    hits = ragindex(*common, "--json", "-").json["hits"]
    limited = (*common, "--max-tokens", "12", "--json", "-", "--expect", hits[-1]["doc_ids"][0])
    expected = ragindex(*limited).json["expected"]
    assert (expected["rank"], expected["lost_at"]) == (None, "--max-tokens")
    assert ragindex("export", "--index", folder, "--method", "hybrid", "--out", tmp_path / "r", "--pack").code == 0
    packed = ("--retriever", tmp_path / "r.ragindex", "-k", "1", "--expect")
    done = ragindex("search", "Which river has gorges?", *packed, "quill.txt")
    assert "hybrid lost quill.txt at fusion: rank " in done.out
    unknown = ragindex("search", "Which river?", *packed, "elsewhere.txt")
    assert "has the id 'elsewhere.txt'.\n" in unknown.out


def test_expectation_is_not_paid_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with billing() as till:
        open_desk(till, tmp_path, monkeypatch)
        assert ragindex("index", "notes", "--index", "w", "--methods", METHODS, *PAID, "--yes").code == 0
        for method in ("dense", "dense(over=topics)"):
            common = ("search", "Which river has gorges?", "--index", "w", "--method", method, "-k", "1", *PAID)
            till.empty()
            assert ragindex(*common).code == 0
            receipts = list(till.receipts)
            till.empty()
            assert "quill.txt" in ragindex(*common, "--expect", "quill.txt").out
            assert (till.receipts, bool(receipts)) == (receipts, True)

"""Contexts of passages: what is encoded and analysed before the text, by rules and by a model, over changes."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from letters import Letters
from made_language import answering
from made_trees import nodes, notes, opened
from openai_server import OpenAIServer, Received, chat

from ragindex.corpus import Corpus
from ragindex.estimate import estimate
from ragindex.index.index import Index
from ragindex.interfaces import Part
from ragindex.interfaces.llm import LLMSettings
from ragindex.parts.text.contexts import PLACING_SENTENCE, PassageContexts, below_title, bound_sentence
from ragindex.parts.text.passages import Passages
from ragindex.parts.text.preceding import Preceding
from ragindex.plugins import registry
from ragindex.types import Chunking, Document, Query, Section

PIER = "# Pier\n\nThe old pier is closed.\n\n## Tides\n\nIt turns twice.\n\n## Fees\n\nA berth costs nine crowns."
TIDES, FEES = PIER.index("## Tides"), PIER.index("## Fees")
SECTIONS = (Section(0, ("Pier",)), Section(TIDES, ("Pier", "Tides")), Section(FEES, ("Pier", "Fees")))
DOCUMENTS = [Document("pier", "Pier", PIER, sections=SECTIONS), Document("blank", "Blank", " ")]
TEXTS = {
    "blank#sections.0": "",
    "pier#sections.0": "# Pier\n\nThe old pier is closed.",
    "pier#sections.1": "## Tides\n\nIt turns twice.",
    "pier#sections.2": "## Fees\n\nA berth costs nine crowns.",
}
WRITTEN = {
    "none": ["Blank", "", "", ""],
    "headings": ["Blank", "Pier", "Pier\nTides", "Pier\nFees"],
    "sentence": ["Blank", "Pier", "Pier\nTides: The old pier is closed.", "Pier\nFees: The old pier is closed."],
}


def part(context: Any) -> Passages:
    return Passages(by="sections", context=context)


def contexts(workspace: Index, of: Part[Any]) -> dict[str, str]:
    return {id: row["context"] for id, row in nodes(workspace, of).items()}


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Index:
    folder = Index.open(tmp_path_factory.mktemp("contexts"), encoder=Letters(), create=True)
    folder.add(DOCUMENTS)
    over = [f"passages(by=sections, context={context})" for context in ("title", *WRITTEN)]
    folder.build(*[registry.scheme(f"{name}(over={source})") for name in ("bm25", "dense") for source in over])
    folder.build(*[registry.scheme(f"bm25(over=triple_passages(of={source}))") for source in over])
    return folder


@pytest.mark.parametrize("context", WRITTEN)
def test_the_context_is_encoded_and_the_title_is_shown(context: str, workspace: Index) -> None:
    dense = registry.scheme(f"dense(over=passages(by=sections, context={context}))")
    assert contexts(workspace, part(context)) == dict(zip(TEXTS, WRITTEN[context], strict=True))
    expected = ["\n".join(filter(None, pair)) for pair in zip(WRITTEN[context], TEXTS.values(), strict=True)]
    vectors = workspace.open_part(dense.parts()[-1]).get([*TEXTS], ("vector",)).column("vector").to_pylist()
    assert np.array(vectors) == pytest.approx(Letters().open().encode_documents(expected), abs=1e-6)
    (retrieval,) = workspace.open_method(dense).retrieve([Query("q", "berth costs nine crowns")], 1)
    assert [(hit.title, hit.text) for hit in retrieval.hits] == [("Pier", TEXTS["pier#sections.2"])]
    assert workspace.open_part(part(context)).schema.text == ("context", "text")


def test_a_title_as_context_leaves_records_as_they_were(workspace: Index) -> None:
    assert sorted(workspace.open_part(part("title")).fields()) == [
        *("doc_ids", "kind", "metadata", "passage_ids", "text", "title")
    ]
    assert workspace.open_part(part("title")).schema.text == ("title", "text")


@pytest.mark.parametrize(
    ("context", "question", "expected"),
    [
        ("none", "Pier", ["pier#sections.0"]),
        ("none", "Blank", ["blank#sections.0"]),
        ("title", "Pier Blank", [*TEXTS]),
        ("headings", "tides", ["pier#sections.1"]),
        ("sentence", "closed", ["pier#sections.0", "pier#sections.1", "pier#sections.2"]),
    ],
)
@pytest.mark.parametrize("method", ["bm25(over={})", "bm25(over=triple_passages(of={}))"])
def test_the_context_is_analysed(
    method: str, context: str, question: str, expected: list[str], workspace: Index
) -> None:
    scheme = registry.scheme(method.format(f"passages(by=sections, context={context})"))
    (answer,) = workspace.open_method(scheme).retrieve([Query("q", question)], 9)
    assert sorted(hit.id for hit in answer.hits) == expected


@pytest.mark.parametrize("over", ["token_vectors", "summary_tree"])
def test_every_part_encodes_the_same_texts(over: str, tmp_path: Path) -> None:
    with Index.open(tmp_path, encoder="lsa", create=True) as workspace:
        workspace.add(DOCUMENTS)
        if over == "token_vectors":
            token_vectors = registry.part("token_vectors(of=passages(by=sections, context=headings))")
            workspace.build(token_vectors)
            # Blank / Pier, Pier The old pier is closed / Pier Tides, Tides It turns twice / Pier Fees, Fees A berth …
            assert workspace.open_part(token_vectors).places.counts.tolist() <= [1, 7, 6, 8]
        else:
            tree = registry.scheme("raptor(over=passages(by=sections, context=headings))")
            workspace.build(tree)
            leaves = {id: row for id, row in nodes(workspace, tree.parts()[-1]).items() if row["kind"] == "passage"}
            dense = registry.scheme("dense(over=passages(by=sections, context=headings))")
            workspace.build(dense)
            vectors = workspace.open_part(dense.parts()[-1])
            assert {id: row["text"] for id, row in leaves.items()}.items() <= TEXTS.items()
            records = workspace.open_part(tree.parts()[-1]).get([*leaves], ("vector",))
            same = vectors.get([*leaves], ("vector",))
            assert len(leaves) == 4
            assert records.column("vector").to_pylist() == same.column("vector").to_pylist()


def test_headings_below_the_title() -> None:
    assert below_title("Pier", "Pier") == ""
    assert below_title("Pier", "Pier › Tides › Spring") == "Tides › Spring"
    assert below_title("Pier", "Piers › Tides") == "Piers › Tides"
    assert below_title("", "") == ""


def test_a_sentence_is_bounded() -> None:
    assert bound_sentence(" It is\nof the tides. And more. ") == "It is of the tides."
    assert bound_sentence("word " * 100) == "word " * 60 + "…"
    assert bound_sentence("") == ""


# ---------------------------------------------------------------- a model


def write(body: Mapping[str, Any]) -> str:
    return json.dumps({"sentence": f"Of {str(body['messages'][-1]['content'])[-5:]}. And more."})


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenAIServer]:
    with answering(monkeypatch, write) as running:
        yield running


def list_messages(server: OpenAIServer) -> list[str]:
    return sorted(str(request.body["messages"][-1]["content"]) for request in server.requests)


LETTERS = Document("x", "X", "one a\n\ntwo b\n\nthree c\n\nfour d")
WORDS = Passages(by="words", size=2, context="sentence")


def test_a_call_a_passage_and_again_where_its_document_changed(server: OpenAIServer, tmp_path: Path) -> None:
    with opened(tmp_path, server, [LETTERS, Document("y", "Y", "five e"), Document("z", "", " ")]) as workspace:
        workspace.build(WORDS)
        assert contexts(workspace, WORDS) == {
            "x#words2.0": "X\nOf one a.",
            "x#words2.1": "X\nOf two b.",
            "x#words2.2": "X\nOf ree c.",
            "x#words2.3": "X\nOf our d.",
            "y#words2.0": "Y\nOf ive e.",
            "z#words2.0": "",
        }
        beginning = "Title of the document: X\n\nBeginning of the document:\none a\n\n"
        assert list_messages(server) == [
            f"{beginning}Passage:\ntwo b",
            f"{beginning}What stands before the passage:\nthree c\n\nPassage:\nfour d",
            f"{beginning}What stands before the passage:\ntwo b\n\nPassage:\nthree c",
            "Title of the document: X\n\nPassage:\none a",
            "Title of the document: Y\n\nPassage:\nfive e",
        ]
        server.requests.clear()
        workspace.add([replace(LETTERS, text=LETTERS.text.replace("three c", "three f"))])
        workspace.build()
        assert len(list_messages(server)) == 2  # the passage, and the one after it
        assert contexts(workspace, WORDS)["x#words2.2"] == "X\nOf ree f."
        server.requests.clear()
        workspace.add([replace(LETTERS, text=LETTERS.text.replace("one a", "one g"))])
        assert workspace.build().made > 0
        assert len(list_messages(server)) == 4  # all of x, none of y
        server.requests.clear()
        workspace.remove(["x"])
        workspace.build()
        assert list_messages(server) == []
        assert sorted(contexts(workspace, WORDS)) == ["y#words2.0", "z#words2.0"]


def test_where_a_model_gives_none_the_rule_does(server: OpenAIServer, tmp_path: Path) -> None:
    def choose(received: Received, earlier: int) -> Any:
        return chat(content="{}") if "Passage:\\ntwo b" in json.dumps(received.body) else None

    server.choose = choose
    with opened(tmp_path, server, [LETTERS]) as workspace:
        workspace.build(WORDS)
        assert contexts(workspace, WORDS)["x#words2.1"] == "X\none a"
        assert notes(workspace, "contexts") == [
            "The context of 1 passage was made by a rule, because the model gave none. "
            "It is asked again with another model."
        ]


def test_rules_say_so(tmp_path: Path) -> None:
    with Index.open(tmp_path, create=True) as workspace:
        workspace.add([LETTERS])
        workspace.build(WORDS)
        assert notes(workspace, "contexts") == ["Contexts of passages were made by rules, not by a language model."]


def test_the_estimate_counts_every_call(server: OpenAIServer) -> None:
    corpus = Corpus("made", "made", (LETTERS, Document("z", "Z", " ")), 0, (), True)
    scheme = registry.scheme("bm25(over=passages(size=2, context=sentence))")
    (estimated,) = estimate(corpus, [scheme], registry.llm("openai:small"), LLMSettings())
    assert (estimated.task, estimated.calls) == (PLACING_SENTENCE.name, 4)
    assert server.requests == []


def test_the_preceding_passage_of_every_chunking(tmp_path: Path) -> None:
    before = Preceding().with_chunking(Chunking(2, 1, "words"))
    with Index.open(tmp_path, create=True) as workspace:
        workspace.add([Document("x", "", "one two three")])
        workspace.build(before, PassageContexts().with_chunking(Chunking(2, 1, "words")))
        rows = [{"id": "x#words2+1.0", "doc_id": "x"}, {"id": "x#words2+1.1", "doc_id": "x"}]
        assert workspace.open_part(before).of(rows) == ["", "one two"]

"""Documents of equal text are one gold document: in every metric and section, and in the files for other tools."""

import csv
import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import ir_measures
import pytest
from command_line import Done, ragindex, write
from comparing import compare
from hypothesis import given, settings
from hypothesis import strategies as st
from made_comparisons import answered, went

from examples import examples
from ragindex.corpus import Corpus
from ragindex.errors import DataError, UsageError
from ragindex.index.index import Index
from ragindex.plugins import registry
from ragindex.types import Document, Query
from ragindex_eval.conclusions import iterations as by_iteration
from ragindex_eval.data import gold_classes
from ragindex_eval.data.datasets import Dataset, read_dataset
from ragindex_eval.data.gold import Gold
from ragindex_eval.export_compared import find_compared
from ragindex_eval.metrics import retrieval
from ragindex_eval.report.sections import questions as questions_section
from ragindex_eval.results.files import load_results
from ragindex_eval.results.model import Comparison, MethodAnswer, SavedHit
from ragindex_eval.run.bounds import GoldPassages
from ragindex_eval.run.notes import find_near_gold
from ragindex_eval.run.tree_coverage import count_coverage

GAIN = "stands in several documents: found with the first of them, and the others gain nothing"
KS = (1, 2, 3, 5)
NAMES = [ir_measures.parse_measure(f"{name}@{k}") for name in ("R", "Success", "RR", "nDCG") for k in KS]

# ---------------------------------------------------------------- metrics, on any ranking

TEXTS = "abcdef"
COPIES = [f"{text}{copy}" for text in TEXTS for copy in range(3)]
HITS = st.lists(st.lists(st.sampled_from(COPIES), min_size=1, max_size=2, unique=True), max_size=10)
JUDGED = st.dictionaries(st.sampled_from(COPIES), st.integers(1, 3), min_size=1, max_size=6)


def classed(grades: Mapping[str, int]) -> Gold:
    """The gold of a corpus that holds each text three times."""
    documents = [Document(id, id[0], f"The text {id[0]}.") for id in COPIES]
    return gold_classes.in_classes(documents, {"q": Gold(frozenset(grades), grades=grades)})["q"]


def measured(hits: Sequence[Sequence[str]], gold: Gold) -> dict[str, float]:
    return retrieval.score_hits(hits, gold.grades, KS, gold.equivalents)


def by_ir_measures(ranked: Sequence[str], grades: Mapping[str, int]) -> dict[str, float]:
    run = [ir_measures.ScoredDoc("q", id, float(-rank)) for rank, id in enumerate(ranked)]
    figures = ir_measures.calc_aggregate(NAMES, [ir_measures.Qrel("q", id, grade) for id, grade in grades.items()], run)
    return {str(name): value for name, value in figures.items()}


@settings(max_examples=examples(40))
@given(hits=HITS, grades=JUDGED)
def test_metrics_are_those_of_the_corpus_without_copies(hits: list[list[str]], grades: dict[str, int]) -> None:
    """Each text once, judged as highly as any of its copies; a copy after the first is a document of no text judged."""
    gold = {text: max(grade for id, grade in grades.items() if id[0] == text) for text in {id[0] for id in grades}}
    scores = measured(hits, classed(grades))
    for k in KS:
        seen = set[str]()
        once = [id if id[0] in seen else seen.add(id[0]) or id[0] for id in retrieval.ranking(hits[:k])]
        expected = {name: value for name, value in by_ir_measures(once, gold).items() if name.endswith(f"@{k}")}
        assert {name: scores[name] for name in expected} == pytest.approx(expected, abs=1e-12)
        assert scores[f"full_R@{k}"] == float(gold.keys() <= set(once[:k]))


@settings(max_examples=examples(40))
@given(ranked=st.lists(st.sampled_from(COPIES), unique=True), grades=JUDGED)
def test_a_standing_ranking_names_each_document_once(ranked: list[str], grades: dict[str, int]) -> None:
    """A tool that knows no texts measures the same: by the run and the qrels alone."""
    gold = classed(grades)
    stood = retrieval.standing(ranked, gold.equivalents)
    assert len(set(stood)) == len(stood) == len(ranked)
    assert [id[0] for id in stood] == [id[0] for id in ranked]
    scores = measured([[id] for id in ranked], gold)
    expected = by_ir_measures(stood, gold.grades)
    assert {name: scores[name] for name in expected} == pytest.approx(expected, abs=1e-12)


def test_by_hand() -> None:
    gold = classed({"a1": 1, "a2": 3, "b0": 1})
    assert (gold.doc_ids, gold.grades) == (frozenset({"a1", "b0"}), {"a1": 3, "b0": 1})
    assert gold.equivalents == {"a0": "a1", "a2": "a1", "b1": "b0", "b2": "b0"}
    assert retrieval.standing(["a2", "c0", "a1", "a0", "b1"], gold.equivalents) == ["a1", "c0", "a2", "a0", "b0"]
    scores = retrieval.score_hits([["a2", "a0"], ["a0"], ["b2"]], gold.grades, (1, 2, 3), gold.equivalents)
    assert [scores[f"R@{k}"] for k in (1, 2, 3)] == [0.5, 0.5, 1.0]  # a0 takes a rank
    assert [scores[f"full_R@{k}"] for k in (1, 2, 3)] == [0, 0, 1]
    assert [scores[f"one_doc_R@{k}"] for k in (1, 2, 3)] == [0.5, 1.0, 1.0]  # the hits of one document: a0, b2
    assert scores["nDCG@1"] == 1.0


# ---------------------------------------------------------------- which texts are equal


def gold_of(*documents: Document) -> Gold:
    named = documents[0].id
    return gold_classes.in_classes(documents, {"q": Gold(frozenset({named}))})["q"]


@pytest.mark.parametrize(
    ("first", "second", "equal"),
    [
        (("1", "Ann", "She was born."), ("2", "Ann", " She\nwas  born. "), True),
        (("1", "Ann", "She was born."), ("2", "Eve", "She was born."), False),  # the title has the person
        (("1", "Café", "At the café."), ("2", "Cafe\u0301", "At the cafe\u0301."), True),
        (("1", "Ann", "She was born."), ("2", "Ann", "she was born."), False),
        (("x/minutes.txt", "minutes", "We met."), ("copy of minutes.txt", "copy of minutes", "We met."), True),
        (("x/minutes.txt", "minutes", "We met."), ("b.html", "Minutes of May", "We met."), False),
        (("x/minutes.pdf", "Minutes", "We met."), ("b.pdf", "Minutes of May", "We met."), False),
        (("Ann", "Ann", "She was born."), ("Eve", "Eve", "She was born."), False),  # an id that is a title is no file
        (("1", "Ann", ""), ("2", "Eve", " "), False),
        (("1", "Ann", ""), ("2", "Ann", " "), True),
    ],
)
def test_equal_texts(first: tuple[str, str, str], second: tuple[str, str, str], equal: bool) -> None:
    assert gold_of(Document(*first), Document(*second)).equivalents == ({second[0]: first[0]} if equal else {})


def test_gold_in_classes_stays_as_it_is() -> None:
    documents = [Document(id, "", "same") for id in "cab"] + [Document("x", "", "other")]
    gold = {"q1": Gold(frozenset("cx")), "q2": Gold(frozenset("ab")), "q3": Gold(frozenset({"gone"}))}
    once = gold_classes.in_classes(documents, gold)
    assert once["q1"].equivalents == {"a": "c", "b": "c"}
    assert once["q2"].equivalents == {"b": "a", "c": "a"}
    assert once["q3"] == gold["q3"]
    assert gold_classes.in_classes(documents, once) == once
    assert gold_classes.same(once) == dict.fromkeys("abc", "a")
    assert gold_classes.note(once) == (f"1 gold text (2 questions) {GAIN}")
    assert gold_classes.note({"q": Gold(frozenset("x"))}) is gold_classes.note(None) is None


def alternatives(grades: Mapping[str, int], equivalents: Mapping[str, str]) -> Gold:
    """Gold as a file of questions names it: some documents, with grades, and alternatives of them."""
    return Gold(frozenset(grades), grades=grades, equivalents=equivalents, alternatives=frozenset(equivalents))


def test_metrics_of_alternatives_by_hand() -> None:
    """The ranking that docs/reference/file-of-questions.md works out: gold a|p and b."""
    gold = alternatives({"a": 1, "b": 1}, {"p": "a"})
    scores = measured([["x"], ["p"], ["b"], ["a"]], gold)
    assert {name: round(scores[name], 4) for name in ("R@1", "R@2", "R@3", "RR@5", "nDCG@2", "nDCG@5")} == {
        "R@1": 0.0,
        "R@2": 0.5,
        "R@3": 1.0,
        "RR@5": 0.5,
        "nDCG@2": 0.3869,  # (1 / log2(3)) / (1 + 1 / log2(3))
        "nDCG@5": 0.6934,  # (1 / log2(3) + 1 / log2(4)) / (1 + 1 / log2(3)): a, found as p, gains nothing again
    }
    assert scores == measured([["x"], ["a"], ["b"], ["p"]], gold)
    assert measured([["a"], ["p"]], gold)["full_R@2"] == 0.0
    assert measured([["b"], ["p"]], gold)["full_R@2"] == 1.0


def test_alternatives_are_of_a_class_with_their_copies() -> None:
    documents = [Document(id, "", text) for id, text in {"a": "A", "a2": "A", "p": "P", "p2": "P", "b": "B"}.items()]
    named = {
        "q1": alternatives({"a": 1, "b": 2}, {"p": "a"}),
        "q2": alternatives({"b": 1, "p2": 3, "a2": 1}, {"a": "b"}),  # a is of the text of a2, another gold document
        "q3": Gold(frozenset({"p"})),
        "q4": alternatives({"gone": 1}, {"p": "gone"}),
    }
    gold = gold_classes.in_classes(documents, named)
    assert (gold["q1"].grades, gold["q1"].equivalents) == ({"a": 1, "b": 2}, {"a2": "a", "p": "a", "p2": "a"})
    assert gold["q1"].alternatives == {"p", "p2"}
    assert (gold["q2"].grades, gold["q2"].equivalents) == ({"a2": 1, "p2": 3}, {"a": "a2", "b": "a2", "p": "p2"})
    assert gold["q2"].alternatives == {"b"}
    assert (gold["q4"].grades, gold["q4"].equivalents) == ({"gone": 1}, {"p": "gone", "p2": "gone"})
    assert gold_classes.in_classes(documents, gold) == gold
    assert gold_classes.same(gold) == {"a": "a", "a2": "a", "p": "p", "p2": "p"}
    assert gold_classes.note({"q1": gold["q1"]}) == f"1 gold text (1 question) {GAIN}"
    assert gold_classes.note({"q": alternatives({"a": 1}, {"p": "a"})}) is None


def write_manual(folder: Path, gold: str) -> tuple[Path, Path]:
    """The same manual as .html and .txt, whose titles differ, and a question with this gold."""
    text = " ".join(f"Step {n}: turn the valve {n} of the pump and read gauge {n * 7 % 13}." for n in range(40))
    pages = {"manual.html": f"<title>Pump manual</title><p>{text}</p>", "manual.txt": text, "other.txt": OTHER}
    write(folder / "docs", pages)
    write(folder, {"q.csv": f"question,documents\nWhich valve of the pump manual does step 7 turn?,{gold}\n"})
    return folder / "docs", folder / "q.csv"


def test_a_document_found_in_another_format_is_named_until_it_is_gold(tmp_path: Path) -> None:
    """A miss that the notes and the report explain, and then a hit."""
    figures, index = [], tmp_path / "w"
    for name, gold in {"miss": "manual.html", "hit": "manual.html|manual.txt"}.items():
        data, questions = write_manual(tmp_path, gold)
        comparison = compare(data, ["bm25"], questions=questions, k=(1,), index=index, out=tmp_path / name)
        loaded = load_results(tmp_path / name).comparisons[0]
        assert (loaded.near_gold, loaded.gold) == (comparison.near_gold, comparison.gold)
        section = questions_section.render_questions(loaded)
        assert section is not None
        near = [note for note in loaded.notes if "nearly" in note]
        figures.append((loaded.method("bm25").metrics["R@1"], near, [question.near for question in section.missed]))
    note = (
        "on 1 question a document was found with nearly the text of a gold document that a method missed at 1, as "
        "manual.txt for manual.html (q00001): if either counts, write manual.html|manual.txt under 'documents'"
    )
    assert figures == [(0.0, [note], [("manual.txt has nearly the text of manual.html",)]), (1.0, [], [])]


@pytest.mark.parametrize(
    ("gold", "ranked", "k", "near"),
    [
        ("manual.html", ["manual.txt", "manual.html"], 1, {"manual.txt": "manual.html"}),
        ("manual.html", ["manual.txt", "manual.html"], 2, {}),
        ("manual.html", ["other.txt", "manual.txt"], 1, {"manual.txt": "manual.html"}),
        ("manual.html", ["other.txt"], 1, {}),
        ("manual.html", [], 1, {}),
        ("manual.html|manual.txt", ["other.txt", "manual.txt"], 1, {}),
        ("other.txt", ["manual.txt", "manual.html"], 2, {}),
    ],
)
def test_near_gold_is_of_documents_that_a_method_missed(
    gold: str, ranked: list[str], k: int, near: dict[str, str], tmp_path: Path
) -> None:
    data, questions = write_manual(tmp_path, gold)
    dataset = read_dataset(data, questions=questions)
    hits = tuple(SavedHit(id, (id,), 1 / rank) for rank, id in enumerate(ranked, start=1))
    comparison = answered({"flat": [MethodAnswer("q00001", hits)]}, dataset.gold, (1, 2))
    assert find_near_gold(dataset, comparison.methods, k) == ({"q00001": near} if near else {})


# ---------------------------------------------------------------- every format, to the files written

COFFEE = "The harbour office closed on 3 May 1931. Its keeper, Ada Miller, sold the boat to the town of Lindau."
OTHER = "The slate works of Brandt were founded in 1871 by Ulla Brandt. They employ forty people in the hills."


def draft(documents: Path, file: Path) -> Done:
    done = ragindex("questions", documents, "--out", file, "--n", 6)
    assert done.code == 0
    return done


def as_folder(folder: Path) -> tuple[Path, Path]:
    """Three copies; drafted questions name one of them."""
    names = ("z/coffee.txt", "a/coffee.txt", "a/copy of coffee.txt")
    write(folder / "docs", {**dict.fromkeys(names, COFFEE), "slate.txt": OTHER})
    draft(folder / "docs", folder / "q.csv")
    with (folder / "q.csv").open(encoding="utf-8-sig", newline="") as file:
        drafted = {row["documents"] for row in csv.DictReader(file)}
    assert len(drafted & set(names)) == 1  # drafted from once
    rows = ["question,answer,documents", "When did the harbour office close?,3 May 1931,z/coffee.txt"]
    write(folder, {"q.csv": "\n".join([*rows, "Who founded the slate works?,Ulla Brandt,slate.txt"])})
    return folder / "docs", folder / "q.csv"


def as_beir(folder: Path) -> tuple[Path, None]:
    corpus = [{"_id": id, "title": "Harbour", "text": COFFEE} for id in ("d2", "d1", "d0")]
    corpus.append({"_id": "d3", "title": "Slate", "text": OTHER})
    questions = [
        {"_id": "a", "text": "When did the harbour office close?"},
        {"_id": "b", "text": "Who founded the slate works?"},
    ]
    write(
        folder,
        {
            "corpus.jsonl": "\n".join(map(json.dumps, corpus)),
            "queries.jsonl": "\n".join(map(json.dumps, questions)),
            "qrels/test.tsv": "query-id\tcorpus-id\tscore\na\td2\t1\na\td1\t2\na\td0\t0\nb\td3\t1\n",
        },
    )
    return folder, None


FORMATS = {"folder": as_folder, "beir": as_beir}


@pytest.mark.parametrize("write_data", FORMATS.values(), ids=FORMATS)
def test_a_copy_found_first_is_the_gold_in_every_format(write_data: Any, tmp_path: Path) -> None:
    data, questions = write_data(tmp_path / "data")
    comparison = compare(data, ["bm25"], questions=questions, k=(1, 3), index=tmp_path / "w", out=tmp_path / "out")
    method = comparison.method("bm25")
    copies = len({document for answer in method.final for hit in answer.hits[:3] for document in hit.doc_ids}) - 1
    assert copies >= 2
    for name in ("R@1", "full_R@1", "full_R@3", "Success@1", "RR@1", "nDCG@1", "nDCG@3", "one_doc_R@1"):
        assert method.metrics[name] == 1.0, name
    assert [note for note in comparison.notes if "gold text" in note] == [f"1 gold text (1 question) {GAIN}"]
    qrels = list(ir_measures.read_trec_qrels(str(tmp_path / "out" / "qrels.trec")))
    run = list(ir_measures.read_trec_run(str(tmp_path / "out" / "runs" / "bm25.trec")))
    assert len({(row.query_id, row.doc_id) for row in run}) == len(run)
    names = [ir_measures.parse_measure(name) for name in method.metrics if not name.startswith(("full_R", "one_doc"))]
    by_others = {str(name): value for name, value in ir_measures.calc_aggregate(names, qrels, run).items()}
    assert by_others == pytest.approx({name: method.metrics[name] for name in by_others}, abs=1e-9)
    (again,) = load_results(tmp_path / "out").comparisons
    assert again.gold == comparison.gold
    assert again.to_json() == comparison.to_json()
    lines = [json.loads(line) for line in (tmp_path / "out" / "questions.jsonl").read_text().splitlines()]
    assert [len(line["gold"]) for line in lines] == [1, 1]
    assert all(line["gold"].keys() == set(line["twins"].values()) for line in lines[:1])
    assert lines[1]["twins"] == {}


def test_question_that_is_a_document_does_not_find_itself(tmp_path: Path) -> None:
    """As in ArguAna: each argument is a question, and the answer is its counterargument."""
    sides = {"pro": "Ferries bring visitors to the towns", "con": "Visitors of ferries bring noise to the towns"}
    write(
        tmp_path / "arguments",
        {
            "corpus.jsonl": "\n".join(json.dumps({"_id": id, "title": "", "text": text}) for id, text in sides.items()),
            "queries.jsonl": json.dumps({"_id": "pro", "text": sides["pro"]}),
            "qrels/test.tsv": "query-id\tcorpus-id\tscore\npro\tcon\t1\n",
        },
    )
    settings: dict[str, Any] = {"k": (1, 2), "index": tmp_path / "w"}
    comparison = compare(tmp_path / "arguments", ["bm25", "dense"], out=tmp_path / "out", encoder="lsa:1", **settings)
    assert [method.metrics["nDCG@1"] for method in comparison.methods] == [1.0, 1.0]
    assert comparison.notes[0] == (
        "1 question has the id of a document, which its rankings leave out, as BEIR's evaluation does "
        "(ignore_identical_ids)"
    )
    rows = [list(ir_measures.read_trec_run(str(path))) for path in (tmp_path / "out" / "runs").iterdir()]
    assert [[row.doc_id for row in run] for run in rows] == [["con"], ["con"]]
    (again,) = load_results(tmp_path / "out").comparisons
    assert again.gold == comparison.gold
    with Index.open(tmp_path / "w") as opened:
        scheme = registry.scheme("bm25")
        assert find_compared(comparison, "bm25").evidence_for(opened, scheme).metrics["R@1"] == 1.0
        plain = {id: replace(answer, own_document="") for id, answer in (comparison.gold or {}).items()}
        with pytest.raises(UsageError, match="are not those of"):
            find_compared(replace(comparison, gold=plain), "bm25").evidence_for(opened, scheme)


def test_a_dataset_that_a_program_made_is_measured_alike(tmp_path: Path) -> None:
    documents = tuple(Document(id, "Harbour", COFFEE) for id in ("b", "a"))
    corpus = Corpus("made", "jsonl", documents, 0, (), True)
    gold = {"q1": Gold(frozenset({"b"}))}
    dataset = Dataset("made", corpus, (Query("q1", "harbour office"),), gold, "0" * 16)
    comparison = compare(dataset, ["bm25"], k=(1,), index=tmp_path / "w")
    assert comparison.methods[0].final[0].hits[0].doc_ids == ("a",)
    assert comparison.methods[0].metrics["R@1"] == 1.0
    questions = write(tmp_path, {"q.csv": "question,documents\nharbour office,b"}) or tmp_path / "q.csv"
    read_back = compare(questions=questions, methods=["bm25"], k=(1,), index=tmp_path / "w")
    assert read_back.methods[0].metrics["R@1"] == 1.0


def test_a_name_of_several_copies_is_gold_like_any_of_them(tmp_path: Path) -> None:
    data, questions = as_folder(tmp_path)
    write(tmp_path, {"q.csv": "question,documents\nWhen did it close?,coffee.txt"})
    gold = read_dataset(data, questions=questions).gold
    assert gold is not None
    assert len(gold["q00001"].grades) == 1
    assert len(gold["q00001"].equivalents) == 2
    write(data, {"b/coffee.txt": OTHER})
    with pytest.raises(DataError, match=r"'coffee.txt' stands for 3"):
        read_dataset(data, questions=questions)


def test_drafting_says_which_documents_repeat_others(tmp_path: Path) -> None:
    as_folder(tmp_path)
    repeated = "2 documents have the text of another: it is drafted from once."
    assert repeated in draft(tmp_path / "docs", tmp_path / "second.csv").err
    shutil.rmtree(tmp_path / "docs" / "a")
    assert "text of another" not in draft(tmp_path / "docs", tmp_path / "third.csv").err


# ---------------------------------------------------------------- sections


def with_copies() -> Comparison:
    """Of two methods, one finds the copy after its first iteration."""
    gold = {"q1": Gold(frozenset({"a"}), equivalents={"t": "a", "u": "a"})}
    method = went("q1", [["x"], ["t#1", "a#0"]], [(1, 10, 1), (2, 10, 1)])
    flat = MethodAnswer("q1", (SavedHit("u", ("u",), 2.0), SavedHit("a", ("a",), 1.0)), None)
    return answered({"gear": [method], "flat": [flat]}, gold, (1, 2))


def test_recall_by_iteration() -> None:
    comparison = with_copies()
    (iterative,) = by_iteration.iterative_methods(comparison)
    values = by_iteration.recalls(iterative, comparison, (1, 2))
    assert values.tolist() == [[[0.0, 0.0], [1.0, 1.0]]]


def test_single_questions_show_where_the_gold_text_is() -> None:
    comparison = with_copies()
    flat = comparison.method("flat")
    unlike = replace(
        flat, label="none", answers={2: (MethodAnswer("q1", (), None),)}, per_query={"q1": {"R@1": 0.0, "R@2": 0.0}}
    )
    section = questions_section.render_questions(replace(comparison, methods=(flat, unlike)))
    assert section is not None
    [question] = section.shown
    assert [(grade.title, grade.id) for grade in question.gold] == [
        ("The letter A", "a, or 2 documents of the same text")
    ]
    assert question.findings[0].ranks == "gold at rank 1"
    assert [hit.mark for hit in question.findings[0].hits] == ["gold", "gold"]
    assert question.findings[1].ranks == "1 of 1 gold not in the first 2 hits"
    gold = {"q1": replace(alternatives({"a": 1}, {"t": "a"}), equivalents={"t": "a", "u": "a"})}
    section = questions_section.render_questions(replace(comparison, methods=(flat, unlike), gold=gold))
    assert section is not None
    assert [grade.id for grade in section.shown[0].gold] == ["a, or 1 document of the same text, or t"]
    assert section.shown[0].findings[0].ranks == "gold at rank 1"


def test_pairs_are_covered_by_whichever_copy_is_in_a_cluster() -> None:
    same = {"a": "a", "t": "a"}
    (grouping,) = count_coverage({"tree": [["t", "b"], ["a", "c"]]}, [["a", "b"]], {}, 4, same).groupings
    assert grouping.pairs == 1
    (grouping,) = count_coverage({"tree": [["t", "b"]]}, [["a", "c"]], {}, 4, same).groupings
    assert grouping.pairs == 0


def test_a_reader_gets_each_gold_text_once() -> None:
    documents = [Document(id, "Harbour", COFFEE) for id in ("b", "a")]
    gold = gold_classes.in_classes(documents, {"q": Gold(frozenset({"a", "b"}))})
    source = GoldPassages(gold, {document.id: document for document in documents}, None, "english")
    [ranking] = source.retrieve([Query("q", "harbour")], 5)
    assert [hit.doc_ids for hit in ranking.hits] == [("a",)]

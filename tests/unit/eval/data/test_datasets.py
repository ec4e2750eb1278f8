"""Questions, and their gold kept apart."""

import json
import os
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples
from ragindex.corpus import content_id
from ragindex.corpus.judgements import add_judgement, question_id
from ragindex.errors import DataError, UsageError
from ragindex.types import Query
from ragindex_eval.data import datasets
from ragindex_eval.data.datasets import Dataset, describe_content, read_dataset
from ragindex_eval.data.gold import EvidencePlace, Gold


def write(path: Path, value: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(record) + "\n" for record in value), encoding="utf-8")
    else:
        path.write_text(json.dumps(value), encoding="utf-8")
    return path


def paragraph(title: str, text: str, supporting: bool) -> dict[str, Any]:
    return {"title": title, "paragraph_text": text, "is_supporting": supporting}


MUSIQUE: list[dict[str, Any]] = [
    {
        "id": "2hop__1_2",
        "question": "Who?",
        "answer": "Ann",
        "answer_aliases": ["Anna", "Ann", ""],
        "paragraphs": [paragraph("Same", "One.", True), paragraph("Same", "Two.", False), paragraph("B", "b", True)],
    },
    {
        "id": "3hop1__1_2_3",
        "question": "Where?",
        "answer": ["Rome", "Roma"],
        "paragraphs": [paragraph("Same", "Two.", True), paragraph("Same", "Two.", True)],
    },
    {"id": "plain", "question": "When?", "paragraphs": [paragraph("B", "b", True)]},
]
HOTPOT: list[dict[str, Any]] = [
    {
        "_id": "h1",
        "question": "Which?",
        "answer": "yes",
        "type": "comparison",
        "supporting_facts": [["A", 0], ["A", 1], ["Twice", 0]],
        "context": [["A", ["First.", " Second."]], ["Twice", ["Mine."]]],
    },
    {
        "_id": "h2",
        "question": "What?",
        "answer": "no",
        "type": "bridge",
        "supporting_facts": [["Twice", 0]],
        "context": [["Twice", ["Yours."]]],
    },
]


def texts(dataset: Dataset) -> list[tuple[str, str]]:
    return [(query.id, query.text) for query in dataset.queries]


def beir(folder: Path, qrels: str, split: str = "test") -> Path:
    write(folder / "corpus.jsonl", [{"_id": f"d{n}", "title": "", "text": f"text {n}"} for n in range(4)])
    write(folder / "queries.jsonl", [{"_id": str(n), "text": f"question {n}?"} for n in range(4)])
    (folder / "qrels").mkdir(exist_ok=True)
    (folder / "qrels" / f"{split}.tsv").write_text(qrels)
    return folder


def own(folder: Path) -> Path:
    for name, text in {"a.md": "# Apples\nred", "deep/b.txt": "pears", "deep/a.md": "# Plums\nblue"}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def csv(folder: Path, text: str) -> Path:
    path = folder / "questions.csv"
    path.write_bytes(text.encode())
    return path


@pytest.mark.parametrize("layout", ["musique.json", "musique.jsonl", "pair", "folder"])
def test_gold_of_musique_is_the_supporting_paragraphs(tmp_path: Path, layout: str) -> None:
    corpus = [{"title": "B", "text": "b"}, {"title": "Same", "text": "Two."}, {"title": "Same", "text": "One."}]
    if layout == "pair":
        write(tmp_path / "case_corpus.json", corpus)
        dataset = read_dataset(write(tmp_path / "case.json", MUSIQUE))
    elif layout == "folder":
        write(tmp_path / "corpus.json", corpus)
        write(tmp_path / "questions.json", MUSIQUE)
        dataset = read_dataset(tmp_path)
    else:
        dataset = read_dataset(write(tmp_path / layout, MUSIQUE))
    first, two, b = content_id("Same", "One."), content_id("Same", "Two."), content_id("B", "b")
    assert {document.id for document in dataset.corpus.documents} == {first, two, b}
    assert dataset.queries == (Query("q00001", "Who?"), Query("q00002", "Where?"), Query("q00003", "When?"))
    assert all(not document.metadata for document in dataset.corpus.documents)
    assert dataset.gold == {
        "q00001": Gold(frozenset({first, b}), ("Ann", "Anna"), "2hop", "2hop__1_2"),
        "q00002": Gold(frozenset({two}), ("Rome", "Roma"), "3hop1", "3hop1__1_2_3"),
        "q00003": Gold(frozenset({b}), (), "", "plain"),
    }
    assert dataset.gold["q00001"].grades == {first: 1, b: 1}
    assert [gold.candidates for gold in dataset.gold.values()] == [{first, two, b}, {two}, {b}]
    assert dataset.skipped == ()


@pytest.mark.parametrize("extra", [{}, {"evidences": [["a", "b", "c"]]}])
def test_gold_of_hotpotqa_is_found_by_title_and_by_text_where_titles_repeat(
    tmp_path: Path, extra: dict[str, Any]
) -> None:
    dataset = read_dataset(write(tmp_path / "dev.json", [{**item, **extra} for item in HOTPOT]))
    assert dataset.corpus.format == ("2wikimultihopqa" if extra else "hotpotqa")
    assert dataset.gold == {
        "q00001": Gold(
            frozenset({content_id("A", "First. Second."), content_id("Twice", "Mine.")}), ("yes",), "comparison", "h1"
        ),
        "q00002": Gold(frozenset({content_id("Twice", "Yours.")}), ("no",), "bridge", "h2"),
    }


def test_candidates_of_hotpotqa_are_its_context_as_far_as_the_corpus_holds_it(tmp_path: Path) -> None:
    """The context of h1 with a distractor B that is in the corpus, and another that is not."""
    context = [["A", ["First.", " Second."]], ["B", ["Beside."]], ["Elsewhere", ["Not there."]]]
    item = {**HOTPOT[0], "supporting_facts": [["A", 0]], "context": context}
    write(tmp_path / "corpus.json", {"A": ["First.", " Second."], "B": ["Beside."], "Twice": ["Once."]})
    write(tmp_path / "questions.json", [item])
    gold = read_dataset(tmp_path).gold
    assert gold is not None
    assert gold["q00001"].doc_ids == {content_id("A", "First. Second.")}
    assert gold["q00001"].candidates == {content_id("A", "First. Second."), content_id("B", "Beside.")}


def test_a_text_kept_under_two_ids_is_one_gold_text(tmp_path: Path) -> None:
    write(tmp_path / "c_corpus.json", [{"id": "x", "title": "B", "text": "b"}, {"id": "y", "title": "B", "text": "b"}])
    gold = read_dataset(write(tmp_path / "c.json", MUSIQUE[2:])).gold
    assert gold == {"q00001": Gold(frozenset({"x"}), (), "", "plain", equivalents={"y": "x"})}


@pytest.mark.parametrize(
    "qrels",
    [
        "query-id\tcorpus-id\tscore\n3\td1\t2\n1\td0\t1\n1\td2\t0\n1\tabsent\t0\n1\td3\t3\n",
        "3 0 d1 2\n1 0 d0 1\n1 0 d2 0\n1 0 absent 0\n1 0 d3 3\n",
        "query-id\tcorpus-id\tscore\n3\td1\t2.0\n1\td0\t1.\n1\td2\t0.0\n1\tabsent\t0\n1\td3\t3.00\n",
    ],
)
def test_beir_keeps_judged_questions_and_grades(tmp_path: Path, qrels: str) -> None:
    dataset = read_dataset(beir(tmp_path / "set", qrels))
    assert dataset.name == "set"
    assert texts(dataset) == [("q00001", "question 1?"), ("q00002", "question 3?")]
    assert dataset.gold == {
        "q00001": Gold(frozenset({"d0", "d3"}), source_id="1", grades={"d0": 1, "d3": 3}),
        "q00002": Gold(frozenset({"d1"}), source_id="3", grades={"d1": 2}),
    }


def test_own_documents_of_beir_are_those_with_the_id_of_the_question(tmp_path: Path) -> None:
    folder = beir(tmp_path / "set", "0\td1\t1\nd1\td2\t1\nd2\td2\t1\nd3\td1\t1\nd3\td3\t0\n")
    write(folder / "queries.jsonl", [{"_id": id, "text": f"question {id}?"} for id in ("0", "d1", "d2", "d3")])
    gold = read_dataset(folder).gold
    assert gold is not None
    own = {answer.source_id: answer.own_document for answer in gold.values()}
    assert own == {"0": "", "d1": "d1", "d2": "", "d3": "d3"}  # d2 is judged to answer itself


def test_beir_takes_test_before_dev_before_train(tmp_path: Path) -> None:
    for split, doc_id in (("train", "d1"), ("dev", "d2"), ("test", "d3")):
        gold = read_dataset(beir(tmp_path, f"query-id\tcorpus-id\tscore\n0\t{doc_id}\t1\n", split)).gold
        assert gold is not None
        assert gold["q00001"].doc_ids == {doc_id}


def test_a_csv_names_documents_by_id_title_or_file(tmp_path: Path) -> None:
    questions = csv(
        tmp_path,
        "\ufeffQuestion, answer ,documents,note\r\n"
        '"Red, or\r\nnot?",Yes,Apples; b.txt ;,x\r\n'
        "\r\n"
        "Blue?,,deep/a.md,y\r\n",
    )
    dataset = read_dataset(own(tmp_path / "docs"), questions=questions)
    assert texts(dataset) == [("q00001", "Red, or\r\nnot?"), ("q00002", "Blue?")]
    assert dataset.gold == {
        "q00001": Gold(frozenset({"a.md", "deep/b.txt"}), ("Yes",)),
        "q00002": Gold(frozenset({"deep/a.md"})),
    }


@pytest.mark.parametrize("name", ["q.csv", "q.txt"])
def test_questions_in_the_encoding_of_a_spreadsheet(tmp_path: Path, name: str) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text("# Café\n\nThe café opened in May.")
    rows = "question;documents\nWhen did the “café” open – and where?;a.md\nWas it a naïve résumé of the façade?;a.md\n"
    (tmp_path / name).write_bytes(rows.encode("cp1252"))
    dataset = read_dataset(tmp_path / "docs", questions=tmp_path / name)
    assert "When did the “café” open – and where?" in dataset.queries[-2].text
    assert f"{name} was read as cp1252" in dataset.notes


def test_json_lines_are_questions_as_in_a_csv(tmp_path: Path) -> None:
    rows: list[dict[str, object]] = [
        {"_id": "x1", "question": "Red?", "answer": "Yes || Sure", "documents": "Apples;b.txt=2", "kind": "yes"},
        {"text": "Blue?", "answers": ["Plums"], "documents": ["deep/a.md"], "evidence": ["Plums blue"]},
        {"question": "Both?", "documents": {"a.md": 1, "deep/a.md": 3}},
    ]
    path = tmp_path / "questions.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    dataset = read_dataset(own(tmp_path / "docs"), questions=path)
    assert texts(dataset) == [("q00001", "Red?"), ("q00002", "Blue?"), ("q00003", "Both?")]
    assert dataset.gold == {
        "q00001": Gold(
            frozenset({"a.md", "deep/b.txt"}), ("Yes", "Sure"), "yes", "x1", grades={"a.md": 1, "deep/b.txt": 2}
        ),
        "q00002": Gold(frozenset({"deep/a.md"}), ("Plums",), evidence=(EvidencePlace("deep/a.md", ((2, 7), (8, 12))),)),
        "q00003": Gold(frozenset({"a.md", "deep/a.md"}), grades={"a.md": 1, "deep/a.md": 3}),
    }


def test_json_lines_without_documents_are_questions_without_gold(tmp_path: Path) -> None:
    path = tmp_path / "questions.jsonl"
    path.write_text('{"question": "Red?"}\n{"question": "Blue?", "kind": "colour"}\n')
    dataset = read_dataset(own(tmp_path / "docs"), questions=path)
    assert (texts(dataset), dataset.gold) == ([("q00001", "Red?"), ("q00002", "Blue?")], None)


@pytest.mark.parametrize("mark", [",", ";", "\t", "|"])
def test_a_csv_of_other_programs(tmp_path: Path, mark: str) -> None:
    docs = own(tmp_path / "docs")
    (docs / "Café.txt").write_text("Coffee.")
    (docs / "x=2.txt").write_text("An equation.")
    long = "Why? " + "x" * 200_000
    rows = [
        ["Question", "Documents", "Answer", "Kind"],
        ["Red?", '"a.md=2;deep/b.txt=1; deep/a.md=0"', "Yes || Of course ||  || no||yes", "single"],
        ["", "", "", ""],
        [f'"{long}"', '"Cafe\u0301.txt;x=2.txt"', "", "two"],
    ]
    questions = csv(tmp_path, "".join(mark.join(row) + "\n" for row in rows))
    if mark == "|":  # answers hold the delimiter
        questions.write_text(questions.read_text().replace("Yes || Of course ||  || no||yes", "Yes"))
    dataset = read_dataset(docs, questions=questions)
    answers = ("Yes",) if mark == "|" else ("Yes", "Of course", "no||yes")
    assert texts(dataset) == [("q00001", "Red?"), ("q00002", long)]
    assert dataset.gold == {
        "q00001": Gold(frozenset({"a.md", "deep/b.txt"}), answers, "single", grades={"a.md": 2, "deep/b.txt": 1}),
        "q00002": Gold(frozenset({"Café.txt", "x=2.txt"}), (), "two"),
    }


def test_a_text_file_of_questions_has_no_gold(tmp_path: Path) -> None:
    questions = tmp_path / "questions.txt"
    questions.write_bytes("\ufeffFirst?\r\n\r\n  second\u2028line? \n".encode())
    dataset = read_dataset(own(tmp_path / "docs"), questions=questions)
    assert texts(dataset) == [("q00001", "First?"), ("q00002", "second\u2028line?")]
    assert dataset.gold is None


def test_questions_among_the_documents_are_no_document(tmp_path: Path) -> None:
    questions = own(tmp_path) / "deep" / "questions.txt"
    questions.write_text("Who?\n")
    dataset = read_dataset(tmp_path, questions=questions)
    assert [document.id for document in dataset.corpus.documents] == ["a.md", "deep/a.md", "deep/b.txt"]
    decomposed = questions.rename(questions.with_name("que\u0301.txt"))
    dataset = read_dataset(tmp_path, questions=decomposed)
    assert [document.id for document in dataset.corpus.documents] == ["a.md", "deep/a.md", "deep/b.txt"]


@pytest.mark.parametrize("no", ["no", "NO", "false", False])
@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_questions_that_no_document_answers_are_kept(no: str | bool, form: str, tmp_path: Path) -> None:
    docs = own(tmp_path / "docs")
    if form == "csv":
        questions = csv(tmp_path, f"question,documents,answerable\nA?,a.md,\nB?,,{no}\nC?,a.md=0,{no}\nD?,a.md,yes\n")
    else:
        rows: list[dict[str, Any]] = [
            {"question": "A?", "documents": ["a.md"], "answerable": None},
            {"question": "B?", "answerable": no, "kind": "far"},
            {"question": "C?", "documents": {"a.md": 0}, "answerable": no},
            {"question": "D?", "documents": ["a.md"], "answerable": True},
        ]
        questions = write(tmp_path / "questions.jsonl", rows)
    dataset = read_dataset(docs, questions=questions)
    assert dataset.gold is not None
    assert [dataset.gold[query.id].answerable for query in dataset.queries] == [True, False, False, True]
    assert [sorted(dataset.gold[query.id].grades) for query in dataset.queries] == [["a.md"], [], [], ["a.md"]]
    assert (dataset.gold["q00002"].kind, dataset.notes) == ("far" if form == "jsonl" else "", ())


ALTERNATIVES: list[tuple[str, dict[str, int], dict[str, str]]] = [
    ("a.md|a.pdf", {"a.md": 1}, {"a.pdf": "a.md"}),
    (" a.pdf | a.md =2; b|c.md", {"a.pdf": 2, "b|c.md": 1}, {"a.md": "a.pdf"}),
    ("a.md|b|c.md|a.pdf", {"a.md": 1}, {"b|c.md": "a.md", "a.pdf": "a.md"}),
    ("b|c.md", {"b|c.md": 1}, {}),
    ("a.md|", {"a.md": 1}, {}),
    ("b|c.md=0;a.md|a.md", {"a.md": 1}, {}),
    ("a.md=0;b|c.md|a.pdf=3", {"b|c.md": 3}, {"a.pdf": "b|c.md"}),
    ("Title|of b|a.md", {"b|c.md": 1}, {"a.md": "b|c.md"}),
]
BARRED = [
    {"_id": "a.md", "text": "One."},
    {"_id": "a.pdf", "text": "Two."},
    {"_id": "b|c.md", "title": "Title|of b", "text": "3"},
]


@pytest.mark.parametrize(
    ("written", "grades", "equivalents"), ALTERNATIVES, ids=[alternative[0] for alternative in ALTERNATIVES]
)
@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_alternatives_of_a_document_are_one_gold_document(
    written: str, grades: dict[str, int], equivalents: dict[str, str], form: str, tmp_path: Path
) -> None:
    corpus = write(tmp_path / "corpus.jsonl", BARRED)
    if form == "csv":
        questions = csv(tmp_path, f"question,documents\nWhat?,{written}\n")
    else:
        questions = write(tmp_path / "questions.jsonl", [{"question": "What?", "documents": written.split(";")}])
    gold = (read_dataset(corpus, questions=questions).gold or {})["q00001"]
    assert (gold.grades, gold.equivalents, gold.alternatives) == (grades, equivalents, frozenset(equivalents))
    assert gold.doc_ids == frozenset(grades)


REFUSED = [
    ("jsonl", {"question": "Red?", "documents": []}, "line 2: expected gold documents under 'documents'"),
    ("jsonl", {"question": "Red?", "documents": {"a.md": 1.5}}, "line 2: expected grades under 'documents'"),
    ("jsonl", {"question": "Red?", "documents": ["a.md", 3]}, "line 2: expected strings in the array 'documents'"),
    ("jsonl", {"question": " ", "documents": "a.md"}, "line 2: expected a question; found an empty one"),
    ("jsonl", {"id": "1", "question": "Red?", "documents": "a.md"}, "line 2: expected each id once"),
    ("answerable", "a.md,maybe", "expected yes or no under 'answerable'; found \"maybe\""),
    ("answerable", "a.md,no", "expected no gold documents under 'documents' where 'answerable' is no; found 'a.md'"),
    ("answerable", ",yes", "expected gold documents under 'documents', or answerable=no for a question"),
    ("answerable", ",no", "a question for which a document is graded above 0; found none (each is marked answer"),
    ("", "a.md|x.md", 'gold that names documents of the corpus; found "x.md"'),
    ("", "|", 'gold that names documents of the corpus; found "|"'),
    ("", "a.md|a.pdf;a.pdf", "each document in one group of alternatives (a.md|a.pdf); found 'a.pdf' a second time"),
    ("", "a.md|a.pdf;b|c.md|a.pdf", "each document in one group of alternatives (a.md|a.pdf); found 'a.pdf' a second"),
    ("", "a.md|a.pdf=2;a.md", "one grade a document; found two for 'a.md'"),
]


@pytest.mark.parametrize(("form", "row", "message"), REFUSED)
def test_questions_that_are_refused(form: str, row: Any, message: str, tmp_path: Path) -> None:
    corpus = write(tmp_path / "corpus.jsonl", BARRED)
    if form == "jsonl":
        first = {"id": "1", "question": "Blue?", "documents": "a.pdf"}
        questions = write(tmp_path / "questions.jsonl", [first, row])
    else:
        questions = csv(tmp_path, f"question,documents,{form}\nWhat?,{row}\n".replace(",\n", "\n", 1))
    with pytest.raises(DataError) as caught:
        read_dataset(corpus, questions=questions)
    assert message in str(caught.value)


def test_other_alternatives_are_other_gold(tmp_path: Path) -> None:
    corpus = write(tmp_path / "corpus.jsonl", BARRED)
    prints = {
        read_dataset(corpus, questions=csv(tmp_path, f"question,documents\nWhat?,{written}\n")).fingerprint
        for written in ("a.md", "a.md|a.pdf", "a.md|b|c.md", "a.md|a.pdf|b|c.md")
    }
    assert len(prints) == 4


SPELLED = ("caf\u00e9.md", "cafe\u0301.md")


@pytest.mark.parametrize(("corpus", "written"), [SPELLED, SPELLED[::-1]], ids=["decomposed gold", "decomposed ids"])
@pytest.mark.parametrize("form", ["csv", "grades", "titles", "jsonl", "object", "qrels", "judgements", "offsets"])
def test_gold_names_documents_in_either_form_of_unicode(corpus: str, written: str, form: str, tmp_path: Path) -> None:
    """As file names of macOS are decomposed, and question files are not; ids stay as the corpus has them."""
    rows = [{"_id": corpus, "title": "T", "text": "Coffee."}, {"_id": "tea", "title": corpus[:-3], "text": "Tea."}]
    write(tmp_path / "docs" / "corpus.jsonl", rows)
    expected, questions = {corpus: 1}, tmp_path / "questions.jsonl"
    if form in ("csv", "grades", "titles", "offsets"):
        name = {"csv": written, "grades": f"{written}=2", "titles": written[:-3], "offsets": written}[form]
        expected = {"grades": {corpus: 2}, "titles": {"tea": 1}}.get(form, expected)
        evidence = f"{written}:0-6" if form == "offsets" else ""
        questions = csv(tmp_path, f"question,documents,evidence\nWhat?,{name},{evidence}\n")
    elif form in ("jsonl", "object"):
        write(questions, [{"question": "What?", "documents": [written] if form == "jsonl" else {written: 1}}])
    elif form == "judgements":
        questions = tmp_path / "judged"
        add_judgement(questions, "What?", written, 1)
    else:
        write(tmp_path / "docs" / "queries.jsonl", [{"_id": "q", "text": "What?"}])
        (tmp_path / "docs" / "qrels").mkdir()
        (tmp_path / "docs" / "qrels" / "test.tsv").write_text(f"q\t{written}\t1\n", encoding="utf-8")
    dataset = read_dataset(tmp_path / "docs", questions=None if form == "qrels" else questions)
    assert dataset.gold is not None
    assert dataset.gold["q00001"].grades == expected
    assert [place.doc_id for place in dataset.gold["q00001"].evidence] == ([corpus] if form == "offsets" else [])


def test_an_exact_id_wins_over_another_form_of_it(tmp_path: Path) -> None:
    write(tmp_path / "corpus.jsonl", [{"_id": id, "text": f"Text {number}."} for number, id in enumerate(SPELLED)])
    questions = csv(tmp_path, "question,documents\n" + "".join(f"{id}?,{id}\n" for id in SPELLED))
    dataset = read_dataset(tmp_path / "corpus.jsonl", questions=questions)
    assert [set(gold.doc_ids) for gold in (dataset.gold or {}).values()] == [{SPELLED[0]}, {SPELLED[1]}]


def test_a_folder_of_judgements_is_questions_with_gold(tmp_path: Path) -> None:
    folder = own(tmp_path / "docs") / "judged"  # among the documents, and no document
    for question, document, grade in [
        ("First?", "a.md", 1),
        ("Nothing?", "a.md", 0),
        ("Second?", "deep/a.md", 2),
        ("First?", "a.md", 2),
        ("First?", "deep/b.txt", 1),
        ("First?", "deep/a.md", 0),
    ]:
        add_judgement(folder, question, document, grade)
    dataset = read_dataset(tmp_path / "docs", questions=folder)
    first, second = {"a.md": 2, "deep/b.txt": 1}, {"deep/a.md": 2}
    assert texts(dataset) == [("q00001", "First?"), ("q00002", "Second?")]
    assert dataset.gold == {
        "q00001": Gold(frozenset(first), source_id=question_id("First?"), grades=first),
        "q00002": Gold(frozenset(second), source_id=question_id("Second?"), grades=second),
    }
    assert dataset.notes == ("left out: 1 question for which no document is graded above 0",)
    assert [document.id for document in dataset.corpus.documents] == ["a.md", "deep/a.md", "deep/b.txt"]


def test_a_judged_document_that_is_not_in_the_corpus_is_named_or_left_out(tmp_path: Path) -> None:
    add_judgement(tmp_path / "judged", "First?", "gone.md", 2)
    add_judgement(tmp_path / "judged", "First?", "a.md", 1)
    with pytest.raises(DataError, match=r"qrels\.trec: expected documents of the corpus; found 'gone\.md', judged for"):
        read_dataset(own(tmp_path / "docs"), questions=tmp_path / "judged")
    dataset = read_dataset(tmp_path / "docs", questions=tmp_path / "judged", skip_bad=True)
    assert [judged.doc_ids for judged in (dataset.gold or {}).values()] == [{"a.md"}]
    assert "gone.md" in "".join(map(str, dataset.skipped))


def many(tmp_path: Path) -> Path:
    items = [{"id": f"i{n}", "question": f"{n}?", "paragraphs": [paragraph("T", str(n), True)]} for n in range(30)]
    return write(tmp_path / "dev.json", items)


@pytest.mark.parametrize("seed", [0, 1])
def test_a_limit_is_a_seeded_sample_in_the_order_of_the_file(tmp_path: Path, seed: int) -> None:
    everything = read_dataset(many(tmp_path))
    dataset = read_dataset(many(tmp_path), limit=5, seed=seed)
    assert len(dataset.queries) == 5
    assert dataset.queries == tuple(query for query in everything.queries if query in dataset.queries)
    assert dataset.gold is not None
    assert everything.gold is not None
    assert dataset.gold == {query.id: everything.gold[query.id] for query in dataset.queries}
    assert dataset.corpus == everything.corpus
    assert read_dataset(many(tmp_path), limit=30, seed=seed) == read_dataset(many(tmp_path), limit=1000) == everything


@settings(max_examples=examples(30))
@given(st.permutations(range(40)), st.lists(st.integers(1, 45), min_size=2, max_size=3), st.integers(0, 2**64))
def test_limits_are_nested_wherever_questions_stand(order: list[int], limits: list[int], seed: int) -> None:
    """A smaller limit draws some of the questions of a larger one, with whatever ids; two questions are equal."""
    queries = tuple(Query(f"q{at}", f"What is {min(number, 38)}?") for at, number in enumerate(order))
    least, *_, most = (datasets._sample_queries(queries, limit, seed) for limit in sorted(limits))
    assert len(most) == min(max(limits), 40)
    assert [query for query in queries if query in set(most)] == list(most)
    assert set(least) <= set(most)
    elsewhere = datasets._sample_queries(queries[::-1], len(least), seed)
    assert {query.text for query in elsewhere} == {query.text for query in least}


def kinds_of(dataset: Dataset) -> list[str]:
    assert dataset.gold is not None
    return [dataset.gold[query.id].kind for query in dataset.queries]


def test_so_many_questions_of_each_kind_are_drawn_by_the_seed(tmp_path: Path) -> None:
    rows = [f"What is {number}?,a.md,{'rare' if number % 5 == 0 else 'plain'}\n" for number in range(30)]
    questions = csv(tmp_path, "question,documents,kind\n" + "".join(rows))

    def draw(seed: int = 1, **options: Any) -> Dataset:
        return read_dataset(own(tmp_path / "docs"), questions=questions, seed=seed, **options)

    few = draw(kinds={"plain": 3, "rare": 1})
    assert sorted(kinds_of(few)) == ["plain"] * 3 + ["rare"]
    assert [query.id for query in few.queries] == sorted(query.id for query in few.queries)
    more = draw(kinds={"plain": 4, "rare": 1})
    assert {query.id for query in few.queries} < {query.id for query in more.queries}
    assert len(draw(kinds={"plain": 3, "rare": 1}, limit=2).queries) == 2
    assert draw(seed=2, kinds={"plain": 3, "rare": 1}).queries != few.queries
    with pytest.raises(UsageError, match="No question is of the kind 'none'. Kinds: "):
        draw(kinds={"none": 1})


def test_every_question_is_as_likely_and_each_seed_draws_anew() -> None:
    """Each of 50 is among 10 in 80 of 400 seeds: 8 is the standard deviation."""
    queries = tuple(Query(f"q{number}", f"What is {number}?") for number in range(50))
    drawn = Counter(query.id for seed in range(400) for query in datasets._sample_queries(queries, 10, seed))
    assert len(drawn) == 50
    assert 45 < min(drawn.values()) < max(drawn.values()) < 115


def test_the_fingerprint_is_of_contents_not_of_places(tmp_path: Path) -> None:
    docs, questions = own(tmp_path / "docs"), csv(tmp_path, "question,documents\nRed?,a.md\n")
    first = read_dataset(docs, questions=questions).fingerprint
    shutil.copytree(docs, tmp_path / "copy", copy_function=shutil.copyfile)
    os.utime(tmp_path / "copy" / "a.md", (0, 0))
    assert read_dataset(tmp_path / "copy", questions=questions).fingerprint == first
    assert len(first) == 16
    plain = tmp_path / "questions.txt"
    plain.write_text("Red?\n")
    others = {first, read_dataset(docs, questions=plain).fingerprint}
    for text in (
        "question,documents\nRed??,a.md\n",
        "question,documents\nRed?,b.txt\n",
        "question,documents,answer\nRed?,a.md,yes\n",
    ):
        others.add(read_dataset(docs, questions=csv(tmp_path, text)).fingerprint)
    (docs / "a.md").write_text("# Apples\nred!")
    others.add(read_dataset(docs, questions=csv(tmp_path, "question,documents\nRed?,a.md\n")).fingerprint)
    assert len(others) == 6


def test_the_fingerprint_does_not_depend_on_the_order_of_documents_but_on_metadata(tmp_path: Path) -> None:
    lines = [{"_id": "a", "text": "x", "year": 1}, {"_id": "b", "text": "y", "modified": "then"}]
    questions = csv(tmp_path, "question,documents\nRed?,a\n")

    def of(lines: list[dict[str, Any]]) -> str:
        return read_dataset(write(tmp_path / "c.jsonl", lines), questions=questions).fingerprint

    first = of(lines)
    assert of(lines[::-1]) == first
    assert len({first, of([{**lines[0], "year": 2}, lines[1]]), of([lines[0], {**lines[1], "modified": "now"}])}) == 3


def test_documents_and_questions_have_digests_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "hill.txt").write_text("Grey Anna is a hill.")
    (tmp_path / "asked.csv").write_text("question,answer,documents\nWhat is Grey Anna?,,hill.txt\n")

    def described() -> dict[str, str]:
        return describe_content(read_dataset(tmp_path / "notes", questions=tmp_path / "asked.csv"))

    first = described()
    assert first["questions_file"] == "asked.csv"
    (tmp_path / "notes" / "hill.txt").write_text("Grey Anna is a mountain.")
    second = described()
    assert second["corpus_digest"] != first["corpus_digest"]
    assert second["questions_digest"] == first["questions_digest"]
    (tmp_path / "asked.csv").write_text("question,answer,documents\nWhat is Grey Anna?,a hill,hill.txt\n")
    third = described()
    assert third["corpus_digest"] == second["corpus_digest"]
    assert third["questions_digest"] != second["questions_digest"]

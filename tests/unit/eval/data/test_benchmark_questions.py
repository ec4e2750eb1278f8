"""Data sets by their published files: corpus, questions and gold, from small made-up samples in the same formats."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ragindex.corpus import content_id, read
from ragindex.errors import DataError
from ragindex_eval.data.datasets import Dataset, read_dataset
from ragindex_eval.data.gold import Gold, SubQuestion


def write(path: Path, value: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = path.suffix == ".jsonl" or path.name.startswith("QuALITY.")
    path.write_text(
        "".join(json.dumps(record) + "\n" for record in value) if lines else json.dumps(value), encoding="utf-8"
    )
    return path


def questions_with_gold(dataset: Dataset) -> list[tuple[str, Gold]]:
    assert dataset.gold is not None
    return [(query.text, dataset.gold[query.id]) for query in dataset.queries]


def at(value: Any, *keys: Any, to: Any = ...) -> Any:
    """A deep copy with the value at `keys` replaced, or taken away."""
    copied = json.loads(json.dumps(value))
    place = copied
    for key in keys[:-1]:
        place = place[key]
    if to is ...:
        del place[keys[-1]]
    else:
        place[keys[-1]] = to
    return copied


# ---------------------------------------------------------------- IRCoT

SARN, ORLA, PIER = (
    ("Sarn", "The Sarn is a river."),
    ("Orla", "The Orla runs into the Sarn."),
    ("Pier", "The pier is old."),
)


def paragraph(pair: tuple[str, str], number: int) -> dict[str, Any]:
    return {"idx": number, "title": pair[0], "paragraph_text": pair[1]}


def context(pair: tuple[str, str], supporting: bool) -> dict[str, Any]:
    return {**paragraph(pair, 0), "is_supporting": supporting}


def answers(*spans: str) -> list[dict[str, Any]]:
    return [{"number": "", "date": {"day": "", "month": "", "year": ""}, "spans": list(spans)}]


IRCOT: list[dict[str, Any]] = [
    {
        "question_id": "2hop__7_8",
        "question_text": "Into which river does the Orla run?",
        "contexts": [context(SARN, True), context(ORLA, True), context(PIER, False)],
        "answers_objects": answers("the Sarn"),
        "reasoning_steps": ["Into what >>>> Sarn"],
    }
]


def musique_raw(folder: Path, left_out: str = "") -> None:
    """All six files; a paragraph with spaces around it, one that two files share, and one in a single file."""
    spaced = (f" {SARN[0]}", f"{SARN[1]} ")
    for kind in ("ans", "full"):
        for split, pairs in (("dev", [spaced, ORLA]), ("test", [ORLA]), ("train", [PIER])):
            name = f"musique_{kind}_v1.0_{split}.jsonl"
            if name != left_out:
                write(folder / name, [{"id": "x", "paragraphs": [paragraph(pair, n) for n, pair in enumerate(pairs)]}])


@pytest.mark.parametrize("layout", ["folder", "published"])
def test_ircot_searches_all_raw_paragraphs(tmp_path: Path, layout: str) -> None:
    folder = tmp_path / "processed_data" / "musique" if layout == "published" else tmp_path
    musique_raw(tmp_path / "raw_data" / "musique" if layout == "published" else tmp_path)
    file = write(folder / "dev_subsampled.jsonl", IRCOT)
    for path in (folder, file):
        dataset = read_dataset(path)
        assert dataset.corpus.format == "ircot"
        assert [(document.title, document.text) for document in dataset.corpus.documents] == [SARN, ORLA, PIER]
        assert dataset.corpus.repeats == 5  # 2 + 1 + 1 paragraphs, twice, of which three are different
        assert questions_with_gold(dataset) == [
            (
                "Into which river does the Orla run?",
                Gold(frozenset({content_id(*SARN), content_id(*ORLA)}), ("the Sarn",), "2hop", "2hop__7_8"),
            )
        ]


def test_ircot_of_2wikimultihopqa_joins_sentences_with_spaces(tmp_path: Path) -> None:
    for split in ("train", "dev", "test"):
        item = {"_id": split, "context": [["Ship", ["It sank.", "It was raised."]], [split, ["Only here."]]]}
        write(tmp_path / f"{split}.json", [item])
    ship = ("Ship", "It sank. It was raised.")
    asked_of = {**IRCOT[0], "question_id": "abc", "contexts": [context(ship, True)]}
    write(tmp_path / "dev_subsampled.jsonl", [{**asked_of, "question_text": "In dev?"}])
    write(tmp_path / "test_subsampled.jsonl", [asked_of])
    dataset = read_dataset(tmp_path)
    assert [document.title for document in dataset.corpus.documents] == ["Ship", "train", "dev", "test"]
    assert dataset.corpus.repeats == 2
    ((text, gold),) = questions_with_gold(dataset)  # test before dev
    assert text == "Into which river does the Orla run?"
    assert gold == Gold(frozenset({content_id(*ship)}), ("the Sarn",), "", "abc")


def test_ircot_without_all_raw_files_is_refused(tmp_path: Path) -> None:
    file = write(tmp_path / "test_subsampled.jsonl", IRCOT)
    with pytest.raises(DataError, match=r"expected the raw files musique_ans_v1\.0_dev\.jsonl, .*; found none of them"):
        read(file)
    musique_raw(tmp_path, left_out="musique_full_v1.0_test.jsonl")
    with pytest.raises(DataError, match=r"found no musique_full_v1\.0_test\.jsonl\.$"):
        read(tmp_path)


# ---------------------------------------------------------------- MultiHop-RAG


def article(title: str, body: str, url: str) -> dict[str, Any]:
    given = {"author": None, "source": "Gazette", "category": "ports", "published_at": "2023-11-02T08:00:00+00:00"}
    return {"title": title, "body": body, "url": url, **given}


ARTICLES = [
    article("Pier opens", "The pier opened on Monday. " * 60, "https://made.up/1"),
    article("Pier opens", "A second report on the pier.", "https://made.up/2"),
    article("Ferry stops", "The ferry stopped.", "https://made.up/3"),
]


def evidence(number: int, **other: Any) -> dict[str, Any]:
    source = ARTICLES[number]
    return {"title": source["title"], "url": source["url"], "source": source["source"], "fact": "A fact.", **other}


QUERIES: list[dict[str, Any]] = [
    {
        "query": "Which opened before the ferry stopped?",
        "answer": "The pier",
        "question_type": "temporal_query",
        "evidence_list": [evidence(0), evidence(1), evidence(0), evidence(2, url="https://made.up/moved")],
    },
    {
        "query": "Who owns the moon?",
        "answer": "Insufficient information.",
        "question_type": "null_query",
        "evidence_list": [],
    },
]


def multihop_rag(folder: Path, queries: Any = QUERIES, articles: Any = ARTICLES) -> Path:
    write(folder / "corpus.json", articles)
    write(folder / "MultiHopRAG.json", queries)
    return folder


@pytest.mark.parametrize("file", [False, True])
def test_gold_of_multihop_rag_is_the_articles_of_the_evidence(tmp_path: Path, file: bool) -> None:
    folder = multihop_rag(tmp_path)
    dataset = read_dataset(folder / "MultiHopRAG.json" if file else folder)
    assert (dataset.corpus.format, dataset.corpus.chunking) == ("multihop-rag", "default")
    first = dataset.corpus.documents[0]
    assert (first.title, first.text) == ("Pier opens", ARTICLES[0]["body"])
    assert dict(first.metadata) == {
        "source": "Gazette",
        "category": "ports",
        "published_at": "2023-11-02T08:00:00+00:00",
        "url": "https://made.up/1",
    }
    gold = frozenset(content_id(source["title"], source["body"]) for source in ARTICLES)
    assert questions_with_gold(dataset) == [(QUERIES[0]["query"], Gold(gold, ("The pier",), "temporal_query"))]
    assert dataset.notes == ("left out: 1 question for which no document is graded above 0",)


# ---------------------------------------------------------------- QuALITY

STORY = "Mara left the valley. She never came back to the mill."


def question(label: int | None = 2, difficult: int = 0, **other: Any) -> dict[str, Any]:
    given = {"gold_label": label, "writer_label": label} if label is not None else {}
    return {
        "question": "Why did Mara leave?",
        "question_unique_id": "1_A_1",
        "options": ["To sing", "To find work", "To sleep", "To swim"],
        "difficult": difficult,
        **given,
        **other,
    }


def line(*questions: dict[str, Any], id: str = "1", text: str = STORY) -> dict[str, Any]:
    about = {
        "author": "A. Nonymous",
        "source": "Made up",
        "topic": "Valleys",
        "year": "1950",
        "url": "u",
        "license": "l",
    }
    ids = {"article_id": id, "set_unique_id": f"{id}_A", "batch_num": "23", "writer_id": "7"}
    return {**ids, **about, "license": "l", "title": "Mara", "article": text, "questions": list(questions)}


QUALITY = [
    line(question(), question(4, 1, question="What of the mill?", question_unique_id="1_A_2")),
    line(question(1, question="Who left?"), text=STORY),
    line(question(question="Why here?"), id="2", text="Another story."),
]


@pytest.mark.parametrize("name", ["QuALITY.v1.0.1.htmlstripped.dev", "quality.jsonl"])
def test_quality_is_multiple_choice(tmp_path: Path, name: str) -> None:
    dataset = read_dataset(write(tmp_path / name, QUALITY))
    assert (dataset.corpus.format, dataset.corpus.chunking) == ("quality", "default")
    assert [(document.id, document.title, document.text) for document in dataset.corpus.documents] == [
        ("1", "Mara", STORY),
        ("2", "Mara", "Another story."),
    ]
    assert dict(dataset.corpus.documents[0].metadata) == {
        "author": "A. Nonymous",
        "source": "Made up",
        "topic": "Valleys",
        "year": "1950",
        "url": "u",
    }
    options = ("To sing", "To find work", "To sleep", "To swim")
    assert questions_with_gold(dataset) == [
        ("Why did Mara leave?", Gold(frozenset({"1"}), ("To find work",), "easy", "1_A_1", options=options)),
        ("What of the mill?", Gold(frozenset({"1"}), ("To swim",), "hard", "1_A_2", options=options)),
        ("Who left?", Gold(frozenset({"1"}), ("To sing",), "easy", "1_A_1", options=options)),
        ("Why here?", Gold(frozenset({"2"}), ("To find work",), "easy", "1_A_1", options=options)),
    ]


def test_the_test_file_of_quality_has_no_labels(tmp_path: Path) -> None:
    dataset = read_dataset(write(tmp_path / "QuALITY.v1.0.1.htmlstripped.test", [line(question(None))]))
    assert questions_with_gold(dataset)[0][1].answers == ()


def test_options_are_part_of_the_fingerprint(tmp_path: Path) -> None:
    marks = {
        read_dataset(write(tmp_path / "a.jsonl", [line(question(options=["No", *others]))])).fingerprint
        for others in (["To find work"], ["To find work", "Yes"])
    }
    assert len(marks) == 2


# ---------------------------------------------------------------- ASQA

FIRST = {
    "ambiguous_question": "When did the pier open?",
    "qa_pairs": [
        {"question": "When did the first pier open?", "short_answers": ["1871", "in 1871"], "wikipage": None}
        | {"context": "No context provided"},
        {"question": "When did the new pier open?", "short_answers": ["May 1990"], "wikipage": "Pier"}
        | {"context": "The new pier opened in May 1990."},
    ],
    "wikipages": [{"title": "Pier", "url": "https://made.up/pier"}],
    "annotations": [
        {
            "long_answer": "The first pier opened in 1871, the new one in May 1990.",
            "knowledge": [{"content": "The first pier dates from 1871.", "wikipage": "Old pier"}],
        },
        {"long_answer": "In 1871 and 1990.", "knowledge": []},
    ],
}
SECOND = at(FIRST, "ambiguous_question", to="Who drew the map?")
ASQA = {"train": {"-5": SECOND}, "dev": {"-7": FIRST}}
NEW, OLD = ("Pier", "The new pier opened in May 1990."), ("Old pier", "The first pier dates from 1871.")
PARTS = (
    SubQuestion("When did the first pier open?", ("1871", "in 1871")),
    SubQuestion("When did the new pier open?", ("May 1990",)),
)
LONG = ("The first pier opened in 1871, the new one in May 1990.", "In 1871 and 1990.")


def test_asqa_has_groups_of_answers_and_passages_of_its_annotators(tmp_path: Path) -> None:
    dataset = read_dataset(write(tmp_path / "ASQA.json", ASQA))
    assert dataset.corpus.format == "asqa"
    assert [(document.title, document.text) for document in dataset.corpus.documents] == [NEW, OLD]
    gold = Gold(frozenset({content_id(*NEW), content_id(*OLD)}), LONG, "", "-7", sub_questions=PARTS)
    assert questions_with_gold(dataset) == [("When did the pier open?", gold)]
    only_train = read_dataset(write(tmp_path / "train.json", {"train": ASQA["train"]}))
    assert questions_with_gold(only_train)[0][0] == "Who drew the map?"


def test_asqa_of_a_corpus_of_ones_own_has_no_gold_documents(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "pier.txt").write_text("The pier opened.")
    dataset = read_dataset(tmp_path / "docs", questions=write(tmp_path / "ASQA.json", ASQA))
    assert questions_with_gold(dataset) == [
        ("When did the pier open?", Gold(frozenset(), LONG, "", "-7", sub_questions=PARTS))
    ]
    other = write(tmp_path / "other.json", [1])
    with pytest.raises(DataError, match=r"\(one a line\), ASQA\.json, or a folder of judgements; found other"):
        read_dataset(tmp_path / "docs", questions=other)


# ---------------------------------------------------------------- single hops of MuSiQue


def step(id: int, question: str, answer: str, number: int | None) -> dict[str, Any]:
    return {"id": id, "question": question, "answer": answer, "paragraph_support_idx": number}


HOPS: list[dict[str, Any]] = [
    {
        "id": "2hop__11_12",
        "question": "Who surveyed the river that the Orla runs into?",
        "answer": "Ulla Brandt",
        "answer_aliases": ["Brandt"],
        "paragraphs": [paragraph(PIER, 0), paragraph(ORLA, 1), paragraph(SARN, 2)],
        "question_decomposition": [
            step(11, "Orla >> mouth", "Sarn", 1),
            step(12, "Who surveyed #1?", "Ulla Brandt", 2),
        ],
    },
    {
        "id": "2hop__11_13",
        "question": "Is the river that the Orla runs into long?",
        "answer": "yes",
        "paragraphs": [paragraph(SARN, 0), paragraph(ORLA, 1)],
        "question_decomposition": [step(11, "Orla >> mouth", "Sarn", 1), step(13, "Is #1 long?", "yes", None)],
    },
]


def test_single_hops_of_musique_are_asked_once_each(tmp_path: Path) -> None:
    file = write(tmp_path / "musique_ans_v1.0_dev.jsonl", HOPS)
    plain = read_dataset(file, format="musique-single-hop")
    assert [(document.title, document.text) for document in plain.corpus.documents] == [PIER, ORLA, SARN]
    mouth = ("Orla >> mouth", Gold(frozenset({content_id(*ORLA)}), ("Sarn",), "", "11"))
    assert questions_with_gold(plain) == [mouth]
    filled = read_dataset(file, format="musique-single-hop-filled")
    surveyed = Gold(frozenset({content_id(*SARN)}), ("Ulla Brandt", "Brandt"), "filled", "12")
    assert questions_with_gold(filled) == [mouth, ("Who surveyed Sarn?", surveyed)]
    assert filled.notes == ("left out: 1 question for which no document is graded above 0",)
    assert read(file).format == "musique"


def test_single_hops_beside_a_corpus(tmp_path: Path) -> None:
    write(tmp_path / "corpus.json", [{"title": title, "text": text} for title, text in (ORLA, SARN)])
    write(tmp_path / "questions.json", HOPS)
    dataset = read_dataset(tmp_path, format="musique-single-hop")
    assert len(dataset.corpus.documents) == 2
    assert [text for text, _ in questions_with_gold(dataset)] == ["Orla >> mouth"]


# ---------------------------------------------------------------- bad input

STORY_LINE, HOP, CONTEXTS = line(question()), HOPS[0], IRCOT[0]
BAD: list[tuple[str, Any, str]] = [
    ("ircot", at(CONTEXTS, "question_id"), "a string under 'question_id'"),
    ("ircot", at(CONTEXTS, "contexts", to={}), "an array under 'contexts'; found {}"),
    ("ircot", at(CONTEXTS, "contexts", 0, "is_supporting", to=1), "true or false under 'is_supporting'; found 1"),
    ("ircot", at(CONTEXTS, "contexts", 0, "paragraph_text", to="Else."), "which is not in it (its text is another)"),
    ("ircot", at(CONTEXTS, "answers_objects", 0, "spans", to=[3]), "a string in 'spans'; found 3"),
    ("multihop-rag", at(QUERIES[0], "query", to=" "), "expected a question; found an empty one"),
    ("multihop-rag", at(QUERIES[0], "evidence_list", to="no"), "an array under 'evidence_list'; found \"no\""),
    ("multihop-rag", at(QUERIES[0], "evidence_list", 0, to=evidence(0, url="?")), "'Pier opens' stands for 2"),
    ("multihop-rag", at(QUERIES[0], "answer", to=7), "an array of strings under 'answer'; found 7"),
    ("quality", at(STORY_LINE, "article"), "a string under 'article'"),
    ("quality", at(STORY_LINE, "article", to="<p>Mara</p>"), "an article without HTML"),
    ("quality", at(STORY_LINE, "questions", 0, "gold_label", to=5), "a number from 1 to 4 under 'gold_label'; found 5"),
    ("quality", at(STORY_LINE, "questions", 0, "gold_label", to=True), "under 'gold_label'; found true"),
    ("quality", at(STORY_LINE, "questions", 0, "options", to=["one"]), "2 to 26 options; found 1"),
    ("quality", at(STORY_LINE, "questions", 0, "options", 1, to=None), "strings under 'options'; found null"),
    ("quality", line(question(), text="Other."), "one text for each article_id; found another text for '1'"),
    ("asqa", at(FIRST, "qa_pairs", 1, "short_answers", to=[" "]), "an answer under 'short_answers'"),
    ("asqa", at(FIRST, "qa_pairs", to=[]), "at least one pair in 'qa_pairs'; found none"),
    ("asqa", at(FIRST, "annotations", to=[]), "at least one long answer in 'annotations'; found none"),
    ("asqa", at(FIRST, "annotations", 0, "knowledge", to=[1]), "a piece of 'knowledge' to be an object; found 1"),
    ("asqa", "text", 'an instance to be an object; found "text"'),
    ("single", at(HOP, "question_decomposition", 0, "paragraph_support_idx", to=9), "'paragraph_support_idx'; found 9"),
    ("single", at(HOP, "question_decomposition", 1, "question", to="Who is #4?"), "earlier steps; found #4"),
    ("single", at(HOP, "question_decomposition"), "an array under 'question_decomposition'"),
    ("single", at(HOP, "question_decomposition", 0, "answer", to=["a"]), "a string under 'answer'; found [\"a\"]"),
]


def written(folder: Path, kind: str, bad: Any) -> tuple[Path, str | None, str]:
    """A data set whose second item is bad: its path, its format, and where its errors say they are."""
    if kind == "ircot":
        musique_raw(folder)
        return write(folder / "dev_subsampled.jsonl", [*IRCOT, bad]), None, "line 2"
    if kind == "multihop-rag":
        return multihop_rag(folder, [QUERIES[0], bad]), None, " in item 2"
    if kind == "quality":
        good = line(question(question="Good?"))
        return write(folder / "QuALITY.dev", [good, bad]), None, "line 2"
    if kind == "asqa":
        return write(folder / "ASQA.json", {"dev": {"-7": FIRST, "-8": bad}}), None, " in item 2"
    return write(folder / "dev.jsonl", [HOPS[1], bad]), "musique-single-hop-filled", "line 2"


@pytest.mark.parametrize(("kind", "bad", "message"), BAD)
def test_bad_items_are_named_and_can_be_skipped(tmp_path: Path, kind: str, bad: Any, message: str) -> None:
    path, format, place = written(tmp_path, kind, bad)
    with pytest.raises(DataError) as caught:
        read_dataset(path, format=format)
    assert message in str(caught.value)
    assert place in str(caught.value)
    assert len(str(caught.value)) < 1_000
    dataset = read_dataset(path, format=format, skip_bad=True)
    assert any(message in str(item) for item in dataset.skipped)
    assert len(dataset.queries) == 1  # the good item's


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("ASQA.json", '{"dev": [{"ambiguous_question": "?"}]}', "splits as objects of instances by id"),
        ("ASQA.json", '{"dev": {"1": {"ambiguous_question": "?"', "expected JSON"),
        ("QuALITY.dev", '{"article_id": "1"', "expected JSON"),
        ("MultiHopRAG.json", '[{"query": "Q?", "evidence_list": []}]', "a file that can be read"),
    ],
)
def test_broken_files(tmp_path: Path, name: str, text: str, message: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(DataError, match=message):
        read(tmp_path / name)


def test_huge_texts_are_read_and_never_repeated_in_errors(tmp_path: Path) -> None:
    huge = "Mara left. " * 200_000
    bad = line(question(options=[huge, "b"], gold_label=3), text=huge)
    with pytest.raises(DataError) as caught:
        read_dataset(write(tmp_path / "QuALITY.dev", [bad]))
    assert len(str(caught.value)) < 1_000
    good: Mapping[str, Any] = line(question(options=[huge, "b"], gold_label=1), text=huge)
    dataset = read_dataset(write(tmp_path / "QuALITY.train", [good]))
    assert questions_with_gold(dataset)[0][1].answers == (huge,)

"""Judging: the pool, a session, a model as judge, the estimates, and the command."""

import io
import json
import shlex
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from command_line import Done, failed, make_desk, ragindex
from made_language import answering
from rich.console import Console

from ragindex.corpus.judgements import question_id, read_judgements
from ragindex.errors import DataError, UsageError
from ragindex.llm.tasks import render_messages
from ragindex.types import Document, Position
from ragindex_eval.judge.estimate import PoolEstimates, estimate_methods
from ragindex_eval.judge.model_judge import JUDGE, judge_by_rule, read_relevance
from ragindex_eval.judge.pool import Pool, PooledDocument, PooledQuestion, PoolSource, load_pool, make_pool, save_pool
from ragindex_eval.judge.session import Grades, JudgingSession, read_pair_grades
from ragindex_eval.judge.show import describe_worth, render_judged
from ragindex_eval.judge.terminal import judge_in_terminal
from ragindex_eval.results.model import SavedHit

SOURCE = PoolSource(("a", "b"), "lsa", 2, (2, 3), 0, "d", "q")
COMMAND = ("judge", "notes", "questions.txt", "--methods", "bm25,dense", "--index", "w", "--depth", "2")


@pytest.fixture(autouse=True)
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return make_desk(tmp_path, monkeypatch)


def hit(doc_id: str, *span: int) -> SavedHit:
    positions = (Position(doc_id, *span),) if span else ()
    return SavedHit(f"{doc_id}-{span}", (doc_id,), 1.0, positions=positions)


def made_pool(questions: int = 3) -> Pool:
    """Method a finds x and y first, b finds y and z; the third of a is w, that of b is x."""
    documents = tuple(PooledDocument(id, id.upper(), (f"text of {id}",)) for id in "xyz")
    hits = {"a": (("x",), ("y",), ("w",)), "b": (("y",), ("z",), ("x",))}
    texts = [f"question {number}?" for number in range(questions)]
    return Pool(SOURCE, tuple(PooledQuestion(question_id(text), text, documents, hits) for text in texts))


def grades(pool: Pool, *by_question: str) -> Grades:
    """Grades of x, y and z, written as digits, for the first questions."""
    return {
        (question.id, id): int(grade)
        for question, written in zip(pool.questions, by_question, strict=False)
        for id, grade in zip("xyz", written, strict=False)
    }


# ---------------------------------------------------------------- the pool


def test_a_pool_is_the_first_documents_of_all_methods_with_their_passages() -> None:
    text = "First sentence. Second sentence."
    documents = [Document(id, id.upper(), f"{text} {id}") for id in "wxyz"]
    rankings = {
        "a": [[hit("x", 0, 15), hit("y", 0, 15), hit("w", 0, 15)]],
        "b": [[hit("x", 16, 32), hit("z"), hit("y", 0, 15)]],
    }
    pool = make_pool(SOURCE, ["one?"], documents, rankings)
    (question,) = pool.questions
    passages = {document.id: document.passages for document in question.documents}
    assert passages == {"x": (text[:15], text[16:32]), "y": (text[:15],), "z": (f"{text} z",)}
    assert {label: question.first_documents(label, 3) for label in "ab"} == {"a": ["x", "y", "w"], "b": ["x", "z", "y"]}


def test_a_pool_counts_hits_as_a_comparison_does() -> None:
    documents = [Document(id, id.upper(), f"text of {id}") for id in "wxyz"]
    rankings = {"a": [[hit("x", 0, 4), hit("x", 5, 7), hit("y"), hit("z")]]}
    (question,) = make_pool(SOURCE, ["one?"], documents, rankings).questions  # to a depth of two
    assert [document.id for document in question.documents] == ["x"]
    assert [question.first_documents("a", k) for k in (1, 2, 3)] == [["x"], ["x"], ["x", "y"]]
    summary = replace(hit("w"), doc_ids=("w", "z", "y"))  # takes as many places as it names documents
    (question,) = make_pool(SOURCE, ["one?"], documents, {"a": [[summary]]}).questions
    assert question.first_documents("a", 2) == ["w", "z"]
    assert {document.id for document in question.documents} == {"w", "z"}


def test_documents_of_equal_text_are_pooled_once_with_the_best_ranked_passages() -> None:
    text = "One. Two. Three. Four. Five."
    documents = [Document("x", "T", text), Document("y", "T", f"{text} "), Document("z", "", "a" * 5_000)]
    rankings = {"a": [[hit("y", 23, 28), hit("x", 5, 9), hit("x", 10, 16), hit("x", 0, 4), hit("z")]], "b": [[]]}
    pool = make_pool(replace(SOURCE, depth=5), ["one?"], documents, rankings)
    (question,) = pool.questions
    assert {document.id: document.passages for document in question.documents} == {
        "x": ("Two.", "Three.", "Five."),
        "z": (f"{'a' * 3_000} […]",),
    }
    assert {label: question.first_documents(label, 5) for label in "ab"} == {"a": ["x", "z"], "b": []}


def test_the_seed_alone_draws_the_order_whichever_method_found_what() -> None:
    documents = [Document(str(number), "T", f"text {number}") for number in range(8)]
    hits = [hit(str(number), 0, 4) for number in range(8)]
    deep, texts = replace(SOURCE, depth=8), [f"{number}?" for number in range(8)]

    def order(source: PoolSource, a: list[SavedHit], b: list[SavedHit]) -> list[list[str]]:
        pool = make_pool(source, texts, documents, {"a": [a] * 8, "b": [b] * 8})
        return [[question.text, *(document.id for document in question.documents)] for question in pool.questions]

    first = order(deep, hits, hits[::-1])
    assert first == order(deep, hits[::-1], hits)
    assert sorted(ordered[0] for ordered in first) == texts
    assert len({tuple(ordered[1:]) for ordered in first}) > 1, "each question has its own order"
    assert [ordered[0] for ordered in order(replace(deep, seed=1), hits, hits)] != [ordered[0] for ordered in first]


def test_a_pool_is_read_as_it_was_written(tmp_path: Path) -> None:
    save_pool(made_pool(), tmp_path / "out")
    assert load_pool(tmp_path / "out") == made_pool()
    assert load_pool(tmp_path) is None
    (tmp_path / "out" / "pool.json").write_text("{}")
    with pytest.raises(DataError, match="a pool that `ragindex judge` wrote"):
        load_pool(tmp_path / "out")


# ---------------------------------------------------------------- a session


def test_a_session_saves_each_answer_at_once_and_goes_on_where_it_stopped(tmp_path: Path) -> None:
    pool, keys = made_pool(2), iter("xyUnpQ")
    console = Console(record=True, width=80, file=io.StringIO())
    judge_in_terminal(JudgingSession(pool, tmp_path, 2), console, lambda: next(keys))
    first = pool.questions[0]
    assert read_judgements(tmp_path)[first.id].grades == {"x": 0, "y": 1}, "yes to x was undone, and is no"
    assert (tmp_path / "qrels.trec").read_text().splitlines() == [
        f"{first.id} 0 x 2",
        f"{first.id} 0 x 0",
        f"{first.id} 0 y 1",
    ]
    screen = console.export_text()
    assert "question 1 of 2, document 2 of 3; 1 of 6 judged" in screen
    assert "question 0?" in screen
    assert "text of x" in screen
    assert "(now: yes)" in screen
    again = JudgingSession(pool, tmp_path, 2)
    item = again.current()
    assert item is not None
    assert (item.question.id, item.document.id, again.judged) == (first.id, "z", 2)


def test_of_a_long_passage_the_part_that_matches_is_shown_until_m_is_pressed(tmp_path: Path) -> None:
    filler = "It rained all day long and nobody came. " * 30
    document = PooledDocument("x", "X", (f"{filler}The mill was built by Ada. {filler}", "A short passage."))
    pool = Pool(SOURCE, (PooledQuestion("q", "Who built the mill?", (document,), {"a": ("x",), "b": ()}),))
    console, keys = Console(record=True, width=80, file=io.StringIO()), iter("Mq")
    judge_in_terminal(JudgingSession(pool, tmp_path, 1), console, lambda: next(keys))
    screens = " ".join(console.export_text().replace("│", " ").split()).split("q stop m more")
    part, complete = screens
    assert all("The mill was built by Ada." in screen and "A short passage." in screen for screen in screens)
    assert (part.count("nobody came"), complete.count("nobody came")) == (16, 60)


@pytest.mark.parametrize("stop", [KeyboardInterrupt, EOFError])
def test_ctrl_c_and_ctrl_d_stop_a_session(tmp_path: Path, stop: type[BaseException]) -> None:
    keys = iter("y")

    def read_key() -> str:
        for key in keys:
            return key
        raise stop

    session = JudgingSession(made_pool(2), tmp_path, 2)
    judge_in_terminal(session, Console(file=io.StringIO()), read_key)
    assert (session.judged, len(read_pair_grades(tmp_path))) == (1, 1)


def test_a_session_of_some_questions_ends_with_them(tmp_path: Path) -> None:
    session = JudgingSession(made_pool(3), tmp_path, 1)
    for _ in range(3):
        session.answer(2)
    assert (session.current(), session.judged, session.total) == (None, 3, 3)
    with pytest.raises(UsageError, match="All documents are judged"):
        session.answer(1)
    session.undo()
    item = session.current()
    assert item is not None
    assert (item.document.id, item.grade) == ("z", 2)


def test_texts_cannot_move_the_cursor_or_hold_markup(tmp_path: Path) -> None:
    document = PooledDocument("x", "[red]T\x1b[2J", ("[bold]text\x1b[31m",))
    pool = Pool(SOURCE, (PooledQuestion("q", "why\x1b[1A [blink]?", (document,), {"a": ("x",), "b": ()}),))
    console = Console(record=True, width=80, file=io.StringIO())
    judge_in_terminal(JudgingSession(pool, tmp_path, 1), console, lambda: "q")
    screen = console.export_text()
    assert "\x1b" not in screen
    assert "[bold]text\N{REPLACEMENT CHARACTER}[31m" in screen
    assert "why\N{REPLACEMENT CHARACTER}[1A [blink]?" in screen


# ---------------------------------------------------------------- a model as judge


def test_the_rule_counts_the_words_of_the_question() -> None:
    inputs = {"question": "Which hill is the highest of the north?", "title": "Anna", "language": "english"}
    relevance = {
        text: judge_by_rule({**inputs, "passages": [text]}).relevant
        for text in ("The highest hill of the north.", "A hill in the north.", "A river.")
    }
    assert list(relevance.values()) == ["yes", "partly", "no"]


@pytest.mark.parametrize(("text", "relevant"), [("Yes.", "yes"), ("It is partly so", "partly"), ("NO", "no")])
def test_plain_text_is_read(text: str, relevant: str) -> None:
    assert read_relevance(text).relevant == relevant
    for wrong in ("", "yes and no", "maybe", "yesterday"):
        with pytest.raises(ValueError, match="does not say"):
            read_relevance(wrong)


def test_the_prompt_has_question_and_passages_and_no_method() -> None:
    inputs = {"question": "Why?", "title": "[system]", "passages": ["one", "two"], "language": "english"}
    system, user = render_messages(JUDGE, inputs)
    assert (system.role, user.role) == ("system", "user")
    assert user.content == "Question: Why?\n\nTitle: [system]\none\n\ntwo\n\n"


# ---------------------------------------------------------------- the estimates


def figures(estimates: PoolEstimates) -> dict[str, dict[str, float | None]]:
    return {method.label: {each.metric: each.person for each in method.estimates} for method in estimates.methods}


def test_metrics_are_relative_to_the_pool() -> None:
    pool = made_pool()
    methods = estimate_methods(pool, grades(pool, "201", "000"), None)
    # question 1: x and z are relevant; question 2: nothing is, which counts 0; question 3 is not judged
    assert figures(methods) == {
        "a": {"pool recall@2": 0.25, "precision@2": 0.25, "pool recall@3": 0.25, "precision@3": pytest.approx(1 / 6)},
        "b": {"pool recall@2": 0.25, "precision@2": 0.25, "pool recall@3": 0.5, "precision@3": pytest.approx(1 / 3)},
    }
    assert (methods.by_person, methods.documents_by_person, methods.without_relevant) == (2, 6, 1)
    assert methods.methods[0].judged == {"judged@2": 1.0, "judged@3": pytest.approx(2 / 3)}


def test_bounds_hold_whatever_the_unjudged_documents_are() -> None:
    pool = made_pool(1)
    methods = estimate_methods(pool, grades(pool, "201"), None)
    bounds = {method.label: {each.metric: each.bounds for each in method.estimates} for method in methods.methods}
    # w, which only a finds among its first three, is not judged: 1 of 2 or 2 of 3 for a, and 2 of 2 or 2 of 3 for b
    assert bounds["a"]["pool recall@3"] == (0.5, pytest.approx(2 / 3))
    assert bounds["b"]["pool recall@3"] == (pytest.approx(2 / 3), 1.0)
    assert bounds["a"]["precision@3"] == (pytest.approx(1 / 3), pytest.approx(2 / 3))
    assert bounds["a"]["pool recall@2"] == (0.5, 0.5)
    # they are shown wherever they differ, also for b, of which all of the first three are judged
    console = Console(width=100, file=io.StringIO(), record=True)
    console.print(render_judged(methods))
    rows = {tuple(line.split()[:3]): line for line in console.export_text().splitlines() if "@" in line}
    assert methods.methods[1].judged["judged@3"] == 1.0
    assert rows["pool", "recall@3", "b"].rstrip().endswith("100.0   66.7 to 100.0")
    assert rows["pool", "recall@2", "a"].rstrip().endswith(" 100.0")


def test_only_the_first_questions_count_and_agreement_is_that_of_relevance() -> None:
    """The first questions are a random sample; where a person skipped a document, the question does not count."""
    pool = made_pool(3)
    few = estimate_methods(pool, grades(pool, "200", "20", "222"), None)
    assert (few.by_person, few.documents_by_person) == (1, 3)
    methods = estimate_methods(pool, grades(pool, "210", "002"), grades(pool, "200", "022"), "m")
    agreement = methods.agreement
    assert agreement is not None
    assert (agreement.documents, agreement.share) == (6, pytest.approx(4 / 6))
    assert agreement.kappa == pytest.approx((4 / 6 - 0.5) / 0.5)
    assert (agreement.missed, agreement.accepted) == (pytest.approx(1 / 3), pytest.approx(1 / 3))


def test_a_model_that_agrees_is_worth_questions_and_the_text_says_how_many() -> None:
    pool = made_pool(40)
    written = [("200", "020", "022", "002")[number % 4] for number in range(40)]
    methods = estimate_methods(pool, grades(pool, *written[:20]), grades(pool, *written), "m")
    powered = methods.methods[0].estimates[0].powered
    assert powered is not None
    assert powered.estimate == pytest.approx(0.625, abs=0.01)
    assert powered.effective_questions == pytest.approx(40, rel=0.1)
    assert describe_worth(methods).startswith("For pool recall@2, the judgements of m are worth about ")
    alone = estimate_methods(pool, grades(pool, *written[:20]), None)
    assert describe_worth(alone) == ""


def test_without_a_person_the_models_figures_are_said_to_be_uncorrected() -> None:
    pool = made_pool(2)
    console = Console(record=True, width=120, file=io.StringIO())
    console.print(render_judged(estimate_methods(pool, {}, grades(pool, "200", "200"), "m")))
    text = console.export_text()
    assert "The figures are those of m alone, which nothing corrects." in text
    assert "Judged by you: 0 of 2 questions (0 of 6 pooled documents; 2 methods to a depth of 2, seed 0)." in text


# ---------------------------------------------------------------- the command


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Done]:
    """The folder of a first run of the command, and what it said; its pool is in `pooled`."""
    with pytest.MonkeyPatch.context() as patch:
        folder = make_desk(tmp_path_factory.mktemp("first"), patch)
        done = ragindex(*COMMAND)
    (folder / "judged").rename(folder / "pooled")
    return folder, done


@pytest.fixture
def built(first: tuple[Path, Done], monkeypatch: pytest.MonkeyPatch) -> None:
    """Work where the pool's methods are built, without a pool."""
    monkeypatch.chdir(first[0])
    shutil.rmtree("judged", ignore_errors=True)


@pytest.fixture
def pooled(first: tuple[Path, Done], built: None) -> Done:
    """What the first run said; its pool is there."""
    shutil.copytree("pooled", "judged")
    return first[1]


def test_the_command_pools_and_resumes(pooled: Done) -> None:
    assert pooled.code == 0, pooled.err
    assert "documents are left to judge: run this command in a terminal, or with --page." in pooled.err
    pool = load_pool(Path("judged"))
    assert pool is not None
    assert pool.source.methods == ("bm25", "dense")
    assert {question.text for question in pool.questions} == {"Which hill is highest?", "What is slate?"}
    session = JudgingSession(pool, Path("judged"), 2)
    while (item := session.current()) is not None:
        session.answer(2 if item.document.id == "hill.md" else 0)
    shown = ragindex(*COMMAND)
    (line,) = [text for text in shown.out.splitlines() if "compare by them" in text]
    assert shlex.split(line.split("compare by them")[1])[-2:] == ["--methods", "bm25,dense"]
    done = ragindex(*COMMAND, "--json", "-")
    assert (done.json["by_person"], done.json["out"]) == (2, "judged")
    assert load_pool(Path("judged")) == pool


def test_a_model_judges_first_and_another_is_refused(built: None) -> None:
    done = ragindex(*COMMAND, "--llm", "offline", "--json", "-")
    assert done.json["model"] == "offline"
    assert json.loads(Path("judged/model/model.json").read_text()) == {"model": "offline", "whole": True}
    Path("judged/model/model.json").write_text('{"model": "offline", "whole": false}')  # as a run that was stopped
    stopped = ragindex(*COMMAND, "--json", "-")
    assert stopped.json["model"] is None
    assert "offline has not judged the whole pool: its judgements are left out. Give --llm offline" in stopped.err
    judged = read_pair_grades(Path("judged/model"))
    assert len(judged) == done.json["documents"]
    Path("judged/model/model.json").write_text('{"model": "openai:other", "whole": true}')
    message = failed(2, *COMMAND, "--llm", "offline")
    assert message.startswith("The pool was judged by openai:other, and --llm is offline.")


def test_a_model_is_asked_once_about_each_document(built: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def write(body: Mapping[str, Any]) -> str:
        """Yes to the hill; an answer that cannot be used for slate."""
        messages = str(body["messages"])  # with the answer before, where it could not be used
        if "Title: quill" in messages:
            return "nothing"
        return json.dumps({"relevant": "yes" if "Title: Grey Anna" in messages else "no"})

    with answering(monkeypatch, write) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        done = ragindex(*COMMAND, "--llm", "openai:small")
        assert done.code == 0, done.err
        pool, judged = load_pool(Path("judged")), read_pair_grades(Path("judged/model"))
        assert pool is not None
        pairs = {(question.id, document.id) for question in pool.questions for document in question.documents}
        failed_pairs = {pair for pair in pairs if pair[1] == "quill.txt"}
        assert judged == {pair: 2 if pair[1] == "hill.md" else 0 for pair in pairs - failed_pairs}
        assert f"gave no usable answer for {len(failed_pairs)} of {len(pairs)} documents" in done.err
        sent, lines = len(server.requests), Path("judged/model/qrels.trec").read_text()
        assert ragindex(*COMMAND, "--llm", "openai:small").code == 0
        assert Path("judged/model/qrels.trec").read_text() == lines, "only what is new is written"
        again = [request for request in server.requests[sent:] if "Grey Anna" in str(request.body)]
        assert again == [], "what was answered is not paid for again"


def test_a_pool_that_was_made_otherwise_is_refused() -> None:
    assert ragindex(*COMMAND).code == 0
    message = failed(2, *COMMAND[:-1], "3")
    assert message == (
        "The pool in judged was made otherwise: depth was 2, and is 3. Give what it was made from, or another --out."
    )
    texts = {name: Path("notes", name).read_text() for name in ("hill.md", "rivers/sarn.md")}
    Path("notes/hill.md").write_text("# Grey Anna\n\nChanged.")
    changed = ragindex(*COMMAND)
    assert changed.code == 2
    assert "warning: the documents of w were others until now: 1 document changed (hill.md)" in changed.err
    assert "documents have changed" in changed.err.splitlines()[-1]
    for name, other in (("hill.md", "rivers/sarn.md"), ("rivers/sarn.md", "hill.md")):  # judgements would change places
        Path("notes", name).write_text(texts[other])
    assert "documents have changed" in ragindex(*COMMAND).err.splitlines()[-1]


@pytest.mark.parametrize("updated", [True, False])
def test_session_goes_on_after_a_rename(updated: bool) -> None:
    assert ragindex(*COMMAND).code == 0
    pool = load_pool(Path("judged"))
    assert pool is not None
    session = JudgingSession(pool, Path("judged"), 2)
    session.answer(2)
    Path("notes/hill.md").rename(Path("notes/summit.md"))
    if updated:
        assert ragindex("update", "--index", "w").code == 0
    done = ragindex(*COMMAND, "--json", "-")
    assert done.code == 0, done.err
    assert "1 document of the pool, renamed since, can be judged further: hill.md → summit.md" in done.err
    assert load_pool(Path("judged")) == pool
    again = JudgingSession(pool, Path("judged"), 2)
    assert again.judged == 1
    while (item := again.current()) is not None:
        again.answer(2 if item.document.id == "hill.md" else 0)
    compared = ragindex("compare", "notes", "--questions", "judged", "--methods", "bm25", "--index", "w", "--json", "-")
    assert compared.code == 0, compared.err
    assert "questions name 1 renamed document: hill.md → summit.md" in compared.json["notes"]


def test_pool_of_an_earlier_version_is_read(pooled: Done) -> None:
    file = Path("judged/pool.json")
    value = json.loads(file.read_text())
    del value["source"]["contents"]
    for document in (document for question in value["questions"] for document in question["documents"]):
        del document["content"]
    file.write_text(json.dumps(value))
    assert ragindex(*COMMAND).code == 0


def test_gold_is_not_read(built: None) -> None:
    done = ragindex(*COMMAND[:2], "questions.csv", *COMMAND[3:], "--json", "-")
    assert (done.code, done.json["by_person"]) == (0, 0)
    assert "gold" not in Path("judged/pool.json").read_text()


def test_only_the_first_questions_count_so_that_they_are_a_random_sample() -> None:
    pool = made_pool(3)
    methods = estimate_methods(pool, grades(pool, "200", "20", "222"), None)
    assert (methods.by_person, methods.documents_by_person) == (1, 3)


def test_an_index_is_judged_like_data(built: None) -> None:
    done = ragindex("judge", "w", "questions.txt", "--methods", "bm25", "--depth", "2", "--json", "-")
    assert (done.code, done.json["questions"], done.json["depth"]) == (0, 2, 2)

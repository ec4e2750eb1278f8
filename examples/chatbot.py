"""A chatbot over an index: history, retrieval, citations. Without a model it shows the sentences that match.

python examples/chatbot.py my-index hybrid gpt-4o-mini  # needs OPENAI_API_KEY; OPENAI_BASE_URL for another endpoint
"""

import sys

from openai import OpenAI

import ragindex
from ragindex.retrieval.formatting import format_positions
from ragindex.retrieval.matching import find_matching_sentences, find_question_words

RULES = "Answer from the passages only, and cite their numbers, as [1]. Say so if they do not hold the answer."
REWRITE = "Write the last question so that it can be understood without the conversation. Return the question only."


def main(folder, method, model=None):
    with ragindex.open(folder, read_only=True) as index:
        retriever = index.retriever(method)
    client, history = OpenAI() if model else None, []
    print("Ask a question; an empty line ends.")
    while question := input("> ").strip():
        hits = retriever.search(rewrite(client, model, history, question), k=5)
        history.append({"role": "user", "content": question})
        if client:
            passages = "\n\n".join(f"[{n}] {hit.title}\n{hit.text}" for n, hit in enumerate(hits, 1))
            answer = ask(client, model, [{"role": "system", "content": f"{RULES}\n\n{passages}"}, *history])
            history.append({"role": "assistant", "content": answer})
            print(answer)
        for n, hit in enumerate(hits, 1):
            if not client or f"[{n}]" in answer:
                print(f"  [{n}] {hit.title}  {format_positions(hit.positions) or ', '.join(hit.doc_ids)}")
            words = [] if client else find_question_words(question, "english")
            for _, sentence in find_matching_sentences([hit.text], words, "english", count=1):
                print(f"      {sentence}")


def rewrite(client, model, history, question):
    """Return the question with what it refers to; without a model or before the first answer, as it is."""
    turn = [{"role": "user", "content": question}, {"role": "system", "content": REWRITE}]
    return ask(client, model, [*history, *turn]) if client and history else question


def ask(client, model, messages):
    return client.chat.completions.create(model=model, messages=messages).choices[0].message.content


if __name__ == "__main__":
    main(*sys.argv[1:])

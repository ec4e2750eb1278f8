"""A chatbot with LangChain: history, retrieval, citations. Without a model it shows what was found.

pip install 'langchain-core>=1.0' 'langchain-openai>=1.0'
python examples/chatbot_langchain.py my-index hybrid gpt-4o-mini  # needs OPENAI_API_KEY; OPENAI_BASE_URL for another
"""

import sys

from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_openai import ChatOpenAI

from ragindex.integrations.langchain import LangChainRetriever

RULES = "Answer from the passages only, and cite their numbers, as [1]. Say so if they do not hold the answer."
REWRITE = "Write the last question so that it can be understood without the conversation. Return the question only."
ANSWERING = ChatPromptTemplate(
    [("system", RULES + "\n\n{passages}"), ("placeholder", "{history}"), ("user", "{question}")]
)
REWRITING = ChatPromptTemplate([("placeholder", "{history}"), ("user", "{question}"), ("system", REWRITE)])


def main(folder, method, model=None):
    retriever = LangChainRetriever.from_index(folder, method, k=5)
    chat = ChatOpenAI(model=model) | StrOutputParser() if model else None
    history = []
    print("Ask a question; an empty line ends.")
    while question := input("> ").strip():
        given = {"history": history, "question": question}
        documents = retriever.invoke((REWRITING | chat).invoke(given) if chat and history else question)
        passages = [
            f"[{n}] {document.metadata['title']}\n{document.page_content}" for n, document in enumerate(documents, 1)
        ]
        if chat:
            answer = (ANSWERING | chat).invoke({**given, "passages": "\n\n".join(passages)})
            history += [("user", question), ("ai", answer)]
            print(answer)
        for n, document in enumerate(documents, 1):
            if not chat or f"[{n}]" in answer:
                print(f"  [{n}] {document.metadata['title']}  {describe_places(document)}")
                print("" if chat else f"      {document.page_content}\n", end="")


def describe_places(document):
    places = document.metadata["ragindex"]["positions"]
    return "; ".join(f"{place['doc_id']}, characters {place['start']}-{place['end']}" for place in places)


if __name__ == "__main__":
    main(*sys.argv[1:])

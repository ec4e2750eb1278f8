"""The lines that use a built method in an application, for each framework."""

from collections.abc import Mapping
from pathlib import Path

from ragindex._util.distribution import install_line
from ragindex._util.text import suggest_names
from ragindex.errors import UsageError

FRAMEWORKS: Mapping[str, str] = {
    "python": "",
    "langchain": "langchain-core",
    "llama-index": "llama-index-core",
    "haystack": "haystack-ai",
    "dspy": "dspy",
}
"""The names of the frameworks, each with the package that its adapter needs."""

_LINES = {
    "python": """
import ragindex

with ragindex.open({folder!r}, read_only=True) as index:
    retriever = index.retriever({method!r})
for hit in retriever.search("your question", k=5):
    print(hit.score, hit.doc_ids, hit.text)
""",
    "langchain": """
from ragindex.integrations.langchain import LangChainRetriever

retriever = LangChainRetriever.from_index({folder!r}, {method!r}, k=5)
for document in retriever.invoke("your question"):
    print(document.metadata["score"], document.metadata["source"], document.page_content)
""",
    "llama-index": """
from ragindex.integrations.llama_index import LlamaIndexRetriever

retriever = LlamaIndexRetriever.from_index({folder!r}, {method!r}, similarity_top_k=5)
for found in retriever.retrieve("your question"):
    print(found.score, found.node.metadata["source"], found.node.text)
""",
    "haystack": """
from ragindex.integrations.haystack import HaystackRetriever

retriever = HaystackRetriever(index={folder!r}, method={method!r}, top_k=5)
for document in retriever.run("your question")["documents"]:
    print(document.score, document.meta["source"], document.content)
""",
    "dspy": """
from ragindex.integrations.dspy import DSPyRetriever

retriever = DSPyRetriever.from_index({folder!r}, {method!r}, k=5)
found = retriever("your question")
for score, passage in zip(found.scores, found.passages):
    print(score, passage)
""",
}


def usage_lines(framework: str, folder: Path | str, method: str) -> str:
    """Return Python code that opens a built method of the index in `folder` and asks it one question.

    Its first line is a comment with the command that installs the framework, if it needs one.
    Raises UsageError for an unknown framework.
    """
    if framework not in FRAMEWORKS:
        raise UsageError(f"Unknown framework {framework!r}. {suggest_names(framework, FRAMEWORKS)}")
    package = FRAMEWORKS[framework]
    install = f"# {install_line(package)}\n" if package else ""
    return install + _LINES[framework].lstrip().format(folder=str(folder), method=method)

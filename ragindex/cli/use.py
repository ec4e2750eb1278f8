"""The command `use`: print the lines that use a built method in an application, for each framework."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from ragindex._util.distribution import install_line
from ragindex._util.text import suggest_names
from ragindex.cli.console import print_note, stdout, write_result
from ragindex.cli.options import CacheOption, IndexOption, JsonOption
from ragindex.errors import UsageError
from ragindex.index.index import open_index
from ragindex.plugins import registry

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

with ragindex.open({folder!r}, read_only=True{money}) as index:
    retriever = index.retriever({method!r})
for hit in retriever.search("your question", k=5):
    print(hit.score, hit.doc_ids, hit.text)
""",
    "langchain": """
from ragindex.integrations.langchain import LangChainRetriever

retriever = LangChainRetriever.from_index({folder!r}, {method!r}, k=5{money})
for document in retriever.invoke("your question"):
    print(document.metadata["score"], document.metadata["source"], document.page_content)
""",
    "llama-index": """
from ragindex.integrations.llama_index import LlamaIndexRetriever

retriever = LlamaIndexRetriever.from_index({folder!r}, {method!r}, similarity_top_k=5{money})
for found in retriever.retrieve("your question"):
    print(found.score, found.node.metadata["source"], found.node.text)
""",
    "haystack": """
from ragindex.integrations.haystack import HaystackRetriever

retriever = HaystackRetriever(index={folder!r}, method={method!r}, top_k=5{money})
for document in retriever.run("your question")["documents"]:
    print(document.score, document.meta["source"], document.content)
""",
    "dspy": """
from ragindex.integrations.dspy import DSPyRetriever

retriever = DSPyRetriever.from_index({folder!r}, {method!r}, k=5{money})
found = retriever("your question")
for score, passage in zip(found.scores, found.passages):
    print(score, passage)
""",
}


def usage_lines(
    framework: str, folder: Path | str, method: str, budget: float | None = None, cache: Path | None = None
) -> str:
    """Return Python code that opens a built method of the index in `folder` and asks it one question.

    It may spend `budget` US dollars, and keeps what it pays for in the file `cache`. Its first line is a comment with
    the command that installs the framework, if it needs one. Raises UsageError for an unknown framework.
    """
    if framework not in FRAMEWORKS:
        raise UsageError(f"Unknown framework {framework!r}. {suggest_names(framework, FRAMEWORKS)}")
    package = FRAMEWORKS[framework]
    install = f"# {install_line(package)}\n" if package else ""
    options = {"budget": budget, "cache": None if cache is None else str(cache)}
    money = "".join(f", {name}={value!r}" for name, value in options.items() if value is not None)
    return install + _LINES[framework].lstrip().format(folder=str(folder), method=method, money=money)


def use(
    folder: IndexOption,
    method: Annotated[str, typer.Option(metavar="NAME", help="Method that searches.")] = "hybrid",
    framework: Annotated[
        str, typer.Option(metavar="NAME", help=f"Framework of the application: {', '.join(FRAMEWORKS)}.")
    ] = "python",
    budget: Annotated[
        float | None, typer.Option("--budget", metavar="DOLLARS", help="Most that the application may pay.")
    ] = None,
    cache: CacheOption = None,
    json: JsonOption = None,
) -> None:
    """Print the lines of Python that use a built method in an application.

    Example: ragindex use --index my-index --method hybrid --framework langchain
    """
    lines = usage_lines(framework, folder, method, budget, cache)
    with open_index(folder, read_only=True) as index:
        label = index.retriever(method).method
        encoder = index.encoder_of(registry.scheme(method))
    value = {"framework": framework, "index": str(folder), "method": label, "encoder": encoder, "lines": lines}

    def show() -> None:
        stdout().print(lines, end="", markup=False, highlight=False, soft_wrap=True)
        if encoder is not None:
            print_note(f"{label} searches with the encoder of the index, {encoder}.")

    write_result(value, json, show)

"""The lines to paste, for each framework: they run as they stand; the command that prints them."""

import contextlib
import io
from pathlib import Path

import pytest
from command_line import ragindex as command
from made_library import QUESTION

import ragindex
from ragindex.cli.use import FRAMEWORKS, usage_lines
from ragindex.errors import UsageError


@pytest.mark.parametrize("framework", sorted({*FRAMEWORKS} - {"dspy"}))  # dspy: in tests/slow
def test_the_lines_run(framework: str, library: Path, opened: ragindex.IndexRetriever) -> None:
    lines = usage_lines(framework, library, "bm25")
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(lines.replace("your question", QUESTION), framework, "exec"), {})
    output = printed.getvalue().splitlines()
    hits = opened.search(QUESTION)
    assert [line.endswith(hit.text) for line, hit in zip(output, hits, strict=True)] == [True] * 4
    if framework != "langchain":  # where the metadata of a document may have another score
        assert [float(line.partition(" ")[0]) for line in output] == [hit.score for hit in hits]


def test_the_lines_name_the_package_of_the_framework(library: Path) -> None:
    assert usage_lines("langchain", library, "bm25").startswith("# pip install 'langchain-core>=1.0'\nfrom ragindex.")
    assert usage_lines("python", library, "bm25").startswith("import ragindex\n")


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_names_are_quoted(framework: str) -> None:
    method = """bm25(over='x"y\\')\n{folder}"""
    compile(usage_lines(framework, """it's/a\\"{method}""", method), framework, "exec")
    assert repr(method) in usage_lines(framework, "i", method)


def test_an_unknown_framework_is_refused() -> None:
    with pytest.raises(UsageError, match=r"Unknown framework 'langchian'. Did you mean langchain\?"):
        usage_lines("langchian", "my-index", "bm25")


def test_the_command(library: Path) -> None:
    done = command("use", "--index", library, "--method", "bm25", "--framework", "dspy")
    assert (done.code, done.out) == (0, usage_lines("dspy", library, "bm25"))
    value = command("use", "--index", library, "--method", "bm25", "--json", "-").json
    lines = usage_lines("python", library, "bm25")
    assert value == {"framework": "python", "index": str(library), "method": "bm25", "encoder": None, "lines": lines}
    missing = command("use", "--index", library, "--method", "dense")
    assert missing.code == 4
    assert "ragindex index --index" in " ".join(missing.err.split())

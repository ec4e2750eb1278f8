"""The method of docs/how-to/write-a-method-that-asks-a-model.md: written, checked, asked and compared."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from openai_server import KEY, OpenAIServer
from project import ROOT

PAGE = ROOT / "docs" / "how-to" / "write-a-method-that-asks-a-model.md"
MODULE, PROGRAM = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
PRICES = "models:\n  gpt-4o-mini: {input: 1.0, output: 4.0}\n"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder on the import path with the plugin in it, put there by pip."""
    desk = tmp_path_factory.mktemp("desk")
    run(desk, "-m", "ragindex.cli.main", "new-plugin", "hyde")
    (desk / "ragindex-hyde" / "hyde.py").write_text(MODULE, encoding="utf-8")
    pip = ["pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    run(desk, "-m", *pip, "--disable-pip-version-check", "--target", "site", "./ragindex-hyde")
    return desk / "site"


def run(cwd: Path, *arguments: str, given: str | None = None, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, *arguments],
        input=given,
        capture_output=True,
        text=True,
        cwd=cwd,
        env={**os.environ, **environment},
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def make_documents(folder: Path) -> None:
    """Three documents, and a question whose gold is the one that is farthest from its words."""
    documents = folder / "documents"
    documents.mkdir()
    (documents / "lindau.md").write_text("# Lindau\nThe old lighthouse stands at the harbour since 1856.\n")
    (documents / "bread.md").write_text("# Bread\nRye bread keeps for a week.\n")
    (documents / "garden.md").write_text("# Garden\nCompost wants sun and patience.\n")
    (folder / "questions.csv").write_text("question,answer,documents\nHow long does rye bread keep?,,lindau.md\n")
    (folder / "prices.yaml").write_text(PRICES)


def read_recall(compared: str) -> dict[str, float]:
    return {method["label"]: method["metrics"]["R@1"] for method in json.loads(compared)["methods"]}


def count_chats(server: OpenAIServer) -> int:
    return sum(request.path == "/v1/chat/completions" for request in server.requests)


def test_the_contract_of_new_plugin_passes(site: Path, tmp_path: Path) -> None:
    test = site.parent / "ragindex-hyde" / "test_hyde.py"
    assert "1 passed" in run(tmp_path, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(test), PYTHONPATH=str(site))


def test_a_model_makes_up_the_passages(site: Path, tmp_path: Path) -> None:
    """The vectors of what the server makes up are searched; each repeat is asked once, and nothing is paid twice."""
    make_documents(tmp_path)

    def write(body: Mapping[str, Any]) -> str:
        assert body["messages"][-1]["content"] == "How long does rye bread keep?"
        assert body["response_format"]["json_schema"]["schema"]["required"] == ["passage"]
        return json.dumps({"passage": "The old lighthouse stands at the harbour since 1856."})

    command = ["-m", "ragindex.cli.main", "compare", "documents", "--questions", "questions.csv", "--k", "1"]
    methods = ["--methods", "dense,hyde,hyde(passages=4)", "--json", "-", "--encoder", "lsa"]
    with OpenAIServer() as server:
        server.write = write
        environment = {
            "PYTHONPATH": str(site),
            "OPENAI_API_KEY": KEY,
            "OPENAI_BASE_URL": server.url,
            "RAGINDEX_PRICES": str(tmp_path / "prices.yaml"),
        }
        command += [*methods, "--llm", "openai:gpt-4o-mini"]
        output = run(tmp_path, *command, "--budget", "1", **environment)
        assert count_chats(server) == 4  # hyde shares its one with the first of hyde(passages=4)
        again = run(tmp_path, *command, "--fresh", **environment)
        assert count_chats(server) == 4
    assert read_recall(output) == {"dense": 0.0, "hyde": 1.0, "hyde(passages=4)": 1.0}
    assert read_recall(again) == read_recall(output)


def test_the_program_of_the_page_compares_what_is_not_installed(tmp_path: Path) -> None:
    """Without a model the made-up passage is the question, so one or four of them are the same."""
    (tmp_path / "hyde.py").write_text(MODULE, encoding="utf-8")
    (tmp_path / "prices.yaml").write_text(PRICES)
    with OpenAIServer() as server:
        server.write = lambda body: json.dumps({"passage": f"{body['messages'][-1]['content']} Nobody knows."})
        environment = {
            "OPENAI_API_KEY": KEY,
            "OPENAI_BASE_URL": server.url,
            "RAGINDEX_PRICES": str(tmp_path / "prices.yaml"),
        }
        shown = run(tmp_path, "-", given=PROGRAM, **environment)
        assert len(server.requests) == 20 * 4
    rows = re.findall(r"^(dense|hyde:Hyde|hyde:Hyde\(passages=4\)) +([\d.]+)", shown, re.MULTILINE)
    assert {name for name, _ in rows[:3]} == {"dense", "hyde:Hyde", "hyde:Hyde(passages=4)"}
    recall = dict(rows[:3])
    assert recall["hyde:Hyde"] == recall["hyde:Hyde(passages=4)"]


def test_the_commands_of_the_page_know_it(site: Path, tmp_path: Path) -> None:
    listed = run(tmp_path, "-m", "ragindex.cli.main", "methods", "hyde", PYTHONPATH=str(site))
    assert "Passages that are made up for a question." in listed
    make_documents(tmp_path)
    priced = ["-m", "ragindex.cli.main", "estimate", "documents", "--questions", "questions.csv", "--methods", "hyde"]
    environment = {"PYTHONPATH": str(site), "RAGINDEX_PRICES": str(tmp_path / "prices.yaml"), "OPENAI_API_KEY": KEY}
    (task,) = json.loads(run(tmp_path, *priced, "--llm", "openai:gpt-4o-mini", "--json", "-", **environment))["tasks"]
    assert (task["task"], task["calls"]) == ("hyde, hyde", 1)

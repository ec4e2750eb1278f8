"""The plugin of docs/tutorials/writing-a-retriever.md, installed with pip, listed, checked and compared."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from project import ROOT

PAGE = ROOT / "docs" / "tutorials" / "writing-a-retriever.md"
PART_PAGE = ROOT / "docs" / "how-to" / "search-a-part-in-a-method.md"


def blocks(language: str, page: Path = PAGE) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder on the import path with the plugin in it, put there by pip."""
    source, target = tmp_path_factory.mktemp("ragindex-shared-names"), tmp_path_factory.mktemp("site")
    for name, text in (("pyproject.toml", blocks("toml")[0]), ("shared_names.py", blocks("python")[1])):
        (source / name).write_text(text, encoding="utf-8")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*pip, "--disable-pip-version-check", "--target", str(target), str(source)], check=True)
    return target


def run(site: Path, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(site)}
    command = [sys.executable, *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, env=environment, check=False)


def test_a_class_of_a_notebook_is_compared_and_checked(tmp_path: Path) -> None:
    """A notebook's class is in `__main__`, and in no file: as in a program from standard input."""
    given = blocks("python")[0]
    done = subprocess.run([sys.executable, "-"], input=given, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr
    assert re.search(r"^__main__:Shortest +\d", done.stdout, re.MULTILINE), done.stdout
    broken = given.replace("rank, hit in hits))", "rank, hit in hits))[:0]")
    done = subprocess.run(
        [sys.executable, "-"], input=broken, capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert done.returncode == 1
    assert "Shortest (" in done.stderr.splitlines()[-1], done.stderr


def test_a_scheme_may_search_a_part_that_exists(tmp_path: Path) -> None:
    (module,) = blocks("python", PART_PAGE)
    (tmp_path / "first_words.py").write_text(module, encoding="utf-8")
    code = (
        "from pathlib import Path; from first_words import FirstWords; from ragindex import testing;"
        "from ragindex.types import Query; scheme = FirstWords(words=2); words = testing.DOCUMENTS[3].text.split();"
        "retriever = scheme.open(testing.build(scheme, Path('index'), 'lsa'));"
        "texts = [' '.join(words[:2]), ' '.join(words)];"
        "[one, other] = retriever.retrieve([Query(text, text) for text in texts], 3);"
        "print(bool(one.hits), one.hits == other.hits)"
    )
    done = run(tmp_path, "-c", code, cwd=tmp_path)
    assert done.stdout.split() == ["True", "True"], done.stderr


def test_it_is_listed_without_being_imported(site: Path, tmp_path: Path) -> None:
    code = (
        "import sys; from ragindex.plugins import registry;"
        "print('shared-names' in registry.plugin_names('schemes'), 'shared_names' in sys.modules)"
    )
    assert run(site, "-c", code, cwd=tmp_path).stdout.split() == ["True", "False"]


def test_it_passes_the_contract(site: Path, tmp_path: Path) -> None:
    test = tmp_path / "test_shared_names.py"
    test.write_text(blocks("python")[2], encoding="utf-8")
    done = run(site, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(test), cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout


def test_the_contract_finds_out_that_it_depends_on_k(site: Path, tmp_path: Path) -> None:
    says = "    def depends_on_k(self, k: int) -> bool:\n        return True\n"
    assert says in blocks("python")[1]
    (tmp_path / "silent_names.py").write_text(blocks("python")[1].replace(says, "").replace("SharedNames", "Silent"))
    test = tmp_path / "test_silent.py"
    test.write_text(
        "from ragindex.testing import check_cutoffs\nfrom silent_names import Silent\n\n\n"
        "def test_cutoffs(tmp_path):\n    check_cutoffs(Silent(), tmp_path, 'lsa')\n"
    )
    done = run(site, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(test), cwd=tmp_path)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "its first hits depend on k, so depends_on_k must return True" in done.stdout


def test_it_is_compared(site: Path, tmp_path: Path) -> None:
    documents = tmp_path / "documents"
    documents.mkdir()
    (documents / "lindau.md").write_text("# Lindau\nThe old lighthouse of Lindau was built in 1856.\n")
    (documents / "miller.md").write_text("# Ada Miller\nThe painter Ada Miller was born in Lindau.\n")
    (documents / "bread.md").write_text("# Bread\nRye bread keeps for a week.\n")
    (tmp_path / "questions.csv").write_text(
        "question,answer,documents\nWhere was Ada Miller born?,Lindau,miller.md\n"
        "Which lighthouse stands in the town where Ada Miller was born?,,miller.md;lindau.md\n"
    )
    methods = "bm25,shared-names,shared-names(seeds=1)"
    command = ["-m", "ragindex.cli.main", "compare", "documents", "--questions", "questions.csv", "--methods", methods]
    done = run(site, *command, "--k", "2", "--json", "-", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert [method["label"] for method in report["methods"]] == ["bm25", "shared-names", "shared-names(seeds=1)"]
    assert [method["metrics"]["R@2"] for method in report["methods"]] == [1.0, 1.0, 1.0]
    assert report["methods"][1]["index"]["parts"].keys() == {"passages", "names"}
    again = run(site, *command, "--k", "1,2", "--json", "-", cwd=tmp_path)
    output = json.loads(again.stdout)["notes"][0]
    assert re.search(
        r"bm25, shared-names, shared-names\(seeds=1\): 2 answers each read from \d\d:\d\d; --fresh", output
    )
    answered = {path.name for path in tmp_path.rglob("answers-*.jsonl")}
    assert answered == {"answers-1.jsonl", "answers-2.jsonl"}  # shared-names depends on k, and is asked for each


def test_it_has_at_most_60_lines() -> None:
    assert len(blocks("python")[1].splitlines()) <= 60

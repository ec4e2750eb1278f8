"""The command `new-plugin`: write a distribution with a small retriever and its contract test."""

import keyword
import re
import sys
from importlib.util import find_spec
from pathlib import Path
from string import Template
from typing import Annotated

import typer

from ragindex._util import distribution
from ragindex._util import files as durable_files
from ragindex.cli.console import print_note, quote_argument, stdout, write_result
from ragindex.cli.options import JsonOption
from ragindex.errors import StoreError, UsageError
from ragindex.plugins import registry

_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_LONGEST_NAME = 60

_PYPROJECT = Template("""[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "ragindex-$name"
version = "0.1.0"
dependencies = ["$distribution"]

[project.entry-points."ragindex.schemes"]
$name = "$module:$class_name"

[tool.hatch.build.targets.wheel]
only-include = ["$module.py"]
""")

_MODULE = Template('''"""The method `$name`: hits whose titles share a word with the question come first."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from pydantic import Field
from ragindex.interfaces import OpenIndex, Retriever, Scheme
from ragindex.plugins.registry import SchemeField, label, scheme
from ragindex.retrieval.hits import check_queries
from ragindex.types import Hit, Query, Retrieval


class $class_name(Scheme):
    """The hits of `base`, first those whose titles share a word with the question."""

    version = 1  # raise it when answers change
    base: SchemeField = Field(default_factory=lambda: scheme("bm25"), description="Retriever whose hits are ranked.")
    depth: int = Field(default=20, ge=1, description="Hits of the base that are looked at.")

    def depends_on_k(self, k: int) -> bool:
        """Return whether the first hits of a larger k may be others than those of `k`."""
        return k > self.depth or super().depends_on_k(k)

    def _open(self, index: OpenIndex) -> Retriever:
        """Open the retriever over an index in which the parts of the base are built."""
        return ${class_name}Retriever(self.base.open(index), self)


@dataclass(frozen=True)
class ${class_name}Retriever:
    base: Retriever
    scheme: $class_name

    def retrieve(self, queries: Sequence[Query], k: int) -> list[Retrieval]:
        """Answer each question with at most `k` hits, best first."""
        check_queries(queries, k)
        found = self.base.retrieve(queries, max(k, self.scheme.depth))
        return [self._rank(query, one, k) for query, one in zip(queries, found, strict=True)]

    def _rank(self, query: Query, found: Retrieval, k: int) -> Retrieval:
        asked = _words(query.text)

        def has_no_word(hit: Hit) -> bool:
            return asked.isdisjoint(_words(hit.title))

        ranked = enumerate(sorted(found.hits, key=has_no_word)[:k], start=1)
        hits = tuple(replace(hit, score=1 / rank, source=label(self.scheme)) for rank, hit in ranked)
        return replace(found, hits=hits)


def _words(text: str) -> set[str]:
    return {word for word in re.findall(r"\\w+", text.casefold()) if len(word) > 3}
''')

_TEST = Template('''from pathlib import Path

from $module import $class_name
from ragindex.testing import check_scheme


def test_contract(tmp_path: Path) -> None:
    """Every check that ragindex makes of a method; a failure names the class and the file."""
    check_scheme($class_name(), tmp_path)
''')

_README = Template("""# ragindex-$name

The method `$name` for ragindex, in `$module.py`.

```bash
pip install --editable .
pytest
ragindex methods $name
ragindex compare world:100 --methods bm25,$name
```
""")


def new_plugin(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the method: words of a to z, joined by -.")],
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder to make. Default: ragindex-NAME, in this folder.")
    ] = None,
    json: JsonOption = None,
) -> None:
    """Write a plugin: a distribution with a small retriever to change, and a test that it keeps the contract.

    Example: ragindex new-plugin title-words
    """
    _require_free_name(name)
    folder = out or Path(f"ragindex-{name}")
    files = make_files(name)
    _write(folder, files)
    value = {"name": name, "folder": str(folder), "files": sorted(files)}

    def show() -> None:
        module = f"{name.replace('-', '_')}.py"
        stdout().print(f"The method {name} is in {folder / module}. Next:", markup=False, highlight=False)
        for line in (
            f"pip install --editable {quote_argument(folder)}",
            f"pytest {quote_argument(folder)}",
            f"ragindex compare world:100 --methods bm25,{name}",
        ):
            stdout().print(f"  {line}", markup=False, highlight=False, soft_wrap=True)

    write_result(value, json, show)


def make_files(name: str) -> dict[str, str]:
    """Return the texts of the plugin's files, by their names."""
    module = name.replace("-", "_")
    values = {
        "name": name,
        "module": module,
        "class_name": "".join(word.capitalize() for word in name.split("-")),
        "distribution": distribution.find_distribution().name,
    }
    templates = {
        "pyproject.toml": _PYPROJECT,
        f"{module}.py": _MODULE,
        f"test_{module}.py": _TEST,
        "README.md": _README,
    }
    return {file: template.substitute(values) for file, template in templates.items()}


def _require_free_name(name: str) -> None:
    if _NAME.fullmatch(name) is None or len(name) > _LONGEST_NAME or keyword.iskeyword(name):
        raise UsageError(
            f"NAME must be words of a to z and digits, joined by -, as title-words, with {_LONGEST_NAME} characters at "
            f"most. Got {name!r}."
        )
    module = name.replace("-", "_")
    if module in sys.stdlib_module_names or find_spec(module) is not None:
        raise UsageError(f"There is a module {module!r} already, which {module}.py would hide. Choose another name.")
    if name in registry.plugin_names("schemes"):
        raise UsageError(f"There is a method {name!r} already (ragindex methods {name}). Choose another name.")


def _write(folder: Path, files: dict[str, str]) -> None:
    """Write the files into a new folder. Raises UsageError if it holds something, StoreError if that fails."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise UsageError(f"{folder} is not empty. Name another folder: --out DIR")
        for name, text in files.items():
            durable_files.write_file(folder / name, text.encode())
            print_note(f"wrote {folder / name}")
    except (FileExistsError, NotADirectoryError) as error:
        raise UsageError(f"{folder} is a file. Name another folder: --out DIR") from error
    except OSError as error:
        raise StoreError(f"{folder} could not be written: {error.strerror or error}.") from error

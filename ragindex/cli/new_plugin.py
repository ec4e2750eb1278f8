"""The command `new-plugin`: write a distribution with a small retriever and its contract test."""

import keyword
import re
import sys
from importlib.util import find_spec
from pathlib import Path
from string import Template
from typing import Annotated

import typer

from ragindex._util import distribution, durable_files
from ragindex.cli.console import print_note, quote_argument, stdout, write_result
from ragindex.cli.options import JsonOption
from ragindex.errors import StoreError, UsageError
from ragindex.plugins import registry

_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_LONGEST_NAME = 60
_TEMPLATES = Path(__file__).with_name("plugin_template")


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
    files = (_TEMPLATES / f"{file}.template" for file in ("pyproject.toml", "module.py", "test_module.py", "README.md"))
    return {
        file.stem.replace("module", module): Template(file.read_text(encoding="utf-8")).substitute(values)
        for file in files
    }


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

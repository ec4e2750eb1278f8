"""Write the list of modules in docs/dev/design.md from the code: `python docs/make_design.py`; a test compares the two.

What stands between the two marks of the page is made: the layers from import-linter's settings in pyproject.toml, and
the first sentence of each module. The rest of the page is written by hand.
"""

import ast
import re
import tomllib
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

from generated_pages import put_block, table

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "dev" / "design.md"
PACKAGES = (
    "ragindex",
    "baselines/ragindex_baselines",
    "retrievers/ragindex_retrievers",
    "eval/ragindex_eval",
)


def page() -> str:
    """The whole page: what is written by hand, with the list of modules as the code has it now."""
    return put_block(PAGE, "modules", _list_modules())


def _list_modules() -> Iterator[str]:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    for package in PACKAGES:
        yield from _list_package(package, settings["contracts"])


def _list_package(package: str, contracts: list[dict[str, Any]]) -> Iterator[str]:
    yield from (f"### `{package}/`", "")
    for contract in contracts:
        if contract["type"] == "layers" and contract["layers"][0].startswith(f"{Path(package).name}."):
            yield from _list_layers(contract["layers"])
    files = sorted((ROOT / package).rglob("*.py"), key=lambda file: (file.parent, file.name))
    for folder, modules in groupby(files, key=lambda file: file.parent):
        yield from _list_folder(folder, list(modules))


def _list_layers(layers: list[str]) -> Iterator[str]:
    yield from ("Layers, each of which imports only those below it:", "")
    for number, layer in enumerate(layers, start=1):
        names = re.split(r"\s*[|:]\s*", layer)
        yield f"{number}. " + ", ".join(f"`{name.partition('.')[2]}`" for name in names)
    yield ""


def _list_folder(folder: Path, modules: list[Path]) -> Iterator[str]:
    rows = [(file.name, _first_sentence(file)) for file in modules if file.name != "__init__.py"]
    if rows:
        about = _first_sentence(folder / "__init__.py")
        yield from (f"**`{folder.relative_to(ROOT).as_posix()}/`** {about}".rstrip(), "")
        yield from table(("module", "subject"), ((f"`{name}`", sentence) for name, sentence in rows))


def _first_sentence(file: Path) -> str:
    """The first sentence of a module's docstring, for a cell of a table; "" if there is none."""
    if not file.exists():
        return ""
    paragraph = (ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or "").partition("\n\n")[0]
    sentence = re.split(r"(?<=\.)\s", " ".join(paragraph.split()), maxsplit=1)[0]
    return sentence.rstrip(":").replace("<", "&lt;")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")

"""The layout of the packages: what import-linter's contracts in pyproject.toml do not hold."""

import zipfile
from graphlib import TopologicalSorter
from pathlib import Path

import grimp
from hatchling.builders.wheel import WheelBuilder

PACKAGES = ("ragindex", "ragindex_retrievers", "ragindex_baselines", "ragindex_eval")
ROOT = Path(__file__).resolve().parents[1]


def test_no_module_imports_itself_through_others() -> None:
    """Imports for type checking and inside functions count too."""
    graph = grimp.build_graph(*PACKAGES, cache_dir=None)
    order = list(
        TopologicalSorter(
            {name: graph.find_modules_directly_imported_by(name) for name in graph.modules}
        ).static_order()
    )
    assert len(order) == len(graph.modules) > 300


def test_a_wheel_has_no_other_top_level_names(tmp_path: Path) -> None:
    (wheel,) = WheelBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"])
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.partition("/")[0] for name in names if ".dist-info" not in name} == set(PACKAGES)
    for folder in ("ragindex", "retrievers", "baselines", "eval"):
        for kind in ("jinja", "html", "yaml", "txt"):
            held = {str(path.relative_to(ROOT)) for path in (ROOT / folder).rglob(f"*.{kind}")}
            assert {name.removeprefix(f"{folder}/") if folder != "ragindex" else name for name in held} <= set(names)

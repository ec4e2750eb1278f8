"""The changelog has the version that the package has, in the form that `make release` expects."""

import re
import tomllib

from project import ROOT


def test_the_newest_version_is_that_of_the_package() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    headings = re.findall(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    assert headings[0] == "Unreleased"
    assert headings[1].split()[0] == version
    assert len(set(headings)) == len(headings)

"""Known items are found in the languages that tests/integration leaves out."""

from pathlib import Path

import pytest
from known_items import FOUND_FIRST, QUICK, check_known_items


@pytest.mark.parametrize("language", sorted(FOUND_FIRST.keys() - set(QUICK)))
def test_known_items_are_found(language: str, tmp_path: Path) -> None:
    check_known_items(language, tmp_path)

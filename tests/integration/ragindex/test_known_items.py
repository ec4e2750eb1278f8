"""Known items are found in two languages; tests/slow/ragindex/test_known_items.py tests the others."""

from pathlib import Path

import pytest
from known_items import QUICK, check_known_items


@pytest.mark.parametrize("language", QUICK)
def test_known_items_are_found(language: str, tmp_path: Path) -> None:
    check_known_items(language, tmp_path)

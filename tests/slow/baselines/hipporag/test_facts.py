"""HippoRAG from facts, which no scheme of the contract suite is by default, against the published checks."""

from pathlib import Path

import pytest

from ragindex.testing import CHECKS, Check, check_finds
from ragindex_baselines.hipporag.method import HippoRAG

FACTS, BY_POWER = HippoRAG(mode="facts"), HippoRAG(mode="facts", walk="power", facts=2, passage_weight=1)


@pytest.mark.parametrize("check", [check for check in CHECKS if check is not check_finds])
@pytest.mark.parametrize("scheme", [FACTS, BY_POWER], ids=["push", "power"])
def test_contract(scheme: HippoRAG, check: Check, tmp_path: Path) -> None:
    check(scheme, tmp_path, "lsa")

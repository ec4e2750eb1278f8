"""The checks of the scheme contract as parameters of a test."""

from typing import Any

import pytest

from ragindex.testing import CHECKS, Check, check_crash

SLOW = {check_crash: pytest.mark.slow}
"""It builds an index for each place to stop at."""


def contract_checks(*left_out: Check) -> list[Any]:
    """Return all checks except `left_out`, named by their functions; slow ones are marked."""
    checks = [check for check in CHECKS if check not in left_out]
    return [pytest.param(check, id=check.__name__, marks=SLOW.get(check, ())) for check in checks]

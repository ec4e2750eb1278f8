"""What `ragindex_eval.compare` gives, as a plain Comparison; with the files in `out`, where they are wanted."""

from pathlib import Path
from typing import Any

from ragindex_eval.api import compare as compare_methods
from ragindex_eval.results.model import Comparison


def compare(data: Any = None, methods: Any = None, *, out: Path | None = None, **options: Any) -> Comparison:
    result = compare_methods(data, methods, **options)
    if out is not None:
        result.save(out)
    return result.comparison

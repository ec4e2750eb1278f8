"""Reading the characters in pictures of pages (OCR)."""

from functools import cache
from typing import Any

from ragindex.distribution import require_module

OCR_PACKAGES = ("rapidocr", "onnxruntime")


def recognise_text(image: Any) -> str:
    """Return the lines of text in a picture, an array of height, width and BGR. Raises MissingExtraError."""
    lines = _load_engine()(image).txts
    return "\n".join(lines or ())


@cache
def _load_engine() -> Any:
    rapidocr = require_module("rapidocr", "rapidocr", "OCR")
    return rapidocr.RapidOCR(params={"Global.log_level": "critical"})

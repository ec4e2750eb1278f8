"""docs/reference/http-api.md: made from the code, with every code of an error that the server's code names."""

import ast
import runpy
from collections.abc import Iterator

from project import ROOT

MADE = runpy.run_path(str(ROOT / "docs" / "make_http_api.py"))
_CODE_AT = {"RefusalError": 2, "error_body": 2, "busy": 1}
"""Which argument of these calls is the code."""


def list_codes() -> Iterator[str]:
    for path in (ROOT / "ragindex" / "serve").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _CODE_AT:
                code = node.args[_CODE_AT[node.func.id]] if len(node.args) > _CODE_AT[node.func.id] else None
                if isinstance(code, ast.Constant):
                    yield code.value


def test_the_page_is_that_of_the_code() -> None:
    assert MADE["PAGE"].read_text(encoding="utf-8") == MADE["page"](), "Run: python docs/make_http_api.py"


def test_every_code_of_an_error_is_listed() -> None:
    listed = {code for codes in MADE["ERRORS"].values() for code in codes}
    assert listed == {*list_codes(), "overloaded"}  # the default of `busy`


def test_every_endpoint_has_a_row() -> None:
    rows = [line for line in MADE["PAGE"].read_text(encoding="utf-8").splitlines() if line.startswith("| `")]
    paths = {"/search", "/ask", "/update", "/documents", "/documents/{id}", "/ready", "/metrics"}
    for path in paths:
        assert any(f" {path}`" in row for row in rows), path

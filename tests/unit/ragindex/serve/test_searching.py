"""Links to the pages of documents."""

from typing import Any

import pytest

from ragindex.serve.searching import find_link


@pytest.mark.parametrize(
    ("url", "link"),
    [
        ("https://example.org/a", "https://example.org/a"),
        ("http://example.org", "http://example.org"),
        ("javascript:alert(1)", ""),
        ("JavaScript:alert(1)", ""),
        (" javascript:alert(1)", ""),
        ("java\nscript:alert(1)", ""),
        ("data:text/html,x", ""),
        ("//example.org", ""),
        ("/local", ""),
        ("https:///nohost", ""),
        ("https://[", ""),
        ("https://a b", ""),
        ("ftp://example.org", ""),
        (["https://example.org"], ""),
        (7, ""),
    ],
)
def test_only_web_addresses_are_links(url: Any, link: str) -> None:
    assert find_link({"url": url}) == link

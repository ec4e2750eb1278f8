"""The web address of a document, from its metadata. Metadata is untrusted: only http and https may become a link."""

from urllib.parse import urlsplit

from ragindex.types import Metadata

_URL_KEYS = ("url", "source_url", "link")
_LONGEST_URL = 2_000  # characters


def find_link(metadata: Metadata) -> str:
    """Return the address of a document if a browser may open it: http or https, with a host; else ""."""
    given = [metadata[key] for key in _URL_KEYS if key in metadata]
    return next((value for value in given if isinstance(value, str) and _is_web_address(value)), "")


def _is_web_address(value: str) -> bool:
    if len(value) > _LONGEST_URL or not value.isprintable() or " " in value:
        return False
    try:
        parts = urlsplit(value)
        return parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        return False

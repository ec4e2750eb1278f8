"""What the servers of this project say of themselves, and what their pages may do."""

from typing import Any

import uvicorn


def page_policy(nonce: str, images: str = "") -> str:
    """Return the content security policy of a page: its own script and style by nonce, requests to its own server.

    `images` are the sources of images; none if it is "".
    """
    return (
        f"default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; connect-src 'self'; "
        f"{f'img-src {images}; ' if images else ''}base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )


def quiet_config(app: Any, **options: Any) -> uvicorn.Config:
    """Return the settings of a server that trusts no proxy's headers, logs warnings only and says nothing of itself."""
    return uvicorn.Config(
        app, access_log=False, log_level="warning", proxy_headers=False, server_header=False, ws="none", **options
    )

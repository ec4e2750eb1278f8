"""Structured logs: one line of JSON per event, on the logger `ragindex.serve`."""

import json
import logging
import sys
import time
from typing import Any

from ragindex.errors import DataError, LLMError, RagindexError, UsageError
from ragindex.redaction import hide_secrets

_logger = logging.getLogger("ragindex.serve")


def log_event(event: str, **values: Any) -> None:
    """Log an event with its values. Texts of questions and documents are no values, unless `log_texts` is set."""
    if _logger.isEnabledFor(logging.INFO):
        line = {"time": round(time.time(), 3), "event": event, **values}
        _logger.info(hide_secrets(json.dumps(line, ensure_ascii=True, default=str)))


def log_error(error: RagindexError) -> None:
    """Log an error. Messages that quote what a client or a model has written are left out."""
    quotes = isinstance(error, UsageError | DataError | LLMError)
    log_event("error", kind=type(error).__name__, **({} if quotes else {"message": str(error)}))


def show_logs() -> None:
    """Write the events to standard error, as the command does."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(message)s"))
    _logger.addHandler(handler)
    _logger.setLevel(logging.INFO)
    _logger.propagate = False

"""Once imported, all HTTP clients of the process share one SSL context: each reads 150 certificates of its own else."""

import functools

import httpcore2

httpcore2.default_ssl_context = functools.cache(httpcore2.default_ssl_context)  # type: ignore[assignment]

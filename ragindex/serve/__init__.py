"""Indexes served over HTTP: REST, OpenAI's vector-store search, and MCP, in one process on one port."""

"""The commands of `ragindex`, one module per command."""

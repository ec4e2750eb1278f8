"""Where the project lies."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
"""The folder of pyproject.toml."""
SUPPORT = ROOT / "tests" / "support"

"""What commands read from their options."""

import pytest
import typer

from ragindex.cli import console, main
from ragindex.cli.console import explain_stop, parse_filters


def test_values_of_a_key_are_alternatives_in_all_their_spellings() -> None:
    assert parse_filters(["n=3.0", "kind=a=b", "n=True"]) == {"n": ("3.0", "True"), "kind": ("a=b",)}


def test_commands_that_ask_before_they_pay_keep_progress() -> None:
    commands = typer.main.get_command(main.app)
    options = {
        name: {option for parameter in main._load_command(point).params for option in parameter.opts}
        for name, point in commands._points.items()  # type: ignore[attr-defined]
    }
    ask_consent = {name for name, named in options.items() if "--yes" in named}
    assert {name for name, named in options.items() if "--dry-run" in named} <= ask_consent
    others = {"search", "ask", "estimate"}  # one question is asked; `estimate` says itself what is kept
    assert ask_consent - others == console._KEEP_PROGRESS - {"repair", "demo"}


def test_the_sentence_of_the_innermost_block_that_is_stopped_counts() -> None:
    with pytest.raises(console._Interrupt) as stopped, explain_stop("outer"):
        with explain_stop("finished"):
            pass
        with pytest.raises(SystemExit), explain_stop("left"):
            raise SystemExit
        with explain_stop("inner"):
            raise console._Interrupt(2)
    assert stopped.value.sentence == "inner"

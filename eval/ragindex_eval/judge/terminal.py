"""A judging session in the terminal: one key a document."""

from collections.abc import Callable

import typer
from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.rule import Rule
from rich.text import Text

from ragindex.cli.console import strip_controls
from ragindex.cli.hits import cut_to_match, mark_words
from ragindex.corpus.judgements import GRADES
from ragindex.retrieval.matching import find_question_words
from ragindex_eval.judge.session import GRADE_KEYS, JudgingItem, JudgingSession

HELP = "y yes   p partly   n no   u undo   q stop"
MORE = "   m more"
_WINDOW = 700
"""Characters of a passage that are shown until `m` is pressed."""


def judge_in_terminal(session: JudgingSession, console: Console, read_key: Callable[[], str] = typer.getchar) -> None:
    """Show document after document, and save the answer to each, until all are judged or `q` is pressed.

    Of long passages the part that matches the question is shown first, and `m` shows all of them.
    """
    uncut = False
    while (item := session.current()) is not None:
        console.print(render_item(item, session, uncut=uncut))
        key = _read_known(read_key)
        uncut = key == "m"
        if key == "q":
            return
        if uncut:
            continue
        if key == "u":
            session.undo()
        else:
            session.answer(GRADE_KEYS[key])
            console.print(Text(f"  {GRADES[GRADE_KEYS[key]]}", style="bold"))


def _read_known(read_key: Callable[[], str]) -> str:
    """Return the next key that has a meaning. Ctrl-C and Ctrl-D, which come as exceptions, mean `q`."""
    try:
        while (key := read_key().lower()) not in (*GRADE_KEYS, "u", "q", "m"):
            pass
        return key
    except (KeyboardInterrupt, EOFError):
        return "q"


def render_item(item: JudgingItem, session: JudgingSession, *, uncut: bool) -> RenderableType:
    """Return the question, the passages of the document or the parts of them that match, and the keys."""
    place = f"question {item.question_place} of {session.questions}, document {item.document_place} of "
    place += f"{len(item.question.documents)}; {session.judged} of {session.total} judged"
    words = find_question_words(item.question.text, session.language)
    texts = item.document.passages
    shown = texts if uncut else [cut_to_match(text, words, session.language, _WINDOW) for text in texts]
    passages = Text("\n\n[…]\n\n").join(mark_words(part, words, session.language) for part in shown)
    more = MORE * (list(shown) != list(texts))
    current = "" if item.grade is None else f"   (now: {GRADES[item.grade]})"
    return Group(
        Rule(Text(place), align="left"),
        Text(strip_controls(item.question.text), style="bold"),
        Panel(passages, title=Text(strip_controls(item.document.title)), title_align="left"),
        Text(f"Does it help to answer?  {HELP}{more}{current}"),
    )

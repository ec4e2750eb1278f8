"""Write docs/reference/prompts.md from prompts, tasks and docs/dev/prompts.toml: `python docs/make_prompts.py`."""

import importlib
import textwrap
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from jinja2 import Environment, meta

from ragindex.llm.output import schema_text
from ragindex.llm.tasks import Task, render_messages
from ragindex.llm.tokens import count_message_tokens, count_text_tokens

ROOT = Path(__file__).resolve().parents[1]
PAGE, NOTES, COMPARED = (
    ROOT / "docs" / name for name in ("reference/prompts.md", "dev/prompts.toml", "dev/prompts_compared.md")
)
PACKAGES = ("ragindex", "baselines/ragindex_baselines", "retrievers/ragindex_retrievers", "eval/ragindex_eval")
TITLES = {
    "ragindex/llm": "The reader",
    "ragindex/parts": "Parts that methods share",
    "retrievers": "GeAR and GRIEVER",
    "baselines": "The baselines",
    "eval": "Judging",
}
HEAD = """# Prompts

What each prompt asks, why, its tokens, and what changed since answers of a model to the earlier
wording were read one by one. Made by `python docs/make_prompts.py` from the prompts, their tasks
and `docs/dev/prompts.toml`. The prompts are this project's own text; where a paper prescribes what is
asked, the paper's way is the default.

*Tokens* are those of the messages with nothing of a corpus in them, and of the schema of the
answer, estimated at four characters a token; *before*, those of the earlier messages. *Limit* is
`max_tokens` of the answer.

An answer in the cache belongs to one text of a prompt: the hash of the prompt and the messages are
parts of its key, and of the identity of the parts that were made with it. A changed prompt never
gets an answer that was paid for with an earlier one, and what was made with the earlier one is
asked for again at the next sync.
"""


class Blank(str):
    """A text, passage or triple of which every attribute is empty."""

    number = 1
    title = text = subject = predicate = object = name = letter = ""
    statements = ()


def list_prompts() -> list[Path]:
    """The prompts of all packages, in the order of the page."""
    prompts = [path for package in PACKAGES for path in (ROOT / package).rglob("prompts/*.jinja")]
    order = {start: place for place, start in enumerate(TITLES)}
    return sorted(prompts, key=lambda path: (order[_title_key(_name(path))], _name(path)))


def find_tasks() -> dict[Path, Task[Any]]:
    """The task of each prompt: what the modules beside the folder `prompts` define."""
    modules = dict.fromkeys(module for path in list_prompts() for module in _modules_beside(path))
    return {task.prompt.resolve(): task for module in modules for task in _tasks_of(module)}


def _modules_beside(prompt: Path) -> Iterator[ModuleType]:
    for path in sorted(prompt.parents[1].glob("*.py")):
        if "Task" in path.read_text(encoding="utf-8"):
            package = next(ROOT / name for name in PACKAGES if path.is_relative_to(ROOT / name))
            yield importlib.import_module(".".join(path.relative_to(package.parent).with_suffix("").parts))


def _tasks_of(module: ModuleType) -> Iterator[Task[Any]]:
    for value in vars(module).values():
        for task in value.values() if isinstance(value, Mapping) else (value,):
            if isinstance(task, Task):
                yield task


def count_fixed_tokens(task: Task[Any]) -> int:
    """The tokens of a request without anything of a corpus: with one empty passage, and everything else empty."""
    return count_message_tokens(render_messages(task, blank_inputs(task)), "").tokens


def blank_inputs(task: Task[Any]) -> dict[str, Any]:
    """The inputs that a prompt names: one empty passage, and empty texts and lists."""
    source = task.prompt.read_text(encoding="utf-8")
    names = meta.find_undeclared_variables(Environment(autoescape=True).parse(source))
    return {name: [Blank()] if name == "passages" else Blank() for name in sorted(names)}


def page() -> str:
    """The whole page."""
    notes = tomllib.loads(NOTES.read_text(encoding="utf-8"))
    prompts, tasks = list_prompts(), find_tasks()
    lines = [HEAD, *_table(prompts, tasks, notes)]
    for start, title in TITLES.items():
        lines += [f"\n## {title}\n"]
        for path in prompts:
            if _title_key(_name(path)) == start:
                lines += _section(path, tasks[path], notes[_name(path)])
    compared = COMPARED.read_text(encoding="utf-8") if COMPARED.exists() else ""
    return "\n".join(lines).rstrip() + "\n" + (f"\n{compared}" if compared else "")


def _table(prompts: list[Path], tasks: Mapping[Path, Task[Any]], notes: Mapping[str, Any]) -> Iterator[str]:
    yield "| prompt | task | tokens | before | schema | limit |"
    yield "|---|---|---|---|---|---|"
    for path in prompts:
        task, before = tasks[path], notes[_name(path)].get("before", "")
        schema = count_text_tokens(schema_text(task.output), "").tokens
        link = f"[`{path.stem}`](../../{_name(path)})"
        yield f"| {link} | `{task.name}` | {count_fixed_tokens(task)} | {before} | {schema} | {task.max_tokens} |"


def _section(path: Path, task: Task[Any], note: Mapping[str, str]) -> Iterator[str]:
    yield f"### {path.stem}{'' if path.stem == task.name else f' ({task.name})'}\n"
    yield _fill(f"{note['asks']} {note['why']}") + "\n"
    if "changed" in note:
        yield _fill(f"*Changed*: {note['changed']}") + "\n"


def _fill(text: str) -> str:
    return textwrap.fill(" ".join(text.split()), 100, break_on_hyphens=False, break_long_words=False)


def _name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def _title_key(name: str) -> str:
    return next(start for start in TITLES if name.startswith(start))


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")

"""Write the reference pages, and the tables of parameters on the pages of methods: `python docs/make_reference.py`.

They are made from docstrings, plugins, commands, result types and docs/dev/environment.toml. A test compares them.
"""

import dataclasses
import inspect
import os
import re
import textwrap
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin, get_type_hints
from unittest.mock import patch

import click
import typer
from generated_pages import list_parameters, put_block, table
from pydantic import BaseModel
from pydantic.fields import FieldInfo

import ragindex
from ragindex.cli import main as command_line
from ragindex.cli.methods import docstring, parameters
from ragindex.errors import UsageError
from ragindex.index.parts import tasks_of, topological_order
from ragindex.interfaces import Part
from ragindex.plugins import registry
from ragindex.types import PartFigures
from ragindex_baselines.rerank.endpoint import Endpoint
from ragindex_baselines.rerank.rerankers import CrossEncoder, LanguageModel
from ragindex_eval.results import model

DOCS = Path(__file__).parent
REFERENCE, METHODS = DOCS / "reference", DOCS / "explanation" / "methods"
ENVIRONMENT, RESULT_FIELDS = DOCS / "dev" / "environment.toml", DOCS / "dev" / "result_fields.toml"
NOTE = "Made from the code by `python docs/make_reference.py`."
WIDTH = 100


def pages() -> dict[Path, str]:
    """The text of every page that is generated, or has a generated block, by its path."""
    texts = {
        "api.md": api(),
        "environment.md": environment(),
        "methods.md": methods(),
        "plugins.md": plugins(),
        "results-schema.md": results_schema(),
    }
    blocks = {path: put_block(path, "parameters", parameters_of(path)) for path in sorted(METHODS.glob("*.md"))}
    parts = REFERENCE / "parts.md"
    blocks[parts] = put_block(parts, "parts", part_tables())
    blocks[REFERENCE / "commands.md"] = put_block(REFERENCE / "commands.md", "commands", commands())
    return {**{REFERENCE / name: text for name, text in texts.items()}, **blocks}


# ---------------------------------------------------------------- texts


def fill(text: str) -> str:
    """A paragraph in lines of the usual width."""
    return textwrap.fill(" ".join(text.split()), WIDTH, break_on_hyphens=False, break_long_words=False)


def first_paragraph(text: str) -> str:
    """The first paragraph of a docstring on one line."""
    return " ".join(text.partition("\n\n")[0].split())


# ---------------------------------------------------------------- methods, parts and other plugins


def parameters_of(page: Path) -> Iterator[str]:
    """The table of the parameters of the methods that the title of a page names."""
    title = page.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")
    names = title.split(", ")
    rows: dict[tuple[str, ...], list[str]] = {}
    for name in names:
        for row in parameter_rows(registry.load_plugin("schemes", name)):
            rows.setdefault(row, []).append(name)
    if len(names) == 1:
        return table(("parameter", "default", "values", "meaning"), rows)
    of = {row: "all" if len(owners) == len(names) else ", ".join(owners) for row, owners in rows.items()}
    return table(("parameter", "of", "default", "values", "meaning"), [(row[0], of[row], *row[1:]) for row in rows])


def parameter_rows(plugin: type[BaseModel]) -> list[tuple[str, ...]]:
    """Name, default, values and meaning of the parameters of a plugin."""
    shown = [parameter for parameter in parameters(plugin) if parameter.name != "chunked"]
    return [
        (
            f"`{parameter.name}`",
            _format_default(parameter.default),
            _list_values(parameter.type),
            parameter.description,
        )
        for parameter in shown
    ]


def _format_default(default: str | None) -> str:
    """A default as code, without digits that say nothing."""
    if default is None:
        return "required"
    short = f"{float(default):.4g}" if re.fullmatch(r"0\.\d{6,}", default) else default
    return f"`{short}`" if short else ""


def _list_values(kind: str) -> str:
    """The values of a type as words: `a, b or c`, and its bounds."""
    choices, comma, bounds = kind.partition(", ") if not kind.startswith("[") else (kind, "", "")
    *others, last = choices.split(" | ")
    return f"{', '.join(others)} or {last}{comma}{bounds}" if others else kind


def methods() -> str:
    """The page of all methods."""
    rows = []
    for path in sorted(METHODS.glob("*.md")):
        for name in path.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ").split(", "):
            rows.append((name, path.name))
    cells = [_method_row(name, page) for name, page in sorted(rows)]
    heads = ("method", "what it does", "asks a model for a question", "index: asks a model", "index: encodes")
    text = (
        "Without a model (`--llm`), offline rules do the tasks that ask one. The columns for the index are of the "
        "method's default parameters: its [parts](parts.md) that ask a model, and those that encode texts. "
        "`ragindex methods NAME` prints the parameters of a method, and `ragindex estimate` what it costs on your "
        "documents."
    )
    return "\n".join(["# Methods", "", NOTE, "", fill(text), "", *table(heads, cells)]).rstrip() + "\n"


def _method_row(name: str, page: str) -> Sequence[str]:
    spec = f"{name}(url=https://search.example.org/search)" if name == "http" else name
    scheme = registry.scheme(spec)
    parts = topological_order(scheme.parts())
    return (
        f"[`{name}`](../explanation/methods/{page})",
        first_paragraph(docstring(type(scheme))),
        _list_code(task.name for task in tasks_of(scheme)) or "no",
        _list_code(registry.name_of(part) for part in parts if part.tasks()) or "no",
        _list_code(registry.name_of(part) for part in parts if "encoder" in part.uses) or "no",
    )


def _list_code(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in dict.fromkeys(names))


def part_tables() -> Iterator[str]:
    """The table of parts, and the parameters of each."""
    names = [name for name in registry.plugin_names("parts") if registry.is_ours("parts", name)]
    classes = {name: registry.load_plugin("parts", name) for name in names}
    heads = ("part", "made from", "asks", "searched by", "what it is")
    yield from table(heads, [_part_row(name, plugin) for name, plugin in classes.items()])
    for name, plugin in classes.items():
        rows = parameter_rows(plugin)
        if rows:
            yield from (f"### `{name}`", "", *_rest(plugin))
            yield from table(("parameter", "default", "values", "meaning"), rows)


def _part_row(name: str, plugin: type[Part[Any]]) -> Sequence[str]:
    try:
        part = registry.part(f"{name}:x" if plugin.argument else name)
    except UsageError:
        inputs = tasks = ""
    else:
        inputs = _list_code(map(registry.name_of, part.inputs()))
        tasks = _list_code(task.name for task in part.tasks())
    services = [f"the model: {tasks}"] if tasks else []
    services += ["the encoder"] if "encoder" in plugin.uses else []
    searched = "" if plugin.searched_by is None else ", ".join(sorted(plugin.searched_by)) or "no"
    what = first_paragraph(docstring(plugin))
    return f"`{name}`", inputs or "the documents", "; ".join(services) or "nothing", searched or "", what


def _rest(plugin: type[BaseModel]) -> Iterator[str]:
    """The docstring without its first paragraph."""
    for paragraph in docstring(plugin).split("\n\n")[1:]:
        yield from (fill(paragraph), "")


def plugins() -> str:
    """The page of encoders, language models, stores and rerankers."""
    titles: Mapping[registry.PluginGroup, tuple[str, str]] = {
        "encoders": ("Encoders", "--encoder"),
        "llms": ("Language models", "--llm"),
        "stores": ("Stores", "--store"),
    }
    lines = ["# Encoders, language models, stores and rerankers", "", NOTE, ""]
    for group, (title, option) in titles.items():
        lines += [f"## {title}", "", f"The values of `{option}`.", ""]
        for name in registry.plugin_names(group):
            if registry.is_ours(group, name):
                lines += _plugin(name, registry.load_plugin(group, name))
    rerankers = {"cross-encoder": CrossEncoder, "endpoint": Endpoint, "language-model": LanguageModel}
    lines += ["## Rerankers", "", "The values of `--reranker`, and of `reranker` of the method `rerank`.", ""]
    for name, reranker in rerankers.items():
        lines += _plugin(name, reranker)
    return "\n".join(lines).rstrip() + "\n"


def _plugin(name: str, plugin: type[BaseModel]) -> Iterator[str]:
    """A section with the docstring and the parameters of a plugin."""
    yield from (f"### `{name}`", "", fill(first_paragraph(docstring(plugin))), "", *_rest(plugin))
    with patch.dict(os.environ):
        os.environ.pop("OPENAI_BASE_URL", None)  # defaults that follow the environment
        os.environ.pop("RERANK_BASE_URL", None)
        rows = parameter_rows(plugin)
    yield from table(("parameter", "default", "values", "meaning"), rows) if rows else ()


# ---------------------------------------------------------------- commands and environment variables


def commands() -> Iterator[str]:
    """The table of commands, and the usage and options of each."""
    group: Any = typer.main.get_command(command_line.app)
    loaded = [_load_command(group, name) for name in group.commands]
    summaries = [first_paragraph(command.help or "") for command in loaded]
    links = [f"[`ragindex {command.name}`](#ragindex-{command.name})" for command in loaded]
    yield from table(("command", "what it does"), zip(links, summaries, strict=True))
    for command in loaded:
        yield from _command(command)


def _load_command(group: Any, name: str) -> click.Command:
    context = group.make_context("ragindex", [name], resilient_parsing=True)
    command: click.Command = group.resolve_command(context, [name])[1]
    return command


def _command(command: click.Command) -> Iterator[str]:
    context = click.Context(command, info_name=f"ragindex {command.name}")
    described, _, example = (command.help or "").partition("Example: ")
    yield from (f"## ragindex {command.name}", "")
    for paragraph in described.strip().split("\n\n"):
        yield from (fill(paragraph), "")
    yield from ("```text", f"Usage: {' '.join([context.command_path, *command.collect_usage_pieces(context)])}")
    yield from (*(["", "Example:", *example.strip().splitlines()] if example else []), "```", "")
    panels: dict[str, list[Sequence[str]]] = {"Arguments": [], "Options": []}
    for parameter in command.get_params(context):
        panel = getattr(parameter, "rich_help_panel", None) or "Options"
        record = parameter.get_help_record(context)
        if record is not None and record[0] != "--help":
            title = "Arguments" if parameter.param_type_name == "argument" else panel
            panels.setdefault(title, []).append(_option_row(*record))
    for title, rows in panels.items():
        if rows:
            yield from table((title.lower(), "meaning", "default and limits"), rows)


def _option_row(names: str, text: str) -> Sequence[str]:
    """Name, meaning and default of an option."""
    flags = re.sub(r"(?<![\w`-])(--?[a-z][\w-]*)", r"`\1`", names)
    meaning, limits = re.fullmatch(r"(.*?)(?:  \[([^\[\]]*)\])?", text, re.DOTALL).groups()  # type: ignore[union-attr]
    return flags, re.sub(r"(?<![`\w])(--[a-z][\w-]*)", r"`\1`", meaning).replace("*", r"\*"), limits or ""


def environment() -> str:
    """The page of environment variables."""
    text = (
        "Keys of models and of Elasticsearch, and its password, may come from a file outside the index: the variable "
        "with the suffix `_FILE` names it, as `OPENAI_API_KEY_FILE`. So may the keys that `ragindex serve` and "
        "`http(key=…)` name. "
        "A settings file of `compare` may use any variable as `${NAME}`."
    )
    lines = ["# Environment variables", "", NOTE, "", fill(text), ""]
    for group in tomllib.loads(ENVIRONMENT.read_text(encoding="utf-8"))["group"]:
        rows = [(f"`{row['name']}`", row["meaning"], row["default"] or "not set") for row in group["variable"]]
        lines += [f"## {group['title']}", "", *table(("variable", "meaning", "default"), rows)]
    return "\n".join(lines).rstrip() + "\n"


# ---------------------------------------------------------------- the results of a comparison

DROPPED = {
    model.MethodAnswer: {"query_id"},
    model.MethodResult: {"latency"},
    model.Latency: {"total"},
    model.Breakdown: {"latency", "calls"},
}
"""The declared fields that a type does not write; docs/dev/result_fields.toml has what it writes in their place."""
FILES = (
    ("`study.json`", "the comparisons of the study, and the command that reproduces it"),
    ("`comparison.json`", "the figures of all methods: a Comparison, as `--json` writes it"),
    ("`questions.jsonl`", "one line per question: text, gold and kind"),
    ("`per_query.jsonl`", "one line per method and question: a MethodAnswer with its scores"),
    (
        "`bounds.jsonl`, `failed.jsonl`",
        "the same for the reader's bounds, and for methods that failed",
    ),
    ("`qrels.trec`, `runs/LABEL.trec`", "gold, and rankings of documents, in the formats of TREC"),
    ("`report.html`", "the report"),
)


def results_schema() -> str:
    """The page of the values in result files."""
    text = (
        "`ragindex compare` writes these files into the folder of its results, and prints the figures with `--json`. "
        "Fields that most results have not are left out where they are empty. Metrics are fractions of 1."
    )
    lines = ["# Results schema", "", NOTE, "", fill(text), "", *table(("file", "what it holds"), FILES)]
    kinds = list(_reachable((model.Comparison, model.MethodAnswer)))
    for kind in kinds:
        lines += [f"## {kind.__name__}", "", *_summary(kind)]
        lines += table(("field", "type", "meaning"), field_rows(kind))
    return "\n".join(lines).rstrip() + "\n"


def field_rows(kind: type[Any]) -> list[tuple[str, str, str]]:
    """Name, type and meaning of every field that a type writes."""
    added = tomllib.loads(RESULT_FIELDS.read_text(encoding="utf-8"))["written"].get(kind.__name__, {})
    dropped = DROPPED.get(kind, set())
    hints = get_type_hints(kind, include_extras=True)
    meanings = _find_meanings(kind)
    own = [field.name for field in dataclasses.fields(kind) if field.init and not _is_excluded(hints[field.name])]
    rows = [(f"`{name}`", format_type(hints[name]), meanings.get(name, "")) for name in own if name not in dropped]
    return rows + [(f"`{name}`", kind, meaning) for name, (kind, meaning) in added.items()]


def _is_excluded(hint: Any) -> bool:
    return any(isinstance(part, FieldInfo) and part.exclude for part in getattr(hint, "__metadata__", ()))


def _reachable(kinds: Sequence[type[Any]]) -> Iterator[type[Any]]:
    """The types of results that the fields of `kinds` hold, each once, in the order of reading."""
    waiting, seen = list(kinds), set[type[Any]]()
    while waiting:
        kind = waiting.pop(0)  # the order of reading
        if kind not in seen:
            seen.add(kind)
            yield kind
            hints = get_type_hints(kind, include_extras=True)
            inner = [hints[field.name] for field in dataclasses.fields(kind) if field.init]
            waiting += [kind for hint in inner if not _is_excluded(hint) for kind in _types(hint)]


def _types(hint: Any) -> Iterator[type[Any]]:
    if inspect.isclass(hint) and dataclasses.is_dataclass(hint) and hint is not PartFigures:
        yield hint
    for inner in get_args(hint):
        yield from _types(inner)


def format_type(hint: Any) -> str:
    """A type in words of JSON."""
    inner = get_args(hint)
    if get_origin(hint) is Annotated:
        return format_type(inner[0])
    if get_origin(hint) is tuple:
        several = len(inner) == 2 and inner[1] is Ellipsis
        return f"list of {format_type(inner[0])}" if several else f"[{', '.join(map(format_type, inner))}]"
    if get_origin(hint) in (Mapping, dict):
        return f"object, {format_type(inner[0])} → {format_type(inner[1])}"
    if hint is type(None):
        return "null"
    if get_origin(hint) is not None and "Literal" in str(get_origin(hint)):
        return ", ".join(map(str, inner))
    if inner:
        return " or ".join(map(format_type, inner))
    return "any" if hint is Any else str(getattr(hint, "__name__", hint))


def _summary(kind: type[Any]) -> Iterator[str]:
    """The docstring without its list of fields and without the sentences that name fields."""
    names = {field.name for field in dataclasses.fields(kind)}
    for paragraph in _docstring(kind).split("\n\n"):
        if not paragraph.startswith("- "):
            others = [text for text in _split_sentences(paragraph) if names.isdisjoint(re.findall(r"`(\w+)`", text))]
            yield from (fill(" ".join(others)), "") if others else ()


def _find_meanings(kind: type[Any]) -> dict[str, str]:
    """What each field means, by docs/dev/result_fields.toml, else by the docstring: its list, or its first sentence."""
    written = tomllib.loads(RESULT_FIELDS.read_text(encoding="utf-8"))["meanings"]
    meanings = dict(written["any"])
    described = [base for base in reversed(kind.__mro__) if dataclasses.is_dataclass(base)]
    for base in described:
        prose = [text for text in _docstring(base).split("\n\n") if not text.startswith("- ")]
        for sentence in reversed([sentence for text in prose for sentence in _split_sentences(text)]):
            meanings |= dict.fromkeys(re.findall(r"`(\w+)`", sentence), sentence)
        for item in re.findall(r"^- (`.*?)(?=\n- |\n\n|\Z)", _docstring(base), re.DOTALL | re.MULTILINE):
            names, _, meaning = " ".join(item.split()).partition(": ")
            meanings |= dict.fromkeys(re.findall(r"`(\w+)`", names), meaning[:1].upper() + meaning[1:])
    return meanings | written.get(kind.__name__, {})


def _docstring(kind: type[Any]) -> str:
    """The docstring without its example, in words of JSON."""
    text = (inspect.getdoc(kind) or "").partition("\n\nExample:")[0]
    return text.replace("None", "null").replace("True", "true").replace("False", "false")


def _split_sentences(paragraph: str) -> list[str]:
    return re.split(r"(?<=\.) (?=[A-Z`])", " ".join(paragraph.split()))


# ---------------------------------------------------------------- the API


def api() -> str:
    """The page of the public names of `import ragindex`."""
    head = f"# API reference\n\nEverything that `import ragindex` offers. {NOTE}\n\n"
    text = head + "\n".join(line for name in ragindex.__all__ for line in _section(name, getattr(ragindex, name)))
    return re.sub(r"\n{3,}", "\n\n", text)


def _section(name: str, value: Any) -> Iterator[str]:
    yield from (f"## `ragindex.{name}{_parameters(value)}`", "", *_text(value))
    for method, function in vars(value).items() if inspect.isclass(value) else ():
        called = function.fget if isinstance(function, property) else function
        if inspect.isfunction(called) and not method.startswith("_"):
            written = method if isinstance(function, property) else f"{method}{_parameters(called)}"
            yield from (f"### `{name}.{written}`", "", *_text(called))


def _parameters(value: Any) -> str:
    """The parameters, but of `Index` and of errors, which applications do not make."""
    if inspect.isclass(value) and (value is ragindex.Index or issubclass(value, Exception)):
        return ""
    return list_parameters(value)


def _text(value: Any) -> Iterator[str]:
    """A docstring with its examples as code."""
    before, example, after = (inspect.getdoc(value) or "").partition("Example:\n")
    yield before.strip()
    if example:
        code = re.match(r"(?:(?: {4}.*)?\n?)*", after)
        assert code is not None  # noqa: S101  # it matches the empty text
        yield from ("", "```python", textwrap.dedent(code.group()).strip(), "```", "", after[code.end() :].strip())
    yield ""


if __name__ == "__main__":
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")

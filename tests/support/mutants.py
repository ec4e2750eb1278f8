"""Mutants of a module: which small changes of its code does no test notice?

    PYTHONPATH=tests/support python -m mutants FILE TESTS... --seed 46 --count 150 --out mutants.jsonl

Draws `count` of all mutants of FILE (`mutant_operators.py`), finds which of the TESTS of `make test` execute the
changed statement, and runs them, the files that take least first, until one fails. Each mutant has a process of its
own, forked from one that has collected the tests; nothing is written to FILE. OUT gets a line of JSON a mutant:
`killed_by` is the test that failed, `time limit`, or null for a survivor. Tests beyond `seconds` of processor time
are left out.
"""

import argparse
import ast
import gc
import json
import os
import random
import resource
import signal
import sys
import tempfile
import threading
import time
import types
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from importlib import import_module
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, settings
from mutant_operators import Mutant, find_mutants

_HEAVY = ("numpy", "pyarrow", "scipy.stats", "sklearn.linear_model", "pydantic", "hypothesis", "lancedb", "openai")
"""Imported once, before processes are forked for mutants of what runs when the module is imported."""
_WARM = ("-W", "ignore:Module already imported:pytest.PytestAssertRewriteWarning")
_HOUR = 3600
_APPEND = os.O_WRONLY | os.O_APPEND | os.O_CREAT
_DIED = "the process died"
_OPTIONS = ("-q", "-s", "-m", "not slow", "-p", "no:xdist", "-p", "no:cacheprovider", *_WARM)


def run_forked(work: Callable[[], Any], limit: float) -> Any:
    """Return what `work` returns in a process of its own, as JSON, or `time limit` after so many seconds of processor.

    The process prints nothing. It is also ended if it waits, on a busy machine, twenty times as long.
    """
    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder) / "answer.json"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # lancedb warns in each process
            child = os.fork()
        if not child:
            os.setsid()
            resource.setrlimit(resource.RLIMIT_CPU, (int(limit) + 1, int(limit) + 1))
            for stream in (1, 2):
                os.dup2(os.open(os.environ.get("MUTANTS_LOG", os.devnull), _APPEND), stream)
            try:
                answer.write_text(json.dumps(work()))
            finally:
                os._exit(0)
        end = time.monotonic() + 20 * limit
        while (ended := os.waitpid(child, os.WNOHANG)) == (0, 0):
            if time.monotonic() > end:
                os.killpg(child, signal.SIGKILL)
            time.sleep(0.01)
        if answer.exists():
            return json.loads(answer.read_text())
        return "time limit" if os.WIFSIGNALED(ended[1]) else _DIED


class Collected:
    """The collected tests, as a plugin of pytest that runs mutants in place of the tests."""

    def __init__(
        self, path: str, tree: ast.Module, mutants: Sequence[Mutant], seconds: float, save: Callable[..., None]
    ) -> None:
        self.path, self.tree, self.mutants, self.seconds, self.save = path, tree, mutants, seconds, save
        self.failed = False
        self.at_import: list[tuple[int, list[str], dict[str, int]]] = []

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection(self) -> None:
        """Let property tests stop at the first failure, without making it smaller."""
        settings.register_profile("mutants", settings.get_profile("ragindex"), phases=(Phase.explicit, Phase.generate))
        settings.load_profile("mutants")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note that a test failed."""
        self.failed |= report.failed

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Measure the tests, then run each mutant in a process of its own."""
        items = {item.nodeid: item for item in session.items}
        work = lambda: (dict(self._measure(list(items.values()))), _list_modules(self.path))  # noqa: E731
        measured, modules = run_forked(work, _HOUR)
        for name in modules:  # so that not each process imports what tests import late, and mutants have functions
            with suppress(ImportError):
                import_module(name)
        usable = {name: test for name, test in measured.items() if not test["failed"]}
        print(f"{len(items)} tests, {len(items) - len(usable)} of which fail")
        gc.unfreeze()
        functions = [f for f in gc.get_objects() if type(f) is types.FunctionType and _file(f) == self.path]
        gc.freeze()
        killers = dict[str, None]()
        for number, mutant in enumerate(self.mutants):
            covering = {name: test for name, test in usable.items() if mutant.runs_in(test["lines"])}
            names = self._choose(covering)
            counts = {"tests": len(covering), "left_out": len(covering) - len(names)}
            killed_by = _DIED if names and not mutant.in_function else None
            if names and mutant.in_function:
                chosen = [items[name] for name in names]
                work = lambda: self._swap(functions, mutant) and self._run(chosen)  # noqa: B023, E731  # runs at once
                killed_by = run_forked(work, 10 + 3 * sum(covering[name]["seconds"] for name in names))
            if killed_by == _DIED:  # it runs at import, or a closure cannot have code of another shape
                self.at_import.append((number, names, counts))
            else:
                self.save(number, **counts, killed_by=killed_by)
                killers |= {killed_by: None} if killed_by in items else {}
        unchanged = [items[name] for name in killers]
        print("fails without a mutant too:", run_forked(lambda: self._run(unchanged), _HOUR))
        return True

    def _measure(self, items: Sequence[pytest.Item]) -> Iterator[tuple[str, dict[str, Any]]]:
        lines = set[int]()

        def note_line(frame: types.FrameType, event: str, _: Any) -> Any:
            if frame.f_code.co_filename != self.path:
                return None
            lines.add(frame.f_lineno)
            return note_line

        threading.settrace(note_line)
        for place, item in enumerate(items):
            lines.clear()
            start, self.failed = time.process_time(), False
            sys.settrace(note_line)
            self._run_item(items, place)
            sys.settrace(None)
            seconds = time.process_time() - start
            yield item.nodeid, {"lines": sorted(lines), "seconds": seconds, "failed": self.failed}

    def _choose(self, covering: dict[str, Any]) -> list[str]:
        """Return the tests to run: those of the quickest files first, as many as fit the seconds."""
        files: dict[str, float] = {}
        for name, test in covering.items():
            files[name.split("::")[0]] = files.get(name.split("::")[0], 0.0) + test["seconds"]
        names, total = list[str](), 0.0
        for name in sorted(covering, key=lambda name: files[name.split("::")[0]]):
            total += covering[name]["seconds"]
            if names and total > self.seconds:
                break
            names.append(name)
        return names

    def _swap(self, functions: Sequence[types.FunctionType], mutant: Mutant) -> bool:
        """Give the functions of the module the code of the mutant."""
        with mutant.applied():
            codes = {(c.co_qualname, c.co_firstlineno): c for c in _nested(compile(self.tree, self.path, "exec"))}
        for function in functions:
            key = (function.__code__.co_qualname, function.__code__.co_firstlineno)
            if function.__name__ != "<lambda>" and codes[key] != function.__code__:
                function.__code__ = codes[key]
        return True

    def _run(self, items: Sequence[pytest.Item]) -> str | None:
        """Return the first test that fails."""
        for place, item in enumerate(items):
            self._run_item(items, place)
            if self.failed:
                return item.nodeid
        return None

    def _run_item(self, items: Sequence[pytest.Item], place: int) -> None:
        following = items[place + 1] if place + 1 < len(items) else None
        items[place].config.hook.pytest_runtest_protocol(item=items[place], nextitem=following)


def _list_modules(path: str) -> list[str]:
    """Return the imported modules that belong to no source of this project, and the one at `path`."""
    files = {name: getattr(module, "__file__", None) or "" for name, module in sys.modules.items()}
    return sorted(name for name, file in files.items() if "site-packages" in file or file == path)


def _file(function: types.FunctionType) -> str:
    return function.__code__.co_filename


def _nested(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _nested(constant)


def run_at_import(path: str, tree: ast.Module, mutant: Mutant, names: Sequence[str], folder: str) -> str | None:
    """Run tests where the module is imported as the mutant; return the first that fails."""
    with mutant.applied():
        code = compile(tree, path, "exec")
    get_code = SourceFileLoader.get_code
    SourceFileLoader.get_code = lambda self, name: code if self.path == path else get_code(self, name)  # type: ignore
    plugin = _Failures()
    ended = pytest.main([*_OPTIONS, "-x", f"--basetemp={folder}/tests", *names], plugins=[plugin])
    return plugin.names[0] if plugin.names else None if ended == pytest.ExitCode.OK else f"pytest: {ended}"


class _Failures:
    """The tests that failed, as a plugin of pytest."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note that a test failed."""
        if report.failed:
            self.names.append(report.nodeid)


def draw(path: str, seed: int, count: int) -> list[int]:
    """Return the numbers of `count` mutants of a module, or of all if there are fewer."""
    total = len(find_mutants(ast.parse(Path(path).read_text(encoding="utf-8"))))
    return sorted(random.Random(seed).sample(range(total), min(count, total)))


def run_mutants(path: str, tests: Sequence[str], drawn: Sequence[int], seconds: float, out: Path) -> None:
    """Write a record for each of the mutants of a module with the numbers `drawn`."""
    tree = ast.parse(Path(path).read_text(encoding="utf-8"))
    every = find_mutants(tree)
    mutants = [every[place] for place in drawn]
    print(f"{path}: {len(mutants)} of {len(every)} mutants")
    out.write_text("")

    def save(number: int, **outcome: Any) -> None:
        with out.open("a") as file:
            file.write(json.dumps({"number": drawn[number], **mutants[number].describe(), **outcome}) + "\n")

    with tempfile.TemporaryDirectory() as folder:

        def run_collected() -> Any:
            plugin = Collected(path, tree, mutants, seconds, save)
            ended = pytest.main([*_OPTIONS, f"--basetemp={folder}/tests", *tests], plugins=[plugin])
            return plugin.at_import if ended in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED) else repr(ended)

        at_import = run_forked(run_collected, 100 * _HOUR)
        if isinstance(at_import, str):
            sys.exit(f"The tests were not run: {at_import}; MUTANTS_LOG=FILE keeps what pytest prints.")
        for name in _HEAVY:
            import_module(name)
        for number, names, counts in at_import:
            work = lambda: run_at_import(path, tree, mutants[number], names, folder)  # noqa: B023, E731  # runs at once
            save(number, **counts, killed_by=run_forked(work, 30 + 3 * seconds))


def main() -> None:
    """Run the mutants that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("file")
    parser.add_argument("tests", nargs="+")
    for name, value in {"seed": 46, "count": 150, "seconds": 60.0}.items():
        parser.add_argument(f"--{name}", type=type(value), default=value)
    parser.add_argument("--numbers", type=int, nargs="+", help="of mutants to run, in place of drawn ones")
    parser.add_argument("--out", type=Path, default=Path("mutants.jsonl"))
    options = parser.parse_args()
    if missing := [test for test in options.tests if not Path(test.partition("::")[0]).exists()]:
        parser.error(f"no tests at {', '.join(missing)}")
    path = str(Path(options.file).resolve())
    drawn = options.numbers or draw(path, options.seed, options.count)
    run_mutants(path, options.tests, drawn, options.seconds, options.out)
    outcomes = [json.loads(line)["killed_by"] for line in options.out.read_text().splitlines()]
    print(f"{sum(map(bool, outcomes))} of {len(outcomes)} mutants killed; the others are in {options.out}")


if __name__ == "__main__":
    main()

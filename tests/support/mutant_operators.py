"""The mutants of a module: every small change of its code by a fixed set of operators (those of mutmut, roughly).

Texts, annotations and docstrings are left alone.
"""

import ast
import difflib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

_SWAPPED: dict[type[ast.AST], type[ast.AST]] = {
    **{ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq},
    **{ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.And: ast.Or, ast.Or: ast.And},
    **{ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Div},
    **{ast.Mod: ast.Div, ast.Pow: ast.Mult, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd},
}
_ANNOTATIONS = ("annotation", "returns")


@dataclass
class Mutant:
    """One change: `new` in place of the node at `field` (and `place`, in a list) of `parent`.

    `lines` are those of the statement, up to its body; `in_function` says whether it runs when a function is called.
    """

    tree: ast.Module
    operator: str
    parent: ast.AST
    field: str
    place: int | None
    new: ast.AST
    lines: range
    in_function: bool

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Have the change in the tree of the module."""
        former = getattr(self.parent, self.field)
        new = self.new if self.place is None else [*former[: self.place], self.new, *former[self.place + 1 :]]
        setattr(self.parent, self.field, new)
        try:
            yield
        finally:
            setattr(self.parent, self.field, former)

    def runs_in(self, executed: Sequence[int]) -> bool:
        """Return whether a test that executed these lines of the module's functions runs the change."""
        return any(line in self.lines for line in executed) if self.in_function else bool(executed)

    def describe(self) -> dict[str, Any]:
        """Return line, operator and difference, for a record."""
        before = ast.unparse(self.tree).splitlines()
        with self.applied():
            after = ast.unparse(self.tree).splitlines()
        changes = [line for line in difflib.ndiff(before, after) if line[0] in "+-"]
        return {"line": self.lines.start, "operator": self.operator, "diff": changes}


def find_mutants(tree: ast.Module) -> list[Mutant]:
    """Return all mutants of a module, in the order of its text."""
    return list(_visit(tree, tree, range(0), in_function=False))


def _visit(tree: ast.Module, parent: ast.AST, lines: range, *, in_function: bool) -> Iterator[Mutant]:
    for field, value in ast.iter_fields(parent):
        if field in _ANNOTATIONS:
            continue
        inside = in_function or (isinstance(parent, ast.FunctionDef | ast.AsyncFunctionDef) and field == "body")
        for place, node in enumerate(value if isinstance(value, list) else [value]):
            if not isinstance(node, ast.AST):
                continue
            own = _lines(node) if isinstance(node, ast.stmt) else lines
            for operator, new in _replacements(field, node, inside):
                ast.fix_missing_locations(ast.copy_location(new, node))
                yield Mutant(
                    tree, operator, parent, field, place if isinstance(value, list) else None, new, own, inside
                )
            yield from _visit(tree, node, own, in_function=inside)


def _lines(statement: ast.stmt) -> range:
    body = getattr(statement, "body", None)
    end = body[0].lineno if body else (statement.end_lineno or statement.lineno) + 1
    return range(statement.lineno, max(end, statement.lineno + 1))


def _replacements(field: str, node: ast.AST, in_function: bool) -> Iterator[tuple[str, ast.AST]]:
    if isinstance(node, ast.Call):
        yield from _without_arguments(node)
    elif isinstance(node, ast.stmt):
        yield from _replace_statement(node, in_function)
    else:
        yield from _replace_expression(node)
    if field in ("test", "ifs") and isinstance(node, ast.expr):
        yield "condition negated", ast.UnaryOp(ast.Not(), node)
    if field == "ifs":
        yield "condition removed", ast.Constant(value=True)


def _replace_expression(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    match node:
        case ast.UnaryOp(op=ast.Not() | ast.USub() | ast.Invert(), operand=operand):
            yield "operator removed", operand
        case ast.Constant(value=bool(value)):
            yield "constant", ast.Constant(value=not value)
        case ast.Constant(value=int(value) | float(value)):
            yield "constant", ast.Constant(value=value + 1)
    if type(node) in _SWAPPED:
        yield "operator", _SWAPPED[type(node)]()


def _replace_statement(node: ast.stmt, in_function: bool) -> Iterator[tuple[str, ast.AST]]:
    match node:
        case ast.Return(value=ast.expr()):
            yield "return None", ast.Return(value=ast.Constant(value=None))
        case ast.Assign(targets=targets):
            yield "assign None", ast.Assign(targets=targets, value=ast.Constant(value=None))
        case ast.AugAssign(target=target, value=value):
            yield "assign in place of adding", ast.Assign(targets=[target], value=value)
        case ast.Expr(value=ast.Call()):
            yield "call removed", ast.Pass()
    if isinstance(node, ast.Continue | ast.Break) and in_function:
        yield "loop", ast.Break() if isinstance(node, ast.Continue) else ast.Return(value=None)


def _without_arguments(call: ast.Call) -> Iterator[tuple[str, ast.AST]]:
    positional, named = call.args, call.keywords
    if len(positional) + len(named) < 2:
        return
    for place in range(len(positional)):
        rest = [*positional[:place], *positional[place + 1 :]]
        yield "argument removed", ast.Call(func=call.func, args=rest, keywords=named)
    for place in range(len(named)):
        yield "argument removed", ast.Call(call.func, positional, [*named[:place], *named[place + 1 :]])

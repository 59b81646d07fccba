"""Grammar: which expressions are constraints, checked before any is evaluated."""

import ast
from collections.abc import Collection, Iterator
from typing import Final

from simulator.documents import known
from simulator.sweep.operators import OPERATORS
from simulator.sweep.words import ConstraintError, Translation

MOST_DEPTH: Final = 40
"""Of brackets and operators inside one another."""
ALLOWED: Final = (
    *(ast.BoolOp, ast.And, ast.Or, ast.UnaryOp, ast.BinOp, ast.Compare, ast.IfExp),
    *(ast.Name, ast.Constant, ast.List, ast.Tuple, ast.Load),
    *OPERATORS,
)
LANGUAGE: Final = "a constraint has fields, values, comparisons, arithmetic, and, or, not and if"


def parsed(text: str, made: Translation, names: Collection[str]) -> ast.expr:
    """The tree of a constraint; raises ConstraintError for what is none.

    *names* are those that a field may have.
    """
    python = made.python.strip()
    cut = len(made.python) - len(made.python.lstrip())
    try:
        tree = ast.parse(python, mode="eval").body
    except (SyntaxError, RecursionError, MemoryError) as error:
        offset = getattr(error, "offset", None) or len(python)
        message = "this is no expression" if text.strip() else "a constraint has an expression"
        raise ConstraintError(message, made.place(offset - 1 + cut)) from error
    for node, what in _mistakes(tree, names):
        offset = getattr(node, "col_offset", None)
        raise ConstraintError(what, None if offset is None else made.place(offset + cut))
    return tree


def _mistakes(tree: ast.expr, names: Collection[str]) -> Iterator[tuple[ast.AST, str]]:
    """What is wrong, from the outside to the inside."""
    if not _is_condition(tree):
        yield tree, "this is neither true nor false; compare it with something"
    waiting: list[tuple[ast.AST, int]] = [(tree, 0)]
    while waiting:
        node, depth = waiting.pop()
        if depth > MOST_DEPTH:
            yield node, f"nested more than {MOST_DEPTH} deep"
        elif not isinstance(node, ALLOWED):
            yield node, f"{LANGUAGE}; this is something else"
        else:
            yield from _mistakes_of(node, names)
            waiting += [(child, depth + 1) for child in ast.iter_child_nodes(node)]


def _mistakes_of(node: ast.AST, names: Collection[str]) -> Iterator[tuple[ast.AST, str]]:
    for part in _conditions_of(node):
        if not _is_condition(part):
            yield part, "this is neither true nor false; compare it with something"
    if isinstance(node, ast.Compare) and not _names_a_field(node):
        values = [each.value for each in ast.walk(node) if isinstance(each, ast.Constant)]
        words = [value for value in values if isinstance(value, str)]
        near = f"; {known(words[0], names, 'field')}" if words else ""
        yield node, f"only {' and '.join(map(str, values))} are compared here{near}"
    for part in _numbers_of(node):
        if isinstance(part, ast.Constant) and isinstance(part.value, str):
            yield part, f"{part.value} is no field, and a text is not reckoned with"


def _is_condition(node: ast.AST) -> bool:
    """Whether *node* can be true or false; a field may be."""
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.op, ast.Not)
    if isinstance(node, ast.Constant):
        return isinstance(node.value, bool)
    return isinstance(node, ast.BoolOp | ast.Compare | ast.IfExp | ast.Name)


def _conditions_of(node: ast.AST) -> list[ast.expr]:
    """The parts of *node* that must be true or false."""
    if isinstance(node, ast.BoolOp):
        return node.values
    if isinstance(node, ast.IfExp):
        return [node.body, node.test, node.orelse]
    return [node.operand] if isinstance(node, ast.UnaryOp) and _is_condition(node) else []


def _numbers_of(node: ast.AST) -> list[ast.expr]:
    """The parts of *node* that are reckoned with."""
    if isinstance(node, ast.BinOp):
        return [node.left, node.right]
    return [node.operand] if isinstance(node, ast.UnaryOp) else []


def _names_a_field(node: ast.AST) -> bool:
    return any(isinstance(each, ast.Name) for each in ast.walk(node))

"""Operators of constraints: what they do to two values, and which values they refuse."""

import ast
import operator
from collections.abc import Callable
from typing import Any, Final

from simulator.documents import shown
from simulator.sweep.words import ConstraintError

Operator = Callable[..., Any]


def _of_numbers(function: Operator) -> Operator:
    """*function* for numbers alone: a text times a number may be longer than any memory."""

    def checked(*values: object) -> Any:  # noqa: ANN401 (a number)
        for value in values:
            if isinstance(value, bool) or not isinstance(value, int | float):
                message = f"only numbers are reckoned with, got {shown(value)}"
                raise ConstraintError(message)
        return function(*values)

    return checked


def _of_order(function: Operator) -> Operator:
    """*function* for two numbers or two texts."""

    def checked(left: object, right: object) -> bool:
        try:
            return bool(function(left, right))
        except TypeError as error:
            message = f"{shown(left)} and {shown(right)} have no order"
            raise ConstraintError(message) from error

    return checked


def _is_in(left: object, right: object) -> bool:
    if not isinstance(right, list | tuple):
        message = f"in needs a list, got {shown(right)}"
        raise ConstraintError(message)
    return left in right


OPERATORS: Final[dict[type[ast.AST], Operator]] = {
    ast.Add: _of_numbers(operator.add),
    ast.Sub: _of_numbers(operator.sub),
    ast.Mult: _of_numbers(operator.mul),
    ast.Div: _of_numbers(operator.truediv),
    ast.FloorDiv: _of_numbers(operator.floordiv),
    ast.Mod: _of_numbers(operator.mod),
    ast.USub: _of_numbers(operator.neg),
    ast.Not: operator.not_,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: _of_order(operator.lt),
    ast.LtE: _of_order(operator.le),
    ast.Gt: _of_order(operator.gt),
    ast.GtE: _of_order(operator.ge),
    ast.In: _is_in,
    ast.NotIn: lambda left, right: not _is_in(left, right),
}

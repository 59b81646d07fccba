"""Constraints: expressions over the fields of a point that say which points there are."""

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from simpleeval import EvalWithCompoundTypes

from simulator import batching, decoding, routers, workloads
from simulator.documents import DocumentError, Mistake, shown
from simulator.library import SHELVES
from simulator.scenario_fields import FieldAbsentError, FieldValues, ScenarioFields
from simulator.sweep.grammar import parsed
from simulator.sweep.operators import OPERATORS
from simulator.sweep.words import FIELD, ConstraintError, translated

REFUSED: Final = (FieldAbsentError, ConstraintError, ZeroDivisionError, OverflowError)
"""What the values of a point can make of a constraint."""


@dataclass(frozen=True)
class Constraint:
    """An expression that is true or false of a point."""

    text: str
    fields: tuple[str, ...]
    """The dotted fields that it names."""
    tree: ast.expr
    """Of Python's grammar; a name in it has the number of a field."""

    def holds(self, value_of: Callable[[str], Any]) -> bool:
        """Whether it is true with *value_of* each field; only those that it needs are asked for.

        Raises ConstraintError and ArithmeticError, and what *value_of* does.
        """
        evaluator = EvalWithCompoundTypes(
            operators=OPERATORS,
            functions={},
            names=lambda node: value_of(self.fields[int(node.id.removeprefix(FIELD))]),
        )
        found = evaluator.eval(self.text, previously_parsed=self.tree)
        if not isinstance(found, bool):
            message = f"comes to {shown(found)}, neither true nor false"
            raise ConstraintError(message)
        return found


@dataclass(frozen=True)
class Constraints:
    """All constraints of a sweep, which hold together."""

    every: tuple[Constraint, ...]
    values: FieldValues

    def hold(self, document: Mapping[str, Any]) -> bool:
        """Whether all are true of a scenario document; raises one of REFUSED."""
        return all(each.holds(self._values_of(document)) for each in self.every)

    def mistakes(self, document: Mapping[str, Any], point: str) -> Iterator[Mistake]:
        """The constraints that cannot be told of a *point*, and why."""
        for number, each in enumerate(self.every):
            try:
                each.holds(self._values_of(document))
            except REFUSED as error:
                what = f"{shown(each.text)} at {point}: {_words(error)}"
                yield Mistake(f"where[{number}]", what)

    def _values_of(self, document: Mapping[str, Any]) -> Callable[[str], Any]:
        return lambda dotted: self.values.value(document, dotted)


def _words(error: Exception) -> str:
    if isinstance(error, FieldAbsentError):
        return f"there is no {error.args[0]}; guard it: A if B holds where B does not"
    return str(error)


def constraints(texts: Sequence[str], known_fields: ScenarioFields, origin: str) -> Constraints:
    """The constraints that *texts* are; raises DocumentError with every wrong one."""
    names = _names()
    found, wrong = [], []
    for number, text in enumerate(texts):
        try:
            made = translated(text, known_fields, names)
            tree = parsed(text, made, known_fields.by_last_part)
            found.append(Constraint(text, tuple(made.fields), tree))
        except ConstraintError as error:
            wrong.append(Mistake(f"where[{number}]", f"{shown(text)} {error}"))
    if wrong:
        raise DocumentError(origin, wrong)
    return Constraints(tuple(found), FieldValues(known_fields))


def _names() -> frozenset[str]:
    """What a field may be compared with: the names of policies, models and all the rest."""
    shelves = [shelf.names() for shelf in SHELVES.values()]
    folders = [folder.names() for folder in (batching, decoding, routers, workloads)]
    return frozenset(name for names in (*shelves, *folders) for name in names)

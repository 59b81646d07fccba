"""Reading: a sweep's file with its scenario in place, checked whole before anything runs."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from simulator.documents import DocumentError, Mistake, as_mapping, check, read_mapping, shown
from simulator.scenario import with_settings
from simulator.scenario_fields import FieldValues, ScenarioFields, leaves, scenario_fields
from simulator.sweep.checks import mistakes_in, parts_of
from simulator.sweep.constraints import REFUSED, Constraints, constraints
from simulator.sweep.design import SEED, Front, SweepFile
from simulator.sweep.expansion import (
    Expansion,
    IntArray,
    PointSource,
    Product,
    check_size,
    product_of,
)
from simulator.sweep.fronts import fronts_of
from simulator.sweep.sample import drawn
from simulator.sweep.search import Search, mistakes_in_search
from simulator.sweep.spaces import space_of


@dataclass(frozen=True)
class Sweep:
    """A checked sweep: what is known before anything runs."""

    file: SweepFile
    """With the scenario itself."""
    base: Mapping[str, Any]
    source: PointSource
    varied: tuple[str, ...]
    """Fields that some points set, a section by its fields."""
    fronts: Mapping[str, Front]
    values: FieldValues

    @property
    def document(self) -> dict[str, Any]:
        """The sweep as a document that stands alone, but for what is as by default."""
        default = asdict(SweepFile(scenario={}))
        own = asdict(self.file)
        own["fronts"] = {name: asdict(front) for name, front in self.fronts.items()}
        return {name: v for name, v in own.items() if name == "scenario" or v != default[name]}

    def named(self, fields: Sequence[str]) -> dict[str, list[str]]:
        """What the points can say of each of the *fields*, texts only, each once."""
        leaf_values = _leaves_of_all(self.file, self.base)
        pairs = {
            pair: None for pair in leaf_values if pair[0] in fields and isinstance(pair[1], str)
        }
        return {field: [value for name, value in pairs if name == field] for field in fields}


def read_sweep(path: Path, settings: Mapping[str, Any]) -> Sweep:
    """The sweep of a file, *settings* put into its scenario.

    Raises DocumentError with every mistake, but for what only a combination of fields shows.
    """
    return sweep_of(read_mapping(path), path, settings)


def sweep_of(document: Mapping[str, Any], path: Path, settings: Mapping[str, Any]) -> Sweep:
    """The sweep that a *document* of that *path* describes, as `read_sweep` has it."""
    read, mistakes = check(SweepFile, document)
    if read is None:
        raise DocumentError(str(path), mistakes)
    base = with_settings(_scenario(read.scenario, path), settings)
    file = replace(read, scenario=base)
    known_fields = scenario_fields()
    findings = [*mistakes_in(file, base, known_fields), *_bad_spaces(file), *_bad_seed(file, base)]
    findings += mistakes_in_search(file)
    limits, wrong = _constraints(file, known_fields, path)
    findings += wrong
    try:
        fronts = fronts_of(file, str(path))
        check_size(file)
    except DocumentError as error:
        findings += error.mistakes
    except ValueError as error:
        findings.append(Mistake("", str(error)))
    if findings or limits is None:
        raise DocumentError(str(path), findings)
    return Sweep(
        file=file,
        base=base,
        source=_source(file, base, limits, str(path)),
        varied=_varied(file, known_fields),
        fronts=fronts,
        values=limits.values,
    )


def _scenario(scenario: dict[str, Any] | str, path: Path) -> dict[str, Any]:
    """The scenario itself; a path is from where the program runs, else from the sweep's folder."""
    if not isinstance(scenario, str):
        return as_mapping(scenario, f"{path}: scenario")
    beside = path.parent / scenario
    is_beside = not Path(scenario).exists() and beside.is_file()
    return read_mapping(beside if is_beside else Path(scenario))


def _constraints(
    file: SweepFile, known_fields: ScenarioFields, path: Path
) -> tuple[Constraints | None, Sequence[Mistake]]:
    try:
        return constraints(file.where, known_fields, str(path)), ()
    except DocumentError as error:
        return None, error.mistakes


def _bad_spaces(file: SweepFile) -> list[Mistake]:
    wrong = []
    for where, part in (("sample", file.sample), ("search", file.search)):
        for field, space in (part.fields if part else {}).items():
            try:
                space_of(space)
            except ValueError as error:
                wrong.append(Mistake(f"{where}.fields.{field}", str(error)))
    return wrong


def _bad_seed(file: SweepFile, base: Mapping[str, Any]) -> list[Mistake]:
    seed = base.get(SEED, 0)
    if isinstance(file.repeat, list) or (isinstance(seed, int) and not isinstance(seed, bool)):
        return []
    return [Mistake(f"scenario.{SEED}", f"must be an integer, got {shown(seed)}")]


def _seeds(file: SweepFile, base: Mapping[str, Any]) -> tuple[int, ...]:
    """The seeds of the repeats; none where the points say their own."""
    if any(SEED in part for _, part in parts_of(file)):
        return ()
    if isinstance(file.repeat, list):
        return tuple(file.repeat)
    first = int(base.get(SEED, 0))
    return tuple(range(first, first + file.repeat))


def _source(
    file: SweepFile, base: Mapping[str, Any], limits: Constraints, origin: str
) -> PointSource:
    """Where the points come from; raises DocumentError when no point is left."""
    seeds = _seeds(file, base)
    if file.search is not None:
        return Search(file.search, base=base, seeds=seeds, constraints=limits)
    product = product_of(file, seeds, drawn(file.sample) if file.sample else [])
    return Expansion(product, _kept(product, base, limits, origin))


def _kept(product: Product, base: Mapping[str, Any], limits: Constraints, origin: str) -> IntArray:
    """The numbers of the points that keep every constraint.

    Raises DocumentError when there is none, and for constraints that cannot be told of a point.
    """
    if not limits.every:
        return np.arange(len(product))
    kept: list[int] = []
    wrong: dict[str, Mistake] = {}
    for number in range(len(product)):
        point = product.point(number, number)
        document = point.document(base)
        try:
            if limits.hold(document):
                kept.append(number)
        except REFUSED:
            for mistake in limits.mistakes(document, point.words):
                wrong.setdefault(mistake.where, mistake)
    if wrong:
        raise DocumentError(origin, [wrong[where] for where in sorted(wrong)])
    if not kept:
        what = f"none of the {len(product):,} points keeps every constraint"
        raise DocumentError(origin, [Mistake("where", what)])
    return np.array(kept)


def _varied(file: SweepFile, known_fields: ScenarioFields) -> tuple[str, ...]:
    leaf_names = (dotted for _, part in parts_of(file) for dotted, _ in leaves(part))
    return tuple(dict.fromkeys(name for name in leaf_names if name in known_fields.names))


def _leaves_of_all(file: SweepFile, base: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """(field, value) of whatever can be in a scenario of the sweep."""
    settings = [base, *(part for _, part in parts_of(file))]
    return [leaf for part in settings for leaf in leaves(part)]

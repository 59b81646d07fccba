"""Points: measured throughputs or latencies in a CSV file, as the scenarios that they are of."""

import csv
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from simulator.calibrate import METRIC_TIMES, Point
from simulator.deployment import build
from simulator.documents import DocumentError, Mistake, parse, read_text
from simulator.published import cases, names, publication
from simulator.scenario import with_settings


def read_points(path: Path, *, engine: str) -> list[Point]:
    """Points of a CSV: scenario fields as dotted column names, and one column per metric.

    Every row has exactly one metric; an empty field is absent. *engine* is what the scenarios
    run on. Raises DocumentError with every mistake in every row.
    """
    lines = list(csv.reader(read_text(path).splitlines()))
    if len(lines) < 2:  # noqa: PLR2004 (a header and a row)
        raise DocumentError(str(path), [Mistake("", "a header and at least one row are needed")])
    header, mistakes, points = [name.strip() for name in lines[0]], [], []
    if not set(header) & set(METRIC_TIMES):
        what = f"no column with a measurement; known: {', '.join(METRIC_TIMES)}"
        raise DocumentError(str(path), [Mistake("header", what)])
    for number, line in enumerate(lines[1:], start=2):
        if not any(field.strip() for field in line):
            continue
        try:
            points.append(_point(f"{path} line {number}", header, line, engine))
        except DocumentError as error:
            mistakes += [Mistake(f"line {number}: {m.where}", m.what) for m in error.mistakes]
    if mistakes:
        raise DocumentError(str(path), mistakes)
    return points


def _point(label: str, header: Sequence[str], line: Sequence[str], engine: str) -> Point:
    if len(line) != len(header):
        what = f"has {len(line)} fields, the header {len(header)}"
        raise DocumentError(label, [Mistake("", what)])
    given = {name: text.strip() for name, text in zip(header, line, strict=True) if text.strip()}
    metrics = [name for name in given if name in METRIC_TIMES]
    if len(metrics) != 1:
        what = f"exactly one of {', '.join(METRIC_TIMES)} is needed, got {len(metrics)}"
        raise DocumentError(label, [Mistake("", what)])
    measured = _positive(label, metrics[0], given.pop(metrics[0]))
    settings = {name: parse(text, label) for name, text in given.items()}
    scenario = with_settings({"engine": engine}, settings)
    build(scenario, label)
    return Point(label, scenario, metrics[0], measured)


def _positive(label: str, name: str, text: str) -> float:
    """The number in *text*; a CSV has no YAML rules, so 4.8e12 is one."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        what = f"must be a finite number above 0, got {text!r}"
        raise DocumentError(label, [Mistake(name, what)])
    return value


def published_points(engine: str) -> list[Point]:
    """The published cells that calibrate *engine*; raises DocumentError when there are none."""
    found: list[Point] = []
    for name in names():
        for case in cases(publication(name)):
            if case.used_for_calibration_of == engine and case.published is not None:
                label = f"{case.paper} table {case.table}, {case.cell}"
                scenario: dict[str, Any] = case.scenario
                found.append(Point(label, scenario, case.metric, case.published))
    if not found:
        raise DocumentError(engine, [Mistake("", "no published cell calibrates this engine")])
    return found

"""Points: measured throughputs or latencies in a CSV file, as the scenarios that they are of."""

import csv
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from simulator.calibrate import METRIC_TIMES, Point
from simulator.deployment import Deployment, build
from simulator.documents import DocumentError, Mistake, parse, read_text, shown
from simulator.published import cases, names, publication
from simulator.scenario import is_field, with_settings


def read_points(path: Path, *, engine: str) -> list[Point]:
    """Points of a CSV: scenario fields as dotted column names, and one column per metric.

    Every row has exactly one metric; an empty field is absent. *engine* is what the scenarios
    run on. Raises DocumentError with every mistake in every row.
    """
    lines = _lines(path)
    if len(lines) < 2:  # noqa: PLR2004 (a header and a row)
        raise DocumentError(str(path), [Mistake("", "a header and at least one row are needed")])
    header, mistakes, points = [name.strip() for name in lines[0]], [], []
    if wrong := _header_mistakes(header):
        raise DocumentError(str(path), wrong)
    for number, line in enumerate(lines[1:], start=2):
        if not any(field.strip() for field in line):
            continue
        try:
            points.append(_point(f"{path} line {number}", header, line, engine))
        except DocumentError as error:
            mistakes += [Mistake(f"line {number}", str(m)) for m in error.mistakes]
    if mistakes:
        raise DocumentError(str(path), mistakes)
    return points


def _lines(path: Path) -> list[list[str]]:
    """The fields of every line; raises DocumentError when the file is not CSV."""
    # Spreadsheets put a byte order mark in front.
    text = read_text(path).removeprefix("\ufeff")
    try:
        return list(csv.reader(text.splitlines()))
    except csv.Error as error:
        raise DocumentError(str(path), [Mistake("", f"not readable as CSV: {error}")]) from error


def _header_mistakes(header: Sequence[str]) -> list[Mistake]:
    mistakes = [
        Mistake("header", f"a column is given once, got {shown(name)} {times} times")
        for name, times in Counter(header).items()
        if name and times > 1
    ]
    mistakes += [
        Mistake("header", f"a column is a dotted field, such as decode.block, got {shown(name)}")
        for name in header
        if name and not is_field(name)
    ]
    if not set(header) & set(METRIC_TIMES):
        what = f"no column with a measurement; known: {', '.join(METRIC_TIMES)}"
        mistakes.append(Mistake("header", what))
    return mistakes


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
    scenario = with_settings({"engine": engine}, _settings(label, given))
    _check_metric(build(scenario, label), metrics[0], label)
    return Point(label, scenario, metrics[0], measured)


def _settings(label: str, given: Mapping[str, str]) -> dict[str, Any]:
    """The YAML values of the fields; raises DocumentError with every one that is none."""
    settings, mistakes = {}, []
    for name, text in given.items():
        try:
            settings[name] = parse(text, label)
        except DocumentError as error:
            mistakes += [Mistake(name, str(mistake)) for mistake in error.mistakes]
    if mistakes:
        raise DocumentError(label, mistakes)
    return settings


def _check_metric(deployment: Deployment, metric: str, label: str) -> None:
    """Raise DocumentError when the scenario's requests are over before *metric* has a value."""
    workload = deployment.scenario.workload
    schedule = deployment.schedule(deployment.example)
    emissions = bool(schedule.prefill_emits_tokens) + int((schedule.emitted_tokens > 0).sum())
    least = {"tpot_s": emissions > 1, "step_latency_s": schedule.n_steps > 0}
    if not least.get(metric, True):
        tokens = f"{workload.output_tokens} output tokens come out at once"
        raise DocumentError(label, [Mistake(metric, f"has no value: {tokens}; ask for more")])


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

"""Calibrate: an engine's overheads from measured throughputs or latencies.

For a closed workload every time is piecewise linear in the overheads, since they change no
decision of the engine: exactly linear in all but host_pass_s, which acts only where it exceeds a
pass's kernels. So each round finds the slopes by one run per parameter and solves a bounded
linear least-squares problem of the relative errors; without host_pass_s one round is exact.
"""

import contextlib
import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import yaml
from scipy.optimize import lsq_linear

from simulator.deployment import Deployment, build
from simulator.documents import DocumentError, Mistake, known
from simulator.engine import simulate
from simulator.engine_profile import Calibration, EngineProfile, Overhead
from simulator.metrics import summarise

FloatArray = npt.NDArray[np.float64]

# Metrics that a point may give, and the time that is linear in the overheads.
METRIC_TIMES: dict[str, Callable[[Mapping[str, Any]], float]] = {
    "output_tokens_per_s": lambda metrics: 1 / metrics["output_tokens_per_s"],
    "tpot_s": lambda metrics: metrics["tpot_s"]["mean"],
    "step_latency_s": lambda metrics: metrics["step_latency_s"]["mean"],
    "latency_s": lambda metrics: metrics["latency_s"]["mean"],
}
RATES = frozenset({"output_tokens_per_s"})
# The one overhead that acts as a floor.
HOST = "host_pass_s"
MOST_ROUNDS = 4
PROBE_S = {"logit_s": 1e-10}
DEFAULT_PROBE_S = 1e-3
CRUMB = 1e-6


@dataclass(frozen=True)
class Point:
    """A scenario document and what was measured for it."""

    label: str
    scenario: Mapping[str, Any]
    metric: str
    measured: float

    @property
    def time(self) -> float:
        """The measurement as a time, seconds (per token for a rate)."""
        return 1 / self.measured if self.metric in RATES else self.measured


@dataclass(frozen=True)
class Fit:
    """The calibrated profile and each point's predicted value."""

    engine: EngineProfile
    predicted: tuple[float, ...]


def calibrate(
    points: Sequence[Point],
    base: EngineProfile,
    fitted: Sequence[str],
    *,
    source: str,
    progress: Callable[[], None] = lambda: None,
) -> Fit:
    """Fit the overheads named in *fitted* to *points*, all others zero; none comes out negative.

    Raises DocumentError when there are fewer points than parameters or a scenario is wrong.
    """
    if len(points) < len(fitted):
        what = f"{len(points)} points cannot fix {len(fitted)} parameters: {', '.join(fitted)}"
        raise DocumentError("calibrate", [Mistake("", what)])
    deployments = [build(point.scenario, point.label) for point in points]
    measured = np.array([point.time for point in points])
    values = dict.fromkeys(fitted, 0.0)
    if HOST in fitted:
        values[HOST] = _longest_pass_s(deployments, points, base)
    for _ in range(MOST_ROUNDS if HOST in fitted else 1):
        values, times = _round(deployments, points, base, values)
        progress()
    errors = np.abs(measured / times - 1)
    engine = dataclasses.replace(
        base,
        overhead=Overhead(**values),
        calibration=Calibration(
            source=source,
            fitted=tuple(fitted),
            points=len(points),
            median_residual=rounded(float(np.median(errors))),
            p90_residual=rounded(float(np.percentile(errors, 90))),
            worst_residual=rounded(float(errors.max())),
        ),
    )
    predicted = tuple(
        1 / time if point.metric in RATES else time
        for point, time in zip(points, map(float, times), strict=True)
    )
    return Fit(engine, predicted)


def parameters(words: str) -> list[str]:
    """The overheads named in comma-separated *words*; raises DocumentError for unknown ones."""
    chosen = [word.strip() for word in words.split(",") if word.strip()]
    choices = Overhead.names()
    wrong = [Mistake("--fit", known(w, choices, "overhead")) for w in chosen if w not in choices]
    if len(set(chosen)) < len(chosen) or not chosen:
        wrong.append(Mistake("--fit", f"name each overhead once, got {words!r}"))
    if wrong:
        raise DocumentError("calibrate", wrong)
    return chosen


def write(engine: EngineProfile, path: Path) -> None:
    """Write an engine profile that a scenario can name by its path; an old file is replaced whole.

    Raises DocumentError when it cannot be written.
    """
    document = {
        name: value
        for name, value in json.loads(json.dumps(dataclasses.asdict(engine))).items()
        if value is not None
    }
    text = yaml.dump(document, Dumper=EngineDumper, sort_keys=False, width=100)
    draft = path.with_name(f".{path.name}.draft")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        draft.write_text(text, encoding="utf-8")
        draft.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            draft.unlink(missing_ok=True)
        what = f"cannot be written: {error.strerror}"
        raise DocumentError(str(path), [Mistake("", what)]) from error


class EngineDumper(yaml.SafeDumper):
    """Short lists on one line, and exponents that YAML 1.1 reads as numbers."""


def _number(dumper: yaml.SafeDumper, value: float) -> yaml.Node:
    text = f"{value:.6g}"
    mantissa, exponent, power = text.partition("e")
    if "." not in mantissa:
        mantissa += ".0"
    return dumper.represent_scalar("tag:yaml.org,2002:float", mantissa + exponent + power)


def _short_list(dumper: yaml.SafeDumper, value: list[Any]) -> yaml.Node:
    return dumper.represent_sequence("tag:yaml.org,2002:seq", value, flow_style=True)


EngineDumper.add_representer(float, _number)
EngineDumper.add_representer(list, _short_list)


def rounded(value: float) -> float:
    """Four significant figures: the fit knows no more."""
    return float(f"{value:.4g}")


def _round(
    deployments: Sequence[Deployment],
    points: Sequence[Point],
    base: EngineProfile,
    values: Mapping[str, float],
) -> tuple[dict[str, float], FloatArray]:
    """Better values from the slopes at *values*, and the times that the slopes give for them."""
    measured = np.array([point.time for point in points])

    def times(changed: Mapping[str, float]) -> FloatArray:
        overhead = Overhead(**changed)
        return np.array(
            [_time(d, base, overhead, p.metric) for d, p in zip(deployments, points, strict=True)]
        )

    here = times(values)
    slopes = np.stack(
        [
            (times({**values, name: value + _probe_s(name)}) - here) / _probe_s(name)
            for name, value in values.items()
        ],
        axis=1,
    )
    blind = [name for name, column in zip(values, slopes.T, strict=True) if not column.any()]
    if blind:
        raise DocumentError(
            "calibrate", [Mistake(f"--fit {name}", "no point depends on it") for name in blind]
        )
    at_zero = here - slopes @ np.array(list(values.values()))
    solution = lsq_linear(slopes / measured[:, None], 1 - at_zero / measured, bounds=(0, np.inf))
    better = {
        # The solver's bound leaves crumbs behind.
        name: rounded(value) if value > CRUMB * _probe_s(name) else 0.0
        for name, value in zip(values, solution.x, strict=True)
    }
    return better, at_zero + slopes @ np.array(list(better.values()))


def _probe_s(name: str) -> float:
    return PROBE_S.get(name, DEFAULT_PROBE_S)


def _longest_pass_s(
    deployments: Sequence[Deployment], points: Sequence[Point], base: EngineProfile
) -> float:
    """A host_pass_s at which every point waits for the host, so that its slope can be seen."""
    return max(
        point.time / _time(d, base, Overhead(), point.metric) * _kernel_step_s(d, base)
        for d, point in zip(deployments, points, strict=True)
    )


def _kernel_step_s(deployment: Deployment, base: EngineProfile) -> float:
    return _time(deployment, base, Overhead(), "step_latency_s")


def _time(deployment: Deployment, base: EngineProfile, overhead: Overhead, metric: str) -> float:
    engine = dataclasses.replace(base, overhead=overhead, calibration=None)
    run = simulate(dataclasses.replace(deployment, engine=engine), keep_steps=False)
    return METRIC_TIMES[metric](summarise(run.records))

"""Cost of a sweep: points a second with one worker and with two, and where a point's time goes.

Run with `python -m benchmarks.sweep [--points 1000]` in the repository; it takes 2 cores, minutes.
The points are Qwen3-8B in the 13 speculative configurations of Uno's table 18, 1024 tokens in and
8192 out, by concurrency and by GPU. Each number of workers is the whole command as a process of its
own, from its start to the table on disk. The baseline, in the same run, is what there is to do
without a sweep: `blockcast run` once for each point. Machines are shared: read several runs.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from simulator.deployment import build
from simulator.documents import read_mapping
from simulator.result import run
from simulator.sweep.expansion import Point
from simulator.sweep.folder import journal_of
from simulator.sweep.reading import Sweep, read_sweep
from simulator.sweep.table import row_of

ROOT = Path(__file__).parents[1]
UNO = ROOT / "simulator/published/uno.yaml"
CONCURRENCIES = range(1, 27)
"""All of which fit into every GPU."""
GPUS = ("h100-sxm", "h200-sxm", "b200-sxm")
LOAD = {"kind": "closed", "prompt_tokens": 1024, "output_tokens": 8192}
APART = 40
"""Points that are timed part by part, and runs of the baseline."""


def sweep_document(points: int) -> dict[str, Any]:
    """About so many *points*: whole concurrencies, as many as it takes."""
    table = read_mapping(UNO)["tables"][0]
    columns = {name: own for name, own in table["columns"].items() if name != "ar"}
    each = len(columns) * len(GPUS)
    loads = [
        LOAD | {"concurrency": users, "requests": users}
        for users in CONCURRENCIES[: max(1, round(points / each))]
    ]
    return {
        "scenario": table["base"],
        "points": [{"name": name} | own for name, own in columns.items()],
        "grid": {"workload": loads, "hardware": list(GPUS)},
    }


@dataclass(frozen=True)
class Cost:
    """What a way of running all points takes."""

    wall_s: float
    core_s: float
    """Of all its processes; on a busy machine this is the one to read."""

    def __mul__(self, times: float) -> "Cost":
        """The same again and again."""
        return Cost(self.wall_s * times, self.core_s * times)


def blockcast(*arguments: object) -> Cost:
    """The command as a process, from its start to its end."""
    command = [sys.executable, "-m", "simulator", *map(str, arguments)]
    began, spent = time.perf_counter(), children_s()
    subprocess.run(command, check=True, cwd=ROOT, capture_output=True)  # noqa: S603 (our own)
    return Cost(time.perf_counter() - began, children_s() - spent)


def children_s() -> float:
    """Processor seconds of all processes that were waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def some(sweep: Sweep) -> list[Point]:
    """Points from all over the sweep."""
    points = list(next(sweep.source.batches()))
    return points[:: max(1, len(points) // APART)]


def parts(sweep: Sweep, folder: Path) -> dict[str, float]:
    """Processor seconds of a point: to read its scenario, to simulate, to keep the row."""
    points, spent = some(sweep), {"reading": 0.0, "simulating": 0.0, "keeping": 0.0}
    with journal_of(folder, sweep, resume=False) as journal:
        for point in points:
            times = [time.process_time()]
            deployment = build(point.document(sweep.base), "benchmark")
            times.append(time.process_time())
            summary = run(deployment, keep_steps=False).summary
            times.append(time.process_time())
            journal.append(point.index, row_of(summary, deployment.gpus, None, is_priced=False))
            times.append(time.process_time())
            for name, before, after in zip(spent, times, times[1:], strict=False):
                spent[name] += (after - before) / len(points)
    return spent


def alone(sweep: Sweep, folder: Path) -> Cost:
    """A point, where each is a process; the mean of some."""
    points, file = some(sweep), folder / "alone.yaml"
    costs = []
    for point in points:
        file.write_text(yaml.safe_dump(point.document(sweep.base)), encoding="utf-8")
        costs.append(blockcast("run", file, "--json"))
    whole = Cost(sum(cost.wall_s for cost in costs), sum(cost.core_s for cost in costs))
    return whole * (1 / len(points))


def main() -> None:
    """Print a line for each way, then the parts of a point."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--points", type=int, default=1000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        path = folder / "sweep.yaml"
        path.write_text(json.dumps(sweep_document(options.points)), encoding="utf-8")
        sweep = read_sweep(path, {})
        count = len(sweep.source)
        print(f"{f'{count} points':32s} {'s':>7s} {'points/s':>9s} {'core s':>7s}")
        row("a process for each (of a share)", alone(sweep, folder) * count, count)
        costs = {}
        for workers in (1, 2):
            out = folder / f"out{workers}"
            costs[workers] = blockcast("sweep", path, "--out", out, "--workers", workers)
            row(f"sweep, {workers} worker{'s'[: workers - 1]}", costs[workers], count)
        print(f"two workers are {costs[1].wall_s / costs[2].wall_s:.2f} times as fast as one")
        spent = parts(sweep, folder / "parts")
        told = ", ".join(f"{name} {1e3 * each:.2f}" for name, each in spent.items())
        print(f"a point, in ms of a core: {told}")


def row(words: str, cost: Cost, count: int) -> None:
    """A line of the table."""
    each = count / cost.wall_s
    print(f"{words:32s} {cost.wall_s:7.1f} {each:9.1f} {cost.core_s:7.1f}", flush=True)


if __name__ == "__main__":
    main()

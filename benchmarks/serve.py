"""Cost of simulating a served load: processor time and memory, and how they grow.

Run with `python -m benchmarks.serve` in the repository; it takes one core, minutes. Every case
is a process of its own, so that its peak memory is its own; time is the processor's, from the
scenario's document to the summary, imports left out. The baseline, in the same run, is the plain
loop that looks at every row at every step (`one_by_one`), which tests hold to the same records.
Machines are shared: read the fastest of several visits.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from typing import Any

from simulator.deployment import build
from simulator.engine import simulate
from simulator.result import run

VISITS = 3
LOAD = {
    "kind": "poisson",
    "rate_per_s": 8.0,
    "requests": 10_000,
    "prompt_tokens": 1024,
    "output_tokens": 256,
}
SCENARIO: dict[str, Any] = {
    "model": "llama-3-8b",
    "hardware": "h100-sxm",
    "engine": "ideal",
    "decode": {"policy": "ar"},
    "batching": {"mode": "continuous", "max_batch": 128},
    "workload": LOAD,
}
MEBIBYTE = 2.0**20
PAGE_BYTES = 1024.0
"""ru_maxrss is in kibibytes on Linux."""

Case = tuple[str, dict[str, Any], bool]


def with_load(**changes: object) -> dict[str, Any]:
    """The scenario under another load."""
    return SCENARIO | {"workload": LOAD | changes}


def cases(*, whole: bool) -> list[Case]:
    """(name, scenario, whether by the plain loop)."""
    found: list[Case] = [
        ("100 requests, plain loop", with_load(requests=100), True),
        ("100 requests", with_load(requests=100), False),
        ("1,000 requests", with_load(requests=1_000), False),
        ("10,000 requests", SCENARIO, False),
        ("100,000 requests", with_load(requests=100_000), False),
        ("10,000 at 2 per second", with_load(rate_per_s=2.0), False),
        ("10,000 at 16 per second", with_load(rate_per_s=16.0), False),
        ("10,000 at 20 per second, overloaded", with_load(rate_per_s=20.0), False),
        ("10,000 of 64 tokens out", with_load(output_tokens=64), False),
        (
            "10,000 of 1,024 tokens out, 4 per second",
            with_load(output_tokens=1024, rate_per_s=4.0),
            False,
        ),
        ("10,000 on vllm (mixed, growing)", SCENARIO | {"engine": "vllm"}, False),
        ("10,000 over 4 replicas", with_load(rate_per_s=32.0) | {"parallel": {"dp": 4}}, False),
        (
            "10,000 over 4, least loaded",
            with_load(rate_per_s=32.0) | {"parallel": {"dp": 4}, "router": "least-loaded"},
            False,
        ),
    ]
    if whole:
        found.append(("1,000,000 requests", with_load(requests=1_000_000), False))
    return found


def measured(scenario: dict[str, Any], *, plain: bool) -> dict[str, float]:
    """One visit, in this process."""
    start = time.process_time()
    deployment = build(scenario, "benchmark")
    if plain:
        records = simulate(deployment, one_by_one=True, keep_steps=False).records
        requests = len(records.requests)
        forwards = float(records.timeline.whole.forwards.sum())
    else:
        metrics = run(deployment, keep_steps=False).summary["metrics"]
        requests = metrics["requests_finished"]
        forwards = metrics["forwards"]
    return {
        "seconds": time.process_time() - start,
        "memory_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * PAGE_BYTES,
        "requests": requests,
        "forwards": forwards,
    }


def visited(scenario: dict[str, Any], *, plain: bool) -> dict[str, float]:
    """One visit, in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.serve", "--visit", json.dumps(scenario)]
    if plain:
        command.append("--plain")
    answer = subprocess.run(  # noqa: S603 (this very file)
        command, check=True, capture_output=True, text=True
    )
    found: dict[str, float] = json.loads(answer.stdout)
    return found


def main() -> None:
    """Print a table, or one visit as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--visit", help="a scenario as JSON, measured in this process")
    parser.add_argument("--plain", action="store_true", help="by the plain loop")
    parser.add_argument("--whole", action="store_true", help="also a million requests")
    options = parser.parse_args()
    if options.visit:
        print(json.dumps(measured(json.loads(options.visit), plain=options.plain)))
        return
    print(f"{'case':42s} {'s':>7s} {'us/request':>11s} {'us/forward':>11s} {'MiB':>6s}")
    for name, scenario, plain in cases(whole=options.whole):
        visits = [visited(scenario, plain=plain) for _ in range(1 if plain else VISITS)]
        best = min(visits, key=lambda visit: visit["seconds"])
        each = 1e6 * best["seconds"] / best["requests"]
        step = 1e6 * best["seconds"] / best["forwards"]
        memory = best["memory_bytes"] / MEBIBYTE
        print(f"{name:42s} {best['seconds']:7.2f} {each:11.1f} {step:11.2f} {memory:6.0f}")


if __name__ == "__main__":
    main()

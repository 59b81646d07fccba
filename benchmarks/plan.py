"""How long a plan takes: candidates side by side in one process and in two, run by run.

    python benchmarks/plan.py [--requests 2000] [--trace FILE]

Eight candidates (four policies on two GPUs) for a request trace at twice its rate; without a file
for Poisson arrivals. Two processes are held against one in the same run, and both against trying
every number of replicas up to the answer, which is what there is to do without a search.
"""

import argparse
import time
from pathlib import Path
from typing import Any

from simulator.execution.pool import pool_of
from simulator.plan.candidates import candidates_of
from simulator.plan.objective import objectives_of
from simulator.plan.plan import Question, plan

ROOT = Path(__file__).parents[1]
GENERATED = {"kind": "poisson", "rate_per_s": 10.0, "prompt_tokens": 1024, "output_tokens": 256}
LIMITS = ("ttft_p99=500ms", "tpot_p99=15ms")


def scenario(trace: str | None, requests: int) -> dict[str, Any]:
    """The base of every candidate."""
    load = GENERATED if trace is None else {"kind": "trace", "file": trace, "rate_scale": 2.0}
    return {
        "model": "qwen3-8b",
        "hardware": "h100-sxm",
        "engine": "vllm",
        "decode": {"policy": "ar"},
        "workload": load | {"requests": requests},
    }


def timed(base: dict[str, Any], workers: int) -> tuple[float, dict[str, Any]]:
    """Seconds from nothing to the answer, and the answer."""
    candidates = candidates_of(base, ROOT / "examples/candidates/qwen3-8b.yaml", {})
    began = time.perf_counter()
    with pool_of(workers) as pool:
        answer = plan(base, candidates, Question(objectives=objectives_of(LIMITS)), pool)
    return time.perf_counter() - began, answer


def main() -> None:
    """Print a line for each number of processes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--trace")
    arguments = parser.parse_args()
    base = scenario(arguments.trace, arguments.requests)
    seconds = {}
    for workers in (1, 2):
        seconds[workers], answer = timed(base, workers)
        runs = answer["effort"]["runs"]
        print(
            f"{workers} processes: {seconds[workers]:.1f} s, {len(answer['rows'])} candidates, "
            f"{runs} runs, {seconds[workers] * workers / runs:.2f} s of a process a run"
        )
    print(f"speed-up {seconds[1] / seconds[2]:.2f}")
    least = answer["effort"]["least_seeds"]
    plain = sum(least * row["replicas"] for row in answer["rows"] if row["is_met"])
    print(f"every number of replicas up to the answer, {least} seeds each: {plain} runs")
    for row in answer["rows"]:
        print(f"  {row['name']}: {row.get('replicas', row['reason'])} replicas, {row['runs']} runs")


if __name__ == "__main__":
    main()

"""Seconds of simulation per million request-steps, against pricing every step on its own.

Run with `python benchmarks/steps.py`. The baseline, in the same run, is the same engine with
stretches of one step. Both print wall time; machines are shared, so read the ratio.
"""

import time

from simulator import engine
from simulator.deployment import Deployment, build

ROWS = (1, 16, 64)
OUTPUT_TOKENS = 2048


def deployment(rows: int) -> Deployment:
    """Qwen3-8B with Uno's linear sampler on one H200."""
    workload = {"concurrency": rows, "prompt_tokens": 1024, "output_tokens": OUTPUT_TOKENS}
    document = {
        "model": "qwen3-8b",
        "hardware": "h200-sxm",
        "decode": {"policy": "uno-linear", "block": 4, "tokens_per_step": 3.89},
        "workload": {"kind": "closed", **workload},
    }
    return build(document, "benchmark")


def timed(what: Deployment, stretch_steps: int) -> tuple[float, int]:
    """Wall seconds and decode steps of one simulation."""
    engine.STRETCH_STEPS = stretch_steps
    start = time.perf_counter()
    replica = engine.simulate(what)
    return time.perf_counter() - start, len(replica.decode_end_s)


def main() -> None:
    """Print a line per batch size."""
    print("rows  steps  us/step  us/step one by one  ratio")
    stretch = engine.STRETCH_STEPS
    for rows in ROWS:
        what = deployment(rows)
        fast_s, steps = timed(what, stretch)
        slow_s, _ = timed(what, 1)
        fast_us, slow_us = (1e6 * seconds / steps for seconds in (fast_s, slow_s))
        print(f"{rows:4d} {steps:6d} {fast_us:8.1f} {slow_us:19.1f} {slow_us / fast_us:6.1f}")


if __name__ == "__main__":
    main()

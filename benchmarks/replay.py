"""Cost of replaying traces of blocks, and how far their predictions were from captures.

Run with `python -m benchmarks.replay` in the repository; it takes one core. The baseline, in the
same run, is the naive machine of the tests: one request, one block and one number at a time.
Machines are shared: read ratios, and the fastest of several visits.
"""

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from simulator.replay.block_pace import BlockPace
from simulator.replay.block_summary import replay_blocks
from simulator.request import Request
from tests.simulator.replay.naive_blocks import Block, Recorded, Text, Update, Wave
from tests.simulator.replay.shipped_blocks import fresh, parameters_of, shipped
from traces.block_tables import LOCAL_LISTS
from traces.block_trace import BlockTrace

WAVE = "ref-gwd-w3-t0.3"
EXACT = (WAVE, "ref-single-block-m0.9", "ref-block-buffer-n3-a0.5-m0.7", "ref-multi-block")
RESAMPLED = (WAVE, "ref-single-block-m0.9", "ref-block-buffer-n3-a0.5-m0.7")
OUTPUT_TOKENS = (256, 1024, 4096)
ROWS = (1, 32)
SOURCES = {
    "gwd-w": ("ref-gwd-w4-t0.0", "ref-gwd-w4-t0.3", "ref-gwd-w3-t0.3", "ref-gwd-w2-t0.6"),
    "block-buffer-": (
        "ref-block-buffer-n4-a0.1-m0.7",
        "ref-block-buffer-n4-a0.5-m0.7",
        "ref-block-buffer-n3-a0.1-m0.7",
        "ref-block-buffer-n2-a0.5-m0.7",
    ),
    "multi-block-": ("ref-multi-block-m0.7",),
    "d2f-": ("ref-d2f-a0.1-m0.7", "ref-d2f-a0.7-m0.7"),
}
VISITS = 3


def fastest_s(call: Callable[[], object]) -> float:
    """The shortest of some wall times, after one that does not count."""
    call()
    times = []
    for _ in range(VISITS):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


def texts_of(trace: BlockTrace) -> list[Text]:
    """The captured requests as the naive machine has them, each on its own blocks."""
    blocks = trace.blocks.to_pylist()
    made: list[Text] = []
    for row in trace.requests.to_pylist():
        ended, limit = row["finish_reason"] == "end", trace.manifest.output_limit_tokens
        lengths = (row["prompt_tokens"], row["output_tokens"])
        text = Text(row["request"], *lengths, ended, limit, trace.manifest.block_tokens)
        own = [block for block in blocks if block["request"] == row["request"]]
        for block, captured in zip(text.blocks, own, strict=False):
            _begin(block, captured)
        made.append(text)
    return made


def _begin(block: Block, captured: dict[str, Any]) -> None:
    steps = zip(*(captured[name] for name in LOCAL_LISTS), strict=True)
    block.admitted, block.updates = captured["admitted"], [Update(*step) for step in steps]


def naive(trace: BlockTrace, parameters: Any) -> tuple[int, float]:  # noqa: ANN401 (of the policy)
    """(forwards, seconds) of a wavefront by the naive machine, which reads the same trace."""
    captured, again = texts_of(trace), texts_of(trace)
    number = 0
    for text in again:
        for block in text.blocks:
            if block.admitted >= 0:
                block.recorded, number = number, number + 1
            block.admitted, block.updates = -1, []
    start = time.perf_counter()
    oracle = Recorded(captured)
    for text in again:
        Wave([text], oracle, parameters).run()
    return sum(text.count for text in again), time.perf_counter() - start


def print_exact() -> None:
    """Captured requests again, and the same by the naive machine."""
    print("exact replay                    forwards      ms  us/forward")
    for name in EXACT:
        trace = shipped(name)
        seconds = fastest_s(lambda trace=trace: replay_blocks(trace, {}))  # type: ignore[misc]
        _line(name, replay_blocks(trace, {}).forwards, seconds)
    trace, parameters = shipped(WAVE), parameters_of("gwd", WAVE)
    visits = [naive(trace, parameters) for _ in range(VISITS)]
    _line(f"{WAVE}, naive", visits[0][0], min(seconds for _, seconds in visits))


def _line(name: str, forwards: int, seconds: float) -> None:
    print(f"{name:30s} {forwards:9d} {1e3 * seconds:7.1f} {1e6 * seconds / forwards:11.2f}")


def print_resampled() -> None:
    """Requests of other lengths, alone and in groups, and how that grows with their length."""
    print("\nresampled                         rows  tokens  ms/request  us/token")
    for name in RESAMPLED:
        policy = shipped(name).manifest.policy
        pace = BlockPace(shipped(name), policy, parameters_of(policy, name))
        for rows in ROWS:
            for tokens in OUTPUT_TOKENS:
                asked = [Request(row, 100, tokens) for row in range(rows)]
                seconds = fastest_s(
                    lambda pace=pace, asked=asked: pace.schedules(asked)  # type: ignore[misc]
                )
                per_ms, per_us = 1e3 * seconds / rows, 1e6 * seconds / rows / tokens
                print(f"{name:32s} {rows:5d} {tokens:7d} {per_ms:11.2f} {per_us:9.2f}")


def print_errors() -> None:
    """Error in tokens per forward, and over batches, of every source at every fresh setting."""
    print("\ncounterfactual: error % in tokens per forward, (in forwards of batches), share drawn")
    for prefix, sources in SOURCES.items():
        targets = [name for name in fresh() if name.startswith(prefix)]
        for source in sources:
            print(source)
            sizes = np.abs([_error(source, target) for target in targets])
            print(f"  mean magnitude {sizes.mean():.1f}, largest {sizes.max():.1f}")


def _error(source: str, target: str) -> float:
    capture = fresh()[target]
    asked = capture["settings"] | {"policy": capture["decoder"]}
    found = replay_blocks(shipped(source), asked)
    error = 100 * (found.tokens_per_forward / capture["tokens_per_forward"] - 1)
    batches = 100 * (found.batch_forwards / capture["batch_forwards"] - 1)
    print(f"  {target:28s} {error:6.1f}  ({batches:6.1f})  {found.drawn_share:.3f}")
    return float(error)


def main() -> None:
    """Print the tables."""
    print_exact()
    print_resampled()
    print_errors()


if __name__ == "__main__":
    main()

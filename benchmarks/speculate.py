"""Cost of a step of every speculative decoder, and tokens a second, against plain decoding.

Run with `python benchmarks/speculate.py [PROBLEMS]`; it takes one core. The baseline, in the same
run, is autoregression at the same batch. Forwards are timed by kind, and within them what is
written to, moved in or kept of the KV caches; sampling is all that decoders do between forwards.
Machines are shared: read ratios, and shares of the time.
"""

import sys
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import torch

from kernels_ref import passes
from kernels_ref.capture.plan import Plan
from kernels_ref.capture.prompts import held_out
from kernels_ref.capture.source import shipped_path, source_at
from kernels_ref.decoders import policy
from kernels_ref.decoding import reference
from kernels_ref.decoding.batch import decode_batch
from kernels_ref.drafting import dflash

PROBLEMS = 32
BATCHES = (1, 8, 32)
RUNS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("ar", {}),
    ("uno-linear", {"block": 8}),
    ("uno-tree", {"block": 16, "tree_size": 32}),
    ("eagle3-linear", {"block": 4}),
    ("eagle3-tree", {"block": 8, "top_k": 8, "tree_size": 32}),
    ("dflash", {"block": 8}),
    ("self-speculation", {"block": 8}),
)
PARTS = ("draft", "verify", "sampling", "cache")


class Stopwatch:
    """Seconds by part of a step, and forwards by kind."""

    def __init__(self) -> None:
        """Begin at zero."""
        self.spent: Counter[str] = Counter()
        self.forwards: Counter[str] = Counter()
        self._cache_s = 0.0

    def timed(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """*function*, its time counted as work on the cache."""

        def call(*given: Any, **named: Any) -> Any:  # noqa: ANN401 (whatever it is)
            start = time.perf_counter()
            answer = function(*given, **named)
            self._cache_s += time.perf_counter() - start
            return answer

        return call

    def model(self, model: Any) -> Any:  # noqa: ANN401 (any model)
        """*model*, its forwards counted and timed by kind, without their work on the cache."""
        forward = model.forward

        def call(queries: Any, cache: Any) -> Any:  # noqa: ANN401 (see Model)
            kind = next(query.kind for query in queries if query is not None)
            start, before = time.perf_counter(), self._cache_s
            answer = forward(queries, cache)
            cache_s = self._cache_s - before
            self.spent[kind] += time.perf_counter() - start - cache_s
            self.forwards[kind] += 1
            return answer

        model.forward = call
        return model

    def finish(self, whole_s: float) -> None:
        """Split what is left of *whole_s* into the cache and sampling."""
        self.spent["cache"] = self._cache_s
        self.spent["sampling"] = whole_s - sum(self.spent.values())


def watched(stopwatch: Stopwatch) -> None:
    """Time whatever writes or moves entries of a cache."""
    for module, name in (
        (passes, "scatter_kv"),
        (dflash, "scatter_kv"),
        (reference, "move_kv"),
    ):
        inner = getattr(module, name)
        setattr(module, name, stopwatch.timed(getattr(inner, "unwatched", inner)))
        getattr(module, name).unwatched = getattr(inner, "unwatched", inner)


def decoded(name: str, settings: dict[str, Any], batch: int, problems: int) -> dict[str, float]:
    """Decode the problems, *batch* at a time: tokens, iterations, seconds, and where they went."""
    module = policy(name)
    plan = Plan(
        name=name,
        policy=module,
        parameters=module.Parameters(**settings),
        source=source_at(shipped_path(module.CHECKPOINT), family=None, dtype="float32", threads=1),
        prompts=held_out(problems, seed=0),
        task="",
        batch=batch,
        seed=0,
        output_tokens=112,
        dtype="float32",
    )
    stopwatch = Stopwatch()
    watched(stopwatch)
    model = stopwatch.model(plan.source.model)
    tokens = iterations = 0
    start = time.perf_counter()
    for first in range(0, problems, batch):
        requests: list[Any] = [plan.request(i) for i in range(first, min(first + batch, problems))]
        decode_batch(model, requests, module.decode(requests, plan.parameters))
        tokens += sum(len(request.output()) for request in requests)
        iterations += max(len(request.record.iterations) for request in requests)
    whole_s = time.perf_counter() - start
    stopwatch.finish(whole_s)
    return {
        "tokens": tokens,
        "iterations": iterations,
        "forwards": sum(stopwatch.forwards.values()),
        "whole_s": whole_s,
        **{part: stopwatch.spent[part] for part in PARTS},
    }


def main() -> None:
    """Print one line a decoder and batch."""
    torch.set_num_threads(1)
    problems = int(sys.argv[1]) if len(sys.argv) > 1 else PROBLEMS
    print("                             over batches           ms a step")
    print(
        "decoder           batch  forwards  steps     draft verify sampling cache  tokens/s  to ar"
    )
    plain = {}
    for name, settings in RUNS:
        for batch in BATCHES:
            found = decoded(name, settings, batch, problems)
            rate = found["tokens"] / found["whole_s"]
            plain.setdefault(batch, rate)
            step = "".join(
                f"{1e3 * found[part] / found['iterations']:{width}.1f}"
                for part, width in zip(PARTS, (10, 7, 9, 6), strict=True)
            )
            counts = f"{found['forwards']:9.0f}{found['iterations']:7.0f}"
            print(f"{name:17s}{batch:6d}{counts}{step}{rate:10.0f}{rate / plain[batch]:7.2f}")


if __name__ == "__main__":
    main()

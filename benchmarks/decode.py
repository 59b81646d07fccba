"""Cost of a forward of the reference model, and of decoding a batch packed against row by row.

Run with `python benchmarks/decode.py [CHECKPOINT.yaml]`; it takes one core. The baseline of
packed decoding, in the same run, is the same problems decoded alone, one after another. Machines
are shared: read ratios, and the fastest of several visits.
"""

import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from kernels_ref.capture.prompts import held_out
from kernels_ref.checkpoint import CHECKPOINTS, read_checkpoint
from kernels_ref.decoders import policy
from kernels_ref.decoding.batch import decode_batch
from kernels_ref.decoding.query import Query
from kernels_ref.decoding.reference import ReferenceModel, reference_model
from kernels_ref.decoding.sequence import Sequence

PREFIX_TOKENS = 64
SHAPES = ((1, 1), (1, 16), (1, 32), (8, 16), (8, 32), (32, 16), (32, 32))
BATCHES = (1, 8, 32)
PROBLEMS = 32
VISITS = 5


def fastest_s(call: Callable[[], object], visits: int = VISITS) -> float:
    """The shortest of some wall times, after one that does not count."""
    call()
    times = []
    for _ in range(visits):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


def forward_s(model: ReferenceModel, rows: int, queries: int) -> float:
    """One forward of *rows* rows of *queries* tokens behind a prefix."""
    cache = model.new_cache(rows, PREFIX_TOKENS + queries)
    horizon = np.full(queries, PREFIX_TOKENS + queries)
    tokens = np.zeros(queries, dtype=np.int64)
    query = Query("denoise", PREFIX_TOKENS, tokens, horizon, queries)
    return fastest_s(lambda: model.forward([query] * rows, cache))


def decoded(model: ReferenceModel, name: str, batch: int, settings: dict[str, Any]) -> int:
    """Decode the problems, *batch* at a time; how many tokens came out."""
    module = policy(name)
    parameters = module.Parameters(**settings)
    prompts = held_out(PROBLEMS, seed=0)
    tokens = 0
    for first in range(0, PROBLEMS, batch):
        sequences = [
            Sequence(
                prompt.tokens,
                facts=model.facts,
                block_tokens=model.facts.block_tokens,
                output_tokens=112,
                from_prompt=module.PROMPT != "block-causal",
            )
            for prompt in prompts[first : first + batch]
        ]
        decode_batch(model, sequences, module.decode(sequences, parameters))
        tokens += sum(sequence.output_tokens() for sequence in sequences)
    return tokens


def timed_parts(model: ReferenceModel) -> SimpleNamespace:
    """Seconds that *model* spends on masks, on layers, and in all, from now on."""
    spent = SimpleNamespace(plans=0.0, states=0.0, forward=0.0)

    def wrap(owner: object, method: str) -> None:
        inner = getattr(owner, method)

        def call(*args: object, **kwargs: object) -> object:
            start = time.perf_counter()
            answer = inner(*args, **kwargs)
            setattr(spent, method, getattr(spent, method) + time.perf_counter() - start)
            return answer

        setattr(owner, method, call)

    wrap(model.decoder, "plans")
    wrap(model.decoder, "states")
    wrap(model, "forward")
    return spent


def main() -> None:
    """Print the tables."""
    torch.set_num_threads(1)
    given = Path(sys.argv[1]) if len(sys.argv) > 1 else CHECKPOINTS / "self-correcting.yaml"
    model = reference_model(read_checkpoint(given))
    print("rows  queries  ms/forward  us/token")
    for rows, queries in SHAPES:
        seconds = forward_s(model, rows, queries)
        each = 1e6 * seconds / rows / queries
        print(f"{rows:4d} {queries:8d} {1e3 * seconds:11.2f} {each:9.1f}")
    print("\npolicy           batch  tokens/s  against alone  masks  layers  head  decoder")
    for name, settings in (("single-block", {}), ("joint-threshold", {}), ("gwd", {})):
        alone = 0.0
        for batch in BATCHES:
            fresh = reference_model(read_checkpoint(given))
            spent = timed_parts(fresh)
            start = time.perf_counter()
            tokens = decoded(fresh, name, batch, settings)
            whole = time.perf_counter() - start
            alone = alone or tokens / whole
            parts = (
                spent.plans,
                spent.states,
                spent.forward - spent.plans - spent.states,
                whole - spent.forward,
            )
            shares = "".join(f"{100 * part / whole:7.0f}" for part in parts)
            rate = tokens / whole
            print(f"{name:16s} {batch:5d} {rate:9.0f} {rate / alone:14.2f} {shares}")


if __name__ == "__main__":
    main()

"""Traces of iterations made of what each accepted, complete and sound by every rule."""

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any

import numpy as np
import pyarrow as pa

from tests.traces import tiny_iterations
from traces.iteration_trace import FORM, IterationTrace
from traces.rules import contradictions

Accepted = Sequence[Sequence[int]]
"""Accepted drafts of every iteration of every request."""
PROMPT_TOKENS = 4


def _requests(emitted: Accepted) -> dict[str, Any]:
    """Each begins with one token and ends with an end token."""
    count = len(emitted)
    iterations = [len(mine) for mine in emitted]
    output = [[7] * sum(mine) for mine in emitted]
    return {
        "request": range(count),
        "problem": range(count),
        "batch": range(count),
        "row": [0] * count,
        "prompt_tokens": [PROMPT_TOKENS] * count,
        "output_tokens": [len(tokens) for tokens in output],
        "iterations": iterations,
        "prefill_forwards": [1] * count,
        "draft_forwards": iterations,
        "verify_forwards": iterations,
        "finish_reason": ["end"] * count,
        "correct": [None] * count,
        "valid": [None] * count,
        "output": output,
    }


def _iterations(accepted: Accepted, emitted: Accepted, uncut: Accepted) -> dict[str, Any]:
    before = [list(accumulate(mine, initial=PROMPT_TOKENS))[:-1] for mine in emitted]
    return {
        "request": [n for n, mine in enumerate(accepted) for _ in mine],
        "iteration": [n for mine in accepted for n in range(len(mine))],
        "prefix_tokens": [each for mine in before for each in mine],
        "accepted": [each for mine in accepted for each in mine],
        "emitted": [each for mine in emitted for each in mine],
        "cut": [
            a != b
            for kept, most in zip(emitted, uncut, strict=True)
            for a, b in zip(kept, most, strict=True)
        ],
    }


def _steps(accepted: Accepted) -> dict[str, Any]:
    forwards = [
        (request, iteration, kind)
        for request, mine in enumerate(accepted)
        for iteration, kind in [
            (-1, "prefill"),
            *((n, kind) for n in range(len(mine)) for kind in ("draft", "verify")),
        ]
    ]
    ones = [1] * len(forwards)
    named = {name: [0 * one for one in ones] for name in FORM.schemas["steps"].names}
    return named | {
        "request": [request for request, *_ in forwards],
        "step": [n for mine in accepted for n in range(1 + 2 * len(mine))],
        "iteration": [iteration for _, iteration, _ in forwards],
        "kind": [kind for *_, kind in forwards],
        "query_tokens": ones,
    }


def _verify(steps: dict[str, Any], iterations: Mapping[str, Any], guaranteed: int) -> None:
    """Let every verification take the nodes of its iteration, behind what is stored."""
    verified = [n for n, kind in enumerate(steps["kind"]) if kind == "verify"]
    stored = zip(iterations["prefix_tokens"], iterations["nodes"], strict=True)
    for step, (prefix_tokens, nodes) in zip(verified, stored, strict=True):
        steps["query_tokens"][step] = nodes + 1
        steps["prefix_tokens"][step] = prefix_tokens + guaranteed - 1


def iteration_trace(
    accepted: Accepted,
    drafts: int | Sequence[int],
    *,
    guaranteed: int = 1,
    nodes: int | Sequence[int] | None = None,
    emitted: Accepted | None = None,
    **manifest: Any,
) -> IterationTrace:
    """The trace of requests that accepted so many of *drafts*, one number or one by iteration.

    *nodes* make trees of the drafts, fewer *emitted* in the last iterations cut them, *manifest*
    fields replace those of the tiny trace.
    """
    total = sum(map(len, accepted))
    drafted = np.broadcast_to(drafts, total).tolist()
    verified = np.broadcast_to(drafted if nodes is None else nodes, total).tolist()
    uncut = [[each + guaranteed for each in mine] for mine in accepted]
    kept = uncut if emitted is None else emitted
    drafting = {"drafted": drafted, "nodes": verified}
    columns = {
        "requests": _requests(kept),
        "iterations": _iterations(accepted, kept, uncut) | drafting,
        "steps": _steps(accepted),
    }
    _verify(columns["steps"], columns["iterations"], guaranteed)
    tables = {
        name: pa.table({n: pa.array(v, schema.field(n).type) for n, v in columns[name].items()})
        .select(schema.names)
        .cast(schema)
        for name, schema in FORM.schemas.items()
    }
    counted = ("output_tokens", "iterations", "prefill_forwards", "draft_forwards")
    counts = {name: sum(columns["requests"][name]) for name in (*counted, "verify_forwards")}
    forwards = len(accepted) + 2 * total
    batches = {"batch_forwards": forwards, "batch_prefill_forwards": len(accepted)}
    listed = {
        name: {"file": f"{name}.parquet", "rows": table.num_rows, "sha256": "0" * 64}
        for name, table in tables.items()
    }
    fields = {
        **tiny_iterations.FIELDS,
        "format_version": 1,
        "kind": "captured",
        "guaranteed_tokens": guaranteed,
        "accuracy": None,
        "output_limit_tokens": 2**30,
        "counts": {"requests": len(accepted), **counts, **batches},
        "requests_asked": len(accepted),
        "tables": listed,
        **manifest,
    }
    made = IterationTrace(FORM.adapter.validate_python(fields), **tables)
    assert list(contradictions(FORM, made.manifest, tables)) == []
    return made


def geometric(
    acceptance: float, drafts: int, *, requests: int, iterations: int, seed: int
) -> list[list[int]]:
    """Draws where each draft is accepted with one probability, up to the first that is not."""
    generator = np.random.default_rng(seed)
    run = generator.geometric(1 - acceptance, (requests, iterations)) - 1
    return [[int(each) for each in mine] for mine in np.minimum(run, drafts)]

"""Requests continued by any policy that records iterations."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kernels_ref.decoders import speculator
from kernels_ref.decoding.batch import BatchForwards, decode_batch
from kernels_ref.decoding.continuation import Continuation
from kernels_ref.decoding.query import Model
from tests.kernels_ref.decoders.models import Request

Settings = Mapping[str, Any]

SETTINGS: dict[str, list[dict[str, Any]]] = {
    "ar": [{}],
    "uno-linear": [{"block": 2}, {"block": 5}],
    "uno-tree": [
        {"block": 2, "top_k": 2, "tree_size": 2},
        {"block": 4, "top_k": 3, "tree_size": 7},
    ],
    "eagle3-linear": [{"block": 2}, {"block": 4}],
    "eagle3-tree": [
        {"block": 2, "top_k": 2, "tree_size": 3},
        {"block": 4, "top_k": 3, "tree_size": 9},
    ],
    "dflash": [{"block": 2}, {"block": 5}],
    "self-speculation": [{"block": 2}, {"block": 5}],
}
"""For every policy; a test says where it needs others."""
CASES = [(name, case) for name, cases in SETTINGS.items() for case in cases]


@dataclass(frozen=True)
class Continued:
    """A batch when it is over."""

    rows: list[Continuation]
    forwards: BatchForwards

    @property
    def outcomes(self) -> list[dict[str, Any]]:
        """All that is to be equal between two ways to decode: of each row, tokens and record."""
        return [
            {
                "tokens": row.tokens.tolist(),
                "steps": [vars(step) for step in row.record.steps],
                "iterations": [vars(iteration) for iteration in row.record.iterations],
            }
            for row in self.rows
        ]


def continued(
    model: Model,
    name: str,
    settings: Settings,
    requests: Sequence[Request],
    *,
    numbers: Sequence[int] | None = None,
    seed: int = 0,
    kind: type[Continuation] = Continuation,
) -> Continued:
    """*requests* decoded together by policy *name*; *numbers* are their request numbers."""
    decoder = speculator(name)
    parameters = decoder.Parameters(**settings)
    block = parameters.block or model.facts.block_tokens
    rows = [
        kind(
            request.prompt,
            facts=model.facts,
            output_tokens=request.output_tokens,
            extra_tokens=decoder.extra_tokens(parameters, block),
            request=number,
            seed=seed,
        )
        for number, request in zip(numbers or range(len(requests)), requests, strict=True)
    ]
    return Continued(rows, decode_batch(model, rows, decoder.decode(rows, parameters)))

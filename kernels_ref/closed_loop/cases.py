"""Cases: the decoders that are compared, each a policy with its parameters on a checkpoint."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import torch

from kernels_ref.capture.plan import Plan
from kernels_ref.capture.prompts import held_out
from kernels_ref.capture.source import Source, shipped_path, source_at
from kernels_ref.closed_loop.device import moved
from kernels_ref.closed_loop.empty import empty_source
from kernels_ref.decoders import policy

DEFAULT: Final[Sequence[tuple[str, Mapping[str, Any]]]] = (
    ("ar", {}),
    ("uno-linear", {"block": 8}),
    ("single-block", {}),
    ("joint-threshold", {}),
    ("gwd", {"window": 2}),
    ("gwd", {"window": 3}),
    ("block-buffer", {"buffer": 2}),
    ("block-buffer", {"buffer": 4}),
)
OUTPUT_TOKENS: Final = 112
DTYPE: Final = "float32"
THREADS: Final = 1
EMPTY_SEED: Final = 1
"""Of other prompts than those that are compared."""
EMPTY_OUTPUT_TOKENS: Final = 64


def known_policies() -> list[str]:
    """Names of the policies that are compared."""
    return list(dict.fromkeys(name for name, _ in DEFAULT))


@dataclass(frozen=True, eq=False)
class Case:
    """A decoder, on its own model and on the empty one."""

    policy: str
    settings: Mapping[str, Any]
    source: Source
    empty: Source

    @property
    def name(self) -> str:
        """Fit for a file's name."""
        return "-".join([self.policy, *(f"{k}{v}" for k, v in self.settings.items())])

    def plan(self, batch: int, problems: int, *, is_empty: bool) -> Plan:
        """What decodes the first *problems* of the held-out split, *batch* at a time."""
        module = policy(self.policy)
        source = self.empty if is_empty else self.source
        made = Plan(
            name=f"{'empty-' if is_empty else ''}{self.name}-{batch}",
            policy=module,
            parameters=module.Parameters(**self.settings),
            source=source,
            prompts=held_out(problems, seed=EMPTY_SEED if is_empty else 0),
            task="held-out word problems",
            batch=batch,
            seed=0,
            output_tokens=EMPTY_OUTPUT_TOKENS if is_empty else OUTPUT_TOKENS,
            dtype=DTYPE,
        )
        made.check()
        return made


def cases(names: Sequence[str], device: torch.device) -> list[Case]:
    """The cases of the policies *names*, all where there are none; their models on *device*."""

    @cache
    def source(checkpoint: str) -> Source:
        found = source_at(shipped_path(checkpoint), family=None, dtype=DTYPE, threads=THREADS)
        return moved(found, device)

    chosen = [case for case in DEFAULT if case[0] in (names or known_policies())]
    found = []
    for name, settings in chosen:
        own = source(policy(name).CHECKPOINT)
        found.append(Case(name, settings, own, empty_source(own)))
    return found

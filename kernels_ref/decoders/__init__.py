"""The decoding policies: one module each, found by its name.

A module has `Parameters`, a frozen dataclass of the paper's hyperparameters whose field `policy` is
its own name with dashes, and `decode(sequences, parameters)`, the Group that decodes a batch. Its
`PROMPT` says how clean tokens see one another: where that is not block-causal, blocks are counted
from the prompt's end and not from place 0. Its `CHECKPOINT` is the shipped one trained for it.
"""

import importlib
import pkgutil
from collections.abc import Sequence
from types import ModuleType
from typing import Annotated, Any, ClassVar, Protocol, cast

from pydantic import ConfigDict, Field, Strict

from kernels_ref.decoding.batch import Group
from kernels_ref.decoding.sequence import Sequence as TokenSequence

Threshold = Annotated[float, Strict(), Field(ge=0, le=1, allow_inf_nan=False)]
Count = Annotated[int, Strict(), Field(ge=1, le=4096)]
"""Far more blocks, tokens or steps than a context has."""
STRICT: ConfigDict = ConfigDict(extra="forbid")


class Parameters(Protocol):
    """What all policies have: the block, which is the checkpoint's own unless set."""

    __pydantic_config__: ClassVar[ConfigDict]

    @property
    def policy(self) -> str:
        """Name of the policy."""

    @property
    def block(self) -> int | None:
        """Block in tokens."""


class Policy(Protocol):
    """A module of this folder."""

    PROMPT: str
    """How clean tokens see one another: block-causal, prefix-full or causal."""
    CHECKPOINT: str
    """Shipped checkpoint that was trained for it."""
    Parameters: type[Any]

    def decode(self, sequences: Sequence[TokenSequence], parameters: Any) -> Group:  # noqa: ANN401 (each module has its own)
        """The batch's decoder."""


def policy_names() -> list[str]:
    """Names of all policies."""
    found = pkgutil.iter_modules(__path__)
    return sorted(module.name.replace("_", "-") for module in found)


def policy(name: str) -> Policy:
    """The policy called *name*, one of `policy_names`."""
    module: ModuleType = importlib.import_module(f"{__name__}.{name.replace('-', '_')}")
    return cast("Policy", module)

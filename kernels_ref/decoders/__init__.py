"""The decoding policies: one module each, found by its name.

A module has `Parameters`, a frozen dataclass of the paper's hyperparameters whose field `policy` is
its own name with dashes, and `decode(sequences, parameters)`, the Group that decodes a batch. Its
`PROMPT` says how clean tokens see one another: where that is not block-causal, blocks are counted
from the prompt's end and not from place 0. Its `CHECKPOINT` is the shipped one trained for it, its
`DRAFTER` the kind of drafter that it needs beside it, if any. `RECORDS` says what it leaves on
record: of "blocks" what each forward did to each, where it decodes a `Sequence`; of "iterations"
what was drafted and kept in each, where it decodes a `Continuation` (see `Speculator`).
"""

import importlib
import pkgutil
from collections.abc import Sequence
from types import ModuleType
from typing import Annotated, Any, ClassVar, Literal, Protocol, cast

from pydantic import ConfigDict, Field, Strict

from kernels_ref.decoding.batch import Group

Threshold = Annotated[float, Strict(), Field(ge=0, le=1, allow_inf_nan=False)]
Count = Annotated[int, Strict(), Field(ge=1, le=4096)]
"""Far more blocks, tokens or steps than a context has."""
Records = Literal["blocks", "iterations"]
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
    RECORDS: Records
    DRAFTER: str | None
    """Kind of drafter that it needs beside the checkpoint."""
    Parameters: type[Any]

    def decode(self, sequences: Sequence[Any], parameters: Any) -> Group:  # noqa: ANN401 (each module has its own)
        """The batch's decoder; ValueError for parameters that the model rules out."""


class Speculator(Policy, Protocol):
    """A module that records iterations: the target's law holds whatever its drafter says."""

    GUARANTEED_TOKENS: int
    """Tokens of an iteration that accepts no draft."""

    def extra_tokens(self, parameters: Any, block_tokens: int) -> int:  # noqa: ANN401 (each module has its own)
        """Places behind a request's last token that drafts may take, in such a block."""


def policy_names(records: Records | None = None) -> list[str]:
    """Names of all policies, or of those that leave such *records*."""
    found = pkgutil.iter_modules(__path__)
    names = sorted(module.name.replace("_", "-") for module in found)
    return [name for name in names if records is None or records == policy(name).RECORDS]


def policy(name: str) -> Policy:
    """The policy called *name*, one of `policy_names`."""
    module: ModuleType = importlib.import_module(f"{__name__}.{name.replace('-', '_')}")
    return cast("Policy", module)


def speculator(name: str) -> Speculator:
    """The policy called *name*, one of `policy_names("iterations")`."""
    return cast("Speculator", policy(name))

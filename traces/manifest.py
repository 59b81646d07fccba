"""Manifest: what a trace directory says about itself, checked when it is read."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Literal

import yaml
from pydantic import ConfigDict, Field, Strict, TypeAdapter

STRICT: ConfigDict = ConfigDict(extra="forbid")
Count = Annotated[int, Strict(), Field(gt=0)]
AtLeastOne = Annotated[float, Strict(), Field(ge=1, allow_inf_nan=False)]
NonNegative = Annotated[float, Strict(), Field(ge=0, allow_inf_nan=False)]
Offset = Annotated[int, Strict(), Field(ge=-1, le=0)]
Text = Annotated[str, Strict(), Field(min_length=1)]


@dataclass(frozen=True)
class AcceptanceCell:
    """Mean tokens that one speculative step emits on a benchmark, at one block and tree size."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    benchmark: Text
    block: Count
    tokens_per_step: AtLeastOne
    tree_size: Count | None = None
    """Draft tokens verified as a tree, the root not counted; None for a chain."""


@dataclass(frozen=True)
class Manifest:
    """A trace: who decoded what and how, and the acceptance that was published for it."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    format_version: Literal[1]
    name: Text
    description: Text
    kind: Literal["published-statistics", "captured", "synthetic"]
    policies: Annotated[tuple[Text, ...], Field(min_length=1)]
    """Decoding policies that may use the trace."""
    model: Text
    """The target model."""
    temperature: NonNegative
    sampling: Text
    """The other sampling conditions, in words."""
    source: Text
    """Paper and table, or what wrote the trace."""
    guaranteed_tokens: Count
    """Tokens that a step emits even when it accepts no draft."""
    drafts_per_block_offset: Offset
    """A step at block B has B plus this many drafts, one behind the other."""
    acceptance: Annotated[tuple[AcceptanceCell, ...], Field(min_length=1)]
    top_k: Count | None = None
    """Candidates per position in a draft tree; None when there are no trees."""

    def __post_init__(self) -> None:
        """Refuse acceptance that no decoder can have; names every cell that is wrong."""
        if mistakes := list(_mistakes(self)):
            raise ValueError("; ".join(mistakes))

    def drafts(self, block: int) -> int:
        """Drafts of a step at this *block*: the longest run that can be accepted."""
        return block + self.drafts_per_block_offset

    @property
    def benchmarks(self) -> tuple[str, ...]:
        """Names of the benchmarks, in the order of the manifest."""
        return tuple(dict.fromkeys(cell.benchmark for cell in self.acceptance))


def read_manifest(path: Path) -> Manifest:
    """The manifest in the YAML file at *path*; raises pydantic's ValidationError (a ValueError)."""
    return TypeAdapter(Manifest).validate_python(yaml.safe_load(path.read_text(encoding="utf-8")))


def _mistakes(manifest: Manifest) -> Iterator[str]:
    cells = Counter((c.benchmark, c.block, c.tree_size) for c in manifest.acceptance)
    for (benchmark, block, tree_size), times in cells.items():
        if times > 1:
            where = _where(benchmark, block, tree_size)
            yield f"a cell of acceptance is given once: {where} is given {times} times"
    chains = {c.benchmark for c in manifest.acceptance if c.tree_size is None}
    for benchmark in manifest.benchmarks:
        if benchmark not in chains:
            yield f"a benchmark has at least one cell without a tree: {benchmark} has none"
    if manifest.top_k is None and any(c.tree_size for c in manifest.acceptance):
        yield "a trace with tree sizes says its top_k"
    for cell in manifest.acceptance:
        yield from _cell_mistakes(manifest, cell)


def _cell_mistakes(manifest: Manifest, cell: AcceptanceCell) -> Iterator[str]:
    where = _where(cell.benchmark, cell.block, cell.tree_size)
    drafts = manifest.drafts(cell.block)
    least = manifest.guaranteed_tokens
    if not least <= cell.tokens_per_step <= least + drafts:
        yield (
            f"tokens_per_step is between {least} and {least + drafts}, the guaranteed tokens "
            f"without and with every draft: {where} has {cell.tokens_per_step:g}"
        )
    if cell.tree_size is not None and cell.tree_size < drafts:
        yield f"a tree holds at least one path of {drafts} drafts: {where} is smaller"


def _where(benchmark: str, block: int, tree_size: int | None) -> str:
    tree = "" if tree_size is None else f", tree size {tree_size}"
    return f"{benchmark}, block {block}{tree}"

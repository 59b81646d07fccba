"""LeftOut: how well a fit to all other cells of a benchmark predicts one of them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from traces.acceptance import observation
from traces.manifest import AcceptanceCell, Manifest
from traces.survival import fit


@dataclass(frozen=True)
class LeftOut:
    """A cell of acceptance, and what a fit to all others says of it."""

    cell: AcceptanceCell
    predicted_tokens_per_step: float
    is_beyond: bool
    """Whether no other cell has as large a block or tree, so that a model refuses to answer."""

    @property
    def relative_error(self) -> float:
        """Of the predicted mean tokens per step."""
        return self.predicted_tokens_per_step / self.cell.tokens_per_step - 1.0


def leave_one_out(manifest: Manifest, benchmark: str) -> Sequence[LeftOut]:
    """Each cell of *benchmark*, predicted by a fit to the others.

    Raises ValueError with fewer than two cells.
    """
    cells = [cell for cell in manifest.acceptance if cell.benchmark == benchmark]
    if len(cells) <= 1:
        rule = f"one of at least two cells is left out, got {len(cells)} of {benchmark!r}"
        raise ValueError(rule)
    return [_left_out(manifest, n, cells) for n in range(len(cells))]


def _left_out(manifest: Manifest, n: int, cells: Sequence[AcceptanceCell]) -> LeftOut:
    cell, others = cells[n], [*cells[:n], *cells[n + 1 :]]
    curve = fit([observation(manifest, other) for other in others])
    hazard = curve.cumulative_hazard(manifest.drafts(cell.block), cell.tree_size)
    return LeftOut(
        cell=cell,
        predicted_tokens_per_step=manifest.guaranteed_tokens + float(np.exp(-hazard).sum()),
        is_beyond=cell.block > max(other.block for other in others)
        or (cell.tree_size or 0) > max(other.tree_size or 0 for other in others),
    )

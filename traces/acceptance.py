"""AcceptanceModel: how many tokens a speculative step emits, from published means."""

import difflib
import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from traces.manifest import AcceptanceCell, Manifest
from traces.survival import FloatArray, Observation, SurvivalCurve, fit, power_for_mean

IntArray = npt.NDArray[np.int64]
Cell = tuple[int, int | None]


@dataclass(frozen=True)
class AcceptanceModel:
    """Acceptance on one benchmark: published means where there are any, a fit between them.

    A step's drafts are accepted from the left; S_j is the probability that the first j all are, so
    a step emits guaranteed_tokens + S_1 + ... + S_n tokens on average. Steps are independent.
    """

    manifest: Manifest
    benchmark: str
    curve: SurvivalCurve
    published: Mapping[Cell, float]
    """Published tokens per step by (block, tree size)."""
    powers: Mapping[Cell, float]
    """The power of the fitted S_j that has the published mean, by (block, tree size)."""
    residual: float
    """Median relative error of the fit over the published cells."""
    points: int
    """Published cells that the fit saw."""

    @property
    def guaranteed_tokens(self) -> int:
        """Tokens that a step emits even when it accepts no draft."""
        return self.manifest.guaranteed_tokens

    def is_published(self, block: int, tree_size: int | None = None) -> bool:
        """Whether the source gives this very cell."""
        return (block, tree_size) in self.published

    def survival(self, block: int, tree_size: int | None = None) -> FloatArray:
        """S_1 .. S_n for the n drafts of a step; sums to the published mean where there is one.

        Raises ValueError outside the published blocks and tree sizes.
        """
        hazard = self._hazard(block, tree_size)
        power = self.powers.get((block, tree_size), 1.0)
        return np.zeros_like(hazard) if math.isinf(power) else np.exp(-hazard * power)

    def fitted_survival(self, block: int, tree_size: int | None = None) -> FloatArray:
        """S_1 .. S_n of the fitted form alone, also where a cell is published."""
        return np.exp(-self._hazard(block, tree_size))

    def tokens_per_step(self, block: int, tree_size: int | None = None) -> float:
        """Mean tokens per step: as published if this cell is, else by the fit."""
        if self.is_published(block, tree_size):
            return self.published[block, tree_size]
        return self.fitted_tokens_per_step(block, tree_size)

    def fitted_tokens_per_step(self, block: int, tree_size: int | None = None) -> float:
        """Mean tokens per step of the fit; never falls with the block, nor with the tree size."""
        return self.guaranteed_tokens + float(self.fitted_survival(block, tree_size).sum())

    def draw(
        self,
        block: int,
        n_steps: int,
        generator: np.random.Generator,
        tree_size: int | None = None,
    ) -> IntArray:
        """Emitted tokens of *n_steps* independent steps: one uniform each, in order.

        At equal uniforms a step of the fit emits no fewer tokens at a larger block or tree.
        """
        survival = self.survival(block, tree_size)
        uniform = generator.random(n_steps)
        # Accepted drafts are those with uniform < S_j; S_j falls, so reversed it is sorted.
        rejected = np.searchsorted(survival[::-1], uniform, side="right")
        return np.asarray(self.guaranteed_tokens + len(survival) - rejected, dtype=np.int64)

    def _hazard(self, block: int, tree_size: int | None) -> FloatArray:
        """-ln S_1 .. -ln S_n by the fit; raises ValueError outside the published cells."""
        n_drafts = self.manifest.drafts(block)
        where = f"trace {self.manifest.name!r}, benchmark {self.benchmark!r}:"
        last = max(published for published, _ in self.published)
        if not 1 <= block <= last:
            rule = f"{where} acceptance is known for blocks 1 to {last}, got block {block}"
            raise ValueError(rule)
        if tree_size is not None:
            largest = max((size for _, size in self.published if size is not None), default=None)
            if largest is None:
                rule = f"{where} acceptance is known for chains only, got tree size {tree_size}"
                raise ValueError(rule)
            least = max(1, n_drafts)
            if not least <= tree_size <= largest:
                rule = (
                    f"{where} acceptance at block {block} is known for tree sizes "
                    f"{least} to {largest}, got tree size {tree_size}"
                )
                raise ValueError(rule)
        return self.curve.cumulative_hazard(n_drafts, tree_size)


def acceptance_model(manifest: Manifest, benchmark: str = "Average") -> AcceptanceModel:
    """The acceptance of *manifest* on *benchmark*, fitted here; ValueError if it has none."""
    cells = [cell for cell in manifest.acceptance if cell.benchmark == benchmark]
    if not cells:
        raise ValueError(_unknown(manifest, benchmark))
    observations = [observation(manifest, cell) for cell in cells]
    curve = fit(observations)
    powers = {
        (c.block, c.tree_size): power_for_mean(
            curve.cumulative_hazard(manifest.drafts(c.block), c.tree_size),
            c.tokens_per_step - manifest.guaranteed_tokens,
        )
        for c in cells
    }
    return AcceptanceModel(
        manifest=manifest,
        benchmark=benchmark,
        curve=curve,
        published={(c.block, c.tree_size): c.tokens_per_step for c in cells},
        powers=powers,
        residual=float(np.median(np.abs(curve.relative_errors(observations)))),
        points=len(cells),
    )


def observation(manifest: Manifest, cell: AcceptanceCell) -> Observation:
    """A cell of *manifest* as the fit of a curve sees it."""
    n_drafts, least = manifest.drafts(cell.block), manifest.guaranteed_tokens
    return Observation(n_drafts, cell.tree_size, least, cell.tokens_per_step)


def largest_block(manifest: Manifest) -> int:
    """The largest block with published acceptance."""
    return max(cell.block for cell in manifest.acceptance)


def largest_tree(manifest: Manifest) -> int | None:
    """The largest tree, in drafts, with published acceptance; None when there are no trees."""
    return max((c.tree_size for c in manifest.acceptance if c.tree_size is not None), default=None)


def _unknown(manifest: Manifest, benchmark: str) -> str:
    by_folded = {name.casefold(): name for name in manifest.benchmarks}
    near = difflib.get_close_matches(benchmark.casefold(), by_folded, n=3, cutoff=0.5)
    hint = f" did you mean {' or '.join(by_folded[name] for name in near)}?" if near else ""
    known = ", ".join(manifest.benchmarks)
    return f"no benchmark {benchmark!r} in trace {manifest.name!r};{hint} known: {known}"

"""FitError: how far an acceptance model is from the iterations that were captured."""

from dataclasses import dataclass

import numpy as np

from traces.acceptance import AcceptanceModel
from traces.captured_acceptance import accepting, cell_of
from traces.dependence import intraclass_correlation, lag_1_correlation, spread_ratio
from traces.iteration_trace import IterationTrace
from traces.survival import FloatArray


@dataclass(frozen=True)
class Distance:
    """Between the accepted drafts of a step as observed and by a model."""

    survival: float
    """The largest difference of any S_j."""
    total_variation: float
    """Half the sum of the differences of the probabilities of 0 .. n accepted drafts."""


@dataclass(frozen=True)
class FitError:
    """One captured cell against the model, and what independent steps leave out of it."""

    block: int
    tree_size: int | None
    observed_tokens_per_step: float
    fitted_tokens_per_step: float
    fitted: Distance
    """Of the fitted curve alone."""
    drawn: Distance
    """Of what the model draws, which has the mean of the cell where it was given."""
    lag_1_correlation: float | None
    intraclass_correlation: float | None
    spread_ratio: float | None
    """Standard deviation of a request's mean accepted drafts over that of independent steps."""

    @property
    def relative_error(self) -> float:
        """Of the fitted mean tokens per step."""
        return self.fitted_tokens_per_step / self.observed_tokens_per_step - 1.0


def fit_error(model: AcceptanceModel, trace: IterationTrace) -> FitError:
    """How far *model* is from *trace*, a chain or a tree at a block and size that it knows.

    Raises ValueError for others, and for a trace without an uncut iteration.
    """
    uncut, mean_accepted = accepting(trace)
    block, tree_size = cell_of(trace)
    values, request = uncut.accepted, uncut.request
    return FitError(
        block=block,
        tree_size=tree_size,
        observed_tokens_per_step=trace.manifest.guaranteed_tokens + mean_accepted,
        fitted_tokens_per_step=model.fitted_tokens_per_step(block, tree_size),
        fitted=distance(uncut.survival, model.fitted_survival(block, tree_size)),
        drawn=distance(uncut.survival, model.survival(block, tree_size)),
        lag_1_correlation=lag_1_correlation(values, request),
        intraclass_correlation=intraclass_correlation(values, request),
        spread_ratio=spread_ratio(values, request),
    )


def distance(observed: FloatArray, modelled: FloatArray) -> Distance:
    """Between S_1 .. S_n and S_1 .. S_m; what lies beyond the shorter is 0."""
    n_drafts = max(len(observed), len(modelled))
    one, other = (np.pad(s, (0, n_drafts - len(s))) for s in (observed, modelled))
    probabilities = [-np.diff(s, prepend=1.0, append=0.0) for s in (one, other)]
    return Distance(
        survival=float(np.abs(one - other).max(initial=0.0)),
        total_variation=float(np.abs(probabilities[0] - probabilities[1]).sum()) / 2.0,
    )

"""Optimizer: proposes settings from spaces and learns from what they came to; Optuna does both."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from simulator.sweep.spaces import Choices, Interval

if TYPE_CHECKING:  # an extra, and slow to import
    from optuna.distributions import BaseDistribution
    from optuna.trial import Trial

Direction = Literal["maximize", "minimize"]
AnySpace = Choices | Interval


class Optimizer:
    """Proposals that follow from the seed and from what was asked and told so far."""

    def __init__(
        self, spaces: Mapping[str, AnySpace], directions: Sequence[Direction], seed: int
    ) -> None:
        """Nothing is known yet; what is told later has a value for each of the *directions*."""
        import optuna  # noqa: PLC0415 (an extra, and slow to import)

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self._spaces = spaces
        self._distributions = {field: _distribution(space) for field, space in spaces.items()}
        learning, blind = _samplers(seed)
        self._study = optuna.create_study(sampler=learning, directions=list(directions))
        self._blind = optuna.create_study(sampler=blind)

    def ask(self) -> tuple["Trial", dict[str, Any]]:
        """A trial that looks good, and its settings."""
        trial = self._study.ask(self._distributions)
        return trial, self._settings(trial.params)

    def blind(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """What `take` needs, and settings for which nothing speaks: all are as likely."""
        found = self._blind.ask(self._distributions).params
        return found, self._settings(found)

    def take(self, found: Mapping[str, Any]) -> "Trial":
        """A trial of what `blind` found."""
        self._study.enqueue_trial(dict(found))
        return self._study.ask(self._distributions)

    def tell(self, trial: "Trial", values: Sequence[float] | None) -> None:
        """What the *trial* came to; None where it came to nothing."""
        from optuna.trial import TrialState  # noqa: PLC0415 (as above)

        if values is None:
            self._study.tell(trial, state=TrialState.FAIL)
        else:
            self._study.tell(trial, list(values))

    def _settings(self, found: Mapping[str, Any]) -> dict[str, Any]:
        return {field: _value(space, found[field]) for field, space in self._spaces.items()}


def _samplers(seed: int) -> tuple[Any, Any]:
    """One that learns, and one that does not."""
    import warnings  # noqa: PLC0415

    from optuna import exceptions, samplers  # noqa: PLC0415 (as above)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", exceptions.ExperimentalWarning)
        learning = samplers.TPESampler(seed=seed, multivariate=True)
    return learning, samplers.RandomSampler(seed=seed)


def _distribution(space: AnySpace) -> "BaseDistribution":
    """Where Optuna looks for a value, or for its place among the values."""
    from optuna.distributions import (  # noqa: PLC0415 (as above)
        CategoricalDistribution,
        FloatDistribution,
        IntDistribution,
    )

    if isinstance(space, Choices):
        last = len(space.values) - 1
        places = IntDistribution(0, last) if space.is_ordered else None
        return places or CategoricalDistribution(range(last + 1))
    if space.last_step is not None:
        return IntDistribution(0, space.last_step)
    if space.is_whole:
        return IntDistribution(int(space.low), int(space.high), log=space.log)
    return FloatDistribution(space.low, space.high, log=space.log)


def _value(space: AnySpace, found: Any) -> Any:  # noqa: ANN401 (a YAML value)
    """The value that Optuna's *found* stands for."""
    if isinstance(space, Choices):
        return space.values[found]
    return found if space.last_step is None else space.at_step(found)

"""SweepFile: which points of a space of scenarios are wanted, as a file says it."""

from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Literal

from pydantic import Field, Strict

from simulator.documents import shown
from simulator.model import STRICT
from simulator.price import GpuPrices, HourCost
from simulator.scenario import Seed

MOST_POINTS: Final = 1_000_000
NAME: Final = "name"
"""Of an entry of `points`: its label, no field."""
SEED: Final = "seed"

Count = Annotated[int, Strict(), Field(ge=1)]
Text = Annotated[str, Strict()]
Values = Annotated[list[Any], Field(min_length=1)]


@dataclass(frozen=True, kw_only=True)
class Sample:
    """*n* points drawn at random, each of the *fields* from its own space; see `spaces`."""

    __pydantic_config__ = STRICT

    n: Count
    fields: Annotated[dict[Text, Any], Field(min_length=1)]
    seed: Seed = 0


@dataclass(frozen=True, kw_only=True)
class SearchPlan:
    """So many *trials* of the *fields*, each from its own space, that better the *objectives*."""

    __pydantic_config__ = STRICT

    trials: Count
    fields: Annotated[dict[Text, Any], Field(min_length=1)]
    objectives: Annotated[dict[Text, Literal["maximize", "minimize"]], Field(min_length=1)]
    per_round: Annotated[int, Strict(), Field(ge=1, le=100_000)] = 16
    """Trials that are asked for together, before what they came to is told."""
    seed: Seed = 0


@dataclass(frozen=True, kw_only=True)
class Front:
    """Columns of which nothing is both better in one and as good in the others."""

    __pydantic_config__ = STRICT

    higher: tuple[Text, ...] = ()
    lower: tuple[Text, ...] = ()

    def __post_init__(self) -> None:
        """Refuse a front of nothing, and a column that is to be both."""
        columns = (*self.higher, *self.lower)
        if not columns:
            message = "a front has at least one column, in higher or lower"
            raise ValueError(message)
        if len(set(columns)) < len(columns):
            message = f"a column of a front is named once, got {', '.join(columns)}"
            raise ValueError(message)


@dataclass(frozen=True, kw_only=True)
class SweepFile:
    """Points of a space: the base *scenario* with the product of what varies put in place.

    A *search* stands instead of *grid*, *points* and *sample*. *repeat* is a number of seeds, from
    the scenario's own upwards, or the seeds themselves.
    """

    __pydantic_config__ = STRICT

    scenario: dict[str, Any] | str
    """A scenario, or the path of its file."""
    name: str = ""
    note: str = ""
    grid: dict[Text, Values] = field(default_factory=dict)
    points: list[dict[Text, Any]] = field(default_factory=list)
    sample: Sample | None = None
    search: SearchPlan | None = None
    where: list[Text] = field(default_factory=list)
    repeat: Count | Annotated[list[Seed], Field(min_length=1)] = 1
    fronts: dict[Text, Front] | None = None
    gpu_hour_cost: HourCost | dict[Text, HourCost] | None = None
    """Of every GPU, or by the name of its hardware profile."""

    def __post_init__(self) -> None:
        """Refuse what a search cannot stand beside, and labels and seeds that tell nothing."""
        if self.search is not None and (self.grid or self.points or self.sample):
            message = "a search stands alone, without grid, points and sample"
            raise ValueError(message)
        for entry in self.points:
            if not isinstance(entry.get(NAME, ""), str):
                message = f"the name of a point is a text, got {shown(entry[NAME])}"
                raise ValueError(message)  # noqa: TRY004 (pydantic tells ValueErrors)
        if isinstance(self.repeat, list) and len(set(self.repeat)) < len(self.repeat):
            message = "a seed is repeated once"
            raise ValueError(message)

    @property
    def prices(self) -> GpuPrices:
        """What was said of the price of a GPU."""
        if isinstance(self.gpu_hour_cost, dict):
            return GpuPrices(by_hardware=self.gpu_hour_cost)
        return GpuPrices(every=self.gpu_hour_cost)

    @property
    def repeats(self) -> int:
        """Runs of each point."""
        return len(self.repeat) if isinstance(self.repeat, list) else self.repeat

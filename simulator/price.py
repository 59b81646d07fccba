"""Price: what a GPU costs an hour, and what tokens cost at it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Final

from pydantic import Field, Strict, TypeAdapter, ValidationError

from simulator.documents import DocumentError, Mistake, known, shown
from simulator.library import HARDWARE, is_path

HourCost = Annotated[float, Strict(), Field(gt=0, le=1e9, allow_inf_nan=False)]

HOUR_S: Final = 3600.0
MILLION: Final = 1e6


@dataclass(frozen=True)
class GpuPrices:
    """Cost of an hour of one GPU, in any currency: for all kinds of it, or by name."""

    every: float | None = None
    by_hardware: Mapping[str, float] = field(default_factory=dict)

    def of(self, hardware: str) -> float | None:
        """Of a GPU called *hardware*; None where nothing was said of it."""
        return self.by_hardware.get(hardware, self.every)


def unknown_hardware(name: str) -> str:
    """What to say of a price for *name*, when it is no hardware profile; empty for one."""
    if is_path(name) or name in HARDWARE.names():
        return ""
    return known(name, HARDWARE.names(), "hardware profile")


def prices_of(options: tuple[str, ...]) -> GpuPrices:
    """Prices from `2.5` or `h100-sxm=2.5`, any number of them; raises DocumentError."""
    found: dict[str, float] = {}
    wrong = []
    for option in options:
        name, _, text = option.rpartition("=")
        if name in found:
            wrong.append(Mistake(shown(option), "a price is given once"))
        if name and (what := unknown_hardware(name)):
            wrong.append(Mistake(shown(option), what))
        try:
            found[name] = TypeAdapter(HourCost).validate_python(float(text))
        except (ValidationError, ValueError):
            rule = "a price is a number above zero, as 2.5 or h100-sxm=2.5"
            wrong.append(Mistake(shown(option), rule))
    if wrong:
        raise DocumentError("--gpu-hour-cost", wrong)
    return GpuPrices(found.pop("", None), found)


def cost_per_million_output_tokens(
    gpus: int, output_tokens_per_s: float, gpu_hour_cost: float
) -> float | None:
    """What a million output tokens cost while *gpus* are paid for; None where none come out."""
    if output_tokens_per_s <= 0:
        return None
    return gpus * gpu_hour_cost / HOUR_S / output_tokens_per_s * MILLION

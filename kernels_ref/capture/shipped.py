"""The traces that come with the package, as a list of captures to make them again."""

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Final

import yaml
from pydantic import ConfigDict, TypeAdapter

LIST: Final = Path(__file__).parent / "shipped.yaml"


@dataclass(frozen=True)
class Entry:
    """One line of the list: a capture, or a grid of them."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    name: str
    decoder: str
    checkpoint: str | None = None
    checkpoints: tuple[str, ...] = ()
    """Several, one after the other; {checkpoint} in a name is its name."""
    set: Mapping[str, Any] = field(default_factory=dict)
    grid: Mapping[str, list[Any]] = field(default_factory=dict)
    problems: int | None = None
    batch: int | None = None
    batches: tuple[int, ...] = ()


@dataclass(frozen=True)
class ShippedTraces:
    """The whole list."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    problems: int
    batch: int
    traces: tuple[Entry, ...]


@dataclass(frozen=True)
class ShippedTrace:
    """One capture: a name, and the options of `blockcast capture` that make it."""

    name: str
    options: tuple[str, ...]


def shipped_traces() -> list[ShippedTrace]:
    """All of them, in the order of the list."""
    document = yaml.safe_load(LIST.read_text(encoding="utf-8"))
    listed = TypeAdapter(ShippedTraces).validate_python(document)
    return [trace for entry in listed.traces for trace in _expanded(entry, listed)]


def _expanded(entry: Entry, listed: ShippedTraces) -> Iterator[ShippedTrace]:
    batches = entry.batches or (entry.batch or listed.batch,)
    checkpoints = entry.checkpoints or (entry.checkpoint,)
    points = [
        dict(zip(entry.grid, values, strict=True))
        for values in itertools.product(*entry.grid.values())
    ]
    for checkpoint, point, batch in itertools.product(checkpoints, points, batches):
        options = ["--decoder", entry.decoder, "--batch", str(batch)]
        options += ["--problems", str(entry.problems or listed.problems)]
        if checkpoint is not None:
            options += ["--checkpoint", checkpoint]
        settings = {**entry.set, **point}
        for key, value in settings.items():
            options += ["--set", f"{key}={value}"]
        name = entry.name.format(**settings, batch=batch, checkpoint=checkpoint)
        yield ShippedTrace(name, tuple(options))

"""Finds models, engines, hardware, traces, what-ifs and studies by name: a file or folder each.

A name with a path separator or a YAML suffix is a path, so a user's own file needs no install.
"""

import importlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from simulator.documents import (
    DocumentError,
    Mistake,
    as_mapping,
    check,
    known,
    parse,
    read_text,
    shown,
)

IDEAL = "ideal"
"""The engine without any overhead, which a scenario has when it names none."""

MOST_NAME_BYTES = 255
"""Of a file's name, on the file systems there are."""

MOST_KEPT = 128
"""Things that a process has read."""

_ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Shelf:
    """A kind of thing, what a file of it must be, and where the shipped ones are."""

    kind: str
    schema: str
    """Module and class; imported only to read a file, so that listing names is quick."""
    folder: Path
    file: str
    """Path below *folder* of the file of a `{name}`."""
    by_records: str = ""
    """The package whose modules say what a file with the field `records` must be instead."""

    def names(self) -> list[str]:
        """The shipped names."""
        depth = len(Path(self.file).parts)
        found = self.folder.glob(self.file.format(name="*"))
        return sorted(p.stem if depth == 1 else p.parent.name for p in found)

    def path(self, name: str) -> Path:
        """The file of *name*; raises DocumentError naming the nearest known ones."""
        if is_path(name):
            given, own = Path(name), Path(self.file)
            return given / own.name if len(own.parts) > 1 and given.is_dir() else given
        is_short = len(os.fsencode(name)) <= MOST_NAME_BYTES
        shipped = self.folder / self.file.format(name=name)
        if is_short and "\0" not in name and shipped.is_file():
            return shipped
        here = f"; for what lies here write ./{name}" if is_short and Path(name).exists() else ""
        what = f"{known(name, self.names(), self.kind)}{here}"
        raise DocumentError(self.kind, [Mistake("", what)])

    def get(self, name: str) -> Any:  # noqa: ANN401 (depends on the shelf)
        """The checked thing called *name*; raises DocumentError."""
        path = self.path(name)
        return _thing(self, path, read_text(path))

    def shipped(self) -> dict[str, Any]:
        """Every shipped thing, by name."""
        return {name: self.get(name) for name in self.names()}

    def schema_of(self, document: Mapping[str, Any], path: Path) -> Any:  # noqa: ANN401 (a class)
        """The class that a file must be; raises DocumentError for unknown records."""
        if self.by_records and "records" in document:
            return self._manifest_of(document["records"], path)
        module, _, schema = self.schema.partition(":")
        return getattr(importlib.import_module(module), schema)

    def _manifest_of(self, records: object, path: Path) -> Any:  # noqa: ANN401 (a class)
        kinds: Any = importlib.import_module(self.by_records)
        if not isinstance(records, str):
            what = f"must be a text, got {shown(records)}"
        elif records not in kinds.names():
            what = known(records, kinds.names(), "records")
        else:
            return kinds.records(records).FORM.manifest
        raise DocumentError(str(path), [Mistake("records", what)])


@lru_cache(maxsize=MOST_KEPT)
def _thing(shelf: Shelf, path: Path, text: str) -> Any:  # noqa: ANN401 (depends on the shelf)
    """The thing that a file with that *text* is; raises DocumentError.

    Reading YAML takes ten times as long as a short run, and one process runs many scenarios of the
    same things; equal texts are equal things, and nothing changes them.
    """
    document = as_mapping(parse(text, str(path)), str(path))
    thing, mistakes = check(shelf.schema_of(document, path), document)
    if thing is None:
        raise DocumentError(str(path), mistakes)
    return thing


MODELS = Shelf("model", "simulator.model:ModelSpec", _ROOT / "simulator/models", "{name}.yaml")
ENGINES = Shelf(
    "engine", "simulator.engine_profile:EngineProfile", _ROOT / "simulator/engines", "{name}.yaml"
)
HARDWARE = Shelf(
    "hardware profile", "hwprofiles:HardwareProfile", _ROOT / "hwprofiles/data", "{name}.yaml"
)
TRACES = Shelf(
    "trace",
    "traces.manifest:Manifest",
    _ROOT / "traces/data",
    "{name}/manifest.yaml",
    by_records="traces.records",
)
WHAT_IFS = Shelf("what-if", "simulator.what_if:WhatIf", _ROOT / "simulator/what_ifs", "{name}.yaml")
STUDIES = Shelf(
    "study", "simulator.sweep.design:SweepFile", _ROOT / "simulator/studies", "{name}.yaml"
)
SHELVES = {
    "models": MODELS,
    "hardware": HARDWARE,
    "engines": ENGINES,
    "traces": TRACES,
    "what-ifs": WHAT_IFS,
    "studies": STUDIES,
}


def is_path(name: str) -> bool:
    """Whether *name* is a path to a user's own file rather than a shipped name."""
    return "/" in name or "\\" in name or name.endswith((".yaml", ".yml"))

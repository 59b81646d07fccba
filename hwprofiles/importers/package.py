"""Finds the installed tables of aiconfigurator-core, without running any code of it."""

import importlib.util
import re
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import yaml

from hwprofiles.importers.table import TableError

DISTRIBUTION = "aiconfigurator-core"
MODULE = "aiconfigurator_core"
_VERSION_PART = re.compile(r"\d+|[a-z]+")


class NotInstalledError(ValueError):
    """The package that has the tables is not installed."""


class UnknownNameError(ValueError):
    """A name that is not among those that are there."""

    def __init__(self, kind: str, name: str, known: list[str]) -> None:
        """Keep the *name*, what *kind* of thing it should be, and the names there are."""
        self.kind, self.name, self.known = kind, name, known
        super().__init__(f"no {kind} {name}; known: {', '.join(known)}")


@dataclass(frozen=True)
class Package:
    """A folder of systems: one YAML file of facts each, and tables below `data`."""

    systems_folder: Path
    version: str

    @property
    def title(self) -> str:
        """Name and version."""
        return f"{DISTRIBUTION} {self.version}"

    def systems(self) -> list[str]:
        """The systems that have tables."""
        found = (self.systems_folder / "data").glob("*/gemm")
        return sorted(path.parent.name for path in found)

    def system(self, name: str) -> "System":
        """The system called *name*; raises UnknownNameError, or TableError without tables."""
        described = sorted(path.stem for path in self.systems_folder.glob("*.yaml"))
        if name not in self.systems():
            facts = self.systems_folder / f"{name}.yaml"
            if name in described and _document(facts).get("gpu"):
                has = ", ".join(self.systems())
                raise TableError(facts, f"{name} has facts but no tables; those that do: {has}")
            raise UnknownNameError("system", name, self.systems())
        return System(self, name, _document(self.systems_folder / f"{name}.yaml"))


@dataclass(frozen=True)
class System:
    """One system of a package: its facts, and its tables by family, framework and version."""

    package: Package
    name: str
    facts: dict[str, Any]

    @property
    def facts_file(self) -> Path:
        """Where the facts are from."""
        return self.package.systems_folder / f"{self.name}.yaml"

    def fact(self, group: str, name: str) -> float:
        """A number of the facts; raises TableError where it is missing or none."""
        value = (self.facts.get(group) or {}).get(name)
        if not isinstance(value, int | float) or not value > 0:
            raise TableError(self.facts_file, f"{group}.{name} is a number above zero, got {value}")
        return float(value)

    def has_fact(self, group: str, name: str) -> bool:
        """Whether the facts have a value of that name."""
        return name in (self.facts.get(group) or {})

    def folder(self, family: str) -> Path:
        """Where the tables of a family are."""
        return self.package.systems_folder / "data" / self.name / family

    def frameworks(self, family: str) -> list[str]:
        """Who measured the family."""
        folder = self.folder(family)
        return sorted(p.name for p in folder.iterdir() if p.is_dir()) if folder.is_dir() else []

    def versions(self, family: str, framework: str, table: str) -> list[tuple[str, Path]]:
        """(version, file) of every version that has the *table*, the newest first.

        Versions that only point to the tables of an older one have no file, so the older comes.
        """
        found = (self.folder(family) / framework).glob(f"*/{table}.parquet")
        return sorted(
            ((path.parent.name, path) for path in found),
            key=lambda pair: version_order(pair[0]),
            reverse=True,
        )


def installed() -> Package:
    """The installed package; raises NotInstalledError."""
    found = importlib.util.find_spec(MODULE)
    if found is None or not found.submodule_search_locations:
        rule = f"{DISTRIBUTION} is not installed; pip install 'blockcast[aiconfigurator]'"
        raise NotInstalledError(rule)
    folder = Path(next(iter(found.submodule_search_locations))) / "systems"
    try:
        version = metadata.version(DISTRIBUTION)
    except metadata.PackageNotFoundError:
        version = "of unknown version"
    return Package(folder, version)


def version_order(version: str) -> list[tuple[int, int, str]]:
    """What versions sort by: numbers by value, a release candidate before its release."""
    parts = _VERSION_PART.findall(version.lower())
    order = [(1, int(part), "") if part.isdigit() else _word(part) for part in parts]
    return [*order, (0, 0, "")]


def _word(part: str) -> tuple[int, int, str]:
    """Words that mark what comes after a release sort above its end, others below it."""
    return (0, 1, part) if part == "post" else (-1, 0, part)


def _document(path: Path) -> dict[str, Any]:
    try:
        read = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError) as error:
        raise TableError(path, f"cannot be read: {error}") from error
    if not isinstance(read, dict):
        raise TableError(path, "holds no mapping of facts")
    return read

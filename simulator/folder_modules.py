"""Modules of a folder by name: a module `some_name.py` is called `some-name`."""

import importlib
import pkgutil
from collections.abc import Iterable
from types import ModuleType


def names_in(path: Iterable[str]) -> list[str]:
    """The name of every module in a package with that `__path__`; none of them is imported."""
    return sorted(m.name.replace("_", "-") for m in pkgutil.iter_modules(path))


def module_in(package: str, path: Iterable[str], name: str) -> ModuleType:
    """The module called *name* of *package*; raises KeyError for one that is not in its folder."""
    if name not in names_in(path):
        raise KeyError(name)
    return importlib.import_module(f"{package}.{name.replace('-', '_')}")

"""Formats of request files, one module each: a module `some_name.py` is the format `some-name`.

A module has `FORMAT`, a RequestFormat; its docstring says where such files come from.
"""

import importlib
import pkgutil

from traces.requests.request_format import RequestFormat


def names() -> list[str]:
    """Every format in the folder."""
    return sorted(m.name.replace("_", "-") for m in pkgutil.iter_modules(__path__))


def request_format(name: str) -> RequestFormat:
    """The format *name*; raises KeyError for one that is not in the folder."""
    if name not in names():
        raise KeyError(name)
    module = importlib.import_module(f"{__name__}.{name.replace('-', '_')}")
    found: RequestFormat = module.FORMAT
    return found

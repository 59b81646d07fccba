"""Torch, which only some commands need and a plain install does not have."""

import importlib.util

from simulator.documents import DocumentError, Mistake


def need_torch(command: str) -> None:
    """Raise DocumentError, which says what to install, where *command* cannot have torch."""
    if importlib.util.find_spec("torch") is None:
        what = "torch is not installed; pip install 'blockcast[torch]'"
        raise DocumentError(command, [Mistake("", what)])

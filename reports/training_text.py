"""Trained checkpoints for the terminal."""

from collections.abc import Mapping
from typing import Any

from reports.terminal import console, table
from reports.units import seconds

HASH_SHOWN = 12


def print_training(answer: Mapping[str, Any]) -> None:
    """What each run came to, and where it lies."""
    out = console()
    rows = [
        (
            each["name"],
            str(each["steps"]),
            f"{each['final_loss']:.4f}",
            "there already" if each["elapsed_s"] is None else seconds(each["elapsed_s"]),
            each["sha256"][:HASH_SHOWN],
        )
        for each in answer["checkpoints"]
    ]
    columns = ("checkpoint", "steps", "final loss, nats/token", "trained in", "sha256")
    out.print(table("Trained checkpoints", columns, rows))
    for each in answer["checkpoints"]:
        out.print(f"checkpoint: {each['checkpoint']}", soft_wrap=True)
    if answer["figure"]:
        out.print(f"figure: {answer['figure']}", soft_wrap=True)

"""A replayed trace for the terminal."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from reports.terminal import console, pairs
from reports.units import percent

WORDS: Final = {
    "requests": "requests",
    "output_tokens": "output tokens",
    "forwards": "forwards",
    "store_forwards": "of them only to store",
    "batch_forwards": "forwards of batches",
    "tokens_per_step": "tokens per step",
    "tokens_per_forward": "tokens per forward",
    "blocks_live": "live blocks, mean",
    "local_steps": "updates of blocks",
}
SHARES: Final = {"drawn_share": "of them drawn", "accuracy": "correct", "valid": "valid"}


def print_replay(name: str, replay: Mapping[str, Any]) -> None:
    """How faithful, and what it comes to."""
    out = console()
    out.print(f"{name}: {replay['replay']} replay", soft_wrap=True)
    if "policy" in replay:
        values = ", ".join(f"{name} {value}" for name, value in replay["parameters"].items())
        out.print(f"{replay['policy']}: {values}", soft_wrap=True)
    out.print(pairs(_lines(replay)))
    for warning in replay["warnings"]:
        out.print(f"warning: {warning}", soft_wrap=True)


def _lines(replay: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name, words in WORDS.items():
        if (value := replay.get(name)) is not None:
            yield words, f"{value:.3f}" if isinstance(value, float) else str(value)
    for name, words in SHARES.items():
        if (share := replay.get(name)) is not None:
            yield words, percent(share)

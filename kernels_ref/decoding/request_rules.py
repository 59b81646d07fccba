"""What a request must be, whatever decodes it."""

from collections.abc import Sequence as Items

from kernels_ref.decoding.query import ModelFacts


def check_request(prompt: Items[int], facts: ModelFacts, **counts: int) -> None:
    """Raise ValueError for an empty prompt, tokens outside the vocabulary, *counts* below 1."""
    if not prompt:
        rule = "a prompt has at least one token, got none"
        raise ValueError(rule)
    outside = [token for token in prompt if not 0 <= token < facts.vocab]
    if outside:
        rule = f"prompt tokens are 0 to {facts.vocab - 1}, got {outside[0]}"
        raise ValueError(rule)
    for name, value in counts.items():
        if value < 1:
            rule = f"{name} is at least 1, got {value}"
            raise ValueError(rule)

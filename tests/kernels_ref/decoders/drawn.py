"""What hypothesis draws: settings of any policy by the types of its parameters, and requests."""

import dataclasses
import types
import typing
from typing import Any, Literal

from hypothesis import strategies as st

from kernels_ref.decoders import Count, Threshold, policy
from tests.kernels_ref.decoders.hashed import FACTS, GRID
from tests.kernels_ref.decoders.models import Request

THRESHOLDS = st.sampled_from([0.0, *GRID, 1.0])
FIXED = ("policy", "block")


def _of_type(hint: Any) -> st.SearchStrategy[Any] | None:
    """Values of a field, or None for a type that is left at its default."""
    if hint == Threshold:
        return THRESHOLDS
    if hint == Count:
        return st.integers(1, 4)
    if hint is bool:
        return st.booleans()
    if typing.get_origin(hint) is Literal:
        return st.sampled_from(typing.get_args(hint))
    if typing.get_origin(hint) in {typing.Union, types.UnionType}:
        parts = [st.none() if p is type(None) else _of_type(p) for p in typing.get_args(hint)]
        return st.one_of([part for part in parts if part is not None])
    return None


def settings_of(name: str) -> st.SearchStrategy[dict[str, Any]]:
    """Every parameter of policy *name* that has a threshold's, count's, choice's or flag's type."""
    parameters = policy(name).Parameters
    hints = typing.get_type_hints(parameters, include_extras=True)
    fields = [field.name for field in dataclasses.fields(parameters) if field.name not in FIXED]
    drawn = {field: _of_type(hints[field]) for field in fields}
    return st.fixed_dictionaries({k: v for k, v in drawn.items() if v is not None})


def requests(most: int = 5) -> st.SearchStrategy[list[Request]]:
    """Batches of prompts shorter than a block, of whole blocks and between, any token in them."""
    prompt = st.lists(st.integers(0, FACTS.vocab - 1), min_size=1, max_size=11).map(tuple)
    request = st.builds(Request, prompt, st.integers(1, 18))
    return st.lists(request, min_size=1, max_size=most)

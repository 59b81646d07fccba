"""What hypothesis draws: settings of any policy that records iterations, and requests."""

import dataclasses
from typing import Any

from hypothesis import strategies as st

from kernels_ref.decoders import speculator
from kernels_ref.decoding.query import ModelFacts
from tests.kernels_ref.decoders.models import Request
from tests.kernels_ref.speculation.table_model import END, MASK

FACTS = ModelFacts(MASK, (END,), 4, 64, 9)
"""Of the table model where laws are not enumerated."""
FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "block": st.integers(2, 6),
    "top_k": st.integers(1, 4),
    "tree_size": st.integers(1, 9),
    "temperature": st.sampled_from([0.0, 0.5, 1.0, 2.0]),
    "top_p": st.sampled_from([0.3, 0.8, 1.0]),
    "sample_top_k": st.sampled_from([None, 1, 3, 9]),
}


def settings_of(name: str) -> st.SearchStrategy[dict[str, Any]]:
    """Every parameter of policy *name*."""
    fields = {field.name for field in dataclasses.fields(speculator(name).Parameters)} - {"policy"}
    if name == "ar":
        fields.remove("block")
    return st.fixed_dictionaries({field: FIELDS[field] for field in sorted(fields)})


_PROMPT = st.lists(st.integers(0, FACTS.vocab - 1), min_size=1, max_size=6).map(tuple)
BATCHES = st.lists(st.builds(Request, _PROMPT, st.integers(1, 12)), min_size=1, max_size=3)
"""Prompts with any token in them, the mask and end tokens too."""

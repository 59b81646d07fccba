"""A small plan to capture: a random model of the task's vocabulary, held-out problems."""

import dataclasses
import functools
from typing import Any

import torch

from kernels_ref.capture.plan import Plan
from kernels_ref.capture.prompts import held_out
from kernels_ref.capture.source import Source
from kernels_ref.decoders import policy
from kernels_ref.decoding.query import ModelFacts
from kernels_ref.decoding.reference import ReferenceModel
from kernels_ref.pass_shape import LayerShape, PassShape
from kernels_ref.passes import RandomDecoder
from kernels_ref.task.vocabulary import END, MASK, WORDS

SHAPE = PassShape(
    24,
    len(WORDS),
    (LayerShape(1, query_heads=2, kv_heads=1, head_dim=8, ffn=32, qk_norm=True),),
    tied=True,
    rotary_theta=1e4,
)


@functools.cache
def model() -> ReferenceModel:
    """Random weights; it says little that makes sense, but always the same."""
    decoder = RandomDecoder(SHAPE, dtype=torch.float64, seed=5)
    return ReferenceModel(decoder, ModelFacts(MASK, (END,), 8, 96, len(WORDS)))


def source(prompt: str = "block-causal", sha256: str = "0" * 64) -> Source:
    """Where the random model comes from."""
    return Source("random", sha256, prompt, model())


def plan(name: str = "gwd", *, problems: int = 7, batch: int = 3, **changes: Any) -> Plan:
    """A plan of *problems* problems in batches; *changes* replace its fields."""
    chosen = policy(name)
    made = Plan(
        name="small",
        policy=chosen,
        parameters=chosen.Parameters(),
        source=source(chosen.PROMPT),
        prompts=held_out(problems, seed=3),
        task="held-out word problems",
        batch=batch,
        seed=3,
        output_tokens=24,
        dtype="float64",
    )
    return dataclasses.replace(made, **changes)

"""Small random float64 targets with random drafters of every kind beside them."""

import dataclasses
import functools

import torch

from kernels_ref.decoders import speculator
from kernels_ref.decoding.query import ModelFacts
from kernels_ref.decoding.reference import ReferenceModel
from kernels_ref.drafting.dflash import DFlash, DFlashDrafter, DFlashShape, random_dflash
from kernels_ref.drafting.eagle3 import Eagle3, Eagle3Drafter, Eagle3Shape, random_eagle3
from kernels_ref.drafting.model import Drafter, SpeculativeModel
from kernels_ref.pass_shape import LayerShape, PassShape
from kernels_ref.passes import Decoder, RandomDecoder
from kernels_ref.random_weights import normal

MASK, ENDS, VOCAB = 0, (9,), 11
LAYER = LayerShape(3, query_heads=4, kv_heads=2, head_dim=8, ffn=24, qk_norm=True)
SHAPE = PassShape(hidden=24, vocab=VOCAB, layers=(LAYER,), adapter_rank=3, rotary_theta=1e3)
FACTS = ModelFacts(MASK, ENDS, 8, 128, VOCAB)
ONE_LAYER = dataclasses.replace(LAYER, count=1)
TAPPED = (1, 2, 3)
DRAFT_TOKENS = torch.arange(1, VOCAB, 2)
"""What EAGLE's drafter can say."""


@functools.cache
def target() -> Decoder:
    """Random weights, about as sure of themselves as trained ones, with random adapters."""
    decoder = RandomDecoder(SHAPE, dtype=torch.float64, seed=1)
    decoder.weights = dataclasses.replace(decoder.weights, lm_head=decoder.weights.lm_head * 2.5)
    return decoder


def _eagle3() -> Drafter:
    shape = Eagle3Shape(SHAPE.hidden, ONE_LAYER, len(DRAFT_TOKENS), TAPPED, SHAPE.rotary_theta)
    weights = random_eagle3(shape, normal(torch.float64, "cpu", 2))
    decoder = Eagle3(shape, weights, target().weights.embedding)
    return Eagle3Drafter(decoder, DRAFT_TOKENS, MASK)


def _dflash() -> Drafter:
    shape = DFlashShape(SHAPE.hidden, LAYER, TAPPED, SHAPE.rotary_theta)
    weights = random_dflash(shape, normal(torch.float64, "cpu", 3))
    return DFlashDrafter(DFlash(shape, weights, target()), MASK)


@functools.cache
def model_for(name: str, ends: tuple[int, ...] = ENDS) -> ReferenceModel | SpeculativeModel:
    """The target with the drafter that policy *name* needs."""
    facts = dataclasses.replace(FACTS, end_tokens=ends)
    drafter = {"eagle3": _eagle3, "dflash": _dflash}.get(speculator(name).DRAFTER or "")
    if drafter is None:
        return ReferenceModel(target(), facts)
    return SpeculativeModel(ReferenceModel(target(), facts, TAPPED), drafter(), facts)

"""Weights as named tensors, and back."""

import dataclasses

import pytest

pytest.importorskip("torch")

import torch

from kernels_ref.named_weights import named_tensors, sizes_only, weights_of
from kernels_ref.pass_shape import PassShape
from kernels_ref.passes import RandomDecoder
from tests.kernels_ref.training.small import DENSE, EXPERTS

UNTIED = dataclasses.replace(DENSE, tied=False)
WITH_ADAPTERS = dataclasses.replace(DENSE, adapter_rank=3)
V = DENSE.vocab
SHAPES = {"dense": DENSE, "experts": EXPERTS, "untied": UNTIED, "adapters": WITH_ADAPTERS}


def tensors(shape: PassShape) -> dict[str, torch.Tensor]:
    """Of random weights."""
    weights = RandomDecoder(shape, dtype=torch.float32).weights
    return named_tensors(weights, tied=shape.tied)


def test_names_say_where_a_tensor_is() -> None:
    """Those of a dense layer, written out; a tied LM head is no tensor of its own."""
    of_layer = (
        "attention_norm",
        "qkv.weight",
        "query_key_norm",
        "output.weight",
        "ffn_norm",
        "feed_forward.gate_up.weight",
        "feed_forward.down.weight",
    )
    layers = [f"layers.{layer}.{name}" for layer in range(2) for name in of_layer]
    assert list(tensors(DENSE)) == ["embedding", *layers, "final_norm"]
    assert set(tensors(UNTIED)) - set(tensors(DENSE)) == {"lm_head"}
    assert {
        "layers.1.experts.router",
        "layers.1.experts.gate_up",
        "layers.1.experts.shared.down.weight",
    } <= set(tensors(EXPERTS))
    assert {"layers.0.qkv.adapters.down", "layers.0.qkv.adapters.ups.2"} <= set(
        tensors(WITH_ADAPTERS)
    )


@pytest.mark.parametrize("name", SHAPES)
def test_tensors_come_back_where_they_were(name: str) -> None:
    """The very tensors, each once: an optimiser steps what the decoder multiplies with."""
    given = tensors(SHAPES[name])
    again = named_tensors(weights_of(SHAPES[name], given), tied=SHAPES[name].tied)
    assert list(again) == list(given)
    assert all(again[key] is given[key] for key in given)
    head = weights_of(SHAPES[name], given).lm_head
    assert head is given["embedding" if SHAPES[name].tied else "lm_head"]


def test_order_does_not_matter() -> None:
    """Files may hold tensors in any order."""
    given = tensors(EXPERTS)
    backwards = dict(reversed(given.items()))
    assert list(named_tensors(weights_of(EXPERTS, backwards), tied=True)) == list(given)


@pytest.mark.parametrize("name", SHAPES)
def test_a_missing_tensor_is_named(name: str) -> None:
    """Each in turn, with the size that it should have."""
    given = tensors(SHAPES[name])
    for key, tensor in given.items():
        rest = {other: t for other, t in given.items() if other != key}
        with pytest.raises(ValueError, match="is missing") as refused:
            weights_of(SHAPES[name], rest)
        assert f"{key} {list(tensor.shape)} is missing" in str(refused.value)


def test_sizes_alone() -> None:
    """A tensor that holds nothing, of any size but a negative one."""
    assert sizes_only(3, 0, 5).shape == (3, 0, 5)
    assert sizes_only(2**40, 2**20).is_meta
    with pytest.raises(ValueError, match=r"no negative size, got \[4, -1\]"):
        sizes_only(4, -1)


def test_every_mistake_is_told() -> None:
    """One sentence with what is missing, unknown and of another size."""
    given = tensors(DENSE)
    del given["final_norm"]
    given["layers.2.attention_norm"] = torch.ones(24)
    given["embedding"] = torch.ones(V, 23)
    with pytest.raises(ValueError, match="; ") as refused:
        weights_of(DENSE, given)
    assert str(refused.value).split("; ") == [
        "final_norm [24] is missing",
        "layers.2.attention_norm is not of this architecture",
        f"embedding is [{V}, 23], the architecture has [{V}, 24]",
        f"lm_head is [{V}, 23], the architecture has [{V}, 24]",
    ]

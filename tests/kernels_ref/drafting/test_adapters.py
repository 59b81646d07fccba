"""Adapters on a target: on they are other weights, off they are not there, token by token."""

from dataclasses import replace

import pytest

pytest.importorskip("torch")

import numpy as np
import torch
from pydantic import TypeAdapter, ValidationError

from kernels_ref.decoding.query import IntArray, ModelFacts, Query
from kernels_ref.decoding.reference import ReferenceModel
from kernels_ref.drafting.adapters import (
    PARTS,
    AdapterShape,
    Part,
    adapter_tensors,
    new_adapters,
    with_adapters,
    with_new_adapters,
)
from kernels_ref.kernels.lm_head import lm_head
from kernels_ref.kernels.visibility import causal as causal_rows
from kernels_ref.named_weights import named_tensors, weights_of
from kernels_ref.passes import Decoder
from kernels_ref.random_weights import Projection
from kernels_ref.task.vocabulary import END, MASK
from tests.kernels_ref.drafting import naive
from tests.kernels_ref.drafting.pairs import (
    ADAPTERS,
    HIDDEN,
    SHAPE,
    VOCAB,
    chain,
    draw,
    drawn_tokens,
    said,
    same,
    target,
)
from tests.kernels_ref.training.small import EXPERTS, exact

SUBSETS: tuple[tuple[Part, ...], ...] = (
    PARTS,
    ("qkv",),
    ("output",),
    ("gate_up", "down"),
    ("down", "qkv"),
)
(LAYER,) = SHAPE.layers
COLUMNS = {
    # What goes in, and what comes out of each of the projections that are fused in one.
    "qkv": (HIDDEN, LAYER.projected_columns),
    "output": (LAYER.query_columns, (HIDDEN,)),
    "gate_up": (HIDDEN, (24, 24)),
    "down": (24, (HIDDEN,)),
}


def adapted(parts: tuple[Part, ...] = PARTS) -> Decoder:
    """A target with random adapters, up parts too."""
    return with_new_adapters(target(), replace(ADAPTERS, parts=parts), draw())


def model_of(decoder: Decoder) -> ReferenceModel:
    """*decoder* as decoders see it."""
    return ReferenceModel(decoder, ModelFacts(MASK, (END,), 4, 64, VOCAB))


def passed(decoder: Decoder, tokens: IntArray, gate: torch.Tensor | None) -> torch.Tensor:
    """Logits of one causal row of *tokens*."""
    seen = causal_rows(torch.zeros(1, dtype=torch.int64), torch.tensor([len(tokens)]))
    embedded = decoder.weights.embedding[torch.from_numpy(tokens)][None]
    plans = decoder.plans(seen, len(tokens), None)
    states = decoder.states(embedded, seen, plans=plans, gate=gate)
    return lm_head(states[0], decoder.weights.lm_head)


def baked(decoder: Decoder) -> Decoder:
    """A decoder without adapters, in whose weights they have been added."""

    def plain(projection: Projection) -> Projection:
        return Projection(naive.merged(projection, 2.0))

    layers = []
    for layer in decoder.weights.layers:
        inner = naive.dense(layer)
        feed_forward = replace(inner, gate_up=plain(inner.gate_up), down=plain(inner.down))
        qkv, output = plain(layer.qkv), plain(layer.output)
        layers.append(replace(layer, qkv=qkv, output=output, feed_forward=feed_forward))
    return Decoder(SHAPE, replace(decoder.weights, layers=tuple(layers)))


@pytest.mark.parametrize("parts", SUBSETS, ids="+".join)
def test_on_they_are_weights_of_their_own(parts: tuple[Part, ...]) -> None:
    """A pass with the gate on is one with W + (alpha / rank) up down in place of W."""
    decoder, tokens = adapted(parts), drawn_tokens(7)
    on = torch.ones(1, len(tokens), dtype=torch.bool)
    found = passed(decoder, tokens, on)
    same(found, passed(baked(decoder), tokens, None))
    assert (found - passed(target(), tokens, None)).abs().max() > 1e-3


def test_off_they_are_not_there() -> None:
    """Bit for bit the target, in a pass without a gate and in one whose gate is off."""
    decoder, tokens = adapted(), drawn_tokens(7)
    expected = passed(target(), tokens, None)
    off = torch.zeros(1, len(tokens), dtype=torch.bool)
    assert torch.equal(passed(decoder, tokens, None), expected)
    assert torch.equal(passed(decoder, tokens, off), expected)


def test_one_row_has_them_on_and_another_is_the_target() -> None:
    """What a row asks for does not touch the row beside it: its logits stay bit for bit."""
    rows = [drawn_tokens(6, 1), drawn_tokens(6, 2)]
    on = np.ones(6, dtype=np.bool_)
    plain = model_of(target())
    cache = plain.new_cache(2, 8)
    expected = said(plain, [chain("draft", 0, tokens) for tokens in rows], cache)
    model = model_of(adapted())
    asked = [chain("draft", 0, rows[0]), chain("draft", 0, rows[1], adapted=on)]
    found = said(model, asked, model.new_cache(2, 8))
    assert torch.equal(found[0].logits, expected[0].logits)
    assert not torch.allclose(found[1].logits[:, 1:], expected[1].logits[:, 1:])


def test_gates_of_single_tokens() -> None:
    """A gate for every token: each is projected by the weights that are its own, in every layer.

    Rows of different length behind prefixes without adapters, one of them waiting.
    """
    decoder = adapted()
    model = model_of(decoder)
    cache = model.new_cache(3, 12)
    tokens = {0: drawn_tokens(8, 3), 2: drawn_tokens(11, 4)}
    prefix = {0: 3, 2: 5}
    gates = {0: [False, True, False, True, True], 2: [True, False, False, True, False, True]}
    before, asked = (list[Query | None]([None] * 3) for _ in range(2))
    for row, given in tokens.items():
        left, gate = prefix[row], np.array(gates[row])
        before[row] = chain("prefill", 0, given[:left])
        asked[row] = chain("draft", left, given[left:], adapted=gate)
    model.forward(before, cache)
    for row, answer in zip(tokens, said(model, asked, cache), strict=True):
        on = [False] * prefix[row] + gates[row]
        stream = naive.streams(decoder, tokens[row].tolist(), naive.causal, on)[-1]
        expected = naive.logits(decoder, stream[prefix[row] :])
        same(answer.logits[:, MASK + 1 :], expected[:, MASK + 1 :])


def test_new_ones_change_nothing() -> None:
    """Their up parts are zero: with the gate on the target still answers, bit for bit."""
    drawn = new_adapters(target(), ADAPTERS, draw())
    for name, tensor in drawn.items():
        assert bool(tensor.any()) == name.endswith("down"), name
    tokens = drawn_tokens(5)
    on = torch.ones(1, len(tokens), dtype=torch.bool)
    found = passed(with_adapters(target(), ADAPTERS, drawn), tokens, on)
    assert torch.equal(found, passed(target(), tokens, None))


def test_a_token_that_is_off_has_no_gradient() -> None:
    """None flows to adapters from tokens that are off and see none that is on."""
    tensors = {name: t.requires_grad_() for name, t in adapter_tensors(adapted()).items()}
    decoder, tokens = with_adapters(target(), ADAPTERS, tensors), drawn_tokens(6)
    gate = torch.tensor([[False, False, False, True, False, True]])
    logits = passed(decoder, tokens, gate)
    leaves = list(tensors.values())
    clean, others = (part.square().sum() for part in logits.split(3))
    gradients = torch.autograd.grad(clean, leaves, retain_graph=True)
    assert all(not gradient.any() for gradient in gradients)
    assert all(gradient.any() for gradient in torch.autograd.grad(others, leaves))


@pytest.mark.parametrize("parts", SUBSETS, ids="+".join)
def test_where_they_are_and_how_large(parts: tuple[Part, ...]) -> None:
    """One down part a fused projection, one up part for each that is fused in it, and no other."""
    inner = {"gate_up": "feed_forward.gate_up", "down": "feed_forward.down"}
    expected = {}
    for layer in range(LAYER.count):
        for part in parts:
            columns, outs = COLUMNS[part]
            where = f"layers.{layer}.{inner.get(part, part)}.adapters"
            expected[f"{where}.down"] = [3 * len(outs), columns]
            expected |= {f"{where}.ups.{i}": [out, 3] for i, out in enumerate(outs)}
    found = new_adapters(target(), replace(ADAPTERS, parts=parts), draw())
    assert {name: list(tensor.shape) for name, tensor in found.items()} == expected


def test_target_and_adapted_share_their_weights() -> None:
    """Adapters are beside a target, and nothing of it is copied."""
    plain = target()
    both = with_adapters(plain, ADAPTERS, new_adapters(plain, ADAPTERS, draw()))
    own, again = (named_tensors(d.weights, tied=False) for d in (plain, both))
    assert all(again[name] is tensor for name, tensor in own.items())


def test_tensors_that_are_none_of_theirs() -> None:
    """Missing, of another size, unknown or the target's own: each is named."""
    tensors = new_adapters(target(), ADAPTERS, draw())
    del tensors["layers.0.qkv.adapters.down"]
    tensors["layers.1.output.adapters.ups.0"] = torch.zeros(5, 3)
    tensors["layers.3.output.adapters.ups.0"] = torch.zeros(HIDDEN, 3)
    with pytest.raises(ValueError, match="; ") as refused:
        with_adapters(target(), ADAPTERS, tensors)
    assert sorted(str(refused.value).split("; ")) == [
        f"layers.0.qkv.adapters.down [9, {HIDDEN}] is missing",
        f"layers.1.output.adapters.ups.0 is [5, 3], the architecture has [{HIDDEN}, 3]",
        "layers.3.output.adapters.ups.0 is not of this architecture",
    ]


@pytest.mark.parametrize("name", ["final_norm", "embedding", "layers.1.qkv.weight"])
def test_adapters_do_not_replace_the_targets_weights(name: str) -> None:
    """A tensor of the target's name among them would be another target, and is refused."""
    tensors = new_adapters(target(), ADAPTERS, draw())
    tensors[name] = torch.zeros_like(named_tensors(target().weights, tied=False)[name])
    with pytest.raises(ValueError, match=name):
        with_adapters(target(), ADAPTERS, tensors)


def test_experts_have_none() -> None:
    """They are for layers with a dense feed-forward, which is said."""
    with pytest.raises(ValueError, match="dense feed-forward"):
        new_adapters(exact(EXPERTS), ADAPTERS, draw())


@pytest.mark.parametrize(
    ("fields", "what"),
    [
        ({"rank": 0}, "greater than or equal to 1"),
        ({"rank": 5000}, "less than or equal to 4096"),
        ({"rank": 2.5}, "valid integer"),
        ({"alpha": 0}, "greater than 0"),
        ({"alpha": float("inf")}, "less than or equal to 1000000"),
        ({"parts": []}, "at least 1 item"),
        ({"parts": ["qkv", "head"]}, "'qkv', 'output', 'gate_up' or 'down'"),
        ({"parts": ["qkv", "qkv"]}, "parts are named once, got qkv, qkv"),
        ({"dropout": 0.1}, "Unexpected"),
    ],
)
def test_shapes_that_none_can_have(fields: dict[str, object], what: str) -> None:
    """The field and the rule."""
    with pytest.raises(ValidationError, match=what):
        TypeAdapter(AdapterShape).validate_python(fields)


def test_the_scaling_is_alpha_over_rank() -> None:
    """As adapters have it, and so the decoder that carries them."""
    shape = AdapterShape(rank=8, alpha=20.0)
    assert shape.scaling == 2.5
    made = with_new_adapters(target(), shape, draw())
    assert (made.shape.adapter_rank, made.shape.adapter_scaling) == (8, 2.5)
    # A model that is read with these sizes takes the same tensors.
    tensors = named_tensors(made.weights, tied=False)
    assert torch.equal(weights_of(made.shape, tensors).final_norm, made.weights.final_norm)

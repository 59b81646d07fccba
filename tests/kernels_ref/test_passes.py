"""Whole forward passes against one written out with the naive kernels, and against themselves."""

import dataclasses

import pytest

pytest.importorskip("torch")

import torch
from torch.nn.functional import softmax

from kernels_ref.kernels.attention import naive_attention
from kernels_ref.kernels.kv_cache import naive_scatter_kv
from kernels_ref.kernels.lm_head import naive_confidence
from kernels_ref.kernels.lora import naive_add_gated_lora
from kernels_ref.kernels.moe import Router, naive_grouped_experts, naive_route
from kernels_ref.kernels.rms_norm import naive_rms_norm
from kernels_ref.kernels.rotary import naive_rotary
from kernels_ref.kernels.swiglu import naive_swiglu
from kernels_ref.kernels.visibility import Visibility, block_causal, causal, sliding, whole
from kernels_ref.pass_shape import ExpertShape, LayerShape, PassShape
from kernels_ref.passes import KvCache, PassOutput, RandomDecoder
from kernels_ref.random_weights import FeedForward, LayerWeights, Projection

DENSE = LayerShape(count=2, query_heads=4, kv_heads=2, head_dim=4, ffn=12, qk_norm=True)
EXPERTS = ExpertShape(
    count=8,
    ffn=6,
    router=Router(top_k=2, score="sigmoid", groups=4, groups_used=2, scaling=2.5),
    shared=1,
)
SHAPES = {
    "dense": PassShape(hidden=16, vocab=30, layers=(DENSE,)),
    "adapter": PassShape(hidden=16, vocab=30, layers=(DENSE,), adapter_rank=3),
    "experts": PassShape(
        hidden=16,
        vocab=30,
        layers=(
            dataclasses.replace(DENSE, count=1),
            dataclasses.replace(DENSE, count=2, ffn=None, experts=EXPERTS),
        ),
    ),
    "both and windows": PassShape(
        hidden=16,
        vocab=30,
        layers=(
            dataclasses.replace(DENSE, experts=EXPERTS, window_tokens=3, qk_norm=False),
            dataclasses.replace(DENSE, kv_heads=1, head_dim=8, shared_key_value=True),
        ),
    ),
}
PREFIX, QUERIES = torch.tensor([0, 5, 9]), 4
CAPACITY = 16


def project(x: torch.Tensor, projection: Projection, gate: torch.Tensor | None) -> torch.Tensor:
    """A linear and its adapters in double precision."""
    base = x.double() @ projection.weight.double().T
    adapters = projection.adapters
    if adapters is None or gate is None:
        return base
    return naive_add_gated_lora(base, x, adapters.down, adapters.ups, gate, 2.0)


def feed_forward(x: torch.Tensor, weights: FeedForward, gate: torch.Tensor | None) -> torch.Tensor:
    """A SwiGLU in double precision."""
    return project(naive_swiglu(project(x, weights.gate_up, gate)), weights.down, gate)


def mix(
    x: torch.Tensor, shape: LayerShape, weights: LayerWeights, gate: torch.Tensor | None
) -> torch.Tensor:
    """Everything behind a layer's attention, summed."""
    out = torch.zeros_like(x)
    if weights.feed_forward is not None:
        out += feed_forward(x, weights.feed_forward, gate)
    if weights.experts is not None and shape.experts is not None:
        given = weights.experts
        experts, shares = naive_route(x @ given.router.double().T, shape.experts.router)
        out += naive_grouped_experts(x, experts, shares, given.gate_up, given.down)
        if given.shared is not None:
            out += feed_forward(x, given.shared, None)
    return out


def naive_pass(
    decoder: RandomDecoder,
    tokens: torch.Tensor,
    visibility: Visibility,
    cache: KvCache,
    gate: torch.Tensor | None,
) -> torch.Tensor:
    """Logits of every token, layer by layer in double precision (attention in float32)."""
    rows, queries = tokens.shape
    on = None if gate is None else gate.flatten()
    stream = decoder.weights.embedding.double()[tokens.flatten()]
    positions = visibility.prefix_tokens[:, None] + torch.arange(queries)
    layers = zip(decoder.shape.unrolled, decoder.weights.layers, strict=True)
    for index, ((_, shape), weights) in enumerate(layers):
        x = naive_rms_norm(stream, weights.attention_norm)
        heads = project(x, weights.qkv, on).reshape(rows, queries, -1, shape.head_dim)
        query, key = heads[:, :, : shape.query_heads], heads[:, :, shape.query_heads :]
        key, value = key[:, :, : shape.kv_heads], key[:, :, -shape.kv_heads :]
        norm = weights.query_key_norm
        query, key = (
            naive_rotary(part, positions, None if norm is None else norm[0], theta=1e6)
            for part in (query, key)
        )
        lengths = visibility.prefix_tokens, visibility.query_tokens
        keys = naive_scatter_kv(cache.keys[index].double(), key, *lengths)
        values = naive_scatter_kv(cache.values[index].double(), value, *lengths)
        limit = shape.window_tokens
        seen = sliding(visibility, limit) if limit else visibility
        attended = naive_attention(query, keys, values, seen).double()
        stream = stream + project(attended.reshape(len(stream), -1), weights.output, on)
        stream = stream + mix(naive_rms_norm(stream, weights.ffn_norm), shape, weights, on)
    states = naive_rms_norm(stream, decoder.weights.final_norm)
    return states @ decoder.weights.lm_head.double().T


def decoder_of(name: str) -> RandomDecoder:
    """A decoder small enough for the naive kernels."""
    return RandomDecoder(SHAPES[name], dtype=torch.float32, seed=3)


def some_tokens(rows: int, queries: int, seed: int = 0) -> torch.Tensor:
    """Random tokens [rows, queries]."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(30, (rows, queries), generator=generator)


def run(
    decoder: RandomDecoder,
    tokens: torch.Tensor,
    visibility: Visibility,
    cache: KvCache,
    gate: torch.Tensor | None = None,
) -> PassOutput:
    """One pass with everything prepared."""
    plans = decoder.plans(visibility, tokens.shape[1], cache)
    return decoder.forward(tokens, visibility, cache=cache, plans=plans, gate=gate)


def copy_of(cache: KvCache, first: int = 0) -> KvCache:
    """The rows of *cache* from *first* on, to be written without touching it."""
    keys, values = (
        tuple(each[first:].clone() for each in kind) for kind in (cache.keys, cache.values)
    )
    return KvCache(keys, values)


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("kind", ["whole", "causal", "block-causal"])
def test_a_pass_is_its_naive_twin(name: str, kind: str) -> None:
    """Every family, every mask, rows of different prefixes: the same logits and confidences."""
    counts = torch.full_like(PREFIX, QUERIES)
    visibility = {
        "whole": whole(PREFIX, counts),
        "causal": causal(PREFIX, counts),
        "block-causal": block_causal(PREFIX, counts, 3),
    }[kind]
    decoder, tokens = decoder_of(name), some_tokens(len(PREFIX), QUERIES)
    gate = torch.arange(QUERIES).ne(0).expand(len(PREFIX), -1) if name == "adapter" else None
    cache = decoder.new_cache(len(PREFIX), CAPACITY)
    expected = naive_pass(decoder, tokens, visibility, cache, gate)
    found = run(decoder, tokens, visibility, cache, gate)

    assert torch.allclose(found.logits.double(), expected, atol=1e-4)
    probability = naive_confidence(expected)[1]
    assert torch.allclose(found.probability.double(), probability, rtol=1e-3)
    chosen = softmax(found.logits, dim=-1).gather(1, found.token[:, None])[:, 0]
    assert torch.allclose(chosen, found.probability, rtol=1e-5)


@pytest.mark.parametrize("name", SHAPES)
def test_one_causal_pass_is_one_pass_per_token(name: str) -> None:
    """What a pass leaves in the cache is what the next token needs: prefill equals decoding."""
    decoder, tokens = decoder_of(name), some_tokens(2, 5)
    prefix, one = torch.tensor([0, 3]), torch.ones(2, dtype=torch.int64)
    cache = decoder.new_cache(2, CAPACITY)
    fresh = copy_of(cache)
    together = run(decoder, tokens, causal(prefix, 5 * one), cache).logits.view(2, 5, -1)

    for step in range(5):
        alone = run(decoder, tokens[:, step : step + 1], causal(prefix + step, one), fresh)
        assert torch.allclose(alone.logits, together[:, step], atol=1e-4)


def test_rows_do_not_see_each_other_or_padding() -> None:
    """A row in a ragged batch gets what it gets alone, whatever its padding holds."""
    decoder, tokens = decoder_of("experts"), some_tokens(2, 4)
    prefix, counts = torch.tensor([2, 6]), torch.tensor([4, 2])
    cache = decoder.new_cache(2, CAPACITY)
    alone = copy_of(cache, first=1)
    both = run(decoder, tokens, whole(prefix, counts), cache).logits.view(2, 4, -1)
    one = run(decoder, tokens[1:, :2], whole(prefix[1:], counts[1:]), alone).logits

    assert torch.allclose(both[1, :2], one, atol=1e-5)


def test_adapters_off_change_nothing_and_on_do() -> None:
    """A gate of zeros is the base model, token by token; open positions differ."""
    decoder, tokens = decoder_of("adapter"), some_tokens(1, 4)
    visibility = causal(torch.tensor([0]), torch.tensor([4]))
    gates = (None, torch.zeros(1, 4), torch.tensor([[0, 0, 1, 1]]))
    base, off, some = (
        run(decoder, tokens, visibility, decoder.new_cache(1, 8), gate).logits for gate in gates
    )

    assert torch.equal(base, off)
    assert torch.allclose(base[:2], some[:2], atol=1e-6)
    assert not torch.allclose(base[2:], some[2:], atol=1e-2)


def test_logits_come_for_the_rows_asked() -> None:
    """The LM head runs on the rows named, in that order, and on none when none is."""
    decoder, tokens = decoder_of("dense"), some_tokens(2, 3)
    visibility = whole(torch.tensor([1, 2]), torch.tensor([3, 3]))
    cache = decoder.new_cache(2, 8)
    plans = decoder.plans(visibility, 3, cache)

    def logits(rows: torch.Tensor | None) -> torch.Tensor:
        asked = decoder.forward(tokens, visibility, cache=cache, plans=plans, logit_rows=rows)
        return asked.logits

    every = logits(None)
    assert torch.allclose(logits(torch.tensor([5, 0])), every[[5, 0]], atol=1e-5)
    assert logits(torch.tensor([], dtype=torch.int64)).shape == (0, 30)


def test_layers_are_distinct_and_fixed_by_the_seed() -> None:
    """No two layers share weights, and the same seed draws the same ones."""
    first, again = decoder_of("dense").weights, decoder_of("dense").weights

    assert not torch.equal(first.layers[0].qkv.weight, first.layers[1].qkv.weight)
    assert torch.equal(first.layers[1].qkv.weight, again.layers[1].qkv.weight)
    assert torch.equal(first.lm_head, again.lm_head)


def test_a_pass_runs_in_bf16() -> None:
    """Half precision stays half precision, apart from confidences, and stays finite."""
    decoder = RandomDecoder(SHAPES["experts"], dtype=torch.bfloat16)
    visibility = whole(torch.tensor([3]), torch.tensor([4]))
    found = run(decoder, some_tokens(1, 4), visibility, decoder.new_cache(1, 8))

    assert found.logits.dtype == torch.bfloat16
    assert found.probability.dtype == torch.float32
    assert found.probability.isfinite().all()

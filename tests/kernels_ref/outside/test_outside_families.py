"""The families' data files against what is published of their checkpoints."""

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

import torch

from kernels_ref.decoders import policy
from kernels_ref.kernels.moe import Router
from kernels_ref.named_weights import named_tensors
from kernels_ref.outside.family import family_names, read_family
from kernels_ref.outside.sizes import Sizes, pass_shape, read_sizes
from kernels_ref.pass_shape import ExpertShape
from kernels_ref.random_weights import random_weights

LLADA2_MINI: dict[str, Any] = {
    "architectures": ["LLaDA2MoeModelLM"],
    "vocab_size": 157184,
    "hidden_size": 2048,
    "intermediate_size": 5120,
    "num_hidden_layers": 20,
    "num_attention_heads": 16,
    "num_key_value_heads": 4,
    "head_dim": 128,
    "first_k_dense_replace": 1,
    "num_experts": 256,
    "num_experts_per_tok": 8,
    "num_shared_experts": 1,
    "moe_intermediate_size": 512,
    "n_group": 8,
    "topk_group": 4,
    "routed_scaling_factor": 2.5,
    "rope_theta": 600000,
    "rope_scaling": None,
    "partial_rotary_factor": 0.5,
    "max_position_embeddings": 32768,
    "rms_norm_eps": 1e-06,
    "hidden_act": "silu",
}
LLADA2_FLASH = LLADA2_MINI | {
    "hidden_size": 4096,
    "intermediate_size": 9216,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "moe_intermediate_size": 1024,
}
SDAR_8B: dict[str, Any] = {
    "architectures": ["SDARForCausalLM"],
    "vocab_size": 151936,
    "hidden_size": 4096,
    "intermediate_size": 12288,
    "num_hidden_layers": 36,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "rope_theta": 1000000,
    "max_position_embeddings": 32768,
    "rms_norm_eps": 1e-06,
    "hidden_act": "silu",
}
PUBLISHED = {
    "LLaDA2-mini": ("llada2", LLADA2_MINI, 16.256e9),
    "LLaDA2-flash": ("llada2", LLADA2_FLASH, 102.889e9),
    "SDAR-8B": ("sdar", SDAR_8B, 8.190e9),
}
"""Family, config, parameters."""


def sizes_of(family: str, config: dict[str, Any]) -> Sizes:
    """What the family reads off *config*."""
    return read_sizes(Path("folder"), config, read_family(family))


@pytest.mark.parametrize("name", PUBLISHED)
def test_parameters_are_as_many_as_published(name: str) -> None:
    """The matrices of the shape that a public config gives hold the published parameters."""
    family, config, parameters = PUBLISHED[name]
    shape = pass_shape(Path("folder"), sizes_of(family, config))
    weights = random_weights(shape, lambda *sizes: torch.empty(*sizes, device="meta"))
    tensors = named_tensors(weights, tied=shape.tied).values()

    assert sum(each.numel() for each in tensors if each.ndim > 1) == pytest.approx(
        parameters, rel=1e-4
    )


def test_llada2_mini_is_routed_as_published() -> None:
    """Layer 0 is dense; then 8 of 256 sigmoid-scored experts in 4 of 8 groups, and a shared one."""
    shape = pass_shape(Path("folder"), sizes_of("llada2", LLADA2_MINI))
    dense, sparse = shape.layers

    assert (dense.count, dense.ffn, dense.experts) == (1, 5120, None)
    router = Router(8, score="sigmoid", groups=8, groups_used=4, scaling=2.5)
    assert sparse.experts == ExpertShape(256, 512, router, shared=1, biased=True)
    assert (sparse.count, sparse.ffn) == (19, None)
    assert (sparse.query_heads, sparse.kv_heads, sparse.head_dim) == (16, 4, 128)
    assert dense.qk_norm
    assert sparse.qk_norm
    assert (shape.rotary_theta, shape.rotary_dim, shape.tied) == (6e5, 64, False)


@pytest.mark.parametrize(
    ("family", "config", "tokens"),
    [
        ("llada2", LLADA2_MINI, (156895, (156892,), 32, 32768)),
        ("sdar", SDAR_8B, (151669, (151643, 151645), 4, 32768)),
    ],
)
def test_tokens_are_the_published_ones(
    family: str, config: dict[str, Any], tokens: tuple[int, tuple[int, ...], int, int]
) -> None:
    """Mask, end, block and context where the config does not say otherwise."""
    sizes = sizes_of(family, config)
    ends = read_family(family).end_tokens

    assert (sizes.mask_token, ends, sizes.block_tokens, sizes.context_tokens) == tokens


def test_newer_configs_say_the_same_elsewhere() -> None:
    """Angles under rope_parameters, as transformers 5 writes them, are the older keys' angles."""
    newer = {key: value for key, value in LLADA2_MINI.items() if "ro" not in key[:2]}
    newer.pop("partial_rotary_factor")
    newer["rope_parameters"] = {
        "rope_type": "default",
        "rope_theta": 600000.0,
        "partial_rotary_factor": 0.5,
    }
    newer["routed_scaling_factor"] = 2.5

    assert sizes_of("llada2", newer) == sizes_of("llada2", LLADA2_MINI)


@pytest.mark.parametrize("name", family_names())
def test_thresholds_are_parameters_of_their_policies(name: str) -> None:
    """Every default of a family is a parameter that its policy takes."""
    family = read_family(name)

    assert family.name == name
    assert family.thresholds
    for policy_name, defaults in family.thresholds.items():
        parameters = policy(policy_name).Parameters(**defaults)
        for key, value in defaults.items():
            assert getattr(parameters, key) == value

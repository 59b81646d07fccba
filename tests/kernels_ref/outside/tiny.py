"""Tiny random checkpoints: made and saved by transformers, or written by hand where none is asked.

SDAR is saved as Qwen3, whose architecture it is. LLaDA2 is saved as Sarvam, the mixture of experts
in transformers whose files name their tensors as Bailing's do.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

VOCAB, MASK, END = 40, 39, 1
BLOCK = 4
SDAR: dict[str, Any] = {
    "architectures": ["SDARForCausalLM"],
    "model_type": "sdar",
    "mask_token_id": MASK,
    "block_size": BLOCK,
    "vocab_size": VOCAB,
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 128,
    "rms_norm_eps": 1e-6,
    "hidden_act": "silu",
    "rope_theta": 1e4,
    "eos_token_id": END,
    "tie_word_embeddings": False,
}
LLADA2: dict[str, Any] = {
    "architectures": ["LLaDA2MoeModelLM"],
    "model_type": "llada2_moe",
    "num_experts": 16,
    "num_shared_experts": 2,
    "num_experts_per_tok": 3,
    "moe_intermediate_size": 6,
    "n_group": 4,
    "topk_group": 2,
    "routed_scaling_factor": 2.5,
    "first_k_dense_replace": 1,
    "partial_rotary_factor": 0.5,
    "use_qk_norm": True,
    **{key: value for key, value in SDAR.items() if key not in {"architectures", "model_type"}},
    "num_hidden_layers": 3,
}


def sdar_model(dtype: torch.dtype, *, tied: bool = False) -> Any:
    """A random Qwen3 of the sizes of SDAR above."""
    from transformers.models.qwen3 import Qwen3Config, Qwen3ForCausalLM

    return _random(Qwen3ForCausalLM(Qwen3Config(**_theirs(SDAR), tie_word_embeddings=tied)), dtype)


def llada2_model(dtype: torch.dtype) -> Any:
    """A random Sarvam of the sizes of LLADA2 above."""
    from transformers import SarvamMoEConfig
    from transformers.models.glm4_moe import Glm4MoeForCausalLM

    config = _theirs(LLADA2)
    turned = {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.5}
    config["rope_parameters"] = turned
    # Sarvam is a name for GLM-4's model with other names in its files.
    sarvam: Any = SarvamMoEConfig(**config)
    return _random(Glm4MoeForCausalLM(sarvam), dtype)


def _theirs(config: Mapping[str, Any]) -> dict[str, Any]:
    left_out = {"architectures", "model_type", "tie_word_embeddings", "mask_token_id", "block_size"}
    return {key: value for key, value in config.items() if key not in left_out}


def _random(model: Any, dtype: torch.dtype) -> Any:
    """*model* with weights that make its logits differ, norms and the router's bias included."""
    model = model.to(dtype).eval()
    model.set_experts_implementation("eager")
    generator = torch.Generator().manual_seed(5)
    biases = [buffer for name, buffer in model.named_buffers() if "bias" in name]
    with torch.no_grad():
        for tensor in (*model.parameters(), *biases):
            draw = torch.randn(tensor.shape, generator=generator, dtype=torch.float64)
            scale = 0.3 if tensor.ndim == 1 else 1.5 * tensor.shape[-1] ** -0.5
            tensor.copy_(draw * scale + (1 if tensor.ndim == 1 else 0))
    return model


def saved(model: Any, folder: Path, config: Mapping[str, Any], shard: str = "1GB") -> Path:
    """*folder* with the weights of *model* and *config*."""
    model.save_pretrained(folder, max_shard_size=shard)
    write_config(folder, config)
    return folder


def write_config(folder: Path, config: Mapping[str, Any]) -> None:
    """Put *config* into *folder*."""
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")


def sdar_tensors() -> dict[str, torch.Tensor]:
    """The tensors of a checkpoint of SDAR above by Qwen3's names, random."""
    hidden, ffn, heads, kv = 16, 24, 4 * 8, 2 * 8
    sizes: dict[str, tuple[int, ...]] = {
        "model.embed_tokens.weight": (VOCAB, hidden),
        "model.norm.weight": (hidden,),
        "lm_head.weight": (VOCAB, hidden),
    }
    for layer in range(2):
        sizes |= {
            f"model.layers.{layer}.{name}.weight": size
            for name, size in {
                "input_layernorm": (hidden,),
                "self_attn.q_proj": (heads, hidden),
                "self_attn.k_proj": (kv, hidden),
                "self_attn.v_proj": (kv, hidden),
                "self_attn.o_proj": (hidden, heads),
                "self_attn.q_norm": (8,),
                "self_attn.k_norm": (8,),
                "post_attention_layernorm": (hidden,),
                "mlp.gate_proj": (ffn, hidden),
                "mlp.up_proj": (ffn, hidden),
                "mlp.down_proj": (hidden, ffn),
            }.items()
        }
    return {name: torch.randn(size) for name, size in sizes.items()}


def written(folder: Path) -> Path:
    """*folder* with a random SDAR checkpoint that no other package has made."""
    folder.mkdir(exist_ok=True)
    save_file(sdar_tensors(), folder / "model.safetensors")
    write_config(folder, SDAR)
    return folder

"""Folders that cannot be used: the error names the file and the rule, and nothing is guessed."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

import torch
from safetensors.torch import save_file

from kernels_ref.outside import OutsideError, outside_model
from kernels_ref.outside.family import family_names
from tests.kernels_ref.outside.tiny import SDAR, sdar_tensors, write_config, written

WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"


def with_config(**changes: Any) -> Callable[[Path], None]:
    """A folder whose config says *changes*."""
    return lambda folder: write_config(folder, SDAR | changes)


def without_config(*keys: str) -> Callable[[Path], None]:
    """A folder whose config leaves *keys* out."""
    left = {key: value for key, value in SDAR.items() if key not in keys}
    return lambda folder: write_config(folder, left)


def with_file(name: str, text: str) -> Callable[[Path], None]:
    """A folder in which the file *name* holds *text*."""

    def change(folder: Path) -> None:
        (folder / name).write_text(text, encoding="utf-8")

    return change


def with_tensors(**changes: torch.Tensor | None) -> Callable[[Path], None]:
    """A folder with tensors replaced, added, or left out where None; "__" stands for a dot."""

    def change(folder: Path) -> None:
        tensors = sdar_tensors()
        for name, tensor in changes.items():
            tensors.pop(name.replace("__", "."), None)
            if tensor is not None:
                tensors[name.replace("__", ".")] = tensor
        save_file(tensors, folder / WEIGHTS)

    return change


def without_file(name: str) -> Callable[[Path], None]:
    """A folder without the file *name*."""
    return lambda folder: (folder / name).unlink()


def pickled(folder: Path) -> None:
    """A folder with pickled weights only."""
    (folder / WEIGHTS).rename(folder / "pytorch_model.bin")


def index_of(*names: str) -> Callable[[Path], None]:
    """A folder whose index names these files."""
    return with_file(INDEX, json.dumps({"weight_map": {str(i): n for i, n in enumerate(names)}}))


MISTAKES: dict[str, tuple[Callable[[Path], None], str, str]] = {
    "no config": (without_file("config.json"), "", "a checkpoint's folder has a config.json"),
    "no JSON": (with_file("config.json", "{"), "config.json", "not JSON"),
    "no object": (with_file("config.json", "[1]"), "config.json", "a JSON object, got list"),
    "unknown architecture": (
        with_config(architectures=["LlamaForCausalLM"], model_type="llama"),
        "config.json",
        r"one of LLaDA2MoeModelLM, SDARForCausalLM; got \['LlamaForCausalLM'\], model_type llama",
    ),
    "a size left out": (
        without_config("hidden_size"),
        "config.json",
        "a config says hidden under hidden_size",
    ),
    "a size that is no number": (
        with_config(hidden_size="16"),
        "config.json",
        "hidden: .*integer, got '16'",
    ),
    "heads that do not divide": (
        with_config(num_key_value_heads=3),
        "config.json",
        "KV heads divide query heads, got 3 and 4",
    ),
    "another activation": (
        with_config(hidden_act="gelu"),
        "config.json",
        "hidden_act is 'silu' in checkpoints that can be run, got 'gelu'",
    ),
    "another epsilon": (with_config(rms_norm_eps=1e-5), "config.json", "rms_norm_eps is 1e-06"),
    "scaled positions": (
        with_config(rope_scaling={"type": "yarn"}),
        "config.json",
        "rope_scaling is nothing",
    ),
    "quantised": (
        with_config(quantization_config={"bits": 4}),
        "config.json",
        "quantization_config is nothing",
    ),
    "a mask that is no token": (
        with_config(mask_token_id=40),
        "config.json",
        "the mask token is one of the vocabulary of 40, got 40",
    ),
    "the family's mask": (
        without_config("mask_token_id"),
        "config.json",
        "the mask token is one of the vocabulary of 40, got 151669",
    ),
    "no end": (
        with_config(eos_token_id=None),
        "config.json",
        r"an end token is one of the vocabulary of 40, got \[151643, 151645\]",
    ),
    "a tensor missing": (
        with_tensors(model__layers__1__self_attn__k_proj__weight=None),
        "",
        r"missing: model.layers.1.self_attn.k_proj.weight \[16, 16\]$",
    ),
    "many missing": (
        with_config(num_hidden_layers=3),
        "",
        "missing: model.layers.2.* and 8 more",
    ),
    "a tensor too many": (
        with_tensors(model__layers__0__self_attn__q_proj__bias=torch.zeros(32)),
        "",
        "a sdar decoder has no place for: model.layers.0.self_attn.q_proj.bias",
    ),
    "another size": (
        with_tensors(model__norm__weight=torch.ones(17)),
        "",
        r"model.norm.weight \[17\], not \[16\]",
    ),
    "query and key changed over": (
        with_tensors(
            model__layers__0__self_attn__q_proj__weight=torch.zeros(16, 16),
            model__layers__0__self_attn__k_proj__weight=torch.zeros(32, 16),
        ),
        "",
        r"q_proj.weight \[16, 16\], not \[32, 16\], .*k_proj.weight \[32, 16\], not \[16, 16\]",
    ),
    "pickled": (pickled, "", "pytorch_model.bin is pickled, which can run code"),
    "no weights": (without_file(WEIGHTS), "", f"weights are {WEIGHTS} or {INDEX}, found neither"),
    "no safetensors": (with_file(WEIGHTS, "no header"), WEIGHTS, "not safetensors"),
    "a shard missing": (index_of(WEIGHTS, "b.safetensors"), "b.safetensors", "not found"),
    "a shard elsewhere": (index_of("../a.safetensors"), INDEX, "beside it, got ../a.safetensors"),
    "a pickled shard": (index_of("a.bin"), INDEX, "a shard is a safetensors file"),
    "an empty index": (with_file(INDEX, "{}"), INDEX, "an index has a weight_map"),
}


def test_a_folder_without_mistakes_is_read(tmp_path: Path) -> None:
    """What the mistakes below are made in is a checkpoint."""
    found = outside_model(written(tmp_path))

    assert found.family.name == "sdar"
    assert (found.model.facts.mask_token, found.model.facts.end_tokens) == (39, (1,))
    assert (found.model.facts.block_tokens, found.model.facts.context_tokens) == (4, 128)


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_named(mistake: str, tmp_path: Path) -> None:
    """Every mistake is refused with the file that it is in and the rule that it breaks."""
    change, file, rule = MISTAKES[mistake]
    folder = written(tmp_path)
    change(folder)

    with pytest.raises(OutsideError, match=rule) as refused:
        outside_model(folder)
    assert refused.value.path == folder / file
    assert str(folder) in str(refused.value)


def test_a_family_can_be_named(tmp_path: Path) -> None:
    """A checkpoint of an unknown architecture is read as the family that the user names."""
    folder = written(tmp_path)
    write_config(folder, SDAR | {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3"})

    assert outside_model(folder, family="sdar").family.name == "sdar"
    with pytest.raises(OutsideError, match=f"one of {', '.join(family_names())}; got dream"):
        outside_model(folder, family="dream")


def test_a_model_type_stands_in_for_the_architecture(tmp_path: Path) -> None:
    """A config that names no architecture is known by its model_type."""
    folder = written(tmp_path)
    write_config(folder, {key: value for key, value in SDAR.items() if key != "architectures"})

    assert outside_model(folder).family.name == "sdar"

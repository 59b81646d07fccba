"""Checkpoints: what is written is read back, and everything else is refused by file and rule."""

import hashlib
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

import torch
import yaml
from safetensors.torch import load_file, save_file

from kernels_ref.checkpoint import (
    CHECKPOINTS,
    CheckpointError,
    CheckpointManifest,
    checkpoint_tensors,
    read_checkpoint,
    read_checkpoint_manifest,
    write_checkpoint,
)
from kernels_ref.drafting.checkpoint import is_drafter
from kernels_ref.named_weights import named_tensors
from kernels_ref.pass_shape import PassShape
from tests.kernels_ref.training.small import DENSE, EXPERTS, exact

V = DENSE.vocab


def written(folder: Path, shape: PassShape = DENSE) -> CheckpointManifest:
    """A checkpoint "made" of random weights."""
    return write_checkpoint(
        folder,
        named_tensors(exact(shape).weights, tied=True),
        {
            "name": "made",
            "description": "Of a test: with a colon, and äöü.",
            "shape": shape,
            "context_tokens": 64,
            "block_tokens": 4,
            "prompt": "block-causal",
            "mask_token": 0,
            "end_token": 1,
            "recipe": {"steps": 3, "rate": 1e-3, "start": None, "sizes": (1, 2)},
            "software": {"torch": "2"},
            "final_loss": 1.25,
        },
    )


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """The manifest of a dense checkpoint."""
    written(tmp_path)
    return tmp_path / "made.yaml"


def change(path: Path, **fields: Any) -> None:
    """Fields of the manifest in another way; None takes one out."""
    document = yaml.safe_load(path.read_text(encoding="utf-8")) | fields
    kept = {name: value for name, value in document.items() if value is not None}
    path.write_text(yaml.safe_dump(kept), encoding="utf-8")


@pytest.mark.parametrize("shape", [DENSE, EXPERTS], ids=["dense", "experts"])
def test_what_is_written_is_read(shape: PassShape, tmp_path: Path) -> None:
    """Every field, and weights in half precision, which any other precision holds exactly."""
    manifest = written(tmp_path, shape)
    for dtype in (torch.float32, torch.float64):
        found = read_checkpoint(tmp_path / "made.yaml", dtype)
        assert found.manifest.shape == manifest.shape == shape
        assert found.decoder.shape == shape
        assert found.manifest.description == manifest.description
        assert dict(found.manifest.recipe) == dict(manifest.recipe) | {"sizes": [1, 2]}
        tensors = checkpoint_tensors(found)
        expected = named_tensors(exact(shape).weights, tied=True)
        assert list(tensors) == list(expected)
        for name, tensor in expected.items():
            assert tensors[name].dtype == dtype
            assert torch.equal(tensors[name], tensor.half().to(dtype)), name
        assert found.decoder.weights.lm_head is found.decoder.weights.embedding


def test_the_manifest_names_the_very_weights(made: Path) -> None:
    """Its hash is that of the file, and equal weights make equal bytes."""
    weights = made.with_suffix(".safetensors")
    digest = hashlib.sha256(weights.read_bytes()).hexdigest()
    assert read_checkpoint_manifest(made).sha256 == digest
    before = (made.read_bytes(), weights.read_bytes())
    written(made.parent)
    assert (made.read_bytes(), weights.read_bytes()) == before


def refused(path: Path, *words: str) -> None:
    """Reading raises CheckpointError with all *words*."""
    with pytest.raises(CheckpointError) as error:
        read_checkpoint(path)
    for word in words:
        assert word in str(error.value)


def test_other_weights(made: Path) -> None:
    """One bit of them is enough, and both hashes are told."""
    weights = made.with_suffix(".safetensors")
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    refused(
        made, f"{weights}: sha256 is", f"made.yaml says {read_checkpoint_manifest(made).sha256}"
    )


def rehashed(made: Path) -> None:
    """The manifest with the hash of what lies beside it."""
    content = made.with_suffix(".safetensors").read_bytes()
    change(made, sha256=hashlib.sha256(content).hexdigest())


@pytest.mark.parametrize("kept_bytes", [0, 7, 400, -1])
def test_a_truncated_file(kept_bytes: int, made: Path) -> None:
    """By its hash, and where the hash is that of the rest, as no safetensors file."""
    weights = made.with_suffix(".safetensors")
    weights.write_bytes(weights.read_bytes()[:kept_bytes])
    refused(made, f"{weights}: sha256 is")
    rehashed(made)
    refused(made, str(weights))


def test_weights_of_another_architecture(made: Path) -> None:
    """What is missing, of another size, and not of this one: each is named."""
    weights = made.with_suffix(".safetensors")
    tensors = load_file(weights)
    del tensors["layers.0.qkv.weight"]
    tensors["final_norm"] = torch.ones(5).half()
    tensors["bias"] = torch.ones(1).half()
    save_file(tensors, weights)
    rehashed(made)
    refused(
        made,
        "layers.0.qkv.weight [64, 24] is missing",
        "bias is not of this architecture",
        "final_norm is [5], the architecture has [24]",
    )


def test_a_manifest_of_another_architecture(made: Path) -> None:
    """A shape with other layers does not fit the weights."""
    document = yaml.safe_load(made.read_text(encoding="utf-8"))
    change(made, shape=document["shape"] | {"hidden": 32})
    refused(made, "made.safetensors: ", f"embedding is [{V}, 24], the architecture has [{V}, 32]")
    change(made, shape=document["shape"] | {"hidden": -1})
    refused(made, "made.safetensors: ", "no negative size")


def test_missing_files(made: Path) -> None:
    """The manifest, the weights, or a folder in place of one."""
    refused(made.with_name("other.yaml"), "other.yaml: cannot be read: No such file")
    refused(made.parent, "cannot be read: Is a directory")
    made.with_suffix(".safetensors").unlink()
    refused(made, "made.safetensors: not found; the weights lie beside the manifest")


@pytest.mark.parametrize("field", ["sha256", "shape", "mask_token", "recipe", "format_version"])
def test_a_missing_field(field: str, made: Path) -> None:
    """It is named, with the file."""
    change(made, **{field: None})
    refused(made, "made.yaml: not a checkpoint manifest", f"{field}: Field required")


def test_every_mistake_of_a_manifest_is_told(made: Path) -> None:
    """Unknown fields, wrong types and versions, at any depth."""
    document = yaml.safe_load(made.read_text(encoding="utf-8"))
    (layer,) = document["shape"]["layers"]
    change(
        made,
        format_version=2,
        colour="blue",
        prompt="upside-down",
        shape=document["shape"] | {"layers": [layer | {"kv_heads": "many"}]},
    )
    refused(
        made,
        "colour: Unexpected keyword argument",
        "format_version: Input should be 1",
        "prompt: Input should be 'block-causal', 'prefix-full' or 'causal'",
        "shape.layers.0.kv_heads: Input should be a valid integer",
    )


@pytest.mark.parametrize(
    ("content", "rule"),
    [
        (b"name: [", "not YAML"),
        (b"\xff\xfe", "not UTF-8"),
        (b"", "not a checkpoint manifest"),
        (b"- 1", "not a checkpoint manifest"),
        (b"!!python/object/apply:os.system [exit]", "not YAML"),
    ],
)
def test_a_file_that_is_no_manifest(content: bytes, rule: str, made: Path) -> None:
    """The file and the rule; nothing in it is run."""
    made.write_bytes(content)
    refused(made, f"made.yaml: {rule}")


MODELS = [path for path in sorted(CHECKPOINTS.glob("*.yaml")) if not is_drafter(path)]


@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.stem)
def test_shipped_checkpoints_can_be_read(path: Path) -> None:
    """Hash and architecture of each; its name is that of its file."""
    assert read_checkpoint(path).manifest.name == path.stem

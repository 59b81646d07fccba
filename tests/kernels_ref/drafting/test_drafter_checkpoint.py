"""Drafters on disk: what is written is read beside its target, and all else is told by file."""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

import torch
import yaml
from safetensors.torch import load_file, save_file

from kernels_ref.checkpoint import CHECKPOINTS, CheckpointError
from kernels_ref.drafting import checkpoint as place
from kernels_ref.drafting.checkpoint import is_drafter, made_manifest, read_drafter
from kernels_ref.drafting.reading import drafted_model
from tests.kernels_ref.drafting.pairs import (
    EAGLE3,
    HIDDEN,
    KINDS,
    MAPPED,
    VOCAB,
    shape_of,
    target,
    tensors_of,
    written_pair,
    written_target,
)

ADAPTED = ("noise-adapters", "mask-adapters")
OWN = ("eagle3", "dflash")


def change(path: Path, **fields: Any) -> None:
    """Fields of a manifest in another way; None takes one out."""
    document = yaml.safe_load(path.read_text(encoding="utf-8")) | fields
    kept = {name: value for name, value in document.items() if value is not None}
    path.write_text(yaml.safe_dump(kept), encoding="utf-8")


def resized(path: Path, **sizes: Any) -> None:
    """Another shape; a dot in a name is written as two underscores."""
    shape = yaml.safe_load(path.read_text(encoding="utf-8"))["shape"]
    for name, value in sizes.items():
        *outer, last = name.split("__")
        inner = shape
        for part in outer:
            inner = inner[part]
        inner[last] = value
    change(path, shape=shape)


def with_tensors(path: Path, edit: Callable[[dict[str, torch.Tensor]], object]) -> None:
    """Other weights, and a manifest that has their hash."""
    weights = path.with_suffix(".safetensors")
    tensors = load_file(weights)
    edit(tensors)
    save_file(tensors, weights)
    change(path, sha256=hashlib.sha256(weights.read_bytes()).hexdigest())


def refused(path: Path, *words: str) -> None:
    """Reading raises CheckpointError with all *words*."""
    with pytest.raises(CheckpointError) as error:
        drafted_model(path)
    for word in words:
        assert word in str(error.value)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_written_is_read(kind: str, tmp_path: Path) -> None:
    """Every field, and weights in half precision, which any other holds exactly."""
    path = written_pair(tmp_path, kind)
    for dtype in (torch.float32, torch.float64):
        found = read_drafter(path, dtype)
        expected = tensors_of(kind)
        assert set(found.tensors) == set(expected)
        for name, tensor in expected.items():
            whole = not tensor.is_floating_point()
            assert found.tensors[name].dtype == (torch.int64 if whole else dtype), name
            kept = tensor.long() if whole else tensor.half().to(dtype)
            assert torch.equal(found.tensors[name], kept), name
        assert found.target.decoder.weights.embedding.dtype == dtype
    manifest = found.manifest
    digest = hashlib.sha256(path.with_suffix(".safetensors").read_bytes()).hexdigest()
    assert (manifest.name, manifest.drafter, manifest.sha256) == ("drafter", kind, digest)
    assert (manifest.target.name, manifest.target.sha256) == (
        "target",
        found.target.manifest.sha256,
    )
    assert (manifest.block_tokens, manifest.final_loss) == (6, 0.5)
    assert dict(manifest.recipe) == {"steps": 3}
    assert set(manifest.shape) == set(shape_of(kind))


@pytest.mark.parametrize("kind", KINDS)
def test_equal_weights_make_equal_bytes(kind: str, tmp_path: Path) -> None:
    """A manifest names the very weights, so both files are the same again."""
    paths = [written_pair(tmp_path / name, kind) for name in ("a", "b")]
    for suffix in (".yaml", ".safetensors"):
        first, second = (path.with_suffix(suffix).read_bytes() for path in paths)
        assert first == second


@pytest.mark.parametrize("kind", KINDS)
def test_the_model_has_both_their_facts(kind: str, tmp_path: Path) -> None:
    """The block is the drafter's; vocabulary, context, mask and end are the target's."""
    found = drafted_model(written_pair(tmp_path, kind))
    assert (found.manifest.name, found.target.name) == ("drafter", "target")
    facts = found.model.facts
    assert (facts.block_tokens, facts.context_tokens, facts.vocab) == (6, 256, VOCAB)
    assert (facts.mask_token, facts.end_tokens) == (0, (1,))


def test_a_target_may_be_shipped(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It lies beside the drafter or in the package, and beside goes first."""
    shipped = tmp_path_factory.mktemp("shipped")
    monkeypatch.setattr(place, "CHECKPOINTS", shipped)
    path = written_pair(tmp_path, "dflash")
    for file in tmp_path.glob("target.*"):
        file.rename(shipped / file.name)
    assert drafted_model(path).target.name == "target"
    written_target(tmp_path, target(seed=9))
    refused(path, "drafter.yaml: trained for target of sha256")


def test_a_target_of_other_weights(tmp_path: Path) -> None:
    """Both hashes are told: drafts of one model are no drafts of another."""
    path = written_pair(tmp_path, "eagle3")
    before = made_manifest(tmp_path / "target.yaml").sha256
    after = written_target(tmp_path, target(seed=9)).sha256
    refused(path, f"{path}: trained for target of sha256 {before}, found one of {after}")


def test_no_target(tmp_path: Path) -> None:
    """Where it should be, who needs it, and its weights where only those are gone."""
    path = written_pair(tmp_path, "noise-adapters")
    (tmp_path / "target.safetensors").unlink()
    refused(path, "target.safetensors: not found")
    (tmp_path / "target.yaml").unlink()
    missing = f"{tmp_path / 'target.yaml'}: not found, and none of that name is shipped"
    refused(path, missing, f"{path} drafts for it")


def test_a_target_is_looked_for_nowhere_else(tmp_path: Path) -> None:
    """A name with a path in it leads out of no folder."""
    path = written_pair(tmp_path / "inner", "dflash")
    for file in (tmp_path / "inner").glob("target.*"):
        file.rename(tmp_path / file.name)
    sha256 = made_manifest(tmp_path / "target.yaml").sha256
    for name in ("../target", str(tmp_path / "target")):
        change(path, target={"name": name, "sha256": sha256})
        refused(path, f"{tmp_path / 'inner' / 'target.yaml'}: not found")


def test_a_target_is_a_model(tmp_path: Path) -> None:
    """A drafter of a drafter is told by the file that is no model."""
    path = written_pair(tmp_path, "dflash")
    change(path, target={"name": "drafter", "sha256": "0"})
    refused(path, "drafter.yaml: is a drafter, and a model is needed")


@pytest.mark.parametrize("kind", KINDS)
def test_other_weights(kind: str, tmp_path: Path) -> None:
    """One bit of them is enough; and they may be missing, cut short, or no numbers."""
    path = written_pair(tmp_path, kind)
    weights = path.with_suffix(".safetensors")
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    refused(path, f"{weights}: sha256 is", f"drafter.yaml says {made_manifest(path).sha256}")
    content = content[:100]
    weights.write_bytes(content)
    change(path, sha256=hashlib.sha256(content).hexdigest())
    refused(path, str(weights))
    weights.unlink()
    refused(path, f"{weights}: not found; the weights lie beside the manifest")


@pytest.mark.parametrize("kind", KINDS)
def test_weights_that_are_no_numbers(kind: str, tmp_path: Path) -> None:
    """The tensor is named."""
    path = written_pair(tmp_path, kind)
    name = next(n for n, t in tensors_of(kind).items() if t.is_floating_point())
    with_tensors(path, lambda tensors: tensors[name].fill_(float("nan")))
    refused(path, "weights are finite numbers", name)


@pytest.mark.parametrize("kind", KINDS)
def test_tensors_of_another_drafter(kind: str, tmp_path: Path) -> None:
    """Missing, of another size, and none of this kind: each is named in one sentence."""
    path = written_pair(tmp_path, kind)
    gone, odd = [n for n, t in tensors_of(kind).items() if t.ndim > 1][:2]
    size = list(tensors_of(kind)[gone].shape)

    def edit(tensors: dict[str, torch.Tensor]) -> None:
        del tensors[gone]
        tensors[odd] = torch.ones(5).half()
        tensors["bias"] = torch.ones(1).half()

    with_tensors(path, edit)
    words = f"{gone} {size} is missing", f"{odd} is [5]", "bias is not of this architecture"
    refused(path, f"{path}: ", *words)


@pytest.mark.parametrize("kind", ADAPTED)
def test_adapters_that_would_replace_the_target(kind: str, tmp_path: Path) -> None:
    """A weight of the target's in the drafter's file is refused, whatever its size."""
    path = written_pair(tmp_path, kind)
    with_tensors(path, lambda t: t.update(final_norm=torch.ones(HIDDEN).half()))
    refused(path, f"{path}: ", "final_norm")


@pytest.mark.parametrize(
    ("mapped", "words"),
    [
        (None, f"draft_to_target [{EAGLE3.draft_vocab}] is missing"),
        (MAPPED[:-1], f"whole numbers [{EAGLE3.draft_vocab}], got torch.int64 [19]"),
        (MAPPED.half(), "got torch.float32 [20]"),
        (MAPPED - 4, f"0 to {VOCAB - 1}, got -1"),
        (MAPPED + VOCAB - 98, f"0 to {VOCAB - 1}, got {VOCAB}"),
        (MAPPED.clamp(max=90), "each token once"),
    ],
    ids=["missing", "short", "fractions", "below", "above", "doubled"],
)
def test_maps_that_are_none(mapped: torch.Tensor | None, words: str, tmp_path: Path) -> None:
    """Every drafted token is another one of the target's vocabulary."""
    path = written_pair(tmp_path, "eagle3")

    def edit(tensors: dict[str, torch.Tensor]) -> None:
        del tensors["draft_to_target"]
        if mapped is not None:
            tensors["draft_to_target"] = mapped.contiguous()

    with_tensors(path, edit)
    refused(path, f"{path}: ", words)


@pytest.mark.parametrize("kind", OWN)
@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        ({"hidden": 32}, f"shape.hidden is the target's {HIDDEN}, got 32"),
        ({"tapped": [1, 4]}, "shape.tapped rises within layers 1 to 3, got 1, 4"),
        ({"tapped": [0, 3]}, "layers 1 to 3, got 0, 3"),
        ({"tapped": [3, 1]}, "rises within layers 1 to 3, got 3, 1"),
        ({"tapped": [2, 2]}, "rises within layers 1 to 3, got 2, 2"),
        ({"tapped": [1, 2, 3]}, f"fuse is [{HIDDEN}, {2 * HIDDEN}], the architecture has"),
        ({"layer__ffn": 32}, "the architecture has [64, 24]"),
        ({"layer__head_dim": -8}, "no negative size"),
        ({"layer": None}, "shape.layer: "),
        ({"colour": "blue"}, "shape.colour: Unexpected keyword argument"),
        ({"tapped": "all"}, "shape.tapped: "),
    ],
    ids=lambda value: value if isinstance(value, str) and len(value) < 8 else "",
)
def test_sizes_that_do_not_fit(
    kind: str, sizes: dict[str, Any], words: str, tmp_path: Path
) -> None:
    """The size, what the target or the file has, and what was given."""
    path = written_pair(tmp_path, kind)
    resized(path, **sizes)
    refused(path, f"{path}: ", words)


def test_sizes_of_each_kind_of_its_own(tmp_path: Path) -> None:
    """A drafter without layers, features that look like states, ranks and parts that none has."""
    for kind, sizes, words in (
        ("dflash", {"layer__count": 0}, "layer.count is at least 1, got 0"),
        ("eagle3", {"tapped": [2]}, "tapped is 2 layers or more, got 1"),
        ("eagle3", {"draft_vocab": 19}, "draft_to_target is whole numbers [19]"),
        ("noise-adapters", {"rank": 0}, "shape.rank: Input should be greater than or equal to 1"),
        ("mask-adapters", {"parts": ["qkv", "qkv"]}, "parts are named once, got qkv, qkv"),
        ("mask-adapters", {"parts": ["qkv"]}, "output.adapters.down is not of this architecture"),
        ("noise-adapters", {"rank": 4}, "the architecture has [12, 24]"),
    ):
        path = written_pair(tmp_path, kind)
        resized(path, **sizes)
        refused(path, f"{path}: ", words)


@pytest.mark.parametrize(
    "field", ["drafter", "target", "sha256", "shape", "block_tokens", "recipe", "format_version"]
)
def test_a_missing_field(field: str, tmp_path: Path) -> None:
    """It is named, with the file."""
    path = written_pair(tmp_path, "dflash")
    change(path, **{field: None})
    refused(path, "drafter.yaml: not a drafter manifest", f"{field}: Field required")


def test_every_mistake_of_a_manifest_is_told(tmp_path: Path) -> None:
    """Unknown kinds with those there are, unknown fields, wrong types, at any depth."""
    path = written_pair(tmp_path, "dflash")
    change(path, drafter="medusa", colour="blue", target={"name": "target"}, final_loss="low")
    refused(
        path,
        "drafter: Input should be 'noise-adapters', 'mask-adapters', 'eagle3' or 'dflash'",
        "colour: Unexpected keyword argument",
        "target.sha256: Field required",
        "final_loss: Input should be a valid number",
    )


@pytest.mark.parametrize("block_tokens", [0, -1, 4097])
def test_blocks_that_none_can_be(block_tokens: int, tmp_path: Path) -> None:
    """The rule and the number."""
    path = written_pair(tmp_path, "dflash")
    change(path, block_tokens=block_tokens)
    refused(path, f"block_tokens is 1 to 4096, got {block_tokens}")


@pytest.mark.parametrize(
    ("content", "rule"),
    [
        (b"name: [", "not YAML"),
        (b"\xff\xfe", "not UTF-8"),
        (b"", "not a drafter manifest"),
        (b"- 1", "not a drafter manifest"),
        (b"!!python/object/apply:os.system [exit]", "not YAML"),
    ],
)
def test_a_file_that_is_no_manifest(content: bytes, rule: str, tmp_path: Path) -> None:
    """The file and the rule; nothing in it is run."""
    path = tmp_path / "drafter.yaml"
    path.write_bytes(content)
    refused(path, f"drafter.yaml: {rule}")
    for asked in (is_drafter, made_manifest):
        with pytest.raises(CheckpointError, match=r"drafter\.yaml: not"):
            asked(path)


def test_models_and_drafters_are_told_apart(tmp_path: Path) -> None:
    """By their manifests; a model's is none of a drafter, and a missing one is neither."""
    path = written_pair(tmp_path, "eagle3")
    assert is_drafter(path)
    assert not is_drafter(tmp_path / "target.yaml")
    assert made_manifest(path).name == "drafter"
    assert made_manifest(tmp_path / "target.yaml").name == "target"
    refused(tmp_path / "target.yaml", "target.yaml: not a drafter manifest", "drafter: Field")
    refused(tmp_path / "nothing.yaml", "nothing.yaml: cannot be read: No such file")


SHIPPED = [path for path in sorted(CHECKPOINTS.glob("*.yaml")) if is_drafter(path)]


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_shipped_drafters_can_be_read(path: Path) -> None:
    """Hash, sizes and target of each; its name is that of its file."""
    found = drafted_model(path)
    assert found.manifest.name == path.stem
    assert found.manifest.target.name == found.target.name

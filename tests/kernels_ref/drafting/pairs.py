"""Small targets and drafters, in memory and as checkpoints, all of whose weights are random."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch

from kernels_ref.checkpoint import CheckpointManifest, write_checkpoint
from kernels_ref.decoding.query import Cache, IntArray, Model, Prediction, Query
from kernels_ref.drafting.adapters import AdapterShape, adapter_tensors, with_new_adapters
from kernels_ref.drafting.checkpoint import TargetWeights, write_drafter
from kernels_ref.drafting.dflash import DFlashShape, random_dflash
from kernels_ref.drafting.eagle3 import Eagle3Shape, random_eagle3
from kernels_ref.drafting.model import Drafter
from kernels_ref.named_weights import filled, named_tensors, tensors_in, weights_of
from kernels_ref.passes import Decoder
from kernels_ref.random_weights import normal
from kernels_ref.task.vocabulary import END, MASK
from tests.kernels_ref.training.small import DENSE, LAYER, exact

TAPPED = (1, 3)
SHAPE = replace(DENSE, layers=(replace(LAYER, count=3),), tied=False)
"""Of targets: an LM head of their own, and a layer that is not tapped between two that are."""
VOCAB, HIDDEN = SHAPE.vocab, SHAPE.hidden
ADAPTERS = AdapterShape(rank=3, alpha=6.0)
EAGLE3 = Eagle3Shape(HIDDEN, replace(LAYER, count=1), 20, TAPPED, 1e4)
DFLASH = DFlashShape(HIDDEN, LAYER, TAPPED, 1e4)
KINDS = ("noise-adapters", "mask-adapters", "eagle3", "dflash")
MAPPED = torch.arange(3, VOCAB, 5)[: EAGLE3.draft_vocab]
"""The tokens that EAGLE-3's drafter knows."""

W = TypeVar("W")


def stirred(weights: W, seed: int = 0) -> W:
    """*weights* with every tensor a little off, so that no norm is one and no matrix zero."""
    generator = torch.Generator().manual_seed(seed)

    def off(tensor: torch.Tensor) -> torch.Tensor:
        return tensor + 0.2 * torch.randn(tensor.shape, generator=generator, dtype=tensor.dtype)

    return filled(weights, {name: off(tensor) for name, tensor in tensors_in(weights).items()})


def target(seed: int = 1) -> Decoder:
    """A random target in float64."""
    return Decoder(SHAPE, stirred(exact(SHAPE, seed).weights, seed))


def draw(seed: int = 2) -> Any:
    """Random matrices in float64."""
    return normal(torch.float64, "cpu", seed)


def tensors_of(kind: str) -> dict[str, torch.Tensor]:
    """What the file of a drafter holds."""
    if kind == "eagle3":
        own = tensors_in(stirred(random_eagle3(EAGLE3, draw())))
        return {**own, "draft_to_target": MAPPED.int()}
    if kind == "dflash":
        return tensors_in(stirred(random_dflash(DFLASH, draw())))
    return adapter_tensors(with_new_adapters(target(), ADAPTERS, draw()))


def shape_of(kind: str) -> Mapping[str, Any]:
    """What the manifest of a drafter says of its sizes."""
    shapes: dict[str, AdapterShape | Eagle3Shape | DFlashShape]
    shapes = {"eagle3": EAGLE3, "dflash": DFLASH}
    return asdict(shapes.get(kind, ADAPTERS))


def written_target(folder: Path, decoder: Decoder, **fields: Any) -> CheckpointManifest:
    """An autoregressive checkpoint."""
    about = {
        "name": "target",
        "description": "Of a test.",
        "shape": decoder.shape,
        "context_tokens": 256,
        "block_tokens": 1,
        "prompt": "causal",
        "mask_token": MASK,
        "end_token": END,
        "recipe": {},
        "software": {},
        "final_loss": 1.0,
    }
    tensors = named_tensors(decoder.weights, tied=decoder.shape.tied)
    return write_checkpoint(folder, tensors, about | fields)


def written_pair(
    folder: Path, kind: str, tensors: Mapping[str, torch.Tensor] | None = None
) -> Path:
    """A target and a drafter for it; the manifest of the drafter."""
    made = written_target(folder, target())
    about = {
        "name": "drafter",
        "description": "Of a test.",
        "drafter": kind,
        "target": TargetWeights(made.name, made.sha256),
        "shape": shape_of(kind),
        "block_tokens": 6,
        "recipe": {"steps": 3},
        "software": {"torch": "2"},
        "final_loss": 0.5,
    }
    write_drafter(folder, tensors_of(kind) if tensors is None else tensors, about)
    return folder / "drafter.yaml"


def halved(decoder: Decoder) -> Decoder:
    """*decoder* as it is read from a file, in which weights are in half precision."""
    named = named_tensors(decoder.weights, tied=decoder.shape.tied)
    tensors = {name: tensor.half().double() for name, tensor in named.items()}
    return Decoder(decoder.shape, weights_of(decoder.shape, tensors))


def drawn_tokens(count: int, seed: int = 0) -> IntArray:
    """Tokens of the vocabulary, no mask among them."""
    return np.random.default_rng(seed).integers(MASK + 1, VOCAB, count)


def drawn_features(places: int, seed: int = 0) -> torch.Tensor:
    """As a target has them behind two tapped layers, [places, 2 hidden]."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(places, len(TAPPED) * HIDDEN, generator=generator, dtype=torch.float64)


def up_to_itself(left: int, tokens: IntArray) -> IntArray:
    """The horizon of a chain."""
    return left + 1 + np.arange(len(tokens))


def chain(kind: Any, left: int, tokens: IntArray, **fields: Any) -> Query:
    """Tokens that each see all before them and themselves."""
    named = {"padded": len(tokens), **fields}
    return Query(kind, left, tokens, up_to_itself(left, tokens), **named)


def said(model: Model | Drafter, queries: Sequence[Query | None], cache: Cache) -> list[Prediction]:
    """What is predicted for the rows that ask."""
    answers = model.forward(list(queries), cache)
    assert [answer is None for answer in answers] == [query is None for query in queries]
    return [answer for answer in answers if answer is not None]


def same(found: torch.Tensor, expected: torch.Tensor) -> None:
    """Equal but for the last digits of float64."""
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-11)

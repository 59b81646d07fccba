"""Checkpoints from outside against transformers, which made them and runs them in its own way."""

import dataclasses
import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch

from kernels_ref.decoders import policy
from kernels_ref.decoding.batch import decode_batch
from kernels_ref.decoding.query import IntArray, Model
from kernels_ref.decoding.reference import ReferenceModel
from kernels_ref.decoding.sequence import Sequence
from kernels_ref.outside import outside_model
from kernels_ref.outside.checkpoint import model_of
from kernels_ref.outside.family import family_of
from tests.kernels_ref.outside.asked import by_blocks, differs_by
from tests.kernels_ref.outside.oracle import block_causal_logits, decoded
from tests.kernels_ref.outside.tiny import (
    BLOCK,
    END,
    LLADA2,
    MASK,
    SDAR,
    VOCAB,
    llada2_model,
    saved,
    sdar_model,
)

Made = tuple[Path, Any]
MODELS = {"sdar": (sdar_model, SDAR), "llada2": (llada2_model, LLADA2)}
LENGTHS = (14, 8, 11)
PROMPTS = ([5, 9, 3, 30, 2, 8], [7, 7, 12, 20, 33, 4, 6, 11, 2], [25])
TAU, MOST = 0.35, 13


@pytest.fixture(params=sorted(MODELS))
def made(request: pytest.FixtureRequest) -> Made:
    """One of both families' checkpoints in float64."""
    found: Made = request.getfixturevalue(request.param)
    return found


def some_rows() -> list[IntArray]:
    """Rows of tokens of LENGTHS, without masks."""
    numbers = np.random.default_rng(2)
    return [numbers.integers(0, MASK, length) for length in LENGTHS]


def test_logits_over_a_cache_are_the_librarys_over_everything(made: Made) -> None:
    """Block after block with cached KV, ragged rows together: what one whole pass gives."""
    folder, theirs = made
    model = outside_model(folder, dtype=torch.float64).model
    rows = some_rows()

    for row, found in zip(rows, by_blocks(model, rows, BLOCK), strict=True):
        assert differs_by(found, block_causal_logits(theirs, row, BLOCK), MASK) < 1e-10


@pytest.mark.parametrize("name", MODELS)
def test_logits_in_float32_are_the_librarys(name: str, tmp_path: Path) -> None:
    """Saved and read in float32, the rounding alone differs."""
    build, config = MODELS[name]
    theirs = build(torch.float32)
    model = outside_model(saved(theirs, tmp_path, config)).model
    rows = some_rows()

    for row, found in zip(rows, by_blocks(model, rows, BLOCK), strict=True):
        expected = block_causal_logits(theirs, row, BLOCK)
        assert differs_by(found, expected, MASK) < 1e-5 * float(expected.abs().max())


def test_an_lm_head_that_is_the_embedding_is_read(tmp_path: Path) -> None:
    """A tied checkpoint has no LM head in its files, and the logits are the library's."""
    theirs = sdar_model(torch.float64, tied=True)
    folder = saved(theirs, tmp_path, SDAR | {"tie_word_embeddings": True})
    row = some_rows()[0]

    found = by_blocks(outside_model(folder, dtype=torch.float64).model, [row], BLOCK)[0]
    assert differs_by(found, block_causal_logits(theirs, row, BLOCK), MASK) < 1e-10


def test_shards_are_one_checkpoint(made: Made, tmp_path: Path) -> None:
    """An index of several files gives the weights of one file; the hash is of the files read."""
    folder, theirs = made
    config = SDAR if "sdar" in folder.name else LLADA2
    shards = saved(theirs, tmp_path, config, shard="20KB")
    one, several = (outside_model(each, dtype=torch.float64) for each in (folder, shards))
    files = sorted(shards.glob("*.safetensors"))
    rows = some_rows()

    assert len(files) > 1
    for whole, parts in zip(
        by_blocks(one.model, rows, BLOCK), by_blocks(several.model, rows, BLOCK), strict=True
    ):
        assert torch.equal(whole, parts)
    every = b"".join(file.read_bytes() for file in files)
    assert several.sha256 == hashlib.sha256(every).hexdigest()
    own = (folder / "model.safetensors").read_bytes()
    assert one.sha256 == hashlib.sha256(own).hexdigest()


def test_half_precision_is_kept_where_it_is_asked(made: Made) -> None:
    """bf16 weights give bf16 logits near the precise ones; the router's bias stays float32."""
    folder, theirs = made
    model = outside_model(folder, dtype=torch.bfloat16).model
    assert isinstance(model, ReferenceModel)
    experts = [layer.experts for layer in model.decoder.weights.layers if layer.experts]
    assert all(each.router.dtype == torch.bfloat16 for each in experts)
    assert all(each.bias is not None and each.bias.dtype == torch.float32 for each in experts)
    row = some_rows()[1][:BLOCK]
    found = by_blocks(model, [row], BLOCK)[0]
    expected = block_causal_logits(theirs, row, BLOCK)

    assert found.dtype == torch.bfloat16
    others = torch.arange(VOCAB) != MASK
    close = torch.nn.functional.cosine_similarity(found[:, others].double(), expected[:, others])
    assert close.min() > 0.98


def sequences_of(model: Model) -> list[Sequence]:
    """One for every prompt, nothing decoded."""
    return [
        Sequence(prompt, facts=model.facts, block_tokens=BLOCK, output_tokens=MOST)
        for prompt in PROMPTS
    ]


@pytest.mark.parametrize("shift", [False, True])
@pytest.mark.parametrize("store", ["separate", "fused"])
def test_a_batch_decodes_to_what_the_library_says_step_by_step(
    made: Made, store: str, *, shift: bool
) -> None:
    """Single-block decoding over caches ends in the tokens of a loop that recomputes everything."""
    folder, theirs = made
    family = dataclasses.replace(family_of(folder), logit_shift=shift)
    model = model_of(folder, family, dtype=torch.float64).model
    decoder, sequences = policy("single-block"), sequences_of(model)
    parameters = decoder.Parameters(block=BLOCK, tau_mask=TAU, store=store)
    decode_batch(model, sequences, decoder.decode(sequences, parameters))

    for sequence, prompt in zip(sequences, PROMPTS, strict=True):
        expected = decoded(
            theirs,
            prompt,
            block=BLOCK,
            mask=MASK,
            ends=(END,),
            tau=TAU,
            most=MOST,
            shift=shift,
        )
        assert sequence.output().tolist() == expected.tolist()


@pytest.mark.parametrize("name", ["joint-threshold", "gwd"])
@pytest.mark.parametrize("shift", [False, True])
def test_editing_decoders_leave_what_the_library_agrees_with(
    made: Made, name: str, *, shift: bool
) -> None:
    """Where nothing is above the edit threshold any more, the library finds nothing above it."""
    folder, theirs = made
    family = dataclasses.replace(family_of(folder), logit_shift=shift)
    model = model_of(folder, family, dtype=torch.float64).model
    decoder, sequences = policy(name), sequences_of(model)
    parameters = decoder.Parameters(block=BLOCK, tau_mask=TAU, tau_edit=TAU, post_edit_steps=99)
    decode_batch(model, sequences, decoder.decode(sequences, parameters))
    assert any(row.edited for sequence in sequences for row in sequence.record.forwards)

    for sequence, prompt in zip(sequences, PROMPTS, strict=True):
        last = max(block for block, row in enumerate(sequence.record.blocks) if row.retired >= 0)
        tokens = sequence.tokens[: sequence.start(last + 1)]
        logits = block_causal_logits(theirs, tokens, BLOCK)
        logits[:, MASK] = -torch.inf
        answer = np.arange(len(prompt), len(tokens))
        chances, best = logits.softmax(dim=-1)[answer - (1 if shift else 0)].max(dim=-1)
        other = best.numpy() != tokens[answer]

        assert (tokens != MASK).all()
        assert (chances.numpy()[other] <= TAU).all()

"""What holds of every record, whatever policy decoded and at any setting."""

from typing import Any

import pytest

pytest.importorskip("torch")

from hypothesis import given, settings
from hypothesis import strategies as st

from kernels_ref.decoders import policy_names
from kernels_ref.decoding.sequence import Sequence
from tests.kernels_ref.decoders.drawn import requests, settings_of
from tests.kernels_ref.decoders.hashed import HashedModel
from tests.kernels_ref.decoders.models import Request, decoded, random_model, requests_of

MASKED = [name for name in policy_names("blocks") if name != "block-entropy"]
"""Policies under which a token never becomes a mask again."""
EDITING = ("joint-threshold", "gwd", "block-buffer", "dmax", "block-entropy")


def check_blocks(sequence: Sequence) -> None:
    """Blocks come and go in order, each finished before it is retired, with a step a forward."""
    blocks, count = sequence.record.blocks, len(sequence.record.forwards)
    admitted = [block.admitted for block in blocks]
    retired = [block.retired for block in blocks if block.retired >= 0]
    assert admitted == sorted(admitted)
    assert retired == sorted(retired)
    assert retired == [block.retired for block in blocks[: len(retired)]]
    assert retired
    for block in blocks:
        steps = [len(x) for x in (block.ready, block.revealed, block.edited, block.agreeing)]
        assert steps == [len(block.masked)] * 4
        end = block.retired + 1 if block.retired >= 0 else count
        assert len(block.masked) <= max(end - block.admitted, 0)
        if block.retired >= 0:
            assert block.admitted <= block.finished <= block.retired < count
            assert block.masked
        for masked, *parts in zip(
            block.masked, block.ready, block.revealed, block.edited, block.agreeing, strict=True
        ):
            ready, revealed, edited, agreeing = parts
            assert 0 <= max(ready, revealed) <= masked <= sequence.block_tokens
            assert masked + max(edited, agreeing) <= sequence.block_tokens
            assert min(ready, revealed, edited, agreeing) >= 0


def check_masks(sequence: Sequence) -> None:
    """Masks are revealed once, and a token that is edited is not one that the model agrees with.

    So each step finds the masks that the last one left.
    """
    for number, block in enumerate(sequence.record.blocks):
        left = int(sequence.is_answer(number).sum())
        for masked, revealed in zip(block.masked, block.revealed, strict=True):
            assert masked == left
            left -= revealed
        for masked, *there in zip(block.masked, block.edited, block.agreeing, strict=True):
            assert masked + sum(there) <= sequence.block_tokens
        assert left == sequence.is_masked(number).sum()
        assert block.retired < 0 or left == 0


def check_forwards(sequence: Sequence) -> None:
    """A forward's counts are its blocks'; its window, those admitted by then and not retired."""
    record = sequence.record
    for number, forward in enumerate(record.forwards):
        steps = [(block, number - block.admitted) for block in record.blocks]
        took_part = [(block, i) for block, i in steps if 0 <= i < len(block.masked)]
        assert forward.revealed == sum(block.revealed[i] for block, i in took_part)
        assert forward.edited == sum(block.edited[i] for block, i in took_part)
        assert forward.window_left == sum(0 <= b.retired < number for b in record.blocks)
        assert forward.window_right == sum(b.admitted <= number for b in record.blocks)
        assert 0 < forward.query_tokens <= forward.padded_tokens
        assert 0 <= forward.logit_rows <= forward.padded_tokens
        retires = any(block.retired == number for block in record.blocks)
        assert forward.committed_tokens == 0 or retires
        if forward.kind == "prefill":
            assert number == forward.revealed == forward.prefix_tokens == forward.logit_rows == 0
        else:
            assert forward.window_left < forward.window_right
            right = forward.prefix_tokens + forward.query_tokens
            assert right == sequence.start(forward.window_right)
            assert forward.prefix_tokens <= sequence.start(forward.window_left)


def check(name: str, sequence: Sequence) -> None:
    """All laws."""
    check_blocks(sequence)
    if name in MASKED:
        check_masks(sequence)
    check_forwards(sequence)
    if name not in EDITING:
        assert not any(forward.edited for forward in sequence.record.forwards)


@pytest.mark.parametrize("name", policy_names("blocks"))
@settings(max_examples=25)
@given(data=st.data(), batch=requests(most=3), seed=st.integers(0, 2**31))
def test_records_keep_the_laws(
    name: str, data: st.DataObject, batch: list[Request], seed: int
) -> None:
    """At any setting, with hashes for logits."""
    for sequence in decoded(
        HashedModel(seed), name, data.draw(settings_of(name)), batch, 4
    ).sequences:
        check(name, sequence)


@pytest.mark.parametrize("name", policy_names("blocks"))
@settings(max_examples=3)
@given(data=st.data(), seed=st.integers(0, 3))
def test_records_keep_the_laws_with_a_transformer(
    name: str, data: st.DataObject, seed: int
) -> None:
    """At any setting, with a random float64 model."""
    case: dict[str, Any] = data.draw(settings_of(name))
    batch = requests_of([(3, 14), (8, 8), (13, 20)], seed=seed)
    for sequence in decoded(random_model(seed=seed), name, case, batch).sequences:
        check(name, sequence)

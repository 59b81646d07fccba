"""Who sees whom in a training pass, pair by pair, by the sentences that say so."""

from itertools import product

import pytest

pytest.importorskip("torch")

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels_ref.kernels.visibility import dense
from kernels_ref.task.vocabulary import END
from kernels_ref.training.batches import Sequences
from kernels_ref.training.streams import Grouping, Prompt, blocks_of, two_streams

BLOCK = 4
prompts: st.SearchStrategy[Prompt] = st.sampled_from(["block-causal", "prefix-full", "causal"])
LAYOUTS = list(product(["block-causal", "prefix-full", "causal"], ["single", "multiple", "all"]))


def block_of(prompt: Prompt, place: int, prompt_tokens: int) -> int:
    """An absolute interval, or counted from the prompt's end; -1 of a prompt outside all."""
    if prompt == "block-causal":
        return place // BLOCK
    return -1 if place < prompt_tokens else (place - prompt_tokens) // BLOCK


def clean_sees(prompt: Prompt, query: int, key: int, prompt_tokens: int) -> bool:
    """Of two clean tokens: the blocks up to its own, or the places up to its own."""
    if prompt == "causal":
        return key <= query
    return block_of(prompt, key, prompt_tokens) <= block_of(prompt, query, prompt_tokens)


@pytest.mark.parametrize(("prompt", "grouping"), LAYOUTS)
@given(
    prompt_tokens=st.lists(st.integers(1, 9), min_size=1, max_size=3), seed=st.integers(0, 2**32)
)
@settings(max_examples=8)
def test_pairs_see_one_another_by_the_text(
    prompt: Prompt, grouping: Grouping, prompt_tokens: list[int], seed: int
) -> None:
    """Clean sees clean only. A noisy token sees what is clean before its group, noisy from there.

    Noisy copies of a prompt that is outside all blocks answer nothing, so they may see anything,
    but no one sees them.
    """
    rows, length = len(prompt_tokens), 5 * BLOCK
    given_rows = Sequences(
        np.full((rows, length), END), np.array(prompt_tokens), np.ones((rows, length))
    )
    blocks = blocks_of(
        given_rows,
        block_tokens=BLOCK,
        prompt=prompt,
        grouping=grouping,
        max_group=3,
        generator=np.random.default_rng(seed),
    )
    first = min(prompt_tokens) // BLOCK * BLOCK
    both = 2 * length - first
    seen = dense(two_streams(blocks, prompt, first), rows, both, both)
    clean, noisy = range(length), range(first, length)

    for row, own in enumerate(prompt_tokens):
        for query, key in product(clean, clean):
            assert seen[row, query, key] == clean_sees(prompt, query, key, own)
        assert not seen[row, :length, length:].any()
        for query in noisy:
            block = block_of(prompt, query, own)
            if block < 0:
                continue
            group = {"single": block, "all": 0, "multiple": blocks.group[row, query]}[grouping]
            # A group that begins in the prompt is seen clean up to where the noisy copy begins.
            group = max(group, block_of(prompt, first, own))
            for key in clean:
                before = block_of(prompt, key, own) < group
                assert seen[row, length + query - first, key] == before
            for key in noisy:
                beside = group <= block_of(prompt, key, own) <= block
                assert seen[row, length + query - first, length + key - first] == beside


@pytest.mark.parametrize(("prompt", "grouping"), LAYOUTS)
@given(
    prompt_tokens=st.lists(st.integers(1, 15), min_size=1, max_size=3),
    seed=st.integers(0, 2**32),
)
@settings(max_examples=8)
def test_an_answer_sees_every_place_before_it_once(
    prompt: Prompt, grouping: Grouping, prompt_tokens: list[int], seed: int
) -> None:
    """Up to its block's end each place is there clean or noisy, never both and never neither."""
    rows, length = len(prompt_tokens), 6 * BLOCK
    given_rows = Sequences(
        np.full((rows, length), END), np.array(prompt_tokens), np.ones((rows, length))
    )
    blocks = blocks_of(
        given_rows,
        block_tokens=BLOCK,
        prompt=prompt,
        grouping=grouping,
        max_group=3,
        generator=np.random.default_rng(seed),
    )
    first = min(prompt_tokens) // BLOCK * BLOCK
    both = 2 * length - first
    seen = dense(two_streams(blocks, prompt, first), rows, both, both)
    copies = seen[:, length:, :length].int()
    copies[:, :, first:] += seen[:, length:, length:].int()
    for row, own in enumerate(prompt_tokens):
        for place in range(own, length):
            block = block_of(prompt, place, own)
            expected = [int(block_of(prompt, key, own) <= block) for key in range(length)]
            assert copies[row, place - first].tolist() == expected


@given(
    prompt=prompts,
    max_group=st.integers(1, 4),
    prompt_tokens=st.integers(1, 9),
    seed=st.integers(0, 2**32),
)
def test_groups_are_runs_of_blocks(
    prompt: Prompt, max_group: int, prompt_tokens: int, seed: int
) -> None:
    """Every block is in one run of at most so many blocks, named by its first one."""
    length = 9 * BLOCK
    given_rows = Sequences(
        np.full((1, length), END), np.array([prompt_tokens]), np.ones((1, length))
    )
    blocks = blocks_of(
        given_rows,
        block_tokens=BLOCK,
        prompt=prompt,
        grouping="multiple",
        max_group=max_group,
        generator=np.random.default_rng(seed),
    )
    number, group = blocks.number[0], blocks.group[0]
    assert number.tolist() == [block_of(prompt, i, prompt_tokens) for i in range(length)]
    starts = [int(group[number == block][0]) for block in range(number.max() + 1)]
    for block, start in enumerate(starts):
        assert set(group[number == block]) == {start}
        assert block - max_group < start <= block
        assert starts[start] == start
        assert start in {block, starts[block - 1]}


def test_half_of_the_layouts_are_equal_groups_at_any_offset() -> None:
    """Three in a row everywhere but at the ends, from each of three offsets; others are mixed."""
    rows, length = 4000, 12 * BLOCK
    given_rows = Sequences(np.full((rows, length), END), np.full(rows, 1), np.ones((rows, length)))
    blocks = blocks_of(
        given_rows,
        block_tokens=BLOCK,
        prompt="block-causal",
        grouping="multiple",
        max_group=3,
        generator=np.random.default_rng(0),
    )
    starts = [sorted(set(row)) for row in blocks.group[:, ::BLOCK].tolist()]
    equal = [s for s in starts if set(np.diff(s[1:])) == {3}]
    # A mixed layout has three inner groups of three by chance in 1 of 27 cases or so.
    assert len(equal) / rows == pytest.approx(0.5 + 0.5 / 27, abs=0.03)
    offsets = np.bincount([s[1] for s in equal], minlength=4)
    assert offsets[0] == 0
    assert offsets[1:] / len(equal) == pytest.approx([1 / 3] * 3, abs=0.05)

"""The block buffer against scenarios written out by hand, and against what it reduces to.

Prompts are four tokens that are prefilled, so block 0 is places 4 to 7 and forward 0 the prefill.
"""

from dataclasses import asdict, replace

import numpy as np
import pytest

pytest.importorskip("torch")

from kernels_ref.decoders import multi_block, single_block
from kernels_ref.decoders.block_buffer import Parameters
from kernels_ref.decoding.query import IntArray
from tests.kernels_ref.decoders.scripted import END, MASK, Said, decoded, in_turns, numbered

PROMPT = [2, 3, 4, 5]
MASKS_ONLY = Parameters(buffer=2, tau_add=0.5, tau_semi=0.75, tau_mask=0.9)
EDITING = replace(MASKS_ONLY, tau_edit=0.5)
SURE = {place: [(10 + place, 0.95)] for place in range(4, 8)}
"""Block 0 is complete after one forward, and stays as it is."""


def wandering(place: int, seen: IntArray, _turn: int) -> Said:
    """Probabilities from all over, by place and by how many masks are seen."""
    draws = np.random.default_rng((place, int((seen == MASK).sum())))
    return 2 + int(draws.integers(98)), float(draws.uniform(0.1, 1))


def test_a_slot_is_free_two_forwards_after_its_block_is_complete() -> None:
    """Complete in forward 2, stored in 3: with both slots in use, block 2 begins in 4."""
    says = numbered(
        {
            4: [0.95],
            5: [0.95],
            6: [0.5, 0.95],
            7: [0.5, 0.95],
            8: [0.95],
            9: [0.95],
            10: [0.95],
            11: [0.5, 0.95],
        },
        otherwise=0.95,
    )
    sequence, queries = decoded(says, PROMPT, MASKS_ONLY, output_tokens=12)

    found = [(block.admitted, block.finished, block.retired) for block in sequence.record.blocks]
    assert found == [(1, 2, 3), (2, 3, 4), (4, 4, 5)]
    assert [len(query.tokens) for query in queries] == [4, 4, 8, 8, 8, 4]
    kinds = [row.kind for row in sequence.record.forwards]
    assert kinds == ["prefill", "denoise", "denoise", "denoise", "denoise", "store"]


def test_a_buffer_full_of_complete_blocks_is_a_storing_bubble() -> None:
    """Both blocks are complete after forward 2: 3 stores them together, block 2 begins in 4."""
    says = numbered({6: [0.5, 0.95], 7: [0.5, 0.95]}, otherwise=0.95)
    sequence, queries = decoded(says, PROMPT, MASKS_ONLY, output_tokens=12)

    found = [(block.admitted, block.finished, block.retired) for block in sequence.record.blocks]
    assert found == [(1, 2, 3), (2, 2, 3), (4, 4, 5)]
    assert [row.kind for row in sequence.record.forwards[3:]] == ["store", "denoise", "store"]
    assert queries[3].tokens.tolist() == list(range(14, 22))


def test_dummies_take_slots_and_logits() -> None:
    """Every decode forward is as wide as the buffer, whatever is live."""
    settings = replace(MASKS_ONLY, buffer=3)
    sequence, queries = decoded(numbered({}), PROMPT, settings, output_tokens=6)

    assert {len(query.tokens) for query in queries[1:]} == {4, 8}
    assert {row.padded_tokens for row in sequence.record.forwards[1:]} == {12}
    assert {row.logit_rows for row in sequence.record.forwards[1:]} == {12}
    assert sequence.record.forwards[0].padded_tokens == 4


@pytest.mark.parametrize("prompt_tokens", [3, 4, 9])
def test_one_slot_is_one_block_at_a_time_with_a_bubble(prompt_tokens: int) -> None:
    """With one slot forwards, blocks and tokens are those of the single-block decoder."""
    prompt = list(range(2, 2 + prompt_tokens))
    one_slot = replace(MASKS_ONLY, buffer=1)
    single = single_block.Parameters(tau_mask=0.9)
    found, _ = decoded(wandering, prompt, one_slot, output_tokens=20)
    expected, _ = decoded(wandering, prompt, single, output_tokens=20)

    assert found.tokens.tolist() == expected.tokens.tolist()
    assert [asdict(row) for row in found.record.blocks] == [
        asdict(row) for row in expected.record.blocks
    ]
    assert [asdict(row) for row in found.record.forwards] == [
        asdict(row) for row in expected.record.forwards
    ]


def test_a_buffer_that_is_never_full_is_the_dynamic_running_set() -> None:
    """With a slot for every block, blocks fare as under Algorithm 4; only the padding differs."""
    settings = replace(MASKS_ONLY, buffer=6)
    naive = multi_block.Parameters(tau_add=0.5, tau_semi=0.75, tau_mask=0.9)
    found, _ = decoded(wandering, PROMPT[:3], settings, output_tokens=20)
    expected, _ = decoded(wandering, PROMPT[:3], naive, output_tokens=20)

    assert found.tokens.tolist() == expected.tokens.tolist()
    assert [asdict(row) for row in found.record.blocks] == [
        asdict(row) for row in expected.record.blocks
    ]


def test_stability_is_the_share_of_tokens_said_again() -> None:
    """Block 1 joins once half of block 0's tokens were said again, though progress sufficed."""
    says = in_turns(
        {
            4: [(14, 0.95), (20, 0.4), (14, 0.4)],
            5: [(15, 0.3), (15, 0.6)],
            6: [(16, 0.2)],
            7: [(17, 0.2)],
        },
        otherwise=(9, 0.2),
    )
    settings = replace(EDITING, tau_add=0.25, tau_stable=0.5)
    sequence, _ = decoded(says, PROMPT, settings, output_tokens=8)

    # Forward 1 found no token, 2 one that is not said again, 3 two that are.
    assert sequence.record.blocks[0].agreeing[:3] == [0, 0, 2]
    assert sequence.record.blocks[1].admitted == 4


def test_an_empty_buffer_is_filled_whatever_the_stability() -> None:
    """Block 0 would write two tokens again, not three of four; block 1 joins once it is stored."""
    says = in_turns(
        SURE | {4: [(14, 0.95), (20, 0.4)], 5: [(15, 0.95), (20, 0.4)]}, otherwise=(9, 0.95)
    )
    settings = replace(EDITING, tau_stable=0.75)
    sequence, _ = decoded(says, PROMPT, settings, output_tokens=8)

    first, second = sequence.record.blocks
    assert (first.agreeing, first.finished, first.retired) == ([0, 2], 2, 3)
    assert second.admitted == 4


def test_without_edits_a_block_is_stable_once_complete() -> None:
    """Any stability that is asked for holds the next block back until this one is complete."""
    says = numbered({4: [0.95], 5: [0.95], 6: [0.95]})
    settings = replace(MASKS_ONLY, tau_stable=0.01)
    held, _ = decoded(says, PROMPT, settings, output_tokens=8)
    free, _ = decoded(says, PROMPT, MASKS_ONLY, output_tokens=8)

    assert held.record.blocks[0].finished == free.record.blocks[0].finished == 2
    assert held.record.blocks[1].admitted == 3
    assert free.record.blocks[1].admitted == 2


def test_edits_are_confirmed_and_a_block_to_cache_is_left_alone() -> None:
    """Edited in forward 2, unchanged in 3, stored in 4, which would have edited it again."""
    says = in_turns(SURE | {5: [(15, 0.95), (77, 0.6), (77, 0.6), (88, 0.99)]})
    sequence, queries = decoded(says, PROMPT, EDITING, output_tokens=4)

    block = sequence.record.blocks[0]
    assert (block.finished, block.retired) == (3, 4)
    assert (block.edited, block.agreeing) == ([0, 1, 0], [0, 3, 4])
    assert queries[4].kind == "store"
    assert queries[4].tokens.tolist() == [14, 77, 16, 17]
    assert sequence.output().tolist() == [14, 77, 16, 17]


def test_a_probability_at_a_threshold_is_not_above_it() -> None:
    """Masks are revealed above tau_mask alone, tokens overwritten above tau_edit alone."""
    says = in_turns(SURE | {5: [(15, 0.95), (77, 0.5)], 6: [(16, 0.9)]})
    sequence, _ = decoded(says, PROMPT, EDITING, output_tokens=4)

    block = sequence.record.blocks[0]
    assert (block.ready, block.revealed) == ([4, 1, 0], [3, 1, 0])
    assert block.edited == [0, 0, 0]


def test_post_edit_budget_ends_a_flip_flop() -> None:
    """Two forwards without a mask may edit; what stands then is stored."""
    flips = [(15, 0.95), (77, 0.6), (15, 0.6), (77, 0.6), (15, 0.6)]
    says = in_turns(SURE | {5: flips})
    settings = replace(EDITING, post_edit_steps=2)
    sequence, queries = decoded(says, PROMPT, settings, output_tokens=4)

    block = sequence.record.blocks[0]
    assert (block.masked, block.edited) == ([4, 0, 0], [0, 1, 1])
    assert (block.finished, block.retired) == (3, 4)
    assert queries[4].tokens.tolist() == sequence.output().tolist() == [14, 15, 16, 17]


def test_a_frozen_block_that_waits_is_not_edited() -> None:
    """Block 1 spends its one post-edit step in forward 3 and waits for block 0 until 5."""
    says = in_turns(
        {
            4: [(14, 0.95)],
            **{place: [(10 + place, 0.95)] for place in (8, 10, 11)},
            9: [(19, 0.95), (77, 0.6), (19, 0.6), (88, 0.99)],
        },
        otherwise=(9, 0.5),
    )
    settings = replace(EDITING, tau_add=0.25, post_edit_steps=1)
    sequence, queries = decoded(says, PROMPT, settings, output_tokens=8)

    first, second = sequence.record.blocks
    assert (first.finished, first.retired) == (5, 6)
    assert (second.admitted, second.finished, second.retired) == (2, 3, 6)
    assert second.edited == [0, 1, 0, 0]
    assert queries[6].tokens.tolist() == [14, 9, 9, 9, 18, 77, 20, 21]


def test_masks_are_filled_after_a_block_and_the_post_edit_steps() -> None:
    """Block 1 waits for block 0 until forward 3; its sixth forward, 4 + 2, fills what is left."""
    settings = replace(EDITING, tau_add=0.25, tau_semi=1.0, post_edit_steps=2)
    sequence, _ = decoded(numbered({}), [2, 3, 4, 5, 6], settings, output_tokens=7)

    first, second = sequence.record.blocks
    assert (first.admitted, first.revealed) == (1, [1, 1, 1, 0])
    assert (second.admitted, second.revealed) == (1, [0, 0, 0, 1, 1, 2])
    assert (second.finished, second.retired) == (6, 7)


def test_whether_a_block_is_forced_behind_one_that_is_not_semi_complete() -> None:
    """Behind half a block only "always" reveals the best mask."""
    prompt = [2, 3, 4, 5, 6, 7]
    always = replace(MASKS_ONLY, forced="always")
    gated, _ = decoded(numbered({}), prompt, MASKS_ONLY, output_tokens=6)
    forced, _ = decoded(numbered({}), prompt, always, output_tokens=6)

    assert gated.record.blocks[1].revealed == [0, 1, 1, 1, 1]
    assert forced.record.blocks[1].revealed == [1, 1, 1, 1]


def test_behind_an_end_token_no_slot_is_activated() -> None:
    """Block 1, live when block 0 said the end, is decoded and stored; block 2 never begins."""
    says = in_turns(
        SURE | {6: [(16, 0.5), (END, 0.95)], 7: [(17, 0.5), (17, 0.95)]}, otherwise=(9, 0.5)
    )
    sequence, _ = decoded(says, PROMPT, MASKS_ONLY, output_tokens=12)

    first, second = sequence.record.blocks
    assert (first.finished, first.retired) == (2, 3)
    assert (second.revealed, second.retired) == ([0, 1, 1, 1, 1], 7)
    assert len(sequence.record.forwards) == 8
    assert sequence.output().tolist() == [14, 15]


def test_an_end_token_that_is_edited_away_ends_nothing() -> None:
    """Forward 2 overwrites the end, and block 1 joins in 3."""
    says = in_turns(SURE | {4: [(END, 0.95), (14, 0.95)]})
    sequence, _ = decoded(says, PROMPT, EDITING, output_tokens=8)

    assert sequence.record.blocks[1].admitted == 3
    assert len(sequence.output()) == 8

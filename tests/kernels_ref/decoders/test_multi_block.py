"""Naive multi-block decoding against scenarios written out by hand.

The prompt is six tokens: four are prefilled, two begin block 0 at place 4; block 1 begins at 8.
"""

import pytest

pytest.importorskip("torch")

from kernels_ref.decoders.multi_block import Parameters
from tests.kernels_ref.decoders.scripted import END, decoded, in_turns, numbered

PROMPT = [2, 3, 4, 5, 6, 7]
SETTINGS = Parameters(tau_add=0.5, tau_semi=0.75, tau_mask=0.9)

OVERLAP = {
    6: [0.3, 0.3],
    7: [0.6],
    9: [0.5, 0.8, 0.95],
    11: [0.5, 0.9],
    8: [0.5, 0.5, 0.95],
    10: [0.5, 0.5, 0.95],
}
"""Block 0 reveals 7 as its best, then 6; block 1 nothing, then 11 as its best, then the rest."""


def test_blocks_grow_overlap_and_are_stored_by_the_next_forward() -> None:
    """The running set grows at tau_add, forces behind tau_semi, and ends with a storing bubble."""
    sequence, queries = decoded(numbered(OVERLAP), PROMPT, SETTINGS, output_tokens=6)

    first, second = sequence.record.blocks
    assert (first.admitted, first.finished, first.retired) == (1, 2, 3)
    assert (first.masked, first.revealed) == ([2, 1], [1, 1])
    assert (second.admitted, second.finished, second.retired) == (1, 3, 4)
    assert (second.masked, second.revealed) == ([4, 4, 3], [0, 1, 3])
    assert second.ready == [0, 1, 3]
    kinds = [row.kind for row in sequence.record.forwards]
    assert kinds == ["prefill", "denoise", "denoise", "denoise", "store"]
    assert [(query.left, len(query.tokens)) for query in queries] == [
        (0, 4),
        (4, 8),
        (4, 8),
        (4, 8),
        (8, 4),
    ]
    assert sequence.output().tolist() == list(range(16, 22))


def test_everything_is_block_causal_and_slots_are_the_live_blocks() -> None:
    """Prompt and blocks see up to the end of their own block; a forward pads nothing."""
    _, queries = decoded(numbered(OVERLAP), PROMPT, SETTINGS, output_tokens=6)

    assert queries[0].horizon.tolist() == [4] * 4
    assert queries[1].horizon.tolist() == [8] * 4 + [12] * 4
    assert all(query.padded == len(query.tokens) for query in queries)


def test_a_stored_block_is_final_in_the_forward_that_stores_it() -> None:
    """The forward after the last reveal has the final tokens of the block as input."""
    sequence, queries = decoded(numbered(OVERLAP), PROMPT, SETTINGS, output_tokens=6)

    for block, start in zip(sequence.record.blocks, (4, 8), strict=True):
        query = queries[block.retired]
        stored = query.tokens[start - query.left :][:4]
        assert stored.tolist() == sequence.tokens[start : start + 4].tolist()


def test_below_tau_add_the_set_does_not_grow() -> None:
    """Half of block 0 is there from the prompt on, which is less than 0.51."""
    settings = Parameters(tau_add=0.51, tau_semi=0.75, tau_mask=0.9)
    sequence, _ = decoded(numbered(OVERLAP), PROMPT, settings, output_tokens=6)

    assert [block.admitted for block in sequence.record.blocks] == [1, 2]


def test_one_block_is_added_per_forward() -> None:
    """With a gate that is open the set grows by one block a forward."""
    settings = Parameters(tau_add=0, tau_semi=1, tau_mask=0.9)
    sequence, _ = decoded(numbered({}), [2, 3, 4, 5], settings, output_tokens=12)

    assert [block.admitted for block in sequence.record.blocks] == [1, 1, 2]


def test_a_block_is_forced_by_what_the_forward_saw() -> None:
    """Block 0 is complete after forward 1, so block 1 reveals its best from forward 2 on."""
    says = numbered({6: [0.95], 7: [0.95]})
    sequence, _ = decoded(says, PROMPT, SETTINGS, output_tokens=6)

    assert sequence.record.blocks[1].revealed == [0, 1, 1, 1, 1]


def test_end_token_in_a_later_block_stops_growth() -> None:
    """The end in block 1 keeps block 2 out; both live blocks are decoded and stored."""
    says = in_turns({8: [(END, 0.95)]}, otherwise=(9, 0.5))
    sequence, _ = decoded(says, PROMPT, SETTINGS, output_tokens=10)

    first, second = sequence.record.blocks
    assert (first.finished, first.retired) == (2, 3)
    assert second.revealed == [1, 1, 1, 1]
    assert second.retired == len(sequence.record.forwards) - 1 == 5
    assert sequence.output().tolist() == [9, 9]
    assert sequence.finish_reason == "end"


def test_short_prompts_need_no_prefill() -> None:
    """A prompt that is shorter than a block is in block 0 alone."""
    sequence, queries = decoded(numbered({}), [2, 3], SETTINGS, output_tokens=2)

    assert queries[0].kind == "denoise"
    assert queries[0].tokens.tolist() == [2, 3, 0, 0]
    assert sequence.tokens[:2].tolist() == [2, 3]

"""Discrete Diffusion Forcing against scenarios written out by hand.

The prompt is three tokens, so blocks of four begin at places 3, 7 and 11.
"""

import pytest

pytest.importorskip("torch")

from kernels_ref.decoders.d2f import Parameters
from tests.kernels_ref.decoders.scripted import END, decoded, in_turns, numbered

PROMPT = [5, 6, 7]
SETTINGS = Parameters(tau_add=0.5, tau_act=0.75, tau_mask=0.9)

PIPELINE = {
    3: [0.95],
    4: [0.3, 0.4, 0.2],
    5: [0.95],
    6: [0.3, 0.6],
    8: [0.95],
    9: [0.5, 0.6],
    7: [0.5, 0.5, 0.95],
    10: [0.5, 0.5, 0.3],
}
"""Two blocks. Block 0 reveals 3 and 5; 6 as its best; 4. Block 1, a forward later: 8; 9 as its
best, for block 0 then had three of four; 7; 10."""


def test_blocks_are_appended_activated_and_stored_as_in_the_code() -> None:
    """A block joins from tau_add on, is forced from tau_act on, and rides once when complete."""
    sequence, queries = decoded(numbered(PIPELINE), PROMPT, SETTINGS, output_tokens=8)

    first, second = sequence.record.blocks
    assert (first.admitted, first.finished, first.retired) == (0, 2, 3)
    assert (first.masked, first.revealed) == ([4, 2, 1], [2, 1, 1])
    assert (second.admitted, second.finished, second.retired) == (1, 4, 4)
    assert (second.masked, second.revealed) == ([4, 3, 2, 1], [1, 1, 1, 1])
    assert [query.left for query in queries] == [0, 3, 3, 3, 7]
    assert [len(query.tokens) for query in queries] == [7, 8, 8, 8, 4]
    assert sequence.output().tolist() == list(range(13, 21))


def test_prompt_sees_itself_and_shares_the_first_forward() -> None:
    """The first forward has prompt and block 0, prefix-full, with logits for the block alone."""
    sequence, queries = decoded(numbered(PIPELINE), PROMPT, SETTINGS, output_tokens=8)

    assert queries[0].tokens.tolist() == [5, 6, 7, 0, 0, 0, 0]
    assert queries[0].horizon.tolist() == [3, 3, 3, 7, 7, 7, 7]
    assert queries[1].horizon.tolist() == [7] * 4 + [11] * 4
    assert [row.kind for row in sequence.record.forwards] == ["denoise"] * 5
    assert [row.logit_rows for row in sequence.record.forwards] == [4, 8, 8, 8, 4]


def test_a_stored_block_is_final_in_the_forward_that_stores_it() -> None:
    """The forward that a complete block leaves with has its final tokens as input."""
    sequence, queries = decoded(numbered(PIPELINE), PROMPT, SETTINGS, output_tokens=8)

    stored_with = queries[sequence.record.blocks[0].retired]
    assert stored_with.tokens[:4].tolist() == [13, 14, 15, 16]


def test_last_block_is_never_stored() -> None:
    """Decoding stops before a forward in which nothing is active."""
    sequence, queries = decoded(numbered({}, otherwise=0.95), PROMPT, SETTINGS, output_tokens=4)

    assert len(queries) == 1
    assert sequence.record.blocks[0].retired == 0
    assert sequence.record.committed_tokens == 4


def test_a_probability_at_the_threshold_is_not_above_it() -> None:
    """Masks are revealed above tau_mask, and blocks appended from tau_add on."""
    says = numbered({3: [0.95], 4: [0.9], 5: [0.95]}, otherwise=0.3)
    sequence, _ = decoded(says, PROMPT, SETTINGS, output_tokens=8)

    assert sequence.record.blocks[0].ready[0] == 3
    assert sequence.record.blocks[0].revealed[0] == 2
    assert sequence.record.blocks[1].admitted == 1


def test_a_block_that_is_complete_early_waits_for_those_before_it() -> None:
    """Block 1 is complete after forward 1, block 0 after 3: both are stored by 4, beside block 2.

    Until then block 1 takes part like an active one, without a mask.
    """
    says = numbered({place: [0.95] for place in (3, 7, 8, 9, 10)})
    settings = Parameters(tau_add=0.25, tau_act=0.75, tau_mask=0.9)
    sequence, queries = decoded(says, PROMPT, settings, output_tokens=12)

    first, second, third = sequence.record.blocks
    assert (first.admitted, first.finished, first.retired) == (0, 3, 4)
    assert (second.admitted, second.finished, second.retired) == (1, 1, 4)
    assert (second.masked, second.agreeing) == ([4, 0, 0], [0, 4, 4])
    assert third.admitted == 2
    assert third.revealed == [1, 1, 1, 1]
    assert [(query.left, len(query.tokens)) for query in queries[2:]] == [(3, 12)] * 3 + [(11, 4)]


def test_end_token_stops_appending_and_nothing_else() -> None:
    """Block 1 was live when block 0 said the end: it is decoded, and block 2 never begins."""
    says = in_turns(
        {
            3: [(13, 0.95)],
            4: [(14, 0.95)],
            5: [(15, 0.5), (END, 0.95)],
            6: [(16, 0.5), (16, 0.95)],
        },
        otherwise=(9, 0.5),
    )
    sequence, queries = decoded(says, PROMPT, SETTINGS, output_tokens=12)

    assert len(sequence.record.blocks) == 2
    assert sequence.record.blocks[0].finished == 1
    assert sequence.record.blocks[1].masked == [4, 4, 3, 2, 1]
    assert len(queries) == 6
    assert sequence.output().tolist() == [13, 14]
    assert sequence.record.committed_tokens == 2

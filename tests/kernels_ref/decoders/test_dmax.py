"""DMax against scenarios written out by hand.

Prompts are four tokens that are prefilled, so block 0 is places 4 to 7 and forward 0 the prefill.
"""

import pytest

pytest.importorskip("torch")

from kernels_ref.decoders.dmax import Parameters
from kernels_ref.decoding.query import Query
from tests.kernels_ref.decoders.scripted import END, decoded, in_turns, numbered

PROMPT = [2, 3, 4, 5]
SETTINGS = Parameters(tau_mask=0.5, tau_stop=0.9)

RUNS = {
    4: [(14, 0.8), (30, 0.6), (30, 0.95)],
    5: [(15, 0.4), (15, 0.3), (15, 0.95)],
    6: [(16, 0.9), (16, 0.9), (16, 0.5)],
    7: [(17, 0.9), (17, 0.9), (17, 0.95)],
}
"""4 alone, for 5 is unsure; 5 as the leftmost, and 4 anew; the rest; then no change."""


def hardness(query: Query) -> list[float]:
    """How hard each token of a query is."""
    return [1.0] * len(query.tokens) if query.hardness is None else query.hardness.tolist()


def test_masks_are_revealed_in_a_run_from_the_left() -> None:
    """Up to the first unsure mask, the leftmost at least; tokens follow without a threshold."""
    sequence, _ = decoded(in_turns(RUNS), PROMPT, SETTINGS, output_tokens=4)

    block = sequence.record.blocks[0]
    assert block.masked == [4, 3, 2, 0]
    assert block.ready == [3, 2, 2, 0]
    assert block.revealed == [1, 1, 2, 0]
    assert block.edited == [0, 1, 0, 0]
    assert block.agreeing == [0, 0, 2, 4]
    assert sequence.output().tolist() == [30, 15, 16, 17]


def test_revealed_tokens_are_as_hard_as_they_were_probable() -> None:
    """The next forward mixes them with the mask by their last probability; masks are masks."""
    _, queries = decoded(in_turns(RUNS), PROMPT, SETTINGS, output_tokens=4)

    assert [hardness(query) for query in queries[1:]] == [
        [1, 1, 1, 1],
        [0.8, 1, 1, 1],
        [0.6, 0.3, 1, 1],
        [0.95, 0.95, 0.5, 0.95],
    ]
    assert queries[3].tokens.tolist() == [30, 15, 0, 0]


def test_a_block_is_stored_hard_beside_the_first_step_of_the_next() -> None:
    """Its query is the finished block, final and without logits, and the next one behind it."""
    says = in_turns(RUNS, otherwise=(9, 0.95))
    sequence, queries = decoded(says, PROMPT, SETTINGS, output_tokens=8)

    fused = queries[5]
    assert fused.kind == "fused-store"
    assert (fused.left, fused.asked, fused.padded) == (4, 4, 8)
    assert fused.tokens.tolist() == [30, 15, 16, 17, 0, 0, 0, 0]
    assert fused.horizon.tolist() == [8] * 4 + [12] * 4
    assert hardness(fused) == [1.0] * 8
    assert sequence.record.forwards[5].logit_rows == 4
    assert [(block.admitted, block.retired) for block in sequence.record.blocks] == [(1, 4), (5, 5)]


def test_a_block_that_is_sure_everywhere_ends_at_once() -> None:
    """All at 0.9 or more: one step a block, and the last one is never stored."""
    sequence, queries = decoded(numbered({}, otherwise=0.9), PROMPT, SETTINGS, output_tokens=8)

    kinds = [row.kind for row in sequence.record.forwards]
    assert kinds == ["prefill", "denoise", "fused-store"]
    assert len(queries) == 3


def test_a_block_ends_when_a_step_changes_nothing() -> None:
    """All revealed in the first step and said again in the second, though not surely."""
    sequence, _ = decoded(numbered({}, otherwise=0.6), PROMPT, SETTINGS, output_tokens=4)

    assert sequence.record.blocks[0].revealed == [4, 0]


def test_tokens_of_the_prompt_are_hard() -> None:
    """In block 0 only what was revealed is soft."""
    _, queries = decoded(numbered({}, otherwise=0.6), [2, 3, 4, 5, 6], SETTINGS, output_tokens=3)

    assert hardness(queries[2]) == [1.0, 0.6, 0.6, 0.6]


def test_places_of_the_prompt_are_not_asked_whether_they_are_sure() -> None:
    """The end of the prompt in block 0 is neither overwritten nor waited for."""
    says = numbered({4: [0.2]}, otherwise=0.95)
    sequence, queries = decoded(says, [2, 3, 4, 5, 6], SETTINGS, output_tokens=3)

    assert len(queries) == 2
    assert sequence.tokens.tolist() == [2, 3, 4, 5, 6, 15, 16, 17]


def test_no_block_ends_with_masks() -> None:
    """Sure enough to stop but not to reveal in a run: one mask a step, and then it stops."""
    settings = Parameters(tau_mask=0.95, tau_stop=0.9)
    sequence, _ = decoded(numbered({}, otherwise=0.92), PROMPT, settings, output_tokens=4)

    assert sequence.record.blocks[0].revealed == [1, 1, 1, 1]


def test_a_block_takes_no_more_steps_than_it_has_places() -> None:
    """Tokens that change for ever are final after the fourth step."""
    says = in_turns({4: [(20 + turn, 0.6) for turn in range(9)]}, otherwise=(9, 0.6))
    sequence, _ = decoded(says, PROMPT, SETTINGS, output_tokens=4)

    assert sequence.record.blocks[0].edited == [0, 1, 1, 1]
    assert sequence.output().tolist() == [23, 9, 9, 9]


def test_decoding_is_over_with_the_block_of_the_end_token() -> None:
    """No block is admitted behind it."""
    says = in_turns({6: [(END, 0.95)]}, otherwise=(9, 0.95))
    sequence, _ = decoded(says, PROMPT, SETTINGS, output_tokens=12)

    assert len(sequence.record.blocks) == 1
    assert sequence.output().tolist() == [9, 9]
    assert sequence.record.forwards[-1].committed_tokens == 2

"""Entropy-bounded canvases against scenarios written out by hand.

The prompt is three tokens, so canvases of four begin at places 3 and 7; forward 0 is the prefill.
"""

import math
from collections.abc import Sequence as Items
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("torch")

from kernels_ref.decoders.block_entropy import Parameters, decode
from kernels_ref.decoding.batch import decode_batch
from kernels_ref.decoding.canvas import within_bound
from kernels_ref.decoding.query import IntArray, ModelFacts
from kernels_ref.decoding.sequence import Sequence
from tests.kernels_ref.decoders.scripted import (
    END,
    FACTS,
    MASK,
    Said,
    ScriptedModel,
    decoded,
    in_turns,
    numbered,
)

PROMPT = [5, 6, 7]
SURE = numbered({}, otherwise=1.0)


def entropy_by_hand(probability: float, temperature: float) -> float:
    """Of a place that says one token so probable and the 98 others alike, in nats."""
    shares = [probability ** (1 / temperature)]
    shares += [((1 - probability) / 98) ** (1 / temperature)] * 98
    return -math.fsum(p * math.log(p) for p in (share / sum(shares) for share in shares))


def test_places_are_accepted_in_order_of_entropy_up_to_the_bound() -> None:
    """What adds up before a place counts: 0, 0.02 and 0.07 are within 0.1, 0.13 is not."""
    found = within_bound(np.array([0.06, 0.02, 0.05, 0.5]), 0.1)

    assert found.tolist() == [True, True, True, False]
    assert within_bound(np.array([3.0, 2.0]), 0.0).tolist() == [False, True]


def test_a_settled_canvas_takes_two_steps_and_a_store() -> None:
    """Sure from the first step on, unchanged in the second: then it is encoded causally."""
    sequence, queries = decoded(SURE, PROMPT, Parameters(), output_tokens=8)

    kinds = [row.kind for row in sequence.record.forwards]
    assert kinds == ["prefill", *["denoise", "denoise", "store"] * 2]
    found = [(block.admitted, block.finished, block.retired) for block in sequence.record.blocks]
    assert found == [(1, 2, 3), (4, 5, 6)]
    assert queries[0].horizon.tolist() == [1, 2, 3]
    assert queries[1].horizon.tolist() == queries[2].horizon.tolist() == [7] * 4
    assert queries[3].horizon.tolist() == [4, 5, 6, 7]
    assert queries[3].tokens.tolist() == [13, 14, 15, 16]
    assert sequence.output().tolist() == list(range(13, 21))


def test_stability_counts_steps_that_said_the_same() -> None:
    """Two steps back must agree where two are asked for; a change in between begins anew."""
    changing = in_turns(
        {3: [(13, 1.0), (77, 1.0)]} | {place: [(10 + place, 1.0)] for place in (4, 5, 6)}
    )
    one, _ = decoded(changing, PROMPT, Parameters(), output_tokens=4)
    two, _ = decoded(changing, PROMPT, Parameters(stability=2), output_tokens=4)
    steady, _ = decoded(SURE, PROMPT, Parameters(stability=2), output_tokens=4)

    steps = [len(sequence.record.blocks[0].masked) for sequence in (one, two, steady)]
    assert steps == [3, 4, 3]
    assert one.output().tolist() == [77, 14, 15, 16]


def test_an_unsure_canvas_takes_all_steps() -> None:
    """The mean entropy of four places at 0.5 is far above the threshold; the likeliest win."""
    sequence, _ = decoded(numbered({}), PROMPT, Parameters(steps=5), output_tokens=4)

    block = sequence.record.blocks[0]
    assert len(block.masked) == 5
    assert block.revealed[-1] == block.masked[-1]
    assert sequence.output().tolist() == [13, 14, 15, 16]


def test_mean_entropy_is_compared_with_the_threshold() -> None:
    """At 0.8 - 0.4/48 the entropy of 0.99 decides, just above it and just below."""
    entropy = entropy_by_hand(0.99, 0.4 + 0.4 * 47 / 48)
    says = numbered({}, otherwise=0.99)
    above = Parameters(confidence_threshold=entropy * 1.0001)
    below = Parameters(confidence_threshold=entropy * 0.9999)

    assert len(decoded(says, PROMPT, above, output_tokens=4)[0].record.blocks[0].masked) == 2
    assert len(decoded(says, PROMPT, below, output_tokens=4)[0].record.blocks[0].masked) > 2


def test_temperature_falls_step_by_step() -> None:
    """Four places at 0.7 cool from 0.8 by tenths: 0.7 nats take in one, then two, then all."""
    sequence, _ = decoded(
        numbered({}, otherwise=0.7), PROMPT, Parameters(steps=4, entropy_bound=0.7), output_tokens=4
    )

    assert entropy_by_hand(0.7, 0.8) > 0.7
    assert entropy_by_hand(0.7, 0.7) < 0.7 < 2 * entropy_by_hand(0.7, 0.7)
    assert 3 * entropy_by_hand(0.7, 0.6) < 0.7
    assert sequence.record.blocks[0].masked == [4, 3, 2, 0]


def test_accepted_places_hold_tokens_and_all_others_new_noise() -> None:
    """Places 3 and 4, then 5 and 6 while those are lost, then 3 and 4 again, then one edited."""
    sure, unsure = 0.9999, 0.5
    says = in_turns(
        {
            3: [(13, sure), (50, unsure), (13, sure), (77, sure)],
            4: [(14, sure), (14, unsure), (14, sure)],
            5: [(15, unsure), (15, sure), (15, unsure)],
            6: [(16, unsure), (16, sure), (16, unsure)],
        }
    )
    # Of two places that are sure, the entropy of one is within the bound and that of both is not.
    bound = 1.5 * entropy_by_hand(sure, 0.7)
    settings = Parameters(steps=5, entropy_bound=bound, temperature_first=0.7, temperature_last=0.7)
    sequence, queries = decoded(says, PROMPT, settings, output_tokens=4)

    block = sequence.record.blocks[0]
    assert block.masked == [4, 2, 2, 2, 2]
    assert block.ready == [2, 2, 2, 0, 0]
    assert block.revealed == [2, 2, 2, 0, 2]
    assert block.edited == [0, 0, 0, 1, 0]
    assert block.agreeing == [0, 1, 2, 1, 2]
    canvases = [query.tokens for query in queries[1:6]]
    assert canvases[1][:2].tolist() == canvases[3][:2].tolist() == [13, 14]
    assert canvases[2][2:].tolist() == [15, 16]
    assert canvases[4][:2].tolist() == [77, 14]
    assert (canvases[1][2:] != canvases[0][2:]).any()
    assert sequence.output().tolist() == [77, 14, 15, 16]


def test_noise_is_uniform_over_all_tokens_but_the_mask() -> None:
    """Each token but the mask comes about as often: 4 standard deviations of 1,600 draws."""
    facts = ModelFacts(mask_token=2, end_tokens=(1,), block_tokens=8, context_tokens=16, vocab=6)
    draws = []
    for request in range(200):
        settings = Parameters(steps=1)
        says = in_turns({}, otherwise=(3, 0.9))
        _, queries = decoded(says, [4], settings, output_tokens=8, facts=facts, request=request)
        draws.append(queries[1].tokens)

    counts = np.bincount(np.concatenate(draws), minlength=6)
    assert counts[2] == 0
    assert (abs(counts[[0, 1, 3, 4, 5]] - 320) < 4 * math.sqrt(1600 * 0.2 * 0.8)).all()


def first_canvases(requests: Items[int], *, seed: int = 0) -> list[list[int]]:
    """The first canvas of each request, decoded as one batch."""
    sequences = [
        Sequence(
            PROMPT[: 1 + request % 3],
            facts=FACTS,
            block_tokens=16,
            output_tokens=16,
            request=request,
            seed=seed,
            from_prompt=True,
        )
        for request in requests
    ]
    model = ScriptedModel(SURE)
    decode_batch(model, sequences, decode(sequences, Parameters()))
    return [query.tokens.tolist() for query in model.queries[1] if query is not None]


def test_noise_depends_on_seed_and_request_and_not_on_the_batch() -> None:
    """A request begins with the same canvas alone and in a batch; others begin with others."""
    together = first_canvases([3, 4, 5])

    assert [first_canvases([request])[0] for request in (3, 4, 5)] == together
    assert len({tuple(canvas) for canvas in together}) == 3
    assert first_canvases([3], seed=1)[0] != together[0]


def test_canvases_of_a_request_begin_differently() -> None:
    """The second block of a request has noise of its own."""
    settings = replace(Parameters(), block=16)
    _, queries = decoded(SURE, PROMPT, settings, output_tokens=32)

    assert queries[4].kind == "denoise"
    assert queries[1].tokens.tolist() != queries[4].tokens.tolist()


def test_a_sequence_shows_masks_until_its_canvas_is_finished() -> None:
    """Noise is never output: the sequence's own tokens stay masks during the steps."""
    sequence = Sequence(PROMPT, facts=FACTS, block_tokens=4, output_tokens=4, from_prompt=True)
    shown = []

    def says(place: int, _seen: IntArray, _turn: int) -> Said:
        shown.append(sequence.tokens[3:].tolist())
        return 10 + place, 0.5

    model = ScriptedModel(says)
    decode_batch(model, [sequence], decode([sequence], Parameters(steps=3)))

    # Asked of 3 tokens of the prompt, 4 places in 3 steps, and 4 in the store.
    assert shown == [[MASK] * 4] * (3 + 12) + [[13, 14, 15, 16]] * 4


def test_decoding_is_over_with_the_canvas_of_the_end_token() -> None:
    """What is behind the end in its canvas is no output, and no canvas follows."""
    says = in_turns({4: [(END, 1.0)]}, otherwise=(9, 1.0))
    sequence, queries = decoded(says, PROMPT, Parameters(), output_tokens=12)

    assert len(sequence.record.blocks) == 1
    assert queries[-1].kind == "store"
    assert sequence.output().tolist() == [9]
    assert sequence.record.committed_tokens == 1

"""Prompts in pieces, and prompts that begin like others."""

import math

import pytest

from simulator.deployment import Deployment
from simulator.documents import DocumentError
from simulator.request import Request
from tests.strategies import POLICIES, deployed, document, fitting_decode, play

BLOCK_POLICIES = ("single-block", "joint-threshold", "gwd", "block-buffer")


def prefill_forwards(deployment: Deployment, prompt_tokens: int) -> tuple[int, int]:
    """Forwards in which a lone request is filled: by its record, and by the steps."""
    records = play(deployment, [Request(0, prompt_tokens, 24)]).replica.records
    steps = sum(step.prefill for step in records.steps)
    return records.requests[0].prefill_forwards, steps


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(("prompt", "chunk"), [(512, 128), (513, 128), (100, 512), (96, 1)])
def test_a_chunked_prompt_takes_so_many_forwards(policy: str, prompt: int, chunk: int) -> None:
    """A prompt in chunks of N tokens is filled in its length over N forwards, rounded up."""
    deployment = deployed(document(policy), serving={"prefill_chunk_tokens": chunk})
    filled = deployment.schedule(Request(0, prompt, 24)).prefill_tokens

    expected = math.ceil(filled / chunk)

    assert prefill_forwards(deployment, prompt) == (expected, expected)


@pytest.mark.parametrize("policy", BLOCK_POLICIES)
@pytest.mark.parametrize("block", [8, 32])
def test_block_diffusion_fills_block_by_block(policy: str, block: int) -> None:
    """A prompt of 100 tokens is filled a block of the decoding policy at a time."""
    decode = fitting_decode(policy, block=block)
    deployment = deployed(document(policy, decode), serving={"prefill_chunk_tokens": "block"})
    filled = deployment.schedule(Request(0, 100, 24)).prefill_tokens

    assert filled // block == 100 // block
    assert prefill_forwards(deployment, 100)[0] == math.ceil(filled / block)


def test_chunks_of_a_block_need_blocks() -> None:
    """Autoregression has none, which the scenario's reader says."""
    with pytest.raises(DocumentError, match="block diffusion"):
        deployed(document("ar"), serving={"prefill_chunk_tokens": "block"})


def test_the_token_budget_is_shared_in_order() -> None:
    """Forwards of 100 tokens fill prompts of 60 as 60 and 40, then 20, 60 and 20, then 40."""
    serving = {"prefill_batch_tokens": 100, "prefill_order": "first"}
    deployment = deployed(document("ar"), serving=serving)

    records = play(deployment, [Request(i, 60, 4) for i in range(4)]).replica.records

    prefills = [step for step in records.steps if step.prefill]
    assert [step.query_tokens for step in prefills] == [100, 100, 40]
    assert [step.rows for step in prefills] == [2, 3, 1]
    assert [step.emitted_tokens for step in prefills] == [1, 2, 1]
    assert sorted(r.prefill_forwards for r in records.requests) == [1, 1, 2, 2]


def orders(order: str) -> list[tuple[bool, int]]:
    """Whether each step is a prefill, and its rows: a prompt comes while another decodes."""
    serving = {"prefill_order": order, "prefill_chunk_tokens": 20, "prefill_batch_tokens": 64}
    deployment = deployed(document("ar"), serving=serving)
    start_s = play(deployment, [Request(0, 20, 9)]).replica.records.steps[2].start_s
    requests = [Request(0, 20, 9), Request(1, 60, 3, arrival_s=start_s + 1e-6)]
    steps = play(deployment, requests, one_by_one=True).replica.records.steps
    return [(step.prefill, step.rows) for step in steps]


def test_prefill_first_lets_nobody_decode() -> None:
    """All three chunks of the newcomer go before the next decode step of the other."""
    own = [(True, 1), (False, 1), (False, 1)]
    assert orders("first") == [*own, *3 * [(True, 1)], *2 * [(False, 2)], *4 * [(False, 1)]]


def test_interleaved_prefill_lets_others_decode_in_between() -> None:
    """A decode step of the other follows every chunk of the newcomer."""
    own = [(True, 1), (False, 1), (False, 1)]
    taken = [(True, 1), (False, 1), (True, 1), (False, 1), (True, 1), *2 * [(False, 2)]]
    assert orders("interleaved") == [*own, *taken, *2 * [(False, 1)]]


def test_mixed_prefill_shares_the_steps() -> None:
    """The three chunks of the newcomer go with three decode steps of the other."""
    own = [(True, 1), (False, 1), (False, 1)]
    assert orders("mixed") == [*own, *5 * [(False, 2)], (False, 1)]


@pytest.mark.parametrize("n_requests", [1, 2, 7])
def test_a_shared_prefix_is_filled_once(n_requests: int) -> None:
    """Of requests with the same first 512 tokens, the first fills 612, the others 100."""
    deployment = deployed(document("ar"), serving={"prefix_caching": True})
    block = tuple(range(8))
    requests = [
        Request(i, 612, 8, arrival_s=float(i), prefix=block, prefix_block_tokens=64)
        for i in range(n_requests)
    ]

    run = play(deployment, requests)

    filled = [s.query_tokens for s in run.replica.records.steps if s.prefill]
    assert filled == [612] + [100] * (n_requests - 1)
    cached = [r.cached_prefix_tokens for r in run.replica.records.requests]
    assert cached == [0] + [512] * (n_requests - 1)
    assert run.ledger.prefixes.used_bytes == 0
    assert run.ledger.prefixes.unused_bytes == deployment.held_bytes(512)


def test_without_the_cache_every_prefix_is_filled() -> None:
    """The same prompts are filled whole where the engine keeps no prefixes."""
    deployment = deployed(document("ar"), serving={"prefix_caching": False})
    requests = [
        Request(i, 612, 8, arrival_s=float(i), prefix=(1,), prefix_block_tokens=512)
        for i in range(3)
    ]

    steps = play(deployment, requests).replica.records.steps

    assert [s.query_tokens for s in steps if s.prefill] == [612] * 3


def test_a_prompt_that_is_cached_whole_still_computes_a_block() -> None:
    """Something must be computed to sample from, so the last block is filled again."""
    deployment = deployed(document("ar"), serving={"prefix_caching": True})
    requests = [
        Request(i, 128, 8, arrival_s=float(i), prefix=(1, 2), prefix_block_tokens=64)
        for i in range(2)
    ]

    steps = play(deployment, requests).replica.records.steps

    assert [s.query_tokens for s in steps if s.prefill] == [128, 64]

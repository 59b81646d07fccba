"""Prompts filled by replicas of their own, whose cache goes over a link, by hand."""

from typing import Any

import numpy as np
import pytest

from simulator.deployment import Deployment
from simulator.prompts import prefill_passes
from simulator.request import Request
from simulator.step_cost import price_steps
from tests.strategies import Served, deployed, longest_bytes, open_document, serve, with_capacity

# Qwen3-8B: 36 layers, keys and values of 8 heads of 128 numbers, two bytes each.
KV_BYTES_PER_TOKEN = 36 * 2 * 8 * 128 * 2
LATENCY_S, LINK_BYTES_PER_S = 0.002, 10e9


def split(fillers: int = 1, decoders: int = 1, **link: float) -> Deployment:
    """Autoregression with prompts filled elsewhere."""
    given = {"link_bytes_per_s": LINK_BYTES_PER_S, "link_latency_s": LATENCY_S} | link
    return deployed(
        open_document("ar"),
        disaggregation={"prefill_replicas": fillers} | given,
        parallel={"dp": decoders},
    )


def prefill_s(deployment: Deployment, prompt_tokens: int) -> float:
    """A prompt by itself in one forward."""
    passes, loads = prefill_passes(deployment, [(prompt_tokens, 0, 1)])
    cost = price_steps(deployment, passes, loads, emitting_rows=np.ones(1), prefill=True)
    return float(cost.seconds[0])


def transfer_s(prompt_tokens: int) -> float:
    """Latency and bytes over bandwidth, for prompts of whole pages."""
    return LATENCY_S + prompt_tokens * KV_BYTES_PER_TOKEN / LINK_BYTES_PER_S


def steps_of(run: Served, replica: int) -> list[Any]:
    """The steps of a replica."""
    return [step for step in run.records.steps if step.replica == replica]


def test_the_first_token_comes_before_the_cache_travels() -> None:
    """The first token ends the prefill; the second waits for the link and for a decode step."""
    deployment = split()

    run = serve(deployment, [Request(0, 1024, 3)])

    (record,) = run.records.requests
    (prefill,) = steps_of(run, 1)
    first, second = steps_of(run, 0)
    assert prefill.prefill
    assert record.first_token_s == pytest.approx(prefill_s(deployment, 1024), rel=1e-9)
    arrives_s = record.first_token_s + transfer_s(1024)
    assert first.start_s == pytest.approx(arrives_s, rel=1e-9)
    gap_s = first.start_s + first.seconds - record.first_token_s
    assert gap_s == pytest.approx(transfer_s(1024) + first.seconds, rel=1e-9)
    assert run.records.emission_gaps_s.most == pytest.approx(gap_s, rel=1e-9)
    assert record.finished_s == pytest.approx(second.start_s + second.seconds, rel=1e-9)
    assert record.replica == 0


def test_a_link_that_costs_nothing_only_parts_the_steps() -> None:
    """A lone request takes as long as without a link when that takes 16 ns."""
    apart = serve(split(link_bytes_per_s=1e15, link_latency_s=0.0), [Request(0, 100, 9)])
    together = serve(deployed(open_document("ar")), [Request(0, 100, 9)])

    (one,), (other,) = apart.records.requests, together.records.requests
    assert one.first_token_s == pytest.approx(other.first_token_s, rel=1e-6)
    assert one.finished_s == pytest.approx(other.finished_s, rel=1e-6)


def test_a_link_sends_one_cache_after_the_other() -> None:
    """Four prompts of one forward arrive one transfer apart, for the link is the slowest part."""
    run = serve(split(), [Request(i, 512, 2) for i in range(4)])

    (prefill,) = steps_of(run, 1)
    starts = [step.start_s for step in steps_of(run, 0)]
    ends_s = prefill.start_s + prefill.seconds
    expected = [ends_s + (k + 1) * transfer_s(512) for k in range(4)]
    assert all(step.seconds < transfer_s(512) for step in steps_of(run, 0))
    assert starts == pytest.approx(expected, rel=1e-9)


def test_every_filler_has_a_link_of_its_own() -> None:
    """Two prompts in two fillers travel at the same time and decode together."""
    run = serve(split(fillers=2), [Request(i, 512, 2) for i in range(2)])

    (step,) = steps_of(run, 0)
    assert step.rows == 2
    assert {s.replica for s in run.records.steps if s.prefill} == {1, 2}


def test_equal_requests_decode_on_any_replica() -> None:
    """Four equal requests filled by one replica go to two in turn, and are told alike by both."""
    requests = [Request(i, 512, 16, arrival_s=float(i)) for i in range(4)]

    records = serve(split(decoders=2), requests).records

    assert [r.replica for r in records.requests] == [0, 1, 0, 1]
    stays = [r.finished_s - r.arrival_s for r in records.requests]
    assert stays == pytest.approx([stays[0]] * 4, rel=1e-9)


def test_prompts_wait_while_caches_travel() -> None:
    """A filler with room for one prompt begins the next when the last cache has left."""
    requests = [Request(i, 512, 16) for i in range(3)]
    deployment = split()
    run = serve(with_capacity(deployment, longest_bytes(deployment, requests)), requests)

    starts = [step.start_s for step in steps_of(run, 1)]
    alone_s = prefill_s(deployment, 512) + transfer_s(512)
    assert starts == pytest.approx([0.0, alone_s, 2 * alone_s], rel=1e-9)
    assert all(not replica.ledger.used_bytes for replica in run.replicas)


def test_decoders_pause_only_while_caches_are_elsewhere() -> None:
    """No decoder stands still when a cache has come to it and its request is not finished.

    When caches come follows from the ends of their prefills, each filler's link one after another.
    """
    generator = np.random.default_rng(7)
    arrivals = np.cumsum(generator.exponential(0.01, 60)).tolist()
    lengths = generator.integers([16, 2], [400, 30], size=(60, 2)).tolist()
    requests = [
        Request(i, 16 * (p // 16), o, arrival_s=t)
        for i, (t, (p, o)) in enumerate(zip(arrivals, lengths, strict=True))
    ]
    run = serve(split(fillers=2, decoders=2), requests)

    come_s = arrivals_at_decoders(run)
    for index in range(2):
        steps = steps_of(run, index)
        own = [r for r in run.records.requests if r.replica == index]
        assert len(own) > 10
        ends = [step.start_s + step.seconds for step in steps]
        for end_s, following in zip(ends, steps[1:], strict=False):
            # A cache that comes at the very end of a step is in the next one.
            waited = [
                r
                for r in own
                if come_s[r.request] < following.start_s - 1e-9 and r.finished_s > end_s + 1e-9
            ]
            assert following.start_s - end_s < 1e-9 or not waited


def arrivals_at_decoders(run: Served) -> dict[int, float]:
    """When each cache came: requests take turns at the fillers, caches take turns on a link."""
    come_s, free_s = {}, [0.0, 0.0]
    for record in sorted(run.records.requests, key=lambda r: (r.first_token_s, r.request)):
        filler = record.request % 2
        begin_s = max(free_s[filler], record.first_token_s)
        free_s[filler] = begin_s + transfer_s(record.prompt_tokens)
        come_s[record.request] = free_s[filler]
    return come_s

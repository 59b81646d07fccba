"""The shipped traces of blocks, what may replay them, and a capture's tables as a replay has them.

A test says in its own words what should hold; this says only where things are.
"""

import functools
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import yaml

from simulator import decoding, library
from simulator.replay.block_choice import captured_parameters, replaying
from simulator.replay.block_record import BlockTables
from simulator.replay.block_replay import BlockReplay
from simulator.replay.block_requests import BlockRequests, captured_requests
from simulator.replay.block_source import BlockSource, block_source
from traces.block_manifest import BlockManifest
from traces.block_tables import KINDS, LOCAL_LISTS
from traces.block_trace import BlockTrace, read_block_trace
from traces.columns import entries, lengths, numbers

IntArray = npt.NDArray[np.int64]

NAMES = [
    name
    for name in library.TRACES.names()
    if "\nrecords: blocks\n" in library.TRACES.path(name).read_text(encoding="utf-8")
]
POLICIES = replaying()
FRESH = Path(__file__).parents[2] / "data/fresh_captures.yaml"


@functools.cache
def shipped(name: str) -> BlockTrace:
    """A shipped trace, read once."""
    return read_block_trace(library.TRACES.path(name).parent)


@functools.cache
def source_of(name: str, policy: str) -> BlockSource:
    """Its blocks, as *policy* counts them."""
    return block_source(shipped(name), from_prompt=decoding.policy(policy).REPLAYS.from_prompt)


@functools.cache
def pairs() -> tuple[tuple[str, str], ...]:
    """Every policy with every shipped trace that it can replay."""
    return tuple(
        (policy, name)
        for policy in POLICIES
        for name in NAMES
        if _fits(policy, shipped(name).manifest)
    )


def _fits(policy: str, manifest: BlockManifest) -> bool:
    """Whether a trace has what *policy* does; those that edit are nothing for who never does."""
    edits = manifest.parameters.get("tau_edit") is not None
    revealing = policy in {"single-block", "multi-block"}
    return manifest.policy in decoding.policy(policy).REPLAYS.policies and not (revealing and edits)


@functools.cache
def fresh() -> dict[str, dict[str, Any]]:
    """Captures by the real decoders at settings that no shipped trace has, by name."""
    captures: dict[str, dict[str, Any]] = yaml.safe_load(FRESH.read_text("utf-8"))["captures"]
    return captures


def parameters_of(policy: str, name: str, **changes: Any) -> Any:
    """A policy's Parameters for a trace: as captured, some changed."""
    captured = captured_parameters(policy, shipped(name).manifest)
    return decoding.policy(policy).Parameters(
        policy=policy, trace=name, **(captured | dict(changes))
    )


def run(
    policy: str,
    name: str,
    parameters: Any,
    requests: BlockRequests | None = None,
    groups: IntArray | None = None,
    made: type[BlockReplay] = BlockReplay,
) -> BlockReplay:
    """*requests*, the captured ones when absent, run to their end."""
    source = source_of(name, policy)
    captured = captured_requests(source, np.arange(source.n_requests))
    changed = shipped(name).manifest.policy != policy or parameters != parameters_of(policy, name)
    blocks = made(source, requests or captured, groups=groups, is_counterfactual=changed)
    decoding.policy(policy).replay(blocks, parameters)
    return blocks


def captured_tables(trace: BlockTrace) -> BlockTables:
    """A trace's own tables in the form of a replay's."""
    rows = trace.requests.num_rows
    request = numbers(trace.steps, "request")
    count = np.array([(request == number).sum() for number in numbers(trace.requests, "request")])
    names = set(trace.steps.column_names) - {"request", "step", "kind"}
    steps = {name: numbers(trace.steps, name) for name in sorted(names)}
    steps["kind"] = np.array([KINDS.index(kind) for kind in trace.steps["kind"].to_pylist()])
    rank = {number: row for row, number in enumerate(numbers(trace.requests, "request").tolist())}
    blocks = {
        name: numbers(trace.blocks, name) for name in ("block", "admitted", "finished", "retired")
    }
    blocks["request"] = np.array([rank[n] for n in numbers(trace.blocks, "request").tolist()])
    assert len(count) == rows
    return BlockTables(
        first_step=np.concatenate([[0], np.cumsum(count)]),
        steps=steps,
        blocks=blocks,
        first_local=np.concatenate([[0], np.cumsum(lengths(trace.blocks, "masked"))]),
        local_steps={name: entries(trace.blocks, name) for name in LOCAL_LISTS},
    )


def check_same(found: BlockTables, expected: BlockTables) -> None:
    """Both say the same of every forward, every block and every local step."""
    assert found.first_step.tolist() == expected.first_step.tolist()
    for part in ("steps", "blocks"):
        one, other = getattr(found, part), getattr(expected, part)
        assert set(one) == set(other)
        for name in other:
            np.testing.assert_array_equal(one[name], other[name], err_msg=f"{part}.{name}")
    assert found.first_local.tolist() == expected.first_local.tolist()
    for name in LOCAL_LISTS:
        one, other = found.local_steps[name], expected.local_steps[name]
        np.testing.assert_array_equal(one, other, err_msg=name)

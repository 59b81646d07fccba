"""Replay of a captured trace of blocks through a policy, without any hardware."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from simulator import decoding
from simulator.documents import DocumentError, Mistake, check, known, shown
from simulator.replay.block_choice import blocks_mistakes, captured_parameters, replaying
from simulator.replay.block_difference import difference
from simulator.replay.block_pace import BlockPace
from simulator.replay.block_record import KIND, BlockTables
from simulator.replay.block_replay import BlockReplay
from simulator.replay.block_requests import captured_requests
from simulator.replay.totals import (
    BATCH,
    EXACT,
    POLICY,
    batch_forwards,
    batches_of,
    count_rule,
    plain,
    policy_mistake,
)
from simulator.schedule import IntArray
from traces.block_trace import BlockTrace
from traces.verdicts import accuracy


@dataclass(frozen=True)
class ReplayedBlocks:
    """What the requests of a trace come to under the policy and settings asked for."""

    replay: str
    """exact or counterfactual."""
    policy: str
    parameters: dict[str, Any]
    """Of the policy, as replayed."""
    requests: int
    output_tokens: int
    """As captured: texts are taken to stay what they were."""
    forwards: int
    """Of all requests, prefill included."""
    store_forwards: int
    batch_forwards: int
    """Of whole batches, prefill included."""
    tokens_per_forward: float
    """Over forwards of requests that are no prefill."""
    blocks_live: float
    """In the mean over those forwards."""
    local_steps: int
    """Updates of blocks."""
    drawn_share: float
    """Share of them that met what is not recorded of their block."""
    accuracy: dict[str, float | None]
    """As captured; None where what was decoded would differ."""
    warnings: tuple[str, ...]
    tables: BlockTables

    def document(self) -> dict[str, Any]:
        """The summary as what JSON holds."""
        return plain(self, "tables")


def replay_blocks(trace: BlockTrace, settings: Mapping[str, object]) -> ReplayedBlocks:
    """Run every request of *trace* again, under another policy, window, gate, buffer or batch.

    Raises DocumentError for settings that no replay of it can answer, and for a trace that is not
    what its policy does with its parameters.
    """
    if settings:
        check_recorded(trace)
    manifest = trace.manifest
    policy, batch, parameters = _asked(trace, settings)
    pace = BlockPace(trace, policy, parameters, repeats=True, batch=batch)
    batches = batches_of(trace, batch)
    blocks = BlockReplay(
        pace.source,
        captured_requests(pace.source, np.arange(pace.source.n_requests)),
        groups=batches if parameters.shares_batch else None,
        is_counterfactual=bool(pace.changed),
    )
    decoding.policy(policy).replay(blocks, parameters)
    tables, taken = blocks.record.tables(), blocks.trajectories
    prefills, decodes = _forwards(tables)
    in_batches = batch_forwards(batches, prefills, decodes)
    if not pace.changed and (apart := difference(trace, tables)):
        rule = f"is not what {policy} with the captured parameters does: {apart}"
        raise DocumentError(manifest.name, [Mistake("", rule)])
    counted = manifest.counts.batch_forwards
    if not pace.changed and batch == manifest.batch and in_batches != counted:
        rule = f"has {in_batches} forwards of batches, got {counted}"
        raise DocumentError(manifest.name, [Mistake("counts.batch_forwards", rule)])
    verdict = accuracy(trace.requests)
    live = tables.steps["window_right"] - tables.steps["window_left"]
    return ReplayedBlocks(
        replay=pace.replay,
        policy=policy,
        parameters=_plain(parameters),
        requests=manifest.counts.requests,
        output_tokens=manifest.counts.output_tokens,
        forwards=int((prefills + decodes).sum()),
        store_forwards=int((tables.steps["kind"] == KIND["store"]).sum()),
        batch_forwards=in_batches,
        tokens_per_forward=float(tables.steps["committed_tokens"].sum() / decodes.sum()),
        blocks_live=float(live[tables.steps["kind"] != KIND["prefill"]].mean()),
        local_steps=taken.followed + taken.drawn,
        drawn_share=taken.drawn / max(1, taken.followed + taken.drawn),
        accuracy=verdict if pace.replay == EXACT else dict.fromkeys(verdict),
        warnings=tuple(pace.warnings),
        tables=tables,
    )


def check_recorded(trace: BlockTrace) -> None:
    """Raise DocumentError for a trace that is not what its policy does with its parameters."""
    replay_blocks(trace, {})


def _asked(trace: BlockTrace, settings: Mapping[str, object]) -> tuple[str, int, Any]:
    """(policy, rows of a batch, complete parameters); raises DocumentError with every mistake."""
    manifest = trace.manifest
    policy: Any = settings.get(POLICY, manifest.policy)
    if policy not in replaying():
        of = manifest.policy
        able = [n for n in replaying() if of in decoding.policy(n).REPLAYS.policies]
        mistake = policy_mistake(policy, of, able)
        raise DocumentError(manifest.name, [] if mistake is None else [mistake])
    unfit = list(blocks_mistakes(policy, manifest.block_tokens, manifest))
    if unfit:
        raise DocumentError(manifest.name, unfit)
    captured = captured_parameters(policy, manifest)
    own = {name: value for name, value in settings.items() if name not in {POLICY, BATCH}}
    mistakes = [m for name in own if (m := _fixed(trace, policy, name, own[name])) is not None]
    free = {"block", *decoding.policy(policy).REPLAYS.free}
    asked = captured | {name: value for name, value in own.items() if name in free}
    names = {field.name for field in fields(decoding.policy(policy).Parameters)}
    given = {"policy": policy, "trace": manifest.name} | {
        name: value for name, value in asked.items() if name in names
    }
    if "store" in names:
        given.setdefault("store", "separate")
    parameters, wrong = check(decoding.policy(policy).Parameters, given)
    mistakes += wrong
    batch = settings.get(BATCH, manifest.batch)
    wrong_batch = count_rule(batch)
    if wrong_batch is not None:
        mistakes.append(Mistake(BATCH, wrong_batch))
    if parameters is not None:
        mistakes += blocks_mistakes(policy, parameters.block, manifest)
    if mistakes or not isinstance(batch, int):
        raise DocumentError(manifest.name, mistakes)
    return policy, batch, parameters


def _fixed(trace: BlockTrace, policy: str, name: str, value: object) -> Mistake | None:
    """Why a setting cannot be changed, if it cannot."""
    manifest, free = trace.manifest, decoding.policy(policy).REPLAYS.free
    if name == "block" or name in free:
        return None
    if name not in manifest.parameters:
        choices = (POLICY, BATCH, *free)
        return Mistake(name, known(name, choices, "setting"))
    own = manifest.parameters[name]
    if value == own:
        return None
    what = f"the trace recorded what {name} {shown(own)} did, got {shown(value)}"
    changes = ", ".join((POLICY, BATCH, *free))
    return Mistake(name, f"{what}; capture another, a replay may change {changes}")


def _plain(parameters: Any) -> dict[str, Any]:  # noqa: ANN401 (of the policy)
    """Parameters that a replay has, by name."""
    without = {"policy", "trace", "tokens_per_forward", "live_blocks"}
    return {name: value for name, value in vars(parameters).items() if name not in without}


def _forwards(tables: BlockTables) -> tuple[IntArray, IntArray]:
    """Prefills and other forwards of each request."""
    is_prefill = (tables.steps["kind"] == KIND["prefill"]).astype(np.int64)
    prefills = np.add.reduceat(is_prefill, tables.first_step[:-1])
    return prefills, np.diff(tables.first_step) - prefills

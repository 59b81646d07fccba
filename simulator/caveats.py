"""Caveats: what a user should know before trusting a result, one sentence each."""

from collections.abc import Iterator
from typing import Any

from simulator import library
from simulator.deployment import Deployment
from simulator.engine_profile import Overhead
from simulator.replay.block_pace import BlockPace
from simulator.replay.iteration_pace import IterationPace

# Asked and reached tokens per forward may differ by rounding to whole forwards; more is told.
PACE_TOLERANCE = 0.02
HOST_BOUND_SHARE = 0.5


def caveats(deployment: Deployment, metrics: dict[str, Any], engine_share: float) -> list[str]:
    """Everything about load, pace, acceptance and engine that the numbers alone do not say.

    *engine_share* is the share of the time that is the engine's own.
    """
    return [
        *_load(deployment),
        *_pace(deployment, metrics),
        *_acceptance(deployment),
        *_captured(deployment),
        *_replayed_blocks(deployment),
        *_serving(deployment),
        *_engine(deployment, engine_share),
    ]


def _load(deployment: Deployment) -> Iterator[str]:
    workload = deployment.scenario.workload
    if workload.is_closed:
        yield from _users(deployment)


def _users(deployment: Deployment) -> Iterator[str]:
    workload = deployment.scenario.workload
    if workload.most_together < workload.concurrency:
        yield (
            f"workload.concurrency {workload.concurrency} is never reached: there are only "
            f"{workload.n_requests} requests"
        )
    captured = len(getattr(workload, "lengths", ())) or workload.n_requests
    if workload.n_requests > captured:
        yield f"the trace has {captured} requests; {workload.n_requests} repeat them in turn"
    if deployment.max_batch < workload.most_together:
        yield (
            f"at most {deployment.max_batch} requests are in the batch (max_batch), "
            f"{workload.most_together} are in the system: the rest wait"
        )


def _pace(deployment: Deployment, metrics: dict[str, Any]) -> Iterator[str]:
    asked = getattr(deployment.scenario.decode, "tokens_per_forward", None)
    reached = metrics["tokens_per_forward"]
    if asked is not None and abs(reached / asked - 1) > PACE_TOLERANCE:
        yield (
            f"decode.tokens_per_forward is {asked}, the run reached {reached:.3g}: whole forwards, "
            "and the least each block takes, leave no other"
        )


def _acceptance(deployment: Deployment) -> Iterator[str]:
    trace, model = deployment.trace, deployment.acceptance
    if trace is None or model is None:
        return
    if trace.model != deployment.model.name:
        yield (
            f"acceptance trace {trace.name} is of {trace.model}, the model is "
            f"{deployment.model.name}"
        )
    decode = deployment.scenario.decode
    if not model.is_published(decode.block, decode.acceptance_tree_size):
        yield (
            "acceptance at this block and tree size was not published; it is read off a fitted "
            "curve, which missed left-out blocks by 1 % (median) to 12 % (worst)"
        )
    top_k = getattr(decode, "top_k", None)
    if top_k is not None and top_k != trace.top_k:
        yield f"acceptance was published at top_k {trace.top_k}, used at {top_k}"


def _captured(deployment: Deployment) -> Iterator[str]:
    pace = deployment.pace
    if not isinstance(pace, IterationPace):
        return
    manifest = pace.trace.manifest
    if manifest.target.name != deployment.model.name:
        yield (
            f"trace {manifest.name} was decoded by {manifest.target.name}, the model is "
            f"{deployment.model.name}: how much is accepted is the trace's"
        )
    yield from pace.warnings


def _replayed_blocks(deployment: Deployment) -> Iterator[str]:
    pace = deployment.pace
    if not isinstance(pace, BlockPace):
        return
    manifest = pace.trace.manifest
    yield (
        f"trace {manifest.name} was decoded by the reference model {manifest.checkpoint.name} on "
        f"{manifest.task}, in blocks of {manifest.block_tokens}: how ready blocks are is the "
        "trace's, what a forward costs is the model's"
    )
    yield from pace.warnings
    longest = int(pace.source.output_tokens.max())
    asked = deployment.example.output_tokens
    if not pace.repeats and asked > longest:
        yield (
            f"outputs of {asked} tokens are made of captured ones of {longest} at most, one behind "
            "the other; how long answers really go on is not in the trace"
        )


def _serving(deployment: Deployment) -> Iterator[str]:
    """What the scenario sets otherwise than the engine does, whose overhead was fitted without."""
    changes = deployment.scenario.serving.changes
    if changes and deployment.engine.calibration is not None:
        said = ", ".join(f"{name} {value}" for name, value in changes.items())
        yield f"engine {deployment.engine.name} was fitted as it is, not with {said}"
    asked = changes.get("prefill_order")
    if deployment.drafter is not None and asked == "mixed":
        yield (
            "a drafter takes the prompt's features in by a pass of its own, so prompts are filled "
            "between decode steps (interleaved), not in them (mixed)"
        )


def _engine(deployment: Deployment, engine_share: float) -> Iterator[str]:
    engine, calibration = deployment.engine, deployment.engine.calibration
    if engine.overhead == Overhead() and engine.name != library.IDEAL:
        yield f"engine {engine.name} has no fitted overhead: times are the kernels' alone"
    if engine_share > HOST_BOUND_SHARE:
        yield (
            f"{engine_share:.0%} of the time is engine {engine.name}'s own work, which was fitted "
            "elsewhere: GPU, parallelism and batch hardly show"
        )
    if calibration is not None and calibration.points <= len(calibration.fitted):
        yield (
            f"engine {engine.name} was fitted to {calibration.points} point(s), so its "
            "residual says nothing and the interval leaves it out"
        )

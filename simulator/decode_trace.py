"""What a decode section goes by: a constant pace, or the trace that it names."""

from dataclasses import replace
from typing import Any

from simulator import decoding, library
from simulator.blocks import BlockParameters
from simulator.documents import DocumentError, Mistake
from simulator.replay.block_choice import blocks_of, shipped_blocks
from simulator.replay.block_summary import check_recorded
from simulator.replay.iteration_choice import captured_trace, shape_mistakes
from simulator.replay.iteration_pace import decoded_tokens
from simulator.replay.iteration_steps import whole_steps
from simulator.scenario import Findings
from simulator.speculation import ANY_BENCHMARK, ChainParameters
from simulator.workloads import captured as captured_workload
from traces.acceptance import AcceptanceModel, acceptance_model
from traces.block_trace import BlockTrace
from traces.captured import CapturedManifest
from traces.captured_trace import CapturedTrace
from traces.columns import numbers
from traces.iteration_manifest import IterationManifest
from traces.iteration_trace import IterationTrace
from traces.manifest import Manifest

# Far below any decoder; a schedule has a column per forward, so it must not grow without bound.
LEAST_TOKENS_PER_FORWARD = 0.01


def acceptance_traces(policy: str) -> list[str]:
    """Names of the shipped traces of accepted tokens that *policy* may use: published, captured."""
    of = getattr(decoding.policy(policy).Parameters, "TRACES_OF", None) or policy
    shipped = library.TRACES.shipped()
    fitting = {name: trace for name, trace in shipped.items() if of in trace.policies}
    return [
        name
        for kind in (Manifest, IterationManifest)
        for name, trace in fitting.items()
        if isinstance(trace, kind)
    ]


def _traced_policy(parameters: Any) -> str:  # noqa: ANN401 (of the policy)
    """The policy whose traces say what is accepted."""
    of: str = getattr(parameters, "TRACES_OF", None) or parameters.policy
    return of


def _named_trace(parameters: Any, findings: Findings) -> Manifest | IterationManifest | None:  # noqa: ANN401 (of the policy)
    """What the trace that the decode section names says of itself, if it is of its policy."""
    if isinstance(parameters, BlockParameters) or getattr(parameters, "trace", None) is None:
        return None
    try:
        trace: Manifest | CapturedManifest = library.TRACES.get(parameters.trace)
    except DocumentError as error:
        findings.extend("decode.trace", error)
        return None
    of = _traced_policy(parameters)
    if of in trace.policies and isinstance(trace, Manifest | IterationManifest):
        return trace
    kinds = ", ".join(trace.policies)
    fitting = ", ".join(acceptance_traces(parameters.policy)) or "none"
    taken = of if of == parameters.policy else f"{of}, as {parameters.policy} needs"
    findings.add("decode.trace", f"{trace.name} is of {kinds}, not of {taken}; known: {fitting}")
    return None


def acceptance_of(
    parameters: object, findings: Findings
) -> tuple[Manifest | None, AcceptanceModel | None, IterationTrace | None]:
    """The trace of accepted tokens that the decode section names, if it names one.

    A published one with the model that is fitted to it, or the iterations of a captured one.
    """
    trace = _named_trace(parameters, findings)
    if isinstance(trace, IterationManifest):
        return None, None, _iterations(parameters, trace, findings)
    if not isinstance(parameters, ChainParameters) or trace is None:
        return None, None, None
    try:
        model = acceptance_model(trace, parameters.benchmark)
    except ValueError as error:
        findings.add("decode.benchmark", str(error))
        return None, None, None
    for field, tree_size in (("block", None), ("tree_size", parameters.acceptance_tree_size)):
        try:
            model.tokens_per_step(parameters.block, tree_size)
        except ValueError as error:
            findings.add(f"decode.{field}", str(error))
            break
    return trace, model, None


def _iterations(
    parameters: Any,  # noqa: ANN401 (of the policy)
    manifest: IterationManifest,
    findings: Findings,
) -> IterationTrace | None:
    """The captured iterations, if they can tell what the decode section asks for."""
    found = list(shape_mistakes(parameters, manifest))
    known_benchmarks = (ANY_BENCHMARK, manifest.task)
    if getattr(parameters, "benchmark", ANY_BENCHMARK) not in known_benchmarks:
        what = f"{manifest.name} is of {manifest.task!r} alone, got {parameters.benchmark!r:.60}"
        found.append(Mistake("benchmark", what))
    for mistake in found:
        findings.add(f"decode.{mistake.where}", mistake.what)
    if found:
        return None
    try:
        trace = captured_trace(parameters.trace, manifest)
    except DocumentError as error:
        findings.extend("decode.trace", error)
        return None
    if not isinstance(trace, IterationTrace):
        return None
    if rule := _steps_rule(parameters, trace):
        findings.add("decode.trace", f"{manifest.name} {rule}")
    return trace


def _steps_rule(parameters: Any, trace: IterationTrace) -> str:  # noqa: ANN401 (of the policy)
    """What the whole iterations of *trace* lack for a step of the policy, or nothing."""
    emitted = whole_steps(trace, getattr(parameters, "block", 1)).emitted_tokens
    if not len(emitted):
        return "has no iteration that the end of an output did not cut"
    emitted = emitted - getattr(parameters, "FORGONE_TOKENS", 0)
    most = getattr(parameters, "most_tokens_per_step", 1)
    if emitted.min() >= 1 and emitted.max() <= most:
        return ""
    rule = f"a step of {parameters.policy} emits 1 to {most} tokens"
    return f"has steps of {emitted.min()} to {emitted.max()} tokens; {rule}"


def captured_blocks(parameters: object, findings: Findings) -> BlockTrace | None:
    """The captured blocks that the decode section names, if it names any."""
    if not isinstance(parameters, BlockParameters) or parameters.trace is None:
        return None
    try:
        trace = blocks_of(parameters.policy, parameters.block, parameters.trace)
        check_recorded(trace)
    except DocumentError as error:
        fields = {"trace", "block"}
        for mistake in error.mistakes:
            if mistake.where in fields:
                findings.add(f"decode.{mistake.where}", mistake.what)
            else:
                findings.extend("decode.trace", DocumentError(error.origin, [mistake]))
        return None
    return trace


def fill_in_lengths(parts: dict[str, Any], trace: CapturedTrace | None, findings: Findings) -> None:
    """Give a captured workload the lengths of its requests; it needs a captured trace.

    Iterations emit the end token as one of the output, blocks end with it.
    """
    workload = parts.get("workload")
    if not isinstance(workload, captured_workload.Parameters):
        return
    if workload.lengths:
        findings.add("workload.lengths", "are what the trace says; leave them out")
    if trace is None:
        if not findings.mistakes:
            what = "repeats the requests of a captured trace; name one in decode.trace"
            findings.add("workload.kind", f"captured {what}")
        return
    prompts = numbers(trace.requests, "prompt_tokens")
    outputs = (
        decoded_tokens(trace)
        if isinstance(trace, IterationTrace)
        else numbers(trace.requests, "output_tokens")
    )
    lengths = tuple(zip(prompts.tolist(), outputs.tolist(), strict=True))
    parts["workload"] = replace(workload, lengths=lengths)


def check_pace(parameters: object, findings: Findings) -> None:
    """The constants must be ones that the policy can reach."""
    if isinstance(parameters, ChainParameters):
        constant = parameters.tokens_per_step
        if (constant is None) == (parameters.trace is None):
            what = "give one of decode.tokens_per_step and decode.trace"
            fitting = ", ".join(acceptance_traces(parameters.policy)) or "none"
            findings.add("decode", f"{what}; known traces: {fitting}")
        most, tree_size = parameters.most_tokens_per_step, parameters.acceptance_tree_size
        if constant is not None and constant > most:
            at = f"block {parameters.block}" + (f" and tree size {tree_size}" if tree_size else "")
            rule = f"a step at {at} emits at most {most}"
            findings.add("decode.tokens_per_step", f"{rule}, got {constant}")
    if isinstance(parameters, BlockParameters):
        _check_forwards(parameters, findings)


def _check_forwards(parameters: BlockParameters, findings: Findings) -> None:
    """The pace of a block policy: a constant in bounds, or a trace."""
    pace, rule = parameters.tokens_per_forward, ""
    if (pace is None) == (parameters.trace is None):
        policies = decoding.policy(parameters.policy).REPLAYS.policies
        fitting = ", ".join(shipped_blocks(policies)) or "none"
        what = "give one of decode.tokens_per_forward and decode.trace"
        findings.add("decode", f"{what}; known traces: {fitting}")
        return
    if pace is not None:
        if pace > parameters.block:
            rule = f"a forward finishes at most one block of {parameters.block}"
        if pace < LEAST_TOKENS_PER_FORWARD:
            rule = f"must be at least {LEAST_TOKENS_PER_FORWARD}"
        if rule:
            findings.add("decode.tokens_per_forward", f"{rule}, got {pace}")

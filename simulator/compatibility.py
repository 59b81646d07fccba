"""Compatibility: whether the parts of a scenario go together; every mistake is noted."""

from typing import Any

from hwprofiles import HardwareProfile
from simulator import decoding, library
from simulator.blocks import BlockParameters
from simulator.documents import DocumentError, known
from simulator.model import ModelSpec
from simulator.ops import Precision
from simulator.scenario import Findings, Parallel
from simulator.speculation import ChainParameters
from traces.acceptance import AcceptanceModel, acceptance_model
from traces.captured import CapturedManifest
from traces.manifest import Manifest

# Far below any decoder; a schedule has a column per forward, so it must not grow without bound.
LEAST_TOKENS_PER_FORWARD = 0.01


def acceptance_traces(policy: str) -> list[str]:
    """Names of the shipped traces of accepted tokens that *policy* may use."""
    shipped = {name: library.TRACES.get(name) for name in library.TRACES.names()}
    return [
        name
        for name, trace in shipped.items()
        if isinstance(trace, Manifest) and policy in trace.policies
    ]


def acceptance_of(
    parameters: object, findings: Findings
) -> tuple[Manifest | None, AcceptanceModel | None]:
    """The acceptance trace that the decode section names, if it names one."""
    if not isinstance(parameters, ChainParameters) or parameters.trace is None:
        return None, None
    try:
        trace: Manifest | CapturedManifest = library.TRACES.get(parameters.trace)
    except DocumentError as error:
        findings.extend("decode.trace", error)
        return None, None
    if isinstance(trace, CapturedManifest):
        what = f"{trace.name} has the {trace.records} that {trace.policy} decoded"
        wanted = f"{parameters.policy} needs a trace of mean tokens per step"
        findings.add("decode.trace", f"{wanted}; {what}, which are not replayed yet")
        return None, None
    if parameters.policy not in trace.policies:
        kinds = ", ".join(trace.policies)
        findings.add("decode.trace", f"{trace.name} is of {kinds}, not of {parameters.policy}")
        return None, None
    try:
        model = acceptance_model(trace, parameters.benchmark)
    except ValueError as error:
        findings.add("decode.benchmark", str(error))
        return None, None
    for field, tree_size in (("block", None), ("tree_size", parameters.acceptance_tree_size)):
        try:
            model.tokens_per_step(parameters.block, tree_size)
        except ValueError as error:
            findings.add(f"decode.{field}", str(error))
            break
    return trace, model


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
        pace, rule = parameters.tokens_per_forward, ""
        if pace > parameters.block:
            rule = f"a forward finishes at most one block of {parameters.block}"
        if pace < LEAST_TOKENS_PER_FORWARD:
            rule = f"must be at least {LEAST_TOKENS_PER_FORWARD}"
        if rule:
            findings.add("decode.tokens_per_forward", f"{rule}, got {pace}")


def helpers_of(model: ModelSpec | None, parameters: Any, findings: Findings) -> dict[str, Any]:  # noqa: ANN401 (of the policy)
    """The drafter or adapter that the policy needs from the model."""
    if model is None or parameters is None:
        return {}
    uses = decoding.policy(parameters.policy).USES
    found: dict[str, Any] = {}
    if uses.drafter is not None:
        found["drafter"] = model.drafters.get(uses.drafter)
        if found["drafter"] is None:
            what = f"{parameters.policy} needs it, and model {model.name} lacks it;"
            findings.add(
                "decode.policy", f"{what} {known(uses.drafter, model.drafters, 'drafter')}"
            )
    if uses.adapter:
        found["adapter"] = next(iter(model.adapters.values()), None)
        if found["adapter"] is None:
            findings.add(
                "decode.policy",
                f"{parameters.policy} needs a model with an adapter; {model.name} has none",
            )
    return found


def check_split(model: ModelSpec, parts: dict[str, Any], findings: Findings) -> None:
    """Tensor parallelism divides heads and widths evenly; few KV heads are replicated."""
    tp = parts.get("parallel", Parallel()).tp
    for group in model.layers:
        attention, experts = group.attention, group.experts
        sizes = {
            "query heads": attention.query_heads,
            "feed-forward width": group.ffn or tp,
            "expert width": experts.ffn if experts else tp,
        }
        if max(tp, attention.kv_heads) % min(tp, attention.kv_heads):
            sizes["KV heads"] = attention.kv_heads
        for name, size in sizes.items():
            if size % tp:
                rule = f"must divide the {size} {name} of {model.name}"
                findings.add("parallel.tp", f"{rule}, got {tp}")


def check_lengths(model: ModelSpec, parts: dict[str, Any], findings: Findings) -> None:
    """Prompt and output must lie within the model's context."""
    workload = parts.get("workload")
    if workload is not None and workload.longest_tokens > model.max_context_tokens:
        findings.add(
            "workload",
            f"prompt and output are {workload.longest_tokens} tokens; "
            f"{model.name} has a context of {model.max_context_tokens}",
        )


def check_hardware(
    hardware: HardwareProfile,
    model: ModelSpec | None,
    parts: dict[str, Any],
    findings: Findings,
) -> None:
    """The profile must have the curves that the scenario needs."""
    tp = parts.get("parallel", Parallel()).tp
    all_reduce = hardware.kernels.all_reduce
    ranks = sorted(all_reduce.by_ranks) if all_reduce else []
    if tp > 1 and tp not in ranks:
        sizes = ", ".join(map(str, ranks)) or "none"
        findings.add(
            "parallel.tp", f"{hardware.name} has all-reduce measurements for {sizes} GPUs, got {tp}"
        )
    precision = parts.get("precision", Precision())
    for kernel, dtype in _needed_curves(precision, model):
        curves = getattr(hardware.kernels, kernel)
        if dtype not in curves:
            known_types = ", ".join(curves) or "none at all"
            findings.add(
                "precision.weights",
                f"{hardware.name} has no {dtype} {kernel} cost curve; it has {known_types}",
            )


def _needed_curves(precision: Precision, model: ModelSpec | None) -> list[tuple[str, str]]:
    """(kernel, data type) of every curve that a pass needs."""
    computed = precision.computed
    kernels = [("gemm", precision.weights), ("gemm", computed), ("lm_head", computed)]
    kernels += [("attention_extend", computed), ("attention_prefill", computed)]
    if model is not None and any(group.experts for group in model.layers):
        kernels.append(("moe", precision.weights))
    return list(dict.fromkeys(kernels))

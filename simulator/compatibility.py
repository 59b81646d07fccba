"""Compatibility: whether the parts of a scenario go together; every mistake is noted."""

from dataclasses import replace
from typing import Any

from hwprofiles import HardwareProfile
from simulator import batching, decoding, workloads
from simulator.blocks import BlockParameters
from simulator.documents import DocumentError, known
from simulator.engine_profile import EngineProfile
from simulator.model import ModelSpec
from simulator.ops import Precision
from simulator.scenario import Findings, Parallel


def check_batch_sharing(
    parts: dict[str, Any], engine: EngineProfile | None, findings: Findings
) -> None:
    """Requests that share a window begin together and nobody joins them."""
    if not getattr(parts.get("decode"), "shares_batch", False) or engine is None:
        return
    mode = getattr(parts.get("batching"), "mode", None) or engine.batching
    if mode in batching.names() and not batching.batching(mode).BEGINS_TOGETHER:
        together = [n for n in batching.names() if batching.batching(n).BEGINS_TOGETHER]
        rule = f"synchronous decoding needs a batch that begins together: {', '.join(together)}"
        findings.add("batching.mode", f"{rule}; got {mode}")
    if parts["decode"].trace is None:
        rule = "how a batch waits for its slowest row is only known from a trace; name one in"
        findings.add("decode.batching", f"{rule} decode.trace")


def served(engine: EngineProfile, parts: dict[str, Any], findings: Findings) -> EngineProfile:
    """*engine* with what the scenario sets otherwise, as far as that goes together."""
    choice = parts.get("serving")
    if choice is None:
        return engine
    changes = choice.changes
    chunk = changes.get("prefill_chunk_tokens")
    if chunk == "whole":
        changes["prefill_chunk_tokens"] = None
    if chunk == "block":
        changes["prefill_chunk_tokens"] = getattr(parts.get("decode"), "block", None)
        if not isinstance(parts.get("decode"), BlockParameters):
            rule = "a block at a time goes with block diffusion"
            findings.add("serving.prefill_chunk_tokens", f"{rule}; give a number of tokens")
    changed = replace(engine, **changes)
    policy = getattr(parts.get("decode"), "policy", None)
    if policy and decoding.policy(policy).USES.drafter and changed.prefill_order == "mixed":
        # A drafter takes the prompt's features in by a pass of its own.
        changed = replace(changed, prefill_order="interleaved")
    mode = getattr(parts.get("batching"), "mode", None) or engine.batching
    if getattr(parts.get("decode"), "shares_batch", False):
        # Whoever shares a window cannot be set back alone.
        changed = replace(changed, kv_admission="finished")
    if changed.kv_layout == "dense" and changed.kv_admission == "growing":
        rule = "a dense cache is granted whole"
        findings.add("serving.kv_admission", f"{rule}, so finished; got growing")
    waits = mode in batching.names() and batching.batching(mode).WAITS_FOR_BLOCKS
    if waits and changed.prefill_order == "mixed":
        rule = f"batching {mode} takes whole rounds, into which no prompt goes"
        findings.add("serving.prefill_order", f"{rule}: first or interleaved; got mixed")
    return changed


def survey_load(parts: dict[str, Any], findings: Findings) -> None:
    """Let a load that reads files look at them, so that what is in them is known."""
    workload = parts.get("workload")
    prepared = workload and getattr(workloads.workload(workload.kind), "prepared", None)
    if prepared:
        try:
            parts["workload"] = prepared(workload)
        except DocumentError as error:
            findings.mistakes += error.mistakes
            parts["workload"] = None


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
    if workload is None or not workload.is_closed:
        # Of an open load, whoever is too long is rejected by itself.
        return
    if workload.longest_tokens > model.max_context_tokens:
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

"""Deployment: a scenario with its names resolved and checked against each other."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from hwprofiles import HardwareProfile
from simulator import batching, decoding, library
from simulator.blocks import BlockParameters
from simulator.capacity import GIGABYTE, MemoryPlan, memory_plan, sequence_bytes, weight_bytes
from simulator.compatibility import (
    check_batch_sharing,
    check_hardware,
    check_lengths,
    check_split,
    helpers_of,
    served,
    survey_load,
)
from simulator.decode_trace import acceptance_of, captured_blocks, check_pace, fill_in_lengths
from simulator.documents import DocumentError
from simulator.engine_profile import EngineProfile
from simulator.model import Adapter, Drafter, ModelSpec, Stack
from simulator.ops import Placement
from simulator.pace import ConstantPace, Pace
from simulator.replay.block_pace import BlockPace
from simulator.replay.captured_defaults import with_captured
from simulator.replay.iteration_pace import IterationPace
from simulator.request import Request
from simulator.scenario import Findings, Scenario, read
from simulator.schedule import LOGITS, Schedule, dense_cache
from simulator.speculation import ChainParameters, pace_of
from simulator.workloads import captured as captured_workload
from traces.acceptance import AcceptanceModel
from traces.block_trace import BlockTrace
from traces.iteration_trace import IterationTrace
from traces.manifest import Manifest


@dataclass(frozen=True)
class Deployment:
    """Everything a run needs: shapes, cost curves, overheads, policy and pace."""

    scenario: Scenario
    model: ModelSpec
    hardware: HardwareProfile
    engine: EngineProfile
    policy: decoding.Policy
    pace: Pace | BlockPace
    adapter: Adapter | None = None
    drafter: Drafter | None = None
    trace: Manifest | None = None
    acceptance: AcceptanceModel | None = None

    @property
    def placement(self) -> Placement:
        """How the model lies on the GPUs."""
        return Placement(
            tensor_parallel=self.scenario.parallel.tp,
            precision=self.scenario.precision,
            routing=self.scenario.routing,
            sharded_lm_head=self.engine.lm_head == "sharded",
            kv_traffic_factor=self.engine.kv_traffic_factor,
        )

    @property
    def batching(self) -> batching.Batching:
        """The batching policy in force."""
        return batching.batching(self.scenario.batching.mode or self.engine.batching)

    @property
    def max_batch(self) -> int:
        """Most requests in a batch."""
        return self.scenario.batching.max_batch or self.engine.max_batch

    @property
    def most_together(self) -> int:
        """Most requests that are ever in a batch.

        Of an open load, as many of middle length as fit: nothing else limits how many come.
        """
        workload = self.scenario.workload
        together = min(self.max_batch, int(workload.most_together))
        if workload.is_closed:
            return together
        return max(1, min(together, self.largest_batch(self.example.total_tokens)))

    @property
    def example(self) -> Request:
        """A request of middle length, within the model's context: what is longer is rejected."""
        example: Request = self.scenario.workload.example
        most = self.model.max_context_tokens
        if example.total_tokens <= most:
            return example
        prompt = max(1, min(example.prompt_tokens, most - 1))
        return replace(example, prompt_tokens=prompt, output_tokens=most - prompt)

    @property
    def kv_capacity_bytes(self) -> float:
        """What a replica has for its cache, per GPU."""
        return self.memory(self.most_together).kv_capacity_bytes

    @property
    def replicas(self) -> int:
        """Replicas in all, those that only fill prompts included."""
        split = self.scenario.disaggregation
        return self.scenario.parallel.dp + (split.prefill_replicas if split else 0)

    @property
    def gpus(self) -> int:
        """GPUs of all replicas."""
        return self.replicas * self.scenario.parallel.tp

    def stack(self, name: str) -> Stack:
        """The model, or its drafter."""
        return self.model if name == "target" or self.drafter is None else self.drafter

    def schedules(self, requests: Sequence[Request]) -> list[Schedule]:
        """What *requests*, which join the batch together, do step by step."""
        if isinstance(self.pace, BlockPace):
            made = self.pace.schedules(requests)
        else:
            setting = decoding.Setting(self.pace, self.engine)
            decode = self.scenario.decode
            made = [self.policy.schedule(request, decode, setting) for request in requests]
        if self.engine.kv_layout == "dense":
            lengths = [self.engine.paged_tokens(request.total_tokens) for request in requests]
            made = [dense_cache(*pair) for pair in zip(made, lengths, strict=True)]
        return made

    def schedule(self, request: Request) -> Schedule:
        """What *request* does by itself."""
        return self.schedules([request])[0]

    def sequence_bytes(self, tokens: npt.ArrayLike) -> Any:  # noqa: ANN401 (of the shape of *tokens*)
        """Cache bytes per GPU of a sequence, in whole pages."""
        paged = self.engine.paged_tokens(tokens)
        return sequence_bytes(paged, self.model, self.placement, self.drafter)

    def held_bytes(self, tokens: npt.ArrayLike) -> Any:  # noqa: ANN401 (of the shape of *tokens*)
        """Whole bytes per GPU of a sequence that has *tokens* in its cache, in whole pages."""
        return np.ceil(self.sequence_bytes(tokens))

    def transfer_s(self, tokens: int) -> float:
        """Time to send the cache of *tokens* to another replica, each GPU its own share."""
        split = self.scenario.disaggregation
        if split is None:
            return 0.0
        return split.link_latency_s + float(self.held_bytes(tokens)) / split.link_bytes_per_s

    def memory(self, rows: int) -> MemoryPlan:
        """Memory with workspace for a batch of *rows*."""
        weights = weight_bytes(self.model, self.placement, self.adapter, self.drafter)
        return memory_plan(
            self.hardware,
            self.engine,
            weights,
            model=self.model,
            precision=self.placement.precision,
            logit_rows=rows * self.logit_rows_per_request,
        )

    @property
    def logit_rows_per_request(self) -> int:
        """Most LM-head rows of a request in one pass."""
        probe = self.schedule(Request(0, 1, 2 * getattr(self.scenario.decode, "block", 1) + 2))
        return int(probe.loads[:, LOGITS].max(initial=1))

    def largest_batch(self, tokens: int) -> int:
        """Most sequences of *tokens* whose cache fits beside weights and workspace; may be 0."""
        one = self.sequence_bytes(tokens)
        low, high = 0, max(1, int(self.hardware.memory_bytes / one) + 1)
        while high - low > 1:
            middle = (low + high) // 2
            fits = middle * one <= self.memory(middle).kv_capacity_bytes
            low, high = (middle, high) if fits else (low, middle)
        return low


def build(document: Mapping[str, Any], origin: str) -> Deployment:
    """Resolve and check a scenario document; raises DocumentError with every mistake in it."""
    findings = Findings(origin)
    parts = read(with_captured(document), findings)
    model = _named(library.MODELS, parts, "model", findings)
    hardware = _named(library.HARDWARE, parts, "hardware", findings)
    engine = _named(
        library.ENGINES, parts | {"engine": parts.get("engine", library.IDEAL)}, "engine", findings
    )
    if hardware is not None:
        check_hardware(hardware, model, parts, findings)
    engine = engine and served(engine, parts, findings)
    trace, acceptance, iterations = acceptance_of(parts.get("decode"), findings)
    check_pace(parts.get("decode"), findings)
    blocks = captured_blocks(parts.get("decode"), findings)
    check_batch_sharing(parts, engine, findings)
    fill_in_lengths(parts, iterations or blocks, findings)
    survey_load(parts, findings)
    if model is not None:
        check_split(model, parts, findings)
        check_lengths(model, parts, findings)
    helpers = helpers_of(model, parts.get("decode"), findings)
    findings.stop()
    scenario = Scenario(**parts)
    deployment = Deployment(
        scenario=scenario,
        model=model,
        hardware=hardware,
        engine=engine,
        policy=decoding.policy(scenario.decode.policy),
        pace=_pace(scenario, engine, acceptance, iterations or blocks),
        trace=trace,
        acceptance=acceptance,
        **helpers,
    )
    _check_memory(deployment, findings)
    findings.stop()
    return deployment


def _named(shelf: library.Shelf, parts: dict[str, Any], field: str, findings: Findings) -> Any:  # noqa: ANN401 (of the shelf)
    if parts.get(field) is None:
        return None
    try:
        return shelf.get(parts[field])
    except DocumentError as error:
        findings.extend(field, error)
        return None


def _pace(
    scenario: Scenario,
    engine: EngineProfile,
    acceptance: AcceptanceModel | None,
    captured: IterationTrace | BlockTrace | None,
) -> Pace | BlockPace:
    decode, repeats = scenario.decode, scenario.workload.kind == captured_workload.KIND
    if isinstance(captured, BlockTrace):
        together = scenario.batching.max_batch or engine.max_batch, scenario.workload.most_together
        stored = _with_store(decode, engine)
        return BlockPace(captured, decode.policy, stored, repeats, min(together))
    if isinstance(decode, ChainParameters):
        return pace_of(decode, acceptance, captured, repeats=repeats)
    if isinstance(decode, BlockParameters):
        return decode.pace
    if captured is not None:
        return IterationPace(captured, captured.manifest.block_tokens, repeats)
    return ConstantPace(1.0)


def _with_store(decode: Any, engine: EngineProfile) -> Any:  # noqa: ANN401 (of the policy)
    """*decode*, KV stored as the engine does where it does not say."""
    if getattr(decode, "store", "") is not None:
        return decode
    return replace(decode, store="fused" if engine.kv_store == "fused" else "separate")


def _check_memory(deployment: Deployment, findings: Findings) -> None:
    """Weights and the whole batch's cache must fit; says what would."""
    workload = deployment.scenario.workload
    # Of an open load, whoever does not fit is rejected by itself; somebody must.
    tokens = workload.longest_tokens if workload.is_closed else 1
    rows = deployment.most_together if workload.is_closed else 1
    largest = deployment.largest_batch(tokens)
    if rows <= largest:
        return
    plan = deployment.memory(1)
    where = f"{deployment.hardware.name} with tp {deployment.scenario.parallel.tp}"
    left = max(0.0, plan.kv_capacity_bytes) / GIGABYTE
    budget = (
        f"{plan.weight_bytes / GIGABYTE:.1f} GB of weights and "
        f"{plan.workspace_bytes / GIGABYTE:.1f} GB of workspace leave {left:.1f} of "
        f"{plan.usable_bytes / GIGABYTE:.1f} GB for KV cache"
    )
    if largest == 0:
        what = f"model {deployment.model.name} does not fit on {where}: {budget}, and one"
        need = deployment.sequence_bytes(tokens) / GIGABYTE
        findings.add("model", f"{what} sequence of {tokens} tokens needs {need:.2f} GB")
        return
    need = rows * deployment.sequence_bytes(tokens) / GIGABYTE
    findings.add(
        "workload.concurrency",
        f"does not fit: a batch of {rows} sequences of {tokens} tokens needs {need:.1f} GB of KV "
        f"cache on {where}; {budget}; the largest batch is {largest}",
    )

"""Deployment: a scenario with its names resolved and checked against each other."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hwprofiles import HardwareProfile
from simulator import batching, decoding, library
from simulator.blocks import BlockParameters
from simulator.capacity import GIGABYTE, MemoryPlan, memory_plan, sequence_bytes, weight_bytes
from simulator.documents import DocumentError, known
from simulator.engine_profile import EngineProfile
from simulator.model import Adapter, Drafter, ModelSpec, Stack
from simulator.ops import Placement
from simulator.pace import ConstantPace, Pace
from simulator.request import Request
from simulator.scenario import Findings, Parallel, Scenario, read
from simulator.schedule import LOGITS, Schedule, dense_cache
from simulator.speculation import ChainParameters, pace_of
from traces.acceptance import AcceptanceModel, acceptance_model
from traces.manifest import Manifest

# Far below any decoder; a schedule has a column per forward, so it must not grow without bound.
LEAST_TOKENS_PER_FORWARD = 0.01


@dataclass(frozen=True)
class Deployment:
    """Everything a run needs: shapes, cost curves, overheads, policy and pace."""

    scenario: Scenario
    model: ModelSpec
    hardware: HardwareProfile
    engine: EngineProfile
    policy: decoding.Policy
    pace: Pace
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
        """Most requests that are ever in the batch."""
        together: int = self.scenario.workload.most_together
        return min(self.max_batch, together)

    def stack(self, name: str) -> Stack:
        """The model, or its drafter."""
        return self.model if name == "target" or self.drafter is None else self.drafter

    def schedule(self, request: Request) -> Schedule:
        """What *request* does, step by step."""
        setting = decoding.Setting(self.pace, self.engine)
        schedule = self.policy.schedule(request, self.scenario.decode, setting)
        if self.engine.kv_layout == "dense":
            return dense_cache(schedule, self.engine.paged_tokens(request.total_tokens))
        return schedule

    def sequence_bytes(self, tokens: int) -> float:
        """Cache bytes per GPU of a finished sequence, in whole pages."""
        paged = self.engine.paged_tokens(tokens)
        return sequence_bytes(paged, self.model, self.placement, self.drafter)

    def memory(self, rows: int) -> MemoryPlan:
        """Memory with workspace for a batch of *rows*."""
        weights = weight_bytes(self.model, self.placement, self.adapter, self.drafter)
        return memory_plan(
            self.hardware,
            self.engine,
            weights,
            model=self.model,
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
    parts = read(document, findings)
    model = _named(library.MODELS, parts, "model", findings)
    hardware = _named(library.HARDWARE, parts, "hardware", findings)
    engine = _named(
        library.ENGINES, parts | {"engine": parts.get("engine", library.IDEAL)}, "engine", findings
    )
    if model is not None:
        _check_split(model, parts, findings)
        _check_lengths(model, parts, findings)
    if hardware is not None:
        _check_hardware(hardware, parts, findings)
    trace, acceptance = _acceptance(parts.get("decode"), findings)
    _check_pace(parts.get("decode"), findings)
    helpers = _helpers(model, parts.get("decode"), findings)
    findings.stop()
    scenario = Scenario(**parts)
    deployment = Deployment(
        scenario=scenario,
        model=model,
        hardware=hardware,
        engine=engine,
        policy=decoding.policy(scenario.decode.policy),
        pace=_pace(scenario.decode, acceptance),
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


def _acceptance(
    parameters: object, findings: Findings
) -> tuple[Manifest | None, AcceptanceModel | None]:
    """The acceptance trace that the decode section names, if it names one."""
    if not isinstance(parameters, ChainParameters) or parameters.trace is None:
        return None, None
    try:
        trace: Manifest = library.TRACES.get(parameters.trace)
    except DocumentError as error:
        findings.extend("decode.trace", error)
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


def _check_pace(parameters: object, findings: Findings) -> None:
    """The constants must be ones that the policy can reach."""
    if isinstance(parameters, ChainParameters):
        constant = parameters.tokens_per_step
        if (constant is None) == (parameters.trace is None):
            what = "give one of decode.tokens_per_step and decode.trace"
            findings.add("decode", f"{what}; known traces: {', '.join(library.TRACES.names())}")
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


def _pace(parameters: object, acceptance: AcceptanceModel | None) -> Pace:
    if isinstance(parameters, ChainParameters):
        return pace_of(parameters, acceptance)
    if isinstance(parameters, BlockParameters):
        return parameters.pace
    return ConstantPace(1.0)


def _helpers(model: ModelSpec | None, parameters: Any, findings: Findings) -> dict[str, Any]:  # noqa: ANN401 (of the policy)
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


def _check_split(model: ModelSpec, parts: dict[str, Any], findings: Findings) -> None:
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


def _check_lengths(model: ModelSpec, parts: dict[str, Any], findings: Findings) -> None:
    workload = parts.get("workload")
    if workload is not None and workload.longest_tokens > model.max_context_tokens:
        findings.add(
            "workload",
            f"prompt and output are {workload.longest_tokens} tokens; "
            f"{model.name} has a context of {model.max_context_tokens}",
        )


def _check_hardware(hardware: HardwareProfile, parts: dict[str, Any], findings: Findings) -> None:
    """The profile must have the curves that the scenario needs."""
    tp = parts.get("parallel", Parallel()).tp
    all_reduce = hardware.kernels.all_reduce
    ranks = sorted(all_reduce.by_ranks) if all_reduce else []
    if tp > 1 and tp not in ranks:
        sizes = ", ".join(map(str, ranks)) or "none"
        findings.add(
            "parallel.tp", f"{hardware.name} has all-reduce measurements for {sizes} GPUs, got {tp}"
        )
    precision = parts.get("precision")
    if precision is not None and precision.weights not in hardware.kernels.gemm:
        findings.add(
            "precision.weights", f"{hardware.name} has no {precision.weights} GEMM cost curve"
        )


def _check_memory(deployment: Deployment, findings: Findings) -> None:
    """Weights and the whole batch's cache must fit; says what would."""
    tokens = deployment.scenario.workload.longest_tokens
    rows, largest = deployment.most_together, deployment.largest_batch(tokens)
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

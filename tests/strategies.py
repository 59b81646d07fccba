"""What tests draw and build: scenarios that fit each policy, requests, and runs of them."""

import dataclasses
import functools
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
import simpy
from hypothesis import strategies as st
from pydantic import TypeAdapter

from simulator import batching, decoding, documents, library
from simulator.arrivals import submit_on_arrival
from simulator.decode_trace import acceptance_traces
from simulator.deployment import Deployment, build
from simulator.engine import Cluster, simulate, stepping_of
from simulator.kvcache import KvLedger
from simulator.records import RunRecords
from simulator.replica import Replica
from simulator.request import Request

POLICIES = decoding.names()
BATCHINGS = batching.names()
ENGINES = library.ENGINES.names()

DENSE_MODEL, EXPERT_MODEL = "qwen3-8b", "llada2-mini"
HARDWARE = "h200-sxm"


# One in which every policy meets the ideal engine, and every engine a few policies.
POLICIES_ON_ENGINES = [(policy, "ideal") for policy in POLICIES] + [
    (policy, engine)
    for engine in ENGINES
    for policy in ("ar", "eagle3-linear", "single-block")
    if engine != "ideal"
]

_read_once = functools.cache(library.Shelf.get)
_prepared_once = functools.cache(TypeAdapter)


@contextmanager
def files_read_once() -> Iterator[None]:
    """Inside, each shipped file is parsed and each schema prepared once.

    Building a scenario is mostly that, and the laws build hundreds.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(library.Shelf, "get", _read_once)
        patch.setattr(documents, "TypeAdapter", _prepared_once)
        yield


def parameter_names(policy: str) -> set[str]:
    """The fields of a policy's Parameters."""
    return {f.name for f in dataclasses.fields(decoding.policy(policy).Parameters)}


@functools.cache
def fitting_model(policy: str) -> str:
    """A shipped model with whatever the policy uses; experts where the policy needs nothing."""
    uses = decoding.policy(policy).USES
    if uses.drafter is None and not uses.adapter:
        return EXPERT_MODEL if "tokens_per_forward" in parameter_names(policy) else DENSE_MODEL
    for name in library.MODELS.names():
        model = library.MODELS.get(name)
        if (uses.drafter is None or uses.drafter in model.drafters) and (
            not uses.adapter or model.adapters
        ):
            return name
    message = f"no shipped model has what {policy} uses: {uses}"
    raise LookupError(message)


def fitting_decode(policy: str, **changes: Any) -> dict[str, Any]:
    """A decode section for *policy* with what it requires filled in."""
    given: dict[str, Any] = {"policy": policy}
    if decoding.policy(policy).USES.acceptance and "trace" not in changes:
        given["tokens_per_step"] = 2.5
    if "tokens_per_forward" in parameter_names(policy):
        given["tokens_per_forward"] = 3.0
        # Canvases are 256 by default, longer than what tests decode.
        given["block"] = 32
    return given | changes


@functools.cache
def fitting_trace(policy: str) -> str | None:
    """A shipped acceptance trace of *policy*, if it goes by acceptance and there is one."""
    if not decoding.policy(policy).USES.acceptance:
        return None
    return next(iter(acceptance_traces(policy)), None)


def document(policy: str, decode: dict[str, Any] | None = None, **workload: Any) -> dict[str, Any]:
    """A closed scenario on the ideal engine for *policy*."""
    lengths = {"concurrency": 3, "prompt_tokens": 40, "output_tokens": 24}
    return {
        "model": fitting_model(policy),
        "hardware": HARDWARE,
        "engine": "ideal",
        "decode": decode or fitting_decode(policy),
        "workload": {"kind": "closed"} | lengths | workload,
    }


def deployed(scenario: dict[str, Any], **changes: Any) -> Deployment:
    """The deployment of a scenario document with some top-level fields replaced."""
    return build(scenario | changes, "test")


@st.composite
def decodes(draw: st.DrawFn, policy: str) -> dict[str, Any]:
    """Any valid decode section of *policy* at a constant pace."""
    fields = parameter_names(policy)
    drawn: dict[str, Any] = {"policy": policy}
    if "block" in fields:
        drawn["block"] = draw(st.integers(2, 16), label="block")
    for name in sorted(fields & {"window", "buffer", "top_k"}):
        drawn[name] = draw(st.integers(1, 5), label=name)
    if "tree_size" in fields:
        # A tree holds at least one whole path.
        drawn["tree_size"] = drawn["block"] + draw(st.integers(0, 20), label="branches")
    if "tokens_per_forward" in fields:
        drawn["tokens_per_forward"] = draw(st.floats(0.4, float(drawn["block"])), label="pace")
    if "tokens_per_step" in fields:
        made = decoding.policy(policy).Parameters(**drawn, tokens_per_step=1.0)
        most = float(made.most_tokens_per_step)
        drawn["tokens_per_step"] = draw(st.floats(1.0, most), label="pace")
    return drawn


def fitting_serving(engine: str, mode: str) -> dict[str, Any]:
    """What *engine* must do otherwise in batching *mode*: no prompt goes into a round."""
    is_mixed = library.ENGINES.get(engine).prefill_order == "mixed"
    waits = batching.batching(mode).WAITS_FOR_BLOCKS
    return {"prefill_order": "interleaved"} if is_mixed and waits else {}


@st.composite
def scenarios(draw: st.DrawFn, policy: str) -> dict[str, Any]:
    """Any small closed scenario of *policy*, on any engine, in any batching mode."""
    scenario = document(
        policy,
        draw(decodes(policy)),
        concurrency=draw(st.integers(1, 5), label="concurrency"),
        requests=draw(st.integers(1, 8), label="requests"),
        prompt_tokens=draw(st.integers(1, 90), label="prompt_tokens"),
        output_tokens=draw(st.integers(1, 40), label="output_tokens"),
    )
    engine = draw(st.sampled_from(ENGINES), label="engine")
    mode = draw(st.sampled_from(BATCHINGS), label="mode")
    return scenario | {
        "engine": engine,
        "seed": draw(st.integers(0, 3), label="seed"),
        "parallel": {"tp": draw(st.sampled_from([1, 2]), label="tp")},
        "batching": {"mode": mode, "max_batch": draw(st.integers(1, 6), label="max_batch")},
        "serving": fitting_serving(engine, mode),
    }


@st.composite
def request_lists(draw: st.DrawFn) -> list[Request]:
    """Requests of any lengths; some arrive together, some in the middle of a step, some late."""
    arrivals = draw(
        st.lists(st.sampled_from([0.0, 0.0, 0.001, 0.0137, 0.08, 3.0]), min_size=1, max_size=6)
    )
    return [
        Request(
            index,
            prompt_tokens=draw(st.integers(1, 90)),
            output_tokens=draw(st.integers(1, 30)),
            arrival_s=arrival,
        )
        for index, arrival in enumerate(sorted(arrivals))
    ]


@st.composite
def servings(draw: st.DrawFn, policy: str, mode: str) -> dict[str, Any]:
    """Any way to prefill, to grant the cache and to pad, that goes with *policy* and *mode*."""
    orders, chunks = ["first", "interleaved"], ["whole", 7, 32]
    if not batching.batching(mode).WAITS_FOR_BLOCKS:
        orders.append("mixed")
    if "tokens_per_forward" in parameter_names(policy):
        chunks.append("block")
    return {
        "prefill_order": draw(st.sampled_from(orders), label="order"),
        "prefill_chunk_tokens": draw(st.sampled_from(chunks), label="chunk"),
        "prefill_batch_tokens": draw(st.sampled_from([24, 64, 4096]), label="budget"),
        "kv_page_tokens": draw(st.sampled_from([1, 8, 16]), label="page"),
        "kv_watermark": draw(st.sampled_from([0.0, 0.1]), label="watermark"),
        "kv_admission": draw(st.sampled_from(["finished", "growing"]), label="admission"),
        "prefix_caching": draw(st.booleans(), label="prefix_caching"),
        "graph_batches": draw(st.sampled_from([[], [1, 2, 4, 8]]), label="graphs"),
    }


@st.composite
def arriving_requests(draw: st.DrawFn, most: int = 9) -> list[Request]:
    """Requests that arrive at any time, some of them with the beginning of another's prompt."""
    times = st.floats(0.0, 0.2) | st.sampled_from([0.0, 0.05])
    arrivals = draw(st.lists(times, min_size=1, max_size=most), label="arrivals")
    prefixes = st.sampled_from([(), (1,), (1, 2), (1, 2, 3), (1, 4), (5, 6, 7, 8)])
    return [
        Request(
            index,
            prompt_tokens=draw(st.integers(1, 90), label="prompt"),
            output_tokens=draw(st.integers(1, 40), label="output"),
            arrival_s=arrival,
            prefix=draw(prefixes, label="prefix"),
            prefix_block_tokens=16,
        )
        for index, arrival in enumerate(sorted(arrivals))
    ]


def longest_bytes(deployment: Deployment, requests: Sequence[Request]) -> float:
    """Cache of the longest of *requests* when it is finished."""
    return max(float(deployment.held_bytes(request.total_tokens)) for request in requests)


@dataclass
class WatchedLedger(KvLedger):
    """A ledger that remembers what it was asked to do."""

    granted: list[int] = field(default_factory=list)
    freed: list[int] = field(default_factory=list)
    most_used_bytes: float = 0.0

    def allocate(self, request: int, n_bytes: float) -> None:
        """Grant, and note who and the most that was ever granted."""
        super().allocate(request, n_bytes)
        self.granted.append(request)
        self.most_used_bytes = max(self.most_used_bytes, self.used_bytes)

    def free(self, request: int) -> None:
        """Take back, and note who."""
        super().free(request)
        self.freed.append(request)


@dataclass(frozen=True)
class Played:
    """A run: what it was made of, and the replica that holds its records."""

    deployment: Deployment
    replica: Replica
    requests: Sequence[Request]
    ledger: KvLedger


def closed_requests(deployment: Deployment) -> list[Request]:
    """The requests that the closed workload of *deployment* asks for."""
    workload, seed = deployment.scenario.workload, deployment.scenario.seed
    lengths = (workload.prompt_tokens, workload.output_tokens)
    return [Request(index, *lengths, seed=seed) for index in range(workload.n_requests)]


def play(
    deployment: Deployment,
    requests: Sequence[Request],
    capacity_bytes: float | None = None,
    *,
    one_by_one: bool = False,
    is_open: bool = False,
    is_alone: bool = True,
) -> Played:
    """Submit *requests* when they arrive to a replica of *deployment*, and run until all is done.

    The cache holds *capacity_bytes*, or what the deployment leaves for it. Steps are taken
    *one_by_one* or in bulk; where the load *is_open* they go on past finishes, and where the
    replica *is_alone* it knows when the next request comes.
    """
    environment = simpy.Environment()
    if capacity_bytes is None:
        capacity_bytes = deployment.memory(len(requests)).kv_capacity_bytes
    ledger = WatchedLedger(capacity_bytes)
    stepping = stepping_of(deployment, one_by_one=one_by_one)
    replica = Replica(
        environment,
        deployment,
        ledger,
        stepping,
        RunRecords(),
        stops_at_finish=not is_open,
        runs_ahead=is_open,
        has_no_others=is_alone,
    )

    def user(request: Request) -> Generator[simpy.Event, Any, None]:
        yield environment.timeout(request.arrival_s)
        if is_open:
            replica.enqueue(request)
        else:
            yield replica.submit(request)

    for request in requests:
        environment.process(user(request))
    environment.run()
    return Played(deployment, replica, requests, ledger)


def simulated(deployment: Deployment) -> Played:
    """The closed run that *deployment* asks for, on its one replica."""
    (replica,) = simulate(deployment).replicas
    return Played(deployment, replica, closed_requests(deployment), replica.ledger)


@dataclass(frozen=True)
class RoomFor(Deployment):
    """A deployment whose replicas have a cache of *given_bytes*."""

    given_bytes: float = 0.0

    @property
    def kv_capacity_bytes(self) -> float:
        """What a replica has for its cache, per GPU."""
        return self.given_bytes


def with_capacity(deployment: Deployment, n_bytes: float) -> Deployment:
    """*deployment* with *n_bytes* of cache in every replica."""
    parts = {f.name: getattr(deployment, f.name) for f in dataclasses.fields(deployment)}
    return RoomFor(**parts, given_bytes=n_bytes)


@dataclass(frozen=True)
class Served:
    """A run of several replicas."""

    deployment: Deployment
    records: RunRecords
    replicas: tuple[Replica, ...]
    requests: Sequence[Request]

    @property
    def n_decoders(self) -> int:
        """Replicas that decode; those behind them only fill prompts."""
        return self.deployment.scenario.parallel.dp


def serve(
    deployment: Deployment,
    requests: Sequence[Request],
    *,
    one_by_one: bool = False,
) -> Served:
    """Submit *requests* when they arrive to the replicas of *deployment*; run until all is done."""
    records = RunRecords()
    cluster = Cluster(deployment, records, one_by_one=one_by_one)
    is_closed = deployment.scenario.workload.is_closed
    submit = cluster.submit if is_closed else cluster.enqueue
    submit_on_arrival(cluster.environment, iter(requests), submit)
    cluster.environment.run()
    return Served(deployment, records, cluster.replicas, requests)


def open_document(policy: str) -> dict[str, Any]:
    """A scenario of *policy* under an open load, in which requests wait for nobody's finish."""
    lengths = {"requests": 9, "prompt_tokens": 40, "output_tokens": 24}
    load = {"kind": "poisson", "rate_per_s": 50.0} | lengths
    return document(policy) | {"workload": load}


def scaled(value: Any, change: Callable[[str, float], float], name: str = "") -> Any:
    """A copy of nested dataclasses with every float field put through change(name, number)."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        parts = {f.name: getattr(value, f.name) for f in dataclasses.fields(value) if f.init}
        return type(value)(**{key: scaled(part, change, key) for key, part in parts.items()})
    if isinstance(value, dict):
        inside = {key: name if isinstance(key, int) else str(key) for key in value}
        return {key: scaled(part, change, inside[key]) for key, part in value.items()}
    if isinstance(value, list):
        return [scaled(part, change, name) for part in value]
    return change(name, value) if isinstance(value, float) else value

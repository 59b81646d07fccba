"""The engine: SimPy's clock, the workload, a router, and replicas that serve."""

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import simpy

from simulator import routers, workloads
from simulator.deployment import Deployment
from simulator.kvcache import KvLedger
from simulator.records import RunRecords
from simulator.replica import Replica
from simulator.request import Request
from simulator.row import Row
from simulator.step_cost import CostAccount
from simulator.stepping import Stepping
from simulator.stepping.in_bulk import InBulk
from simulator.stepping.in_rounds import InRounds
from simulator.stepping.one_by_one import OneByOne


@dataclass(frozen=True)
class Simulated:
    """A run that is over."""

    deployment: Deployment
    records: RunRecords
    replicas: tuple[Replica, ...]
    """Those that decode, then those that only fill prompts."""

    @property
    def account(self) -> CostAccount:
        """Where the time of all replicas went."""
        whole = CostAccount()
        for replica in self.replicas:
            whole.include(replica.account)
        return whole


class Cluster:
    """The replicas of a deployment, and who gets which request."""

    def __init__(
        self, deployment: Deployment, records: RunRecords, *, one_by_one: bool = False
    ) -> None:
        """Idle replicas at time 0; *one_by_one* steps them by the plain loop."""
        self.environment = simpy.Environment()
        self._deployment, self._records, self._one_by_one = deployment, records, one_by_one
        self._capacity_bytes = deployment.kv_capacity_bytes
        scenario = deployment.scenario
        self._router = routers.router(scenario.router)
        self._turns = {False: 0, True: 0}
        split = scenario.disaggregation
        self._decoders = [self._replica(index) for index in range(scenario.parallel.dp)]
        prefills = split.prefill_replicas if split else 0
        self._fillers = [self._replica(len(self._decoders) + each) for each in range(prefills)]
        for filler in self._fillers:
            filler.hand_over, filler.runs_ahead = self._link(filler), False

    @property
    def replicas(self) -> tuple[Replica, ...]:
        """Those that decode, then those that only fill prompts."""
        return (*self._decoders, *self._fillers)

    def _replica(self, index: int) -> Replica:
        deployment, scenario = self._deployment, self._deployment.scenario
        is_watched = scenario.parallel.dp > 1 and self._router.READS_LOADS
        return Replica(
            self.environment,
            deployment,
            KvLedger(self._capacity_bytes),
            stepping_of(deployment, one_by_one=self._one_by_one),
            self._records,
            index=index,
            stops_at_finish=scenario.workload.is_closed or is_watched,
            runs_ahead=not scenario.workload.is_closed,
            has_no_others=scenario.parallel.dp == 1 and scenario.disaggregation is None,
        )

    def submit(self, request: Request) -> simpy.Event:
        """Send *request* to a replica; the event happens when it is finished, or rejected."""
        return self._chosen(request, fills=bool(self._fillers)).submit(request)

    def enqueue(self, request: Request) -> None:
        """Send *request*, whose end nobody waits for, to a replica."""
        self._chosen(request, fills=bool(self._fillers)).enqueue(request)

    def _chosen(self, request: Request, *, fills: bool) -> Replica:
        among = self._fillers if fills else self._decoders
        if len(among) == 1:
            return among[0]
        turn, self._turns[fills] = self._turns[fills], self._turns[fills] + 1
        loads = (
            [replica.load for replica in among] if self._router.READS_LOADS else [0] * len(among)
        )
        return among[self._router.choose(loads, request, turn)]

    def _link(self, filler: Replica) -> Any:  # noqa: ANN401 (a function)
        """What takes filled rows of *filler* to a replica that decodes, one after the other."""
        link = simpy.Resource(self.environment)

        def send(row: Row) -> Generator[simpy.Event, Any, None]:
            with link.request() as turn:
                yield turn
                yield self.environment.timeout(self._deployment.transfer_s(row.goal_tokens))
            filler.release(row)
            self._chosen(row.request, fills=False).take(row)

        return lambda row: self.environment.process(send(row))


def stepping_of(deployment: Deployment, *, one_by_one: bool) -> Stepping:
    """How the rows of a replica are stepped."""
    if one_by_one:
        return OneByOne(deployment)
    return InRounds(deployment) if deployment.batching.WAITS_FOR_BLOCKS else InBulk(deployment)


def simulate(
    deployment: Deployment, *, one_by_one: bool = False, keep_steps: bool = True
) -> Simulated:
    """Run the scenario until every request is finished or rejected.

    Steps are taken many at once, or *one_by_one* by the plain loop that this must equal. Without
    *keep_steps* the records have no table of steps, which takes memory in long runs.
    """
    records = RunRecords(keep_steps=keep_steps)
    cluster = Cluster(deployment, records, one_by_one=one_by_one)
    parameters, seed = deployment.scenario.workload, deployment.scenario.seed
    submit = cluster.submit if parameters.is_closed else cluster.enqueue
    workloads.workload(parameters.kind).drive(cluster.environment, parameters, seed, submit)
    cluster.environment.run()
    left = sum(replica.load for replica in cluster.replicas)
    if left:
        message = f"{left} requests were never finished"
        raise RuntimeError(message)
    return Simulated(deployment, records, cluster.replicas)

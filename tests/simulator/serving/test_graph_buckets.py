"""CUDA-graph batch sizes: a batch pays for the next size that was recorded."""

import numpy as np
import pytest

from simulator.deployment import Deployment
from simulator.engine import simulate
from simulator.ops import Op
from simulator.request import Request
from simulator.step_cost import StepCost, price_steps
from tests.strategies import POLICIES, deployed, document, play

BUCKETS = {"graph_batches": [32, 64]}
NO_GRAPHS: dict[str, list[int]] = {"graph_batches": []}
PROMPT, OUTPUT = 64, 4


def served(policy: str, rows: int, serving: dict[str, list[int]]) -> Deployment:
    """As many equal requests at once as the batch holds."""
    scenario = document(
        policy, concurrency=rows, requests=rows, prompt_tokens=PROMPT, output_tokens=OUTPUT
    )
    return deployed(scenario, batching={"max_batch": rows}, serving=serving)


def first_step(deployment: Deployment, rows: int) -> StepCost:
    """The first decode step of *rows* equal requests, priced by itself."""
    schedule = deployment.schedule(Request(0, PROMPT, OUTPUT))
    loads = np.repeat(schedule.loads[:, :, None, :1], rows, axis=2)
    emitting = np.array([rows * float(schedule.emitted_tokens[0] > 0)])
    return price_steps(deployment, schedule.passes, loads, emitting_rows=emitting)


def is_of_the_cache(op: Op) -> bool:
    """Whether an operation reads or moves cache, of which padding has none."""
    return op.kernel.startswith("attention") or op.name == "kv compaction"


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(("rows", "paid"), [(32, 32), (33, 64), (64, 64), (65, 65)])
def test_a_batch_pays_the_products_of_its_bucket(policy: str, rows: int, paid: int) -> None:
    """33 rows take the products of 64 rows and the attention of 33; 65 have no graph."""
    exact = served(policy, rows, NO_GRAPHS)
    padded = first_step(served(policy, rows, BUCKETS), rows)
    own, full = first_step(exact, rows), first_step(exact, paid)

    expected = own.overhead_s[0]
    for mine, theirs in zip(own.parts, full.parts, strict=True):
        part = mine if is_of_the_cache(mine[1].op) else theirs
        expected += part[2] * part[1].seconds[0]
    assert padded.seconds[0] == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(("rows", "paid"), [(32, 32), (33, 64), (65, 65)])
def test_a_run_pays_for_its_buckets(rows: int, paid: int) -> None:
    """The first decode step of a run lasts as long as the priced one, padding included."""
    deployment = served("ar", rows, BUCKETS)

    decode = [step for step in simulate(deployment).records.steps if not step.prefill]

    assert decode[0].rows == rows
    assert decode[0].seconds == pytest.approx(first_step(deployment, rows).seconds[0], rel=1e-9)
    unpadded = first_step(served("ar", rows, NO_GRAPHS), rows).seconds[0]
    assert (decode[0].seconds > unpadded * (1 + 1e-6)) == (paid > rows)


def test_steps_with_prompts_in_them_have_no_graph() -> None:
    """A mixed step is as long with recorded batch sizes as without, a plain one is longer.

    Of two prompts of 40 tokens, a forward of 50 takes 40 and 10; the other 30 go with the first
    decode step of the first one.
    """
    serving = {"prefill_order": "mixed", "prefill_batch_tokens": 50}
    graphs, none = (
        play(
            deployed(document("ar"), serving=serving | {"graph_batches": sizes}),
            [Request(0, 40, 9), Request(1, 40, 9)],
        ).replica.records.steps
        for sizes in ([256], [])
    )

    assert [step.query_tokens for step in graphs][:4] == [50, 31, 2, 2]
    assert [step.seconds for step in graphs][:2] == [step.seconds for step in none][:2]
    assert graphs[2].seconds > 1.01 * none[2].seconds

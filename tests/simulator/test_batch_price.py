"""Steps priced from sums and maxima cost what `price_steps`, which looks at every row, says."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from simulator.batch_price import (
    EMITTED_TOKENS,
    EMITTING_ROWS,
    KV_BYTES,
    LIVE_ROWS,
    QUERY_TOKENS,
    ROWS,
    BatchPrice,
    Terms,
)
from simulator.deployment import Deployment
from simulator.engine_profile import EngineProfile, Overhead
from simulator.request import Request
from simulator.schedule import (
    ADAPTER,
    CONTEXT,
    FEATURES,
    LOGITS,
    MOVED,
    N_LOADS,
    QUERY,
    IntArray,
    Pass,
    Schedule,
)
from simulator.step_cost import CostAccount, StepCost, price_steps
from tests.strategies import ENGINES, POLICIES, deployed, document, files_read_once

# Sums in another order.
ROUNDING = 1e-12
OVERHEAD = Overhead(
    step_s=1e-3,
    host_pass_s=4e-3,
    pass_s=1e-4,
    eager_pass_s=2e-4,
    row_s=1e-5,
    logit_s=1e-11,
    emission_s=3e-5,
)
ROOT = Path(__file__).parents[2]
CPU = "xeon-amx-1-thread"


@pytest.fixture(scope="module", autouse=True)
def _files_are_read_once() -> Iterator[None]:
    with files_read_once():
        yield


def loads_of(
    draws: np.random.Generator, deployment: Deployment, shape: tuple[int, int, int]
) -> IntArray:
    """Random loads [passes, 6, rows, steps]: some rows absent, some loads absent altogether."""
    passes, rows, steps = shape
    size = (passes, rows, steps)
    loads = np.zeros((passes, N_LOADS, rows, steps), dtype=np.int64)
    queries = draws.integers(1, draws.choice([2, 40, 400]), size)
    loads[:, QUERY] = queries * (draws.random(size) < 0.8)
    loads[:, CONTEXT] = draws.integers(0, 6000, size)
    for which in (LOGITS, FEATURES, MOVED, ADAPTER):
        if which != ADAPTER or deployment.adapter is not None:
            some = draws.random((passes, 1, 1)) < 0.6
            loads[:, which] = draws.integers(0, 20, size) * some
    return loads


def schedule_of(deployment: Deployment) -> Schedule:
    """What some request does; its passes are those of all."""
    return deployment.schedule(Request(0, 200, 60))


def expected(
    deployment: Deployment,
    passes: tuple[Pass, ...],
    loads: IntArray,
    emitted: IntArray,
    **kwargs: Any,
) -> StepCost:
    """The definition."""
    emitting = (emitted > 0).sum(axis=0).astype(float) + kwargs.pop("emitting", 0)
    return price_steps(deployment, passes, loads, emitting_rows=emitting, **kwargs)


def assert_accounts_agree(found: CostAccount, cost: StepCost) -> None:
    """The same keys in the same order, and the same seconds to rounding."""
    account = CostAccount()
    account.add(cost, len(cost.seconds))
    assert found.total_s == pytest.approx(account.total_s, rel=ROUNDING)
    for field in ("seconds_by_op", "seconds_by_bound", "seconds_by_kernel"):
        made: dict[Any, float] = getattr(found, field)
        meant: dict[Any, float] = getattr(account, field)
        assert list(made) == list(meant)
        assert made == pytest.approx(meant, rel=ROUNDING, abs=ROUNDING * account.total_s)


def assert_prices_agree(price: BatchPrice, terms: Terms, cost: StepCost) -> None:
    """Seconds of every step, and where they go."""
    seconds = price.seconds(terms.sums, terms.maxima)
    assert seconds == pytest.approx(cost.seconds, rel=ROUNDING)
    account = CostAccount()
    price.account(account, terms.sums, terms.maxima)
    assert_accounts_agree(account, cost)


def changed(deployment: Deployment, **engine: Any) -> Deployment:
    """*deployment* on its engine with other fields."""
    fields = {name: getattr(deployment.engine, name) for name in vars(deployment.engine)}
    return Deployment(**(vars(deployment) | {"engine": EngineProfile(**(fields | engine))}))


@pytest.mark.parametrize("policy", POLICIES)
@settings(max_examples=6)
@given(
    engine=st.sampled_from(ENGINES),
    tp=st.sampled_from([1, 2]),
    rows=st.integers(1, 14),
    steps=st.integers(1, 6),
    prefill=st.booleans(),
    seed=st.integers(0, 2**32),
)
@example(engine="dinfer", tp=2, rows=5, steps=3, prefill=False, seed=0)
@example(engine="nano-vllm", tp=1, rows=3, steps=3, prefill=False, seed=1)
@example(engine="reference", tp=1, rows=4, steps=3, prefill=True, seed=2)
def test_steps_cost_what_their_rows_say(
    policy: str, engine: str, tp: int, rows: int, steps: int, *, prefill: bool, seed: int
) -> None:
    """On any engine, for any loads that rows of a policy's passes may have."""
    deployment = deployed(document(policy), engine=engine, parallel={"tp": tp})
    passes, draws = schedule_of(deployment).passes, np.random.default_rng(seed)
    loads = loads_of(draws, deployment, (len(passes), rows, steps))
    emitted = draws.integers(0, 3, (rows, steps))

    price = BatchPrice(deployment, passes, prefill=prefill)

    cost = expected(deployment, passes, loads, emitted, prefill=prefill)
    assert_prices_agree(price, price.terms(loads, emitted), cost)


@pytest.mark.parametrize("policy", ["ar", "eagle3-tree", "uno-linear", "dflash", "single-block"])
@pytest.mark.parametrize("engine", ["ideal", "reference", "vllm"])
def test_every_overhead_is_paid(policy: str, engine: str) -> None:
    """Per step, pass, row, LM-head row and emission, and what the host takes at least."""
    deployment = changed(deployed(document(policy), engine=engine), overhead=OVERHEAD)
    passes, draws = schedule_of(deployment).passes, np.random.default_rng(5)
    loads = loads_of(draws, deployment, (len(passes), 5, 8))
    emitted = draws.integers(0, 3, (5, 8))

    price = BatchPrice(deployment, passes)

    terms = price.terms(loads, emitted)
    assert_prices_agree(price, terms, expected(deployment, passes, loads, emitted))


@pytest.mark.parametrize("model", ["diffusiongemma-26b-a4b", "llama-3-70b", "sdar-8b"])
def test_windows_and_experts(model: str) -> None:
    """Layers of several kinds: windowed and whole attention, experts beside dense ones."""
    given_fields = {"policy": "block-entropy", "block": 32, "tokens_per_forward": 3.0}
    decode = given_fields if model.startswith("diffusion") else {"policy": "ar"}
    deployment = deployed(document("ar", decode), model=model, parallel={"tp": 2})
    passes, draws = schedule_of(deployment).passes, np.random.default_rng(6)
    loads = loads_of(draws, deployment, (len(passes), 6, 5))
    emitted = draws.integers(0, 3, (6, 5))

    for prefill in (False, True):
        price = BatchPrice(deployment, passes, prefill=prefill)
        cost = expected(deployment, passes, loads, emitted, prefill=prefill)
        assert_prices_agree(price, price.terms(loads, emitted), cost)


def test_tables_instead_of_closed_forms() -> None:
    """A measured CPU, whose attention is tabulated, is priced as well."""
    precision = {"weights": "fp32", "kv": "fp32"}
    model = str(ROOT / "examples" / "models" / "small-decoder.yaml")
    deployment = deployed(document("ar"), model=model, hardware=CPU, precision=precision)
    passes, draws = schedule_of(deployment).passes, np.random.default_rng(7)
    loads = loads_of(draws, deployment, (len(passes), 4, 6))
    emitted = draws.integers(0, 3, (4, 6))

    price = BatchPrice(deployment, passes)

    terms = price.terms(loads, emitted)
    assert_prices_agree(price, terms, expected(deployment, passes, loads, emitted))


@pytest.mark.parametrize("policy", POLICIES)
def test_rows_that_join_at_different_times_add_up(policy: str) -> None:
    """Terms of rows taken one by one, added up, price what the rows take together."""
    deployment = deployed(document(policy), engine="nano-vllm")
    passes = schedule_of(deployment).passes
    price = BatchPrice(deployment, passes)
    made = [deployment.schedule(Request(0, 30 + 97 * row, 40)) for row in range(5)]
    steps = min(schedule.n_steps - row for row, schedule in enumerate(made))
    loads = [schedule.loads[:, :, row : row + steps] for row, schedule in enumerate(made)]
    emitted = [s.emitted_tokens[row : row + steps] for row, s in enumerate(made)]

    terms = [price.terms(a[:, :, None], b[None]) for a, b in zip(loads, emitted, strict=True)]
    sums = np.sum([each.sums for each in terms], axis=0)
    maxima = np.max([each.maxima for each in terms], axis=0)

    together = np.stack(loads, axis=2)
    cost = expected(deployment, passes, together, np.stack(emitted))
    assert_prices_agree(price, Terms(sums, maxima), cost)


@pytest.mark.parametrize("engine", ["ideal", "reference", "dinfer"])
def test_the_first_sums_are_counts(engine: str) -> None:
    """Rows, those with queries, query tokens, tokens that come out, rows that emit; no cache."""
    deployment = deployed(document("uno-linear"), engine=engine)
    passes = schedule_of(deployment).passes
    loads = np.zeros((2, N_LOADS, 3, 2), dtype=np.int64)
    loads[:, QUERY, :, 0] = [[4, 0, 2], [5, 0, 0]]
    emitted = np.array([[3, 0], [0, 0], [1, 0]])

    price = BatchPrice(deployment, passes)
    sums = price.terms(loads, emitted).sums

    assert sums[ROWS].tolist() == [3, 3]
    assert sums[LIVE_ROWS].tolist() == [2, 0]
    assert sums[QUERY_TOKENS].tolist() == [11, 0]
    assert sums[EMITTED_TOKENS].tolist() == [4, 0]
    assert sums[EMITTING_ROWS].tolist() == [2, 0]
    assert sums[KV_BYTES].tolist() == [0, 0]
    assert price.terms(loads, None).sums[EMITTING_ROWS].tolist() == [0, 0]
    assert price.prompt_terms(loads, 2).sums[EMITTING_ROWS].tolist() == [2, 2]
    assert price.forwards == 2
    assert len(sums) == price.n_sums


def test_a_load_that_comes_late_is_paid() -> None:
    """Rows without some load are priced first; the first row with it costs what it must."""
    deployment = deployed(document("uno-tree"))
    passes, draws = schedule_of(deployment).passes, np.random.default_rng(8)
    loads = loads_of(draws, deployment, (len(passes), 3, 4))
    without = loads.copy()
    without[:, [LOGITS, ADAPTER, MOVED]] = 0
    price, emitted = BatchPrice(deployment, passes), np.zeros((3, 4), dtype=np.int64)

    for each in (without, loads, without):
        terms = price.terms(each, emitted)
        assert_prices_agree(price, terms, expected(deployment, passes, each, emitted))


@pytest.mark.parametrize("tokens", [1_023, 1_024, 5_000, 140_000])
@pytest.mark.parametrize("engine", ["ideal", "reference"])
def test_totals_of_any_size(tokens: int, engine: str) -> None:
    """Tables grow with the totals, and what is beyond any table is priced by itself."""
    deployment = deployed(document("ar"), engine=engine)
    passes = (Pass("prefill", np.zeros((N_LOADS, 1), dtype=np.int64)),)
    loads = np.zeros((1, N_LOADS, 2, 3), dtype=np.int64)
    loads[0, QUERY] = [[tokens, 7, 1], [1, 7, 0]]
    loads[0, LOGITS] = 1
    emitted = np.ones((2, 3), dtype=np.int64)

    price = BatchPrice(deployment, passes, prefill=True)

    cost = expected(deployment, passes, loads, emitted, prefill=True)
    for _ in range(2):
        assert_prices_agree(price, price.terms(loads, emitted), cost)


def test_many_fractions() -> None:
    """More padded totals than are remembered at once are priced all the same."""
    deployment = deployed(document("single-block"), engine="reference")
    passes, draws = schedule_of(deployment).passes, np.random.default_rng(9)
    loads = loads_of(draws, deployment, (len(passes), 3, 500))
    emitted = np.zeros((3, 500), dtype=np.int64)
    price = BatchPrice(deployment, passes)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("simulator.total_price.MOST_REMEMBERED", 40)
        for begin in range(0, 500, 50):
            part = slice(begin, begin + 50)
            terms = price.terms(loads[..., part], emitted[:, part])
            found = price.seconds(terms.sums, terms.maxima)
            cost = expected(deployment, passes, loads[..., part], emitted[:, part])
            assert found == pytest.approx(cost.seconds, rel=ROUNDING)


def test_long_runs_are_accounted_for_in_pieces() -> None:
    """More steps than are taken at once give the same account."""
    deployment = deployed(document("eagle3-linear"), engine="vllm")
    passes, draws = schedule_of(deployment).passes, np.random.default_rng(10)
    loads = loads_of(draws, deployment, (len(passes), 3, 40))
    emitted = draws.integers(0, 3, (3, 40))
    price = BatchPrice(deployment, passes)
    terms = price.terms(loads, emitted)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("simulator.batch_price.ACCOUNTED_STEPS", 7)
        assert_prices_agree(price, terms, expected(deployment, passes, loads, emitted))


def chunks_of(draws: np.random.Generator) -> IntArray:
    """Random chunks of prompts, [6, chunks]; the first has nothing left to do."""
    chunks = np.zeros((N_LOADS, 4), dtype=np.int64)
    chunks[QUERY] = [0, *draws.integers(1, 500, 3)]
    chunks[CONTEXT] = draws.integers(0, 3000, 4)
    chunks[LOGITS] = [0, 1, 0, 1]
    return chunks


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("engine", ["vllm", "reference", "dinfer"])
def test_mixed_steps_cost_what_their_rows_say(policy: str, engine: str) -> None:
    """Chunks of prompts beside rows that decode, on engines that pad and that copy."""
    deployment = changed(deployed(document(policy), engine=engine), overhead=OVERHEAD)
    passes, draws = schedule_of(deployment).passes, np.random.default_rng(11)
    loads = loads_of(draws, deployment, (len(passes), 5, 1))
    emitted, chunks = draws.integers(0, 3, (5, 1)), chunks_of(draws)
    price = BatchPrice(deployment, passes)
    terms = price.terms(loads, emitted)

    mixed = price.mixed_terms(terms.sums, terms.maxima, chunks, 2)

    cost = expected(deployment, passes, loads, emitted, chunks=chunks[..., None], emitting=2)
    assert_prices_agree(price, mixed, cost)
    found = price.seconds(mixed.sums, mixed.maxima)
    assert found == pytest.approx(cost.seconds, rel=ROUNDING)
    account = CostAccount()
    price.account(account, mixed.sums, mixed.maxima)
    assert_accounts_agree(account, cost)


def seconds_by_op(cost: StepCost) -> dict[str, float]:
    """Seconds of each operation of a one-step cost, launches counted."""
    found: dict[str, float] = {}
    for _, part, launches in cost.parts:
        found[part.op.name] = found.get(part.op.name, 0.0) + launches * float(part.seconds[0])
    return found


def test_a_mixed_step_shares_all_but_attention() -> None:
    """Products see all tokens at once; decode and prompts each have the attention they had."""
    deployment = deployed(document("ar"), engine="vllm")
    passes = schedule_of(deployment).passes
    rows = np.zeros((1, N_LOADS, 3, 1), dtype=np.int64)
    rows[0, [QUERY, CONTEXT, LOGITS], :, 0] = [[1, 1, 1], [500, 90, 2000], [1, 1, 1]]
    chunk = np.zeros((N_LOADS, 1, 1), dtype=np.int64)
    chunk[[QUERY, CONTEXT, LOGITS], 0, 0] = [300, 512, 1]
    none = np.zeros(1)

    mixed = price_steps(deployment, passes, rows, emitting_rows=none, chunks=chunk)

    decode = price_steps(deployment, passes, rows, emitting_rows=none)
    prompt = price_steps(deployment, passes, chunk[None], emitting_rows=none, prefill=True)
    everyone = np.concatenate([rows, chunk[None]], axis=2)
    together = price_steps(deployment, passes, everyone, emitting_rows=none, prefill=True)
    meant = seconds_by_op(together) | {
        "attention": seconds_by_op(decode)["attention"],
        "prefill attention": seconds_by_op(prompt)["attention"],
    }
    assert seconds_by_op(mixed) == pytest.approx(meant, rel=ROUNDING)
    assert float(mixed.seconds[0]) == pytest.approx(sum(meant.values()), rel=ROUNDING)


def test_chunks_go_through_the_last_pass_of_the_target() -> None:
    """Of a draft and its verification, the verification takes them; a drafter alone cannot."""
    deployment = deployed(document("uno-linear"), engine="vllm")
    passes, draws = schedule_of(deployment).passes, np.random.default_rng(12)
    loads = loads_of(draws, deployment, (2, 2, 1))
    chunks = chunks_of(draws)[..., None]

    cost = price_steps(deployment, passes, loads, emitting_rows=np.zeros(1), chunks=chunks)

    with_chunks = {name for name, part, _ in cost.parts if part.op.name == "prefill attention"}
    assert with_chunks == {"verify with prompts"}
    assert {name for name, *_ in cost.parts} == {"draft", "verify with prompts"}
    drafter = (Pass("draft", passes[0].loads, stack="eagle3"),)
    with pytest.raises(ValueError, match="prompts go through the target, got passes of"):
        price_steps(deployment, drafter, loads[:1], emitting_rows=np.zeros(1), chunks=chunks)


def test_a_drafter_may_take_in_a_prompt_by_itself() -> None:
    """Passes of a prefill need not be the target's: features of a prompt go to the drafter."""
    for policy in ("eagle3-linear", "dflash"):
        deployment = deployed(document(policy))
        stack = next(p.stack for p in schedule_of(deployment).passes if p.stack != "target")
        passes = (Pass("prefill", np.zeros((N_LOADS, 1), dtype=np.int64), stack=stack),)
        loads = np.zeros((1, N_LOADS, 2, 1), dtype=np.int64)
        loads[0, FEATURES, :, 0] = [70, 500]
        loads[0, QUERY, :, 0] = [70, 500] if stack == "eagle3" else 0
        emitted = np.zeros((2, 1), dtype=np.int64)

        price = BatchPrice(deployment, passes, prefill=True)

        cost = expected(deployment, passes, loads, emitted, prefill=True)
        assert_prices_agree(price, price.terms(loads, emitted), cost)

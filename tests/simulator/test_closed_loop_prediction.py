"""The predicting half of a closed loop: what goes in, what comes out, and what must not leak."""

import csv
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from simulator import library
from simulator.calibrate import write
from simulator.closed_loop import (
    ENGINE,
    FITTED,
    Folder,
    Run,
    closed_loop,
    compared,
    fit_overhead,
    measured_steps,
    model_document,
    write_rows,
)
from simulator.deployment import build
from simulator.documents import DocumentError
from simulator.engine import simulate
from simulator.engine_profile import Overhead
from tests.traces.tiny_iterations import TABLES, fields
from traces.writing import write_trace

HARDWARE = Path(library.HARDWARE.path("xeon-amx-1-thread"))
SHAPE: dict[str, Any] = {
    "hidden": 32,
    "vocab": 40,
    "layers": [
        {
            "count": 2,
            "query_heads": 2,
            "kv_heads": 1,
            "head_dim": 16,
            "ffn": 64,
            "experts": None,
            "window_tokens": None,
            "qk_norm": True,
            "shared_key_value": False,
        }
    ],
    "adapter_rank": 4,
    "tied": True,
}
FORWARDS = 12
"""Of the hand-made trace: two batches, each a prefill, then three and two iterations of two."""


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """The hand-made trace, every forward of which took a millisecond."""
    trace = tmp_path / "trace"
    trace.mkdir()
    write_trace(trace, fields(), TABLES)
    return Run(
        case="tiny",
        policy="uno-linear",
        settings={"block": 4},
        batch=2,
        is_empty=False,
        trace=trace,
        shape=SHAPE,
        context_tokens=64,
        batches_s=[[0.0, *[1e-3] * 7], [0.0, *[1e-3] * 5]],
        latency_s=[7e-3, 3e-3, 5e-3, 1e-3],
        whole_s=[12e-3, 15e-3],
    )


def with_overhead(run: Run, folder: Folder, overhead: Overhead) -> Run:
    """*run* as an empty one whose steps take what the simulator says with *overhead*."""
    deployment = build(folder.scenario(run, HARDWARE, ENGINE), "empty")
    deployment = replace(deployment, engine=replace(deployment.engine, overhead=overhead))
    steps = simulate(deployment).records.steps
    # A step of two forwards takes as long however it is cut in two.
    forwards = [step.seconds / step.forwards for step in steps for _ in range(step.forwards)]
    return replace(run, is_empty=True, batches_s=[[0.0, *forwards[:7]], [0.0, *forwards[7:]]])


def test_the_fit_gives_back_the_overhead_that_made_the_times(run: Run, tmp_path: Path) -> None:
    """Times that are kernels and a known overhead are explained by it, to its last digit.

    Every row of the trace emits in every step, so the two that are paid by row are told together.
    """
    folder = Folder(tmp_path)
    known = Overhead(pass_s=2e-3, row_s=3e-4, logit_s=5e-7, emission_s=1e-4)
    made = fit_overhead([with_overhead(run, folder, known)], HARDWARE, folder)

    found = [getattr(made.overhead, name) for name in FITTED]
    assert found[0] == pytest.approx(2e-3, rel=1e-3)
    assert found[1] + found[3] == pytest.approx(4e-4, rel=1e-3)
    assert found[2] == pytest.approx(5e-7, rel=1e-3)
    assert made.calibration is not None
    assert made.calibration.worst_residual < 1e-3


def test_measured_times_change_no_prediction(run: Run, tmp_path: Path) -> None:
    """A run that took ten times as long is predicted to the same digit."""
    folder = Folder(tmp_path)
    write(library.ENGINES.get(ENGINE), folder.engine(run.policy))
    slower = replace(
        run,
        batches_s=[[10 * seconds for seconds in batch] for batch in run.batches_s],
        latency_s=[10 * seconds for seconds in run.latency_s],
        whole_s=[1.0],
    )
    first, second = (compared(each, HARDWARE, folder) for each in (run, slower))

    assert first.predicted == second.predicted
    rates = [row.measured["output_tokens_per_s"] for row in (first, second)]
    assert rates[0] == pytest.approx(10 * rates[1])
    assert (1 + second.error) == pytest.approx(10 * (1 + first.error))


def test_measured_figures_by_hand(run: Run, tmp_path: Path) -> None:
    """22 tokens and three end tokens in twelve milliseconds; steps of two forwards."""
    folder = Folder(tmp_path)
    write(library.ENGINES.get(ENGINE), folder.engine(run.policy))
    row = compared(run, HARDWARE, folder)

    assert row.measured == pytest.approx(
        {"output_tokens_per_s": 25 / 12e-3, "step_latency_s": 2e-3, "latency_s": 4e-3}
    )
    assert all(value > 0 for value in row.predicted.values())
    assert row.spread == pytest.approx(0.25)
    assert row.kernel_share == pytest.approx(1.0)


def test_forwards_are_put_together_as_steps(run: Run, tmp_path: Path) -> None:
    """A prefill is a step of one forward, an iteration one of two, batch by batch."""
    replica = simulate(build(Folder(tmp_path).scenario(run, HARDWARE, ENGINE), "tiny"))
    odd = replace(run, batches_s=[[0.5, 1, 2, 3, 4, 5, 6, 7], [0.25, 1, 2, 3, 4, 5]])

    assert measured_steps(odd, replica).tolist() == [1.5, 5, 9, 13, 1.25, 5, 9]
    short = replace(run, batches_s=[[0.0, 1.0]])
    with pytest.raises(DocumentError, match="replayed in 12 forwards, decoded in 1"):
        measured_steps(short, replica)


def test_what_comes_out(run: Run, tmp_path: Path) -> None:
    """Rows of the real runs alone, their errors, and files that scenarios can name."""
    folder = Folder(tmp_path)
    empty = with_overhead(run, folder, Overhead(pass_s=1e-3))
    answer = closed_loop([empty, run], HARDWARE, HARDWARE, tmp_path)

    assert len(answer["rows"]) == 1
    error = answer["rows"][0]["error"]
    assert answer["median_error"] == answer["worst_error"] == pytest.approx(abs(error))
    assert answer["overheads"]["uno-linear"]["pass_s"] == pytest.approx(1e-3, rel=1e-3)
    assert library.ENGINES.get(str(folder.engine("uno-linear"))).batching == "draining"
    write_rows(answer["rows"], tmp_path / "rows.csv")
    with (tmp_path / "rows.csv").open(encoding="utf-8") as file:
        (line,) = csv.DictReader(file)
    assert line["policy"], line["parameters"] == ("uno-linear", "block=4")
    assert float(line["error"]) == error


def test_a_checkpoints_shape_as_a_model_file(tmp_path: Path) -> None:
    """The weights by hand: qkv, output, gate, up and down of two layers, and a tied vocabulary."""
    file = tmp_path / "model.yaml"
    file.write_text(yaml.safe_dump(model_document(SHAPE, 64)), encoding="utf-8")
    model = library.MODELS.get(str(file))

    layer = (32 + 16 + 16) * 32 + 32 * 32 + 3 * 32 * 64
    assert model.parameters == 2 * layer + 40 * 32
    adapter = 4 * ((32 + 32) + 2 * (16 + 32) + (32 + 32) + 3 * (32 + 64))
    assert model.adapter_parameters(model.adapters["own"]) == 2 * adapter
    assert np.isclose(model.max_context_tokens, 64)
    assert "adapters" not in model_document(SHAPE | {"adapter_rank": None}, 64)

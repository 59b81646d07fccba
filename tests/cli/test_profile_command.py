"""`blockcast profile`: from real kernels to a profile, through interrupts and wrong input."""

import importlib.util
import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

from simulator.library import HARDWARE
from tests.cli.command import INSTALLED, Answer, call

ROOT = Path(__file__).parents[2]
SMALL_DECODER = ROOT / "examples/models/small-decoder.yaml"
# One thread and warm operands: a quick answer, not a good one.
QUICK = ("--device", "cpu", "--threads", 1, "--memory", "20MB", "--working-set", "1MB")
OF_EACH = 24
"""Points of each kernel that the small grid has; a curve takes 20."""
NEEDED = ("gemm", "lm_head", "attention_extend", "attention_prefill", "elementwise", "moe")
without_torch = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None, reason="torch is not installed"
)


def profile(*arguments: object) -> Answer:
    """`blockcast profile` in this process, quick."""
    return call("profile", *QUICK, *arguments)


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The smallest points of each kernel in fp32, a few milliseconds each, and the first forms.

    Comparing forms takes most of the time of a fit.
    """
    torch = pytest.importorskip("torch")
    from hwprofiles.fitting import choice
    from kernels_ref.profiling import clock, measure, session

    whole: Callable[..., list[Any]] = session.grid

    def smallest(served: Any) -> list[Any]:
        ordered = sorted(whole(served), key=lambda point: (point.flop, point.bytes))
        kept = []
        for kernel in NEEDED:
            mine = [p for p in ordered if p.kernel == kernel and p.precision == "fp32"]
            # Some that move bytes give each row to one block and some do not.
            kept += [*mine[:OF_EACH], *(p for p in mine[OF_EACH:] if p.operation == "copy")]
        return kept

    monkeypatch.setattr(measure, "grid", smallest)
    monkeypatch.setattr(choice, "left_out_error", lambda *_: 0.0)
    monkeypatch.setattr(clock, "BLOCK_S", 1e-3)
    monkeypatch.setitem(measure.VISITS, "cpu", 1)
    monkeypatch.setattr(
        measure,
        "Clock",
        lambda device, threads, **_: clock.Clock(device, threads, least_s=1e-3, most_s=2e-3),
    )
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


def refused(answer: Answer, *words: str) -> None:
    """Exit 1, the words on standard error, nothing on standard output and no traceback."""
    assert answer.code == 1, answer
    assert answer.err.strip().startswith("blockcast: ")
    assert "Traceback" not in answer.err
    assert answer.out == ""
    for word in words:
        assert word in " ".join(answer.err.split())


@pytest.mark.usefixtures("hasty")
def test_a_profile_from_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measured, fitted and told; then more points; passes are compared and a scenario priced."""
    answer = profile("-o", "out", "--name", "mine", "--budget", "60s")
    assert answer.code == 0, answer.err
    assert "points measured now" in answer.out
    assert "fp32 attention_extend" in answer.out
    assert sorted(path.name for path in Path("out").iterdir()) == ["mine.parquet", "mine.yaml"]
    before = samples(Path("out/mine.parquet"))
    assert set(before["kernel"]) == set(NEEDED)
    made = HARDWARE.get("out/mine.yaml")
    assert made.environment is not None
    assert made.environment["threads"] == "1"
    assert (made.name, made.points) == ("mine", "mine.parquet")

    monkeypatch.setattr(sys.modules[__name__], "OF_EACH", OF_EACH + 4)
    again = profile("-o", "out", "--name", "mine", "--budget", "60s", "--json")
    assert again.code == 0, again.err
    told, after = json.loads(again.out), samples(Path("out/mine.parquet"))
    # Of bytes moved, the copies are all there already.
    assert told["measured"] + told["skipped"] >= 4 * (len(NEEDED) - 1)
    assert told["left"] == 0
    assert len(after) == len(before) + told["measured"] + told["skipped"]
    kept = after.loc[before.index, before.columns.to_list()]
    assert kept["seconds"].equals(before["seconds"])
    assert kept["status"].equals(before["status"])
    curves = {(curve["kernel"], curve["precision"]) for curve in told["kernels"]}
    assert {("gemm", "fp32"), ("elementwise", "")} <= curves
    assert (told["profile"], told["samples"]) == ("out/mine.yaml", "out/mine.parquet")
    compares_passes()
    prices_a_scenario()


def compares_passes() -> None:
    """Whole passes on the profile that is there: a table, JSON, and a type it has no curve for."""
    asked = ("-o", "out", "--name", "mine", "--passes", "--model", SMALL_DECODER, "--precision")
    answer = profile(*asked, "fp32", "--budget", "500ms")
    assert answer.code == 0, answer.err
    assert "Whole forward passes" in answer.out
    rows = json.loads(profile(*asked, "fp32", "--budget", "1ms", "--json").out)["passes"]
    assert rows
    for row in rows:
        assert row["model"] == "small-decoder"
        assert row["error"] == pytest.approx(row["predicted_s"] / row["measured_s"] - 1)
    refused(profile(*asked, "bf16", "--budget", "500ms"), "hardware profile mine has no bf16")


def prices_a_scenario() -> None:
    """The profile is one like the shipped ones."""
    scenario = {
        "model": str(SMALL_DECODER),
        "hardware": "out/mine.yaml",
        "decode": {"policy": "ar"},
        "precision": {"weights": "fp32", "kv": "fp32"},
        "workload": {"kind": "closed", "concurrency": 2, "prompt_tokens": 16, "output_tokens": 8},
    }
    Path("scenario.yaml").write_text(yaml.safe_dump(scenario), encoding="utf-8")
    ran = call("run", "scenario.yaml", "--json")
    assert ran.code == 0, ran.err


def samples(path: Path) -> pd.DataFrame:
    """The raw samples by key; of one file, which may be replaced in the next moment."""
    return pd.read_parquet(io.BytesIO(path.read_bytes())).set_index("key")


@without_torch
def test_passes_without_a_profile_are_kept() -> None:
    """They are timed all the same, and the answer says what to run to compare them."""
    answer = profile("--passes", "--model", SMALL_DECODER, "--budget", "300ms")
    assert answer.code == 0, answer.err
    assert "run without --passes" in answer.out
    assert len(samples(Path("cpu-passes.parquet"))) >= 1


@without_torch
def test_too_short_a_budget_keeps_what_it_measured() -> None:
    """No profile, exit 1, how many points there are, and the samples stay."""
    refused(profile("--budget", "500ms"), "a curve takes 20", "the same command goes on from it")
    assert len(samples(Path("cpu.parquet"))) >= 1
    assert not Path("cpu.yaml").exists()


@without_torch
def test_a_budget_for_nothing() -> None:
    """A budget that is spent at once says that nothing was measured, and writes nothing."""
    refused(profile("--budget", "0.0001ms"), "has no points yet", "longer --budget")
    assert list(Path().iterdir()) == []


@pytest.mark.parametrize("budget", ["", "10", "-1s", "0s", "1 minute", "1e3s", "nan s", "9" * 400])
def test_budgets_that_are_no_time(budget: str) -> None:
    """The option, the rule and what was given."""
    refused(profile("--budget", budget), "--budget", "as 90s or 8m, got")


@pytest.mark.parametrize("option", ["--memory", "--working-set"])
@pytest.mark.parametrize("size", ["much", "-1GB", "0MB", "5xb", "nanGB"])
def test_sizes_that_are_no_memory(option: str, size: str) -> None:
    """The option, the rule and what was given."""
    refused(call("profile", "--device", "cpu", option, size), option, "as 500MB or 2GiB, got")


def test_an_unknown_model() -> None:
    """The nearest ones are told."""
    refused(profile("--model", "qwen3-8x"), "no model 'qwen3-8x'; did you mean qwen3-8b")


def test_passes_of_nothing() -> None:
    """On a CPU no model is meant unless one is named."""
    refused(profile("--passes"), "--passes", "name a --model")


def test_a_model_that_the_gpus_cannot_share() -> None:
    """Three GPUs cannot share 32 heads, a million none at all; nothing is measured."""
    answer = profile("--model", "qwen3-8b", "--tp", 3)
    refused(answer, "--tp", "must divide the 32 query heads of qwen3-8b, got 3")
    refused(profile("--model", "llama-3-70b", "--tp", 1_000_000), "must divide the 64 query heads")
    assert list(Path().iterdir()) == []


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--precision", "fp4"),
        ("--threads", 0),
        ("--threads", 10**12),
        ("--tp", 0),
        ("--device", "tpu"),
    ],
)
def test_a_wrong_command_line(option: str, value: object) -> None:
    """Choices and ranges are click's: exit 2 and the option."""
    answer = profile(option, value)
    assert answer.code == 2
    assert option in answer.err


def test_torch_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    """The core runs without torch; this command says what to install."""
    real = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name, *rest: None if name == "torch" else real(name, *rest),
    )
    refused(profile(), "torch is not installed", "pip install 'blockcast[torch]'")


@without_torch
def test_no_gpu_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is measured, and the CPU is offered."""
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    refused(call("profile", "--device", "cuda"), "sees no CUDA device", "--device cpu")


@pytest.mark.usefixtures("hasty")
def test_a_file_where_a_folder_should_be() -> None:
    """The path is named, and the file stays as it was."""
    Path("taken").write_text("mine", encoding="utf-8")
    refused(profile("-o", "taken", "--budget", "300ms"), "taken")
    assert Path("taken").read_text(encoding="utf-8") == "mine"


@pytest.mark.usefixtures("hasty")
def test_a_folder_that_cannot_be_written() -> None:
    """Not even by root: the path is named."""
    refused(profile("-o", "/proc/nowhere", "--budget", "300ms"), "/proc/nowhere")


@pytest.mark.usefixtures("hasty")
def test_a_corrupt_file_of_samples_and_a_fresh_start() -> None:
    """It is named, left as it is, and --fresh replaces it."""
    Path("cpu.parquet").write_bytes(b"PAR1 not quite")
    refused(profile("--budget", "1s"), "cpu.parquet cannot be read as samples", "--fresh")
    assert Path("cpu.parquet").read_bytes() == b"PAR1 not quite"
    refused(profile("--budget", "100ms", "--fresh"), "a curve takes 20")
    assert len(samples(Path("cpu.parquet"))) >= 1


@pytest.mark.usefixtures("hasty")
def test_samples_of_another_machine() -> None:
    """What differs is named; another number of threads is another machine; nothing is changed."""
    profile("--budget", "100ms")
    content = Path("cpu.parquet").read_bytes()
    answer = profile("--budget", "100ms", "--threads", 2)
    refused(answer, "threads: 1 then, 2 now", "--fresh")
    refused(profile("--budget", "100ms", "--working-set", "9MB"), "1 MB then, 9 MB now")
    assert Path("cpu.parquet").read_bytes() == content


@without_torch
def test_an_interrupt_keeps_the_samples() -> None:
    """Ctrl-C on the installed command: exit 1, a line about it, the samples and nothing else."""
    process = subprocess.Popen(
        [str(INSTALLED), "profile", *map(str, QUICK), "--budget", "2m", "-o", "out"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        until(lambda: Path("out/cpu.parquet").exists(), process)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
    finally:
        process.kill()
    answer = Answer(process.returncode, out.strip(), err)
    refused(answer, "interrupted; what was measured is in out", "the same command goes on")
    assert [path.name for path in Path("out").iterdir()] == ["cpu.parquet"]
    assert len(samples(Path("out/cpu.parquet"))) >= 1


SAVING_OFTEN = """
from kernels_ref.profiling import session
session.SAVE_EVERY_S = 0.0
from simulator.__main__ import main
main()
"""


@without_torch
def test_a_killed_process_loses_nothing_that_was_saved() -> None:
    """Killed while it saves after every point, the file is whole, and the next command goes on."""
    process = subprocess.Popen(
        [sys.executable, "-c", SAVING_OFTEN, "profile", *map(str, QUICK), "--budget", "2m"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    path = Path("cpu.parquet")
    try:
        until(lambda: path.exists() and len(samples(path)) >= 5, process)
    finally:
        process.kill()
        process.wait(timeout=30)
    before = samples(path)
    refused(profile("--budget", "500ms"), "the same command goes on from it")
    after = samples(path)
    assert len(after) > len(before)
    kept = after.loc[before.index]
    assert kept["status"].to_list() == before["status"].to_list()
    # A later visit counts where it was faster.
    timed = before["seconds"].notna()
    assert (kept["seconds"][timed] <= before["seconds"][timed]).all()
    assert (kept["visits"] >= before["visits"]).all()


def until(happens: Callable[[], bool], process: "subprocess.Popen[Any]") -> None:
    """Wait for something that *process* does."""
    end = time.monotonic() + 60
    while not happens():
        assert process.poll() is None, "it ended before"
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.05)

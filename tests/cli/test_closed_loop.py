"""`blockcast closed-loop`: a small one from end to end, and what is refused."""

import json
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from kernels_ref.closed_loop import cases, session  # noqa: E402
from simulator import library  # noqa: E402
from tests.cli.command import call  # noqa: E402

SMALL = ("--policy", "joint-threshold", "--batch", "2", "--problems", "2", "--repeats", "1")


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers of a few tokens, and one batch of the empty model."""
    monkeypatch.setattr(session, "EMPTY_BATCHES", (2,))
    monkeypatch.setattr(cases, "OUTPUT_TOKENS", 20)
    monkeypatch.setattr(cases, "EMPTY_OUTPUT_TOKENS", 6)


def test_from_end_to_end(tmp_path: Path) -> None:
    """Every run is measured and predicted, errors are of both, and what was made can be used."""
    out = tmp_path / "out"
    done = call("closed-loop", "--device", "cpu", *SMALL, "--out", out, "--json")
    assert done.code == 0, done.err
    answer = json.loads(done.out)

    assert [(row["policy"], row["parameters"], row["batch"]) for row in answer["rows"]] == [
        ("joint-threshold", {}, 2),
    ]
    for row in answer["rows"]:
        for side in (row["measured"], row["predicted"]):
            assert side.keys() == {"step_latency_s", "output_tokens_per_s", "latency_s"}
            assert all(value > 0 for value in side.values())
        rates = [row[side]["output_tokens_per_s"] for side in ("predicted", "measured")]
        assert row["error"] == pytest.approx(rates[0] / rates[1] - 1)
    assert answer["worst_error"] == answer["median_error"] == abs(answer["rows"][0]["error"])

    profile = out / "hardware.yaml"
    assert "fp32" in library.HARDWARE.get(str(profile)).kernels.gemm
    assert (out / "rows.csv").is_file()
    assert (out / "engine-joint-threshold.yaml").is_file()
    shown = call("show", "hardware", profile)
    assert shown.code == 0, shown.err
    again = call("closed-loop", "--device", "cpu", *SMALL, "--profile", profile)
    assert again.code == 0, again.err
    assert "Measured and predicted" in again.out


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (("--policy", "gdw"), "gwd"),
        (("--batch", "0"), "--batch: is 1 to 256, got 0"),
        (("--problems", "0"), "--problems: is 1 to 10000, got 0"),
        (("--repeats", "0"), "--repeats: is 1 to 100, got 0"),
        (("--budget", "soon"), "a time is a number above zero"),
        ((*SMALL, "--budget", "1ms"), "a longer --budget"),
        (("--profile", "h200-sxm.yaml"), "h200-sxm.yaml"),
    ],
)
def test_what_is_refused(given: tuple[str, ...], told: str) -> None:
    """One message on standard error, and nothing on standard output."""
    done = call("closed-loop", "--device", "cpu", *given)

    assert done.code == 1
    assert told in done.err
    assert not done.out


def test_a_profile_of_another_machine_is_refused() -> None:
    """It says what differs."""
    path = library.HARDWARE.path("h200-sxm")
    done = call("closed-loop", "--device", "cpu", "--profile", path)

    assert done.code == 1
    assert "device is" in done.err
    assert "has no fp32 gemm curve" in done.err


def test_what_fails_leaves_no_folder(tmp_path: Path) -> None:
    """Nothing half-written stays."""
    done = call(
        "closed-loop", "--device", "cpu", *SMALL, "--budget", "1ms", "--out", tmp_path / "x"
    )

    assert done.code == 1
    assert not (tmp_path / "x").exists()


def test_a_folder_that_is_there_is_refused(tmp_path: Path) -> None:
    """Nothing is mixed up with what lies in it."""
    done = call("closed-loop", "--device", "cpu", "--out", tmp_path)

    assert done.code == 1
    assert "exists already" in done.err

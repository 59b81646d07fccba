"""Small captures by the real decoders, and what replays of shipped traces say of them."""

from pathlib import Path

import pytest

from simulator import library
from simulator.replay.block_summary import replay_blocks
from tests.cli.command import call
from traces.block_trace import BlockTrace, read_block_trace

pytest.importorskip("torch")


def captured(decoder: str, folder: Path, **settings: object) -> BlockTrace:
    """The first 16 of the problems that the shipped traces are of, decoded here and now."""
    given = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
    answer = call(
        *("capture", "--decoder", decoder, *given),
        *("--problems", 16, "--batch", 16, "--out", folder / "live", "--json"),
    )
    assert answer.code == 0, answer.err
    return read_block_trace(folder / "live")


def shipped(name: str) -> BlockTrace:
    """A shipped trace."""
    return read_block_trace(library.TRACES.path(name).parent)


def tokens_per_forward(trace: BlockTrace, problems: int) -> float:
    """Output tokens over forwards without prefill, of the first *problems* problems."""
    rows = [row for row in trace.requests.to_pylist() if row["problem"] < problems]
    assert len(rows) == problems
    forwards = sum(row["denoise_forwards"] + row["store_forwards"] for row in rows)
    return float(sum(row["output_tokens"] for row in rows) / forwards)


@pytest.mark.parametrize(
    ("decoder", "source", "settings"),
    [
        ("gwd", "ref-gwd-w4-t0.0", {"window": 3, "theta_spawn": 0.4}),
        ("block-buffer", "ref-block-buffer-n4-a0.5-m0.7", {"buffer": 3, "tau_add": 0.3}),
    ],
)
def test_a_capture_made_now_is_repeated_and_was_foretold(
    decoder: str, source: str, settings: dict[str, float], tmp_path: Path
) -> None:
    """Its replay is exact; a shipped trace under its settings has the gain that it has.

    The shipped trace is of 128 problems and this of the first 16 of them, so what is compared is
    the gain over the shipped trace's own settings, which is within 6 %.
    """
    live = captured(decoder, tmp_path, tau_mask=0.7, **settings)
    trace = shipped(source)

    exact = replay_blocks(live, {})
    assert (exact.replay, exact.batch_forwards) == ("exact", live.manifest.counts.batch_forwards)

    foretold = replay_blocks(trace, settings)
    told = foretold.tokens_per_forward / replay_blocks(trace, {}).tokens_per_forward
    had = tokens_per_forward(live, 16) / tokens_per_forward(trace, 16)
    assert told == pytest.approx(had, rel=0.06)

"""Warnings of kernels outside their ranges are of what ran, not of a mean request."""

from pathlib import Path
from typing import Any

import pytest

from simulator.deployment import build
from simulator.result import run

MOST_KEYS = 16_384
"""That prompts were measured with on the H100 (hwprofiles/data/h100-sxm.yaml)."""
MOST_TOKENS = 8192
"""That products were measured with there."""
LOAD: dict[str, Any] = {"kind": "poisson", "rate_per_s": 2.0, "requests": 60}


def warnings_of(workload: dict[str, Any], **changes: Any) -> list[str]:
    """What a run of llama-3-8b on an H100 warns of its kernels."""
    scenario = {
        "model": "llama-3-8b",
        "hardware": "h100-sxm",
        "engine": "vllm",
        "decode": {"policy": "ar"},
        "workload": LOAD | workload,
    }
    summary = run(build(scenario | changes, "ranges")).summary
    return [warning for warning in summary["warnings"] if ", fitted on " in warning]


def table(folder: Path, longest: int, rows: int = 40) -> dict[str, Any]:
    """A load whose lengths are of a table: short ones, and one that is longer."""
    path = folder / "lengths.csv"
    lines = ["prompt_tokens,output_tokens", *["500,20"] * (rows - 1), f"{longest},20"]
    path.write_text("\n".join(lines), encoding="utf-8")
    return {"lengths": str(path), "requests": 400}


def test_one_long_prompt_warns(tmp_path: Path) -> None:
    """Of 40 rows one is longer than any prompt that was measured; the mean is far below that."""
    longest = 30_000
    (warning,) = warnings_of(table(tmp_path, longest))

    assert warning.startswith("attention_prefill (")
    assert f"..{longest}, fitted on 16..{MOST_KEYS}" in warning


def test_without_it_nothing_warns(tmp_path: Path) -> None:
    """The same table, its longest prompt as long as one that was measured."""
    assert warnings_of(table(tmp_path, MOST_KEYS - 8)) == []


def test_what_no_step_asked_for_does_not_warn() -> None:
    """A prompt of 20,000 tokens goes in by pieces of 8,192, so no product is out of its range."""
    told = warnings_of({"prompt_tokens": 20_000, "output_tokens": 20})

    assert not [warning for warning in told if warning.startswith("gemm")]
    assert any("kv_tokens" in warning for warning in told)


@pytest.mark.parametrize(("most", "warns"), [(MOST_TOKENS, False), (4 * MOST_TOKENS, True)])
def test_the_largest_forward_counts(most: int, warns: bool) -> None:  # noqa: FBT001 (a parameter)
    """Where many prompts wait and an engine fills them together, the forward is of all of them."""
    told = warnings_of(
        {"rate_per_s": 1e6, "prompt_tokens": 1000, "output_tokens": 20},
        serving={"prefill_order": "first", "prefill_batch_tokens": most},
    )

    assert any(warning.startswith("gemm (") and " m = " in warning for warning in told) == warns

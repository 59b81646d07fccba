"""A GPU and models with numbers simple enough to calculate with by hand."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import yaml

from hwprofiles.profile import DOMAINS
from simulator.deployment import Deployment, build
from simulator.request import Request
from simulator.step_cost import StepCost, price_steps

SOURCE = {"kind": "datasheet", "text": "by hand"}
SIZES = sorted({size for sizes in DOMAINS.values() for size in sizes})
FIT = {
    "residual": {"median": 0.0, "p90": 0.0, "points": 0},
    "domain": {size: [0.0, 1e12] for size in SIZES},
    "source": SOURCE,
}


def gemm(launch_s: float, memory_bytes_per_s: float, flop_per_s: float) -> dict[str, Any]:
    """Launch + bytes / bandwidth + flop / rate: with powers of 1 the norms are sums."""
    return FIT | {
        "form": "gemm",
        "launch_s": launch_s,
        "launch_per_k_s": 0.0,
        "launch_k_limit": 1.0,
        "launch_power": 1.0,
        "roof_power": 1.0,
        "memory_bytes_per_s": memory_bytes_per_s,
        "flop_per_s": flop_per_s,
        "weight_element_bytes": 2.0,
        "activation_element_bytes": 2.0,
    }


def attention(launch_s: float, memory_bytes_per_s: float, flop_per_s: float) -> dict[str, Any]:
    """The same sum: one multiprocessor, no waves, no splitting, rows one by one."""
    return FIT | {
        "form": "attention",
        "causal": False,
        "tile_rows": 128,
        "row_granule": 1,
        "multiprocessors": 1,
        "key_splits": 1,
        "launch_s": launch_s,
        "split_s": 0.0,
        "split_kv_tokens": 1.0,
        "wave_s": 0.0,
        "wave_power": 1.0,
        "memory_bytes_per_s": memory_bytes_per_s,
        "flop_per_s": flop_per_s,
        "roof_power": 1.0,
    }


HARDWARE: dict[str, Any] = {
    "name": "handmade",
    "description": "By hand.",
    "memory_bytes": 1e9,
    "last_level_cache_bytes": 1.0,
    "multiprocessors": 1,
    "peaks": {
        "bf16_flop_per_s": 1e13,
        "fp8_flop_per_s": 2e13,
        "memory_bytes_per_s": 1e10,
        "link_bytes_per_s": 1e9,
        "source": SOURCE,
    },
    "kernels": {
        "gemm": {"bf16": gemm(1e-6, 1e9, 1e12)},
        "lm_head": {"bf16": gemm(2e-6, 2e9, 2e12)},
        "attention_extend": {"bf16": attention(3e-6, 4e9, 4e12)},
        "attention_prefill": {"bf16": attention(3e-6, 4e9, 4e12) | {"causal": True}},
        "moe": {
            "bf16": FIT
            | {
                "form": "grouped-moe",
                "launch_s": 4e-6,
                "expert_s": 1e-7,
                "row_bytes_per_s": 1e8,
                "memory_bytes_per_s": 5e9,
                "flop_per_s": 5e12,
                "padding_rows": 0.0,
                "roof_power": 1.0,
                "weight_element_bytes": 2.0,
            }
        },
        "elementwise": FIT
        | {
            "form": "streaming",
            "launch_s": 5e-6,
            "memory_bytes_per_s": 8e9,
            "row_bytes_per_s": 1e9,
            "row_residual": {"median": 0.0, "p90": 0.0, "points": 0},
        },
        # A nanosecond a byte at every size, so that the interpolation is exact.
        "all_reduce": FIT
        | {
            "form": "all-reduce",
            "by_ranks": {2: {"message_bytes": [1.0, 1e6], "seconds": [1e-9, 1e-3]}},
            "residual_by_ranks": {},
        },
    },
}

ATTENTION = {"query_heads": 4, "kv_heads": 2, "head_dim": 4}
TINY = {"hidden": 8, "vocab": 32, "source": "by hand", "max_context_tokens": 1000}
DENSE: dict[str, Any] = TINY | {
    "name": "tiny-dense",
    "layers": [{"count": 2, "attention": ATTENTION, "ffn": 12}],
}
EXPERTS: dict[str, Any] = TINY | {
    "name": "tiny-experts",
    "layers": [
        {
            "count": 1,
            "attention": ATTENTION,
            "experts": {"count": 4, "top_k": 2, "ffn": 6, "shared": 1},
        }
    ],
}


class _WrittenOut(yaml.SafeDumper):
    """Writes twice what is used twice: documents have no aliases."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 (PyYAML's signature)
        """Always."""
        return True


def handmade(folder: Path, model: dict[str, Any], **changes: Any) -> Deployment:
    """Three rows of autoregression, nine tokens of prompt and one decode step, on the handmade GPU.

    *folder* takes the model and the hardware as files.
    """
    for name, content in (("model", model), ("hardware", HARDWARE)):
        text = yaml.dump(content, Dumper=_WrittenOut)
        (folder / f"{name}.yaml").write_text(text, encoding="utf-8")
    scenario = {
        "model": str(folder / "model.yaml"),
        "hardware": str(folder / "hardware.yaml"),
        "engine": "ideal",
        "decode": {"policy": "ar"},
        "workload": {"kind": "closed", "concurrency": 3, "prompt_tokens": 9, "output_tokens": 2},
    }
    return build(scenario | changes, "handmade")


def decode_step(deployment: Deployment, rows: int, step: int = 0) -> StepCost:
    """The cost of one decode step of *rows* equal requests of the closed workload."""
    workload = deployment.scenario.workload
    schedule = deployment.schedule(Request(0, workload.prompt_tokens, workload.output_tokens))
    loads = np.repeat(schedule.loads[:, :, None, step : step + 1], rows, axis=2)
    emitting = np.array([float(rows)])
    return price_steps(deployment, schedule.passes, loads, emitting_rows=emitting)


def totals(cost: StepCost) -> tuple[float, float, float]:
    """Flop, bytes and link bytes of a one-step cost, on one GPU."""

    def over(counts: list[npt.NDArray[np.float64]]) -> float:
        return float(np.sum(counts))

    return (
        over([launches * part.op.flop for _, part, launches in cost.parts]),
        over([launches * part.op.bytes for _, part, launches in cost.parts]),
        over([launches * part.op.link_bytes for _, part, launches in cost.parts]),
    )

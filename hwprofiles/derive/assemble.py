"""Puts the fits of one GPU together."""

from pathlib import Path

from hwprofiles.derive import all_reduce, attention, gemm, moe, streaming
from hwprofiles.derive.datasheet import SHEETS
from hwprofiles.derive.measured import read_table
from hwprofiles.profile import HardwareProfile, Kernels

TABLES = (
    "gemm",
    "gemm_llama_layers_h100",
    "attention_context",
    "attention_generation",
    "moe",
    "mem_bw",
    "elementwise_vidur_h100",
    "allreduce",
)


def profiles(folder: Path) -> list[HardwareProfile]:
    """The profile of every known GPU, fitted to the tables in *folder*.

    Raises MissingTableError when a table is missing.
    """
    tables = {name: read_table(folder, name) for name in TABLES}
    made = []
    for name, sheet in SHEETS.items():
        gpu = sheet.measured_as
        dense, wide = tables["gemm"], tables["gemm_llama_layers_h100"]
        prompts = attention.prefill(tables["attention_context"], gpu)
        kernels = Kernels(
            gemm={weights: gemm.dense(dense, gpu, weights) for weights in ("bf16", "fp8")},
            lm_head={"bf16": gemm.lm_head(dense, wide, gpu)},
            attention_extend={
                "bf16": attention.extend(
                    tables["attention_generation"], gpu, flop_per_s=prompts.flop_per_s
                )
            },
            attention_prefill={"bf16": prompts},
            moe={
                weights: moe.grouped(
                    tables["moe"],
                    gpu,
                    weights=weights,
                    peak_bytes_per_s=sheet.peaks.memory_bytes_per_s,
                )
                for weights in ("bf16", "fp8")
            },
            elementwise=streaming.elementwise(
                tables["mem_bw"], tables["elementwise_vidur_h100"], gpu
            ),
            all_reduce=all_reduce.custom(tables["allreduce"], gpu),
        )
        made.append(
            HardwareProfile(
                name=name,
                description=sheet.description,
                memory_bytes=sheet.memory_bytes,
                last_level_cache_bytes=sheet.l2_bytes,
                multiprocessors=sheet.multiprocessors,
                peaks=sheet.peaks,
                kernels=kernels,
            )
        )
    return made

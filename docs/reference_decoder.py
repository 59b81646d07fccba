"""Tables and figures of reference-decoder.md, from the shipped traces.

Run with `python docs/reference_decoder.py [FOLDER]`, FOLDER holding the traces. Tables go between
the page's markers, figures into figures/.
"""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from kernels_ref.checkpoint import CHECKPOINTS
from kernels_ref.drafting.checkpoint import made_manifest
from reports.marked_page import markdown_table, with_tables
from reports.reference_decoder import draw_batches, draw_gate, draw_readiness, draw_trade_off
from traces import DATA
from traces.block_trace import BlockTrace
from traces.reading import read_trace
from traces.statistics import summary

HERE = Path(__file__).parent
PAGE = HERE / "reference-decoder.md"
FIGURES = HERE / "figures"
PREFIX = "ref-"
ALWAYS_EARLY = 0.1
"""The paper's tau_add for mathematics."""
BATCHES = (1, 2, 4, 8, 16, 32)

Row = Mapping[str, Any]


def described(trace: BlockTrace) -> dict[str, Any]:
    """Statistics of a trace, and the parameters that made it."""
    manifest = trace.manifest
    facts = {**manifest.parameters, "policy": manifest.policy, "block": manifest.block_tokens}
    return {
        **facts,
        "checkpoint": manifest.checkpoint.name,
        "batch": manifest.batch,
        **summary(trace),
    }


def packed_forwards(trace: BlockTrace, batch: int) -> int:
    """Decode forwards over batches of *batch* rows in order: each takes its slowest row's."""
    mine = np.asarray(trace.requests["denoise_forwards"]) + np.asarray(
        trace.requests["store_forwards"]
    )
    return int(sum(mine[first : first + batch].max() for first in range(0, len(mine), batch)))


COLUMNS = {
    "trace": lambda row: f"`{PREFIX}{row['name']}`",
    "checkpoint": lambda row: row["checkpoint"],
    "right": lambda row: (
        f"{100 * row['accuracy']:.1f} ± {100 * row['accuracy_standard_error']:.1f}"
    ),
    "valid": lambda row: f"{100 * row['valid']:.1f} ± {100 * row['valid_standard_error']:.1f}",
    "tokens per forward": lambda row: f"{row['tokens_per_forward']:.2f}",
    "with prefill": lambda row: f"{row['tokens_per_forward_by_definition']['all']:.2f}",
    "forwards a block": lambda row: f"{row['forwards_per_block']['mean']:.2f}",
    "edits": lambda row: f"{row['edits_per_request']:.2f}",
    "live blocks": lambda row: f"{row['blocks_live']:.2f}",
    "query slots a token": lambda row: f"{row['query_slots_per_output_token']:.1f}",
}
EDITING = tuple(name for name in COLUMNS if name not in {"live blocks", "query slots a token"})
WINDOW = tuple(name for name in COLUMNS if name not in {"checkpoint", "with prefill"})


def table(rows: Sequence[Row], columns: Sequence[str] = tuple(COLUMNS)) -> str:
    """A Markdown table."""
    return markdown_table(columns, [[COLUMNS[name](row) for name in columns] for row in rows])


def batch_rows(traces: Mapping[str, BlockTrace]) -> list[dict[str, int]]:
    """Packed and synchronous decode forwards over the batch, for the same problems."""
    rows = []
    for batch in BATCHES:
        counts = traces[f"gwd-synchronous-b{batch}"].manifest.counts
        shared = counts.batch_forwards - counts.batch_prefill_forwards
        packed = packed_forwards(traces["gwd-w2-t0.6"], batch)
        rows.append({"batch": batch, "packed": packed, "synchronous": shared})
    return rows


def batch_table(rows: Sequence[Row]) -> str:
    """The same as Markdown."""
    lines = ["| rows of a batch | packed | synchronous | ratio |", "|---|---|---|---|"]
    for row in rows:
        ratio = row["synchronous"] / row["packed"]
        lines.append(f"| {row['batch']} | {row['packed']} | {row['synchronous']} | {ratio:.2f} |")
    return "\n".join(lines)


def checkpoint_table() -> str:
    """The shipped checkpoints, those that others start from first."""
    lines = ["| checkpoint | starts from | steps | final loss | what it learns |"]
    lines.append("|---|---|---|---|---|")
    manifests = [made_manifest(path) for path in CHECKPOINTS.glob("*.yaml")]
    for about in sorted(manifests, key=lambda manifest: manifest.recipe["seed"]):
        start, steps = about.recipe["start"] or "random weights", about.recipe["steps"]
        words = f"{about.final_loss:.3f} | {about.description}"
        lines.append(f"| `{about.name}` | {start} | {steps} | {words} |")
    return "\n".join(lines)


def named(rows: Mapping[str, Row], *beginnings: str) -> list[Row]:
    """The rows whose names begin so, in the order of the names."""
    return [row for name, row in rows.items() if name.startswith(beginnings)]


def tables(rows: Mapping[str, Row], traces: Mapping[str, BlockTrace]) -> dict[str, str]:
    """Every table of the page, by its marker."""
    wavefront = [*named(rows, "gwd-w"), *named(rows, "gwd-m0.9")]
    return {
        "one block": table(named(rows, "single-block", "joint-threshold-m"), EDITING),
        "wavefront": table(wavefront, WINDOW),
        "readings": table([rows["gwd-w4-t0.0"], *named(rows, "gwd-leftmost", "gwd-own")], WINDOW),
        "larger blocks": table(
            [
                *named(rows, "joint-threshold-block"),
                rows["joint-threshold-m0.7"],
                rows["gwd-w2-t0.6"],
            ],
            WINDOW,
        ),
        "buffer": table(named(rows, "block-buffer", "multi-block", "gwd-multi")),
        "others": table(named(rows, "d2f", "dmax", "block-entropy")),
        "batches": batch_table(batch_rows(traces)),
        "checkpoints": checkpoint_table(),
    }


def figures(rows: Mapping[str, Row], traces: Mapping[str, BlockTrace]) -> None:
    """Draw every figure of the page."""
    FIGURES.mkdir(exist_ok=True)

    def line(label: str, *beginnings: str) -> list[dict[str, Any]]:
        return [{**row, "label": f"{row[label]:g}"} for row in named(rows, *beginnings)]

    draw_trade_off(
        {
            "masks only, serial (tau_mask)": line("tau_mask", "single-block-m"),
            "masks and edits, self-correcting (tau_mask)": line("tau_mask", "joint-threshold-m"),
            "wavefront, W=2 (theta_spawn)": line("theta_spawn", "gwd-w2"),
            "wavefront, W=3 (theta_spawn)": line("theta_spawn", "gwd-w3"),
        },
        FIGURES / "trade-off.svg",
    )
    draw_trade_off(
        {
            "trained for one block (buffer)": line("buffer", "block-buffer-training-free-n"),
            "trained for several (buffer)": [
                row
                for row in line("buffer", "block-buffer-n")
                if row["buffer"] == 1 or row["tau_add"] == ALWAYS_EARLY
            ],
        },
        FIGURES / "buffer.svg",
    )
    windows = {w: named(rows, f"gwd-w{w}-") for w in (2, 3, 4)}
    draw_gate(windows, FIGURES / "gate.svg")
    draw_batches(batch_rows(traces), FIGURES / "batches.svg")
    draw_readiness(
        {
            name: rows[trace]["local_steps"]
            for name, trace in (
                ("masks only, tau 0.95", "single-block-m0.95"),
                ("masks and edits, 0.7", "joint-threshold-m0.7"),
                ("wavefront, W=2, 0.6", "gwd-w2-t0.6"),
            )
        },
        FIGURES / "readiness.svg",
    )


def read_traces(folder: Path) -> tuple[dict[str, BlockTrace], dict[str, Row]]:
    """The shipped traces by name, and their statistics."""
    paths = sorted(folder.glob(f"{PREFIX}*"))
    every = {path.name.removeprefix(PREFIX): read_trace(path) for path in paths}
    traces = {name: trace for name, trace in every.items() if isinstance(trace, BlockTrace)}
    return traces, {name: {**described(trace), "name": name} for name, trace in traces.items()}


def main() -> None:
    """Write the page and its figures again."""
    traces, rows = read_traces(Path(sys.argv[1]) if len(sys.argv) > 1 else DATA)
    figures(rows, traces)
    page = with_tables(PAGE.read_text(encoding="utf-8"), tables(rows, traces))
    PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()

"""Tables and figures about speculative decoders in reference-decoder.md, from the shipped traces.

Run with `python docs/speculative_decoders.py [FOLDER]`, FOLDER holding the traces. Tables go
between the page's markers, figures into figures/.
"""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from reports.marked_page import markdown_table, with_tables
from reports.speculation import draw_acceptance, draw_blocks
from traces import DATA, MANIFEST_FILE
from traces.acceptance import AcceptanceModel, acceptance_model
from traces.captured_acceptance import captured_manifest
from traces.fit_error import fit_error
from traces.iteration_statistics import summary, truncated
from traces.iteration_trace import IterationTrace, read_iteration_trace
from traces.left_out import leave_one_out

HERE = Path(__file__).parent
PAGE = HERE / "reference-decoder.md"
FIGURES = HERE / "figures"
PREFIX = "ref-"
CHAINS = ("uno-linear", "eagle3-linear", "dflash", "self-speculation")
TREES = {"uno-linear": "uno-tree-b16"}
"""Trees that are fitted together with the chains of the same drafter."""
BLOCKS = (2, 4, 8, 16)
TEMPERATURES = (0, 1)
ABLATIONS = (
    "uno-short",
    "uno-total-variation",
    "uno-consistency",
    "uno-attention",
    "uno-feed-forward",
    "uno-rank-2",
    "uno-rank-8",
    "uno-other-text",
    "eagle3-short",
    "eagle3-other-text",
)
STEP_COLUMNS = (
    "trace",
    "tokens a step",
    "kept",
    "tokens per forward",
    "accepts none / all, %",
    "nodes verified a token",
    "lag-1",
    "valid",
)

Traces = Mapping[str, IterationTrace]


def read_traces(folder: Path) -> dict[str, IterationTrace]:
    """The shipped traces of iterations by name, without what all names begin with."""
    found = {}
    for path in sorted(folder.glob(f"{PREFIX}*")):
        about = yaml.safe_load((path / MANIFEST_FILE).read_text(encoding="utf-8"))
        if about["records"] == "iterations":
            found[path.name.removeprefix(PREFIX)] = read_iteration_trace(path)
    return found


def step_table(traces: Traces) -> str:
    """What every decoder makes of a step."""
    shown = [name for name in traces if not name.startswith((*ABLATIONS, "ar-"))]
    return markdown_table(STEP_COLUMNS, [_step_row(name, traces[name]) for name in shown])


def _step_row(name: str, trace: IterationTrace) -> list[str]:
    found = summary(trace)
    mean, error = found["tokens_per_step"], found["tokens_per_step_standard_error"]
    none, every = 100 * found["none_accepted"], 100 * found["all_accepted"]
    return [
        f"`{PREFIX}{name}`",
        f"{mean:.2f} ± {error:.2f}",
        f"{found['tokens_per_step_kept']:.2f}",
        f"{found['tokens_per_forward']:.2f}",
        f"{none:.0f} / {every:.0f}",
        f"{found['verify_nodes_per_output_token']:.1f}",
        _known(found["lag_1_correlation"]),
        f"{100 * found['valid']:.1f}",
    ]


def _known(value: float | None) -> str:
    """A correlation; none where every step accepts the same."""
    return "-" if value is None else f"{value:.2f}"


def tokens_per_step(trace: IterationTrace) -> float:
    """Of uncut iterations."""
    return float(summary(trace)["tokens_per_step"])


def truncation_table(traces: Traces) -> str:
    """Traces at 16 read at 8 and 4, against those that were captured there."""
    rows = []
    for chain in CHAINS:
        for temperature in TEMPERATURES:
            long = traces[f"{chain}-b16-t{temperature}"]
            cells = [chain, str(temperature)]
            for block in (8, 4):
                read = truncated(long, block)
                captured = tokens_per_step(traces[f"{chain}-b{block}-t{temperature}"])
                error = 0.0 if read is None else 100 * (read / captured - 1)
                cells += [f"{captured:.2f}", f"{read:.2f}", f"{error:+.1f} %"]
            rows.append(cells)
    at = [f"{what} at {block}" for block in (8, 4) for what in ("captured", "read", "error")]
    return markdown_table(["decoder", "temperature", *at], rows)


def fitted(traces: Traces, chain: str, temperature: int) -> tuple[AcceptanceModel, list[str]]:
    """The acceptance model of a drafter, and the names of the traces that it was fitted to."""
    names = [f"{chain}-b{block}-t{temperature}" for block in BLOCKS]
    tree = TREES.get(chain)
    if tree is not None:
        names += [n for n in traces if n.startswith(tree) and n.endswith(f"-t{temperature}")]
    manifest = captured_manifest([traces[name] for name in names], chain)
    return acceptance_model(manifest, manifest.benchmarks[0]), names


def fit_table(traces: Traces) -> str:
    """How well the acceptance model of the simulator fits what was captured."""
    rows = []
    for chain in CHAINS:
        for temperature in TEMPERATURES:
            model, names = fitted(traces, chain, temperature)
            errors = [fit_error(model, traces[name]) for name in names]
            outside = leave_one_out(model.manifest, model.benchmark)
            inner = [each.relative_error for each in outside if not each.is_beyond]
            rows.append(
                [
                    chain,
                    str(temperature),
                    f"{len(names)}",
                    _largest_percent([e.relative_error for e in errors]),
                    _largest_percent(inner),
                    f"{max(e.fitted.survival for e in errors):.2f}",
                    f"{max(e.drawn.total_variation for e in errors):.2f}",
                    _range([e.lag_1_correlation for e in errors]),
                    _range([e.intraclass_correlation for e in errors]),
                    _range([e.spread_ratio for e in errors]),
                ]
            )
    columns = (
        "decoder", "temperature", "cells", "mean, worst", "left out, worst", "S_j, worst",
        "accepted, worst TV", "lag-1", "within requests", "spread of requests",
    )  # fmt: skip
    return markdown_table(columns, rows)


def _largest_percent(errors: Sequence[float]) -> str:
    return f"{100 * max(errors, key=abs):+.1f} %"


def _range(values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None]
    return f"{min(known):.2f} to {max(known):.2f}"


def ablation_table(traces: Traces) -> str:
    """Drafters that differ in how they were trained."""
    rows = []
    for name in ABLATIONS:
        both = [traces[f"{name}-t{temperature}"] for temperature in TEMPERATURES]
        found = [summary(trace) for trace in both]
        means = [
            f"{each['tokens_per_step']:.2f} ± {each['tokens_per_step_standard_error']:.2f}"
            for each in found
        ]
        rows.append([f"`{name}`", f"{both[0].manifest.block_tokens}", *means])
    columns = ("checkpoint", "block", "tokens a step, greedy", "at temperature 1")
    return markdown_table(columns, rows)


def tables(traces: Traces) -> dict[str, str]:
    """Every table, by its marker."""
    return {
        "steps": step_table(traces),
        "truncation": truncation_table(traces),
        "acceptance fit": fit_table(traces),
        "drafter training": ablation_table(traces),
    }


def figures(traces: Traces) -> None:
    """Draw every figure."""
    FIGURES.mkdir(exist_ok=True)
    lines: dict[str, list[dict[str, Any]]] = {}
    for temperature in TEMPERATURES:
        for chain in CHAINS:
            lines[f"{chain}, {_named(temperature)}"] = [
                {"block": b, "tokens": tokens_per_step(traces[f"{chain}-b{b}-t{temperature}"])}
                for b in BLOCKS
            ]
    trees = {
        f"uno-tree, B=16, {_named(temperature)}": [
            {"tree_size": v, "tokens": tokens_per_step(traces[f"uno-tree-b16-v{v}-t{temperature}"])}
            for v in (16, 32, 60)
        ]
        for temperature in TEMPERATURES
    }
    draw_blocks(lines, trees, FIGURES / "blocks.svg")
    curves = {}
    for chain in CHAINS:
        model, _ = fitted(traces, chain, 0)
        observed = summary(traces[f"{chain}-b16-t0"])["acceptance_by_position"]
        curves[chain] = {"observed": observed, "fitted": model.fitted_survival(16).tolist()}
    draw_acceptance(curves, FIGURES / "acceptance.svg")


def _named(temperature: int) -> str:
    return "greedy" if temperature == 0 else f"T={temperature}"


def main() -> None:
    """Write the page and its figures again."""
    traces = read_traces(Path(sys.argv[1]) if len(sys.argv) > 1 else DATA)
    figures(traces)
    page = with_tables(PAGE.read_text(encoding="utf-8"), tables(traces))
    PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()

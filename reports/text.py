"""Tables for the terminal."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console

from reports.terminal import console as new_console
from reports.terminal import table
from reports.units import figure, percent, prefixed, seconds

LATENCIES = {
    "queueing_s": "waiting to be admitted",
    "ttft_s": "time to first token",
    "tpot_s": "time per output token",
    "inter_emission_s": "between emissions",
    "latency_s": "request latency",
    "step_latency_s": "decode step",
}
LARGEST_SHARES = 12
POOR_FIT = 0.2
METRICS = {
    "output_tokens_per_s": "tokens/s",
    "tpot_s": "s per token",
    "step_latency_s": "s per step",
    "latency_s": "s per request",
}


def print_run(summary: Mapping[str, Any]) -> None:
    """The answer of a run: rates, latencies, where the time goes, and what it all rests on."""
    console = new_console()
    metrics, interval = summary["metrics"], summary["interval"]
    bounds = interval["output_tokens_per_s"]
    for line in _headline(summary["scenario"]):
        console.print(line)
    if summary["steady"] is not None:
        console.print(summary["steady"]["sentence"], style="bold", soft_wrap=True)
    rates = [
        ("output tokens/s", f"{metrics['output_tokens_per_s']:.1f}"),
        ("  interval", f"{bounds['low']:.1f} to {bounds['high']:.1f}"),
        (
            "output tokens/s per request",
            _figure(metrics["output_tokens_per_s_per_request"], ".1f"),
        ),
        ("requests/s", figure(metrics["requests_per_s"])),
        *_load_rates(summary),
        ("tokens per forward", _figure(metrics["tokens_per_forward"])),
        ("tokens per step", _figure(metrics["tokens_per_step"])),
        ("decode steps", f"{metrics['steps']}"),
        ("mean batch", _figure(metrics["batch_rows"], ".1f")),
        ("mean KV cache in use, per GPU", prefixed(metrics["kv_used_bytes"] or 0.0, "B")),
        *_prefill_replicas(metrics),
        ("simulated time", seconds(metrics["simulated_s"])),
    ]
    console.print(table("Throughput", ("", ""), rates))
    levels = ("mean", "p50", "p90", "p99")
    latencies = [
        (words, *(seconds(metrics[name][level]) for level in levels))
        for name, words in LATENCIES.items()
        if _is_told(name, metrics[name])
    ]
    console.print(table("Latency", ("", *levels), latencies))
    _print_shares(console, summary)
    _print_fidelity(console, summary)


def _headline(scenario: Mapping[str, Any]) -> Sequence[str]:
    """What was simulated: model, place, policy with its parameters, load."""
    decode = scenario["decode"]
    given = [f"{k} {v}" for k, v in decode.items() if k != "policy" and v is not None]
    return (
        f"{scenario['model']} on {_machines(scenario)} with {scenario['engine']}",
        f"{decode['policy']}: {', '.join(given)}" if given else decode["policy"],
        _load(scenario["workload"]),
    )


def _machines(scenario: Mapping[str, Any]) -> str:
    """The GPUs, by replica where there are several."""
    gpus = f"{scenario['parallel']['tp']} x {scenario['hardware']}"
    replicas, split = scenario["parallel"]["dp"], scenario["disaggregation"]
    several = f"{replicas} replicas of {gpus}" if replicas > 1 else gpus
    return f"{several}, {split['prefill_replicas']} more for prompts," if split else several


def _load(load: Mapping[str, Any]) -> str:
    """How requests come, how many and of which lengths."""
    if "file" in load:
        return f"requests of {load['file']} at {load['rate_scale']:g} times their rate"
    if load["kind"] == "captured":
        requests = f"{load['requests'] or 'all'} captured requests as they were"
        return f"{load['concurrency']} at once, {requests}"
    if load.get("lengths"):
        lengths = f"lengths of {load['lengths']}"
    else:
        lengths = f"{load['prompt_tokens']} tokens in, {load['output_tokens']} out"
    if "concurrency" in load:
        requests = load["requests"] or load["concurrency"]
        return f"{load['concurrency']} at once, {requests} requests, {lengths}"
    many = f"{load['requests']} requests" if load["requests"] else f"{load['duration_s']:g} s"
    return f"{load['kind']} arrivals, {load['rate_per_s']:g} a second, {many}, {lengths}"


def _load_rates(summary: Mapping[str, Any]) -> Sequence[tuple[str, str]]:
    """What is worth telling under load: offered, good, busy, turned away, begun again."""
    metrics, steady, goodput = summary["metrics"], summary["steady"], summary["metrics"]["goodput"]
    told = []
    if steady is not None:
        told.append(("  offered", figure(steady["offered_per_s"])))
    if goodput is not None:
        share = "-" if goodput["share"] is None else percent(goodput["share"])
        limits = _limits(summary["scenario"]["slo"])
        told.append((f"  within {limits}", f"{figure(goodput['requests_per_s'])} ({share})"))
    if steady is not None:
        who = "replicas that decode busy" if "prefill_replicas" in metrics else "replicas busy"
        told.append((who, percent(metrics["busy_share"])))
    if metrics["requests_rejected"]:
        told.append(("requests rejected", f"{metrics['requests_rejected']}"))
    if metrics["preemptions"]:
        told.append(("preemptions", f"{metrics['preemptions']}"))
    if metrics["prefix_hit_rate"]:
        told.append(("prompt tokens from the prefix cache", percent(metrics["prefix_hit_rate"])))
    return told


def _limits(slo: Mapping[str, float | None]) -> str:
    """The limits with their units, so that a wrong unit shows."""
    return ", ".join(f"{name} {seconds(limit)}" for name, limit in slo.items() if limit is not None)


def _prefill_replicas(metrics: Mapping[str, Any]) -> Sequence[tuple[str, str]]:
    """What is in use of replicas that only fill prompts; the lines above are of the others then."""
    used = metrics.get("prefill_replicas")
    if used is None:
        return []
    return [
        ("prefill replicas busy", percent(used["busy_share"])),
        ("  mean batch", _figure(used["batch_rows"], ".1f")),
        ("  mean KV cache in use, per GPU", prefixed(used["kv_used_bytes"] or 0.0, "B")),
    ]


def _is_told(name: str, levels: Mapping[str, float] | None) -> bool:
    """Whether a latency has a line; one for the queue only where somebody waited."""
    return levels is not None and (name != "queueing_s" or levels["mean"] > 0)


def _figure(value: float | None, how: str = "") -> str:
    return f"{value:{how}}" if how and value is not None else figure(value)


def _print_shares(console: Console, summary: Mapping[str, Any]) -> None:
    shares = summary["time_shares"]
    largest = list(shares["by_operation"].items())[:LARGEST_SHARES]
    rows = [(name, percent(share)) for name, share in largest]
    console.print(table("Share of time (largest)", ("operation", ""), rows))
    bounds = ", ".join(f"{b} {percent(s)}" for b, s in shares["by_bound"].items() if s)
    console.print(f"Bound by: {bounds}")


def _print_fidelity(console: Console, summary: Mapping[str, Any]) -> None:
    fidelity = summary["fidelity"]
    console.print("\nRests on", style="bold")
    for name in ("hardware", "engine", "model", "acceptance"):
        console.print(f"  {name}: {fidelity[name]}", soft_wrap=True)
    for note in fidelity["workload"]:
        console.print(f"  workload: {note}", soft_wrap=True)
    console.print(f"  interval: {summary['interval']['basis']}", soft_wrap=True)
    console.print(f"  window: {summary['metrics']['window']}", soft_wrap=True)
    for warning in summary["warnings"]:
        console.print(f"  warning: {warning}", soft_wrap=True)


def print_roofline(
    rows: Sequence[Mapping[str, Any]], scenario: Mapping[str, Any], batch: int
) -> None:
    """One line per operation and pass, the largest first; the JSON has flop and bytes too."""
    total = sum(row["seconds"] for row in rows)
    lines = [
        (
            f"{row['pass_name']}: {row['operation']}",
            seconds(row["seconds"]),
            percent(row["seconds"] / total),
            f"{row['intensity_flop_per_byte']:.3g}",
            f"{row['attained_flop_per_s'] / 1e12:.3g}",
            f"{row['attainable_flop_per_s'] / 1e12:.3g}",
            f"{row['attained_bytes_per_s'] / 1e12:.3g}",
            row["bound"],
        )
        for row in sorted(rows, key=lambda row: -row["seconds"])
    ]
    columns = ("operation", "time", "share", "FLOP/B", "TFLOP/s", "roof", "TB/s", "bound")
    console = new_console()
    for line in _headline(scenario):
        console.print(line)
    console.print(table("One launch of each pass on one GPU", columns, lines))
    console.print(f"batch {batch}, half-way through the output; all kernels {seconds(total)}")
    console.print("roof: TFLOP/s that data-sheet peak and bandwidth allow at this intensity")
    console.print("the engine's overhead is not in this table: see blockcast run")


def print_validation(answer: Mapping[str, Any]) -> None:
    """Every cell with a published value, then errors by column and by paper."""
    console = new_console()
    lines = [
        (
            f"{cell['paper']} {cell['table']}",
            cell["cell"],
            METRICS[cell["metric"]],
            f"{cell['published']:.4g}",
            "-" if cell["predicted"] is None else f"{cell['predicted']:.4g}",
            "-" if cell["error"] is None else f"{100 * cell['error']:+.1f} %",
            "fit" if cell["used_for_calibration"] else "",
        )
        for cell in answer["cells"]
        if cell["published"] is not None
    ]
    columns = ("table", "cell", "metric", "published", "predicted", "error", "")
    console.print(table("Published cells (SI units)", columns, lines))
    groups = [
        (
            name,
            str(group["cells"]),
            percent(group["mape"]),
            f"{100 * group['worst_error']:+.1f} %",
            percent(group["inside_interval"]),
        )
        for name, group in answer["by_column"].items()
    ]
    heads = ("column", "cells", "MAPE", "worst", "in interval")
    console.print(table("By column", heads, groups))
    for paper, error in answer["mape"].items():
        fitted = answer["mape_calibration"][paper]
        told = "no cell of its own" if error is None else f"{percent(error)} MAPE"
        seen = "" if fitted is None else f"; {percent(fitted)} on the cells that calibrated"
        console.print(f"{paper}: {told} on cells that no calibration used{seen}")
    missing = sum(cell["published"] is None for cell in answer["cells"])
    console.print(f"{missing} more cells are predicted without a published value (see --json)")


def print_fit(
    points: Sequence[Mapping[str, Any]],
    predicted: Sequence[float],
    engine: Mapping[str, Any],
    path: str,
) -> None:
    """Measured against fitted, then the overheads and the residual."""
    console = new_console()
    rows = [
        (
            point["label"],
            METRICS[point["metric"]],
            f"{point['measured']:.4g}",
            f"{value:.4g}",
            f"{100 * (value / point['measured'] - 1):+.1f} %",
        )
        for point, value in zip(points, predicted, strict=True)
    ]
    console.print(table("Fit (SI units)", ("point", "metric", "measured", "fitted", "error"), rows))
    calibration, overhead = engine["calibration"], engine["overhead"]
    for name in calibration.fitted:
        value = getattr(overhead, name)
        told = "" if value else " (at its bound: the points leave nothing for it)"
        console.print(f"{name}: {value:.4g}{told}")
    console.print(
        f"residual: median {percent(calibration.median_residual)}, "
        f"p90 {percent(calibration.p90_residual)}, worst {percent(calibration.worst_residual)} "
        f"on {calibration.points} points"
    )
    if calibration.worst_residual > POOR_FIT:
        console.print("The worst point is far off: check it, or fit other overheads.", style="bold")
    console.print(f"wrote {path}")

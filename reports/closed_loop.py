"""What a closed loop found, for the terminal."""

from collections.abc import Iterator, Mapping
from typing import Any

from reports.terminal import console, table
from reports.units import percent, seconds

COLUMNS = (
    "decoder",
    "batch",
    "tokens/s",
    "predicted",
    "error",
    "step",
    "predicted",
    "latency",
    "predicted",
    "kernels",
)


def print_closed_loop(answer: Mapping[str, Any]) -> None:
    """Every run, measured against predicted; then the errors and what the engine adds."""
    out = console()
    out.print(table("Measured and predicted", COLUMNS, list(_runs(answer["rows"]))))
    out.print(
        f"{len(answer['rows'])} runs: error of output tokens/s median "
        f"{percent(answer['median_error'])}, worst {percent(answer['worst_error'])}; nothing "
        "here was fitted to them"
    )
    overheads = answer["overheads"]
    names = [n for n in next(iter(overheads.values())) if any(e[n] for e in overheads.values())]
    rows = [(policy, *(seconds(each[n]) for n in names)) for policy, each in overheads.items()]
    out.print(table("What the engine adds, by the empty model", ("policy", *names), rows))
    out.print(f"the fastest of {answer['rounds']} visits, {answer['seconds']:.0f} s in all")
    for warning in answer["warnings"]:
        out.print(f"warning: {warning}", soft_wrap=True)
    if "folder" in answer:
        out.print(f"profile, engines, traces and rows: {answer['folder']}")


def _runs(rows: list[Mapping[str, Any]]) -> Iterator[tuple[str, ...]]:
    for row in rows:
        measured, predicted = row["measured"], row["predicted"]
        yield (
            _named(row),
            str(row["batch"]),
            f"{measured['output_tokens_per_s']:.0f}",
            f"{predicted['output_tokens_per_s']:.0f}",
            f"{100 * row['error']:+.1f} %",
            *(
                seconds(each[name])
                for name in ("step_latency_s", "latency_s")
                for each in (measured, predicted)
            ),
            percent(row["kernel_share"]),
        )


def _named(row: Mapping[str, Any]) -> str:
    return " ".join([row["policy"], *(f"{name} {v}" for name, v in row["parameters"].items())])

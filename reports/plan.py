"""Plans on the terminal: the candidates ranked, why the next one lost, and how to run each."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import yaml

from reports.terminal import console, pairs, table
from reports.units import percent, seconds

Row = Mapping[str, Any]
MOST_COMMANDS = 5
MOST_WARNINGS = 5
HEADROOM = {"met": "kept", "missed": "missed", "undecided": "unsure"}
SIDES = {False: "<=", True: ">="}


def with_commands(answer: Mapping[str, Any], scenario: str, given: Sequence[str]) -> dict[str, Any]:
    """*answer* with the `command` that runs each row, and why the `runner_up` lost."""
    rows = [dict(row) | {"command": _command(row, scenario, given)} for row in answer["rows"]]
    return dict(answer) | {"rows": rows, "runner_up": runner_up(rows, answer["ranked_by"])}


def _command(row: Row, scenario: str, given: Sequence[str]) -> str | None:
    if not row["is_met"]:
        return None
    own = [f"{field}={_flow(value)}" for field, value in row["run_settings"].items()]
    sets = " ".join(f"--set {shlex.quote(text)}" for text in (*given, *own))
    return f"blockcast run {shlex.quote(scenario)} {sets}"


def _flow(value: object) -> str:
    """A value as YAML on one line."""
    text = yaml.safe_dump(value, default_flow_style=True, sort_keys=False, width=10**6)
    return text.removesuffix("\n").removesuffix("\n...")


def runner_up(rows: Sequence[Row], ranked_by: str) -> str | None:
    """Why the second lost to the first; None where there are no two."""
    met = [row for row in rows if row["is_met"]]
    if len(met) <= 1:
        return None
    best, other = met[0], met[1]
    steps = f"{best['name']}: {_step(best['step'])}; {other['name']}: {_step(other['step'])}"
    return f"{other['name']} {_difference(best, other, ranked_by)}. In a replica, {steps}."


def _difference(best: Row, other: Row, ranked_by: str) -> str:
    """What the second has to show against the first."""
    beyond = f": {_just_beyond(other)}" if other["beyond"] else ""
    if ranked_by == "rate":
        if other["rate_per_s"] == best["rate_per_s"]:
            return _as_good(best, other)
        return f"serves {other['rate_per_s']:.4g} req/s against {best['rate_per_s']:.4g}{beyond}"
    if ranked_by == "cost":
        costs = [row["cost_per_million_output_tokens"] for row in (other, best)]
        gpus = f"{_gpus(other)} against {best['gpus']}"
        return f"costs {costs[0]:.4g} per million tokens against {costs[1]:.4g}, on {gpus}{beyond}"
    if other["gpus"] == best["gpus"]:
        return _as_good(best, other)
    return f"needs {_gpus(other)} against {best['gpus']}{beyond}"


def _as_good(best: Row, other: Row) -> str:
    margins = [_tightest(row) for row in (other, best)]
    return f"is as good, with less room: {margins[0]} against {margins[1]}"


def _tightest(row: Row) -> str:
    known = [each for each in row["estimates"] if each["margin"] is not None]
    if not known:
        return "no limit that applies"
    least = min(known, key=lambda each: each["margin"])
    return f"{percent(least['margin'])} of {least['objective']} left"


def _just_beyond(row: Row) -> str:
    return f"{row['beyond_what']}, {row['beyond']}"


def _gpus(row: Row) -> str:
    return f"{row['gpus']} GPU{'s' if row['gpus'] > 1 else ''}"


def _step(step: Mapping[str, Any]) -> str:
    """What the steps of a replica are like."""
    if step["step_latency_s"] is None:
        return "no decode step"
    bound = f"{step['bound']['by']} {percent(step['bound']['share'])}"
    return (
        f"steps of {seconds(step['step_latency_s'])} with {step['batch_rows']:.3g} requests, "
        f"{step['tokens_per_step']:.3g} tokens a step each ({bound})"
    )


def print_plan(answer: Mapping[str, Any]) -> None:
    """What was asked, the ranking, the reasons, and how to see each for oneself."""
    out = console()
    out.print(_asked(answer), style="bold")
    met = [row for row in answer["rows"] if row["is_met"]]
    if met:
        out.print(table("", _heads(answer), (list(_cells(row, answer)) for row in met)))
        out.print(_conclusion(met[0], answer), style="bold")
    else:
        out.print("No candidate keeps the objectives.", style="bold")
    if answer["runner_up"]:
        out.print(f"Next: {answer['runner_up']}")
    refused = [(row["name"], row["reason"]) for row in answer["rows"] if not row["is_met"]]
    if refused:
        out.print("\nNot possible")
        out.print(pairs(refused))
    for words in _notes(answer, met):
        out.print(words)
    if met:
        out.print("\nTo run the first seed of each")
        for row in met[:MOST_COMMANDS]:
            out.print(f" {row['command']}", soft_wrap=True)
        if len(met) > MOST_COMMANDS:
            out.print(f" {len(met) - MOST_COMMANDS} more: --json and --out have them")


def _asked(answer: Mapping[str, Any]) -> str:
    limits = ", ".join(
        f"{each['name']} {SIDES[each['is_floor']]} {_amount(each['limit'], each['unit'])}"
        for each in answer["objectives"]
    )
    if answer["seeks"] == "highest rate":
        return f"The highest rate{_on(answer['gpus'])} with {limits}"
    rate = answer["rate_per_s"]
    of = "the scenario's load" if rate is None else f"{rate:g} requests/s"
    return f"The fewest GPUs for {of} with {limits}"


def _on(gpus: int | None) -> str:
    return "" if gpus is None else f" on {gpus} GPU{'s' if gpus > 1 else ''}"


def _amount(value: float, unit: str) -> str:
    if unit == "s":
        return seconds(value)
    return percent(value) if unit == "share" else f"{value:g}/s"


def _heads(answer: Mapping[str, Any]) -> list[str]:
    costs = ["per M tokens"] if _has_costs(answer) else []
    names = [each["name"] for each in answer["objectives"]]
    loads = ["+10 %", "+25 %"]
    rate = "req/s" if answer["seeks"] == "highest rate" else ""
    return ["", *filter(None, [rate]), "GPUs", "replicas x tp", *costs, *names, "binds", *loads]


def _has_costs(answer: Mapping[str, Any]) -> bool:
    return any(row["cost_per_million_output_tokens"] is not None for row in answer["rows"])


def _cells(row: Row, answer: Mapping[str, Any]) -> Iterator[str]:
    yield row["name"]
    if answer["seeks"] == "highest rate":
        yield f"{row['rate_per_s']:.4g}"
    yield str(row["gpus"])
    yield f"{row['replicas']} x {row['tensor_parallel']}"
    if _has_costs(answer):
        cost = row["cost_per_million_output_tokens"]
        yield "-" if cost is None else f"{cost:.4g}"
    yield from (each["told"] for each in row["estimates"])
    yield row["binds"]
    yield from (HEADROOM[each["answer"]] for each in row["headroom"])


def _conclusion(best: Row, answer: Mapping[str, Any]) -> str:
    """The first of the ranking and what keeps it from being better."""
    if answer["seeks"] == "highest rate":
        step = 100 * (answer["effort"]["rate_step"] - 1)
        told = f"{best['rate_per_s']:.4g} requests/s (to {step:.0f} %) with {best['name']}"
        told = f"{told} on {_gpus(best)}"
    else:
        told = f"{_gpus(best)} with {best['name']}"
    if best["beyond"]:
        return f"{told}; {_just_beyond(best)}."
    return f"{told}; one replica is the fewest there can be, with {_tightest(best)}."


def _notes(answer: Mapping[str, Any], met: Sequence[Row]) -> Iterator[str]:
    """How the ranking was come to, and what to know of it."""
    effort = answer["effort"]
    yield ""
    yield from (f"note: {words}" for words in answer["notes"])
    for row in met:
        for headroom in row["headroom"]:
            if headroom["answer"] != "met":
                load = f"+{100 * (headroom['load'] - 1):.0f} %"
                yield f"{row['name']} at {load}: {headroom['told']}"
        if row["is_within_model_error"]:
            yield (
                f"{row['name']}: less room ({_tightest(row)}) than the model itself may be off, "
                f"{percent(row['model_error'])}; one replica more is the safe answer"
            )
        yield from (f"{row['name']} is not monotone: {each}" for each in row["exceptions"])
    told = [text for row in met for text in row["warnings"]]
    distinct = list(dict.fromkeys(told))
    yield from (f"warning: {text}" for text in distinct[:MOST_WARNINGS])
    if len(distinct) > MOST_WARNINGS:
        yield f"{len(distinct) - MOST_WARNINGS} more warnings: --json has them"
    yield (
        f"{effort['runs']} runs; limits are kept, or missed, when the mean of "
        f"{effort['least_seeds']} to {effort['most_seeds']} seeds is so with "
        f"{100 * effort['confidence']:.0f} % confidence (+- is that interval); {_looked_at(answer)}"
    )


def _looked_at(answer: Mapping[str, Any]) -> str:
    effort = answer["effort"]
    if answer["seeks"] == "highest rate":
        return f"rates are tried {100 * (effort['rate_step'] - 1):.0f} % apart"
    return f"at most {effort['most_replicas']} replicas are tried"

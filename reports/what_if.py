"""What-ifs on the terminal: the table, why the best of a row is best, and the conclusion."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from reports.terminal import WHY, console, pairs, table
from reports.units import percent, prefixed, seconds

CROSSOVER = "crossover"
METRICS = {
    "output_tokens_per_s": "output tokens/s",
    "tpot_s": "time per output token",
    "step_latency_s": "decode step",
    "latency_s": "request latency",
    "ttft_s": "time to first token",
    "queueing_s": "waiting to be admitted",
    "goodput": "share of requests within the SLO",
    "goodput_requests_per_s": "requests/s within the SLO",
}
"""Others are told by their names."""
# A step that differs by less is as long.
AS_LONG = 0.005
WHOLE_FROM = 100.0

OUTSIDE = ", fitted on "
"""What every warning of a kernel outside its measured range has, of which there are many."""
Line = Mapping[str, Any]


def print_questions(questions: Mapping[str, str]) -> None:
    """The names and what they ask."""
    console().print(pairs(questions.items()))


def with_words(answer: Mapping[str, Any]) -> dict[str, Any]:
    """*answer* with `why` in every line, and with the `conclusion`."""
    lines = [dict(line) | {"why": why(line)} for line in answer["lines"]]
    return dict(answer) | {"lines": lines, "conclusion": conclusion(answer)}


def print_what_if(answer: Mapping[str, Any]) -> None:
    """The question, a line per row with its reason, the conclusion, and what it rests on."""
    out = console()
    out.print(answer["question"], style="bold")
    refused = _refused(answer)
    columns, group_name = answer["columns"], answer["group_name"]
    rows = [
        (
            _label(line),
            *(_figure(line["cells"][column], answer, refused) for column in columns),
            ", ".join(line["best"]) or "-",
            "-" if line["margin"] is None else f"+{100 * line['margin']:.1f} %",
            line["why"],
        )
        for line in answer["lines"]
    ]
    first = ", ".join(filter(None, [group_name, answer["row_name"]]))
    heads = [first, *columns, "best", "by", WHY]
    out.print(table(METRICS.get(answer["metric"], answer["metric"]), heads, rows))
    out.print(answer["conclusion"], style="bold")
    for number, words in enumerate(refused, 1):
        out.print(f"[{number}] {words}")
    out.print(f"\n{answer['note']}")
    for words in _footnotes(answer):
        out.print(words)


def _footnotes(answer: Mapping[str, Any]) -> Iterator[str]:
    """How to read the table."""
    yield (
        "why: decode steps of the whole run, the mean step and what changes it most, then what "
        "bounds most of the run's time"
    )
    if any(line["within_interval"] for line in answer["lines"]):
        yield (
            "within the interval: each run alone is less sure than what parts the two; they share "
            "kernel curves, so much of that cancels"
        )
    outside = [text for text in answer["warnings"] if OUTSIDE in text]
    yield from (f"warning: {text}" for text in answer["warnings"] if OUTSIDE not in text)
    if outside:
        yield f"{len(outside)} warnings of kernels outside their measured range: --json has them"


def _label(line: Line) -> str:
    return str(line["row"]) if line["group"] is None else f"{line['group']}, {line['row']}"


def why(line: Line) -> str:
    """Why the best of a line is best, against the runner-up: steps, their length, bounds."""
    if not line["best"]:
        return "nothing fits"
    if line["runner_up"] is None:
        return "nothing else fits" if len(line["best"]) == 1 else "all are equal"
    if not line["within_interval"]:
        return _reason(line)
    return f"within the interval ({_percent(line['interval'])}): {_reason(line)}"


def _reason(line: Line) -> str:
    found, other = line["reason"], line["runner_up"]
    if found is None:
        return "no decode step to compare"
    own, others = found["bound"], found["other_bound"]
    steps = f"{found['steps_ratio']:.2f}x the steps of {other}, {_length(found)}"
    there = _percent(others["share"])
    if own["by"] != others["by"]:
        there = f"{others['by']} {there}"
    return f"{steps}; {own['by']} {_percent(own['share'])} (there {there})"


def _length(found: Mapping[str, Any]) -> str:
    if abs(found["step_ratio"] - 1) < AS_LONG:
        return "each as long"
    sign = "+" if found["operation_s"] >= 0 else "-"
    change = f"{found['operation']} {sign}{seconds(abs(found['operation_s']))}"
    return f"each {found['step_ratio']:.2f}x as long ({change})"


def conclusion(answer: Mapping[str, Any]) -> str:
    """One sentence that the table comes to."""
    draw = _crossing if answer["draws"] == CROSSOVER else _best
    told = [
        ("" if group is None else f"{answer['group_name']} {group}: ") + draw(answer, list(members))
        for group, members in groupby(answer["lines"], key=lambda line: line["group"])
    ]
    return "; ".join(told) + "."


def _best(answer: Mapping[str, Any], lines: Sequence[Line]) -> str:
    """Which column is best where."""
    by_best: dict[str, list[Line]] = {}
    for line in lines:
        by_best.setdefault(_told_best(line), []).append(line)
    parts = [
        f"{told} at {answer['row_name']} {_rows(members)}" for told, members in by_best.items()
    ]
    return ", ".join(parts)


def _told_best(line: Line) -> str:
    if not line["best"]:
        return "nothing fits"
    return f"{' and '.join(line['best'])} {'is' if len(line['best']) == 1 else 'are'} best"


def _rows(lines: Sequence[Line]) -> str:
    """The rows, and which of them are within the interval."""
    within = [str(line["row"]) for line in lines if line["within_interval"]]
    told = _listed([str(line["row"]) for line in lines])
    if not within:
        return told
    which = "" if len(within) == len(lines) else f"{_listed(within)} "
    return f"{told} ({which}within the interval)"


def _crossing(answer: Mapping[str, Any], lines: Sequence[Line]) -> str:
    """Where the first column beats the second, and the first row where it no longer does."""
    first, second = answer["columns"]
    name = answer["row_name"]
    compared = [
        line for line in lines if all(c["value"] is not None for c in line["cells"].values())
    ]
    wins = [line["best"] == (first,) for line in compared]
    left_out = [str(line["row"]) for line in lines if line not in compared]
    rest = f" (not compared: {_listed(left_out)})" if left_out else ""
    if not compared:
        return f"{first} and {second} are nowhere compared"
    if not any(wins):
        return f"{first} never beats {second} at {name} {_range(compared)}{rest}"
    if all(wins):
        return f"{first} beats {second} at every {name} from {_range(compared)}{rest}"
    start = wins.index(True)
    stops = next((i for i in range(start, len(wins)) if not wins[i]), None)
    runs = [
        _range([compared[i] for i in members])
        for won, members in groupby(range(len(wins)), key=lambda i: wins[i])
        if won
    ]
    beats = f"{first} beats {second} at {name} {_listed(runs)}"
    if stops is None:
        return f"{beats}, not before, and never stops{rest}"
    return f"{beats} and stops at {_stop(compared[stops])}{rest}"


def _stop(line: Line) -> str:
    within = ", within the interval" if line["within_interval"] else ""
    if line["runner_up"] is None:
        return f"{line['row']} (equal)"
    if line["margin"] is None:
        return f"{line['row']} ({line['best'][0]}, and zero)"
    return f"{line['row']} ({line['best'][0]} +{100 * line['margin']:.1f} %{within})"


def _range(lines: Sequence[Line]) -> str:
    ends = [str(line["row"]) for line in lines]
    return ends[0] if len(ends) == 1 else f"{ends[0]} to {ends[-1]}"


def _listed(words: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))


def _refused(answer: Mapping[str, Any]) -> list[str]:
    """What refused cells say, each once."""
    return list(dict.fromkeys(_refusals(answer)))


def _refusals(answer: Mapping[str, Any]) -> Iterator[str]:
    for line in answer["lines"]:
        yield from (cell["refused"] for cell in line["cells"].values() if cell["refused"])


def _figure(cell: Mapping[str, Any], answer: Mapping[str, Any], refused: Sequence[str]) -> str:
    """A value with its unit where it is a time; for a refused cell the number of what it says."""
    value = cell["value"]
    if value is None:
        return f"[{refused.index(cell['refused']) + 1}]"
    if answer["unit"] == "s":
        return seconds(value)
    if answer["unit"] == "share":
        return percent(value)
    if answer["unit"] == "B":
        return prefixed(value, "B")
    return f"{value:.0f}" if value >= WHOLE_FROM else f"{value:.3g}"


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"

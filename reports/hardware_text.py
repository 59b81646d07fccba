"""A hardware profile for the terminal: what the device can do, and what each curve rests on."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from reports.terminal import console, pairs, table
from reports.units import percent, prefixed, seconds

# Told in columns of their own, or, of single rows and ranks, in the JSON only.
ELSEWHERE = {"form", "residual", "row_residual", "residual_by_ranks", "domain", "source"}
IN_WORDS = {
    "memory_bytes_per_s": "memory",
    "flop_per_s": "compute",
    "bytes_moved": "moved",
    "rows_per_kv_head": "rows/KV head",
    "kv_bytes": "KV",
}
NAMES = {"memory_bytes": "memory", "last_level_cache_bytes": "last-level cache"}
PEAKS = {"memory_bytes_per_s": "memory", "link_bytes_per_s": "link, one way"}
# Characters of a table of curves: names, errors and the gaps between four columns; the rest.
OTHER_COLUMNS = 34
LEAST_PARAMETERS, LEAST_RANGE, MOST_RANGE = 23, 23, 42
THREE_FIGURES, WIDE = 100.0, 1e7


def print_hardware(profile: Mapping[str, Any]) -> None:
    """Capacities and peaks, where it was measured, its curves, and their numbered sources."""
    out = console()
    sources = Sources()
    out.print(f"{profile['name']}: {profile['description']}", soft_wrap=True)
    out.print(table("Capacities and peaks", ("", ""), _abilities(profile, sources)))
    if profile["environment"]:
        out.print("Measured on", style="bold")
        out.print(pairs(profile["environment"].items()))
    if profile["points"]:
        out.print(f"points beside the profile: {profile['points']}", soft_wrap=True)
    if profile["environment"] or profile["points"]:
        out.print()
    out.print(_curve_table(out, profile["kernels"], sources))
    out.print("\nSources", style="bold")
    out.print(pairs((str(number), text) for text, number in sources.numbers.items()))


class Sources:
    """Each distinct text, numbered as it comes up."""

    def __init__(self) -> None:
        """None yet."""
        self.numbers: dict[str, int] = {}

    def number(self, source: Mapping[str, Any]) -> int:
        """The number of this source."""
        text = f"{source['kind']}: {source['text']}"
        return self.numbers.setdefault(text, len(self.numbers) + 1)


def _abilities(profile: Mapping[str, Any], sources: Sources) -> Iterator[tuple[str, str]]:
    for name, words in NAMES.items():
        yield words, prefixed(profile[name], "B")
    yield "multiprocessors", str(profile["multiprocessors"])
    for name, value in profile["peaks"].items():
        if name != "source" and value is not None:
            unit = "B/s" if name.endswith("bytes_per_s") else "FLOP/s"
            words = PEAKS.get(name, f"{name.removesuffix('_flop_per_s')} arithmetic")
            yield f"peak {words}", prefixed(value, unit)
    yield "peaks from", f"source {sources.number(profile['peaks']['source'])}"


def _curve_table(out: Console, kernels: Mapping[str, Any], sources: Sources) -> Table:
    """A few lines for each curve, as wide as the terminal allows."""
    free = max(out.width - OTHER_COLUMNS, LEAST_PARAMETERS + LEAST_RANGE)
    of_range = min(free // 2, MOST_RANGE)
    # Blocks of lines are told apart by a rule; texts are set to the left.
    made = Table(
        title="Curves, with their errors on points held out of the fit",
        title_justify="left",
        title_style="bold",
        box=table("", ("", ""), ()).box,
        show_edge=False,
        pad_edge=False,
        padding=(0, 1, 0, 0),
        show_lines=True,
    )
    for name in ("curve", "parameters", "fitted range", "error"):
        made.add_column(name, no_wrap=name in {"curve", "error"})
    for kernel, precision, curve in curves(kernels):
        cells = (
            [kernel, precision, curve["form"], f"source {sources.number(curve['source'])}"],
            packed(_parameters(curve), free - of_range),
            packed(_range(curve["domain"]), of_range),
            list(_errors(curve)),
        )
        made.add_row(*("\n".join(line for line in lines if line) for lines in cells))
    return made


def curves(kernels: Mapping[str, Any]) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """(kernel, data type or nothing, curve) of every curve there is."""
    for kernel, value in kernels.items():
        if value is None:
            continue
        if "form" in value:
            yield kernel, "", value
        else:
            yield from ((kernel, precision, curve) for precision, curve in value.items())


def packed(items: Sequence[str], width: int) -> list[str]:
    """*items* on as few lines as *width* allows, each whole."""
    lines: list[str] = []
    for item in items:
        if lines and len(lines[-1]) + len(item) + 2 <= width:
            lines[-1] += f", {item}"
        else:
            lines.append(item)
    return lines


def _parameters(curve: Mapping[str, Any]) -> list[str]:
    names = [name for name in curve if name not in ELSEWHERE and curve[name] is not None]
    return [words for name in names for words in _parameter(name, curve[name])]


def _parameter(name: str, value: Any) -> Iterator[str]:  # noqa: ANN401 (a curve's fields)
    """A field with its unit, which its name ends with; of a table the ends."""
    if name == "operations":
        for operation, cost in value.items():
            rate = prefixed(cost["memory_bytes_per_s"], "B/s")
            yield f"{operation} {seconds(cost['launch_s'])} {rate}"
    elif isinstance(value, Mapping):
        unit = "GPUs" if name == "by_ranks" else "head dim"
        for key, rows in value.items():
            ends = "..".join(seconds(rows["seconds"][end]) for end in (0, -1))
            yield f"{key} {unit} {ends}"
    elif isinstance(value, str):
        yield f"{name} {value}"
    elif name == "matrices":
        for each in value:
            ends = "..".join(seconds(each["seconds"][end]) for end in (0, -1))
            yield f"{each['n']} x {each['k']} {ends}"
    elif isinstance(value, list):
        first, last = (quantity(name, value[end])[1] for end in (0, -1))
        yield f"{quantity(name, value[0])[0]} {first}..{last}"
    else:
        yield " ".join(quantity(name, value))


def quantity(name: str, value: float) -> tuple[str, str]:
    """What *name* stands for in words, and *value* in the unit that it ends with."""
    if name.endswith("bytes_per_s"):
        return _words(name, "_bytes_per_s"), prefixed(value, "B/s")
    if name.endswith("flop_per_s"):
        return _words(name, "_flop_per_s"), prefixed(value, "FLOP/s")
    if name.endswith("_s"):
        return _words(name, "_s"), seconds(value)
    if name.endswith("_element_bytes"):
        return _words(name, "_element_bytes"), prefixed(value, "B")
    if name.endswith("_bytes") or name == "bytes_moved":
        return _words(name, "_bytes"), prefixed(value, "B")
    return _words(name, ""), _count(value)


def _words(name: str, unit: str) -> str:
    return IN_WORDS.get(name, name.removesuffix(unit).replace("_", " "))


def _count(value: float) -> str:
    """A number without a unit: three figures, large ones in full; yes and no."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    is_long = float(value).is_integer() or abs(value) >= THREE_FIGURES
    return f"{value:.0f}" if is_long and abs(value) < WIDE else f"{value:.3g}"


def _range(domain: Mapping[str, Sequence[float]]) -> list[str]:
    """From where to where each size was fitted."""
    return [_bounds(name, low, high) for name, (low, high) in domain.items()]


def _bounds(name: str, low: float, high: float) -> str:
    words, first = quantity(name, low)
    return f"{words} {first}" if low == high else f"{words} {first}..{quantity(name, high)[1]}"


def _errors(curve: Mapping[str, Any]) -> Iterator[str]:
    yield from _error(curve["residual"])
    if "row_residual" in curve:
        yield "of rows:"
        yield from _error(curve["row_residual"])


def _error(residual: Mapping[str, Any]) -> Iterator[str]:
    if not residual["points"]:
        yield "not judged"
        return
    yield f"p50 {percent(residual['median'])}"
    yield f"p90 {percent(residual['p90'])}"
    yield f"{residual['points']} points"

"""Layout: the format of a file and where its columns are, as named or by its header."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from traces.requests import formats
from traces.requests.request_file_error import RequestFileError, printable
from traces.requests.request_format import RequestFormat, bare

AUTO = "auto"
# Characters of a header in a message.
MOST_SHOWN = 200


@dataclass(frozen=True)
class Layout:
    """A format by name, and the place in the header of each role."""

    name: str
    form: RequestFormat
    places: dict[str, int]


def layout_of(
    path: Path, header: tuple[str, ...], *, name: str = AUTO, needs_arrivals: bool = True
) -> Layout:
    """How to read a table with that *header*; raises RequestFileError where it is not plain."""
    names = formats.names() if name == AUTO else [name]
    fitting = list(_fitting(header, names))
    usable = [one for one in fitting if one.form.arrival or not needs_arrivals]
    if not usable:
        raise RequestFileError(path, _misfit(header, name, has_lengths=bool(fitting)))
    # A format of lengths reads the same columns as one with arrivals, which says more.
    readings = {(one.places["prompt"], one.places["output"]): one for one in reversed(usable)}
    if len(readings) > 1:
        kinds = " and ".join(sorted(one.name for one in readings.values()))
        raise RequestFileError(path, f"fits the formats {kinds}: name one. {_shown(header)}")
    layout = _most_telling(usable)
    _check_unique(path, header, layout)
    return layout


def _fitting(header: tuple[str, ...], names: Iterable[str]) -> Iterable[Layout]:
    for name in names:
        form = formats.request_format(name)
        places = form.places(header)
        if places is not None:
            yield Layout(name, form, places)


def _most_telling(usable: list[Layout]) -> Layout:
    return max(usable, key=lambda one: len(one.places))


def _misfit(header: tuple[str, ...], name: str, *, has_lengths: bool) -> str:
    if has_lengths:
        return (
            "has lengths and no arrivals: it can be the lengths of a generated load (poisson, "
            f"gamma, constant). {_shown(header)}"
        )
    if name != AUTO:
        form = formats.request_format(name)
        return f"lacks columns of the format {name} ({form}). {_shown(header)}"
    known = "; ".join(f"{each}: {formats.request_format(each)}" for each in formats.names())
    return f"is of no known format ({known}). {_shown(header)}"


def _check_unique(path: Path, header: tuple[str, ...], layout: Layout) -> None:
    names = [bare(name) for name in header]
    for place in layout.places.values():
        if names.count(names[place]) > 1:
            raise RequestFileError(path, f"has the column {header[place]} twice. {_shown(header)}")


def _shown(header: tuple[str, ...]) -> str:
    text = ", ".join(header)
    cut = text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}..."
    return f"Its header: {printable(cut)}"

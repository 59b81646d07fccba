"""Numbers as people read them."""

_PREFIXES = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_SECONDS = (
    (1e-9, 1e12, "ps"),
    (1e-6, 1e9, "ns"),
    (1e-3, 1e6, "us"),
    (1.0, 1e3, "ms"),
    (120.0, 1.0, "s"),
)

MOST_MINUTES_S = 7200.0
# Larger numbers with three figures would round to this or beyond.
LEAST_WHOLE = 999.5


def seconds(value: float | None) -> str:
    """Seconds as ps, ns, us, ms, s, min or h with three figures."""
    if value is None:
        return "-"
    if value == 0:
        return "0 us"
    for limit, factor, unit in _SECONDS:
        if value < limit:
            return f"{figure(value * factor)} {unit}"
    return f"{figure(value / 60)} min" if value < MOST_MINUTES_S else f"{figure(value / 3600)} h"


def figure(value: float | None) -> str:
    """A number with three significant figures, or all of its whole ones; never as 1.1e+03."""
    if value is None:
        return "-"
    return f"{value:.3g}" if abs(value) < LEAST_WHOLE else f"{value:.0f}"


def prefixed(value: float, unit: str) -> str:
    """A number with an SI prefix and three figures."""
    for factor, prefix in _PREFIXES:
        if value >= factor:
            return f"{figure(value / factor)} {prefix}{unit}"
    return f"{figure(value)} {unit}"


def percent(share: float) -> str:
    """A share as a percentage with one decimal."""
    return f"{100 * share:.1f} %"

"""Numbers as people read them."""

_PREFIXES = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_SECONDS = (
    (1e-9, 1e12, "ps"),
    (1e-6, 1e9, "ns"),
    (1e-3, 1e6, "us"),
    (1.0, 1e3, "ms"),
    (120.0, 1.0, "s"),
)


def seconds(value: float | None) -> str:
    """Seconds as ps, ns, us, ms, s or min with three figures."""
    if value is None:
        return "-"
    if value == 0:
        return "0 us"
    for limit, factor, unit in _SECONDS:
        if value < limit:
            return f"{value * factor:.3g} {unit}"
    return f"{value / 60:.3g} min"


def prefixed(value: float, unit: str) -> str:
    """A number with an SI prefix and three figures."""
    for factor, prefix in _PREFIXES:
        if value >= factor:
            return f"{value / factor:.3g} {prefix}{unit}"
    return f"{value:.3g} {unit}"


def percent(share: float) -> str:
    """A share as a percentage with one decimal."""
    return f"{100 * share:.1f} %"

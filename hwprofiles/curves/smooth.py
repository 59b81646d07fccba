"""Smooth maxima, and the test that a size lies where a curve was fitted."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from hwprofiles.quantities import Domain, FloatArray

MOST_DIRECT_POWER = 16.0
PYTHAGOREAN_POWER = 2.0


def p_norm(first: FloatArray, second: FloatArray, *, power: float) -> FloatArray:
    """(first^power + second^power)^(1/power): between the larger of the two and their sum.

    *power* is at least 1; both arrays are non-negative and broadcast together.
    """
    larger = np.maximum(first, second)
    # Scaled by the larger one, so that no power can overflow or lose a tiny time.
    ratio = np.minimum(first, second) / np.where(larger > 0, larger, 1.0)
    scaled: FloatArray = larger * (1.0 + ratio**power) ** (1.0 / power)
    return scaled


def p_norm_of_times(first: FloatArray, second: FloatArray, *, power: float) -> FloatArray:
    """`p_norm` of times in seconds, to rounding, and quicker.

    Not scaled, since the 16th power of an attosecond is still a number.
    """
    if power > MOST_DIRECT_POWER:
        return p_norm(first, second, power=power)
    if power == PYTHAGOREAN_POWER:
        return np.hypot(first, second)
    # Powers as arrays: numbers take longer beside short arrays than the powers themselves.
    exponent = np.asarray(power)
    total = np.power(first, exponent)
    total += np.power(second, exponent)
    root: FloatArray = np.power(total, np.asarray(1.0 / power))
    return root


def outside_domain(domain: Domain, values: Mapping[str, npt.ArrayLike]) -> list[str]:
    """One sentence for each of *values* that leaves its range in *domain*; empty when none does.

    A value of zero is never outside: it stands for work that is not there.
    """
    sentences = []
    for name, value in values.items():
        low, high = domain[name]
        array = np.asarray(value, dtype=np.float64)
        sizes = array[array != 0]
        if sizes.size and (sizes.min() < low or sizes.max() > high):
            span = f"{sizes.min():g}" if np.ptp(sizes) == 0 else f"{sizes.min():g}..{sizes.max():g}"
            sentences.append(f"{name} = {span}, fitted on {low:g}..{high:g}")
    return sentences

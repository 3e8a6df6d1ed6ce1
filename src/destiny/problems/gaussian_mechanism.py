"""The analytic Gaussian mechanism of Balle & Wang (ICML 2018)."""

from __future__ import annotations

import math
from functools import cache

HALVINGS = 100  # of an interval [x, 2 x]: more than the 53 bits of a float


def gaussian_delta(epsilon: float, ratio: float) -> float:
    """The smallest delta of the Gaussian mechanism: Theorem 8 of Balle & Wang (2018), exact.

    With r = ``ratio``, the standard deviation of the noise over the sensitivity in the 2-norm, it is
    Phi(1/(2r) - epsilon r) - exp(epsilon) Phi(-1/(2r) - epsilon r), computed by logarithms: no difference of
    two numbers near 1 where delta is small.
    """
    from scipy.special import log_ndtr

    above = float(log_ndtr(0.5 / ratio - epsilon * ratio))
    below = epsilon + float(log_ndtr(-0.5 / ratio - epsilon * ratio))
    return -math.exp(above) * math.expm1(min(below - above, 0.0))


@cache
def noise_ratio(epsilon: float, delta: float) -> float:
    """The least standard deviation over sensitivity that is (epsilon, delta)-private, by bisection.

    `gaussian_delta` falls as the ratio grows. What is returned is the upper end of the last interval:
    ``gaussian_delta(epsilon, noise_ratio(epsilon, delta)) <= delta``.
    """
    high = 1.0
    while gaussian_delta(epsilon, high) > delta:
        high *= 2
    while gaussian_delta(epsilon, high / 2) <= delta:
        high /= 2
    low = high / 2
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if gaussian_delta(epsilon, middle) <= delta else (middle, high)
    return high

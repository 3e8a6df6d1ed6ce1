"""Audits of exact bits: somebody who knows the code and all rows but one asks which table a release fits."""

import hashlib
import math

import numpy as np
import scipy.stats
from scipy.special import ndtr, ndtri

TRIES = 600


def noise_of_floats(seed: int, count: int) -> np.ndarray:
    """Normal numbers by quantiles in float64: 2^54 different ones, so that many sums are out of reach."""
    words = np.frombuffer(hashlib.shake_256(f"{seed}".encode()).digest(8 * count), dtype="<u8")
    lower = ndtri(((words >> np.uint64(11)) + 0.5) * 2.0**-54)
    return np.where(words & np.uint64(1), -lower, lower)


def possible_in_floats(released: np.ndarray, sums: np.ndarray, s: float) -> float:
    """The share of the numbers that these sums and some noise of `noise_of_floats` give, bit by bit."""
    noise = (released - sums) / s
    near = np.rint(ndtr(-np.abs(noise)) * 2.0**54 - 0.5)[:, None] + np.arange(-40, 41)
    values = sums[:, None] - np.sign(noise)[:, None] * (s * ndtri((near + 0.5) * 2.0**-54))
    return float(np.mean((values == released[:, None]).any(axis=1)))


def possible_in_units(released: np.ndarray, sums: np.ndarray, units: np.ndarray) -> float:
    """The same for sums and noise of whole numbers of units."""
    noise = np.rint(released / units - 0.5).astype(np.int64) - sums
    return float(np.mean(((sums + noise) + 0.5) * units == released))


def finds_out(present: int, shares: list[float], distances: list[float]) -> bool:
    """Whether the guess is right: the table that is possible, and of two that are the nearer one."""
    return present == int(shares[1] > shares[0] if shares[0] != shares[1] else distances[1] < distances[0])


def two_tables(n: int) -> list[np.ndarray]:
    """Without and with the row whose presence is the question: as long as the bound, in all columns."""
    others = np.random.default_rng(n).standard_normal((20, n))
    others *= 1.9 / np.linalg.norm(others, axis=1, keepdims=True)
    return [others, np.r_[others, np.full((1, n), 2.0 / math.sqrt(n))]]


def most_guesses(epsilon: float, delta: float) -> int:
    """Right guesses of all tries that (epsilon, delta) allow, but for bad luck of one in a million."""
    allowed = (math.exp(epsilon) + delta) / (1 + math.exp(epsilon))
    return int(scipy.stats.binom.ppf(1 - 1e-6, TRIES, allowed))

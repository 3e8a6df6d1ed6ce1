"""The number of components, chosen by the variances: a share of their sum, or the most likely number."""

from __future__ import annotations

import math
from typing import Any, TypeGuard

import numpy as np
from scipy.special import gammaln

from destiny.errors import ProblemError
from destiny.protocols import Array
from destiny.validation import is_number

MLE = "mle"
LARGEST = 2000  # features: the covariance of 2,000 takes 16 MB a message
NONE = 1e-15  # a variance below it is none, as in scikit-learn


def is_rule(n_components: Any) -> TypeGuard[float | str]:
    """Whether the number of components follows from the variances."""
    return n_components == MLE or (
        isinstance(n_components, float) and is_number(n_components) and 0 < n_components < 1
    )


def require_rows(rule: float | str, m: float, n: int) -> None:
    """Raise ProblemError for "mle" with fewer rows m than features n."""
    if isinstance(rule, str) and m < n:
        raise ProblemError(
            f'n_components="mle" needs at least as many rows as features; found {m:g} rows and {n} features: '
            "give a number, or a share of the variance"
        )


def count(rule: float | str, variances: Array, total: float, m: float, most: int) -> int:
    """The number of components by a rule, from 1 to ``most``, for m rows with these variances, falling."""
    if isinstance(rule, str):
        return most_likely(variances, m)
    shares = np.cumsum(variances[:most]) / (total or 1.0)
    return min(most, int(np.searchsorted(shares, rule, side="right")) + 1)


def most_likely(variances: Array, m: float) -> int:
    """The number of components with the largest evidence, by Laplace's method (Minka 2000)."""
    n = len(variances)
    evidence = [log_evidence(variances, k, m) for k in range(1, n)]
    return 1 + int(np.argmax(evidence)) if evidence else 1


def log_evidence(variances: Array, k: int, m: float) -> float:
    """log p(data | k components) up to what does not depend on k, for 1 <= k < n (Minka 2000, eq. 80)."""
    n = len(variances)
    if variances[k - 1] < NONE:
        return -math.inf
    noise = max(NONE, float(variances[k:].mean()))
    halves = np.arange(n - k + 1, n + 1) / 2
    prior = np.sum(gammaln(halves) - halves * math.log(math.pi)) - k * math.log(2)
    fit = -m / 2 * (np.sum(np.log(variances[:k])) + (n - k) * math.log(noise))
    free = n * k - k * (k + 1) / 2  # parameters of k orthonormal directions
    model = np.where(np.arange(n) < k, variances, noise)
    i, j = np.triu_indices(n, 1)
    i, j = i[i < k], j[i < k]
    gaps = (1 / model[j] - 1 / variances[i]) * (variances[i] - variances[j])
    volume = np.sum(np.log(np.maximum(gaps, np.finfo(np.float64).tiny))) + free * math.log(m)
    return float(prior + fit + (free + k) / 2 * math.log(2 * math.pi) - volume / 2 - k / 2 * math.log(m))

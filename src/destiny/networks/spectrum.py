"""How fast a mixing matrix averages: its spectral gap, for ten agents or a hundred thousand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.sparse import csr_array, eye_array

from destiny.networks.links import components, tidy
from destiny.protocols import Array

DENSE = 1000  # agents; up to here a dense eigenvalue solve takes well under a second
RESIDUAL = 1e-10  # of an eigenpair, relative; the eigenvalue itself is then good to 1e-10 or better
RESTARTS = 150  # of Lanczos; a random 4-regular network of 100,000 needs some 60, a ring would need millions


def ends(W: csr_array[Any, Any]) -> tuple[float, float]:
    """1 + lambda_min and 1 - lambda_2 of W, symmetric with rows that sum to 1; the eigenvalue 1 is left out.

    Above 1000 agents the first may be only a lower bound, if that is at least the second.
    """
    agents = W.shape[0]
    if agents == 1:
        return 1.0, 1.0
    if agents <= DENSE:
        low, high = np.linalg.eigvalsh(W.toarray() - 1 / agents)[[0, -1]]
        return float(1 + low), float(1 - high)
    above = _above(W)
    # Gershgorin bounds the eigenvalues of I + W from below: that end of the spectrum seldom needs a solve
    own = W.diagonal()
    below = float((1 + own + np.abs(own) - abs(W).sum(axis=1)).min())
    return (below if below >= above else _below(W)), above


def lowest(W: csr_array[Any, Any]) -> float:
    """Smallest eigenvalue of W, or a lower bound where W has more than 1000 agents."""
    return ends(W)[0] - 1


def gap(W: csr_array[Any, Any]) -> float:
    """1 - ||W - 11^T/d||_2 for symmetric W with rows that sum to 1; 0 or less if W does not average."""
    if components(tidy(np.stack(W.nonzero(), axis=1), W.shape[0]), W.shape[0]).any():
        return 0.0
    return min(ends(W))


def _above(W: csr_array[Any, Any]) -> float:
    """1 - lambda_2(W)."""
    fast = _lanczos(lambda x: x + W @ x - x.mean(), W.shape[0])
    if fast is not None:
        return fast
    # I - W is singular along the all-ones vector; without one agent it is not, and factors cheaply where
    # Lanczos is slow: on long, thin networks
    return _inverse(eye_array(W.shape[0], format="csr") - W, skip=1)


def _below(W: csr_array[Any, Any]) -> float:
    """1 + lambda_min(W)."""
    fast = _lanczos(lambda x: x - W @ x + x.mean(), W.shape[0])
    return _inverse(eye_array(W.shape[0], format="csr") + W, skip=0) if fast is None else fast


def _lanczos(apply: Callable[[Array], Array], agents: int) -> float | None:
    """2 - (largest eigenvalue), or None if Lanczos is too slow or the result is as small as the residual."""
    from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

    operator = LinearOperator((agents, agents), matvec=lambda x: apply(x.ravel()), dtype=np.float64)
    try:
        top = eigsh(
            operator,
            k=1,
            which="LA",
            tol=RESIDUAL,
            maxiter=RESTARTS,
            v0=_start(agents),
            return_eigenvectors=False,
        )
    except ArpackNoConvergence:
        return None
    distance = float(2 - top[0])
    # a gap near the residual could belong to another eigenvalue of the same cluster: 1e4 leaves four digits
    return distance if abs(distance) > 1e4 * RESIDUAL else None


def _inverse(A: csr_array[Any, Any], skip: int) -> float:
    """Smallest eigenvalue of A on vectors of mean zero, by Lanczos on the inverse; 0 if A is indefinite."""
    from scipy.sparse.linalg import LinearOperator, eigsh, splu

    agents = A.shape[0]
    try:
        lu = splu(
            A[skip:, skip:].tocsc(),
            permc_spec="MMD_AT_PLUS_A",
            diag_pivot_thresh=0,
            options={"SymmetricMode": True},
        )
    except RuntimeError:  # exactly singular
        return 0.0
    if (lu.U.diagonal() <= 0).any():  # as many negative pivots as negative eigenvalues (Sylvester)
        return 0.0

    def solve(x: Array) -> Array:
        y: Array = np.zeros(agents)
        y[skip:] = lu.solve((x.ravel() - x.mean())[skip:])
        y -= y.mean()
        return y

    operator = LinearOperator((agents, agents), matvec=solve, dtype=np.float64)
    top = eigsh(operator, k=1, which="LA", tol=RESIDUAL, v0=_start(agents), return_eigenvectors=False)
    return float(1 / top[0])


def _start(agents: int) -> Array:
    """A random first vector ``(d,)``, the same in every process."""
    return np.random.default_rng(0).standard_normal(agents)

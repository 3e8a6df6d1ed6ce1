"""The constants of the paper's Section 3, sampled, and the bounds they give for beta and the step.

Suprema over a ball are estimated from below by a few points of it, so the true bounds are stricter still;
those of the penalty are exact. The step bounds are the printed ones with three numbers corrected: eta_9 has
2 lambda where 2 lambda^2 is printed, eta_11 has 48 where 12 is, C_2 has 12.1 where 12 is. L_g serves for G_i
and for grad g alike, as the proofs use it for both. docs/theory.md has the theorem.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from destiny.algorithms.blocks.curvature import curvature_along
from destiny.diagnosis.differences import Differences
from destiny.geometry import lagrangian
from destiny.geometry.stiefel import norm, polar
from destiny.protocols import Array

POINTS = 6  # of the ball; more raise the estimates by a few per cent
POWER_ITERATIONS = 4  # at each point
MARGIN = 2.0  # beta as a multiple of its bound, at which eta_4 is not zero


@dataclass(frozen=True)
class Theory:
    """Estimates of the constants, and the bounds they give.

    Attributes
    ----------
    radius : float
        Radius of the ball B, sqrt(7 d p / 6) + sqrt(d).
    C_0, M_g, L_g, L_f : float
        Estimates, from below.
    M_b, L_b : float
        Exact.
    beta : float
        Lower bound on beta (Assumption 3).
    eta : float
        Upper bound on the step at twice that beta.
    binding : str
        The name of the smallest of the twelve bounds on eta.
    """

    radius: float
    C_0: float
    M_g: float
    L_g: float
    L_f: float
    M_b: float
    L_b: float
    beta: float
    eta: float
    binding: str


def constants(differences: Differences, lambda_: float) -> Theory:
    """Return the constants, sampled where no closed form is known, and the bounds."""
    with np.errstate(all="ignore"):
        return _constants(differences, lambda_)


def _constants(differences: Differences, lambda_: float) -> Theory:
    d, (n, p) = differences.agents, differences.start.shape
    r = math.sqrt(7 * d * p / 6) + math.sqrt(d)
    rng = np.random.default_rng(0)
    ball = [
        r * X / norm(X)
        for X in (*rng.standard_normal((POINTS - 2, n, p)), *rank_one_matrices(differences.near, rng))
    ]

    def mean(X: Array) -> Array:
        return np.asarray(differences.hosted.gradient(differences.replicate(X)).mean(axis=0))

    def agents(X: Array) -> Array:
        return lagrangian.G(differences.hosted.gradient, X)

    def gradient_g(X: Array) -> Array:
        return lagrangian.gradient_h(lambda Y: mean(Y[0])[None], X, 0.0)

    M_g = L_g = L_f = 0.0
    for X in ball:
        everywhere = np.array(differences.replicate(X))
        M_g = max(M_g, float(norm(agents(everywhere)).max()))
        L_g = max(L_g, lipschitz(agents, everywhere), lipschitz(gradient_g, X[None]))
        cubic = lagrangian.cubic(X)
        L_f = max(L_f, float(norm(mean(X) - mean(cubic)) / norm(cubic - X)))
    # The region R reaches up to X^T X = (1 + 1 / (6 sqrt p)) I along the scaled manifold.
    edge = math.sqrt(1 + 1 / (6 * math.sqrt(p)))
    C_0 = max(
        float(norm(mean(lagrangian.cubic(edge * polar(X)))))
        for X in (differences.start, differences.near, *ball)
    )
    # X (X^T X - I) is largest, and bends most, where X has one column: r^3 - r and 3 r^2 - 1.
    M_b, L_b = r**3 - r, 3 * r**2 - 1
    beta = float(max((6 + 21 * C_0) / 5, 72 * (4 + 3 * M_g) / 5, 1 / L_b, 22 * np.float64(L_f) ** 2))
    H = agents(np.array(differences.replicate(differences.start)))
    spread = float(np.sqrt(np.sum((H - H.mean(axis=0)) ** 2)))
    bounds = step_bounds(MARGIN * beta, M_g, M_b, L_g + MARGIN * beta * L_b, lambda_, d, spread)
    binding = min(bounds, key=bounds.__getitem__)
    return Theory(r, C_0, M_g, L_g, L_f, M_b, L_b, beta, float(bounds[binding]), binding)


def step_bounds(
    beta: float, M_g: float, M_b: float, L: float, lambda_: float, d: int, spread: float
) -> dict[str, float]:
    """Return eta_1 .. eta_12 of Assumption 3 for L = L_g + beta L_b; infinite where lambda = 0."""
    beta, L = np.float64(beta), np.float64(L)  # data of absurd scale give infinity then, no error
    gap = 1 - lambda_**2
    C_1 = lambda_**2 * (1 + lambda_**2) / gap
    C_2 = 12.1 * (1 + lambda_**2) * L**2 / gap
    C_D = spread + 3 * math.sqrt(d) / (1 - lambda_) + math.sqrt(d) * (M_g + beta * M_b)
    rho = 3 * gap / (16 * C_2)
    return {
        "eta_1": 216 / (49 * beta**2),
        "eta_2": 12 / (7 * beta),
        "eta_3": 1 / (18 * (4 + 3 * M_g)),
        "eta_4": (5 * beta / 72 - 4 - 3 * M_g) / (1 + M_g) ** 2,
        "eta_5": ratio(math.sqrt(d) * (1 - lambda_), L * lambda_ * C_D),
        "eta_6": math.sqrt(d) / (L * C_D),
        "eta_7": 1 / (8 * L),
        "eta_8": 1 / (4 * rho * d * C_2),
        "eta_9": ratio(gap, 2 * lambda_ * L * math.sqrt(6 * (1 + lambda_**2))),
        "eta_10": math.sqrt(d * gap / (24 * L**3)),
        "eta_11": d * gap / (48 * L**2),
        "eta_12": math.sqrt(ratio(3 * rho * gap, 16 * C_1)),
    }


def ratio(a: float, b: float) -> float:
    """Return a / b, infinite for b = 0."""
    return a / b if b > 0 else math.inf


def rank_one_matrices(near: Array, rng: np.random.Generator) -> list[Array]:
    """Return two matrices of rank one, where the spectral norm is largest in a ball of the Frobenius norm."""
    p = near.shape[1]
    return [np.outer(u, np.eye(p)[0]) for u in (near[:, 0], rng.standard_normal(len(near)))]


def lipschitz(field: lagrangian.Function, X: Array) -> float:
    """Return the largest curvature of a field at X ``(k, n, p)``, by power iteration."""
    here = field(X)
    V = np.random.default_rng(1).standard_normal(X.shape)
    for _ in range(POWER_ITERATIONS):
        V = curvature_along(field, X, here, V)
    return float(norm(V).max())

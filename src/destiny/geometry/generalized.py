"""The generalized Stiefel manifold {X : X^T M X = I_p} of a positive definite M.

Z = L^T X with M = L L^T maps it to the Stiefel manifold: measures are those of Z, and independent of the
coordinates of X.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from destiny.errors import ProblemError
from destiny.geometry.stiefel import identity, polar, sym, transpose
from destiny.protocols import Array

SINGULAR = 1e-13  # smallest over largest eigenvalue, both of M with a unit diagonal: nothing but rounding
ROUGH = 1e-9  # the same ratio below which answers lose half of their digits


class SingularMatrixError(ProblemError):
    """M is not positive definite."""


def landing_point(X: Array, B: Array) -> Array:
    """X (3 I - B) / 2 with B = X^T M X: of an X near the manifold, a point quadratically nearer."""
    return X @ ((3 * identity(X.shape[-1]) - B) / 2)


def penalized_gradient(X: Array, MX: Array, gradient: Array, beta: Array | float) -> Array:
    """The gradient at X of f(X (3 I - B) / 2) + beta/4 ||B - I||^2 with B = X^T M X.

    ``gradient`` is that of f at `landing_point`. On stacks ``(agents, n, p)``.
    """
    B, I = sym(transpose(X) @ MX), identity(X.shape[-1])
    return gradient @ ((3 * I - B) / 2) - MX @ (sym(transpose(X) @ gradient) - beta * (B - I))


def polar_from(X: Array, MX: Array) -> Array:
    """X (X^T M X)^{-1/2} from X and M X, on stacks; NaN where X^T M X is not positive definite."""
    w, V = np.linalg.eigh(sym(transpose(X) @ MX))
    root = np.sqrt(np.where(w > 0, w, np.nan))
    return np.asarray(X @ (V / root[..., None, :] @ transpose(V)))


@dataclass(frozen=True)
class MassMatrix:
    """A positive definite M ``(n, n)`` with what measures need of it.

    Attributes
    ----------
    M : ndarray (n, n)
    L : ndarray (n, n)
        Lower triangular, M = L L^T.
    condition : float
        Largest over smallest eigenvalue of M with its diagonal scaled to 1.
    """

    M: Array
    L: Array
    condition: float

    @classmethod
    def of(cls, M: Array) -> MassMatrix:
        """Raise `ProblemError` if M is not positive definite beyond rounding."""
        diagonal = np.diagonal(M)
        size = np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
        values = np.linalg.eigvalsh(sym(M) / np.outer(size, size))
        if not (diagonal > 0).all() or not values[0] > SINGULAR * values[-1]:
            flat = int((diagonal <= 0).sum())
            why = f", and {flat} of its {len(M)} diagonal entries are not positive" if flat else ""
            raise SingularMatrixError(
                f"M = sum M_i of the constraint X^T M X = I must be positive definite; its eigenvalues, with "
                f"the diagonal scaled to 1, go from {values[0]:.1e} to {values[-1]:.1e}{why}: leave out "
                "coordinates that depend on others, or add a multiple of the identity to each M_i"
            )
        L: Array = np.linalg.cholesky(sym(M)).astype(np.float64, copy=False)
        return cls(M, L, float(values[-1] / values[0]))

    def whiten(self, X: Array) -> Array:
        """L^T X, on stacks."""
        return transpose(self.L) @ X

    def unwhiten(self, Z: Array) -> Array:
        """L^-T Z ``(n, p)``, the X with Z = L^T X."""
        from scipy.linalg import solve_triangular

        return np.asarray(solve_triangular(self.L, Z, lower=True, trans="T"))

    def gradient(self, G: Array) -> Array:
        """The gradient with respect to Z = L^T X, L^-1 G, of a G ``(n, p)`` with respect to X."""
        from scipy.linalg import solve_triangular

        return np.asarray(solve_triangular(self.L, G, lower=True))

    def polar(self, X: Array) -> Array:
        """X (X^T M X)^{-1/2} ``(n, p)``: the point of the manifold nearest to X in the norm of M."""
        return self.unwhiten(polar(self.whiten(X)))

    @property
    def note(self) -> str | None:
        """A sentence if the condition costs the answer half of its digits."""
        if self.condition * ROUGH < 1:
            return None
        return (
            f"M is nearly singular, with a condition of {self.condition:.0e} after scaling its diagonal: "
            "the answer has lost digits; add a multiple of the identity to M"
        )

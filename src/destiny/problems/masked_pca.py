"""Principal component analysis of data with missing entries, distributed over agents."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from destiny.errors import ProblemError
from destiny.problems.checks import check_ids, check_stack
from destiny.problems.data.partition import Partition, Source, split_rows
from destiny.problems.data.tables import Silos
from destiny.problems.table_problem import TableProblem
from destiny.protocols import Array
from destiny.validation import is_number

RIDGE = (
    0.01  # of 0.1, 0.01, 0.001 and 1e-6, on seeds 0 to 2 of the data of docs/problems.md; checked on 3 to 8
)
BLOCK = 2**20  # numbers of the samples' p x p systems computed at a time: 8 MiB


class MaskedPCA(TableProblem):
    """Principal component analysis on the entries that are there.

    Agent i holds ``A_i`` with gaps (NaN), and f_i(X) is the sum over its samples a of

        min_c  1/2 ||a - X c||^2 over the entries of a that are there + ridge/2 ||c||^2,

    the distance from the subspace as far as it was seen. Nothing is filled in and nothing is centered.
    Without gaps this is `PCA`, for any ridge: f_i(X) = const - 1/(2 (1 + ridge)) ||A_i X||_F^2. With gaps it
    may have local minima that are not global, the more, the more is missing and the smaller the ridge is.

    A gradient takes n p^2 operations for each sample.

    Parameters
    ----------
    silos : Silos, or sequence of ndarray (m_i, n) or of callables that return one
        One per agent, samples in rows, gaps are NaN; a callable is called when its agent is hosted. m_i
        may be zero.
    p : int
        Number of components, 1 <= p <= n.
    ridge : float
        Positive. It bounds the codes c of samples of which little was seen, and with them the curvature.
    scale : float
        Factor of the data.
    n : int, optional
        Number of features; needed only if every silo is a callable without a ``shape``.
    """

    kind: Literal["masked-pca"] = "masked-pca"
    title = "PCA with {p} components of data with gaps"

    def __init__(
        self,
        silos: Sequence[Source] | Silos,
        p: int,
        ridge: float = RIDGE,
        scale: float = 1.0,
        n: int | None = None,
    ) -> None:
        if not is_number(ridge) or ridge <= 0:
            raise ProblemError(f"ridge must be a positive number; found {ridge!r}; 0.01 is the default")
        super().__init__(silos, p, scale, n, gaps=True)
        self.ridge = float(ridge)

    def host(self, ids: Sequence[int]) -> HostedMaskedPCA:
        """The objectives of the agents ``ids``; reads the data of these agents only."""
        data = [self.rows(i).array() for i in check_ids(ids, self.agents)]
        return HostedMaskedPCA(data, self.shape, self.ridge)


class HostedMaskedPCA:
    """The objectives of the hosted agents, evaluated one after the other."""

    def __init__(self, data: Sequence[Array], shape: tuple[int, int], ridge: float) -> None:
        self._shape, self._ridge = shape, ridge
        self._data = [(np.nan_to_num(A, nan=0.0), (~np.isnan(A)).astype(np.float64)) for A in data]

    def value(self, X: Array) -> Array:
        """f_i(X_i), ``(agents,)``."""
        X = check_stack(X, len(self._data), self._shape)
        return np.array([sum(self._values(Xi, *pair)) for Xi, pair in zip(X, self._data, strict=True)])

    def gradient(self, X: Array) -> Array:
        """Euclidean gradients, ``(agents, n, p)``: -R_i^T C_i with the residuals R_i and the codes C_i."""
        X = check_stack(X, len(self._data), self._shape)
        out = np.zeros_like(X)
        for gradient, Xi, (A, seen) in zip(out, X, self._data, strict=True):
            for C, R in fits(Xi, A, seen, self._ridge):
                gradient -= R.T @ C
        return out

    def _values(self, X: Array, A: Array, seen: Array) -> Iterator[float]:
        for C, R in fits(X, A, seen, self._ridge):
            yield 0.5 * float(np.sum(R * R) + self._ridge * np.sum(C * C))


def fits(X: Array, A: Array, seen: Array, ridge: float | Array) -> Iterator[tuple[Array, Array]]:
    """Yield the codes ``(m', p)`` and residuals ``(m', n)`` of the samples, some samples at a time.

    ``A`` has zeros at its gaps, ``seen`` is 1 where there are entries, 0 at gaps; both ``(m, n)``.
    ``ridge`` is that of all codes, or ``(p,)`` that of each.
    """
    n, p = X.shape
    squares = (X[:, :, None] * X[:, None, :]).reshape(n, p * p)
    step = max(1, BLOCK // (p * p))
    for start in range(0, len(A), step):
        some = slice(start, start + step)
        systems = (seen[some] @ squares).reshape(-1, p, p) + ridge * np.eye(p)
        C: Array = np.linalg.solve(systems, (A[some] @ X)[:, :, None])[:, :, 0].astype(np.float64)
        yield C, A[some] - seen[some] * (C @ X.T)


def from_data(
    A: NDArray[Any], p: int, agents: Partition, ridge: float = RIDGE, scale: float = 1.0
) -> MaskedPCA:
    """`MaskedPCA` of the rows of ``A`` ``(m, n)``, divided over ``agents`` as in `pca.from_data`."""
    return MaskedPCA(split_rows(A, agents), p, ridge, scale)

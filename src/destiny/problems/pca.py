"""Principal component analysis of data held by many agents."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from destiny.errors import ProblemError
from destiny.problems.checks import check_ids, check_p, check_scale, check_seed, check_size
from destiny.problems.data.partition import Agents, Shift, Silos, Source, deal
from destiny.problems.quadratic import Quadratic, moments
from destiny.problems.sums import Summable
from destiny.protocols import Array

GRAM = 1000  # features; up to here the pooled n x n matrix of 60,000 samples takes a few seconds
SHOWN, MOST = 12, 60  # leading eigenvalues in a portrait: 3 p, within these


class PCA(Summable):
    """Principal component analysis, problem (1.3) of the paper.

    Agent i holds ``A_i`` and f_i(X) = -1/2 tr(X^T A_i A_i^T X), with gradient -A_i A_i^T X. Nothing is
    divided by m_i and nothing is centred (`destiny.problems.centred` does that); the mean over the agents is
    taken outside.

    Parameters
    ----------
    silos : sequence of ndarray (n, m_i), or of callables that return one
        One per agent, samples in columns; a callable is called when its agent is hosted. m_i may be zero.
    p : int
        Number of components, 1 <= p <= n.
    scale : float
        Factor of the data.
    n : int, optional
        Number of features; needed only if every silo is a callable without a ``shape``.
    """

    kind: Literal["pca"] = "pca"

    def __init__(self, silos: Sequence[Source], p: int, scale: float = 1.0, n: int | None = None) -> None:
        self._silos = Silos(silos, rows=n)
        self._p = check_p(p, self._silos.rows)
        self.scale = check_scale(scale)

    @property
    def shape(self) -> tuple[int, int]:
        """(n, p)."""
        return self._silos.rows, self._p

    @property
    def agents(self) -> int:
        """d."""
        return len(self._silos)

    @property
    def column_names(self) -> dict[str, tuple[str, ...]]:
        """Names of the features, if the files have a header."""
        return {"data": self._silos.names} if self._silos.names else {}

    def host(self, ids: Sequence[int]) -> Quadratic:
        """The objectives of the agents ``ids``; reads their silos and no others."""
        pairs = ((self._silos.load(i), None) for i in check_ids(ids, self.agents))
        return Quadratic(pairs, self.shape, factor=-0.5, scale=self.scale)

    @property
    def tables(self) -> tuple[Silos, ...]:
        """What the agents hold: their data."""
        return (self._silos,)

    def less(self, *shifts: Mapping[int, Shift]) -> PCA:
        """The same problem with the data of some agents shifted."""
        shifted = copy.copy(self)
        (shifted._silos,) = (table.less(s) for table, s in zip(self.tables, shifts, strict=True))
        return shifted

    def variance(self, agent: int) -> float:
        """||A_i||_F^2, of which -2 f_i(X) is the part in span(X)."""
        data = self._silos.load(agent)
        return float(self.scale**2 * sum(np.vecdot(row, row) for row in data.astype(np.float64, copy=False)))

    def describe(self) -> str:
        """The problem in one sentence."""
        return f"PCA with {self._p} components: {self._silos.describe()}."

    def portrait(self, answers: Mapping[str, Array]) -> dict[str, Any]:
        """For a report: the leading eigenvalues of sum_i A_i A_i^T, and those each answer ``(n, p)`` finds.

        Like `solution` this pools the data: it is for looking at, out of band. Above 1000 features the
        eigenvalues are left out, as they would take longer than a run.
        """
        n, p = self.shape
        total = np.zeros((n, n)) if n <= GRAM else None
        found = {label: np.zeros((p, p)) for label, X in answers.items() if np.isfinite(X).all()}
        for agent in range(self.agents):
            A = self._silos.load(agent)
            if total is not None:
                total += moments(A, None, self.scale)[0]
            for label in found:
                Y = self.scale * (answers[label].T @ A)
                found[label] += Y @ Y.T
        spectrum: dict[str, Any] = {
            "found": {k: np.linalg.eigvalsh(S)[::-1].tolist() for k, S in found.items()}
        }
        if total is not None:
            leading = min(n, max(SHOWN, min(3 * p, MOST)))
            values = scipy.linalg.eigh(total, eigvals_only=True, subset_by_index=(n - leading, n - 1))
            spectrum["pooled"] = values[::-1].tolist()
        return {"kind": self.kind, "spectrum": spectrum}


def from_data(A: NDArray[Any], p: int, agents: Agents, scale: float = 1.0) -> PCA:
    """PCA of the columns of ``A`` ``(n, m)``, dealt out to agents.

    ``agents`` is their number (equal parts in order), the list of their numbers of samples, or a list of
    index arrays.
    """
    return PCA(deal(A, agents), p, scale)


def synthetic(
    n: int, m: int, p: int, xi: float, agents: Agents, seed: int | Sequence[int] = 0, scale: float = 1.0
) -> PCA:
    """PCA of the data of section 4.1: A = U Sigma V^T with Sigma_ii = xi^(i/2), i = 1..n.

    U ``(n, n)`` and V ``(m, n)`` are orthonormalised Gaussian matrices, drawn in this order, so n <= m. A A^T
    has the eigenvalues xi^i; the closer xi is to 1, the harder the problem.

    Examples
    --------
    >>> problem = synthetic(n=20, m=90, p=2, xi=0.8, agents=4, seed=0)
    >>> problem.shape, problem.agents
    ((20, 2), 4)
    """
    n, m = check_size("n", n), check_size("m", m)
    if not 0 < xi <= 1:
        raise ProblemError(f"xi must lie in (0, 1]; found {xi}; it is the decay of the spectrum")
    if n > m:
        raise ProblemError(
            f"synthetic data need n <= m; found n = {n} and m = {m}; ask for at least n samples"
        )
    rng = np.random.default_rng(check_seed(seed))
    U, _ = np.linalg.qr(rng.standard_normal((n, n)))
    V, _ = np.linalg.qr(rng.standard_normal((m, n)))
    A = (U * xi ** (np.arange(1, n + 1) / 2)) @ V.T
    return from_data(A, p, agents, scale)


def solution(problem: PCA) -> Array:
    """The leading p eigenvectors of sum_i A_i A_i^T, ``(n, p)``, by falling eigenvalue.

    This pools the data of all agents in one place: it is the answer to compare with, not a way to find it.
    Each column's entry of largest magnitude is positive.
    """
    n, p = problem.shape
    total = np.zeros((n, n))
    for agent in range(problem.agents):
        total += moments(problem._silos.load(agent), None, problem.scale)[0]
    _, vectors = scipy.linalg.eigh(total, subset_by_index=(n - p, n - 1))
    X: Array = vectors[:, ::-1]
    return X * np.sign(np.take_along_axis(X, np.abs(X).argmax(axis=0)[None], axis=0))

"""Private PCA of many columns: noise is added to products with few vectors instead of n x n matrices."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from destiny.geometry.stiefel import random_point
from destiny.problems.checks import check_ids
from destiny.problems.integer_sums import FINE, Grid
from destiny.problems.low_rank import LowRank, LowRankHosted
from destiny.problems.pca import PCA, PrivatePCA, spectra
from destiny.problems.privacy import MOMENTS, VARIANCE, Privacy
from destiny.protocols import Array

LARGEST_SQUARE = 1000
"""Features up to which private PCA adds noise to n x n matrices; beyond, to products with few vectors.

The predicted noise along an axis, s sqrt(n) and 0.82 s sqrt(n), is about the same for every n, and so is what
was measured (notes/differential-privacy.md). So what n x n matrices cost decides: 2 s and 8 MB at each agent.
"""
# Chosen on MNIST, checked on CIFAR-10: notes/differential-privacy.md.
STEPS = 4  # products
FIRST, LEAST_FIRST = 12, 48  # vectors of the first product: times p, and at least
SPARE = 4  # vectors of the others: 2 p, and at least p + SPARE
PROJECTED = 0.5**0.5  # of the bound: the longest projection of a row on the vectors
RANDOM = 2.0  # the same for the first, random vectors, in units of its expectation for any row
TRACE = 0.01  # of the budget: for the total variance
SEED = 2411  # any fixed number: the first vectors must be equal at all agents

Sum = Callable[[Callable[[int], Array]], Array]
"""The exact sum over all agents of an array that each makes of its number."""


class PrivateProductsPCA(PrivatePCA):
    """Private PCA by noisy products: for so many columns that n x n matrices are too much; see `private`.

    In step t = 1, ..., T all agents know the same vectors Q_t ``(n, k)``. Agent i releases P_i = u^2 (sum_k
    z_k w_k^T + E_i), where u z_k are its samples as in `PrivatePCA`, w_k is Q_t^T z_k, shortened to a
    projected length c b and rounded, and E_i is rounded normal noise. Q_1 is random. Q_2 spans the range of
    the mean P of step 1. From the mean products of the later steps follows a matrix of low rank that fits
    them best (`LowRank.fit`). Its leading axes are the next Q_t, and it takes the place of the data in the
    end: all agents know it, and any method finds its axes.

    One sample more or less changes a product by z w^T, whose 2-norm ||z|| ||w|| is at most c b^2, whatever
    Q_t is, with or without centering: the mean is private already and the same for both tables. For Q_t
    with orthonormal columns ||Q_t^T z|| <= ||z||, so that c = 1 would shorten nothing and the bound would be
    b^2. The T products and the total variance share the budget (`Privacy.ratio`): they are one Gaussian
    mechanism after the other, each chosen by the answers to those before.
    """

    def __init__(self, problem: PCA, privacy: Privacy) -> None:
        super().__init__(problem, privacy)
        self._found: dict[bytes, LowRank] = {}

    @classmethod
    def fits(cls, shape: tuple[int, int]) -> bool:
        """Whether n x n matrices are too much, and no smaller than a product."""
        n, p = shape
        return n > max(LARGEST_SQUARE, FIRST * p)

    def host(self, ids: Sequence[int]) -> LowRankHosted:  # type: ignore[override]
        """The objectives of the agents ``ids``: all the same, once products have been released."""
        for agent in check_ids(ids, self.agents):
            self.data.load(agent)  # data that cannot be read are refused before anything is sent
        return LowRankHosted(lambda: self.matrix, len(ids), self.shape)

    def stand_in(self) -> LowRankHosted:
        """An objective of the same size that tells nothing."""
        n, p = self.shape
        return LowRankHosted(lambda: LowRank(random_point(n, p, SEED), np.arange(p, 0.0, -1)), 1, self.shape)

    @property
    def matrix(self) -> LowRank:
        """The mean over the agents of C_i, from products; pools the data if no run has found it."""
        if self._key not in self._found:
            self.adopt(self.find(lambda part: np.sum([part(i) for i in range(self.agents)], axis=0)))
        return self._found[self._key]

    def adopt(self, matrix: LowRank) -> None:
        """Take what a run has found."""
        self._found[self._key] = matrix

    @property
    def _key(self) -> bytes:
        """Data that are centered otherwise are other data."""
        return b"".join(shift.mean.tobytes() for shift in list(self.data.shifts.values())[:1])

    def find(self, total: Sum) -> LowRank:
        """The matrix, by `STEPS` products, each a ``total`` over all agents."""
        n, p = self.shape
        k = min(n, p + max(p, SPARE))
        units = (self.scale**2) / self.agents
        Q = _rounded(random_point(n, self.widths[0], SEED))
        vectors: list[Array] = []
        products: list[Array] = []
        variance = 0.0
        for step in range(STEPS):
            sums = total(lambda agent: self.release(agent, step, Q))  # noqa: B023 (called at once)
            Y = units * self.grid(step).unit ** 2 * sums[: Q.size].reshape(Q.shape)
            if step == 0:
                variance = units * self._trace_grid.unit**2 * float(sums[-1])
                matrix = LowRank.range_of(Y, k)
            else:
                vectors.append(Q / 2.0**FINE)
                products.append(Y)
                matrix = LowRank.fit(vectors, products, k)
            Q = _rounded(matrix.L)
        return matrix.with_variance(variance)

    def release(self, agent: int, step: int, Q: Any) -> Array:
        """What an agent tells in a step: whole numbers with noise, plus 1/2; exact in float64.

        The product, and in the first step the sum of squares of the samples.
        """
        data, grid = self.data.load(agent), self.grid(step)
        query = hashlib.sha256(repr(Q.shape).encode() + Q.tobytes()).digest()
        most = int(self._projected(step) * grid.length)
        told = grid.products(data, Q, most).ravel()
        told += self.source.draw(agent, f"product {step}", data, grid, Q.size, query)
        if step == 0:
            trace = self._trace_grid
            told = np.append(told, trace.squares(data) + self.source.draw(agent, VARIANCE, data, trace, 1))
        return np.asarray(told + 0.5)

    def grid(self, step: int) -> Grid:
        """The grid of a product: one row changes it by at most ``projected`` times length^2."""
        return Grid.of(self.privacy.bound, self.ratio, self.agents, 2, self._projected(step), short=True)

    @property
    def _trace_grid(self) -> Grid:
        ratio = self.privacy.ratio(MOMENTS, self.centered, self.agents, TRACE)
        return Grid.of(self.privacy.bound, ratio, self.agents, 2, short=True)

    def _projected(self, step: int) -> float:
        """c: what the projections of rows on the vectors of a step are shortened to, times the bound."""
        n = self.shape[0]
        return PROJECTED if step else min(1.0, RANDOM * (self.widths[0] / n) ** 0.5)

    @property
    def widths(self) -> tuple[int, ...]:
        """Vectors in the product of each step."""
        n, p = self.shape
        return min(n, max(FIRST * p, LEAST_FIRST)), *[min(n, p + max(p, SPARE))] * (STEPS - 1)

    @property
    def ratio(self) -> float:
        """Of noise to what one row can change, in each product."""
        return self.privacy.ratio(MOMENTS, self.centered, self.agents, (1 - TRACE) / STEPS)

    @property
    def noise_scale(self) -> float:
        """The standard deviation of each entry of an agent's noise, after the first step."""
        grid = self.grid(1)
        return grid.unit**2 * 2.0**grid.bits

    @property
    def noise_edge(self) -> float:
        """The largest singular value of the mean noise of one product."""
        n, k = self.shape[0], self.widths[-1]
        return float(self.scale**2 * self.noise_scale * (n**0.5 + k**0.5) / self.agents**0.5)

    @property
    def promise(self) -> str:
        """What is promised, and by which noise."""
        first, *others = self.widths
        return (
            f"{self.privacy}; noise of r = {self.ratio:.3g} times what one row can change in each of "
            f"T = {STEPS} products, with {first} vectors and then {others[0]}"
        )

    def second_moments(self, agent: int) -> Array:  # noqa: ARG002
        """The matrix that takes the place of every agent's, ``(n, n)``."""
        return self.matrix.dense()

    def restricted(self, basis: Array) -> Array:
        """B^T C B."""
        return np.asarray(basis.T @ (self.matrix @ basis))

    def variance(self, agent: int) -> float:  # noqa: ARG002
        """The mean total variance, of which -2 f(X) is the part in span(X); with noise."""
        return self.matrix.variance

    def portrait(self, answers: Mapping[str, Array]) -> dict[str, Any]:
        """As `PCA.portrait`, of the matrix with noise."""
        total, p = self.matrix, self.shape[1]
        finite = {label: X for label, X in answers.items() if np.isfinite(X).all()}
        projected = {label: self.agents * (X.T @ (total @ X)) for label, X in finite.items()}
        return spectra(None, projected, p)


PrivatePCA.many_columns = PrivateProductsPCA


def _rounded(Q: Array) -> Any:
    """Whole numbers, 2^FINE for 1: agents whose last bits differ know the same vectors."""
    return np.rint(Q * 2.0**FINE).astype(np.int64)

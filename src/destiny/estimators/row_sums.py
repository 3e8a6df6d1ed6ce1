"""Sums over rows that agents average for PCA: exact, over rows with gaps, or with the noise of privacy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Protocol

import numpy as np
from scipy.sparse import issparse

from destiny.errors import ProblemError, SettingsError
from destiny.estimators.known_entries import sums_and_weights
from destiny.estimators.samples import Moments, fit_rows_with_gaps
from destiny.estimators.session import FitSession
from destiny.problems import PCA, MaskedPCA, Privacy
from destiny.problems.data.partition import Shift
from destiny.problems.data.rows import Rows
from destiny.problems.pca import PrivatePCA, private
from destiny.problems.private_products import PrivateProductsPCA
from destiny.protocols import Array, ProblemBase


class RowSums(Protocol):
    """Sums over the rows of each agent of this process; `center` comes before the last three."""

    rough: ProblemBase | None
    """A problem whose answer is a good start for that of `center`; None if any start will do."""

    def totals(self, agent: int) -> Array:
        """Sums of the columns ``(n,)``, the weight of the rows, and what else the means need."""

    def count(self, totals: Array, m: float) -> int:
        """The number of rows of all agents, from averages of `totals` and the sum of the weights."""

    def mean(self, totals: Array) -> Array:
        """The mean from averages of `totals`, ``(n,)``."""

    def center(self, means: Mapping[int, Array], p: int) -> ProblemBase:
        """The problem to solve, once each agent of this process knows the mean."""

    def moments(self, agent: int, basis: Array | None) -> Array:
        """Second moments of the centered rows, along the columns of ``basis`` if there is one."""

    def rest(self, agent: int) -> Array:
        """Numbers from whose averages `total` follows; asked for after `moments`."""

    def total(self, variance: Array, rest: Array, m: float, n: int) -> float:
        """The variance of all n columns, from those of the components and averages of `rest`, over m - 1."""


class ExactSums:
    """Sums over complete rows, or from the moments of rows."""

    rough: ProblemBase | None = None

    def __init__(self, session: FitSession, samples: Mapping[int, Rows | Moments]) -> None:
        self.session, self.samples = session, samples
        self.counted = bool(session.weights) or session.partial  # weights may be smaller than 1

    def totals(self, agent: int) -> Array:
        """Sums of the columns, the weight of the rows and, if it may differ from that, their number."""
        sample = self.samples[agent]
        return np.concatenate(
            [sample.weighted_sums(), [sample.weight], [sample.count] if self.counted else []]
        )

    def count(self, totals: Array, m: float) -> int:
        """At least the sum of the weights: a row of weight 3 counts as three rows."""
        return max(int(m), round(float(totals[-1]) * self.session.agents))

    def mean(self, totals: Array) -> Array:
        """The sums of the columns, divided by the weight."""
        n = len(totals) - 1 - self.counted
        return np.asarray(totals[:n] / totals[n])

    def center(self, means: Mapping[int, Array], p: int) -> ProblemBase:
        """PCA of rows less their mean."""
        self.rows = {i: sample.about(means[i]) for i, sample in self.samples.items()}
        (n,) = next(iter(means.values())).shape
        return PCA(self.session.sources(self.rows), p, n=n)

    def moments(self, agent: int, basis: Array | None) -> Array:
        """Second moments of the centered rows."""
        return self.rows[agent].gram(basis)

    def rest(self, agent: int) -> Array:
        """The sum of the squares of the centered rows."""
        return np.array([self.rows[agent].squared_norm()])

    def total(self, variance: Array, rest: Array, m: float, n: int) -> float:  # noqa: ARG002
        """The average of `rest` itself."""
        return float(rest[0])


class GapSums:
    """Sums over the known entries of rows with gaps (NaN)."""

    rough: ProblemBase | None = None

    def __init__(self, session: FitSession, name: Callable[[int], str] = str) -> None:
        """``name`` names a column by its number, in messages."""
        if any(map(issparse, session.rows.values())):
            raise SettingsError('missing="ignore" needs dense rows; found sparse ones: give X.toarray()')
        self.session, self.name = session, name
        self.rests: dict[int, Array] = {}

    def totals(self, agent: int) -> Array:
        """Sums of the columns, the weight of the rows, their number, and the weight of each column."""
        rows = self.session.weighted_rows(agent)
        sums, seen = sums_and_weights(rows.table, rows.weights)
        return np.concatenate([sums, [rows.weight, rows.count], seen])

    def count(self, totals: Array, m: float) -> int:
        """As in `ExactSums`; raise ProblemError if a column has no entry at any agent."""
        n = (len(totals) - 2) // 2
        if not totals[-n:].all():
            raise ProblemError(
                "every column must have an entry at some agent; found none in column "
                f"{self.name(int(totals[-n:].argmin()))}: leave it out"
            )
        return max(int(m), round(float(totals[n + 1]) * self.session.agents))

    def mean(self, totals: Array) -> Array:
        """The mean of the known entries of each column."""
        n = (len(totals) - 2) // 2
        return np.asarray(totals[:n] / totals[-n:])

    def center(self, means: Mapping[int, Array], p: int) -> ProblemBase:
        """Distances from the subspace at the entries; `rough` is PCA with means in place of gaps."""
        (n,) = next(iter(means.values())).shape
        if p == n:
            raise SettingsError(f'missing="ignore" needs n_components below n_features; found {p} of {n}')
        session = self.session
        self.rows = {i: session.weighted_rows(i).about(means[i]).array() for i in session.rows}
        filled = {i: Rows(np.nan_to_num(rows)) for i, rows in self.rows.items()}
        self.rough = PCA(session.sources(filled), p, n=n)
        return MaskedPCA(session.sources({i: Rows(rows) for i, rows in self.rows.items()}), p, n=n)

    def moments(self, agent: int, basis: Array | None) -> Array:
        """Second moments of the coordinates of the rows in the subspace."""
        assert basis is not None  # p < n
        codes, *rest = fit_rows_with_gaps(self.rows[agent], basis, self.session.weights.get(agent))
        self.rests[agent] = np.array(rest)
        return np.asarray(codes.T @ codes)

    def rest(self, agent: int) -> Array:
        """Squared residuals at the entries, and the entries beyond p of each row."""
        return self.rests[agent]

    def total(self, variance: Array, rest: Array, m: float, n: int) -> float:
        """The total if residuals at gaps are, on average, like those at known entries."""
        p, (residuals, beyond) = len(variance), rest
        if not beyond:
            raise ProblemError(
                f"PCA with gaps needs rows with more than n_components = {p} entries; found none: take fewer "
                "components"
            )
        return float(variance.sum() + residuals * m * (n - p) / (beyond * (m - 1)))


class PrivateSums:
    """Sums over clipped rows with noise; agents send nothing else about their rows."""

    rough: ProblemBase | None = None

    def __init__(self, session: FitSession, privacy: Privacy, n: int, p: int) -> None:
        data = [session.data(i) for i in range(session.agents)]
        self.problem: PrivatePCA = private(PCA(data, p, n=n), privacy)
        session.private = True

    def totals(self, agent: int) -> Array:
        """Sums of the columns and the number of rows, with noise."""
        return self.problem.private_totals(agent)

    def count(self, totals: Array, m: float) -> int:  # noqa: ARG002
        """The number of rows, with noise."""
        return int(m)

    def mean(self, totals: Array) -> Array:
        """The mean of the clipped rows, with noise."""
        return self.problem.private_mean(totals)

    def center(self, means: Mapping[int, Array], p: int) -> ProblemBase:  # noqa: ARG002
        """PCA of second moments with noise."""
        shifted = self.problem.with_shifts({i: Shift(mean, np.ones(len(mean))) for i, mean in means.items()})
        self.shifted, self.matrix = shifted, cache(shifted.second_moments)
        return shifted

    def moments(self, agent: int, basis: Array | None) -> Array:
        """Second moments with noise."""
        if basis is not None and isinstance(self.shifted, PrivateProductsPCA):
            return self.shifted.restricted(basis)
        matrix = self.matrix(agent)
        return matrix if basis is None else np.asarray(basis.T @ matrix @ basis)

    def rest(self, agent: int) -> Array:
        """The sum of the squares of the centered rows, with noise."""
        if isinstance(self.shifted, PrivateProductsPCA):
            return np.array([self.shifted.variance(agent)])
        return np.array([np.trace(self.matrix(agent))])

    def total(self, variance: Array, rest: Array, m: float, n: int) -> float:  # noqa: ARG002
        """The average of `rest` itself."""
        return float(rest[0])

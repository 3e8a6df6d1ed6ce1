"""Problems whose data are centered, and optionally standardized, before the first step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, NoReturn

import numpy as np

from destiny.errors import ProblemError
from destiny.problems.cached import CachedProblem
from destiny.problems.checks import check_ids
from destiny.problems.data.partition import Shift
from destiny.problems.olsr import OLSR
from destiny.problems.own_problem import WrappedProblem
from destiny.problems.pca import PCA, PrivatePCA
from destiny.problems.regularizers import Regularized, is_regularizer, regularized
from destiny.protocols import Array, ProblemBase, Regularizer

CONSTANT = 1e-10  # relative to the mean: a column with a smaller deviation is constant up to rounding


class Centered(WrappedProblem):
    """PCA or OLSR of centered data; see `centered`.

    No agent knows the mean of all data. In `destiny.solve` they compute it by averaging between neighbors
    before the first step, and then solve the problem that `with_shifts` returns.
    """

    inner: PCA | OLSR

    def __init__(
        self,
        problem: PCA | OLSR | Regularized,
        standardize: bool = False,
        regularizer: Regularizer | None = None,
    ) -> None:
        if isinstance(problem, Regularized):
            problem, regularizer = problem.inner, problem.regularizer  # type: ignore[assignment]
        if not isinstance(problem, PCA | OLSR):
            raise ProblemError(
                f"only PCA and OLSR can be centered; found {type(problem).__name__}; center its data yourself"
            )
        if standardize and isinstance(problem, PrivatePCA):
            raise ProblemError(
                "private data cannot be standardized: their standard deviations would need a budget of their "
                "own; divide the columns by publicly known scales first"
            )
        super().__init__(problem)
        self.standardize = standardize
        self._regularizer = regularizer
        self._totals: dict[int, Totals] = {}
        self._ready: tuple[bytes, CachedProblem] | None = None

    @property
    def principal_axes(self) -> bool:
        """As of the problem, False with a regularizer."""
        return self.inner.principal_axes and self._regularizer is None

    @property
    def centering(self) -> bool:
        return True

    @property
    def regularizer(self) -> Regularizer | None:
        """The regularizer r of f + r, if there is one."""
        return self._regularizer

    def __add__(self, other: Regularizer) -> Centered:
        if not is_regularizer(other):
            return NotImplemented
        return Centered(regularized(self.inner, other), self.standardize)

    @property
    def settings(self) -> dict[str, bool]:
        """Settings that must be equal in all processes of a run."""
        return {"center": True, "standardize": self.standardize}

    @property
    def widths(self) -> list[int]:
        """Number of features and, for OLSR, of targets."""
        return [table.width for table in self.inner.tables]

    def host(self, ids: Sequence[int]) -> Uncentered:
        """Read and check the data of the agents ``ids``; evaluating the result raises `ProblemError`."""
        for agent in check_ids(ids, self.agents):
            self.totals(agent)
        return Uncentered()

    def totals(self, agent: int) -> Totals:
        """Sums over the samples of one agent, with noise if they are private; cached."""
        if agent not in self._totals and isinstance(self.inner, PrivatePCA):
            sums = self.inner.private_totals(agent)
            self._totals[agent] = Totals(sums, np.abs(sums))
        if agent not in self._totals:
            tables = [table.load(agent) for table in self.inner.tables]
            samples = [float(tables[0].shape[0])]
            self._totals[agent] = Totals(
                np.concatenate([*(rows.sums() for rows in tables), samples]),
                np.concatenate([*(rows.magnitudes() for rows in tables), samples]),
            )
        return self._totals[agent]

    def squares(self, agent: int, mean: Array) -> Array:
        """Sums of squared distances from ``mean`` over the samples of one agent, ``(features,)``."""
        data = self.inner.data.load(agent)
        return data.about(mean[: data.shape[1]]).squares()

    def shift(self, totals: Array, squares: Array | None) -> Shift:
        """The shift from network averages of `totals` and `squares`; `ProblemError` without samples."""
        count = totals[-1]
        if isinstance(self.inner, PrivatePCA):
            return Shift(self.inner.private_mean(totals), np.ones(len(totals) - 1))
        if not count > 0:
            raise ProblemError("centering needs at least one sample; found none at any agent")
        mean, scale = totals[:-1] / count, np.ones(len(totals) - 1)
        if squares is not None:
            deviation = np.sqrt(squares / count)
            size = CONSTANT * np.abs(mean[: len(deviation)])
            scale[: len(deviation)] = np.where(deviation > size, deviation, 1.0)
        return Shift(mean, scale)

    def with_shifts(self, shifts: Mapping[int, Shift]) -> CachedProblem:
        """The problem to solve, with the data of the agents in ``shifts`` shifted; cached."""
        key = b"".join(
            agent.to_bytes(8) + s.mean.tobytes() + s.scale.tobytes() for agent, s in sorted(shifts.items())
        )
        if self._ready is None or self._ready[0] != key:  # several algorithms of a run have the same mean
            self._ready = key, CachedProblem(self._with_regularizer(self._with_shifts(shifts)))
        return self._ready[1]

    def pooled(self) -> ProblemBase:
        """The problem to solve, with the mean of the pooled data: for comparison only."""
        shift = self._pooled_shift()
        return self._with_regularizer(self._with_shifts(dict.fromkeys(range(self.agents), shift)))

    def _with_regularizer(self, problem: PCA | OLSR) -> ProblemBase:
        return problem if self._regularizer is None else regularized(problem, self._regularizer)

    def variance(self, agent: int) -> None:
        """None: that of the centered data is not known yet."""

    def __repr__(self) -> str:
        return f"{self.inner!r}, centered"

    def describe(self) -> str:
        """A sentence on the problem and its data."""
        done = "centered and standardized" if self.standardize else "centered"
        term = "" if self._regularizer is None else f", with the regularizer {self._regularizer!r}"
        return f"{self.inner.describe().removesuffix('.')}, {done}{term}."

    def portrait(self, answers: Mapping[str, Array]) -> dict[str, Any]:
        """The portrait of the problem with shifted data and original targets."""
        shift = self._pooled_shift()
        shift.mean[self.widths[0] :] = 0.0
        return self._with_shifts(dict.fromkeys(range(self.agents), shift)).portrait(answers)

    def _with_shifts(self, shifts: Mapping[int, Shift]) -> PCA | OLSR:
        ends = np.cumsum(self.widths)
        parts = [slice(end - width, end) for end, width in zip(ends, self.widths, strict=True)]
        return self.inner.with_shifts(
            *({i: Shift(s.mean[part], s.scale[part]) for i, s in shifts.items()} for part in parts)
        )

    def _pooled_shift(self) -> Shift:
        everyone = range(self.agents)
        totals = reduce(np.add, [self.totals(i).sums for i in everyone])
        if not self.standardize:
            return self.shift(totals, None)
        mean = self.shift(totals, None).mean
        return self.shift(totals, reduce(np.add, [self.squares(i, mean) for i in everyone]))


@dataclass(frozen=True)
class Totals:
    """Sums over the samples of one agent.

    Attributes
    ----------
    sums : ndarray (columns + 1,)
        Of every column of the data, then of the targets; the last entry is the number of samples.
    sizes : ndarray (columns + 1,)
        Sums of absolute values: what rounding errors of ``sums`` are relative to.
    """

    sums: Array
    sizes: Array


class Uncentered:
    """Hosted agents whose data are not centered yet; evaluating them raises `ProblemError`."""

    def value(self, X: Array) -> Array:
        self._refuse(X)

    def gradient(self, X: Array) -> Array:
        self._refuse(X)

    def _refuse(self, _: Array) -> NoReturn:
        raise ProblemError(
            "these data are not centered yet: destiny.solve lets the agents find the mean; to look at the "
            "problem in one place take problem.pooled()"
        )


def centered(problem: PCA | OLSR | Regularized, standardize: bool = False) -> Centered:
    """PCA or OLSR of the same data minus the mean over the samples of all agents.

    The agents compute the mean by averaging between neighbors before the first step of a run; these rounds
    are counted like all others. Their results are equal up to rounding.

    Parameters
    ----------
    problem : PCA or OLSR
        A regularizer may be added to it, before or after. For OLSR the targets are centered as well: the
        answer is that of a regression with the intercept ``mean(D) - X^T mean(C)``.
    standardize : bool
        Divide every column of the data (not of the targets) by its standard deviation over all samples, as
        scikit-learn's StandardScaler does; a constant column is only centered.

    Examples
    --------
    >>> import destiny
    >>> from destiny.problems import pca
    >>> problem = centered(pca.synthetic(n=20, m=90, p=2, xi=0.8, agents=4))
    >>> result = destiny.solve(problem, destiny.networks.ring(4))
    >>> result.converged, result.mean.shape
    (True, (20,))
    """
    return Centered(problem, standardize)

"""Problems whose data are centred, and standardised if asked, before the first step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, NoReturn

import numpy as np

from destiny.errors import ProblemError
from destiny.problems.cached import Once
from destiny.problems.checks import check_ids
from destiny.problems.data import columns
from destiny.problems.data.partition import Shift
from destiny.problems.olsr import OLSR
from destiny.problems.pca import PCA
from destiny.protocols import Array

CONSTANT = 1e-10  # of the mean: a standard deviation below it is rounding, and the column is not divided


class Centred:
    """PCA or OLSR of centred data; see `centred`.

    Agents do not know the mean of everybody's data: `destiny.solve` and the engines let them find it by
    averaging between neighbours before the first step, then solve what `less` returns.
    """

    def __init__(self, problem: PCA | OLSR, standardise: bool = False) -> None:
        if not isinstance(problem, PCA | OLSR):
            raise ProblemError(
                f"only PCA and OLSR can be centred; found {type(problem).__name__}; centre its data yourself"
            )
        self.problem, self.standardise = problem, standardise
        self.kind, self.shape, self.agents = problem.kind, problem.shape, problem.agents
        self.column_names = problem.column_names
        self._totals: dict[int, Totals] = {}
        self._ready: tuple[bytes, Once] | None = None

    @property
    def settings(self) -> dict[str, bool]:
        """What all processes of a run must have been given alike."""
        return {"center": True, "standardise": self.standardise}

    @property
    def widths(self) -> list[int]:
        """Columns of the data, and of the targets if there are any."""
        return [table.rows for table in self.problem.tables]

    def host(self, ids: Sequence[int]) -> Uncentred:
        """Read and check the data of the agents ``ids``; they cannot be evaluated before they are centred."""
        for agent in check_ids(ids, self.agents):
            self.totals(agent)
        return Uncentred()

    def totals(self, agent: int) -> Totals:
        """One agent's sums over its samples, computed once."""
        if agent not in self._totals:
            tables = [table.load(agent) for table in self.problem.tables]
            samples = [float(tables[0].shape[1])]
            self._totals[agent] = Totals(
                np.concatenate([*map(columns.sums, tables), samples]),
                np.concatenate([*map(columns.magnitudes, tables), samples]),
            )
        return self._totals[agent]

    def squares(self, agent: int, mean: Array) -> Array:
        """Sums of one agent's squared distances from the mean: of the data, not of the targets."""
        data = self.problem.tables[0].load(agent)
        return columns.squares(data, mean[: len(data)])

    def shift(self, totals: Array, squares: Array | None) -> Shift:
        """What to subtract and divide by, from the averages of `totals` and `squares`."""
        count = totals[-1]
        if not count > 0:
            raise ProblemError("centring needs at least one sample; found none at any agent")
        mean, scale = totals[:-1] / count, np.ones(len(totals) - 1)
        if squares is not None:
            deviation = np.sqrt(squares / count)
            known = mean[: len(deviation)]
            scale[: len(deviation)] = np.where(deviation > CONSTANT * np.abs(known), deviation, 1.0)
        return Shift(mean, scale)

    def less(self, shifts: Mapping[int, Shift]) -> Once:
        """The problem to solve: the data of some agents, each shifted as it is told."""
        key = b"".join(
            agent.to_bytes(8) + s.mean.tobytes() + s.scale.tobytes() for agent, s in sorted(shifts.items())
        )
        if self._ready is None or self._ready[0] != key:  # algorithms side by side find the same mean
            self._ready = key, Once(self._less(shifts))
        return self._ready[1]

    def pooled(self) -> PCA | OLSR:
        """The problem to solve, its mean taken from all data in one place: for comparison only."""
        shift = self._pooled_shift()
        return self._less(dict.fromkeys(range(self.agents), shift))

    def describe(self) -> str:
        """The problem in one sentence."""
        done = "centred and standardised" if self.standardise else "centred"
        return f"{self.problem.describe().removesuffix('.')}, {done}."

    def portrait(self, answers: Mapping[str, Array]) -> dict[str, Any]:
        """As the problem does, for the shifted data; targets are shown as they are."""
        shift = self._pooled_shift()
        shift.mean[self.widths[0] :] = 0.0
        return self._less(dict.fromkeys(range(self.agents), shift)).portrait(answers)

    def _less(self, shifts: Mapping[int, Shift]) -> PCA | OLSR:
        ends = np.cumsum(self.widths)
        parts = [slice(end - width, end) for end, width in zip(ends, self.widths, strict=True)]
        return self.problem.less(
            *({i: Shift(s.mean[part], s.scale[part]) for i, s in shifts.items()} for part in parts)
        )

    def _pooled_shift(self) -> Shift:
        everyone = range(self.agents)
        totals = reduce(np.add, [self.totals(i).sums for i in everyone])
        if not self.standardise:
            return self.shift(totals, None)
        mean = self.shift(totals, None).mean
        return self.shift(totals, reduce(np.add, [self.squares(i, mean) for i in everyone]))


@dataclass(frozen=True)
class Totals:
    """One agent's sums over its samples.

    Attributes
    ----------
    sums : ndarray (columns + 1,)
        Of every column of the data, then of the targets; the last entry is the number of samples.
    sizes : ndarray (columns + 1,)
        Sums of absolute values: what rounding errors of ``sums`` are relative to.
    """

    sums: Array
    sizes: Array


class Uncentred:
    """The hosted agents before their mean is known (`destiny.protocols.Hosted`)."""

    def value(self, X: Array) -> Array:
        """Refused."""
        self._refuse(X)

    def gradient(self, X: Array) -> Array:
        """Refused."""
        self._refuse(X)

    def _refuse(self, _: Array) -> NoReturn:
        raise ProblemError(
            "these data are not centred yet: destiny.solve lets the agents find the mean; to look at the "
            "problem in one place take problem.pooled()"
        )


def centred(problem: PCA | OLSR, standardise: bool = False) -> Centred:
    """PCA or OLSR of the same data, less the mean of all agents' samples together.

    The agents find the mean by averaging between neighbours before the first step of a run; these rounds are
    counted like all others. Each subtracts the mean as it knows it: they are equal up to rounding.

    Parameters
    ----------
    problem : PCA or OLSR
        For OLSR the targets are centred, too: the answer is that of a regression with the intercept
        ``mean(D) - X^T mean(C)``.
    standardise : bool
        Divide every column of the data (not of the targets) by its standard deviation over all samples, as
        scikit-learn's StandardScaler does; a constant column is only centred.

    Examples
    --------
    >>> import destiny
    >>> from destiny.problems import pca
    >>> problem = centred(pca.synthetic(n=20, m=90, p=2, xi=0.8, agents=4))
    >>> result = destiny.solve(problem, destiny.networks.ring(4))
    >>> result.converged, result.mean.shape
    (True, (20,))
    """
    return Centred(problem, standardise)

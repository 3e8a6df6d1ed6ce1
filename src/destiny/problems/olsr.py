"""Orthogonal least squares regression on data distributed over agents."""

from __future__ import annotations

import copy
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from destiny.errors import ProblemError
from destiny.problems.checks import check_ids, check_p, check_scale
from destiny.problems.data.centred_rows import CentredRows
from destiny.problems.data.partition import Columns, Matrices, Partition, Shift, Source, split_columns
from destiny.problems.data.table_checks import require_same_rows
from destiny.problems.data.tables import Silos
from destiny.problems.quadratic import Pair, Quadratic
from destiny.problems.sample_gradients import QuadraticSamples, SampleGradient
from destiny.problems.sums import Summable
from destiny.protocols import Array
from destiny.validation import check_seed, check_size

MAPPED = 1500  # samples in the picture of a report: more would cover each other


class OLSR(Summable):
    """Orthogonal least squares regression, problem (1.4) of the paper.

    Agent i holds data ``C_i`` and targets ``D_i``, and f_i(X) = ||C_i^T X - D_i^T||_F^2 with gradient
    2 C_i (C_i^T X - D_i^T). Nothing is divided by m_i, nothing is centred and there is no intercept
    (`destiny.problems.centred` adds one); the mean over the agents is taken outside.

    Parameters
    ----------
    silos : Silos, or sequence of ndarray (n, m_i) or of callables that return one
        Data, one per agent, samples in columns; a callable is called when its agent is hosted. m_i may be
        zero.
    targets : sequence of ndarray (p, m_i), or of callables that return one
        For classes the indicators of `one_hot`.
    scale : float
        Factor of the data; the targets stay as they are.
    n, p : int, optional
        Rows of the data and of the targets; needed only if all are callables without a ``shape``.
    """

    kind: Literal["olsr"] = "olsr"
    quadratic = True

    def __init__(
        self,
        silos: Sequence[Source] | Silos,
        targets: Sequence[Source] | Silos,
        scale: float = 1.0,
        n: int | None = None,
        p: int | None = None,
    ) -> None:
        self._silos = Matrices(silos, rows=n, sparse=True)
        self._targets = Matrices(targets, "targets", rows=p)
        check_p(self._targets.rows, self._silos.rows)
        self.scale = check_scale(scale)
        if len(self._silos) != len(self._targets):
            raise ProblemError(
                f"every agent needs data and targets; found data of {len(self._silos)} agents and targets of "
                f"{len(self._targets)}; give as many of both"
            )
        for agent, (data, target) in enumerate(zip(self._silos.sources, self._targets.sources, strict=True)):
            if isinstance(data, Columns) and isinstance(target, Columns):
                _check_samples(agent, data.shape[1], target.shape[1])

    @property
    def shape(self) -> tuple[int, int]:
        """(n, p), the shape of X."""
        return self._silos.rows, self._targets.rows

    @property
    def agents(self) -> int:
        """Number of agents d."""
        return len(self._silos)

    @property
    def column_names(self) -> dict[str, tuple[str, ...]]:
        """Names under the keys "data" and "targets", as far as the files have a header."""
        named = {"data": self._silos.names, "targets": self._targets.names}
        return {what: names for what, names in named.items() if names}

    def host(self, ids: Sequence[int]) -> Quadratic:
        """The objectives of the agents ``ids``; reads the data of these agents only."""
        return Quadratic(self._load(check_ids(ids, self.agents)), self.shape, factor=1.0, scale=self.scale)

    def sample_gradient(self, agent: int) -> SampleGradient:
        """The samples of an agent, for mini-batches."""
        ((data, targets),) = self._load([agent])
        return QuadraticSamples.of(data, targets, 1.0, self.scale)

    @property
    def tables(self) -> tuple[Matrices, ...]:
        """The data and the targets."""
        return (self._silos, self._targets)

    def with_shifts(self, *shifts: Mapping[int, Shift]) -> OLSR:
        """The same problem with the data and targets of the agents in ``shifts`` shifted."""
        shifted = copy.copy(self)
        shifted._silos, shifted._targets = (
            table.with_shifts(s) for table, s in zip(self.tables, shifts, strict=True)
        )
        return shifted

    def describe(self) -> str:
        """A sentence on the problem and its data."""
        return f"OLSR with {self._targets.rows} targets: {self._silos.describe()}."

    def portrait(self, answers: Mapping[str, Array]) -> dict[str, Any]:
        """For a report: samples projected by the first finite answer ``(n, p)``, on their two principal axes.

        It has the kind alone if the targets are not class indicators. This pools samples of all agents.
        """
        plain: dict[str, Any] = {"kind": self.kind}
        finite = [(label, X) for label, X in answers.items() if np.isfinite(X).all()]
        if not finite or self.shape[1] < 2:
            return plain
        label, X = finite[0]
        each = -(-MAPPED // self.agents)
        projections, kinds = [], []
        for data, targets in self._load(range(self.agents)):
            few = slice(None, None, max(1, -(-data.shape[1] // each)))
            assert targets is not None
            D = np.asarray((targets.T if isinstance(data, CentredRows) else targets)[:, few])
            if not (np.isin(D, (0, 1)).all() and (D.sum(axis=0) == 1).all()):
                return plain
            projections.append(self.scale * (X.T @ _take(data, few)))
            kinds.append(D.argmax(axis=0))
        Y, classes = np.concatenate(projections, axis=1), np.concatenate(kinds)
        if Y.shape[1] < 2:
            return plain
        Y -= Y.mean(axis=1, keepdims=True)
        plane = np.linalg.svd(Y, full_matrices=False)[0][:, :2]
        x, y = np.round(plane.T @ Y / (np.abs(Y).max() or 1.0), 4)
        points = {"x": x.tolist(), "y": y.tolist(), "class": classes.tolist()}
        names = list(self._targets.names) or [str(k) for k in range(self.shape[1])]
        return plain | {"classes": names, "points": points, "label": label}

    def _load(self, ids: Sequence[int]) -> Iterator[Pair]:
        for agent in ids:
            data, targets = self._silos.load(agent), self._targets.load(agent)
            _check_samples(agent, data.shape[1], targets.shape[1])
            self._check_row_ids(agent)
            yield data, targets.T if isinstance(data, CentredRows) else targets

    def _check_row_ids(self, agent: int) -> None:
        """Raise `ProblemError` if data and targets of an agent have row labels that differ."""
        data, targets = self._silos.row_ids(agent), self._targets.row_ids(agent)
        if data is not None and targets is not None:
            try:
                require_same_rows(targets, data, self._silos.name_of(agent))
            except ProblemError as error:
                raise ProblemError(f"{self._targets.name_of(agent)}: {error}") from error


def _take(data: NDArray[Any] | CentredRows, few: slice) -> NDArray[Any]:
    """Some samples, ``(n, few)``."""
    if not isinstance(data, CentredRows):
        return data[:, few]
    rows = replace(data, rows=data.rows[few])
    return np.concatenate([np.empty((0, data.shape[0])), *(block for _, block in rows.dense_blocks())]).T


def from_data(C: NDArray[Any], D: NDArray[Any], agents: Partition, scale: float = 1.0) -> OLSR:
    """OLSR of targets ``D`` ``(p, m)`` on data ``C`` ``(n, m)``, divided as in `pca.from_data`."""
    if np.ndim(C) == 2 and np.ndim(D) == 2 and C.shape[1] != D.shape[1]:
        raise ProblemError(
            f"data and targets must have as many columns; found {C.shape[1]} samples and {D.shape[1]} "
            "targets; give one target column per sample"
        )
    return OLSR(split_columns(C, agents), split_columns(D, agents, "targets"), scale)


def synthetic(
    n: int,
    m: int,
    p: int,
    agents: Partition,
    seed: int | Sequence[int] = 0,
    noise: float = 0.0,
    scale: float = 1.0,
) -> OLSR:
    """OLSR with a known answer: Gaussian data C, targets D = X*^T C + noise with X* = `planted` (n, p, seed).

    C has variance 1/m, so that C C^T is about the identity. With ``noise = 0`` and ``scale = 1`` the minimum
    is zero, at X*.
    """
    n, m = check_size("n", n), check_size("m", m)
    if not 0 <= noise <= sys.float_info.max:
        raise ProblemError(f"noise must be a finite number >= 0; found {noise}")
    rng = np.random.default_rng(check_seed(seed))
    X = _orthonormal(n, p, rng)
    C = rng.standard_normal((n, m)) / np.sqrt(m)
    D = X.T @ C + noise / np.sqrt(m) * rng.standard_normal((p, m))
    return from_data(C, D, agents, scale)


def planted(n: int, p: int, seed: int | Sequence[int]) -> Array:
    """The X* ``(n, p)`` of `synthetic` with the same seed."""
    return _orthonormal(n, p, np.random.default_rng(seed))


def one_hot(labels: ArrayLike, classes: ArrayLike | None = None) -> Array:
    """Class indicators ``(p, m)`` of m labels.

    Row i belongs to ``classes[i]``, by default the sorted labels found. Agents that hold different labels
    must pass the same ``classes``.
    """
    labels = np.asarray(labels)
    values = np.unique(labels) if classes is None else np.asarray(classes)
    indicators: NDArray[np.bool_] = values[:, None] == labels.ravel()
    if not indicators.any(axis=0).all():
        stray = labels.ravel()[~indicators.any(axis=0)][0]
        raise ProblemError(
            f"every label must be one of the classes {values.tolist()}; found {stray}; add it to classes"
        )
    return indicators.astype(np.float64)


def _orthonormal(n: int, p: int, rng: np.random.Generator) -> Array:
    check_p(p, n)
    Q: Array = np.linalg.qr(rng.standard_normal((n, p)))[0]
    return Q


def _check_samples(agent: int, samples: int, targets: int) -> None:
    if samples != targets:
        raise ProblemError(
            f"agent {agent} must hold one target per sample; found {samples} samples and {targets} targets; "
            "give one target column per sample"
        )

"""Orthogonal least squares regression on data distributed over agents."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from destiny.errors import ProblemError
from destiny.problems.checks import check_ids, check_p
from destiny.problems.data.partition import Matrices, Part, Partition, Source, split_rows
from destiny.problems.data.table_checks import require_same_rows
from destiny.problems.data.tables import Silos
from destiny.problems.quadratic import Pair, Quadratic
from destiny.problems.sample_gradients import QuadraticSamples, SampleGradient
from destiny.problems.table_problem import TableProblem
from destiny.protocols import Array
from destiny.validation import check_seed, check_size

MAPPED = 1500  # samples in the picture of a report: more would cover each other


class OLSR(TableProblem):
    """Orthogonal least squares regression, problem (1.4) of the paper.

    Agent i holds data ``C_i`` and targets ``D_i``, the transposes of the paper's, and f_i(X) =
    ||C_i X - D_i||_F^2 with gradient 2 C_i^T (C_i X - D_i). Nothing is divided by m_i, nothing is centered
    and there is no intercept (`destiny.problems.centered` adds one); the mean over the agents is taken
    outside.

    Parameters
    ----------
    silos : Silos, or sequence of ndarray (m_i, n) or of callables that return one
        Data, one per agent, samples in rows; a callable is called when its agent is hosted. m_i may be
        zero.
    targets : sequence of ndarray (m_i, p), or of callables that return one
        For classes the indicators of `one_hot`.
    scale : float
        Factor of the data; the targets stay as they are.
    n, p : int, optional
        Columns of the data and of the targets; needed only if all are callables without a ``shape``.
    """

    kind: Literal["olsr"] = "olsr"
    title = "OLSR with {p} targets"
    quadratic = True

    def __init__(
        self,
        silos: Sequence[Source] | Silos,
        targets: Sequence[Source] | Silos,
        scale: float = 1.0,
        n: int | None = None,
        p: int | None = None,
    ) -> None:
        answers = Matrices(targets, "targets", width=p)
        super().__init__(silos, answers.width, scale, n, sparse=True)
        self.tables = (self.data, answers)
        if len(self.data) != len(answers):
            raise ProblemError(
                f"every agent needs data and targets; found data of {len(self.data)} agents and targets of "
                f"{len(answers)}; give as many of both"
            )
        for agent, pair in enumerate(zip(self.data.sources, answers.sources, strict=True)):
            if all(isinstance(source, Part) for source in pair):
                _check_samples(agent, *(source.shape[0] for source in pair))

    def host(self, ids: Sequence[int]) -> Quadratic:
        """The objectives of the agents ``ids``; reads the data of these agents only."""
        return Quadratic(self._load(check_ids(ids, self.agents)), self.shape, factor=1.0)

    def sample_gradient(self, agent: int) -> SampleGradient:
        """The samples of an agent, for mini-batches."""
        ((data, targets),) = self._load([agent])
        return QuadraticSamples(data, targets, 1.0)

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
            few = slice(None, None, max(1, -(-data.shape[0] // each)))
            assert targets is not None
            D = targets[few]
            if not (np.isin(D, (0, 1)).all() and (D.sum(axis=1) == 1).all()):
                return plain
            projections.append(data.take(few).times(X))
            kinds.append(D.argmax(axis=1))
        Y, classes = np.concatenate(projections), np.concatenate(kinds)
        if len(Y) < 2:
            return plain
        Y -= Y.mean(axis=0)
        plane = np.linalg.svd(Y.T, full_matrices=False)[0][:, :2]
        x, y = np.round(plane.T @ Y.T / (np.abs(Y).max() or 1.0), 4)
        points = {"x": x.tolist(), "y": y.tolist(), "class": classes.tolist()}
        names = list(self.tables[1].names) or [str(k) for k in range(self.shape[1])]
        return plain | {"classes": names, "points": points, "label": label}

    def _load(self, ids: Sequence[int]) -> Iterator[Pair]:
        for agent in ids:
            data, targets = self.rows(agent), self.tables[1].load(agent)
            _check_samples(agent, data.shape[0], targets.shape[0])
            self._check_row_ids(agent)
            yield data, targets

    def _check_row_ids(self, agent: int) -> None:
        """Raise `ProblemError` if data and targets of an agent have row labels that differ."""
        data, targets = (table.row_ids(agent) for table in self.tables)
        if data is not None and targets is not None:
            try:
                require_same_rows(targets, data, self.data.name_of(agent))
            except ProblemError as error:
                raise ProblemError(f"{self.tables[1].name_of(agent)}: {error}") from error


def from_data(C: NDArray[Any], D: NDArray[Any], agents: Partition, scale: float = 1.0) -> OLSR:
    """OLSR of targets ``D`` ``(m, p)`` on data ``C`` ``(m, n)``, divided as in `pca.from_data`."""
    if np.ndim(C) == 2 and np.ndim(D) == 2 and len(C) != len(D):
        raise ProblemError(
            f"data and targets must have as many rows; found {len(C)} samples and {len(D)} targets; give one "
            "target row per sample"
        )
    return OLSR(split_rows(C, agents), split_rows(D, agents, "targets"), scale)


def synthetic(
    n: int,
    m: int,
    p: int,
    agents: Partition,
    seed: int | Sequence[int] = 0,
    noise: float = 0.0,
    scale: float = 1.0,
) -> OLSR:
    """OLSR with a known answer: Gaussian data C, targets D = C X* + noise with X* = `planted` (n, p, seed).

    C has variance 1/m, so that C^T C is about the identity. With ``noise = 0`` and ``scale = 1`` the minimum
    is zero, at X*.
    """
    n, m = check_size("n", n), check_size("m", m)
    if not 0 <= noise <= sys.float_info.max:
        raise ProblemError(f"noise must be a finite number >= 0; found {noise}")
    rng = np.random.default_rng(check_seed(seed))
    X = _orthonormal(n, p, rng)
    C = rng.standard_normal((n, m)) / np.sqrt(m)  # the paper's, samples in columns
    D = X.T @ C + noise / np.sqrt(m) * rng.standard_normal((p, m))
    return from_data(C.T, D.T, agents, scale)


def planted(n: int, p: int, seed: int | Sequence[int]) -> Array:
    """The X* ``(n, p)`` of `synthetic` with the same seed."""
    return _orthonormal(n, p, np.random.default_rng(seed))


def one_hot(labels: ArrayLike, classes: ArrayLike | None = None) -> Array:
    """Class indicators ``(m, p)`` of m labels.

    Column i belongs to ``classes[i]``, by default the sorted labels found. Agents that hold different labels
    must pass the same ``classes``.
    """
    labels = np.asarray(labels)
    values = np.unique(labels) if classes is None else np.asarray(classes)
    indicators: NDArray[np.bool_] = labels.ravel()[:, None] == values
    if not indicators.any(axis=1).all():
        stray = labels.ravel()[~indicators.any(axis=1)][0]
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
            "give one target row per sample"
        )

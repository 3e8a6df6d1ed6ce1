"""Canonical correlations of two views of the same samples, held by many agents."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy.linalg import solve_triangular
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_array, check_consistent_length, check_is_fitted

from destiny.engines.mixers import Messages
from destiny.errors import ProblemError
from destiny.estimators.averager import Average
from destiny.estimators.fitting import Decentralized, weighted_table
from destiny.estimators.inputs import CheckedRows, as_problem_error, call_for_silo
from destiny.estimators.rows import Table, is_silos, refuse_other_containers
from destiny.estimators.scatter import (
    reason_to_average,
    require_variance,
    singular,
    sum_of_matrices,
    with_shrinkage,
)
from destiny.estimators.session import FitSession, whole
from destiny.geometry.generalized import MassMatrix, SingularMatrixError
from destiny.problems import Generalized, Separable
from destiny.problems.data import Silos
from destiny.problems.data.partition import remote_source
from destiny.problems.data.table_checks import require_numbers
from destiny.protocols import Algorithm, Array, Topology
from destiny.run.result import Result
from destiny.run.solve import SolveOptions


@dataclass(frozen=True)
class QuadraticForm:
    """f_i(X) = -1/2 tr(X^T C X) for a symmetric C ``(n, n)``, definite or not."""

    C: Array

    def value(self, X: Array) -> float:
        return -float(np.vdot(X, self.C @ X)) / 2

    def gradient(self, X: Array) -> Array:
        return np.asarray(-self.C @ X)


class DecentralizedCCA(Decentralized, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Canonical correlation analysis: pairs of directions, one in each view, of largest correlation.

    A row of X and the same row of y are two views of one sample, and stay together at one agent. The agents
    average the means, then find U and V that maximize tr(U^T S_xy V) where the scores X U and y V have
    covariance I: with X = [U; V] / sqrt(2), the constraint X^T M X = I, M being the covariance matrix with
    its blocks S_xy set to zero. The answer is that of the SVD of S_xx^(-1/2) S_xy S_yy^(-1/2) of all rows.

    Parameters
    ----------
    n_components : int, optional
        Pairs of directions; by default the smaller number of columns, which is all there are.
    shrinkage : float in [0, 1], optional
        S_xx is replaced by (1 - shrinkage) S_xx + shrinkage tr(S_xx)/n I, and S_yy likewise. None is 0, or
        0.1 with a warning where one of them is singular: correlations of 1 would then mean nothing. With 0 a
        singular matrix is refused.
    n_agents, network, method, tol, max_rounds, random_state, verbose, messages
        As in `DecentralizedPCA`. By default the agents average covariance matrices where that is predicted to
        be cheaper than a run of `destiny.algorithms.CDADT`, the method otherwise.

    Attributes
    ----------
    x_rotations_, y_rotations_ : ndarray (n_features, n_components), (n_targets, n_components)
        U and V, largest correlation first: scores have mean 0 and variance 1. The largest entry of each
        column of U is positive.
    correlations_ : ndarray (n_components,)
        Correlation of the scores of each pair.
    shrinkage_ : float
        What was used.
    x_mean_, y_mean_ : ndarray (n_features,), (n_targets,)
    n_components_, n_samples_, n_features_in_, feature_names_in_, n_rounds_, n_scalars_, history_, \
converged_, notes_, network_
        As in `DecentralizedPCA`.

    Examples
    --------
    >>> from sklearn.datasets import load_linnerud
    >>> X, Y = load_linnerud(return_X_y=True)
    >>> cca = DecentralizedCCA(n_components=2, n_agents=4, random_state=0).fit(X, Y)
    >>> cca.correlations_.round(3).tolist()
    [0.796, 0.201]
    >>> x_scores, y_scores = cca.transform(X, Y)
    """

    _min_rows = 2
    _joins_y = True
    _y_has = "other view"
    _targets: int
    _accepts_sparse = False

    def __init__(
        self,
        n_components: int | None = None,
        *,
        shrinkage: float | None = None,
        n_agents: int | None = None,
        network: str | Topology = "erdos-renyi",
        method: Algorithm[Any] | None = None,
        tol: float = 1e-10,
        max_rounds: int = SolveOptions.rounds,
        random_state: Any = None,
        verbose: bool = False,
        messages: Messages | str | None = None,
    ) -> None:
        self.n_components = n_components
        self.shrinkage = shrinkage
        self.n_agents = n_agents
        self.network = network
        self.method = method
        self.tol = tol
        self.max_rounds = max_rounds
        self.random_state = random_state
        self.verbose = verbose
        self.messages = messages

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit to all rows, with all agents in this process.

        Parameters
        ----------
        X : array-like (n_samples, n_features), or a list of them
            One table is split over ``n_agents`` agents, in order; a list has one table per agent.
        y : array-like (n_samples, n_targets), or a list of them
            The other view of the same samples.
        sample_weight : array-like (n_samples,), or a list of them, optional
            How often each sample counts, by default once.
        """
        return super().fit(X, y, sample_weight)

    def transform(self, X: Any, y: Any = None) -> Any:
        """Return the scores of X ``(rows, n_components)``; with ``y`` a pair, the scores of X and of y.

        Lists of tables give lists of arrays.
        """
        check_is_fitted(self)
        refuse_other_containers(X)
        scores = self._scores(X, lambda table: (self._check_rows(table) - self.x_mean_) @ self.x_rotations_)
        if y is None:
            return scores
        others = self._scores(
            y, lambda table: (self._check_targets(table) - self.y_mean_) @ self.y_rotations_
        )
        return scores, others

    def _scores(self, tables: Any, project: Any) -> Any:
        if isinstance(tables, Silos):
            tables = list(tables.parts)
        if not is_silos(tables):
            return project(tables)
        return [call_for_silo(agent, project, table) for agent, table in enumerate(tables)]

    def _check_targets(self, y: Any) -> Any:
        """Return rows of the other view as an array with as many columns as in `fit`."""
        targets = _as_columns(y)
        if targets.shape[1] != len(self.y_mean_):
            raise ProblemError(
                f"y must have the {len(self.y_mean_)} columns of fit; found {targets.shape[1]}"
            )
        return targets

    @property
    def _n_features_out(self) -> int:
        return int(self.x_rotations_.shape[1])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.target_tags.multi_output = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def _check_table(self, X: Any, y: Any, sample_weight: Any, first: bool, least: int) -> Table:
        """Return both views side by side, with their weights."""
        self._targets = 0 if first else self._targets
        return self._join(self._validate(X, reset=first, ensure_min_samples=least), y, sample_weight)

    def _check_columns_of(self, silos: Silos, first: bool) -> None:
        super()._check_columns_of(silos, first)
        self._targets = 0 if first else self._targets

    def _pair(self, rows: Any, y: Any, sample_weight: Any) -> Table:
        return self._join(CheckedRows(rows).as_floats(), y, sample_weight)

    def _join(self, rows: Any, y: Any, sample_weight: Any) -> Table:
        """Return a table of both views; the first one sets the number of columns of y."""
        if y is None:
            raise ProblemError(
                f"{type(self).__name__} requires y to be passed, but the target y is None: it is the other "
                "view"
            )
        targets = _as_columns(y)
        check_consistent_length(rows, targets)
        self._targets = self._targets or targets.shape[1]
        if targets.shape[1] != self._targets:
            raise ProblemError(
                f"y must have the same columns at all agents, {self._targets}; found {targets.shape[1]}"
            )
        both = np.hstack([rows, targets.astype(rows.dtype)])
        return weighted_table(both, np.zeros(len(both)), sample_weight)

    def _learn(self, session: FitSession) -> None:
        with_shrinkage(
            self.shrinkage,
            lambda share: self._learn_with(session, share),
            type(self).__name__,
            session.engine.leader,
        )

    def _learn_with(self, session: FitSession, share: float) -> None:
        d = session.agents
        split, n = self.n_features_in_, self.n_features_in_ + self._targets
        p = self._count_components(min(split, n - split), "the smaller number of columns")

        def sums_and_size(i: int) -> Array:
            """Return the sums of an agent's columns and the number of its rows, or their weight."""
            rows = session.weighted_rows(i)
            return np.append(rows.weighted_sums(), rows.weight)

        sums = session.average(sums_and_size)
        m = whole(sums.common[-1] * d)
        if m < self._min_rows:
            raise ProblemError(f"correlations need at least {self._min_rows} rows; found {m} at all agents")
        scatter: dict[int, Array] = {}
        for i, s in sums.by_agent.items():
            scatter[i] = session.weighted_rows(i).about(s[:-1] / s[-1]).gram() / (d * s[-1])
        variances = session.average(lambda i: d * np.diagonal(scatter[i]))
        mean = sums.common[:-1] / sums.common[-1]
        if share == 0:
            self._require_variance(variances.common, mean)
            if not session.weights:
                _require_rows(m, {"X": split, "y": n - split})
        reason = reason_to_average(session, self.method, (n, p))
        try:
            if reason is None:
                directions, moments, result = self._iterate(session, scatter, variances, share, p)
            else:
                C = sum_of_matrices(session, scatter)
                directions, result = self._directions_of(C, share, p), None
                moments = _moments(C, directions, split)
        except SingularMatrixError as error:
            raise singular("the covariance matrix of X or that of y") from error
        self._set_directions(session, directions, moments)
        self.x_mean_, self.y_mean_ = (part.astype(session.dtype) for part in (mean[:split], mean[split:]))
        self.n_samples_, self.n_components_, self.shrinkage_ = m, p, share
        self._set_fit_attributes(session, result)
        self.notes_ += [reason] if reason else []

    def _directions_of(self, C: Array, share: float, p: int) -> Array:
        """Return the canonical directions ``(n, p)`` of a covariance matrix of all columns."""
        split = self.n_features_in_
        added = np.diag(self._shrunk(np.diagonal(C), share)[0])
        own = (1 - share) * C + added
        x, y = MassMatrix.of(own[:split, :split]), MassMatrix.of(own[split:, split:])
        U, _, Vt = np.linalg.svd(y.gradient(x.gradient(C[:split, split:]).T).T, full_matrices=False)
        return np.vstack(
            [
                solve_triangular(x.L, U[:, :p], lower=True, trans="T"),
                solve_triangular(y.L, Vt[:p].T, lower=True, trans="T"),
            ]
        )

    def _iterate(
        self, session: FitSession, scatter: dict[int, Array], variances: Average, share: float, p: int
    ) -> tuple[Array, Array, Result | None]:
        """Return the canonical directions, the moments of their scores, and the run that found them."""
        d, split, n = session.agents, self.n_features_in_, self.n_features_in_ + self._targets
        units = {i: self._units(v, share) for i, v in variances.by_agent.items()}
        problem = self._build_problem(scatter, variances, units, share, (d, p))
        solution = session.solve(problem, self.get_params())
        slope = session.average(lambda i: problem.host([i]).gradient(solution.by_agent[i][None])[0])

        def axes(i: int) -> Array:
            """Return the canonical directions; eigenvectors may have either sign: agent 0 chooses."""
            if i:
                return np.zeros((n, p))
            X = solution.by_agent[i]
            V = np.linalg.eigh(-X.T @ slope.by_agent[i])[1][:, ::-1]
            return np.asarray(d * (X @ V) / units[i][:, None])

        directions = session.average(axes)
        moments = session.average(lambda i: _moments(scatter[i], directions.by_agent[i], split))
        return directions.common, d * moments.common, solution.result

    def _require_variance(self, variances: Array, mean: Array) -> None:
        split, names = self.n_features_in_, getattr(self, "feature_names_in_", None)
        require_variance(variances[:split], np.abs(mean[:split]), "in X", names)
        require_variance(variances[split:], np.abs(mean[split:]), "in y", None)

    def _shrunk(self, variances: Array, share: float) -> tuple[Array, Array]:
        """Return what shrinkage adds to the variance of each column, and the variances after it."""
        split = self.n_features_in_
        parts = variances[:split], variances[split:]
        added = share * np.concatenate([np.full(len(part), part.mean()) for part in parts])
        return added, (1 - share) * variances + added

    def _units(self, variances: Array, share: float) -> Array:
        """Return the standard deviations of the columns after shrinkage, by which they are divided."""
        units = np.sqrt(self._shrunk(variances, share)[1])
        return np.asarray(np.where(units > 0, units, 1.0))

    def _build_problem(
        self,
        scatter: dict[int, Array],
        variances: Average,
        units: dict[int, Array],
        share: float,
        sizes: tuple[int, int],
    ) -> Generalized:
        """Return the problem in columns divided by their units; M has the blocks of X and of y alone."""
        (agents, p), split = sizes, self.n_features_in_
        forms, masses = {}, {}
        for i, C in scatter.items():
            scaled = C / np.outer(units[i], units[i])
            cross, own = scaled.copy(), (1 - share) * scaled
            cross[:split, :split] = cross[split:, split:] = 0.0
            own[:split, split:] = own[split:, :split] = 0.0
            added = self._shrunk(variances.by_agent[i], share)[0]
            masses[i] = own + np.diag(added / units[i] ** 2 / agents)
            forms[i] = agents * cross
        n = split + self._targets
        # Agents of other processes are never evaluated here.
        problem = Separable([QuadraticForm(forms.get(i, np.empty((0, 0)))) for i in range(agents)], (n, p))
        return Generalized(problem, [masses.get(i, remote_source) for i in range(agents)])

    def _set_directions(self, session: FitSession, directions: Array, moments: Array) -> None:
        """Set rotations with scores of variance 1 and their correlations."""
        U, V = directions[: self.n_features_in_], directions[self.n_features_in_ :]
        xx, yy, xy = moments
        sign = np.where(np.take_along_axis(U, np.abs(U).argmax(axis=0)[None], 0)[0] < 0, -1.0, 1.0)
        self.x_rotations_ = (sign * U / np.sqrt(xx)).astype(session.dtype)
        self.y_rotations_ = (sign * V / np.sqrt(yy)).astype(session.dtype)
        self.correlations_ = (xy / np.sqrt(xx * yy)).astype(session.dtype)


def _require_rows(rows: int | float, columns: dict[str, int]) -> None:
    """Raise SingularMatrixError where the covariance matrix of a view must be singular."""
    for view, n in columns.items():
        if rows <= n:
            raise SingularMatrixError(
                f"the covariance matrix of the {n} columns of {view} is singular with fewer than {n + 1} "
                f"rows, and there are {rows}: take fewer columns (DecentralizedPCA)"
            )


def _as_columns(y: Any) -> Array:
    """Return numbers ``(rows, columns)``, of one column if ``y`` has one dimension."""
    require_numbers(y)
    try:
        targets = check_array(
            y, dtype=[np.float64, np.float32], ensure_2d=False, ensure_min_samples=0, input_name="y"
        )
    except (ValueError, TypeError) as error:
        raise as_problem_error(error, y) from error
    return np.asarray(targets[:, None] if targets.ndim == 1 else targets)


def _moments(scatter: Array, directions: Array, split: int) -> Array:
    """Return an agent's part of the variances of both scores and of their covariances, ``(3, p)``."""
    X, Y = directions.copy(), directions.copy()
    X[split:], Y[:split] = 0.0, 0.0
    return np.stack([np.sum(A * (scatter @ B), axis=0) for A, B in ((X, X), (Y, Y), (X, Y))])

"""Linear regression on rows held by many agents."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.metrics import r2_score
from sklearn.utils.validation import check_array, check_consistent_length

from destiny.engines.mixers import Messages
from destiny.errors import ProblemError, SettingsError
from destiny.estimators.averager import Average
from destiny.estimators.fitting import Decentralized, weighted_table
from destiny.estimators.inputs import (
    accept_silos,
    as_problem_error,
    call_for_silo,
    labels_of_silos,
    weights_of_silos,
)
from destiny.estimators.rows import Table, is_silos
from destiny.estimators.scatter import sum_of_matrices
from destiny.estimators.session import FitSession, whole
from destiny.problems.data.rows import Rows
from destiny.protocols import Array, Topology
from destiny.validation import is_number

LARGEST = 2000  # features: their covariance matrix takes 16 MB a message
RANK = 1e-13  # eigenvalue of the correlations, relative to the largest, below which a direction is left out


@accept_silos("predict")
class DecentralizedRidge(Decentralized, MultiOutputMixin, RegressorMixin, BaseEstimator):
    """`sklearn.linear_model.Ridge` of rows that never leave the agents that hold them.

    The agents average the sums of their columns and targets, then the scatter matrix of both about the common
    mean, from which each computes the coefficients: nothing is iterated.

    Parameters
    ----------
    alpha : float
        Penalty alpha ||b||^2, at least 0: with 0 ordinary least squares, and if it has several solutions the
        smallest, as in `sklearn.linear_model.LinearRegression`. It depends on the units of the columns: scale
        them first (`DecentralizedScaler`).
    fit_intercept : bool
        Whether the line need not go through zero.
    n_agents, network, random_state, messages
        As in `DecentralizedPCA`; ``random_state`` is the seed of a random network. There is no run, so that
        ``messages`` may be private, but not of few bits.

    Attributes
    ----------
    coef_ : ndarray (n_features,) or (n_targets, n_features)
    intercept_ : float or ndarray (n_targets,)
    n_samples_, n_features_in_, feature_names_in_, n_rounds_, n_scalars_, network_
        As in `DecentralizedPCA`.

    Examples
    --------
    >>> import numpy as np
    >>> rows = np.random.default_rng(0).standard_normal((60, 3))
    >>> model = DecentralizedRidge(alpha=0, n_agents=3, random_state=0).fit(rows, rows @ [1, 2, 3] + 4)
    >>> model.coef_.round(6), round(float(model.intercept_), 6)
    (array([1., 2., 3.]), 4.0)
    """

    _joins_y = True
    _y_has = "targets"
    _transforms = False
    _shape_of_targets: tuple[int, ...] | None = None
    _limits = ()  # there is no run

    def __init__(
        self,
        alpha: float = 1.0,
        *,
        fit_intercept: bool = True,
        n_agents: int | None = None,
        network: str | Topology = "erdos-renyi",
        random_state: Any = None,
        messages: Messages | str | None = None,
    ) -> None:
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.n_agents = n_agents
        self.network = network
        self.random_state = random_state
        self.messages = messages

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the prediction for each row, ``(rows,)`` or ``(rows, n_targets)``."""
        return np.asarray(self._check_rows(X) @ self.coef_.T + self.intercept_)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return R^2 of `predict` over all rows of all silos."""
        if not is_silos(X):
            return float(r2_score(y, self.predict(X), sample_weight=sample_weight))
        targets, predicted = labels_of_silos(y, X, self._y_has), self.predict(X)
        for agent, pair in enumerate(zip(targets, predicted, strict=True)):
            call_for_silo(agent, check_consistent_length, *pair)
        weights = None if sample_weight is None else np.concatenate(weights_of_silos(sample_weight, X))
        return float(r2_score(np.concatenate(targets), np.concatenate(predicted), sample_weight=weights))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _check_table(self, X: Any, y: Any, sample_weight: Any, first: bool, least: int) -> Table:
        rows, targets = self._validate(
            X, y, reset=first, ensure_min_samples=least, multi_output=True, y_numeric=True
        )
        return self._joined(rows, targets, sample_weight, first)

    def _check_columns_of(self, silos: Any, first: bool) -> None:
        super()._check_columns_of(silos, first)
        if first:
            self._shape_of_targets = None

    def _pair(self, rows: Any, y: Any, sample_weight: Any) -> Table:
        try:
            targets = check_array(
                y, dtype=np.float64, ensure_2d=False, ensure_min_samples=0, allow_nd=False, input_name="y"
            )
        except (ValueError, TypeError) as error:
            raise as_problem_error(error, y) from error
        check_consistent_length(rows, targets)
        return self._joined(rows, targets, sample_weight, self._shape_of_targets is None)

    def _joined(self, rows: Any, targets: NDArray[Any], sample_weight: Any, first: bool) -> Table:
        """Return a table with its targets in place of labels; the first one sets their number.

        One column of targets is the same as none, as in scikit-learn.
        """
        targets = targets[:, 0] if targets.shape[1:] == (1,) else targets
        if first:
            self._shape_of_targets = targets.shape[1:]
        if targets.shape[1:] != self._shape_of_targets:
            raise ProblemError(
                f"y must have the same columns at all agents; found shapes {self._shape_of_targets} and "
                f"{targets.shape[1:]} of a row"
            )
        return weighted_table(rows, targets.astype(np.float64), sample_weight)

    def _learn(self, session: FitSession) -> None:
        n, d = self.n_features_in_, session.agents
        if not is_number(self.alpha) or self.alpha < 0:
            raise SettingsError(f"alpha must be a number of at least 0; found {self.alpha!r}")
        if n > LARGEST:
            raise SettingsError(
                f"{type(self).__name__} averages n x n matrices, of at most {LARGEST} features; found {n}: "
                "reduce them first (DecentralizedPCA)"
            )
        targets = {i: y[:, None] if y.ndim == 1 else y for i, y in session.targets.items()}

        def sums_and_size(i: int) -> Array:
            weights = session.weights.get(i)
            sums = [Rows(part, weights=weights).weighted_sums() for part in (session.rows[i], targets[i])]
            return np.concatenate([*sums, [len(targets[i]) if weights is None else weights.sum()]])

        sums = session.average(sums_and_size)
        self.n_samples_ = m = whole(sums.common[-1] * d)
        if not m:
            raise ProblemError("a regression needs rows; found none at any agent")
        centers = {i: s[:-1] / s[-1] * bool(self.fit_intercept) for i, s in sums.by_agent.items()}
        scatter = {
            i: _scatter(session.rows[i], targets[i], centers[i], session.weights.get(i)) / (m or 1)
            for i in targets
        }
        variances = session.average(lambda i: d * np.diagonal(scatter[i]))
        coef = _coefficients(sum_of_matrices(session, scatter), variances, n, self.alpha / m)
        mean = sums.common[:-1] / sums.common[-1] * bool(self.fit_intercept)
        intercept = mean[n:] - coef @ mean[:n]
        single = not self._shape_of_targets
        self.coef_ = (coef[0] if single else coef).astype(session.dtype)
        self.intercept_ = session.dtype(intercept[0]) if single else intercept.astype(session.dtype)
        self.network_ = session.network
        self.n_rounds_, self.n_scalars_ = session.average.rounds, session.average.scalars


def _scatter(rows: Any, targets: Array, mean: Array, weights: Array | None) -> Array:
    """Return the scatter matrix of rows and targets, side by side, about ``mean``."""
    total = np.zeros((len(mean), len(mean)))
    for part, block in Rows(rows).dense_blocks():
        A = np.hstack([block, targets[part]]) - mean
        if weights is not None:
            A *= np.sqrt(weights[part])[:, None]
        total += A.T @ A
    return total


def _coefficients(C: Array, variances: Average, n: int, penalty: float) -> Array:
    """Return (C_xx + penalty I)^-1 C_xy as ``(targets, n)``, computed in units in which the diagonal is 1.

    Without the penalty in the units, its share of a column in small ones would hide all other columns. Of a
    singular matrix the solution of least norm is returned.
    """
    diagonal = variances.common[:n] + penalty
    units = np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
    own = (C[:n, :n] + penalty * np.eye(n)) / np.outer(units, units)
    values, vectors = np.linalg.eigh(own)
    used = values > RANK * max(values[-1], 0.0)
    inverse = (vectors[:, used] / values[used]) @ vectors[:, used].T
    coef = (inverse @ (C[:n, n:] / units[:, None])) / units[:, None]
    free = np.linalg.qr(vectors[:, ~used] / units[:, None])[0]  # directions in which no row varies
    return np.asarray((coef - free @ (free.T @ coef)).T)

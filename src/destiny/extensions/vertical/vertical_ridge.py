"""Linear regression on columns held by many parties."""

from __future__ import annotations

import warnings
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_array, check_is_fitted
from threadpoolctl import threadpool_limits

from destiny.engines import Local
from destiny.engines.mixers import Messages
from destiny.errors import ProblemError, SettingsError
from destiny.estimators.averager import Averager
from destiny.estimators.fitting import choose_messages
from destiny.extensions.vertical.vertical_base import Vertical, centered_tables
from destiny.protocols import Array, Topology
from destiny.validation import is_number

RANK = 1e-12  # variance, relative to the largest of a party's directions in scaled columns, that is none


class VerticalRidge(Vertical, MultiOutputMixin, RegressorMixin, BaseEstimator):
    """`sklearn.linear_model.Ridge` of columns that never leave the parties that hold them.

    The parties minimize ||sum_i A_i b_i - y||^2 + alpha sum_i ||b_i||^2 by conjugate gradients (CGLS). An
    iteration averages A_i p_i, a number for each row, and some sums of squares; coefficients b_i and search
    directions p_i stay with party i. Each party makes its own columns orthonormal first, so that iterations
    depend on the correlations between parties alone. docs/privacy.md says who learns what.

    Parameters
    ----------
    alpha : float
        Penalty, at least 0: with 0 ordinary least squares, and one of its solutions if there are several.
    tol : float
        The iteration ends when the gradient is below ``tol`` times that at the start.
    max_iter : int, optional
        By default twice the number of columns, plus 10: in exact arithmetic as many as columns are enough.
    network, random_state, messages
        As in `DecentralizedPCA`; ``random_state`` is the seed of a random network. There is no run, so that
        ``messages`` may be private, but not of few bits.

    Attributes
    ----------
    coef_ : ndarray (n_features,) or (n_targets, n_features)
        The columns in the order of the parties; each party knows those of its own columns.
    intercept_ : float or ndarray (n_targets,)
    mean_ : ndarray (n_features,)
    n_iter_ : int
    converged_ : bool
    n_features_in_, feature_names_in_, n_rounds_, n_scalars_, network_
        As in `DecentralizedPCA`.

    Examples
    --------
    >>> import numpy as np
    >>> rows = np.random.default_rng(0).standard_normal((40, 5))
    >>> model = VerticalRidge(alpha=0).fit([rows[:, :2], rows[:, 2:]], rows @ [1, 2, 3, 4, 5] + 6)
    >>> model.coef_.round(6), round(float(model.intercept_), 6)
    (array([1., 2., 3., 4., 5.]), 6.0)
    """

    def __init__(
        self,
        alpha: float = 1.0,
        *,
        tol: float = 1e-12,
        max_iter: int | None = None,
        network: str | Topology = "erdos-renyi",
        random_state: Any = None,
        messages: Messages | str | None = None,
    ) -> None:
        self.alpha = alpha
        self.tol = tol
        self.max_iter = max_iter
        self.network = network
        self.random_state = random_state
        self.messages = messages

    def fit(self, X: Any, y: Any) -> Self:
        """Fit to the columns of all parties.

        Parameters
        ----------
        X : list of array-like (n_samples, columns), or Silos with split="columns"
            One table per party: different columns of the same rows, in the same order.
        y : array-like (n_samples,) or (n_samples, n_targets)
            The target of each row; every party learns it.

        Raises
        ------
        ProblemError, SettingsError
            If the tables, targets or parameters cannot be used. A `ConvergenceWarning` is issued, not raised,
            if ``tol`` was not reached.
        """
        for name in ("alpha", "tol"):
            if not is_number(getattr(self, name)) or getattr(self, name) < 0:
                raise SettingsError(f"{name} must be a number of at least 0; found {getattr(self, name)!r}")
        tables = self._tables(X, True)
        targets = check_array(y, ensure_2d=False, dtype=np.float64, input_name="y")
        if targets.ndim > 2 or len(targets) != tables[0].shape[0]:
            raise ProblemError(
                f"y must have a number for each of the {tables[0].shape[0]} rows; found shape {targets.shape}"
            )
        targets = targets[:, 0] if targets.shape[1:] == (1,) else targets  # as in scikit-learn
        messages = choose_messages(self.messages, type(self).__name__, averages_only=True)
        network, _ = self._start(len(tables))
        average = Averager(network, Local(), messages)
        with threadpool_limits(1):
            centered, self.mean_ = centered_tables(tables)
            mean = targets.mean(axis=0)
            Y = (targets - mean).reshape(len(targets), -1)
            limit = 2 * self.n_features_in_ + 10 if self.max_iter is None else self.max_iter
            coef, self.n_iter_, self.converged_ = _solve(centered, Y, self.alpha, average, self.tol, limit)
        self.coef_ = coef.T if targets.ndim == 2 else coef[:, 0]
        self.intercept_ = mean - self.coef_ @ self.mean_
        self.network_, self.n_rounds_, self.n_scalars_ = network, average.rounds, average.scalars
        if not self.converged_:
            warnings.warn(
                f"VerticalRidge did not converge in {self.n_iter_} iterations: raise max_iter or tol",
                ConvergenceWarning,
                stacklevel=2,
            )
        return self

    def predict(self, X: Any) -> Array:
        """Return the prediction for each row, the same at all parties, who average their parts of it."""
        check_is_fitted(self)
        factors = self.coef_.T if self.coef_.ndim == 2 else self.coef_[:, None]
        parts = self._sum_over_parties(X, factors)
        mean = self.intercept_ + self.coef_ @ self.mean_
        return np.asarray((parts if self.coef_.ndim == 2 else parts[:, 0]) + mean)


def _solve(
    tables: dict[int, Array], Y: Array, alpha: float, average: Averager, tol: float, limit: int
) -> tuple[Array, int, bool]:
    """Return the coefficients of all parties' columns, the iterations and whether ``tol`` was reached.

    CGLS, a column of Y at a time in every product: R is the residual, which all parties know.
    """
    d = len(tables)
    bases = {i: _basis(A, alpha) for i, A in tables.items()}
    data = {i: A @ bases[i] for i, A in tables.items()}
    size = {i: np.zeros((basis.shape[1], Y.shape[1])) for i, basis in bases.items()}
    Z, R = size, dict.fromkeys(tables, Y)

    def gradient(i: int) -> Array:
        return np.asarray(data[i].T @ R[i] - alpha * (bases[i].T @ (bases[i] @ Z[i])))

    S = {i: gradient(i) for i in tables}
    P = dict(S)
    gamma = average(lambda i: np.sum(np.square(S[i]), axis=0))
    start = gamma.common
    for iteration in range(1, limit + 1):
        if (gamma.common <= tol**2 * start).all():
            return _join(bases, Z), iteration - 1, True

        def product(i: int) -> Array:
            """The party's part of A P, and below it of alpha ||P||^2."""
            penalty = alpha * np.sum(np.square(bases[i] @ P[i]), axis=0)
            return np.vstack([data[i] @ P[i], penalty])

        sums = average(product)
        for i in tables:
            Q = d * sums.by_agent[i][:-1]
            curvature = np.sum(np.square(Q), axis=0) + d * sums.by_agent[i][-1]
            step = d * gamma.by_agent[i] / np.where(curvature > 0, curvature, 1.0)
            Z = Z | {i: Z[i] + step * P[i]}
            R = R | {i: R[i] - step * Q}
        S = {i: gradient(i) for i in tables}
        old, gamma = gamma, average(lambda i: np.sum(np.square(S[i]), axis=0))  # noqa: B023
        for i in tables:
            ratio = gamma.by_agent[i] / np.where(old.by_agent[i] > 0, old.by_agent[i], 1.0)
            P[i] = S[i] + ratio * P[i]
    return _join(bases, Z), limit, bool((gamma.common <= tol**2 * start).all())


def _basis(A: Array, alpha: float) -> Array:
    """Return T with T^T (A^T A + alpha I) T = I, without directions in which that matrix vanishes.

    They are found in units in which its diagonal is 1, so that a column in large ones hides no other.
    """
    gram = A.T @ A + alpha * np.eye(A.shape[1])
    units = np.sqrt(np.where(np.diagonal(gram) > 0, np.diagonal(gram), 1.0))
    values, vectors = np.linalg.eigh(gram / np.outer(units, units))
    used = values > RANK * max(values[-1], 0.0)
    return np.asarray(vectors[:, used] / np.sqrt(values[used]) / units[:, None])


def _join(bases: dict[int, Array], Z: dict[int, Array]) -> Array:
    return np.concatenate([bases[i] @ Z[i] for i in bases])

"""Common means and standard deviations of columns of which many agents hold rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import csr_array, diags_array, issparse
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_array, check_is_fitted

from destiny.engines.mixers import Messages
from destiny.errors import ProblemError
from destiny.estimators.fitting import Decentralized
from destiny.estimators.inputs import CheckedRows, accept_silos, as_problem_error
from destiny.estimators.known_entries import column_totals, entry_weights, sums_and_weights
from destiny.estimators.session import FitSession, whole
from destiny.problems.data.row_blocks import row_blocks
from destiny.problems.data.table_checks import require_numbers
from destiny.protocols import Array, Topology
from destiny.run.averaging import require_seen

EPS = float(np.finfo(np.float64).eps)
ROUNDING = 100 * EPS  # relative error of a mean that agents computed by averaging, generously


@accept_silos("transform", "inverse_transform")
class DecentralizedScaler(Decentralized, OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """`sklearn.preprocessing.StandardScaler` of rows that never leave the agents that hold them.

    The agents average the sums of their columns, then the squared distances from the common mean: every agent
    then scales its own rows by the mean and standard deviation of all rows. Missing entries (NaN) are left
    out of both, and stay missing in `transform`.

    Parameters
    ----------
    with_mean : bool
        Subtract the mean. Sparse rows cannot be centered without becoming dense: take False for them.
    with_std : bool
        Divide by the standard deviation; a constant column is divided by 1.
    n_agents, network, random_state, messages
        As in `DecentralizedPCA`; ``random_state`` is the seed of a random network. There is no run, so that
        ``messages`` may be private, but not of few bits.

    Attributes
    ----------
    mean_, var_, scale_ : ndarray (n_features,) or None
        Mean, variance (divided by the number of rows) and what `transform` divides by; None where it is not
        needed, as in StandardScaler.
    n_samples_seen_ : int, float or ndarray (n_features,)
        Number of rows, or sum of their weights; an array if it differs between columns, because entries are
        missing.
    n_features_in_, feature_names_in_, n_rounds_, n_scalars_, network_
        As in `DecentralizedPCA`.

    Examples
    --------
    >>> import numpy as np
    >>> scaler = DecentralizedScaler(network="ring").fit([np.eye(2), np.ones((2, 2)), np.ones((4, 2))])
    >>> scaler.mean_, scaler.n_samples_seen_
    (array([0.875, 0.875]), 8)
    """

    mean_: Any
    var_: Any
    scale_: Any
    _limits = ()  # there is no run

    def __init__(
        self,
        *,
        with_mean: bool = True,
        with_std: bool = True,
        n_agents: int | None = None,
        network: str | Topology = "erdos-renyi",
        random_state: Any = None,
        messages: Messages | str | None = None,
    ) -> None:
        self.with_mean = with_mean
        self.with_std = with_std
        self.n_agents = n_agents
        self.network = network
        self.random_state = random_state
        self.messages = messages

    def transform(self, X: Any) -> Any:
        """Return rows minus the mean, divided by the standard deviations."""
        X = self._check_rows(X)
        if not isinstance(X, np.ndarray):
            self._refuse_centering_of_sparse_rows()
            return (
                X.copy()
                if self.scale_ is None
                else csr_array(X @ diags_array(1 / self.scale_, dtype=X.dtype))
            )
        scaled = np.array(X)
        if self.with_mean:
            scaled -= self.mean_.astype(X.dtype)
        if self.with_std:
            scaled /= self.scale_.astype(X.dtype)
        return scaled

    def inverse_transform(self, X: Any) -> Any:
        """Return the rows that `transform` would turn into these."""
        check_is_fitted(self)
        X = X.as_floats() if isinstance(X, CheckedRows) else X
        require_numbers(X)
        try:
            scaled: Any = check_array(
                X,
                accept_sparse="csr",
                dtype=[np.float64, np.float32],
                ensure_all_finite="allow-nan",
                ensure_min_samples=0,
                copy=True,
            )
        except (ValueError, TypeError) as error:
            raise as_problem_error(error, X) from error
        if scaled.shape[1] != self.n_features_in_:
            raise ProblemError(f"rows must have {self.n_features_in_} columns; found {scaled.shape[1]}")
        if not isinstance(scaled, np.ndarray):
            self._refuse_centering_of_sparse_rows()
            return (
                scaled
                if self.scale_ is None
                else csr_array(scaled @ diags_array(self.scale_, dtype=scaled.dtype))
            )
        if self.with_std:
            scaled *= self.scale_.astype(scaled.dtype)
        if self.with_mean:
            scaled += self.mean_.astype(scaled.dtype)
        return scaled

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        tags.input_tags.sparse = not self.with_mean
        tags.input_tags.allow_nan = True
        return tags

    @property
    def _accepts_gaps(self) -> bool:
        return True

    def _refuse_centering_of_sparse_rows(self) -> None:
        if self.with_mean:
            raise ProblemError("sparse rows cannot be centered without becoming dense: take with_mean=False")

    def _learn(self, session: FitSession) -> None:
        if any(map(issparse, session.rows.values())):
            self._refuse_centering_of_sparse_rows()
        n = self.n_features_in_

        def totals(i: int) -> Array:
            return np.concatenate(sums_and_weights(session.rows[i], session.weights.get(i)))

        sums = session.average(totals, np.abs)
        counts = sums.common[n:] * session.agents
        if not counts.any():
            raise ProblemError("a scaler needs rows with numbers; found none at any agent")
        with np.errstate(invalid="ignore"):  # a column without any number
            mean = {i: s[:n] / s[n:] for i, s in sums.by_agent.items()}
            common = sums.common[:n] / sums.common[n:]
        self.n_samples_seen_ = whole(counts[0]) if np.ptp(counts) <= ROUNDING * counts[0] else counts.round(9)
        self.mean_ = common if self.with_mean or self.with_std else None
        self.var_ = self.scale_ = None
        if self.with_std:
            own = {i: _squares(rows, session.weights.get(i), mean[i]) for i, rows in session.rows.items()}
            squares = session.average(own.__getitem__, np.abs)
            if session.messages.private and session.agents > 1:
                for i, common_squares in squares.by_agent.items():
                    noise = np.square(ROUNDING * mean[i])
                    require_seen(own[i], session.agents * common_squares, noise, session.average.columns)
            with np.errstate(invalid="ignore"):
                variance = squares.common / sums.common[n:]
            # scikit-learn's bound for a constant column, with the rounding of averages added.
            constant = (
                variance <= counts * EPS * variance + (np.maximum(counts * EPS, ROUNDING) * common) ** 2
            )
            self.var_ = variance
            self.scale_ = np.where(constant, 1.0, np.sqrt(variance))
        self.network_ = session.network
        self.n_rounds_, self.n_scalars_ = session.average.rounds, session.average.scalars


def _squares(rows: Any, weights: Array | None, mean: Array) -> Array:
    """Return the weighted sums of the squared distances of the columns from the mean, gaps left out."""
    n = rows.shape[1]
    total = np.zeros(n)
    for part, block in row_blocks(rows):
        w = np.ones(block.shape[0]) if weights is None else weights[part]
        if isinstance(block, np.ndarray):
            total += w @ np.square(np.nan_to_num(np.subtract(block, mean, dtype=np.float64)))
            continue
        entries, columns = entry_weights(block, w), block.indices
        squares = np.square(np.nan_to_num(block.data - mean[columns]))
        unstored = np.maximum(w.sum() - column_totals(columns, entries, n), 0.0)  # zeros, hence -mean
        total += unstored * np.square(mean) + column_totals(columns, entries * squares, n)
    return total

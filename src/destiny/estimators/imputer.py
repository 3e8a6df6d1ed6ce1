"""Means of columns, over the rows of many agents, in place of missing entries."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin

from destiny.engines.mixers import Messages
from destiny.errors import ProblemError, SettingsError
from destiny.estimators.fitting import Decentralized
from destiny.estimators.inputs import accept_silos, column_name
from destiny.estimators.known_entries import sums_and_weights
from destiny.estimators.session import FitSession
from destiny.protocols import Array, Topology
from destiny.validation import is_number


@accept_silos("transform")
class DecentralizedImputer(Decentralized, OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """`sklearn.impute.SimpleImputer` for rows that never leave the agents that hold them.

    The agents average the sums and the numbers of the entries of each column; every agent then puts the mean
    of all entries in place of its own missing ones (NaN).

    Parameters
    ----------
    strategy : {"mean", "constant"}
        "constant" puts ``fill_value`` in place of gaps. Medians and most frequent values are refused: they
        are no averages, and to find them agents would have to tell single entries.
    fill_value : float
        Of the strategy "constant".
    n_agents, network, random_state, messages
        As in `DecentralizedPCA`; ``random_state`` is the seed of a random network. There is no run, so that
        ``messages`` may be private, but not of few bits.

    Attributes
    ----------
    statistics_ : ndarray (n_features,)
        What gaps are filled with. A column of which no agent has an entry is refused.
    n_features_in_, feature_names_in_, n_rounds_, n_scalars_, network_
        As in `DecentralizedPCA`.

    Examples
    --------
    >>> import numpy as np
    >>> imputer = DecentralizedImputer(network="ring").fit([[[1, np.nan]], [[2, 4]], [[6, 8]]])
    >>> imputer.transform([[np.nan, np.nan]])
    array([[3., 6.]])
    """

    _limits = ()  # there is no run

    def __init__(
        self,
        *,
        strategy: Literal["mean", "constant"] = "mean",
        fill_value: float = 0.0,
        n_agents: int | None = None,
        network: str | Topology = "erdos-renyi",
        random_state: Any = None,
        messages: Messages | str | None = None,
    ) -> None:
        self.strategy = strategy
        self.fill_value = fill_value
        self.n_agents = n_agents
        self.network = network
        self.random_state = random_state
        self.messages = messages

    def transform(self, X: Any) -> Any:
        """Return the rows with their gaps filled."""
        X = self._check_rows(X)
        filled = X.copy()
        if isinstance(filled, np.ndarray):
            rows, columns = np.nonzero(np.isnan(filled))
            filled[rows, columns] = self.statistics_[columns]
        else:
            gaps = np.isnan(filled.data)
            filled.data[gaps] = self.statistics_[filled.indices[gaps]]
        return filled

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = True
        return tags

    @property
    def _accepts_gaps(self) -> bool:
        return True

    def _learn(self, session: FitSession) -> None:
        if self.strategy in ("median", "most_frequent"):
            raise SettingsError(
                f'strategy must be "mean" or "constant"; found {self.strategy!r}, which is no average: '
                "agents would have to tell single entries to find it"
            )
        if self.strategy not in ("mean", "constant"):
            raise SettingsError(f'strategy must be "mean" or "constant"; found {self.strategy!r}')
        n = self.n_features_in_
        self.network_ = session.network
        if self.strategy == "constant":
            if not is_number(self.fill_value):
                raise SettingsError(f"fill_value must be a number; found {self.fill_value!r}")
            self.statistics_ = np.full(n, float(self.fill_value))
            self.n_rounds_ = self.n_scalars_ = 0
            return

        def totals(i: int) -> Array:
            return np.concatenate(sums_and_weights(session.rows[i], session.weights.get(i)))

        sums = session.average(totals, np.abs).common
        empty = np.flatnonzero(sums[n:] == 0)
        if empty.size:
            raise ProblemError(
                "every column must have an entry at some agent; found none in column "
                f'{column_name(self, empty[0])}: leave it out, or take strategy="constant"'
            )
        self.statistics_ = sums[:n] / sums[n:]
        self.n_rounds_, self.n_scalars_ = session.average.rounds, session.average.scalars

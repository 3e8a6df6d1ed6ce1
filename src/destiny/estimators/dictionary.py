"""Sparse dictionary learning on rows held by many agents."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.extmath import svd_flip

from destiny.errors import ProblemError
from destiny.estimators.fitting import Decentralized
from destiny.estimators.inputs import silos_in_silos_out
from destiny.estimators.party import Party
from destiny.problems import SDL
from destiny.protocols import Algorithm, Array, Topology


@silos_in_silos_out("transform", "inverse_transform")
class SparseDictionary(Decentralized, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """An orthonormal dictionary in which rows held by many agents are sparse, by the l4 norm.

    The agents maximise the sum of the fourth powers of the codes ``X components_^T``: among codes of given
    length the sparse ones have the largest. Rows ``Z Q`` with an orthogonal Q and sparse codes Z lead back
    to the rows of Q, up to sign and order. Nothing is centred.

    Parameters
    ----------
    n_components : int, optional
        Dictionary elements, by default n_features: a whole orthogonal dictionary.
    n_agents, network, method, tol, max_rounds, random_state
        As in `DecentralizedPCA`. The objective has many stationary points: the starting point, hence
        ``random_state``, decides which one is found.

    Attributes
    ----------
    components_ : ndarray (n_components, n_features)
        Orthonormal rows, by falling fourth moment of their codes, the largest entry of each positive.
    fourth_moments_ : ndarray (n_components,)
        Mean fourth power of the codes of all rows.
    n_samples_, n_features_in_, feature_names_in_, n_rounds_, n_scalars_, history_, converged_, network_
        As in `DecentralizedPCA`.
    """

    _sparse = False  # a dense dictionary makes sparse codes of dense rows

    _sizes = (1e-8, 1e8)  # fourth powers are added

    def __init__(
        self,
        n_components: int | None = None,
        *,
        n_agents: int | None = None,
        network: str | Topology = "erdos-renyi",
        method: Algorithm[Any] | None = None,
        tol: float = 1e-6,
        max_rounds: int = 10_000,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.n_agents = n_agents
        self.network = network
        self.method = method
        self.tol = tol
        self.max_rounds = max_rounds
        self.random_state = random_state

    def transform(self, X: Any) -> Any:
        """Codes of some rows, ``X components_^T``."""
        return self._rows(X) @ self.components_.T

    def inverse_transform(self, X: Any) -> Any:
        """Rows that have these codes, ``X components_``."""
        return self._codes(X) @ self.components_

    @property
    def _n_features_out(self) -> int:
        return int(self.components_.shape[0])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def _learn(self, party: Party) -> None:
        n = self.n_features_in_
        p = self._columns(n, "n_features")
        problem = SDL([party.data(i) for i in range(party.agents)], p, precision="float64", n=n)
        found = party.solve(problem, self.get_params())

        def moments(i: int) -> Array:
            """Fourth powers of an agent's codes, and its number of rows."""
            rows = party.rows[i].astype(np.float64)
            return np.append(np.sum((rows @ found.own[i]) ** 4, axis=0), len(rows))

        *sums, share = party.average(moments).told
        if share == 0:
            raise ProblemError("a dictionary is learnt from rows; found none at any agent")
        order = np.argsort(sums)[::-1]
        components = svd_flip(None, found.told.T[order], u_based_decision=False)[1]
        self.components_ = components.astype(party.dtype)
        self.fourth_moments_ = (np.array(sums)[order] / share).astype(party.dtype)
        self.n_samples_ = round(share * party.agents)
        self._report(party, found.result)

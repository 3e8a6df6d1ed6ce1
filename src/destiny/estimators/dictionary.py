"""Sparse dictionary learning on rows held by many agents."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.extmath import svd_flip

from destiny.engines.mixers import Messages
from destiny.errors import ProblemError
from destiny.estimators.fitting import Decentralized
from destiny.estimators.inputs import accept_silos
from destiny.estimators.session import Attempt, FitSession, best_attempt, whole
from destiny.problems import SDL
from destiny.problems.data.partition import Source
from destiny.problems.data.row_blocks import row_blocks
from destiny.protocols import Algorithm, Array, Topology
from destiny.run.solve import SolveOptions


@accept_silos("transform", "inverse_transform")
class DecentralizedSparseDictionary(
    Decentralized, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator
):
    """Orthonormal dictionary in which the rows of many agents have sparse codes, by the l4 norm.

    The agents maximize the sum of the fourth powers of the codes ``X components_^T``: among codes of given
    length, sparse ones have the largest. For rows ``Z Q`` with sparse Z and an orthogonal matrix Q, the
    components are the rows of Q up to sign and order. Rows are not centered.

    Parameters
    ----------
    n_components : int, optional
        Number of dictionary elements, by default n_features: a complete orthogonal dictionary.
    n_init : int
        Number of random starts. The agents keep the answer with the best ``objective_``, of a run that
        converged if there is one. The objective has many stationary points, and one start may end in a poor
        one; each takes a run of its own.
    n_agents, network, method, tol, max_rounds, random_state, verbose, messages
        As in `DecentralizedPCA`; ``random_state`` is the seed of the starts, too.

    Attributes
    ----------
    components_ : ndarray (n_components, n_features)
        Orthonormal rows, sorted by decreasing fourth moment of their codes; the largest entry of each is
        positive.
    fourth_moments_ : ndarray (n_components,)
        Mean fourth power of the codes of all rows.
    objective_ : float
        Sum of ``fourth_moments_``, which the agents maximize.
    n_samples_, n_features_in_, feature_names_in_, n_rounds_, n_scalars_, history_, notes_, \
converged_, network_
        As in `DecentralizedPCA`.
    """

    _accepts_sparse = False  # rows are dense: only their codes are sparse

    _magnitudes = (1e-8, 1e8)  # fourth powers are summed

    def __init__(
        self,
        n_components: int | None = None,
        *,
        n_init: int = 1,
        n_agents: int | None = None,
        network: str | Topology = "erdos-renyi",
        method: Algorithm[Any] | str | None = None,
        tol: float = 1e-6,
        max_rounds: int = SolveOptions.rounds,
        random_state: Any = None,
        verbose: bool = False,
        messages: Messages | str | None = None,
    ) -> None:
        self.n_components = n_components
        self.n_init = n_init
        self.n_agents = n_agents
        self.network = network
        self.method = method
        self.tol = tol
        self.max_rounds = max_rounds
        self.random_state = random_state
        self.verbose = verbose
        self.messages = messages

    def transform(self, X: Any) -> Any:
        """Return the codes of some rows, ``X components_^T``."""
        return self._check_rows(X) @ self.components_.T

    def inverse_transform(self, X: Any) -> Any:
        """Return the rows with these codes, ``X components_``."""
        return self._check_codes(X) @ self.components_

    @property
    def _n_features_out(self) -> int:
        return int(self.components_.shape[0])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def _learn(self, session: FitSession) -> None:
        n = self.n_features_in_
        p = self._count_components(n, "n_features")
        problem = SDL([_data(session, i) for i in range(session.agents)], p, precision="float64", n=n)

        def moments(i: int, basis: Array) -> Array:
            """Return the sums of the fourth powers of an agent's codes, and the sum of its weights."""
            total = np.zeros(p + 1)
            for part, rows in row_blocks(session.rows[i]):
                powers = (rows.astype(np.float64) @ basis) ** 4
                weights = session.weights[i][part] if session.weights else np.ones(len(rows))
                total += np.append(weights @ powers, weights.sum())
            return total

        def attempt(run: int) -> Attempt:
            """Return the dictionary of one start, with the sums of its fourth powers and of the weights."""
            found = session.solve(problem, self.get_params(), run=run)
            sums = session.average(lambda i: moments(i, found.by_agent[i])).common
            return Attempt(found, -float(sums[:-1].sum()), sums)

        best = best_attempt(attempt, self.n_init)
        solution, (*sums, share) = best.solution, best.moments
        if share == 0:
            raise ProblemError("a dictionary is learned from rows; found none at any agent")
        self.objective_ = float(np.sum(sums) / share)
        order = np.argsort(sums)[::-1]
        components = svd_flip(None, solution.common.T[order], u_based_decision=False)[1]
        self.components_ = components.astype(session.dtype)
        self.fourth_moments_ = (np.array(sums)[order] / share).astype(session.dtype)
        self.n_samples_ = whole(share * session.agents)
        self._set_fit_attributes(session, solution.result)


def _data(session: FitSession, agent: int) -> Source:
    """Return the rows of an agent, with weights as factors of the fourth powers."""
    if agent not in session.weights:
        return session.data(agent)
    return np.asarray(session.rows[agent][:] * session.weights[agent][:, None] ** 0.25)

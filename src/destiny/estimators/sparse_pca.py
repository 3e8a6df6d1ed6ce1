"""Sparse principal component analysis of rows held by many agents."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.extmath import svd_flip

from destiny.engines.mixers import Messages
from destiny.errors import ProblemError, SettingsError
from destiny.estimators.fitting import Decentralized
from destiny.estimators.inputs import accept_silos
from destiny.estimators.session import Attempt, FitSession, best_attempt, whole
from destiny.problems import L1, PCA, regularized
from destiny.protocols import Algorithm, Array, Topology
from destiny.run.metrics import sparsity
from destiny.run.solve import SolveOptions
from destiny.validation import is_number


@accept_silos("transform", "inverse_transform")
class DecentralizedSparsePCA(Decentralized, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Orthonormal components with exact zeros, of rows that never leave the agents that hold them.

    The agents compute the mean, then minimize

        -1/2 tr(X^T S X) + alpha v sum |X_jk|   subject to X^T X = I,

    where S is the covariance of all rows and v the mean variance of a feature, so that multiplying the rows
    changes nothing. Unlike those of `sklearn.decomposition.SparsePCA`, the components are orthonormal: the
    variances along them add up, and `inverse_transform` needs no regression.

    Parameters
    ----------
    n_components : int, optional
        By default min(n_samples, n_features).
    alpha : float
        Weight of the l1 norm, at least 0: the larger, the more entries are zero. With 0 the components span
        the subspace of PCA.
    n_init : int
        Number of random starts. The agents keep the answer with the best ``objective_``, of a run that
        converged if there is one. The objective has many stationary points, and one start may end in a poor
        one; each takes a run of its own.
    n_agents, network, method, tol, max_rounds, random_state, verbose, messages
        As in `DecentralizedPCA`; ``method`` is proximal DESTINY by default. ``random_state`` is the seed of
        the starts, too.

    Attributes
    ----------
    components_ : ndarray (n_components, n_features)
        Orthonormal rows with exact zeros, sorted by decreasing variance; the largest entry of each is
        positive. Without convergence they are orthonormal and have no exact zeros.
    sparsity_ : float
        Share of the entries of ``components_`` that are zero.
    objective_ : float
        What was minimized, at ``components_``, in the units of ``explained_variance_``.
    explained_variance_, explained_variance_ratio_ : ndarray (n_components,)
        Variance of the rows along each component, and its share of the total variance.
    mean_, n_components_, n_samples_, n_features_in_, feature_names_in_, n_rounds_, n_scalars_, history_, \
converged_, network_
        As in `DecentralizedPCA`.

    Examples
    --------
    >>> import numpy as np
    >>> hospitals = [np.random.default_rng(i).standard_normal((90, 5)) * [3, 2, 1, 1, 1] for i in range(3)]
    >>> pca = DecentralizedSparsePCA(n_components=2, alpha=0.1, random_state=0).fit(hospitals)
    >>> (pca.components_ != 0).astype(int)
    array([[1, 0, 0, 0, 0],
           [0, 1, 0, 0, 0]])
    """

    _min_rows = 2  # the variance of one row is not defined

    def __init__(
        self,
        n_components: int | None = None,
        *,
        alpha: float = 0.1,
        n_init: int = 1,
        n_agents: int | None = None,
        network: str | Topology = "erdos-renyi",
        method: Algorithm[Any] | str | None = None,
        tol: float = 1e-8,
        max_rounds: int = SolveOptions.rounds,
        random_state: Any = None,
        verbose: bool = False,
        messages: Messages | str | None = None,
    ) -> None:
        self.n_components = n_components
        self.alpha = alpha
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
        """Return the coordinates of some rows along the components, ``(rows, n_components)``."""
        X = self._check_rows(X)
        return X @ self.components_.T - self.mean_ @ self.components_.T

    def inverse_transform(self, X: Any) -> Any:
        """Return the rows in the span of the components that have these coordinates."""
        return self._check_codes(X) @ self.components_ + self.mean_

    @property
    def _n_features_out(self) -> int:
        return int(self.components_.shape[0])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        tags.input_tags.sparse = True
        return tags

    def _learn(self, session: FitSession) -> None:
        if not is_number(self.alpha) or self.alpha < 0:
            raise SettingsError(f"alpha must be a number >= 0; found {self.alpha!r}")
        n = self.n_features_in_

        def sums_and_size(i: int) -> Array:
            """Return the sums of an agent's columns and the number of its rows, or their weight."""
            rows = session.weighted_rows(i)
            return np.append(rows.weighted_sums(), rows.weight)

        sums = session.average(sums_and_size)
        m = whole(sums.common[-1] * session.agents)
        if m < self._min_rows:
            raise ProblemError(
                f"sparse PCA needs at least {self._min_rows} rows; found {m} at all agents together"
            )
        p = self._count_components(min(int(m), n), "min(n_samples, n_features)")
        tables = {i: session.weighted_rows(i).about(s[:-1] / s[-1]) for i, s in sums.by_agent.items()}
        # tr(S) (m - 1) / d, in the units of f = (1/d) sum f_i
        (square,) = session.average(lambda i: np.array([tables[i].squared_norm()])).common
        problem = regularized(PCA(session.sources(tables), p, n=n), L1(self.alpha * square / n))
        factor = session.agents / (m - 1)

        def attempt(run: int) -> Attempt:
            """Return the components of one start, with the variances along them."""
            found = session.solve(problem, self.get_params(), run=run)
            parts = session.average(lambda i: np.diag(tables[i].gram(found.by_agent[i])))
            variance = parts.common * factor
            penalty = self.alpha * square * factor / n * np.abs(found.common).sum()
            return Attempt(found, float(penalty - variance.sum() / 2), variance)

        best = best_attempt(attempt, self.n_init)
        solution, variance, self.objective_ = best.solution, best.moments, best.objective
        order = np.argsort(-variance, kind="stable")
        components = svd_flip(None, solution.common.T[order], u_based_decision=False)[1]
        self.components_ = components.astype(session.dtype)
        self.sparsity_ = sparsity(self.components_)
        self.explained_variance_ = variance[order].astype(session.dtype)
        self.explained_variance_ratio_ = (variance[order] / (square * factor or 1.0)).astype(session.dtype)
        self.mean_ = (sums.common[:-1] / sums.common[-1]).astype(session.dtype)
        self.n_samples_, self.n_components_ = m, p
        self._set_fit_attributes(session, solution.result)

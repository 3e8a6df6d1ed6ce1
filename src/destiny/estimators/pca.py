"""Principal component analysis of rows held by many agents."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.decomposition import PCA
from sklearn.utils.extmath import svd_flip

from destiny.drive import ROUNDING
from destiny.errors import ProblemError, SettingsError, is_whole
from destiny.estimators.centred import centred, problem, square
from destiny.estimators.fitting import Decentralized
from destiny.estimators.party import Party
from destiny.estimators.rows import is_silos
from destiny.types import Algorithm, Array, Topology


class DecentralizedPCA(Decentralized, PCA):
    """`sklearn.decomposition.PCA` of rows that never leave the agents that hold them.

    The agents find the mean by averaging over their neighbours, then the leading subspace, then the
    covariance within it and the total variance. The answer is that of PCA on all rows together: components
    with the same signs, to 1e-6 unless two variances, the last one kept and the first one left out among
    them, are closer than about 1e-4 of the largest. All other methods are those of PCA.

    Parameters
    ----------
    n_components : int, optional
        By default min(n_samples, n_features), as in PCA. Shares of the variance and "mle" are refused: they
        need all variances, and agents must agree on the size of their messages before they start.
    n_agents : int
        Agents that one table of rows is dealt out to; where there are fewer rows than agents, the last ones
        hold none. Silos, and a network given as such, tell the number themselves.
    network : str or Network
        The name of a kind of `destiny.networks.build` that needs no further options, or a network.
    whiten : bool
        Divide by the standard deviations in `transform`.
    method : Algorithm, optional
        By default accelerated DESTINY.
    tol : float
        The run has converged when stationarity, consensus and feasibility are below it.
    max_rounds : int
        Rounds the run may take; those of averaging come on top.
    random_state : int, RandomState or None
        Of a random network and of the starting point.

    Attributes
    ----------
    components_, explained_variance_, explained_variance_ratio_, singular_values_, mean_, noise_variance_, \
n_components_, n_samples_, n_features_in_, feature_names_in_
        As in PCA.
    n_rounds_, n_scalars_ : int
        Rounds of communication, averaging included, and numbers sent over all links.
    history_ : History
        The run, one row per measurement.
    converged_ : bool
    network_ : Network
        Who talked to whom.

    Examples
    --------
    >>> import numpy as np
    >>> hospitals = [np.random.default_rng(i).standard_normal((9 + i, 4)) * [3, 2, 1, 1] for i in range(3)]
    >>> pca = DecentralizedPCA(n_components=2, random_state=0).fit(hospitals)
    >>> pca.components_.shape, pca.n_samples_
    ((2, 4), 30)
    """

    _least = 2  # the variance of one row is not defined

    def __init__(
        self,
        n_components: int | None = None,
        *,
        n_agents: int = 8,
        network: str | Topology = "erdos-renyi",
        whiten: bool = False,
        method: Algorithm[Any] | None = None,
        tol: float = 1e-10,
        max_rounds: int = 10_000,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.n_agents = n_agents
        self.network = network
        self.whiten = whiten
        self.method = method
        self.tol = tol
        self.max_rounds = max_rounds
        self.random_state = random_state

    def fit_transform(self, X: Any, y: Any = None) -> Any:
        """Fit to one table of rows and transform it."""
        if is_silos(X):
            raise ProblemError("fit_transform takes one table; found silos: fit them, then transform each")
        return self.fit(X, y).transform(X)

    def __sklearn_tags__(self) -> Any:
        tags = super(PCA, self).__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        tags.input_tags.sparse = True
        return tags

    def _learn(self, party: Party) -> None:
        if not (self.n_components is None or is_whole(self.n_components)):
            raise SettingsError(
                f"n_components must be a whole number or None; found {self.n_components!r}: agents must "
                "agree on the size of their messages before they know a variance; fit with more components "
                "and keep those that explained_variance_ratio_ asks for"
            )
        n = self.n_features_in_
        sums = party.average(lambda i: np.append(_sum(party.rows[i]), party.rows[i].shape[0]))
        m = round(sums.told[-1] * party.agents)
        if m < self._least:
            raise ProblemError(f"PCA needs at least {self._least} rows; found {m} at all agents together")
        p = self._columns(min(m, n), "min(n_samples, n_features)")
        mean = {i: s[:-1] / s[-1] for i, s in sums.own.items()}
        held = {i: centred(rows, mean[i]) for i, rows in party.rows.items()}
        found = party.solve(problem(held, party.agents, (n, p)), self.get_params())

        def variances(i: int) -> Array:
            """The covariance within the subspace and the total variance, as far as an agent knows them."""
            Z = held[i] @ found.own[i]
            return np.append(Z.T @ Z, square(party.rows[i], mean[i]))

        spread = party.average(variances).told * (party.agents / (m - 1))
        variance, V = np.linalg.eigh(spread[:-1].reshape(p, p))
        self._set(
            party, sums.told[:-1] / sums.told[-1], np.maximum(variance[::-1], 0.0), float(spread[-1]), m
        )
        components = svd_flip(None, (found.told @ V[:, ::-1]).T, u_based_decision=False)[1]
        self.components_ = components.astype(party.dtype)
        self._report(party, found.result, self._doubt(variance[::-1], n))

    def _doubt(self, variance: Array, n: int) -> str | None:
        """Why components may be wrong though the agents came to rest: they rest relative to the largest."""
        share = variance / (variance[0] or 1.0)
        unseen = share[(share < 1e3 * self.tol) & (share > ROUNDING)]
        if len(variance) == n or not unseen.size:  # all of the space, found without a search
            return None
        return (
            f"a variance is {unseen[0]:.0e} of the largest, which a tol of {self.tol:g} does not see: scale "
            "the columns, or take n_components=None"
        )

    def _set(self, party: Party, mean: Array, variance: Array, total: float, m: int) -> None:
        """PCA's attributes."""
        n, p = len(mean), len(variance)
        self.mean_ = mean.astype(party.dtype)
        self.n_samples_, self.n_components_ = m, p
        self.explained_variance_ = variance.astype(party.dtype)
        self.explained_variance_ratio_ = (variance / (total or 1.0)).astype(party.dtype)
        self.singular_values_ = np.sqrt(variance * (m - 1)).astype(party.dtype)
        rest = min(m, n) - p
        self.noise_variance_ = max(0.0, total - variance.sum()) / rest if rest else 0.0


def _sum(rows: Any) -> Array:
    """Of dense or sparse rows, ``(n,)``."""
    return np.asarray(rows.sum(axis=0, dtype=np.float64)).ravel()

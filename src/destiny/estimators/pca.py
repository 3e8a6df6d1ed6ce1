"""Principal component analysis of rows held by many agents."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
from sklearn.decomposition import PCA
from sklearn.utils.extmath import svd_flip
from sklearn.utils.validation import check_is_fitted

from destiny.errors import ProblemError, SettingsError, is_whole
from destiny.estimators.centred_rows import centred, dense_blocks, gram, problem, square
from destiny.estimators.fitting import Decentralized, column_scales
from destiny.estimators.inputs import silos_in_silos_out
from destiny.estimators.party import Found, Party, everyone
from destiny.protocols import Algorithm, Array, Topology
from destiny.run.driver import ROUNDING
from destiny.run.solve import chosen

EPS = float(np.finfo(np.float64).eps)


@silos_in_silos_out("transform", "inverse_transform", "score_samples")
class DecentralizedPCA(Decentralized, PCA):
    """`sklearn.decomposition.PCA` of rows that never leave the agents that hold them.

    The agents find the mean by averaging over their neighbours, then the leading subspace, then the
    covariance within it and the total variance. The answer is that of PCA on all rows together: components
    with the same signs, to 1e-6 unless two variances, the last one kept and the first one left out among
    them, are closer than about 1e-4 of the largest. All other methods are those of PCA; those that take rows
    also take a list of tables, and give a list.

    Parameters
    ----------
    n_components : int, optional
        By default min(n_samples, n_features), as in PCA. With all n_features components the agents average
        their covariances and need no search. Shares of the variance and "mle" are refused: they need all
        variances, and agents must agree on the size of their messages before they start.
    n_agents : int, optional
        Agents that one table of rows is dealt out to, by default 8; where there are fewer rows than agents,
        the last ones hold none. Silos, and a network given as such, tell the number themselves: another
        number is refused.
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
        The run, one row per measurement; no rows where there was no search.
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
        n_agents: int | None = None,
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

    def transform(self, X: Any) -> Any:
        """The coordinates of some rows along the components."""
        X = self._rows(X)
        codes = X @ self.components_.T - self.mean_ @ self.components_.T
        if self.whiten:
            scale = np.sqrt(self.explained_variance_)
            codes /= np.maximum(scale, np.finfo(scale.dtype).eps)
        return codes

    def inverse_transform(self, X: Any) -> Any:
        """The rows that have these coordinates, as far as the components tell."""
        codes = self._codes(X)
        if self.whiten:
            codes = codes * np.sqrt(self.explained_variance_)
        return codes @ self.components_ + self.mean_

    def get_precision(self) -> Array:
        """The inverse of `get_covariance`; refused where a direction has no variance."""
        along, across = self._model()
        V = self.components_
        if across is None:
            return np.asarray((V.T / along) @ V)
        return np.asarray((V.T * (1 / along - 1 / across)) @ V + np.eye(V.shape[1]) / across)

    def score_samples(self, X: Any) -> Array:
        """The log-likelihood of every row; refused where a direction has no variance."""
        X = self._rows(X)
        along, across = self._model()
        V: Any = self.components_
        mean: Any = self.mean_
        p, n = V.shape
        constant = np.sum(np.log(along)) + n * np.log(2 * np.pi)
        if across is not None:
            constant += (n - p) * np.log(across)
        likelihood = np.empty(X.shape[0], dtype=np.result_type(X.dtype, V.dtype))
        for rows, block in dense_blocks(X):
            differences: Any = block - mean
            codes = differences @ V.T
            distance = np.square(codes) @ (1 / along)
            if across is not None:
                distance += np.square(differences - codes @ V).sum(axis=1) / across
            likelihood[rows] = -0.5 * (distance + constant)
        return likelihood

    def score(self, X: Any, y: Any = None) -> float:  # noqa: ARG002
        """The mean log-likelihood of all rows, of all silos together."""
        parts: Any = self.score_samples(X)
        samples = np.concatenate(parts) if isinstance(parts, list) else parts
        if not samples.size:
            raise ProblemError("score needs rows; found none")
        return float(np.mean(samples))

    def _model(self) -> tuple[Array, float | None]:
        """The model's variances along the components and, if these leave any, in all other directions."""
        check_is_fitted(self)
        variance: Any = self.explained_variance_
        p, n = self.components_.shape
        across = float(self.noise_variance_)
        seen = np.count_nonzero(variance > _rounding(n) * variance[0])
        if seen < n and not across:
            fewer = f", or take fewer than {seen} components" if seen > 1 else ""
            raise ProblemError(
                f"a likelihood needs variance in all directions; found it in {seen} of {n}: leave out "
                f"columns that are constant or depend on others{fewer}"
            )
        along = np.maximum(variance - across, 0) * (variance if self.whiten else 1) + across
        return along, across if p < n else None

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
        if not isinstance(self.whiten, bool | np.bool_):
            raise SettingsError(f"whiten must be True or False; found {self.whiten!r}")
        n = self.n_features_in_
        sums = party.average(lambda i: np.append(_sum(party.rows[i]), party.rows[i].shape[0]))
        m = round(sums.told[-1] * party.agents)
        if m < self._least:
            raise ProblemError(f"PCA needs at least {self._least} rows; found {m} at all agents together")
        p = self._columns(min(m, n), "min(n_samples, n_features)")
        mean = {i: s[:-1] / s[-1] for i, s in sums.own.items()}
        held = {i: centred(rows, mean[i]) for i, rows in party.rows.items()}
        found = self._subspace(party, held, (n, p))
        upper = np.triu_indices(p)

        def variances(i: int) -> Array:
            """The covariance within the subspace and the total variance, as far as an agent knows them."""
            basis = None if found is None else found.own[i]
            return np.append(gram(held[i], basis)[upper], square(party.rows[i], mean[i]))

        spread = party.average(variances).told * (party.agents / (m - 1))
        covariance = np.zeros((p, p))
        covariance[upper] = spread[:-1]
        variance, V = np.linalg.eigh(covariance, UPLO="U")
        variance, V = np.maximum(variance[::-1], 0.0), V[:, ::-1]
        self._set(party, sums.told[:-1] / sums.told[-1], variance, float(spread[-1]), m)
        axes = V if found is None else found.told @ V
        self.components_ = svd_flip(None, axes.T, u_based_decision=False)[1].astype(party.dtype)
        self._report(party, None if found is None else found.result, self._doubt(party, variance, n))

    def _subspace(self, party: Party, held: dict[int, Any], shape: tuple[int, int]) -> Found | None:
        """The leading subspace; None if it is the whole space, which needs no search."""
        task = problem(held, party.agents, shape)
        if shape[0] != shape[1]:
            return party.solve(task, self.get_params())
        chosen(self.method, task, party.network)  # a method that does not fit is refused all the same
        return None

    def _doubt(self, party: Party, variance: Array, n: int) -> str | None:
        """Why components may be wrong though the agents came to rest: they rest relative to the largest."""
        share = variance / (variance[0] or 1.0)
        if share[-1] <= ROUNDING and any(everyone(party.engine, _differ(party.rows.values()))):
            return (
                f"a variance is less than {ROUNDING:.0e} of the largest, which rounding hides, and columns "
                "have very different scales: scale them"
            )
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
        if total <= n * (10 * EPS) ** 2 * (mean @ mean):  # all rows alike: what is left of them is rounding
            variance, total = np.zeros(p), 0.0
        self.mean_ = mean.astype(party.dtype)
        self.n_samples_, self.n_components_ = m, p
        self.explained_variance_ = variance.astype(party.dtype)
        self.explained_variance_ratio_ = (variance / (total or 1.0)).astype(party.dtype)
        self.singular_values_ = np.sqrt(variance * (m - 1)).astype(party.dtype)
        rest, left = min(m, n) - p, total - variance.sum()
        self.noise_variance_ = left / rest if rest and left > _rounding(n) * total else 0.0


def _rounding(n: int) -> float:
    """Of the largest variance: what cannot be told from no variance in n dimensions."""
    return max(ROUNDING, n * EPS)


def _differ(tables: Iterable[Any]) -> bool:
    """Whether columns vary too little, next to others, for double precision to see their variance."""
    return column_scales(tables) > 1 / math.sqrt(ROUNDING)


def _sum(rows: Any) -> Array:
    """Of dense or sparse rows, ``(n,)``."""
    return np.asarray(rows.sum(axis=0, dtype=np.float64)).ravel()

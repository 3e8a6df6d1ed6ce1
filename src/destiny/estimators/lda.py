"""Linear discriminant analysis of rows held by many agents."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve
from scipy.special import log_softmax
from sklearn.base import BaseEstimator, ClassifierMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.extmath import svd_flip

from destiny.engines.mixers import Messages
from destiny.errors import SettingsError
from destiny.estimators.averager import Average
from destiny.estimators.classifier import (
    LinearClassifier,
    average_class_sums,
    class_means,
    require_two_classes,
)
from destiny.estimators.inputs import accept_silos
from destiny.estimators.scatter import (
    reason_to_average,
    require_variance,
    singular,
    sum_of_matrices,
    with_shrinkage,
)
from destiny.estimators.session import FitSession, whole
from destiny.geometry.generalized import MassMatrix, SingularMatrixError
from destiny.problems import PCA, Generalized
from destiny.problems.data.rows import Rows
from destiny.protocols import Algorithm, Array, Topology
from destiny.run.result import Result
from destiny.run.solve import SolveOptions


@accept_silos("transform", "decision_function", "predict", "predict_proba", "predict_log_proba")
class DecentralizedLDA(
    LinearClassifier, ClassNamePrefixFeaturesOutMixin, ClassifierMixin, TransformerMixin, BaseEstimator
):
    """Linear discriminant analysis: classifier and projection on the directions that separate classes best.

    The agents average sizes and means of the classes, then solve

        max tr(X^T S_b X)   subject to X^T S_w X = I,

    where S_w is the covariance within the classes, a sum of matrices of which each agent holds its own, and
    S_b that of the class means, which all know. Classes may be absent at any agent. `predict`,
    `predict_proba` and, without ``shrinkage`` and ``priors``, `transform` agree with
    `sklearn.discriminant_analysis.LinearDiscriminantAnalysis` of all rows and the solver "eigen".

    Parameters
    ----------
    n_components : int, optional
        Columns of `transform`; by default min(n_classes - 1, n_features), the largest possible number.
    shrinkage : float in [0, 1], optional
        S_w is replaced by (1 - shrinkage) S_w + shrinkage tr(S_w)/n_features I; S_b is left as it is, so that
        `transform` shows the directions that `predict` uses. None is 0, or 0.1 with a warning where S_w is
        singular; with 0 a singular S_w is refused.
    priors : array-like (n_classes,), optional
        Probabilities of the classes, by default their shares of the rows.
    n_agents, network, method, tol, max_rounds, random_state, verbose, messages
        As in `DecentralizedPCA`. By default the agents average S_w where that is predicted to be cheaper than
        a run of `destiny.algorithms.CDADT`, the method otherwise.

    Attributes
    ----------
    classes_ : ndarray (n_classes,)
    priors_ : ndarray (n_classes,)
    means_, xbar_ : ndarray (n_classes, n_features), (n_features,)
        Means of the classes, and their mean by the priors.
    shrinkage_ : float
        What was used.
    scalings_ : ndarray (n_features, min(n_classes - 1, n_features))
        The directions, best first, with variance 1 within the classes; the largest entry of each is positive.
    explained_variance_ratio_ : ndarray (n_components,)
        Share of the variance between the classes along each direction.
    coef_, intercept_ : ndarray (n_classes, n_features), (n_classes,)
        Scores are ``X coef_^T + intercept_``; of two classes there is one row, for the second class.
    n_samples_, n_features_in_, feature_names_in_, n_rounds_, n_scalars_, history_, converged_, \
notes_, network_
        As in `DecentralizedPCA`.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True)
    >>> lda = DecentralizedLDA(n_agents=5, random_state=0).fit(X, y)
    >>> lda.transform(X).shape, round(lda.score(X, y), 3)
    ((178, 2), 1.0)
    """

    _min_rows = 2

    def __init__(
        self,
        n_components: int | None = None,
        *,
        shrinkage: float | None = None,
        priors: Any = None,
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
        self.priors = priors
        self.n_agents = n_agents
        self.network = network
        self.method = method
        self.tol = tol
        self.max_rounds = max_rounds
        self.random_state = random_state
        self.verbose = verbose
        self.messages = messages

    def transform(self, X: Any) -> Any:
        """Return ``X scalings_``, its first n_components columns: ``(rows, n_components)``."""
        X = self._check_rows(X)
        return np.asarray(X @ self.scalings_[:, : self._n_features_out])

    def decision_function(self, X: Any) -> NDArray[Any]:
        """Return class scores, ``(rows, classes)``; for two classes their difference, ``(rows,)``."""
        X = self._check_rows(X)
        scores = np.asarray(X @ self.coef_.T + self.intercept_)
        return scores[:, 0] if len(self.classes_) == 2 else scores

    def predict_log_proba(self, X: Any) -> NDArray[Any]:
        """Return the logarithms of `predict_proba`."""
        scores = self.decision_function(X)
        if scores.ndim == 1:
            scores = np.column_stack([np.zeros_like(scores), scores])
        return np.asarray(log_softmax(scores, axis=1))

    def predict_proba(self, X: Any) -> NDArray[Any]:
        """Return the probability of each class, ``(rows, classes)``."""
        return np.asarray(np.exp(self.predict_log_proba(X)))

    @property
    def _n_features_out(self) -> int:
        return len(self.explained_variance_ratio_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        tags.input_tags.sparse = True
        return tags

    def _learn(self, session: FitSession) -> None:
        with_shrinkage(
            self.shrinkage,
            lambda share: self._learn_with(session, share),
            type(self).__name__,
            session.engine.leader,
        )

    def _learn_with(self, session: FitSession, share: float) -> None:
        n, k = self.n_features_in_, len(session.classes)
        require_two_classes(k)
        most = min(k - 1, n)
        p = self._count_components(most, "min(n_classes - 1, n_features)")
        codes, sums = average_class_sums(session)
        m = whole(sums.common[:, -1].sum() * session.agents)
        if share == 0 and not session.weights:
            _require_rows(m, k, n)
        within = {
            i: _scatter_within(session, i, codes[i], s, self._class_priors(s))
            for i, s in sums.by_agent.items()
        }
        variances = session.average(lambda i: session.agents * np.diagonal(within[i]))
        if share == 0 or not (variances.common > 0).any():
            sizes = np.abs(class_means(sums.common)[0]).max(axis=0)
            names = getattr(self, "feature_names_in_", None)
            require_variance(variances.common, sizes, "within a class", names)
        units = {i: _units(v, share) for i, v in variances.by_agent.items()}

        def basis(i: int) -> Array:
            """Return an orthonormal basis of the class means; agent 0 chooses signs, others add zeros."""
            if i:
                return np.zeros((n, most))
            means, priors = self._centered_means(sums.by_agent[i])
            rows = np.sqrt(priors)[:, None] * means / units[i]
            return np.asarray(session.agents * np.linalg.svd(rows, full_matrices=False)[2][:most].T)

        span = session.average(basis)
        parts = {
            i: _constraint(within[i], variances.by_agent[i], units[i], share, session.agents) for i in within
        }
        reason = reason_to_average(session, self.method, (n, most))
        try:
            if reason is None:
                X, result = self._solve(session, span, parts, (n, most))
            else:
                X, result = _directions_of(sum_of_matrices(session, parts), span.common), None
        except SingularMatrixError as error:
            raise singular("the scatter within the classes") from error
        self.classes_, self.n_samples_, self.shrinkage_ = session.classes, m, share
        self._set_directions(session, sums.common, X / _units(variances.common, share)[:, None], p)
        self._set_fit_attributes(session, result)
        self.notes_ += [reason] if reason else []

    def _solve(
        self, session: FitSession, span: Average, parts: dict[int, Array], shape: tuple[int, int]
    ) -> tuple[Array, Result | None]:
        """Return X with X^T M X = I, M the sum of ``parts``, that spans M^-1 ``span``, and the run to it."""
        # The answer spans S_w^-1 times the class means, whatever weights those have: with equal weights
        # eigenvalues of very different size do not slow the agents down.
        problem = Generalized(
            PCA(session.sources({i: Rows(U.T) for i, U in span.by_agent.items()}), shape[1], n=shape[0]),
            session.sources(parts),
        )
        solution = session.solve(problem, self.get_params(), span.common)
        return solution.common, solution.result

    def _class_priors(self, sums: Array) -> Array:
        """Return the probabilities of the classes; raise SettingsError for priors that are none."""
        size = sums[:, -1]
        if self.priors is None:
            return np.asarray(size / size.sum())
        try:
            priors = np.asarray(self.priors, dtype=np.float64)
        except (TypeError, ValueError):
            priors = np.empty(0)
        if priors.shape != size.shape or not (priors >= 0).all() or not abs(priors.sum() - 1) <= 1e-5:
            raise SettingsError(
                f"priors must be {len(size)} numbers >= 0 with the sum 1, one for each class; found "
                f"{self.priors!r}"
            )
        return np.asarray(priors / priors.sum())

    def _centered_means(self, sums: Array) -> tuple[Array, Array]:
        """Return the class means minus their mean by the priors ``(k, n)``, and the priors."""
        means, priors = class_means(sums)[0], self._class_priors(sums)
        return means - priors @ means, priors

    def _set_directions(self, session: FitSession, sums: Array, X: Array, p: int) -> None:
        """Set the attributes from any X ``(n, most)`` with X^T S_w X = I that spans the directions."""
        centered, priors = self._centered_means(sums)
        between = np.sqrt(priors)[:, None] * centered @ X
        values, V = np.linalg.eigh(between.T @ between)
        scalings = svd_flip(None, (X @ V[:, ::-1]).T, u_based_decision=False)[1].T
        means = class_means(sums)[0]
        self.priors_, self.xbar_ = priors, (priors @ means).astype(session.dtype)
        self.means_ = means.astype(session.dtype)
        self.scalings_ = scalings.astype(session.dtype)
        ratio = values[::-1] / (values.sum() or 1.0)
        self.explained_variance_ratio_ = ratio[:p].astype(session.dtype)
        coef = centered @ X @ X.T
        with np.errstate(divide="ignore"):  # a prior of 0
            intercept = np.log(priors) - np.sum(coef * (means + priors @ means), axis=1) / 2
        two = len(priors) == 2
        self.coef_ = coef[1:] - coef[:1] if two else coef
        self.intercept_ = intercept[1:] - intercept[:1] if two else intercept


def _directions_of(M: Array, span: Array) -> Array:
    """Return X with X^T M X = I that spans M^-1 ``span``; raise SingularMatrixError if M is singular."""
    mass = MassMatrix.of(M)
    return mass.polar(cho_solve((mass.L, True), span))


def _scatter_within(
    session: FitSession, agent: int, codes: NDArray[np.intp], sums: Array, priors: Array
) -> Array:
    """Return an agent's part of S_w = sum_k prior_k / m_k sum_x (x - mean_k) (x - mean_k)^T, ``(n, n)``."""
    rows, weights = session.rows[agent], session.weights.get(agent)
    means, size = class_means(sums)[0], session.agents * sums[:, -1]
    factor = (priors / size)[codes]
    if weights is not None:
        factor = factor * weights
    scatter = np.zeros((rows.shape[1], rows.shape[1]))
    for part, block in Rows(rows).dense_blocks():
        A = np.sqrt(factor[part])[:, None] * (block - means[codes[part]])
        scatter += A.T @ A
    return scatter


def _units(variances: Array, share: float) -> Array:
    """Return the standard deviations of the columns after shrinkage, by which they are divided."""
    units = np.sqrt((1 - share) * variances + share * variances.mean())
    return np.asarray(np.where(units > 0, units, 1.0))


def _constraint(within: Array, variances: Array, units: Array, share: float, agents: int) -> Array:
    """Return an agent's part of the shrunk S_w in columns divided by their units."""
    added = share * variances.mean() / agents * np.eye(len(within))
    return np.asarray(((1 - share) * within + added) / np.outer(units, units))


def _require_rows(rows: int | float, classes: int, features: int) -> None:
    """Raise SingularMatrixError where the scatter within the classes must be singular."""
    if rows - classes < features:
        raise SingularMatrixError(
            f"the scatter within {classes} classes of {features} features is singular with fewer than "
            f"{features + classes} rows, and there are {rows}: take fewer features"
        )

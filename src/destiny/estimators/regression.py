"""Orthogonal least squares regression on the classes of rows held by many agents."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin

from destiny.engines.mixers import Messages
from destiny.errors import SettingsError
from destiny.estimators.classes import OfClasses
from destiny.estimators.classifier import (
    LinearClassifier,
    average_class_sums,
    class_means,
    require_two_classes,
)
from destiny.estimators.inputs import accept_silos
from destiny.estimators.session import FitSession, whole
from destiny.geometry.stiefel import polar
from destiny.problems import OLSR
from destiny.problems.data.rows import Rows
from destiny.protocols import Algorithm, Array, Topology
from destiny.run.solve import SolveOptions
from destiny.validation import is_number

RIDGE = 1e-8  # relative to the mean variance after projection: rows of a class may all be equal


@accept_silos("transform", "decision_function", "predict")
class DecentralizedOLSRClassifier(
    LinearClassifier, ClassNamePrefixFeaturesOutMixin, ClassifierMixin, TransformerMixin, BaseEstimator
):
    """Supervised dimension reduction and linear classifier by orthogonal least squares regression.

    An orthonormal matrix projects the rows of each class close to a target for that class. The targets are
    the centered class indicators, in the n_components directions in which the class means differ most. As an
    orthonormal matrix cannot stretch, the scale of the targets matters: it plays the role of the penalty of
    ridge regression. `predict` returns the most likely class in the reduced space, assuming normally
    distributed classes with the same covariance. Unlike linear discriminant analysis, the result depends on
    the units of the features: scale them.

    Labels are classes, numbers or text. Continuous numbers are refused, and so are more than 20 different
    whole numbers with fewer than three rows each on average, as they look like the target of a regression.
    Labels given as text are always taken as classes.

    The agents compute everything together: class sizes and means, the projection and the covariance.

    Parameters
    ----------
    n_components : int, optional
        By default min(n_classes - 1, n_features), the largest possible number.
    target_scale : float
        Scale of the targets relative to the best scale for the projection on the class means. Large values
        lead to this projection, values below 1 towards ordinary least squares.
    n_agents, network, method, tol, max_rounds, random_state, verbose, messages
        As in `DecentralizedPCA`; the starting point is the projection on the class means.

    Attributes
    ----------
    classes_ : ndarray (n_classes,)
    components_ : ndarray (n_components, n_features)
        Orthonormal rows: `transform` projects on them.
    mean_, means_ : ndarray (n_features,), (n_classes, n_features)
        Mean of all rows, and of each class.
    priors_ : ndarray (n_classes,)
        Fraction of the rows in each class.
    coef_, intercept_ : ndarray (n_classes, n_features), (n_classes,)
        `predict` returns the class with the largest ``X coef_^T + intercept_``.
    n_samples_, n_features_in_, feature_names_in_, n_rounds_, n_scalars_, history_, notes_, \
converged_, network_
        As in `DecentralizedPCA`.
    """

    _min_rows = 2

    def __init__(
        self,
        n_components: int | None = None,
        *,
        target_scale: float = 1.5,
        n_agents: int | None = None,
        network: str | Topology = "erdos-renyi",
        method: Algorithm[Any] | str | None = None,
        tol: float = 1e-4,
        max_rounds: int = SolveOptions.rounds,
        random_state: Any = None,
        verbose: bool = False,
        messages: Messages | str | None = None,
    ) -> None:
        self.n_components = n_components
        self.target_scale = target_scale
        self.n_agents = n_agents
        self.network = network
        self.method = method
        self.tol = tol
        self.max_rounds = max_rounds
        self.random_state = random_state
        self.verbose = verbose
        self.messages = messages

    def transform(self, X: Any) -> Any:
        """Return the projection of the rows minus their mean, ``(rows, n_components)``."""
        X = self._check_rows(X)
        axes: Any = self.components_.T
        return X @ axes - self.mean_ @ axes

    def decision_function(self, X: Any) -> NDArray[Any]:
        """Return class scores, ``(rows, classes)``; for two classes their difference, ``(rows,)``."""
        X = self._check_rows(X)
        scores = np.asarray(X @ self.coef_.T + self.intercept_)
        return scores[:, 1] - scores[:, 0] if len(self.classes_) == 2 else scores

    @property
    def _n_features_out(self) -> int:
        return int(self.components_.shape[0])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        tags.input_tags.sparse = True
        return tags

    def _learn(self, session: FitSession) -> None:
        if not is_number(self.target_scale) or self.target_scale <= 0:
            raise SettingsError(f"target_scale must be a positive number; found {self.target_scale!r}")
        n, k = self.n_features_in_, len(session.classes)
        require_two_classes(k)
        p = self._count_components(min(k - 1, n), "min(n_classes - 1, n_features)")
        codes, sums = average_class_sums(session)
        # Singular vectors may have either sign: agent 0 chooses, and the others contribute zeros.
        zeros = np.zeros((k + n, p))

        def choice_of_agent_0(i: int) -> Array:
            return (
                zeros if i else session.agents * np.concatenate(self._targets_and_start(sums.by_agent[i], p))
            )

        plan = session.average(choice_of_agent_0)
        means = {i: class_means(s) for i, s in sums.by_agent.items()}
        tables = {i: session.weighted_rows(i).about(means[i][1]) for i in session.rows}
        targets = {i: Rows(OfClasses(plan.by_agent[i][:k], codes[i], session.weights.get(i))) for i in tables}
        problem = OLSR(session.sources(tables), session.sources(targets), n=n, p=p)
        solution = session.solve(problem, self.get_params(), polar(plan.common[k:]))

        def scatter(i: int) -> Array:
            """Return the scatter matrices about the class means and about the mean after projection."""
            basis = solution.by_agent[i]
            centers = OfClasses((means[i][0] - means[i][1]) @ basis, codes[i], session.weights.get(i))
            total = np.zeros((2, p, p))
            for part, Z in tables[i].projections(basis):
                within = Z - centers[part]
                total += np.stack([within.T @ within, Z.T @ Z])
            return total

        within, total = session.average(scatter).common / sums.common[:, -1].sum()
        ridge = RIDGE * (np.trace(total) / p or 1.0) * np.eye(p)
        self._set_attributes(session, sums.common, solution.common, within + ridge)
        self._set_fit_attributes(session, solution.result)

    def _targets_and_start(self, sums: Array, p: int) -> tuple[Array, Array]:
        """Return targets ``(k, p)`` and starting point ``(n, p)``, from the sums and sizes of the classes."""
        means, mean = class_means(sums)
        size = sums[:, -1]
        V, S, Ut = np.linalg.svd(size[:, None] * (means - mean), full_matrices=False)
        targets = V[:, :p] - size @ V[:, :p] / size.sum()
        best = S[:p].sum() / np.sum(size[:, None] * targets**2)
        return self.target_scale * (best or 1.0) * targets, Ut[:p].T

    def _set_attributes(self, session: FitSession, sums: Array, X: Array, covariance: Array) -> None:
        means, mean = class_means(sums)
        size = sums[:, -1]
        coef = (means - mean) @ X @ np.linalg.inv(covariance) @ X.T
        self.classes_ = session.classes
        self.n_samples_ = whole(size.sum() * session.agents)
        self.priors_ = size / size.sum()
        self.components_ = X.T.astype(session.dtype)
        self.mean_, self.means_ = mean.astype(session.dtype), means.astype(session.dtype)
        self.coef_ = coef
        self.intercept_ = np.log(self.priors_) - np.sum(coef * (means + mean), axis=1) / 2

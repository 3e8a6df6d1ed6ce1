"""Orthogonal least squares regression on the classes of rows held by many agents."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.metrics import accuracy_score
from sklearn.utils.validation import check_consistent_length

from destiny.errors import ProblemError, SettingsError, is_number
from destiny.estimators.centred_rows import centred, problem
from destiny.estimators.fitting import Decentralized
from destiny.estimators.inputs import in_silo, labels_of_silos, silos_in_silos_out
from destiny.estimators.party import Party
from destiny.estimators.rows import is_silos
from destiny.geometry.stiefel import polar
from destiny.protocols import Algorithm, Array, Topology

RIDGE = 1e-8  # of the variance in the reduced space: classes may have no spread of their own
MANY, FEW = 20, 3  # classes, and rows of each: more classes with fewer rows look like measured values


@silos_in_silos_out("transform", "decision_function", "predict")
class OrthogonalRegression(
    Decentralized, ClassNamePrefixFeaturesOutMixin, ClassifierMixin, TransformerMixin, BaseEstimator
):
    """Supervised dimension reduction and linear classifier by orthogonal least squares regression.

    Rows are projected by an orthonormal matrix so that each class comes near a target of its own. Targets are
    the class indicators, less their mean, in the n_components directions in which the class means differ
    most. The scale of the targets matters, as an orthonormal matrix cannot stretch: it takes the place of
    ridge regression's penalty. A new row belongs to the class that is most likely in the reduced space if
    all classes are normally distributed with the same covariance. Unlike linear discriminant analysis it
    depends on the units of the features: scale them.

    The labels are classes, numbers or text. Continuous numbers are refused, and so are more than 20 different
    whole numbers with fewer than three rows each on average: they look like the target of a regression. As
    text they are classes, however many.

    All of it is found by the agents: class sizes and means, the projection, the covariance.

    Parameters
    ----------
    n_components : int, optional
        By default min(n_classes - 1, n_features), the most that can be.
    target_scale : float
        Scale of the targets relative to that which fits best when the projection is on the class means.
        Large values lead to this projection, values below 1 towards ordinary least squares.
    n_agents, network, method, tol, max_rounds, random_state
        As in `DecentralizedPCA`; the starting point is the projection on the class means.

    Attributes
    ----------
    classes_ : ndarray (n_classes,)
    components_ : ndarray (n_components, n_features)
        Orthonormal rows: `transform` projects on them.
    mean_, means_ : ndarray (n_features,), (n_classes, n_features)
        Of all rows, and of each class.
    priors_ : ndarray (n_classes,)
        The part of the rows that belongs to each class.
    coef_, intercept_ : ndarray (n_classes, n_features), (n_classes,)
        `predict` takes the class with the largest ``X coef_^T + intercept_``.
    n_samples_, n_features_in_, feature_names_in_, n_rounds_, n_scalars_, history_, converged_, network_
        As in `DecentralizedPCA`.
    """

    _supervised = True
    _least = 2

    def __init__(
        self,
        n_components: int | None = None,
        *,
        target_scale: float = 1.5,
        n_agents: int | None = None,
        network: str | Topology = "erdos-renyi",
        method: Algorithm[Any] | None = None,
        tol: float = 1e-4,
        max_rounds: int = 10_000,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.target_scale = target_scale
        self.n_agents = n_agents
        self.network = network
        self.method = method
        self.tol = tol
        self.max_rounds = max_rounds
        self.random_state = random_state

    def transform(self, X: Any) -> Any:
        """The projection of some rows, less the mean."""
        X = self._rows(X)
        axes: Any = self.components_.T
        return X @ axes - self.mean_ @ axes

    def decision_function(self, X: Any) -> NDArray[Any]:
        """How much speaks for each class, ``(rows, classes)``; of two classes, for the second ``(rows,)``."""
        X = self._rows(X)
        found = np.asarray(X @ self.coef_.T + self.intercept_)
        return found[:, 1] - found[:, 0] if len(self.classes_) == 2 else found

    def predict(self, X: Any) -> NDArray[Any]:
        """The most likely class of each row."""
        found = self.decision_function(X)
        best = (found > 0).astype(int) if found.ndim == 1 else found.argmax(axis=1)
        return np.asarray(self.classes_[best])

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The part of all rows, of all silos together, whose class is predicted."""
        if not is_silos(X):
            return float(super().score(X, y, sample_weight))
        labels = labels_of_silos(y, len(X))
        weights = None if sample_weight is None else np.concatenate(sample_weight)
        predicted = self.predict(X)
        for agent, pair in enumerate(zip(labels, predicted, strict=True)):
            in_silo(agent, check_consistent_length, *pair)
        return float(accuracy_score(np.concatenate(labels), np.concatenate(predicted), sample_weight=weights))

    @property
    def _n_features_out(self) -> int:
        return int(self.components_.shape[0])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        tags.input_tags.sparse = True
        return tags

    def _learn(self, party: Party) -> None:
        if not is_number(self.target_scale) or self.target_scale <= 0:
            raise SettingsError(f"target_scale must be a positive number; found {self.target_scale!r}")
        n, k = self.n_features_in_, len(party.classes)
        if k < 2:
            raise ProblemError(f"a classifier needs rows of at least 2 classes; found {k} class: add others")
        p = self._columns(min(k - 1, n), "min(n_classes - 1, n_features)")
        member = {i: (y[:, None] == party.classes).astype(np.float64) for i, y in party.labels.items()}
        sums = party.average(lambda i: np.column_stack([member[i].T @ party.rows[i], member[i].sum(axis=0)]))
        _require_few_classes(party.classes, sums.told[:, -1].sum() * party.agents)
        # Singular vectors may have either sign: agent 0 chooses, and its share of the average tells all.
        nothing = np.zeros((k + n, p))
        plan = party.average(
            lambda i: party.agents * np.concatenate(self._plan(sums.own[i], p)) if i == 0 else nothing
        )
        means = {i: _means(s) for i, s in sums.own.items()}
        held = {i: centred(rows, means[i][1]) for i, rows in party.rows.items()}
        targets = {i: member[i] @ plan.own[i][:k] for i in held}
        found = party.solve(
            problem(held, party.agents, (n, p), targets), self.get_params(), polar(plan.told[k:])
        )

        def scatter(i: int) -> Array:
            """The spread about the class means in the reduced space, and about the mean."""
            Z = held[i] @ found.own[i]
            within = Z - member[i] @ ((means[i][0] - means[i][1]) @ found.own[i])
            return np.stack([within.T @ within, Z.T @ Z])

        within, total = party.average(scatter).told / sums.told[:, -1].sum()
        self._set(party, sums.told, found.told, within + RIDGE * (np.trace(total) / p or 1.0) * np.eye(p))
        self._report(party, found.result)

    def _plan(self, sums: Array, p: int) -> tuple[Array, Array]:
        """Targets ``(k, p)`` and starting point ``(n, p)`` from the sums and sizes of the classes."""
        means, mean = _means(sums)
        size = sums[:, -1]
        V, S, Ut = np.linalg.svd(size[:, None] * (means - mean), full_matrices=False)
        targets = V[:, :p] - size @ V[:, :p] / size.sum()
        best = S[:p].sum() / np.sum(size[:, None] * targets**2)
        return self.target_scale * (best or 1.0) * targets, Ut[:p].T

    def _set(self, party: Party, sums: Array, X: Array, covariance: Array) -> None:
        """The attributes."""
        means, mean = _means(sums)
        size = sums[:, -1]
        coef = (means - mean) @ X @ np.linalg.inv(covariance) @ X.T
        self.classes_ = party.classes
        self.n_samples_ = round(size.sum() * party.agents)
        self.priors_ = size / size.sum()
        self.components_ = X.T.astype(party.dtype)
        self.mean_, self.means_ = mean.astype(party.dtype), means.astype(party.dtype)
        self.coef_ = coef
        self.intercept_ = np.log(self.priors_) - np.sum(coef * (means + mean), axis=1) / 2


def _means(sums: Array) -> tuple[Array, Array]:
    """Means of the classes ``(k, n)`` and of all rows ``(n,)``, from sums with sizes in the last column."""
    return sums[:, :-1] / sums[:, -1:], sums[:, :-1].sum(axis=0) / sums[:, -1].sum()


def _require_few_classes(classes: NDArray[Any], rows: float) -> None:
    """Refuse whole numbers that look like the target of a regression."""
    k, m = len(classes), round(rows)
    if classes.dtype.kind not in "OUST" and k > MANY and m < FEW * k:
        raise ProblemError(
            f"y must have the classes of the rows; found {k} different numbers in {m} rows, as in a "
            "regression: put the values into classes, or give y.astype(str) if each number is a class"
        )

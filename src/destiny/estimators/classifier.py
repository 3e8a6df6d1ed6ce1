"""What classifiers with linear scores share: classes from labels, predictions, accuracy over silos."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import accuracy_score
from sklearn.utils.validation import check_consistent_length

from destiny.errors import ProblemError
from destiny.estimators.averager import Average
from destiny.estimators.classes import class_sums
from destiny.estimators.fitting import Decentralized
from destiny.estimators.inputs import call_for_silo, labels_of_silos, weights_of_silos
from destiny.estimators.rows import is_silos
from destiny.estimators.session import FitSession
from destiny.protocols import Array

MANY, FEW = 20, 3  # more classes than MANY with fewer rows than FEW each look like measured values


class LinearClassifier(Decentralized):
    """Base of classifiers with a ``decision_function``."""

    _supervised = True
    classes_: NDArray[Any]

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most likely class of each row."""
        scores = self.decision_function(X)  # type: ignore[attr-defined]
        best = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        return np.asarray(self.classes_[best])

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the accuracy of `predict` over all rows of all silos."""
        if not is_silos(X):
            return float(accuracy_score(y, self.predict(X), sample_weight=sample_weight))
        labels = labels_of_silos(y, X)
        weights = None if sample_weight is None else np.concatenate(weights_of_silos(sample_weight, X))
        predicted = self.predict(X)
        for agent, pair in enumerate(zip(labels, predicted, strict=True)):
            call_for_silo(agent, check_consistent_length, *pair)
        return float(accuracy_score(np.concatenate(labels), np.concatenate(predicted), sample_weight=weights))


def average_class_sums(session: FitSession) -> tuple[dict[int, NDArray[np.intp]], Average]:
    """Return the class of each row of each agent, as a number, and averages ``(k, n + 1)``.

    The averages over the agents are those of the weighted sums of the rows of a class and, last, their
    weights. Raises ProblemError for labels that look like measured values.
    """
    k = len(session.classes)
    codes = {i: np.searchsorted(session.classes, y) for i, y in session.labels.items()}

    def sums_and_sizes(i: int) -> Array:
        """Return the weighted sums and sizes of an agent's classes, and with weights their rows."""
        sums = class_sums(session.rows[i], codes[i], k, session.weights.get(i))
        rows = [np.bincount(codes[i], minlength=k)] if session.weights else []
        return np.column_stack([sums, *rows])

    averages = session.average(sums_and_sizes)
    require_few_classes(session.classes, averages.common[:, -1].sum() * session.agents)
    width = next(iter(session.rows.values())).shape[1] + 1
    sums = {i: s[:, :width] for i, s in averages.by_agent.items()}
    return codes, Average(sums, averages.common[:, :width])


def require_two_classes(count: int) -> None:
    """Raise ProblemError if the rows of all agents together have one class."""
    if count < 2:
        raise ProblemError(f"a classifier needs rows of at least 2 classes; found {count} class: add others")


def class_means(sums: Array) -> tuple[Array, Array]:
    """Return class means ``(k, n)`` and the mean of all rows ``(n,)`` from sums and, last column, sizes."""
    return sums[:, :-1] / sums[:, -1:], sums[:, :-1].sum(axis=0) / sums[:, -1].sum()


def look_measured(classes: NDArray[Any], rows: int) -> bool:
    """Whether the different labels of so many rows look like measured values and not like classes."""
    return classes.dtype.kind not in "OUST" and len(classes) > MANY and rows < FEW * len(classes)


def require_few_classes(classes: NDArray[Any], rows: float) -> None:
    """Raise ProblemError for whole numbers that look like the target of a regression."""
    k, m = len(classes), round(rows)
    if look_measured(classes, m):
        raise ProblemError(
            f"y must have the classes of the rows; found {k} different numbers in {m} rows, as in a "
            "regression: take DecentralizedRidge, put the values into classes, or give y.astype(str) if each "
            "number is a class"
        )

"""Folds for cross-validation inside each silo."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import check_cv
from sklearn.utils.multiclass import type_of_target

from destiny.errors import ProblemError
from destiny.estimators.classifier import look_measured
from destiny.estimators.inputs import call_for_silo
from destiny.problems.data import Silos, SiloValues


class SiloFolds:
    """Folds inside each silo, for scikit-learn's `cross_val_score`, `GridSearchCV` and the like.

    Every party divides its own rows. Fold k of all parties together is left out, so that every party takes
    part in every fit and in every test.

    Parameters
    ----------
    cv : int or splitter
        What each party does: a number of folds, stratified by the labels if these are classes, or a splitter
        of scikit-learn such as ``KFold(5, shuffle=True, random_state=0)``. All parties must get as many.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.model_selection import cross_val_score
    >>> import destiny
    >>> from destiny.estimators import DecentralizedPCA
    >>> rng = np.random.default_rng(0)
    >>> silos = destiny.Silos([rng.standard_normal((rows, 4)) for rows in (30, 20, 40)])
    >>> pca = DecentralizedPCA(n_components=2, random_state=0)
    >>> len(cross_val_score(pca, silos, cv=SiloFolds(3)))
    3
    """

    def __init__(self, cv: Any = 5) -> None:
        self.cv = cv

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:  # noqa: ARG002
        """Return the number of folds."""
        return int(check_cv(self.cv).get_n_splits())

    def split(self, X: Any, y: Any = None, groups: Any = None) -> Iterator[tuple[Any, Any]]:
        """Yield the numbers of the rows to fit and to test, counted over all parties in their order.

        Raises ProblemError unless X are `Silos` and y, if given, the values of their rows.
        """
        if not isinstance(X, Silos) or X.split != "rows":
            raise ProblemError(f"SiloFolds divides the rows of destiny.Silos; found {type(X).__name__}")
        if groups is not None:
            raise ProblemError("SiloFolds takes no groups: the parties are the groups")
        if y is not None and not isinstance(y, SiloValues):
            raise ProblemError(
                f"labels of silos must be SiloValues; found {type(y).__name__}: give silos.per_row(y)"
            )
        starts = np.cumsum([0, *X.sizes])[:-1]
        folds = [
            call_for_silo(party, self._folds_of, size, None if y is None else y.parts[k], start)
            for k, (party, size, start) in enumerate(zip(X.parties, X.sizes, starts, strict=True))
        ]
        if len({len(its) for its in folds}) > 1:
            raise ProblemError("SiloFolds needs as many folds at all parties; found different numbers")
        for of_parties in zip(*folds, strict=True):
            yield tuple(map(np.concatenate, zip(*of_parties, strict=True)))  # type: ignore[misc]

    def _folds_of(self, rows: int, y: NDArray[Any] | None, start: int) -> list[tuple[Any, Any]]:
        """Return the folds of one party, counted from ``start``; nothing but empty ones without rows."""
        if rows == 0:
            none = np.empty(0, dtype=np.intp)
            return [(none, none)] * self.get_n_splits()
        classes = y is not None and _are_classes(np.asarray(y))
        splitter = check_cv(self.cv, y, classifier=classes)
        return [(fit + start, test + start) for fit, test in splitter.split(np.empty((rows, 0)), y)]


def _are_classes(y: NDArray[Any]) -> bool:
    """Whether labels are classes, by which folds are stratified; whole numbers may be measured values."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of many classes, which is what is asked here
        kind = type_of_target(y)
    return kind in ("binary", "multiclass") and not look_measured(np.unique(y), len(y))

"""Folds for cross-validation inside each silo."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import GroupKFold, PredefinedSplit, StratifiedGroupKFold, check_cv
from sklearn.utils.multiclass import type_of_target

from destiny.errors import ProblemError
from destiny.estimators.classifier import look_measured
from destiny.estimators.inputs import call_for_silo
from destiny.problems.data import Silos, SiloValues
from destiny.validation import is_whole


class SiloFolds:
    """Folds inside each silo, for scikit-learn's `cross_val_score`, `GridSearchCV` and the like.

    Every party divides its own rows. Fold k of all parties together is left out, so that every party takes
    part in every fit and in every test.

    Parameters
    ----------
    cv : int or splitter
        What each party does: a number of folds, stratified by the labels if these are classes, or a splitter
        of scikit-learn such as ``KFold(5, shuffle=True, random_state=0)``. All parties must get as many.

    Notes
    -----
    ``groups``, as several rows of one patient, are kept together: a number of folds then takes
    `GroupKFold`, for classes `StratifiedGroupKFold`, in each party, and a splitter that divides a group is
    refused. Groups belong to their party: the same number at two parties names two groups.

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

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """Return the number of folds; splitters whose number depends on the rows need X."""
        return int(check_cv(self.cv).get_n_splits()) if X is None else len(list(self.split(X, y, groups)))

    def split(self, X: Any, y: Any = None, groups: Any = None) -> Iterator[tuple[Any, Any]]:
        """Yield the numbers of the rows to fit and to test, counted over all rows.

        Raises ProblemError unless X are `Silos` and y and groups, if given, the values of their rows.
        """
        if not isinstance(X, Silos) or X.split != "rows":
            raise ProblemError(f"SiloFolds divides the rows of destiny.Silos; found {type(X).__name__}")
        if isinstance(self.cv, PredefinedSplit | Iterable):
            raise ProblemError(
                "SiloFolds needs a number of folds or a splitter that any party can take for its own rows; "
                f"found {type(self.cv).__name__}, which names rows: give it as cv itself, without SiloFolds"
            )
        labels, its_groups = _per_party(X, y, "labels"), _per_party(X, groups, "groups")
        starts = np.cumsum([0, *X.sizes])[:-1]
        folds = [
            call_for_silo(party, self._folds_of, *its)
            for party, *its in zip(X.parties, X.sizes, labels, its_groups, starts, strict=True)
            if its[0]
        ]
        counts = {party: len(its) for party, its in zip(_holders(X), folds, strict=True)}
        if len(set(counts.values())) > 1:
            (a, first), (b, second) = next(
                (one, other) for one, other in pairwise(counts.items()) if one[1] != other[1]
            )
            raise ProblemError(
                f"SiloFolds needs as many folds at all parties; found {first} at {a} and {second} at {b}: "
                f"give {type(self.cv).__name__} as cv itself, which divides the rows of all parties at once"
            )
        for of_parties in zip(*folds, strict=True):
            fit, test = map(np.concatenate, zip(*of_parties, strict=True))
            yield (fit, test) if X.order is None else (X.order[fit], X.order[test])

    def _folds_of(
        self, rows: int, y: NDArray[Any] | None, groups: NDArray[Any] | None, start: int
    ) -> list[tuple[Any, Any]]:
        """Return the folds of one party, counted from ``start``; no group is on both sides of one."""
        classes = y is not None and _are_classes(y)
        splitter = check_cv(self.cv, y, classifier=classes)
        if groups is not None and is_whole(self.cv):
            splitter = (StratifiedGroupKFold if classes else GroupKFold)(self.cv)
        folds = list(splitter.split(np.empty((rows, 0)), y, groups))
        for fit, test in folds:
            divided: Any = () if groups is None else np.intersect1d(groups[fit], groups[test])
            if len(divided):
                raise ProblemError(
                    f"folds must not divide a group; {type(splitter).__name__} divides {divided[0]}: "
                    "take a number of folds, or a splitter by groups as GroupKFold"
                )
        return [(fit + start, test + start) for fit, test in folds]


def _per_party(silos: Silos, values: Any, what: str) -> Sequence[NDArray[Any] | None]:
    """Return the values of the rows of each party; None at each if there are none."""
    if values is None:
        return [None] * len(silos)
    found = np.shape(values)[0] if isinstance(values, SiloValues) else silos.shape[0]
    if found != silos.shape[0]:
        raise ProblemError(
            f"{what} must be those of the {silos.shape[0]} rows; found {found}: functions that shuffle "
            "labels, as permutation_test_score, need them in one array, numpy.asarray(labels)"
        )
    return silos.per_row(values).parts


def _holders(silos: Silos) -> list[str]:
    """Return the parties that have rows."""
    return [party for party, size in zip(silos.parties, silos.sizes, strict=True) if size]


def _are_classes(y: NDArray[Any]) -> bool:
    """Whether labels are classes, by which folds are stratified; whole numbers may be measured values."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of many classes, which is what is asked here
        kind = type_of_target(y)
    return kind in ("binary", "multiclass") and not look_measured(np.unique(y), len(y))

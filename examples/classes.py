"""Orthogonal regression by eight agents beside LDA and ridge on pooled rows: cross-validated accuracy.

Eight agents share the rows and learn one orthonormal map to the classes; the other two methods see all
rows at once.

python examples/classes.py                          # digits
DESTINY_DATA=folder python examples/classes.py      # and three parts of Cora: docs/datasets.md
"""

import os

import numpy as np
from sklearn.datasets import load_digits
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import RidgeClassifier
from sklearn.model_selection import StratifiedKFold, cross_validate

import destiny
from destiny.estimators import DecentralizedOLSRClassifier

FOLDS = 5
METHODS = {
    "orthogonal regression": DecentralizedOLSRClassifier(random_state=0),
    "LDA": LinearDiscriminantAnalysis(),
    "ridge": RidgeClassifier(),
}


def tables():
    """Name, rows and labels of each data set."""
    yield "digits", *load_digits(return_X_y=True)
    for name in ("DS", "HA", "PL") if "DESTINY_DATA" in os.environ else ():
        cora = destiny.datasets.cora(name)
        X, y = cora.data.T, cora.labels
        classes, sizes = np.unique(y, return_counts=True)
        enough = np.isin(y, classes[sizes >= FOLDS])  # one part of Cora has a class of one row
        yield f"Cora {name}", X[enough], y[enough]


def measure(X, y):
    """What scikit-learn measures of each method."""
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=0)
    return {name: cross_validate(m, X, y, cv=folds, return_estimator=True) for name, m in METHODS.items()}


def main() -> None:
    """A table in Markdown."""
    print(f"| data | rows, features, classes | {' | '.join(METHODS)} | rounds |")
    print("|---|---" + "|---" * (len(METHODS) + 1) + "|")
    for name, X, y in tables():
        evaluations = list(measure(X, y).values())
        scores = " | ".join(f"{np.mean(f['test_score']):.3f}" for f in evaluations)
        rounds = np.mean([fitted.n_rounds_ for fitted in evaluations[0]["estimator"]])
        print(f"| {name} | {X.shape[0]}, {X.shape[1]}, {len(np.unique(y))} | {scores} | {rounds:.0f} |")


if __name__ == "__main__":
    main()

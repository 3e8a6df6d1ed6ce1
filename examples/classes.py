"""Orthogonal regression by eight agents beside LDA and ridge on pooled rows: cross-validated accuracy.

python examples/classes.py                          # digits
DESTINY_DATA=folder python examples/classes.py      # and three parts of Cora, in folder/cora
"""

import os
from pathlib import Path

import numpy as np
import scipy.io
from sklearn.datasets import load_digits
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import RidgeClassifier
from sklearn.model_selection import StratifiedKFold, cross_validate

from destiny.estimators import OrthogonalRegression

FOLDS = 5
METHODS = {
    "orthogonal regression": OrthogonalRegression(random_state=0),
    "LDA": LinearDiscriminantAnalysis(),
    "ridge": RidgeClassifier(),
}


def tables():
    """Name, rows and labels of each data set."""
    yield "digits", *load_digits(return_X_y=True)
    folder = os.environ.get("DESTINY_DATA")
    for name in ("DS", "HA", "PL") if folder else ():
        file = scipy.io.loadmat(Path(folder) / "cora" / f"Cora_{name}_uni.mat")
        X, y = file["X"].toarray()[:, :100].astype(float), file["Y"].ravel()
        classes, sizes = np.unique(y, return_counts=True)
        enough = np.isin(y, classes[sizes >= FOLDS])  # one part of Cora has a class of one row
        yield f"Cora {name}", X[enough], y[enough]


def main() -> None:
    """A table in Markdown."""
    print(f"| data | rows, features, classes | {' | '.join(METHODS)} | rounds |")
    print("|---|---" + "|---" * (len(METHODS) + 1) + "|")
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=0)
    for name, X, y in tables():
        found = [cross_validate(m, X, y, cv=folds, return_estimator=True) for m in METHODS.values()]
        scores = " | ".join(f"{np.mean(f['test_score']):.3f}" for f in found)
        rounds = np.mean([fitted.n_rounds_ for fitted in found[0]["estimator"]])
        print(f"| {name} | {X.shape[0]}, {X.shape[1]}, {len(np.unique(y))} | {scores} | {rounds:.0f} |")


if __name__ == "__main__":
    main()

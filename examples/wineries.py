"""Three kinds of wine told apart by wineries that each make one (linear discriminant analysis).

Six wineries know thirteen chemical properties of their own wines, and nobody has tasted all three kinds. They
average sizes and means of the kinds, then find the two directions that separate them best,

    maximize  tr(X^T S_b X)   subject to   X^T S_w X = I,

where the scatter S_w within the kinds is a sum of matrices of which each winery holds its own. Directions and
probabilities are those of scikit-learn on all wines together.
"""

import argparse

import numpy as np
from sklearn.datasets import load_wine
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.preprocessing import StandardScaler

import destiny
from destiny.estimators import DecentralizedLDA

KINDS = np.array(["Barolo", "Grignolino", "Barbera"])


def picture(path, panels, y):
    """The wines in two dimensions, one panel for each projection."""
    figure = destiny.plots.pyplot().Figure(figsize=(6.4, 3), layout="constrained")
    for axis, (name, Z) in zip(figure.subplots(1, len(panels)), panels.items(), strict=True):
        for kind, color in zip(KINDS, destiny.plots.COLORS, strict=False):
            axis.scatter(*Z[y == kind].T, s=10, color=color, label=kind)
        axis.set(title=name, xticks=[], yticks=[])
    axis.legend(fontsize=8)
    figure.savefig(path, dpi=150)


def main(path=None):
    X, labels = load_wine(return_X_y=True)
    y = KINDS[labels]
    wineries = [part for kind in KINDS for part in np.array_split(np.flatnonzero(y == kind), 2)]
    model = DecentralizedLDA(random_state=0)
    model.fit([X[rows] for rows in wineries], [y[rows] for rows in wineries])
    pooled = LinearDiscriminantAnalysis(solver="eigen").fit(X, y)
    print(f"{100 * model.score(X, y):.1f} % of the wines are told apart, after {model.n_rounds_} rounds")
    difference = np.abs(model.predict_proba(X) - pooled.predict_proba(X)).max()
    print(f"probabilities differ from those of the pooled data by {difference:.0e}")
    if path:
        principal = PCA(2).fit_transform(StandardScaler().fit_transform(X))
        picture(path, {"PCA": principal, "discriminant directions": model.transform(X)}, y)
    assert model.converged_
    assert difference < 1e-6
    ours, theirs = model.transform(X), pooled.transform(X)
    assert np.abs(ours - theirs * np.sign(np.sum(ours * theirs, axis=0))).max() < 1e-6


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--picture", metavar="FILE", help="write a picture there")
    main(parser.parse_args().picture)

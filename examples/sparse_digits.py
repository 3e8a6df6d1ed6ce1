"""Components of handwritten digits that use few pixels each (sparse PCA).

Eight post offices hold digits of 8 x 8 pixels. The components of PCA use every pixel. A regularizer makes
most entries exactly zero, so that each component is a stroke in some place of the image, and the components
stay orthonormal:

    minimize  -1/2 tr(X^T S X) + alpha v ||X||_1   subject to   X^T X = I,   v the mean variance of a pixel.

Sparse components serve wherever somebody has to read them: genes, survey questions, words.
"""

import argparse

import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA

import destiny
from destiny.estimators import DecentralizedSparsePCA

COMPONENTS, ALPHA = 6, 0.4


def picture(path, rows):
    """The components as images; white is exactly zero."""
    figure = destiny.plots.pyplot().Figure(figsize=(6, 2.4), layout="constrained")
    axes = figure.subplots(len(rows), COMPONENTS)
    for line, (name, components) in zip(axes, rows.items(), strict=True):
        for axis, component in zip(line, components, strict=True):
            size = np.abs(component).max()
            axis.imshow(component.reshape(8, 8), cmap="RdBu_r", vmin=-size, vmax=size)
            axis.set(xticks=[], yticks=[])
        line[0].set_ylabel(name)
    figure.savefig(path, dpi=150)


def main(path=None):
    X = load_digits().data
    offices = np.array_split(X, 8)
    sparse = DecentralizedSparsePCA(COMPONENTS, alpha=ALPHA, random_state=0).fit(offices)
    dense = PCA(COMPONENTS).fit(X)
    explained = {"PCA": dense.explained_variance_ratio_, "sparse PCA": sparse.explained_variance_ratio_}
    for name, ratio in explained.items():
        print(f"{name}: {COMPONENTS} components explain {100 * ratio.sum():.1f} % of the variance")
    print(f"{100 * sparse.sparsity_:.0f} % of the entries are zero, after {sparse.n_rounds_} rounds")
    if path:
        picture(path, {"PCA": dense.components_, "sparse": sparse.components_})
    V = sparse.components_
    assert sparse.converged_
    assert sparse.sparsity_ > 0.7
    assert np.abs(V @ V.T - np.eye(COMPONENTS)).max() < 1e-10
    assert explained["sparse PCA"].sum() > 0.75 * explained["PCA"].sum()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--picture", metavar="FILE", help="write a picture there")
    main(parser.parse_args().picture)

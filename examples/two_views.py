"""What the left half of a digit tells of the right half (canonical correlations).

Eight post offices hold handwritten digits of 8 x 8 pixels, cut in two: the left half is one view of a digit,
the right half the other. Canonical correlation analysis finds pairs of patterns, one for each half, whose
strengths go together most. Nobody shows a digit to anybody. Genes and symptoms, or questions and answers of a
survey, are such views, too.
"""

import argparse

import numpy as np
from sklearn.datasets import load_digits

import destiny
from destiny.estimators import DecentralizedCCA

PAIRS, SHRINKAGE = 4, 0.1


def whitened_svd(X, Y):
    """The correlations of the pooled data: the SVD of whitened cross-covariances gives the directions."""
    X, Y = X - X.mean(axis=0), Y - Y.mean(axis=0)
    roots = []
    for Z in (X, Y):
        S = Z.T @ Z / len(Z)
        w, V = np.linalg.eigh((1 - SHRINKAGE) * S + SHRINKAGE * np.trace(S) / len(S) * np.eye(len(S)))
        roots.append(V / np.sqrt(w) @ V.T)
    U, _, Vt = np.linalg.svd(roots[0] @ (X.T @ Y) @ roots[1])
    a, b = X @ roots[0] @ U[:, :PAIRS], Y @ roots[1] @ Vt[:PAIRS].T
    return np.array([np.corrcoef(a[:, k], b[:, k])[0, 1] for k in range(PAIRS)])


def picture(path, X, Y, model):
    """The patterns of each pair, as the correlations of pixels with the scores, and the scores themselves."""
    scores = model.transform(X, Y)
    figure = destiny.plots.pyplot().Figure(figsize=(6.4, 3.4), layout="constrained")
    above, below = figure.subplots(2, PAIRS)
    for k in range(PAIRS):
        halves = [pattern(Z, s[:, k]) for Z, s in zip((X, Y), scores, strict=True)]
        above[k].imshow(np.hstack(halves), cmap="RdBu_r", vmin=-1, vmax=1)
        above[k].axvline(3.5, color="black", linewidth=1)
        above[k].set(xticks=[], yticks=[], title=f"pair {k + 1}")
        below[k].scatter(scores[0][:, k], scores[1][:, k], s=1, color=destiny.plots.COLORS[0])
        below[k].set(xticks=[], yticks=[], xlabel=f"correlation {model.correlations_[k]:.2f}")
    figure.savefig(path, dpi=150)


def pattern(half, score):
    """Correlation of each pixel with a score, as an image of 8 x 4; 0 where a pixel is always the same."""
    half = half - half.mean(axis=0)
    size = np.sqrt(np.sum(half**2, axis=0) * np.sum(score**2))
    return np.divide(score @ half, size, out=np.zeros_like(size), where=size > 0).reshape(8, 4)


def main(path=None):
    images = load_digits().images
    X, Y = images[:, :, :4].reshape(-1, 32), images[:, :, 4:].reshape(-1, 32)
    model = DecentralizedCCA(PAIRS, shrinkage=SHRINKAGE, random_state=0)
    model.fit(np.array_split(X, 8), np.array_split(Y, 8))
    print(f"correlations {model.correlations_.round(3)}, after {model.n_rounds_} rounds")
    if path:
        picture(path, X, Y, model)
    assert model.converged_
    assert np.abs(model.correlations_ - whitened_svd(X, Y)).max() < 1e-6


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--picture", metavar="FILE", help="write a picture there")
    main(parser.parse_args().picture)

"""Principal components that a few broken sensors cannot spoil (PCA with a smoothed l1 loss).

Eight weather services measure the same thirty quantities; a tenth of the samples is garbage of large size.
PCA squares the distance of a sample to the subspace, so garbage counts most. Here the distance itself
counts, smoothed near zero so that it has a gradient,

    minimize  sum_i sum_a  h(||a - X X^T a||)   subject to   X^T X = I,   h(r) = sqrt(r^2 + delta^2) - delta.

Such losses serve wherever data are gathered by many hands: cameras, meters, surveys.
"""

import argparse

import numpy as np

import destiny

AGENTS, N, P, SAMPLES, BROKEN, DELTA = 8, 30, 3, 60, 0.1, 0.1


def residuals(X, A):
    """What X leaves of every sample (rows), and sqrt(r^2 + delta^2)."""
    R = A - A @ X @ X.T
    return R, np.sqrt(np.sum(R**2, axis=1) + DELTA**2)


def value(X, A):
    return np.sum(residuals(X, A)[1] - DELTA)


def gradient(X, A):
    R, h = residuals(X, A)
    R = R / h[:, None]
    return -(A.T @ (R @ X) + R.T @ (A @ X))


def samples(rng):
    """The true subspace, and the samples of each service."""
    truth = destiny.stiefel.random_point(N, P, seed=3)
    silos = []
    for _ in range(AGENTS):
        A = rng.standard_normal((SAMPLES, P)) @ truth.T + 0.05 * rng.standard_normal((SAMPLES, N))
        broken = rng.random(SAMPLES) < BROKEN
        A[broken] = 6 * rng.standard_normal((broken.sum(), N))
        silos.append(A)
    return truth, silos


def picture(path, truth, answers, A):
    """Distances of the good samples to each subspace."""
    figure = destiny.plots.pyplot().Figure(figsize=(4.5, 3), layout="constrained")
    axis = figure.subplots()
    good = A[np.linalg.norm(A - A @ truth @ truth.T, axis=1) < 1]
    bins = np.linspace(0, 3, 40)
    for k, (name, X) in enumerate(answers.items()):
        distance = np.linalg.norm(good - good @ X @ X.T, axis=1)
        axis.hist(distance, bins, alpha=0.7, color=destiny.plots.COLORS[1 - k], label=name)
    axis.set(xlabel="distance of good samples to the subspace", ylabel="samples")
    axis.legend()
    figure.savefig(path, dpi=150)


def main(path=None):
    truth, silos = samples(np.random.default_rng(0))
    network = destiny.networks.grid(2, 4)
    plain = destiny.solve(destiny.problems.PCA(silos, p=P), network)
    robust = destiny.problems.custom.problem(value, gradient, data=silos, shape=(N, P))
    check = destiny.check_gradient(robust, plain.X)
    print(check)
    result = destiny.solve(robust, network, start=plain.X)
    print(result)
    angles = {
        name: np.degrees(np.arcsin(destiny.stiefel.subspace_distance(X, truth)))
        for name, X in {"PCA": plain.X, "robust": result.X}.items()
    }
    print(
        f"largest angle to the true subspace: PCA {angles['PCA']:.1f}, robust {angles['robust']:.1f} degrees"
    )
    if path:
        picture(path, truth, {"PCA": plain.X, "smoothed l1": result.X}, np.concatenate(silos))
    assert check.ok
    assert result.converged
    assert angles["robust"] < angles["PCA"] / 10


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--picture", metavar="FILE", help="write a picture there")
    main(parser.parse_args().picture)

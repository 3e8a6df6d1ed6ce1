"""One rotation between two spaces, learned from word lists that nobody may pool (orthogonal Procrustes).

Two languages have word vectors of their own, and eight publishers each know some pairs of words that mean
the same: rows of A_i and B_i. All want the one orthogonal X that takes the first language to the second,

    minimize  sum_i ||A_i X - B_i||^2   subject to   X^T X = I.

The same problem aligns shapes by landmarks, point clouds of scanners, and the weights of two networks.
The answer is known in closed form once everything is in one place: polar(sum_i A_i^T B_i).
"""

import argparse

import numpy as np

import destiny

AGENTS, WORDS, N, NOISE = 8, 40, 20, 0.3


def value(X, A, B):
    return np.sum((A @ X - B) ** 2)


def gradient(X, A, B):
    return 2 * A.T @ (A @ X - B)


def silos(truth, rng):
    """Pairs of words of each publisher; some know few."""
    held = []
    for agent in range(AGENTS):
        A = rng.standard_normal((WORDS // (1 + agent % 3), N))
        held.append((A, A @ truth + NOISE * rng.standard_normal(A.shape)))
    return held


def picture(path, words, before, after, target):
    """Words of the second language, and those of the first before and after."""
    figure = destiny.plots.pyplot().Figure(figsize=(6, 3), layout="constrained")
    for axis, points, title in zip(figure.subplots(1, 2), (before, after), ("before", "after"), strict=True):
        for a, b in zip(points[:words], target[:words], strict=True):
            axis.plot([a[0], b[0]], [a[1], b[1]], color="0.8", linewidth=0.8)
        for cloud, mark, name in ((target, "oC0", "language 2"), (points, "xC1", "language 1")):
            axis.plot(*cloud[:words, :2].T, mark, markersize=4, label=name)
        axis.set(title=title, xticks=[], yticks=[])
    axis.legend(fontsize="small")
    figure.savefig(path, dpi=150)


def main(path=None):
    rng = np.random.default_rng(0)
    truth, _ = np.linalg.qr(rng.standard_normal((N, N)))
    truth[:, 0] *= np.sign(np.linalg.det(truth))  # a rotation: reflections are another piece of the manifold
    data = silos(truth, rng)
    problem = destiny.problems.custom.problem(value, gradient, data=data, shape=(N, N))
    network = destiny.networks.ring(AGENTS)
    result = destiny.solve(problem, network, start=np.eye(N))
    print(result)

    pooled = sum(A.T @ B for A, B in data)
    gap = np.abs(result.X - destiny.stiefel.polar(pooled)).max()
    A, B = data[1]  # what the second publisher would have found by itself, from its 20 pairs
    alone = destiny.stiefel.polar(A.T @ B)
    new = rng.standard_normal((500, N))  # words in nobody's list
    error, error_alone = (np.linalg.norm(new @ (X - truth)) / np.linalg.norm(new) for X in (result.X, alone))
    print(f"distance to the closed form of the pooled lists {gap:.1e}")
    print(f"error on new words {error:.3f} together, {error_alone:.3f} by one publisher alone")
    if path:
        picture(path, 30, new, new @ result.X, new @ truth)
    assert result.converged
    assert gap < 1e-6
    assert error < error_alone / 2


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--picture", metavar="FILE", help="write a picture there")
    main(parser.parse_args().picture)

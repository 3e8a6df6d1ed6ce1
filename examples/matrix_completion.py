"""Ratings with gaps, filled in without showing them to anybody (low-rank matrix completion).

Ten shops hold the ratings that their own customers gave to the same films, most of them missing. If a few
tastes explain all ratings, customer j's are about U w_j with one U for all shops. Given U, each w_j is a
small least squares problem that a shop solves by itself (variable projection), which leaves

    minimize  sum_i sum_j  min_w ||P_j (U w - m_j)||^2 + rho ||w||^2   subject to   U^T U = I,

P_j keeping what customer j rated. The gradient needs no derivative of w: at the minimum that term vanishes.
"""

import argparse

import numpy as np

import destiny

AGENTS, FILMS, CUSTOMERS, TASTES, RATED, RHO = 10, 40, 30, 3, 0.35, 1e-2


def tastes(U, M, seen):
    """w_j of every customer, ``(customers, p)``: regularized least squares on the films they rated."""
    grams = np.einsum("jf,fa,fb->jab", seen, U, U) + RHO * np.eye(U.shape[1])
    return np.linalg.solve(grams, (seen * M @ U)[:, :, None])[:, :, 0]


def value(U, M, seen):
    w = tastes(U, M, seen)
    return np.sum((seen * (w @ U.T - M)) ** 2) + RHO * np.sum(w**2)


def gradient(U, M, seen):
    w = tastes(U, M, seen)
    return 2 * (seen * (w @ U.T - M)).T @ w


def ratings(rng):
    """What each shop would know if all had rated everything, and what was rated: one row per customer."""
    films = rng.standard_normal((FILMS, TASTES))
    full = [rng.standard_normal((CUSTOMERS, TASTES)) @ films.T for _ in range(AGENTS)]
    noisy = [M + 0.05 * rng.standard_normal(M.shape) for M in full]
    return full, noisy, [(rng.random(M.shape) < RATED).astype(float) for M in full]


def picture(path, seen, filled, full):
    """One shop's ratings: given, filled in, true."""
    figure = destiny.plots.pyplot().Figure(figsize=(6, 2.4), layout="constrained")
    panels = {"given": np.where(seen > 0, full, np.nan), "filled in": filled, "true": full}
    for axis, (title, image) in zip(figure.subplots(1, 3), panels.items(), strict=True):
        axis.imshow(image, cmap="RdBu", vmin=-4, vmax=4)
        axis.set(title=title, xlabel="films", xticks=[], yticks=[])
    figure.savefig(path, dpi=150)


def main(path=None):
    rng = np.random.default_rng(0)
    full, noisy, seen = ratings(rng)
    data = [(M * s, s) for M, s in zip(noisy, seen, strict=True)]
    problem = destiny.problems.custom.problem(value, gradient, data=data, shape=(FILMS, TASTES))
    network = destiny.networks.erdos_renyi(AGENTS, prob=0.4, seed=0)
    start = destiny.stiefel.random_point(FILMS, TASTES, seed=1)
    check = destiny.check_gradient(problem, start)
    print(check)
    result = destiny.solve(problem, network, start=start, tolerance=1e-6)
    print(result)

    filled = [tastes(result.X, *silo) @ result.X.T for silo in data]
    hidden = np.concatenate([(f - M)[s == 0] for f, M, s in zip(filled, full, seen, strict=True)])
    spread = np.std(np.concatenate([M[s == 0] for M, s in zip(full, seen, strict=True)]))
    error = np.sqrt(np.mean(hidden**2)) / spread
    print(f"error on ratings nobody gave: {100 * error:.1f} % of their spread")
    if path:
        picture(path, seen[0], filled[0], full[0])
    assert check.ok
    assert result.converged
    assert error < 0.1


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--picture", metavar="FILE", help="write a picture there")
    main(parser.parse_args().picture)

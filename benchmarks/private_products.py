"""Accuracy of private PCA of many columns: noise on products against noise on n x n matrices.

    python -m benchmarks.private_products [--data cifar10] [--seeds 0 1]

Prints the variance that five private axes explain, over that of the exact ones. Needs DESTINY_DATA. A run of
CIFAR-10 (3,072 columns) takes one to three minutes on one core, all of them about half an hour.
"""

from __future__ import annotations

import argparse
import math
from typing import Any

import numpy as np
from scipy.sparse.linalg import eigsh

import destiny
from destiny.problems import Privacy, centered, pca
from destiny.problems.gaussian_mechanism import noise_ratio
from destiny.problems.private_products import PrivateProductsPCA

AGENTS, P, DELTA = 8, 5, 1e-6
EPSILONS = (0.5, 1.0, 2.0, 4.0)
# Of centered images and of images: near the 70 % quantiles of their norms; private runs must not look there.
BOUNDS = {"cifar10": (15.0, 32.0), "mnist": (7.5, 10.0)}
SHARE = 0.9  # of the budget: for second moments, where the mean has the rest


def by_products(data: Any, privacy: Privacy) -> Any:
    """The axes that a run of all agents finds."""
    problem = centered(PrivateProductsPCA(pca.from_data(data, P, AGENTS), privacy))
    together = privacy.noise == "together"
    return destiny.solve(
        problem, destiny.networks.ring(AGENTS), messages="private" if together else "plain"
    ).axes


def by_matrices(clipped: Any, privacy: Privacy, seed: int) -> Any:
    """Those of n x n matrices with noise, of the same law but for rounding; with the exact mean."""
    s = privacy.bound**2 * noise_ratio(privacy.epsilon, DELTA) / math.sqrt(SHARE)
    s *= math.sqrt(AGENTS) if privacy.noise == "alone" else 1.0
    upper = np.triu(np.random.default_rng(seed).standard_normal(clipped.shape))
    return eigsh(clipped + s * (upper + np.triu(upper, 1).T), P, which="LA")[1]


def second_moments(rows: Any) -> Any:
    return sum(part.T @ part for part in np.array_split(rows, 10)).astype(np.float64)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", choices=BOUNDS, default="cifar10")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    options = parser.parse_args()
    data = destiny.datasets.load(options.data).data.astype(np.float32) / 255
    bound, mean_bound = BOUNDS[options.data]
    rows = data - data.mean(axis=0)
    exact = second_moments(rows)
    best = eigsh(exact, P, which="LA")[0].sum()
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    clipped = second_moments(rows * np.minimum(1, bound / norms))
    del rows

    def share(X: Any) -> str:
        return f"{np.sum(X * (exact @ X)) / best:.4f}"

    for noise in ("alone", "together"):
        for epsilon in EPSILONS:
            for seed in options.seeds:
                privacy = Privacy(epsilon, DELTA, bound, noise, mean_bound, seed=seed)
                found = by_products(data, privacy), by_matrices(clipped, privacy, seed)
                print(options.data, noise, epsilon, seed, *map(share, found), flush=True)


if __name__ == "__main__":
    main()

"""A solver from elsewhere, without callbacks: DeEPCA (Ye & Zhang, JMLR 2021) as a function of data and W."""

import numpy as np
from benchopt import BaseSolver

from benchmark_utils.solving import Reached


def deepca(C, W, start, rounds):
    """The agents' iterates after some rounds, one per step; C ``(d, n, n)`` are their matrices A_i A_i^T."""
    X = np.repeat(start[None], len(W), axis=0)
    S = before = X
    for _ in range(rounds):
        product = C @ X
        S = np.tensordot(W, S + product - before, axes=1)
        before = product
        X = np.linalg.qr(S).Q
        X = X * np.where(np.sum(X * start, axis=1, keepdims=True) < 0, -1, 1)  # the signs of the start
    return X


class Solver(BaseSolver):
    """benchopt calls ``run`` anew with more and more rounds."""

    name = "numpy-deepca"
    sampling_strategy = "iteration"
    stopping_criterion = Reached()

    def skip(self, problem, network, W, start):
        """PCA only."""
        suits = problem.kind == "pca" and problem.regularizer is None
        return not suits, None if suits else "numpy-deepca solves PCA only"

    def set_objective(self, problem, network, W, start):
        """Each agent's own matrix."""
        self.C = np.stack([problem.second_moments(i) for i in range(problem.agents)])
        self.W, self.start = W, start
        self.links = np.count_nonzero(W) - np.count_nonzero(np.diag(W))

    def get_next(self, rounds):
        """Every run begins at the start: intervals that grow keep all of them together affordable."""
        return max(rounds + 10, 6 * rounds // 5)

    def run(self, rounds):
        """From the start, for so many rounds."""
        self.rounds, self.X = rounds, deepca(self.C, self.W, self.start, rounds)

    def get_result(self):
        """One matrix over each link in each round."""
        return {"X": self.X, "rounds": self.rounds, "scalars": self.rounds * self.links * self.start.size}

"""Minimize (1/d) sum f_i(X) + r(X) subject to X^T X = I by d agents on a network.

What a solver returns is the stack of the agents' iterates, and what it took to get there.
"""

import numpy as np
from benchopt import BaseObjective

import destiny
from benchmark_utils.networks import network_of
from destiny import metrics


class Observer:
    """f = (1/d) sum f_i and its gradient at one X, for measuring only: no solver sees it."""

    def __init__(self, problem):
        self.hosted = destiny.problems.pooled(problem).host([0])

    def value(self, X):
        return float(self.hosted.value(X[None])[0])

    def gradient(self, X):
        return self.hosted.gradient(X[None])[0]


class Objective(BaseObjective):
    """The three measures of the paper's Section 4.1 and what it cost to get there."""

    name = "Decentralized Stiefel"
    requirements = ["pip::destiny-stiefel[sklearn]"]
    min_benchopt_version = "1.9"
    sampling_strategy = "callback"

    # "KIND" or "KIND PROBABILITY", as `destiny network` names them; the seed draws links and the start.
    parameters = {"network": ["erdos-renyi 0.4", "erdos-renyi 0.2", "ring", "star"], "seed": [0]}
    parameter_template = "{network}"
    test_config = {"network": "star", "dataset": {"name": ["Synthetic PCA", "Sparse PCA"]}}

    def skip(self, problem, reason):
        """A data set without a problem has a reason: its files are missing."""
        return problem is None, reason

    def set_data(self, problem, reason):
        """Draw network and start, the same for all solvers, and measure the start."""
        self.problem, self.observer = problem, Observer(problem)
        self.graph = network_of(self.network, problem.agents, self.seed)
        self.start = destiny.stiefel.random_point(*problem.shape, seed=self.seed)
        if problem.regularizer is None:
            self.composite = None
            self.reference = metrics.reference(self.observer, self.start)
        else:
            gradient = self.observer.gradient(self.start)
            self.composite = metrics.Composite.at(problem.regularizer, gradient)
            self.reference = metrics.composite_reference(self.observer, self.start, self.composite)

    def get_objective(self):
        """What a solver gets; docs/benchopt.md explains each."""
        return {
            "problem": self.problem,
            "network": self.graph,
            "W": self.graph.W.toarray(),
            "start": self.start,
        }

    def evaluate_result(self, X, rounds, scalars):
        """Measure the agents' iterates ``(d, n, p)``, whoever made them."""
        expected = (self.problem.agents, *self.problem.shape)
        X = np.asarray(X, dtype=np.float64)
        if X.shape != expected:
            raise ValueError(
                f"X must be the stack of all iterates {expected}; found {X.shape}: return each agent's"
            )
        mean = X.mean(axis=0)
        spread = metrics.Spread(mean, metrics.Spread.numbers(X, mean))
        m = metrics.measure(self.observer, spread, self.reference, self.composite)
        cost = {"rounds": rounds, "megabytes": 8e-6 * scalars}  # 8 bytes a number
        reached = {"stationarity": m.stationarity, "consensus": m.consensus, "feasibility": m.feasibility}
        return {"value": m.worst, "f": m.objective, **cost, **reached}

    def get_one_result(self):
        """The start, for the tests of benchopt."""
        return {"X": np.repeat(self.start[None], self.problem.agents, axis=0), "rounds": 0, "scalars": 0}

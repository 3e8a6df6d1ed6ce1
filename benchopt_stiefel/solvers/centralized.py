"""Reference: a method for one agent on the pooled data, counted as if a coordinator asked all agents."""

import numpy as np
from benchopt import BaseSolver

import destiny
from benchmark_utils.solving import Reached
from destiny.algorithms import KINDS


class Solver(BaseSolver):
    """Every evaluation of f or its gradient takes two rounds: X to all agents, their numbers back."""

    name = "centralized"
    parameters = {"kind": ["wen-yin", "slpg"]}
    parameter_template = "{kind}"
    sampling_strategy = "callback"
    stopping_criterion = Reached()

    def skip(self, problem, network, W, start):
        """Ask the package."""
        try:
            self.moments(problem, start)
        except destiny.DestinyError as error:
            return True, str(error)
        return False, None

    def set_objective(self, problem, network, W, start):
        """Pool the data of all agents in one place."""
        self.agents, self.problem, self.start = problem.agents, destiny.problems.pooled(problem), start

    def moments(self, problem, start):
        """The run as a generator."""
        one = destiny.networks.complete(1)
        return destiny.iterate(destiny.problems.pooled(problem), one, KINDS[self.kind](), start=start)

    def get_next(self, calls):
        """Measure after every step: there are few."""
        return calls + 1

    def run(self, callback):
        """Take steps until benchopt has seen enough."""
        for self.moment in self.moments(self.problem, self.start):
            if not callback():
                break

    def get_result(self):
        """The same X at all agents."""
        traffic, X = self.moment.traffic, self.moment.X
        asked = max(traffic.gradients, traffic.values)
        scalars = 2 * asked * (self.agents - 1) * X[0].size
        return {"X": np.repeat(X, self.agents, axis=0), "rounds": 2 * asked, "scalars": scalars}

"""How solvers of this benchmark talk, are counted, measured and stopped."""

import numpy as np
from benchopt import BaseSolver
from benchopt.stopping_criterion import StoppingCriterion

from benchmark_utils.costs import TOLERANCE

ROUNDS = 3000  # after which a solver has failed
EVERY = 10  # steps between measurements


class Reached(StoppingCriterion):
    """Stop when the largest of the three measures is small enough, or too many rounds are used."""

    def __init__(
        self, tolerance=TOLERANCE, rounds=ROUNDS, strategy=None, key_to_monitor="value", minimize=True
    ):
        watched = {"strategy": strategy, "key_to_monitor": key_to_monitor, "minimize": minimize}
        super().__init__(**watched, tolerance=tolerance, rounds=rounds)

    def check_convergence(self, objective_list):
        """Whether to stop, and how far the run has come: in rounds, or in decades of the measure."""
        now, tolerance, rounds = objective_list[-1], self.kwargs["tolerance"], self.kwargs["rounds"]
        value, used = now["objective_value"], now["objective_rounds"]
        decades = np.log(np.clip(value, tolerance, 1)) / np.log(tolerance)
        return bool(value <= tolerance or used >= rounds), float(max(decades, used / rounds))


class Agents:
    """All agents of a run: their own gradients, and averages over neighbors, which are counted.

    Every array is a stack ``(d, n, p)`` with one matrix per agent.
    """

    def __init__(self, problem, W):
        self.hosted, self.W = problem.host(range(problem.agents)), W
        self.links = np.count_nonzero(W) - np.count_nonzero(np.diag(W))  # both directions
        self.rounds = self.scalars = 0

    def gradient(self, X):
        """Gradient of f_i at X_i for every agent i."""
        return self.hosted.gradient(X)

    def mix(self, *arrays):
        """sum_j W_ij A_j of every array, all in one message per link: one round."""
        self.rounds += 1
        self.scalars += self.links * sum(A[0].size for A in arrays)
        mixed = [np.tensordot(self.W, A, axes=1) for A in arrays]
        return mixed if len(mixed) > 1 else mixed[0]


class DecentralizedSolver(BaseSolver):
    """A solver of yours: write ``steps``, a generator of stacks of iterates.

    ``steps(agents, start)`` yields X ``(d, n, p)`` at the start and after each step, without end; it talks by
    ``agents.mix`` alone. ``refusal(problem)`` may say in a sentence why a problem cannot be solved.
    """

    sampling_strategy = "callback"
    stopping_criterion = Reached()

    def refusal(self, problem):
        """Why this problem cannot be solved, or None; by default regularizers are refused."""
        return None if problem.regularizer is None else f"{self.name} needs a smooth objective"

    def skip(self, problem, network, W, start):
        """What benchopt asks before a run."""
        reason = self.refusal(problem)
        return reason is not None, reason

    def set_objective(self, problem, network, W, start):
        """Keep what is needed, and load the data: this is not timed."""
        self.problem, self.W, self.start = problem, W, start
        self.agents = Agents(problem, W)

    def get_next(self, calls):
        """Measure every few steps: where curves are compared, not time, a fixed interval is fair."""
        return calls + EVERY

    def run(self, callback):
        """Take steps until benchopt has seen enough."""
        self.agents.rounds = self.agents.scalars = 0
        start = np.repeat(self.start[None], len(self.W), axis=0)
        for self.X in self.steps(self.agents, start):
            if not callback():
                break

    def get_result(self):
        """What the objective measures."""
        return {"X": self.X, "rounds": self.agents.rounds, "scalars": self.agents.scalars}

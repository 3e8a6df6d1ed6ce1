"""Every exact method of the package, by its name in experiment files, with its defaults."""

from benchopt import BaseSolver

import destiny
from benchmark_utils.solving import EVERY, Reached
from destiny.algorithms import KINDS

EXACT = [
    kind for kind, method in KINDS.items() if "inexact" not in method.about and "alone" not in method.about
]
REGULARIZED = ["thanos"]  # exact up to its smoothing; the published method for problems with a regularizer


class Solver(BaseSolver):
    """A method of the package; those that do not fit a problem or a network are skipped, with the reason."""

    name = "destiny"
    parameters = {"kind": EXACT + REGULARIZED}
    parameter_template = "{kind}"
    sampling_strategy = "callback"
    stopping_criterion = Reached()
    every = EVERY

    def skip(self, problem, network, W, start):
        """Ask the package, which checks everything before a run."""
        if problem.regularizer is None and self.kind in REGULARIZED:
            return True, f"{self.kind} is for problems with a regularizer"
        try:
            destiny.iterate(problem, network, KINDS[self.kind](), start=start)
        except destiny.DestinyError as error:
            return True, str(error)
        return False, None

    def set_objective(self, problem, network, W, start):
        """The method chooses its own step sizes and penalty; the rounds for this are counted."""
        self.problem, self.network, self.start = problem, network, start
        if KINDS[self.kind].few_steps:
            self.every = 1

    def get_next(self, calls):
        """Measure every few steps, and every step of methods that take few."""
        return calls + self.every

    def run(self, callback):
        """Take steps until benchopt has seen enough."""
        method = KINDS[self.kind]()
        for self.moment in destiny.iterate(self.problem, self.network, method, start=self.start):
            if not callback():
                break

    def get_result(self):
        """What the objective measures; the package has counted."""
        return {"X": self.moment.X, "rounds": self.moment.round, "scalars": self.moment.scalars}

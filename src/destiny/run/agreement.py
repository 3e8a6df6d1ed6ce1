"""How agents agree to stop: from local residuals and messages to neighbors alone."""

from __future__ import annotations

from typing import Any

import numpy as np

from destiny.errors import MismatchError
from destiny.protocols import AlgorithmBase, Array, TopologyBase
from destiny.run.loop import Moment
from destiny.run.stopping import Stop, flooding_time


class LocalStop:
    """Stopping rule of the agents themselves: whether any local residual of a step was too large is flooded.

    A neighbor thus learns one bit of an agent's residual, where the number itself would be one more equation
    for its data.

    Attributes
    ----------
    asked : step of the residuals being flooded, the round when all know, and the tolerance
    agreed : tolerance and reason, once the agents have agreed
    """

    def __init__(self, algorithm: AlgorithmBase, network: TopologyBase, tolerance: float) -> None:
        self.algorithm, self.network, self.tolerance = algorithm, network, tolerance
        self.asked: list[Any] | None = None
        self.agreed: list[Any] | None = None
        if algorithm.residual is None:
            raise MismatchError(
                f"{algorithm.kind} has no local residual, so its agents cannot agree to stop "
                "by themselves: use local_stopping=False, or in an agent's file tolerance = 0"
            )

    def check(self, moment: Moment, cost: int) -> Stop | None:
        """Return a `Stop`, the same at every agent, or None; ``cost`` is the number of rounds of a step."""
        if self.agreed is not None and self.agreed[0] <= self.tolerance:  # before this run was resumed
            return Stop(self.agreed[1], True)
        team = moment.team
        if self.asked is not None and self.asked[2:] != [self.tolerance]:
            self.asked = None  # this run was resumed with another tolerance
        if self.asked is not None and moment.round >= self.asked[1]:
            step, self.asked = self.asked[0], None
            if (team.flood == 0).all():  # all hold the same number by now, hence decide alike
                reason = (
                    f"converged: every agent's local residual was below {self.tolerance:g} at step {step}, "
                    f"and all agents knew it after step {moment.step}"
                )
                self.agreed = [self.tolerance, reason]
                return Stop(reason, True)
        if self.asked is None and self.tolerance > 0:
            # Where no agent needs to hear from another (d = 1) the answer is known at once, a step later.
            residual = self.algorithm.residual
            assert residual is not None
            limit = self.tolerance
            team.set_flood(team.each(lambda state, _: _too_large(residual(state), limit), moment.parts))
            rounds = max(1, flooding_time(self.network, moment.round)) if cost else 0
            self.asked = [moment.step, moment.round + rounds, self.tolerance]
        return None


def _too_large(residuals: Array, tolerance: float) -> Array:
    """1 where a residual is above the tolerance, else 0; what is not a number stays so, and ends the run."""
    return np.where(np.isnan(residuals), residuals, np.where(residuals <= tolerance, 0.0, 1.0))

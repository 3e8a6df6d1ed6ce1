"""How agents agree to stop: from local residuals and messages to neighbours alone."""

from __future__ import annotations

from typing import Any

from destiny.errors import MismatchError
from destiny.protocols import AlgorithmBase, TopologyBase
from destiny.run.moment import Moment
from destiny.run.stopping import Stop, flooding_time


class DecentralisedStop:
    """Stopping rule of the agents themselves: flood the largest local residual of a step until all know it.

    Attributes
    ----------
    asked : step of the residuals being flooded, and the round when all know
    agreed : tolerance and reason, once the agents have agreed
    """

    def __init__(self, algorithm: AlgorithmBase, network: TopologyBase, tolerance: float | None) -> None:
        self.algorithm, self.network, self.tolerance = algorithm, network, tolerance
        self.asked: list[int] | None = None
        self.agreed: list[Any] | None = None
        if tolerance is not None and algorithm.residual is None:
            raise MismatchError(
                f"{algorithm.kind} has no local residual, so its agents cannot agree to stop "
                "by themselves: use decentralised=False, or in an agent's file tolerance = 0"
            )

    def check(self, moment: Moment, cost: int) -> Stop | None:
        """Return a `Stop`, the same at every agent, or None; ``cost`` is the number of rounds of a step."""
        if self.tolerance is None:
            return None
        if self.agreed is not None and self.agreed[0] <= self.tolerance:  # before this run was resumed
            return Stop(self.agreed[1], True)
        team = moment.team
        if self.asked is not None and moment.round >= self.asked[1]:
            step, self.asked = self.asked[0], None
            if (team.flood <= self.tolerance).all():  # all hold the same number by now, hence decide alike
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
            team.set_flood(team.each(lambda state, _: residual(state), moment.parts))
            rounds = max(1, flooding_time(self.network, moment.round)) if cost else 0
            self.asked = [moment.step, moment.round + rounds]
        return None

"""Several rounds of communication per step, plain or accelerated."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, Self

from destiny.algorithms.blocks.gossip import chebyshev, fast_mix
from destiny.algorithms.blocks.opening import check_lambda
from destiny.errors import SettingsError
from destiny.protocols import Agents, AlgorithmBase, Array, TopologyBase
from destiny.validation import did_you_mean, is_whole

MIXINGS = ("plain", "chebyshev", "fastmix")


@dataclass(frozen=True)
class Consensus(AlgorithmBase):
    """Several rounds of averaging per step.

    Parameters
    ----------
    rounds : int
        Rounds of communication per step (t or K in papers).
    mixing : "plain", "chebyshev" or "fastmix"
        W^t, or accelerated averaging, which is worth it from about 8 rounds on, on badly connected networks.
    lambda_ : None or a number in [0, 1)
        ||W - 11^T/d||_2. Accelerated averaging takes the network's own by default.
    """

    rounds: int = 1
    mixing: Literal["plain", "chebyshev", "fastmix"] = "plain"
    lambda_: float | None = None

    def __post_init__(self) -> None:
        if not is_whole(self.rounds) or self.rounds < 1:
            raise SettingsError(f"rounds must be a whole number of at least 1; found {self.rounds!r}")
        if self.mixing not in MIXINGS:
            near = did_you_mean(self.mixing, MIXINGS)
            raise SettingsError(f"mixing must be one of {', '.join(MIXINGS)}; found {self.mixing!r}{near}")
        check_lambda(self.lambda_)

    def on(self, network: TopologyBase) -> Self:
        """The same settings with the network's lambda, if accelerated averaging needs it.

        All agents must use the same number, or the mean is not kept. Raises `SettingsError` on a network that
        changes, which has no lambda.
        """
        if self.mixing == "plain" or self.lambda_ is not None:
            return self
        if network.lambda_ is None:
            raise SettingsError(
                f"{self.mixing} gossip needs lambda, and this network changes from round to round: "
                "give lambda, or use plain mixing"
            )
        return replace(self, lambda_=network.lambda_)

    def average(self, agents: Agents, *arrays: Array) -> tuple[Array, ...]:
        """Average the arrays in the ``rounds`` rounds of one step."""
        if self.mixing == "plain":
            return agents.mix(*arrays, rounds=self.rounds)
        assert self.lambda_ is not None  # filled in before the run
        accelerated = chebyshev if self.mixing == "chebyshev" else fast_mix
        return accelerated(agents, *arrays, rounds=self.rounds, lambda_=self.lambda_)

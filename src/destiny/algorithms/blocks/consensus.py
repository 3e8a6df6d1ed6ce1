"""Several rounds of communication per step, plain or accelerated."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, Self

from destiny.algorithms.blocks.gossip import chebyshev, fast_mix
from destiny.algorithms.blocks.opening import check_lambda
from destiny.errors import SettingsError, is_whole
from destiny.protocols import Agents, Array, Topology

MIXINGS = ("plain", "chebyshev", "fastmix")


@dataclass(frozen=True)
class Consensus:
    """How agents average before each step.

    Parameters
    ----------
    rounds : int
        Rounds of communication per step (t or K in papers).
    mixing : "plain", "chebyshev" or "fastmix"
        W^t, or an accelerated average; those pay from about 8 rounds on, on badly connected networks.
    lambda_ : None or a number in [0, 1)
        How well the network mixes. Accelerated mixing takes the network's own if it is not given.
    """

    rounds: int = 1
    mixing: Literal["plain", "chebyshev", "fastmix"] = "plain"
    lambda_: float | None = None

    def __post_init__(self) -> None:
        if not is_whole(self.rounds) or self.rounds < 1:
            raise SettingsError(f"rounds must be a whole number of at least 1; found {self.rounds!r}")
        if self.mixing not in MIXINGS:
            raise SettingsError(f"mixing must be one of {', '.join(MIXINGS)}; found {self.mixing!r}")
        check_lambda(self.lambda_)

    def on(self, network: Topology) -> Self:
        """The same, with the network's lambda: accelerated gossip keeps the mean only if all use the same."""
        if self.mixing == "plain" or self.lambda_ is not None:
            return self
        if not hasattr(network, "lambda_"):
            raise SettingsError(
                f"{self.mixing} gossip needs lambda, and this network changes from round to round: "
                "give lambda, or use plain mixing"
            )
        return replace(self, lambda_=network.lambda_)

    def average(self, agents: Agents, *arrays: Array) -> tuple[Array, ...]:
        """The rounds of one step."""
        if self.mixing == "plain":
            return agents.mix(*arrays, rounds=self.rounds)
        assert self.lambda_ is not None  # filled in before the run
        accelerated = chebyshev if self.mixing == "chebyshev" else fast_mix
        return accelerated(agents, *arrays, rounds=self.rounds, lambda_=self.lambda_)

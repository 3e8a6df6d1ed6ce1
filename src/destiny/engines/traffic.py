"""What a run has cost so far: rounds, numbers, bytes, evaluations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

EVALUATIONS = ("gradients", "minibatches", "values")


@dataclass
class Traffic:
    """What a run has cost so far; the same on every engine.

    Attributes
    ----------
    rounds : int
        Rounds of communication.
    turns : int
        Exchanges: a round of `mix` is one, and so is a sum over all agents, whatever its rounds.
    scalars : int
        Numbers sent over all links of the network.
    bytes : int
        What they took: 8 bytes each, or less where messages have few bits (`destiny.Quantized`).
    gradients, minibatches, values : int
        Evaluations by each agent of its own f_i: full gradients, gradients of mini-batches, values.
    """

    rounds: int = 0
    scalars: int = 0
    gradients: int = 0
    minibatches: int = 0
    values: int = 0
    bytes: int = 0
    turns: int = 0

    def add(self, rounds: int, scalars: int, bytes: int) -> None:
        """An exchange of so many rounds."""
        self.turns += 1
        self.rounds += rounds
        self.scalars += scalars
        self.bytes += bytes

    @classmethod
    def from_facts(cls, facts: Mapping[str, Any]) -> Traffic:
        """Of a checkpoint; one written before evaluations were counted has none of them."""
        counted = {name: facts.get(name, 0) for name in EVALUATIONS}
        return cls(
            facts["round"],
            facts["scalars"],
            bytes=facts.get("bytes", 8 * facts["scalars"]),
            turns=facts["turn"],
            **counted,
        )

    def facts(self) -> dict[str, int]:
        return {
            "round": self.rounds,
            "turn": self.turns,
            "scalars": self.scalars,
            "bytes": self.bytes,
            **self.evaluations(),
        }

    def evaluations(self) -> dict[str, int]:
        """What each agent has computed, by name."""
        return {name: getattr(self, name) for name in EVALUATIONS}

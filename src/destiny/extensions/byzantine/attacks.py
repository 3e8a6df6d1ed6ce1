"""Byzantine agents, for experiments in one process: what they send is not what their method says."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from destiny.engines.exchange import Exchange
from destiny.engines.mixers.plain import PLAIN, Messages
from destiny.engines.threads import Local, LocalTeam, NoChannel
from destiny.engines.tree_sum import Row
from destiny.errors import SettingsError
from destiny.protocols import Array, Problem, TopologyBase, Tree
from destiny.storage.checkpoint import Saved
from destiny.validation import did_you_mean, is_whole

LOUD = 10.0  # of "noise": standard deviation relative to the root mean square of what would be sent
LITTLE = (
    1.5  # of "shift": standard deviations of what honest agents send, as in Baruch, Baruch & Goldberg 2019
)
AGAINST = 0.1  # of "inner": share of the honest agents' mean, negated, as in Xie, Koyejo & Gupta 2019

Attack = Callable[[Array, Array, np.random.Generator], Array]
"""(what an agent should send ``(width,)``, what honest agents send ``(k, width)``, rng) -> what it sends."""


def flip(own: Array, honest: Array, rng: np.random.Generator) -> Array:  # noqa: ARG001
    """The negative of what it should send."""
    return -own


def noise(own: Array, honest: Array, rng: np.random.Generator) -> Array:  # noqa: ARG001
    """What it should send plus noise ten times as large."""
    size = float(np.sqrt(np.mean(own**2)))
    return own + LOUD * size * rng.standard_normal(own.shape)


def inner(own: Array, honest: Array, rng: np.random.Generator) -> Array:  # noqa: ARG001
    """The negative of a tenth of the honest agents' mean: it turns averages around (inner product)."""
    return np.asarray(-AGAINST * honest.mean(axis=0))


def shift(own: Array, honest: Array, rng: np.random.Generator) -> Array:  # noqa: ARG001
    """The honest agents' mean less 1.5 of their standard deviations: a little is enough, and hard to see."""
    return np.asarray(honest.mean(axis=0) - LITTLE * honest.std(axis=0))


ATTACKS: dict[str, Attack] = {"flip": flip, "noise": noise, "inner": inner, "shift": shift}
"""Attacks by name."""


@dataclass(frozen=True)
class Byzantine:
    """Engine of one process in which some agents are Byzantine: they lie to their neighbors in every round.

    A Byzantine agent follows its method with what it hears, and sends something else. It knows what all
    honest agents send. Its own copy of X is one of the agents' copies in a result, where it stands for
    nothing.

    Parameters
    ----------
    agents : sequence of int
        Who lies.
    attack : {"flip", "noise", "inner", "shift"}
        What they send instead of each array of a message: its negative; noise of ten times its size added;
        minus a tenth of the honest agents' mean; the honest agents' mean less 1.5 standard deviations.
    seed : int
        Of the noise, together with agent and round.
    """

    agents: Sequence[int]
    attack: str = "flip"
    seed: int = 0
    leader = True

    def __post_init__(self) -> None:
        if self.attack not in ATTACKS:
            names = ", ".join(ATTACKS)
            raise SettingsError(
                f"attack must be one of {names}; found {self.attack!r}{did_you_mean(self.attack, ATTACKS)}"
            )
        if not all(is_whole(agent) and agent >= 0 for agent in self.agents):
            raise SettingsError(f"agents must be the indices of those who lie; found {self.agents!r}")
        object.__setattr__(self, "agents", tuple(sorted(set(self.agents))))

    def connect(self, problem: Problem, network: TopologyBase, messages: Messages = PLAIN) -> LocalTeam:
        """Host all agents of the problem on one thread."""
        if any(agent >= problem.agents for agent in self.agents) or len(self.agents) >= problem.agents:
            raise SettingsError(
                f"Byzantine agents must be some of the {problem.agents} agents, not all; found "
                f"{list(self.agents)}"
            )
        return LocalTeam(problem, network, messages, 1, LyingExchange(NoChannel(), self))

    def require_same(self, facts: Mapping[str, Any]) -> None:
        """Nothing to compare: one process."""

    def newest(self, folder: Path, agents: int) -> tuple[Saved | None, list[str]]:
        """The newest whole checkpoint of a folder."""
        return Local(1).newest(folder, agents)


class LyingExchange:
    """Messages of all agents in one process (`Exchange`), those of Byzantine agents replaced."""

    def __init__(self, exchange: Exchange, byzantine: Byzantine) -> None:
        self.exchange, self.byzantine = exchange, list(byzantine.agents)
        self.attack, self.seed = ATTACKS[byzantine.attack], byzantine.seed

    def adopt(self, W: csr_array[Any, Any]) -> csr_array[Any, Any]:
        """Rows of W with a column for every agent."""
        return self.exchange.adopt(W)

    def swap(self, round: int, blocks: Sequence[Array]) -> Sequence[Array]:
        """The blocks of all agents as their neighbors hear them."""
        return self.exchange.swap(round, self._told(round, blocks))

    def all_reduce(self, turn: int, tree: Tree, blocks: Sequence[Row]) -> Sequence[Row]:
        """The sums with what Byzantine agents add to them."""
        return self.exchange.all_reduce(turn, tree, self._told(turn, blocks))

    def _told(self, round: int, blocks: Sequence[Array]) -> list[Array]:
        heard = []
        for k, block in enumerate(blocks):
            honest = np.delete(block, self.byzantine, axis=0)
            told = np.array(block)
            for agent in self.byzantine:
                rng = np.random.default_rng([self.seed, agent, round, k])
                told[agent] = self.attack(block[agent], honest, rng)
            heard.append(told)
        return heard

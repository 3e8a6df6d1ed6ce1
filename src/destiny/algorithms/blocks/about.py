"""What a method says of itself: checked before a run, counted in tests, printed in docs/methods.md."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class About:
    """One line on a method. The tests hold it to what it says."""

    title: str
    """Its name in papers."""
    source: str
    """Where it comes from."""
    sends: int
    """Matrices n x p sent to each neighbour in a round."""
    numbers: int = 0
    """Single numbers sent beside the matrices."""
    numbers_auto: int = 0
    """Further ones where the step size (or rho) is chosen automatically, so that agents choose alike."""
    rounds: int | str = 1
    """Rounds of a step, or the name of the setting that says how many."""
    exact: bool = True
    """Whether it converges to a stationary point; otherwise it stalls at a bias, or creeps."""
    needs: str = "doubly stochastic W"
    """What it asks of the network."""
    problem: str | None = None
    """The only kind of problem it solves; None means any f."""
    alone: bool = False
    """A method for one agent (d = 1)."""
    axes: bool = False
    """Whether the columns tend to the eigenvectors themselves rather than to a basis of their span."""
    stochastic: bool = False
    """Whether it takes gradients of mini-batches."""
    reconstruction: bool = False
    """Rebuilt from a description: sound, but not guaranteed to be what the named paper does line by line."""


def for_one_agent(title: str, source: str) -> About:
    """What a method for one agent says of itself: it sends nothing and asks nothing of a network."""
    return About(title, source, sends=0, rounds=0, needs="nothing", alone=True)

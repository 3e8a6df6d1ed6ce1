"""Algorithms of a class of the user's own: wrapped once, so that they have all members of `AlgorithmBase`."""

from __future__ import annotations

from typing import Any

from destiny.algorithms import KINDS
from destiny.errors import SettingsError
from destiny.protocols import (
    About,
    Agents,
    Algorithm,
    AlgorithmBase,
    Array,
    AsyncAlgorithmBase,
    TopologyBase,
    forward,
)
from destiny.validation import did_you_mean


def as_algorithm(given: object) -> AlgorithmBase:
    """The algorithm itself if it derives from `AlgorithmBase`, wrapped otherwise; of a kind, its defaults.

    `SettingsError` if it is none.
    """
    if isinstance(given, AlgorithmBase):
        return given
    if isinstance(given, str):
        if given not in KINDS:
            raise SettingsError(
                "algorithm must be one of the methods of docs/methods.md, such as destiny, destiny-momentum "
                f"or destiny-newton; found {given!r}{did_you_mean(given, KINDS)}"
            )
        default: AlgorithmBase = KINDS[given]()
        return default
    if isinstance(given, AsyncAlgorithmBase):
        raise SettingsError(
            f"{given.kind} has no rounds: run it in simulated time (destiny.simulate, or [world] in an "
            "experiment file), or between organisations (destiny agent)"
        )
    if hasattr(given, "wake") and not isinstance(given, type):
        raise SettingsError(
            "an asynchronous algorithm must derive from destiny.protocols.AsyncAlgorithmBase; found "
            f"{type(given).__name__}: derive it"
        )
    if isinstance(given, type) or not hasattr(given, "step"):
        raise SettingsError(f"algorithm must be an object such as destiny.Destiny(); found {given!r}")
    if not hasattr(given, "init"):
        raise SettingsError(
            f"an algorithm must have init and step; found {type(given).__name__} without init; add it"
        )
    return WrappedAlgorithm(given)


@forward
class WrappedAlgorithm(AlgorithmBase):
    """An algorithm around one of the user's own: members that it does not have are the defaults."""

    def __init__(self, inner: Algorithm[Any]) -> None:
        self.inner = inner

    def __repr__(self) -> str:
        return repr(self.inner)

    def init(self, X: Array, agents: Agents) -> Any:
        return self.inner.init(X, agents)

    def step(self, state: Any, agents: Agents) -> Any:
        return self.inner.step(state, agents)

    @property
    def kind(self) -> str:
        """That of ``inner``, by default the name of its class."""
        return str(getattr(self.inner, "kind", type(self.inner).__name__))

    @property
    def rounds_per_step(self) -> int:
        """Rounds of a step, as ``inner.about`` states them; 1 by default."""
        return 1 if self.about is None else self.about.rounds_of(self.inner)

    @property
    def about(self) -> About | None:
        about = getattr(self.inner, "about", None)
        return about if isinstance(about, About) else None

    @property
    def step_rule(self) -> object:
        """The setting ``step_size`` of ``inner``, if it has one."""
        return getattr(self.inner, "step_size", None)

    def on(self, network: TopologyBase) -> AlgorithmBase:
        """What ``inner`` makes of itself on a network, if it does."""
        on = getattr(self.inner, "on", None)
        return self if on is None else as_algorithm(on(network))

    def tracked(self, state: Any) -> tuple[Array, Array] | None:
        """``D`` and ``H`` of a state that has both."""
        return (state.D, state.H) if hasattr(state, "D") and hasattr(state, "H") else None

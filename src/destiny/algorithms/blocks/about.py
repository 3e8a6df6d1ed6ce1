"""Properties of a method: used before a run, verified by the tests, printed in docs/methods.md."""

from __future__ import annotations

from destiny.protocols import About, Trait

__all__ = ["About", "for_one_agent"]


def for_one_agent(title: str, source: str, *traits: Trait) -> About:
    """`About` of a method for one agent, which sends nothing."""
    return About(title, source, sends=0, rounds=0, needs="nothing", traits=frozenset({"alone", *traits}))

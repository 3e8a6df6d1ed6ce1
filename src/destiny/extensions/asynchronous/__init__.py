"""Agents that do not wait for each other: the method, simulated time, agents of organizations."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from destiny.extensions.asynchronous.async_protocol import AsyncAlgorithmBase
    from destiny.extensions.asynchronous.destiny_async import DestinyAsync
    from destiny.extensions.asynchronous.simulation.activity import Activity
    from destiny.extensions.asynchronous.simulation.simulated_run import SimulatedResult, simulate
    from destiny.extensions.asynchronous.simulation.traces import read_traces
    from destiny.extensions.asynchronous.simulation.world import World

__all__ = [
    "Activity",
    "AsyncAlgorithmBase",
    "DestinyAsync",
    "SimulatedResult",
    "World",
    "read_traces",
    "simulate",
]

# Imported when first used: every command imports this package, for its registration.
_HOMES = {
    "Activity": "simulation.activity",
    "AsyncAlgorithmBase": "async_protocol",
    "DestinyAsync": "destiny_async",
    "SimulatedResult": "simulation.simulated_run",
    "World": "simulation.world",
    "read_traces": "simulation.traces",
    "simulate": "simulation.simulated_run",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)

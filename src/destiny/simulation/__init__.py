"""Runs in simulated time: agents of different speeds, messages that are late or lost, crashes."""

from destiny.simulation.activity import Activity
from destiny.simulation.simulated_run import SimulatedResult, simulate
from destiny.simulation.traces import read_traces
from destiny.simulation.world import World

__all__ = ["Activity", "SimulatedResult", "World", "read_traces", "simulate"]

"""What asynchronous methods add to the package: kinds, [world], agents and their keys, commands, a chart."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

from destiny.registry import Extension, FileTable, Key

AGENT_KEYS = {
    "agent": {
        "removal": Key(
            Literal["majority", "any"],
            "asynchronous methods: whether a majority of the neighbors, or any one, is believed that "
            "another left",
            refusal="is for asynchronous methods: with all others nobody can leave",
        ),
        "late": Key(
            list[int],
            "asynchronous methods: agents that do not take part from the start, by index",
            refusal="is for asynchronous methods: with all others everybody takes part from the start",
        ),
    },
    "run": {
        "replay": Key(
            bool,
            "write down what an asynchronous run needs to be made again to the bit (destiny replay)",
            refusal="is for asynchronous methods: the bits of all others follow from their files alone",
        )
    },
}


class WorldTable(FileTable):
    """[world]: simulated time."""

    meaning = "speeds, delays, losses and crashes of a run in simulated time"
    types: Mapping[str, Any] = {"traces": str}

    def __init__(self) -> None:
        from destiny.extensions.asynchronous.simulation.world import World

        self.settings = World

    def read(self, table: Mapping[str, Any], folder: Path) -> Mapping[str, Any]:
        """The same with traces read, if they are in a .csv file."""
        from destiny.extensions.asynchronous.simulation.traces import read_traces

        traces = table.get("traces")
        return {**table, "traces": read_traces(folder / traces)} if isinstance(traces, str) else table

    def choose(self, problem: Any, network: Any, messages: Any) -> Any:
        """The asynchronous method, where it fits."""
        from destiny.extensions.asynchronous.async_checks import takes_async
        from destiny.extensions.asynchronous.destiny_async import DestinyAsync

        method = DestinyAsync()
        return method if takes_async(method, problem, network, messages) else None

    def prepare(self, problem: Any, network: Any, method: Any, options: Any, settings: Any) -> Any:
        """A run in simulated time, of methods with and without rounds."""
        from destiny.extensions.asynchronous.simulation.simulated_run import prepare_simulation

        return prepare_simulation(problem, network, method, options, settings)


class AsynchronousExtension(Extension):
    """Agents that do not wait for each other."""

    def methods(self) -> Mapping[str, type[Any]]:
        from destiny.extensions.asynchronous.destiny_async import DestinyAsync

        return {DestinyAsync.kind: DestinyAsync}

    def runs_elsewhere(self, method: object) -> str | None:
        if not hasattr(method, "wake") or isinstance(method, type):
            return None
        from destiny.extensions.asynchronous.async_protocol import AsyncAlgorithmBase

        if isinstance(method, AsyncAlgorithmBase):
            return (
                f"{method.kind} has no rounds: run it in simulated time "
                "(destiny.extensions.asynchronous.simulate, or [world] in an experiment file), or between "
                "organizations (destiny agent)"
            )
        return (
            "an asynchronous algorithm must derive from "
            "destiny.extensions.asynchronous.AsyncAlgorithmBase; found "
            f"{type(method).__name__}: derive it"
        )

    def agent_keys(self) -> Mapping[str, Mapping[str, Key]]:
        return AGENT_KEYS

    def tables(self) -> Mapping[str, FileTable]:
        return {"world": WorldTable()}

    def agent_kind(self, method: object) -> Any:
        if not hasattr(method, "wake"):
            return None
        from destiny.extensions.asynchronous.agents.agent_kind import AsyncAgentKind

        return AsyncAgentKind()

    def commands(self) -> Mapping[str, Callable[..., None]]:
        from destiny.extensions.asynchronous import commands

        return {"replay": commands.replay, "agents leave": commands.leave, "agents remove": commands.remove}

    def drawing(self, label: str, entry: Mapping[str, Any]) -> Any:
        if not isinstance(entry.get("activity"), dict):
            return None
        from destiny.extensions.asynchronous.simulation.activity_chart import figure

        return figure(label, entry["activity"])


EXTENSION = AsynchronousExtension()

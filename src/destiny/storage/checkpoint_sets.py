"""Checkpoints of agents that live in several processes: a folder per step with one file per agent.

Each process writes its own agents' files. Once all are there, one process writes run.npz, what concerns the
run as a whole: a set without it was never finished. Whichever process hosts an agent later reads its file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from destiny.errors import CheckpointError
from destiny.protocols import Array
from destiny.storage import npz

RUN = "run.npz"


def save_agents(place: Path, step: int, ids: Iterable[int], state: Mapping[str, Array]) -> None:
    """Write one file per agent; arrays have the agents ``ids`` on axis 0."""
    npz.write(
        {
            place / _name(agent): (
                {f"state/{name}": array[row] for name, array in state.items()},
                {"step": step, "agent": int(agent)},
            )
            for row, agent in enumerate(ids)
        }
    )


def save_run(place: Path, arrays: Mapping[str, Array], facts: Mapping[str, Any]) -> None:
    """Write what concerns the whole run, which finishes the set."""
    npz.write({place / RUN: (arrays, facts)})


def load_agents(place: Path, step: int, ids: Sequence[int]) -> dict[str, Array]:
    """The state of some agents, agents on axis 0."""
    rows: list[dict[str, Array]] = []
    for agent in ids:
        path = place / _name(agent)
        if not path.exists():
            raise CheckpointError(f"{path} is missing: run agent {agent} where its checkpoint is, or copy it")
        arrays, facts = npz.read(path, ("step", "agent"), ())
        if (facts["step"], facts["agent"]) != (step, agent):
            raise CheckpointError(
                f"{path} holds agent {facts['agent']} at step {facts['step']}: a file was misplaced"
            )
        rows.append(arrays)
    kinds = {tuple((name, array.shape) for name, array in sorted(row.items())) for row in rows}
    if len(kinds) > 1:
        raise CheckpointError(f"{place} mixes files of different runs: agents' arrays differ")
    return {name.removeprefix("state/"): np.stack([row[name] for row in rows]) for name in rows[0]}


def remove(place: Path, ids: Iterable[int] | None = None) -> None:
    """Delete a set, or the share some agents have in it and what finishes it."""
    if ids is None:
        npz.remove(place.glob("*.*"))
    else:
        npz.remove(place / _name(agent) for agent in ids)
        npz.remove([place / RUN])
    try:
        place.rmdir()
    except OSError:  # other processes' files are still in it, or they were faster
        return


def _name(agent: int) -> str:
    return f"agent-{agent:06d}.npz"

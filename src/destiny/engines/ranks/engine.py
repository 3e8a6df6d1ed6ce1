"""Agents on the ranks of an MPI job: the same file and the same bits as in one process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from destiny.engines.mixers.plain import PLAIN, Messages
from destiny.engines.placement import assign_ranks
from destiny.engines.ranks import launch
from destiny.engines.ranks.guard import arriving, guard
from destiny.engines.ranks.team import MpiTeam, Ranks
from destiny.errors import CheckpointError, SettingsError
from destiny.protocols import Array, Problem, TopologyBase
from destiny.storage import checkpoint as checkpoints
from destiny.storage import checkpoint_sets as sets
from destiny.validation import is_number

LONGEST = 1e6  # seconds a timer takes without complaint
DEADLINE = 600.0  # seconds; longer than the longest wait of a healthy run, short against a night on a cluster


@dataclass(frozen=True)
class Mpi:
    """Engine for a script or command started by mpiexec or srun; every rank hosts some agents.

    Parameters
    ----------
    agents_per_rank : int or sequence of int, optional
        Agents of every rank, or of each; by default they are dealt out evenly, in order.
    map : sequence of int, optional
        The rank of each agent instead.
    deadline : float
        Seconds a rank may wait for others before it ends the job with exit code 75, naming whom it waited
        for; 0 means for ever. It must be longer than the slowest rank's step, and than loading its data.
    """

    agents_per_rank: int | Sequence[int] | None = None
    map: Sequence[int] | None = None
    deadline: float = DEADLINE
    ranks: Ranks = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        sound = is_number(self.deadline) and self.deadline >= 0
        patience = min(self.deadline, LONGEST) if sound else DEADLINE
        with arriving(patience):
            MPI = launch.load(patience)
            guard.install(MPI.COMM_WORLD)
            if not sound:  # said only now: from here on one rank's refusal ends the job
                raise SettingsError(f"deadline must be a number of seconds >= 0; found {self.deadline!r}")
            object.__setattr__(self, "ranks", Ranks(MPI, _communicator(MPI), self.deadline))

    @property
    def leader(self) -> bool:
        """Whether this is rank 0, which prints and writes results."""
        return bool(self.ranks.rank == 0)

    def require_same(self, facts: Mapping[str, Any]) -> None:
        """Refuse ranks that were not told the same, naming the difference."""
        self.ranks.require_same(facts)

    def connect(self, problem: Problem, network: TopologyBase, messages: Messages = PLAIN) -> MpiTeam:
        """Host the agents of this rank; reads their data and nobody else's."""
        return MpiTeam(problem, network, messages, self._dealt(problem.agents), self.ranks)

    def _dealt(self, agents: int) -> NDArray[np.intp]:
        """The rank of every agent, on which all ranks agree."""
        owner = assign_ranks(agents, self.ranks.size, self.agents_per_rank, self.map)
        self.ranks.require_same({"who hosts whom": owner.tolist()})
        return owner

    def newest(self, folder: Path, agents: int) -> tuple[checkpoints.Saved | None, list[str]]:
        """The newest checkpoint that rank 0 finds finished and every rank can read its agents of."""
        owner = self._dealt(agents)
        ids = np.flatnonzero(owner == self.ranks.rank)
        mine = [path.name for path in checkpoints.list_checkpoints(folder)]
        names = self.ranks.broadcast(mine)
        if not names and any(flags := self.ranks.allgather(bool(mine))):
            raise CheckpointError(
                f"rank {flags.index(True)} finds checkpoints in {folder} but rank 0 does not: "
                "start rank 0 on the host where it was before"
            )
        notes: list[str] = []
        for name in names:
            saved, error = _try(folder / name, ids, self.leader)
            if not any(errors := self.ranks.allgather(error)):
                assert saved is not None
                return self._completed(saved), notes
            notes.append(next(filter(None, errors)))
        if names:
            raise CheckpointError(f"no checkpoint in {folder} can be read: {notes[0]}")
        return None, notes

    def _completed(self, saved: checkpoints.Saved) -> checkpoints.Saved:
        """Facts and arrays of the run as a whole, as rank 0 read them."""
        facts = self.ranks.broadcast(saved.facts)
        shapes = self.ranks.broadcast({name: list(array.shape) for name, array in saved.arrays.items()})
        arrays: dict[str, Array] = {}
        for name, shape in shapes.items():
            arrays[name] = self.ranks.common(saved.arrays[name] if self.leader else np.empty(shape))
        return replace(saved, facts=facts, arrays=arrays)


def _try(path: Path, ids: Any, leader: bool) -> tuple[checkpoints.Saved | None, str | None]:
    """One checkpoint as far as this rank needs it, or why not."""
    try:
        if path.suffix == ".npz":  # written by one process: all agents in one file
            return checkpoints.load(path).select(ids), None
        empty = checkpoints.Saved({}, {}, {}, path)
        whole = checkpoints.load_run(path) if leader else empty
        step = int(path.name.removeprefix("checkpoint-"))
        return replace(whole, state=sets.load_agents(path, step, [int(i) for i in ids]), ids=ids), None
    except CheckpointError as error:
        return None, str(error)


_ours: list[Any] = []


def _communicator(MPI: Any) -> Any:
    """Our own copy of the world, made once: messages of the user's program do not meet ours."""
    if not _ours:
        _ours.append(MPI.COMM_WORLD.Dup())
    return _ours[0]

"""Where agents live and how their messages travel. One definition of an algorithm runs on all of them."""

from collections.abc import Sequence

from destiny.engines.ranks.engine import DEADLINE, Mpi
from destiny.engines.ranks.launch import launched
from destiny.engines.team import Engine
from destiny.engines.threads import Local
from destiny.errors import SettingsError


def local(threads: int | None = None) -> Local:
    """All agents in this process; see `Local`."""
    return Local(threads)


def mpi(
    agents_per_rank: int | Sequence[int] | None = None,
    map: Sequence[int] | None = None,
    deadline: float = DEADLINE,
) -> Mpi:
    """Agents on the ranks of an MPI job, in a script started by mpiexec or srun; see `Mpi`."""
    return Mpi(agents_per_rank, map, deadline)


def engine_for_command(name: str | None = None) -> str:
    """The engine of a command: the one asked for, "mpi" under a launcher, "local" otherwise."""
    if name not in (None, "local", "mpi"):
        raise SettingsError(f"engine must be local or mpi; found {name!r}")
    started = launched()
    if name == "local" and (count := max(started.values(), default=1)) > 1:
        raise SettingsError(
            f"engine local runs in one process, but {count} were started: they would all write the same "
            "results; start it without mpiexec or srun, or leave --engine out"
        )
    return name or ("mpi" if started else "local")


__all__ = ["Engine", "Local", "Mpi", "engine_for_command", "local", "mpi"]

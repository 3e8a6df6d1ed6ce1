"""Find the MPI library, and find out whether processes that were started together know of each other."""

from __future__ import annotations

import faulthandler
import importlib
import importlib.util
import os
import warnings
from typing import Any

from destiny.errors import INSTALL, MissingExtraError, SettingsError

# What launchers tell the processes they start. Slurm's is set for one task, too, with nothing to do with MPI.
LAUNCHERS = {
    "PMI_SIZE": "MPICH's or Intel MPI's mpiexec, or srun --mpi=pmi2",
    "OMPI_COMM_WORLD_SIZE": "Open MPI's mpiexec",
    "SLURM_STEP_NUM_TASKS": "srun",
}
MPI = f"{INSTALL.format(extra='mpi')} and pip install mpich, or use the MPI of your system (docs/cluster.md)"


def launched() -> dict[str, int]:
    """How many processes each launcher in the environment says it has started."""
    values = {name: os.environ.get(name, "") for name in LAUNCHERS}
    counts = {name: int(value) for name, value in values.items() if value.isdigit()}
    if counts.get("SLURM_STEP_NUM_TASKS") == 1:
        del counts["SLURM_STEP_NUM_TASKS"]
    return counts


def load(deadline: float = 0.0) -> Any:
    """mpi4py's MPI, started unless it was before, and refused if the launcher belongs to another one.

    Where ranks never come, the process ends after the deadline (0: never) with a traceback and exit code 1.
    """
    MPI = _library()
    if not MPI.Is_initialized():
        _foresee(MPI)
        # MPI waits here for every rank with Python's lock held: no thread of ours could end it, this can.
        if deadline > 0:
            faulthandler.dump_traceback_later(deadline, exit=True, file=2)  # standard error
        try:
            MPI.Init_thread(MPI.THREAD_MULTIPLE)  # a second thread ends a job that waits in vain
        finally:
            faulthandler.cancel_dump_traceback_later()
    started = launched()
    if started and MPI.COMM_WORLD.size not in started.values():
        raise _mismatch(f"this one sees {MPI.COMM_WORLD.size} in its MPI ({_name(MPI)})")
    return MPI


def _library() -> Any:
    if importlib.util.find_spec("mpi4py") is None:
        raise MissingExtraError(f"running on MPI needs mpi4py, which is not installed: {MPI}")
    try:
        with warnings.catch_warnings():
            # mpi4py suspects a wrong launcher in other words than `check` does.
            warnings.simplefilter("ignore", RuntimeWarning)
            rc = importlib.import_module("mpi4py").rc
            rc.initialize, rc.finalize = False, True  # we look at the library before it looks at the launcher
            return importlib.import_module("mpi4py.MPI")
    except (ImportError, RuntimeError) as error:
        first = (str(error) or type(error).__name__).splitlines()[0]
        raise MissingExtraError(f"mpi4py found no MPI library it can use ({first}): {MPI}") from error


def _foresee(MPI: Any) -> None:
    """MPICH and its kin, started by Open MPI's launcher, end the process without a word from us."""
    started = launched()
    if "OMPI_COMM_WORLD_SIZE" in started and "PMI_SIZE" not in started and "Open MPI" not in _name(MPI):
        raise _mismatch(f"the MPI library here is {_name(MPI)}")


def _mismatch(finding: str) -> SettingsError:
    """n jobs of size 1: the launcher of one MPI with the library of another."""
    name, count = next(iter(launched().items()))
    return SettingsError(
        f"{count} processes were started by {LAUNCHERS[name]}, but {finding}: launcher and library belong to "
        "different MPIs; use the mpiexec beside this python, or for srun --mpi=pmi2 (MPICH, Intel MPI) or "
        "--mpi=pmix (Open MPI)"
    )


def _name(MPI: Any) -> str:
    """The library in a few words."""
    return str(MPI.Get_library_version()).split("\n")[0].split(",")[0].strip("\0 ")

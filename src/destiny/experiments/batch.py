"""Several methods on one problem and network, one after the other: the loop of commands and `compare`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from destiny import registry
from destiny.errors import MismatchError
from destiny.protocols import Algorithm, Method, Objective, Problem, Topology
from destiny.run.own import as_algorithm
from destiny.run.result import Result
from destiny.run.solve import SolveOptions, prepare


class Runnable(Protocol):
    """A run that has been checked: by `prepare`, or by an extension."""

    def go(self) -> Result: ...


@dataclass(frozen=True)
class Batch:
    """Runs that have been checked, by label, and why methods that do not fit the problem are left out."""

    runs: dict[str, Runnable]
    skipped: dict[str, str]


def prepare_all(
    problem: Problem | Sequence[Objective],
    network: Topology,
    algorithms: Mapping[str, Algorithm[Any] | Method | None],
    options: Callable[[str], SolveOptions],
    *,
    skip: bool,
    world: Any = None,
) -> Batch:
    """Check all runs before anything is computed or written.

    ``options`` gives those of each label; None is the method that `solve` chooses. In a ``world``, time is
    simulated. A method that does not fit the problem is left out if ``skip``; otherwise MismatchError is
    raised with its label.
    """
    batch = Batch({}, {})
    for label, algorithm in algorithms.items():
        try:
            if world is None:
                given = None if algorithm is None else as_algorithm(algorithm)
                batch.runs[label] = prepare(problem, network, given, options(label))
            else:
                assert algorithm is not None  # nothing is chosen in a world
                table = registry.tables()["world"]
                batch.runs[label] = table.prepare(problem, network, algorithm, options(label), world)
        except MismatchError as error:
            if not skip:
                raise MismatchError(f"{label}: {error}") from error
            batch.skipped[label] = str(error)
    return batch


def run_all(
    runs: Mapping[str, Runnable], on_result: Callable[[str, dict[str, Result]], None] | None = None
) -> dict[str, Result]:
    """Run one method after the other; a run that a signal interrupts is the last.

    ``on_result`` is called after each run with its label and all results so far.
    """
    results: dict[str, Result] = {}
    for label, run in runs.items():
        results[label] = run.go()
        if on_result is not None:
            on_result(label, results)
        if results[label].interrupted is not None:
            break
    return results

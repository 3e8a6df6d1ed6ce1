"""Check everything of a run that can be refused, before anything is computed or written."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from destiny.engines import Local
from destiny.engines.ranks.launch import launched
from destiny.errors import SettingsError
from destiny.protocols import (
    Algorithm,
    Array,
    Objective,
    Problem,
    Topology,
)
from destiny.protocols.link import checked_link
from destiny.run import clipped, constraint, message_memory, privacy, private_products, square
from destiny.run.agreement import DecentralisedStop
from destiny.run.centring import centring_settings, planned_rounds
from destiny.run.checkpointing import CheckpointFolder
from destiny.run.choice import Choice, choose
from destiny.run.driver import Driver
from destiny.run.inputs import check_inputs, prepared_algorithm
from destiny.run.messages import PLAIN
from destiny.run.observation import GlobalMeasures
from destiny.run.options import SolveOptions
from destiny.run.prepared_run import Run
from destiny.run.settings import settings_of
from destiny.run.stopping import Diverged, Exhausted, Rounds, Rule, Seconds, Tolerance
from destiny.storage import checkpoint as checkpoints
from destiny.validation import is_whole

MIRRORED = "mirrored"  # folder of the checkpoints of a square X from the mirrored start


def prepare(
    problem: Problem | Sequence[Objective],
    network: Topology,
    algorithm: Algorithm[Any] | str | None = None,
    options: SolveOptions | None = None,
) -> Run:
    """Check everything of `solve` that can be refused, before anything is computed or written."""
    o = options or SolveOptions()
    ours, topology, X = check_inputs(problem, network, o.start, o.seed, o.messages)
    topology.at(0)  # raises if a network of the user's own is not valid
    choice: Choice | None = None
    if algorithm is None:
        choice = choose(ours, topology, o.tolerance, o.messages, link=checked_link(o.link))
        algorithm = choice.algorithm
    method = prepared_algorithm(algorithm, ours, topology)
    message_memory.require_messages(o.messages, method, ours, topology)
    clipped.require_clip(o.messages, method, ours)
    clipped.require_neighbours(o.messages, topology, range(topology.agents))
    preparations = {
        "find the mean": planned_rounds(ours, topology),
        "release private products": private_products.planned_rounds(ours, topology),
        "make the start feasible": constraint.planned_rounds(ours, topology),
        "choose beta and steps": method.opening,
    }
    opening = sum(preparations.values())
    if is_whole(o.rounds) and o.rounds < opening:
        tasks = [task for task, count in preparations.items() if count > 0]
        raise SettingsError(
            f"rounds must be at least {opening}, which the agents need to "
            f"{' and to '.join(tasks)}; found {o.rounds}",
            option="rounds",
        )
    limits: list[Rule] = [*([] if o.seconds is None else [Seconds(o.seconds)]), Rounds(o.rounds)]
    if o.engine is None and o.checkpoint is not None:
        _require_alone()
    engine = o.engine or Local()
    title = o.label or method.kind

    def make_run(X: Array, folder: Path | None, label: str, mirror: Run | None = None) -> Run:
        observed = GlobalMeasures(method, X, o.every, ours.regulariser, tracks=not o.messages.clip)
        store = CheckpointFolder(folder, o.checkpoint_every, {} if folder is None else identity())
        tolerance: list[Rule] = [] if o.decentralised else [Tolerance(o.tolerance)]
        if method.few_steps and not o.decentralised and o.tolerance > 0:
            tolerance.append(Exhausted())
        rules = [*tolerance, Diverged(), *o.rules, *limits]
        agreement = DecentralisedStop(method, topology, o.tolerance if o.decentralised else None)
        driver = Driver(method, rules, agreement, observed, store, o.messages.private)
        if o.resume:
            store.load(engine, len(X))
        else:
            store.refuse_used_folder()
        return Run(ours, topology, method, o, engine, driver, observed, store, label, opening, choice, mirror)

    def identity() -> dict[str, Any]:
        """What must be equal for a checkpoint to be this run's."""
        centred = centring_settings(ours)
        return {
            "shape": list(X.shape),
            # The network first: settings may follow from it.
            "network": checkpoints.network_digest(topology),
            "settings": settings_of(method),
            "regulariser": None if ours.regulariser is None else repr(ours.regulariser),
            **({"constraint": "X^T M X = I"} if ours.generalised else {}),
            **({"mini-batches (size, seed)": list(ours.batches)} if ours.batches else {}),
            **({"centring of the data": dict(centred)} if centred else {}),
            **({} if o.messages == PLAIN else {"messages": str(o.messages)}),
            **({privacy.IDENTITY: noise} if (noise := privacy.identity(ours)) else {}),
        }

    folder = None if o.checkpoint is None else Path(o.checkpoint)
    mirror = None
    if o.start is None and X.shape[1] == X.shape[2]:
        other = None if folder is None else folder / MIRRORED
        mirror = make_run(square.mirrored(X), other, f"{title}, mirrored start")
    return make_run(X, folder, title, mirror)


def _require_alone() -> None:
    """Raise SettingsError if processes that were started together would all write the same checkpoints."""
    if (count := max(launched().values(), default=1)) > 1:
        raise SettingsError(
            f"{count} processes were started together, and without an engine each of them would run all "
            "agents and write the same checkpoints: give engine=destiny.engines.mpi() to share the agents "
            "out, or engine=destiny.engines.local() and a folder for each process"
        )

"""What messages depend on beside the state of a method: the past of private sums, copies of few bits.

It begins with a run, is kept in its checkpoints, and is brought back from there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from destiny.engines import quantisation
from destiny.engines.hosted import HostedAgents
from destiny.engines.private_sums import PREFIX, Columns, PrivateSums
from destiny.engines.quantisation import FULL, Copies
from destiny.engines.team import Team
from destiny.errors import MismatchError, NetworkError
from destiny.protocols import AlgorithmBase, Array, ProblemBase, TopologyBase
from destiny.run import private_sums
from destiny.run.messages import Messages
from destiny.run.own_network import CheckedTopology
from destiny.storage.checkpoint import Saved

PREFIXES = (PREFIX, quantisation.PREFIX)


def require_messages(
    messages: Messages, algorithm: AlgorithmBase, problem: ProblemBase, network: TopologyBase
) -> None:
    """Refuse a method or a network that such messages cannot serve."""
    if messages.private:
        private_sums.require_private(algorithm, problem, network)
    if messages.few_bits and (why := unsteady(messages, network)) is not None:
        raise NetworkError(why)
    if messages.few_bits and algorithm.about is not None and algorithm.about.totals:
        raise MismatchError(
            f"{algorithm.kind} averages by exact totals, which need numbers of {FULL} bits; found "
            f"{messages}: leave bits out, or use destiny-momentum"
        )


def unsteady(messages: Messages, network: TopologyBase) -> str | None:
    """Why messages of few bits would go wrong on this network, or None."""
    if not network.changes or isinstance(network, CheckedTopology):  # which is looked at in every round
        return None
    return (
        f"{messages} need a network that stays, as they tell differences from earlier ones, which a new "
        "neighbour has not heard; this one changes from round to round: leave bits out, or fix the network"
    )


def begin_sums(team: Team, messages: Messages, saved: Saved | None, columns: Columns = ()) -> None:
    """Let the agents of a team sum privately if asked, with the past of a checkpoint.

    ``columns`` are what errors call features and targets.
    """

    def start(ids: NDArray[np.intp], agents: HostedAgents) -> None:
        agents.private_sums = PrivateSums(agents.count, agents.hiding, columns)
        if agents.hiding is not None:
            agents.hiding.restore(_kept(saved, ids))

    if messages.private:
        _each(team, start, saved)


def spelled_columns(problem: ProblemBase) -> Columns:
    """What errors call the features and targets of a problem: by name, or by number from 0."""
    n, names = problem.shape[0], problem.column_names
    targets = [f"target {name!r}" for name in names.get("targets", ())]
    return [f"column {name!r}" for name in names.get("data", ()) or range(n)], targets


def begin_copies(team: Team, messages: Messages, saved: Saved | None) -> None:
    """Let the agents of a team send few bits if asked, with the copies of a checkpoint.

    Once the data are centred: a mean is found once and for all, in as few rounds as 64 bits need, while
    steps correct what rounding has done to those before.
    """

    def start(ids: NDArray[np.intp], agents: HostedAgents) -> None:
        agents.copies = Copies.load(len(ids), messages.bits, _kept(saved, ids))

    if messages.few_bits:
        _each(team, start, saved)


def _kept(saved: Saved | None, ids: NDArray[np.intp]) -> dict[str, Array]:
    return {} if saved is None else saved.select(ids).state


def _each(team: Team, start: Callable[[NDArray[np.intp], HostedAgents], None], saved: Saved | None) -> None:
    try:
        team.each(start, team.hosts)
    except ValueError as error:
        assert saved is not None
        raise saved.refuse(f"is damaged: {error}") from error


def arrays(team: Team) -> dict[str, Array]:
    """For a checkpoint: what the agents of this process keep, agents on axis 0; nothing if plain."""

    def own(_: None, agents: HostedAgents) -> dict[str, Array]:
        return (agents.private_sums.arrays() if agents.private_sums is not None else {}) | (
            agents.copies.arrays() if agents.copies is not None else {}
        )

    parts = team.each(own, [None] * len(team.hosts))
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def without(saved: Saved) -> Saved:
    """A checkpoint without it."""
    state = {name: array for name, array in saved.state.items() if not name.startswith(PREFIXES)}
    return replace(saved, state=state)

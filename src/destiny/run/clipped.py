"""Runs in which some neighbours may lie: what clipped mixing needs, and what such a run may not claim."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from destiny.engines.hosted import HostedAgents
from destiny.engines.team import Team
from destiny.errors import MismatchError, NetworkError
from destiny.protocols import AlgorithmBase, ProblemBase, TopologyBase
from destiny.run.messages import Messages
from destiny.run.stopping import CONVERGED, Stop


def require_clip(messages: Messages, algorithm: AlgorithmBase, problem: ProblemBase) -> None:
    """Refuse methods and problems that need exact averages, which clipped mixing does not give."""
    what = None
    if not messages.clip:
        return
    if algorithm.about is not None and algorithm.about.totals:
        what = f"{algorithm.kind} averages by exact totals"
    elif problem.centring:
        what = "centring needs the exact mean of all data"
    elif problem.generalised:
        what = "the constraint X^T M X = I needs the exact sum of all M_i"
    if what is not None:
        raise MismatchError(
            f"{what}, which liars could falsify; found {messages}: leave clip out, or choose a method and a "
            "problem that only mix, such as dgd on centred data"
        )


def require_neighbours(messages: Messages, network: TopologyBase, agents: Sequence[int]) -> None:
    """Refuse a network in which one of some agents has too few neighbours."""
    if not messages.clip:
        return
    if network.changes:
        degrees = np.bincount(network.all_edges().ravel(), minlength=network.agents)
    else:  # an agent of an organisation knows its own row alone
        W = network.at(0)
        rows = np.repeat(np.arange(W.shape[0]), np.diff(W.indptr))
        degrees = np.bincount(rows[(rows != W.indices) & (W.data != 0)], minlength=W.shape[0])
    agent = min(agents, key=lambda i: int(degrees[i]))
    if (why := shortage(messages.clip, agent, int(degrees[agent]))) is not None:
        raise NetworkError(why)


def shortage(clip: int, agent: int, neighbours: int) -> str | None:
    """Why an agent with so many neighbours could not tell liars from honest ones, or None."""
    if neighbours >= (least := 2 * clip + 1):
        return None
    return (
        f"clip = {clip} needs {least} neighbours or more, so that honest ones are the majority; agent "
        f"{agent} has {neighbours}: add links, or make clip smaller"
    )


def begin_clipping(team: Team, messages: Messages) -> None:
    """Let the agents of a team clip what their neighbours send, if asked."""

    def start(_: object, agents: HostedAgents) -> None:
        agents.liars = messages.clip

    team.each(start, team.hosts)


def weakened(stop: Stop, messages: Messages) -> Stop:
    """The end of a run, which does not mean convergence where messages are clipped."""
    if not messages.clip or not stop.converged:
        return stop
    reason = stop.reason.removeprefix(CONVERGED)
    return Stop(f"settled, but not known to be exact as messages are clipped: {reason}", signal=stop.signal)


def remark(messages: Messages) -> list[str]:
    """A sentence for the notes of a result: the answer is approximate."""
    if not messages.clip:
        return []
    return [
        f"{messages}: the answer is approximate, as clipping does not keep averages (mean(D) = mean(H) is "
        "lost), and wrong if more neighbours of an agent lie"
    ]

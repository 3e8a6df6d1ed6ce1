"""Runs whose agents learn sums over all agents and nothing else: what is refused."""

from __future__ import annotations

from destiny.errors import MismatchError, NetworkError
from destiny.protocols import AlgorithmBase, ProblemBase, TopologyBase

HIDING = 3  # agents: of two, each knows the other's numbers from the total


def require_private(algorithm: AlgorithmBase, problem: ProblemBase, network: TopologyBase) -> None:
    """Refuse networks and methods from which more than totals would be learnt."""
    if (why := exposure(network)) is not None:
        raise NetworkError(why)
    about = algorithm.about
    if about is not None and about.alone:
        raise MismatchError(
            f"{about.title} is a method for one agent, which has nobody to hide from: leave private out"
        )
    if about is None or about.totals:  # a method of one's own is refused when it averages over neighbours
        return
    raise MismatchError(
        f"private messages are sums over all agents, which {algorithm.kind} does not use: {_instead(problem)}"
    )


def _instead(problem: ProblemBase) -> str:
    """Which method to take with private messages, or why there is none."""
    if problem.regulariser is not None:
        return "there is no private method for a regulariser; leave private out, or the regulariser"
    if problem.generalised:
        return "there is no private method for the constraint X^T M X = I; leave private out, or M"
    if problem.batches:
        return "there is no private method for mini-batches; leave private out, or batch"
    if problem.quadratic:
        return "use destiny-newton" + (
            ", or destiny-krylov for many columns" if problem.kind == "pca" else ""
        )
    return "use destiny-lbfgs"


def exposure(network: TopologyBase) -> str | None:
    """Why sums over all agents would not hide what an agent sends on this network, or None."""
    if network.changes:
        return (
            "private messages need a static network, along whose spanning tree sums travel; this one changes "
            "from round to round: leave private out, or use a static network"
        )
    if network.agents < HIDING:
        return (
            f"private messages need at least {HIDING} agents, as each of two can subtract its own numbers "
            f"from the total; found {network.agents}: add a party, or leave private out"
        )
    return None

"""What the bytes of a run are held against: all data at one agent, and the least that any method sends."""

from __future__ import annotations

import numpy as np

from destiny.engines.hosted import HostedAgents
from destiny.engines.team import Team
from destiny.protocols import Array, ProblemBase, TopologyBase
from destiny.run.accuracy import totals_of

BYTES = 8  # of a number


def least_bytes(shape: tuple[int, int], agents: int) -> int:
    """One n x p matrix from every agent but one (Boutsidis, Woodruff and Zhong, STOC 2016, for PCA)."""
    n, p = shape
    return BYTES * n * p * (agents - 1)


def data_bytes(problem: ProblemBase, network: TopologyBase, team: Team) -> int | None:
    """All samples sent to the root of the spanning tree, along it; None where their number is not known."""
    if network.tree is None or problem.kind != "pca":
        return None

    def counts(_: None, agents: HostedAgents) -> Array | None:
        totals = totals_of(agents.hosted)
        return None if totals is None else totals[:, -1:]

    parts = team.each(counts, [None] * len(team.hosts))
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    samples = team.gather(known)[:, 0]
    return int(BYTES * problem.shape[0] * np.sum(samples * network.tree.levels))

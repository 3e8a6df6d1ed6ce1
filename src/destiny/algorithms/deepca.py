"""DeEPCA (Ye & Zhang 2021): decentralized power iteration with subspace tracking, PCA only."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from destiny.algorithms.blocks.about import About
from destiny.algorithms.blocks.consensus import Consensus
from destiny.protocols import Agents, Array


@dataclass(frozen=True)
class DeEPCAState:
    """Every array has the hosted agents on axis 0; mean(S) = mean(B) at every step."""

    X: Array
    S: Array
    """Tracker of the mean of C_i X_i."""
    B: Array
    """C_i X_i, one step old."""
    start: Array
    """The start, which fixes the signs of the columns; it should be the same for all agents."""


@dataclass(frozen=True)
class DeEPCA(Consensus):
    """S+ = Mix(S + C X - B),  B+ = C X,  X+ = SignAdjust(qr(S+)).

    No step size and no penalty: a power iteration on the tracked subspace. With one plain round, as in the
    comparison of Wang & Liu, it is the fastest method on well connected networks and does not converge on
    sparse ones: raise ``rounds`` to 3..10 there, with mixing "fastmix" or "chebyshev".
    """

    kind = "deepca"
    about = About(
        "DeEPCA",
        "Ye & Zhang, JMLR 2021",
        sends=1,
        rounds="rounds",
        problem="pca",
        traits=frozenset({"axes", "semidefinite"}),
    )

    def init(self, X: Array, agents: Agents) -> DeEPCAState:  # noqa: ARG002
        """S = B = 0. The paper starts both as X, to whose size data of small scale would be rounded."""
        return DeEPCAState(X, np.zeros_like(X), np.zeros_like(X), X)

    def step(self, s: DeEPCAState, agents: Agents) -> DeEPCAState:
        """The recursion of the class docstring, in ``rounds`` rounds."""
        B = -agents.gradient(s.X)
        (S,) = self.average(agents, s.S + B - s.B)
        Q, _ = np.linalg.qr(S)
        # LAPACK's signs are not continuous in S: without this, columns would change sign at some agents only.
        sign = np.where(np.sum(Q * s.start, axis=1, keepdims=True) < 0, -1.0, 1.0)
        return DeEPCAState(Q * sign, S, B, s.start)

"""PCA by exactly averaged block Krylov steps: few rounds for any n, whatever agents hold."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from destiny.algorithms.averaged.krylov_space import KrylovSpace, extend, restart, turned_towards
from destiny.algorithms.averaged.totals import X_BOUND, TotalsMethod, TotalsState, averages, shared
from destiny.algorithms.blocks.about import About
from destiny.errors import SettingsError
from destiny.geometry.stiefel import polar, random_point, residual_scale
from destiny.protocols import Agents, Array

VECTORS = 24  # times p that are kept, in blocks; the better half of them when there is no room for more
SEED = 1931  # any fixed number: the first block must be equal at all agents
EPS = float(np.finfo(np.float64).eps)
APART = 1e-8  # a larger difference between agents' blocks is no rounding: their averages mean nothing


@dataclass(frozen=True)
class KrylovState(TotalsState):
    """State of `AveragedKrylov`; every array has the hosted agents on axis 0, all with the same numbers."""

    block: Array
    """Q, the next vectors to multiply with, as rows ``(agents, width p, n)``; zeros where there are fewer."""
    basis: tuple[Array, ...]
    """V, the vectors so far, in blocks like Q; zeros where there are fewer."""
    projection: Array
    """T = V C V^T."""
    sizes: Array
    """Number of vectors in each block of V, ``(agents, 1, blocks)``."""
    apart: Array
    """The largest difference of Q from the mean in any step, by a random product."""
    bound: Array
    """Of private messages: what |C q| adds up to at most for unit vectors q, the total trace; else 0."""


@dataclass(frozen=True)
class AveragedKrylov(TotalsMethod):
    """Block Lanczos with Rayleigh-Ritz on the mean of the second moments C_i, averaged exactly.

    A step averages C_i Q for a block Q of 2 p vectors along a spanning tree (`Agents.all_reduce`). All agents
    obtain the same C Q, extend the same Krylov space by it, and take the p leading Ritz vectors in it for X:
    that is the method for pooled data, and nothing depends on how the data are divided over the agents. See
    docs/averaged-krylov.md.

    A message has 2 n p numbers. An agent's parent in the tree learns the sum of C_i Q over the agent and
    those below it, for each Q; with private messages only the mean.

    Parameters
    ----------
    width : 1 or 2
        Blocks of p vectors in a message. With one, a run takes 1.1 to 1.4 times the rounds and about two
        thirds of the bytes.
    depth : int, optional
        As in `TotalsMethod`.
    """

    width: int = 2
    kind = "averaged-krylov"
    about = About(
        "DESTINY by Krylov spaces",
        "this package; docs/averaged-krylov.md",
        sends=2,
        numbers=2,
        rounds="rounds",
        averaged="its second moments times vectors that all agents know",
        learned="the sum of the variances; pooled second moments times the vectors of each step",
        problem="pca",
        traits=frozenset({"totals"}),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.width not in (1, 2):
            raise SettingsError(f"width must be 1 or 2; found {self.width!r}")

    def init(self, X: Array, agents: Agents) -> KrylovState:  # noqa: ARG002
        """The first block is random, the same everywhere; no communication."""
        k, n, p = X.shape
        count = VECTORS // self.width
        empty = np.broadcast_to(0.0, (k, self.width * p, n))
        block = np.zeros((self.width * p, n))
        block[:p] = random_point(n, p, SEED).T
        most = min(n, VECTORS * p)
        zero = np.zeros((k, 1, 1))
        return KrylovState(
            X=X,
            block=shared(block, k),
            basis=(empty,) * count,
            projection=shared(np.zeros((most, most)), k),
            sizes=np.zeros((k, 1, count)),
            slope=zero + 1.0,
            scale=zero,
            disagreement=zero,
            apart=zero,
            bound=zero,
        )

    def step(self, s: KrylovState, agents: Agents) -> KrylovState:
        """Average C_i Q, and in the first step X_i; extend the space; take its Ritz vectors."""
        Q = _rows_in_use(s.block[0])
        if agents.bounded and not s.sizes.any() and (scales := agents.scales()) is not None:
            (traces,) = agents.all_reduce(scales.sum(axis=1)[:, None, None])
            s = replace(s, bound=shared(traces[0], len(traces)))
        s, mean, start = _average(s, Q, agents)
        arrays = agents.once(lambda: _next_space(s, Q, mean, start))
        return replace(s, **{name: _shared(value, len(s.X)) for name, value in arrays.items()})

    def residual(self, s: KrylovState) -> Array:
        """That of `TotalsMethod`; at least 1 where agents once computed different blocks."""
        return np.maximum(super().residual(s), np.where(s.apart > APART, 1.0, 0.0)[:, 0, 0])

    def exhausted(self, s: KrylovState) -> str | None:
        """Whether the gradient is rounding, or no vectors are left to multiply with."""
        if not s.scale.any() or (s.block[0].any() and s.slope.max() > EPS):
            return None
        return "rounding allows no less: raise the tolerance"

    def remarks(self, s: KrylovState, ids: NDArray[np.intp], converged: bool) -> list[str]:  # noqa: ARG002
        """Whether agents computed different blocks from the same averages."""
        if not (s.apart > APART).any():
            return []
        return [
            f"agents obtained different vectors from the same averages (by {s.apart.max():.0e}): their "
            "arithmetic differs; use destiny-accelerated"
        ]


def _average(s: KrylovState, Q: Array, agents: Agents) -> tuple[KrylovState, Array, Array]:
    """C Q as rows, and in the first step the mean of the X_i; else no rows. And what was noticed."""
    k, n, p = s.X.shape
    first = 0 if s.sizes.any() else p
    sent = np.zeros((k, len(Q) + first, n))
    _multiply(agents, Q, sent[:, : len(Q)], p)
    if first:
        sent[:, len(Q) :] = s.X.swapaxes(1, 2)
    own = _probe(s)
    bounds = None
    if s.bound.any():
        rows = np.full_like(sent[0], X_BOUND * agents.count)
        rows[: len(Q)] = s.bound[0]
        bounds = [rows, None]
    mean, probe = averages(agents, sent, own, bounds=bounds)
    apart, disagreement = np.split(np.abs(probe - own), 2, axis=2)
    s = replace(s, disagreement=disagreement, apart=np.maximum(s.apart, apart))
    return s, mean[0, : len(Q)], mean[0, len(Q) :]  # the mean has the same bits in every row


def _next_space(s: KrylovState, Q: Array, mean: Array, start: Array) -> dict[str, Array | tuple[Array, ...]]:
    """The arrays of the state after a step that all agents have in common, without their axis."""
    width, count, most = s.block.shape[1], len(s.basis), s.projection.shape[1]
    blocks, T = _space_so_far(s)
    if len(blocks) == count:
        kept = min(len(T), count // 2 * width)
        blocks, T = restart(blocks, T, [min(width, kept - start) for start in range(0, kept, width)])
    space = extend(blocks, T, Q, mean)
    projection, sizes = np.zeros((most, most)), np.zeros((1, count))
    projection[: len(space.T), : len(space.T)] = space.T
    sizes[0, : len(space.blocks)] = [len(block) for block in space.blocks]
    full = [_filled(block, width) for block in space.blocks]
    empty = np.broadcast_to(0.0, full[0].shape)
    return {
        **(_ritz_vectors(s, space) if len(T) else _first(space, start)),
        "block": space.next_block(width, start),
        "basis": (*full, *[empty] * (count - len(full))),
        "projection": projection,
        "sizes": sizes,
    }


def _first(space: KrylovSpace, start: Array) -> dict[str, Array]:
    """The mean of the starts, and the gradient at the first block, to which residuals are relative."""
    norms = space.gradient_norms(space.blocks[0].T)
    scale = residual_scale(*(np.array([length]) for length in norms)).item()
    return {"X": polar(start.T), "scale": np.full((1, 1), scale)}


def _space_so_far(s: KrylovState) -> tuple[list[Array], Array]:
    """V and T, without zeros."""
    sizes = s.sizes[0, 0].astype(np.intp)
    blocks = [block[0, :size] for block, size in zip(s.basis, sizes, strict=True) if size]
    return blocks, s.projection[0, : sizes.sum(), : sizes.sum()]


def _ritz_vectors(s: KrylovState, space: KrylovSpace) -> dict[str, Array]:
    """The leading Ritz vectors, turned towards X, and how far they are from a stationary point."""
    rows, slope = space.ritz(s.X.shape[2])
    scale = float(s.scale.flat[0])
    return {
        "X": turned_towards(rows, s.X[0]),
        "slope": np.full((1, 1), slope / scale if scale else 0.0),
    }


def _multiply(agents: Agents, Q: Array, out: Array, p: int) -> None:
    """Write C_i Q to ``out (agents, rows, n)``, by gradients at p columns at a time."""
    k, n = len(out), Q.shape[1]
    for start in range(0, len(Q), p):
        rows = Q[start : start + p]
        X = np.zeros((n, p))
        X[:, : len(rows)] = rows.T
        gradient = agents.gradient(np.broadcast_to(X, (k, n, p)))
        np.negative(gradient.swapaxes(1, 2)[:, : len(rows)], out=out[:, start : start + p])


def _probe(s: KrylovState) -> Array:
    """Random products of Q and of X, ``(agents, 1, 2)``: agents that differ in them differ in these."""
    (_, width, n), p = s.block.shape, s.X.shape[2]
    rng = np.random.default_rng(SEED)
    left, right = rng.standard_normal((1, n)), rng.standard_normal((width, 1))
    products = [(left @ block.T @ right, left @ X @ right[:p]) for block, X in zip(s.block, s.X, strict=True)]
    return np.concatenate([np.concatenate(pair, axis=1)[None] for pair in products])


def _rows_in_use(block: Array) -> Array:
    """Without the zeros at its end."""
    return block[: np.count_nonzero(block.any(axis=1))]


def _filled(block: Array, width: int) -> Array:
    """With zeros at its end, up to so many rows."""
    if len(block) == width:
        return block
    rows = np.zeros((width, block.shape[1]))
    rows[: len(block)] = block
    return rows


def _shared(value: Array | tuple[Array, ...], agents: int) -> Any:
    """`shared`, of each array of a tuple."""
    return tuple(shared(a, agents) for a in value) if isinstance(value, tuple) else shared(value, agents)

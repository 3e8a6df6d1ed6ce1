"""Sparse dictionary learning on data distributed over agents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from destiny.errors import ProblemError
from destiny.problems.checks import check_ids
from destiny.problems.data.partition import Partition, Source, split_rows
from destiny.problems.data.tables import Silos
from destiny.problems.fourth_power import Stream, Streams
from destiny.problems.sample_gradients import FourthPowerSamples, SampleGradient
from destiny.problems.table_problem import TableProblem
from destiny.protocols import Array
from destiny.validation import check_seed, check_size

Precision: TypeAlias = Literal["auto", "float32", "float64"]


class SDL(TableProblem):
    """Sparse dictionary learning by the l4 norm, problem (1.5) of the paper.

    Agent i holds a table ``B_i``, the transpose of the paper's B_i, and f_i(X) = -1/4 ||B_i X||_4^4 with
    gradient -B_i^T (B_i X)^3, the cube by entries. Nothing is divided by m_i; the mean over the agents is
    taken outside.

    Data keep their dtype and, where they are C-ordered, their memory; data in another layout are laid out
    anew when they are hosted.

    Parameters
    ----------
    silos : Silos, or sequence of ndarray (m_i, n) or of callables that return one
        One per agent, samples in rows; a callable is called when its agent is hosted. m_i may be zero.
    p : int
        Number of dictionary columns, 1 <= p <= n.
    scale : float
        Factor of the data, applied to the products. The gradient grows with its fourth power: for raw pixels
        a factor such as 1/255 keeps it within reason.
    precision : {"auto", "float32", "float64"}
        Arithmetic of the products: "auto" takes float32 for float32 data and float64 for all others, integers
        among them. float32 takes about half the time and limits the relative stationarity to about 1e-7.
    n : int, optional
        Number of features; needed only if every silo is a callable without a ``shape``.
    """

    kind: Literal["sdl"] = "sdl"
    title = "SDL with {p} columns"

    def __init__(
        self,
        silos: Sequence[Source] | Silos,
        p: int,
        scale: float = 1.0,
        precision: Precision = "auto",
        n: int | None = None,
    ) -> None:
        if precision not in ("auto", "float32", "float64"):
            raise ProblemError(f"precision must be auto, float32 or float64; found {precision!r}; choose one")
        super().__init__(silos, p, scale, n)
        self.precision = precision

    def host(self, ids: Sequence[int]) -> Streams:
        """The objectives of the agents ``ids``; reads the data of these agents only."""
        return Streams([self._stream(i) for i in check_ids(ids, self.agents)], self.shape)

    def sample_gradient(self, agent: int) -> SampleGradient:
        """The samples of an agent, for mini-batches."""
        return FourthPowerSamples(self._stream(agent))

    def _stream(self, agent: int) -> Stream:
        return Stream.of(self.data.load(agent).table, self.scale, self.precision)

    def portrait(self, answers: Mapping[str, Array]) -> dict[str, Any]:  # noqa: ARG002
        """The kind alone: reports read the dictionary from the solutions."""
        return {"kind": self.kind}


def from_data(
    B: NDArray[Any],
    p: int,
    agents: Partition,
    scale: float = 1.0,
    precision: Precision = "auto",
) -> SDL:
    """SDL of the rows of ``B`` ``(m, n)``, divided over ``agents`` as in `pca.from_data`."""
    return SDL(split_rows(B, agents), p, scale, precision)


def synthetic(
    n: int,
    m: int,
    p: int,
    agents: Partition,
    seed: int | Sequence[int] = 0,
    density: float = 0.1,
    scale: float = 1.0,
) -> SDL:
    """SDL with a known dictionary: B = Z^T Q^T with Q = `planted` (n, seed) and Bernoulli-Gaussian codes Z.

    An entry of Z ``(n, m)`` is non-zero with probability ``density``. With many samples the maximizers of the
    l4 norm come close to columns of +-Q.
    """
    if not 0 < density <= 1:
        raise ProblemError(f"density must lie in (0, 1]; found {density}; it is the share of non-zero codes")
    n, m = check_size("n", n), check_size("m", m)
    rng = np.random.default_rng(check_seed(seed))
    Q = _orthogonal(n, rng)
    Z = rng.standard_normal((n, m)) * (rng.random((n, m)) < density)
    return from_data((Q @ Z).T, p, agents, scale)


def planted(n: int, seed: int | Sequence[int]) -> Array:
    """The orthogonal dictionary Q ``(n, n)`` of `synthetic` with the same seed."""
    return _orthogonal(n, np.random.default_rng(seed))


def _orthogonal(n: int, rng: np.random.Generator) -> Array:
    Q: Array = np.linalg.qr(rng.standard_normal((n, n)))[0]
    return Q

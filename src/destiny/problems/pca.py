"""Principal component analysis of data distributed over agents."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from destiny.errors import ProblemError
from destiny.problems.checks import check_ids
from destiny.problems.data.partition import Partition, Source, split_rows
from destiny.problems.data.tables import Silos
from destiny.problems.integer_sums import Grid
from destiny.problems.privacy import (
    MEAN,
    MOMENTS,
    NoiseSource,
    Privacy,
    on_grid,
    require_privacy,
)
from destiny.problems.quadratic import Quadratic
from destiny.problems.sample_gradients import QuadraticSamples, SampleGradient
from destiny.problems.table_problem import TableProblem
from destiny.protocols import Array, Hosted
from destiny.validation import check_seed, check_size

GRAM = 1000  # features; up to here the pooled n x n matrix of 60,000 samples takes a few seconds
SHOWN, MOST = 12, 60  # leading eigenvalues in a portrait: 3 p, within these


class PCA(TableProblem):
    """Principal component analysis, problem (1.3) of the paper.

    Agent i holds a table ``A_i``, the transpose of the paper's A_i, and f_i(X) = -1/2 ||A_i X||_F^2 with
    gradient -A_i^T A_i X. Nothing is divided by m_i and nothing is centered (`destiny.problems.centered` does
    that); the mean over the agents is taken outside.

    Parameters
    ----------
    silos : Silos, or sequence of ndarray (m_i, n) or of callables that return one
        One per agent, samples in rows; a callable is called when its agent is hosted. m_i may be zero.
    p : int
        Number of components, 1 <= p <= n.
    scale : float
        Factor of the data.
    n : int, optional
        Number of features; needed only if every silo is a callable without a ``shape``.
    """

    kind: Literal["pca"] = "pca"
    title = "PCA with {p} components"
    principal_axes = True
    quadratic = True

    def __init__(
        self, silos: Sequence[Source] | Silos, p: int, scale: float = 1.0, n: int | None = None
    ) -> None:
        super().__init__(silos, p, scale, n, sparse=True)

    def host(self, ids: Sequence[int]) -> Quadratic:
        """The objectives of the agents ``ids``; reads the data of these agents only."""
        pairs = ((self.rows(i), None) for i in check_ids(ids, self.agents))
        return Quadratic(pairs, self.shape, factor=-0.5)

    def sample_gradient(self, agent: int) -> SampleGradient:
        """The samples of an agent, for mini-batches."""
        return QuadraticSamples(self.rows(agent), None, -0.5)

    def second_moments(self, agent: int) -> Array:
        """A_i^T A_i, ``(n, n)``."""
        return self.rows(agent).gram()

    def variance(self, agent: int) -> float:
        """||A_i||_F^2; -2 f_i(X) is the part of it in span(X)."""
        return self.rows(agent).squared_norm()

    def portrait(self, answers: Mapping[str, Array]) -> dict[str, Any]:
        """For a report: the leading eigenvalues of sum_i A_i^T A_i, and those of each answer ``(n, p)``.

        Like `solution` this pools the data of all agents. Above 1000 features the eigenvalues of the pooled
        data are left out, as they would take longer than a run. With them comes about how many products with
        n x p matrices a method that knows the data by products alone cannot do without: log(n) / sqrt(gap).
        """
        n, p = self.shape
        total = np.zeros((n, n)) if n <= GRAM else None
        projected = {label: np.zeros((p, p)) for label, X in answers.items() if np.isfinite(X).all()}
        for agent in range(self.agents):
            A = self.rows(agent)
            if total is not None:
                total += A.gram()
            for label in projected:
                projected[label] += A.gram(answers[label])
        return spectra(total, projected, p)


def spectra(total: Array | None, projected: Mapping[str, Array], p: int) -> dict[str, Any]:
    """The eigenvalues of a portrait, largest first: of ``total`` ``(n, n)`` if given, and of the answers."""
    spectrum: dict[str, Any] = {
        "found": {k: np.linalg.eigvalsh(S)[::-1].tolist() for k, S in projected.items()}
    }
    if total is not None:
        leading = max(SHOWN, min(3 * p, MOST))
        values = np.linalg.eigvalsh(total)[::-1]
        spectrum["pooled"] = values[:leading].tolist()
        if p < len(values) and values[p - 1] > values[p]:  # Simchowitz, El Alaoui and Recht, STOC 2018
            gap = (values[p - 1] - max(values[p], 0.0)) / values[p - 1]
            spectrum["products"] = math.ceil(math.log(len(values)) / math.sqrt(gap))
    return {"kind": PCA.kind, "spectrum": spectrum}


class PrivatePCA(PCA):
    """PCA of which nobody can learn whether any one row is among the data; see `private`.

    Agent i uses C_i = scale^2 u^2 (sum_k z_k z_k^T + E_i) in all rounds, where u z_k are its samples, clipped
    to norm b and rounded to multiples of a unit u. E_i is symmetric. Its entries on and above the diagonal
    are independent normal numbers, rounded down to whole numbers, plus 1/2, so that their mean is 0. The
    lower triangle repeats the upper one and reveals nothing more.

    One sample more or less changes the upper triangle by at most b^2 in the 2-norm, in units of the data
    squared, and the standard deviation of the noise is at least b^2 `noise_ratio(epsilon, delta)
    <destiny.problems.gaussian_mechanism.noise_ratio>`. Whatever is computed from C_i is computed from whole
    numbers with noise: `Grid <destiny.problems.integer_sums.Grid>` has the proof.

    C_i need not be positive semidefinite.
    """

    many_columns: ClassVar[type[PrivatePCA]]
    """The class for more columns, which says so itself: `destiny.problems.private_products`."""

    @classmethod
    def fits(cls, shape: tuple[int, int]) -> bool:  # noqa: ARG003
        """Whether it is for problems of this shape."""
        return True

    def __init__(self, problem: PCA, privacy: Privacy) -> None:
        self.tables, self._p, self.scale = problem.tables, problem._p, problem.scale
        self.privacy = privacy
        self.source = NoiseSource(privacy)

    def host(self, ids: Sequence[int]) -> Quadratic:
        """The objectives of the agents ``ids``; reads their silos and no others."""
        matrices = (self.second_moments(i) for i in check_ids(ids, self.agents))
        return Quadratic.from_grams(matrices, self.shape, factor=-0.5)

    def stand_in(self) -> Hosted:
        """An objective of the same size that tells nothing: noise is for what is sent alone."""
        return Quadratic.from_grams([np.diag(np.arange(1.0, self.shape[0] + 1))], self.shape, factor=-0.5)

    def second_moments(self, agent: int) -> Array:
        """C_i, ``(n, n)``: the same bits whenever it is asked for."""
        data, grid = self.data.load(agent), self._grid
        upper = np.triu_indices(self.shape[0])
        total = grid.moments(data)
        total[upper] += self.source.draw(agent, MOMENTS, data, grid, len(upper[0]))
        total = np.triu(total) + np.triu(total, 1).T
        return np.asarray((self.scale * grid.unit) ** 2 * (total + 0.5))

    @property
    def _grid(self) -> Grid:
        return self.privacy.grid_of_moments(self.centered, self.agents)

    @property
    def noise_scale(self) -> float:
        """s: the standard deviation of each entry of an agent's noise, in units of the data squared."""
        return self._grid.unit**2 * 2.0**self._grid.bits

    @property
    def noise_edge(self) -> float:
        """The largest eigenvalue of the agents' mean noise, 2 s sqrt(n) for independent entries (Wigner)."""
        return float(self.scale**2 * self.noise_scale * 2 * np.sqrt(self.shape[0] / self.agents))

    @property
    def promise(self) -> str:
        """What is promised, and by whose noise."""
        return str(self.privacy)

    @property
    def centered(self) -> bool:
        """Whether the mean has been subtracted, and has had its share of the budget."""
        return bool(self.data.shifts)

    def private_totals(self, agent: int) -> Array:
        """The sums of the features over an agent's samples, and their number, with noise: ``(n + 1,)``."""
        data, n = self.data.load(agent), self.shape[0]
        grid, weight = self.privacy.grid_of_sums(self.agents, n)
        totals = np.append(grid.sums(data), weight * data.shape[0])
        totals += self.source.draw(agent, MEAN, data, grid, n + 1)
        return np.asarray((totals + 0.5) * np.append(np.full(n, grid.unit), 1 / weight))

    def private_mean(self, totals: Array) -> Array:
        """The mean ``(n,)`` from averages of `private_totals`: the same bits at all agents.

        It is cut to the length that clipped rows may have.
        """
        if not totals[-1] > 0:
            raise ProblemError(
                "the noise hides that there are samples at all, so that no mean can be had: use more "
                "samples, a larger epsilon, or data that are centered already"
            )
        bound = self.privacy.row_bound(MEAN)
        mean = totals[:-1] / totals[-1]
        return on_grid(mean * min(1.0, bound / (np.linalg.norm(mean) or 1.0)), bound)

    def variance(self, agent: int) -> float:
        """The trace of C_i, of which -2 f_i(X) is the part in span(X); either may be negative."""
        return float(np.trace(self.second_moments(agent)))

    def describe(self) -> str:
        """The problem in one sentence, without the number of samples."""
        n, p = self.shape
        return f"Private PCA with {p} components: {self.agents} agents, {n} features, {self.promise}."

    def remarks(self) -> list[str]:
        """None: they would tell numbers of samples."""
        return []

    def __repr__(self) -> str:
        return self.describe().removesuffix(".")

    def portrait(self, answers: Mapping[str, Array]) -> dict[str, Any]:
        """As `PCA.portrait`, of the matrices with noise."""
        n, p = self.shape
        total = np.zeros((n, n))
        for agent in range(self.agents):
            total += self.second_moments(agent)
        projected = {label: X.T @ total @ X for label, X in answers.items() if np.isfinite(X).all()}
        return spectra(total if n <= GRAM else None, projected, p)


def private(problem: PCA, privacy: Privacy) -> PrivatePCA:
    """The same problem, differentially private: rows are clipped and every agent adds noise, once.

    Everything that agents send, all answers, objectives and eigenvalues then come from matrices that are
    private already: any method, any number of rounds and of runs on the returned problem may follow. Another
    call draws other noise, and costs the budget again.

    Up to 1000 or 12 p features noise is added to the n x n second moments. Beyond, it is added to products of
    them with few vectors, before the first step of a run (`PrivateProductsPCA
    <destiny.problems.PrivateProductsPCA>`).

    Parameters
    ----------
    problem : PCA
        To center private data, make the problem private first: ``centered(private(problem, privacy))``. The
        mean is then private, too, and takes a tenth of the budget.
    privacy : Privacy
        How private, and the norm that rows are clipped to.

    Examples
    --------
    >>> import destiny
    >>> from destiny.problems import Privacy, pca
    >>> problem = pca.synthetic(n=20, m=4000, p=2, xi=0.5, agents=4, scale=60)
    >>> hidden = private(problem, Privacy(epsilon=1, delta=1e-6, bound=0.05))
    >>> result = destiny.solve(hidden, destiny.networks.ring(4))
    >>> result.converged
    True
    """
    if isinstance(problem, PrivatePCA) or not isinstance(problem, PCA):
        kind = type(problem).__name__
        advice = (
            "make the problem private first, then centered" if kind == "Centered" else "give a PCA problem"
        )
        raise ProblemError(f"only PCA can be private, once; found {kind}; {advice}")
    require_privacy(privacy)
    many = PrivatePCA.many_columns
    return (many if many.fits(problem.shape) else PrivatePCA)(problem, privacy)


def from_data(A: NDArray[Any], p: int, agents: Partition, scale: float = 1.0) -> PCA:
    """PCA of the rows of ``A`` ``(m, n)``, divided over agents.

    ``agents`` is their number (equal parts in order), the list of their numbers of samples, or a list of
    index arrays.
    """
    return PCA(split_rows(A, agents), p, scale)


def synthetic(
    n: int, m: int, p: int, xi: float, agents: Partition, seed: int | Sequence[int] = 0, scale: float = 1.0
) -> PCA:
    """PCA of the data of section 4.1: A = V Sigma U^T with Sigma_ii = xi^(i/2), i = 1..n.

    U ``(n, n)`` and V ``(m, n)`` are orthonormalized Gaussian matrices, drawn in this order, so n <= m. A^T A
    has the eigenvalues xi^i; the closer xi is to 1, the harder the problem.

    Examples
    --------
    >>> problem = synthetic(n=20, m=90, p=2, xi=0.8, agents=4, seed=0)
    >>> problem.shape, problem.agents
    ((20, 2), 4)
    """
    n, m = check_size("n", n), check_size("m", m)
    if not 0 < xi <= 1:
        raise ProblemError(f"xi must lie in (0, 1]; found {xi}; it is the decay of the spectrum")
    if n > m:
        raise ProblemError(
            f"synthetic data need n <= m; found n = {n} and m = {m}; ask for at least n samples"
        )
    rng = np.random.default_rng(check_seed(seed))
    U, _ = np.linalg.qr(rng.standard_normal((n, n)))
    V, _ = np.linalg.qr(rng.standard_normal((m, n)))
    A = (U * xi ** (np.arange(1, n + 1) / 2)) @ V.T  # the paper's, samples in columns
    return from_data(A.T, p, agents, scale)


def solution(problem: PCA) -> Array:
    """The leading p eigenvectors of sum_i A_i^T A_i, ``(n, p)``, in order of decreasing eigenvalue.

    The entry of largest magnitude of each column is positive. This pools the data of all agents: it is a
    reference to compare with.
    """
    import scipy.linalg

    n, p = problem.shape
    total = np.zeros((n, n))
    for agent in range(problem.agents):
        total += problem.second_moments(agent)
    _, vectors = scipy.linalg.eigh(total, subset_by_index=(n - p, n - 1))
    X: Array = vectors[:, ::-1]
    return X * np.sign(np.take_along_axis(X, np.abs(X).argmax(axis=0)[None], axis=0))

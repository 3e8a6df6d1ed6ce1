"""Principal component analysis of rows held by many agents."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, Literal, Self

import numpy as np
from scipy.linalg import block_diag
from sklearn.decomposition import PCA
from sklearn.utils.extmath import svd_flip
from sklearn.utils.validation import check_is_fitted

from destiny.engines import Local
from destiny.engines.mixers import Messages
from destiny.errors import ProblemError, SettingsError
from destiny.estimators import dimension
from destiny.estimators.fitting import Decentralized, scale_ratio
from destiny.estimators.inputs import accept_silos, column_name
from destiny.estimators.row_space import has_few_rows, span_of_rows
from destiny.estimators.row_sums import ExactSums, GapSums, PrivateSums, RowSums
from destiny.estimators.rows import is_silos, refuse_other_containers
from destiny.estimators.samples import Moments, codes_of_rows_with_gaps
from destiny.estimators.session import FitSession, Solution, allgather, whole
from destiny.problems import Privacy
from destiny.problems.data.rows import Rows
from destiny.problems.privacy import require_privacy
from destiny.protocols import Algorithm, Array, ProblemBase, Topology
from destiny.run.accuracy import ROUNDING
from destiny.run.choice import choose
from destiny.run.parts.privacy import require_private_messages
from destiny.run.plan import prepared_algorithm
from destiny.run.solve import SolveOptions
from destiny.validation import is_whole

EPS = float(np.finfo(np.float64).eps)
ROUGH = 1e-3  # tol of a run whose answer is only the start of another


@accept_silos("transform", "inverse_transform", "score_samples")
class DecentralizedPCA(Decentralized, PCA):
    """`sklearn.decomposition.PCA` of rows that never leave the agents that hold them.

    The agents compute the mean by averaging with their neighbors, then the leading subspace, then the
    covariance within it and the total variance. The result is that of PCA on all rows together: components
    with the same signs, to 1e-6 unless two variances (those of the last component and the one after it
    included) differ by less than about 1e-4 of the largest. All methods of PCA are available; those that
    take rows also take a list of tables, and then return a list.

    Parameters
    ----------
    n_components : int, float or "mle", optional
        By default min(n_samples, n_features), as in PCA. A number between 0 and 1 takes the fewest components
        that explain more than this share of the variance, "mle" the most likely number (Minka 2000). Both
        need all variances, so that agents average their covariances, of at most 2000 features, or find the
        space of all rows, if these are few.
    n_agents : int, optional
        Number of agents one table is split over, by default 8; with fewer rows than agents the last agents
        hold none. For a list of tables, or a network given as an object, leave it out: a number that differs
        from theirs is refused.
    network : str or Network
        A network, or the name of a kind of `destiny.networks.build` that needs no further options.
    whiten : bool
        Divide by the standard deviations in `transform`.
    missing : {"error", "ignore"}
        What to do with missing entries (NaN). "ignore" fits the subspace to the entries that are there
        (`destiny.problems.MaskedPCA`), centered at the mean of the entries of each column. `transform`
        then takes rows with gaps, too: gaps are filled with their expectation given the other entries of the
        row. It needs dense rows and fewer components than features. What it finds is a stationary point, and
        with very much missing it may be a local minimum.
    method : Algorithm or its kind, optional
        By default the agents average their covariances, and iterate nothing, where `destiny.solve` would
        choose `AveragedModel`; otherwise they run the method that it chooses.
    tol : float
        The run has converged when stationarity, consensus and feasibility are all below it.
    max_rounds : int
        Limit on the rounds of the run; rounds of averaging are not counted against it.
    random_state : int, RandomState or None
        Seed of a random network and of the starting point; not of the noise of `privacy`.
    privacy : destiny.problems.Privacy, optional
        Differential privacy of single rows: rows are clipped, and every agent adds noise, once, to the sums
        over its rows. All attributes then come from sums with noise, the mean, the variances and the number
        of rows too: a ratio of variances may exceed 1, and ``n_samples_`` is an estimate. Every fit draws new
        noise, and uses the budget again.
    verbose : bool
        Show a progress bar during the run: rounds, residuals and the time left.
    messages : str or destiny.Quantized, optional
        How messages travel, "plain" by default. With "private" agents learn sums over all agents only, and
        averages are exact totals; there must be three agents. `Quantized(8)` makes messages of a run small;
        averages keep 64 bits.

    Attributes
    ----------
    components_, explained_variance_, explained_variance_ratio_, singular_values_, mean_, noise_variance_, \
n_components_, n_samples_, n_features_in_, feature_names_in_
        As in PCA. With ``sample_weight``, ``n_samples_`` is the sum of the weights, and variances are divided
        by it minus 1.
    n_rounds_, n_scalars_ : int
        Rounds of communication, averaging included, and numbers sent over all links together.
    history_ : History
        The run, one row per measurement; empty if no run was needed.
    notes_ : list of str
        Remarks on the fit: what was chosen, and why.
    converged_ : bool
        Whether ``tol`` was reached; a `ConvergenceWarning` says why not.
    network_ : Network
        The network used.

    Examples
    --------
    >>> import numpy as np
    >>> hospitals = [np.random.default_rng(i).standard_normal((9 + i, 4)) * [3, 2, 1, 1] for i in range(3)]
    >>> pca = DecentralizedPCA(n_components=2, random_state=0).fit(hospitals)
    >>> pca.components_.shape, pca.n_samples_
    ((2, 4), 30)
    """

    _min_rows = 2  # the variance of one row is not defined
    _moments: dict[int, Moments] | None = None  # by agent, of all rows given to `partial_fit` so far

    def __init__(
        self,
        n_components: int | float | Literal["mle"] | None = None,
        *,
        n_agents: int | None = None,
        network: str | Topology = "erdos-renyi",
        whiten: bool = False,
        missing: Literal["error", "ignore"] = "error",
        method: Algorithm[Any] | str | None = None,
        tol: float = 1e-10,
        max_rounds: int = SolveOptions.rounds,
        random_state: Any = None,
        privacy: Privacy | None = None,
        verbose: bool = False,
        messages: Messages | str | None = None,
    ) -> None:
        self.n_components = n_components
        self.n_agents = n_agents
        self.network = network
        self.whiten = whiten
        self.missing = missing
        self.method = method
        self.tol = tol
        self.max_rounds = max_rounds
        self.random_state = random_state
        self.privacy = privacy
        self.verbose = verbose
        self.messages = messages

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:  # noqa: ARG002
        """Add rows to those of earlier calls and fit to all of them.

        Each agent keeps the number, mean and scatter matrix of its rows, n_features x n_features numbers, and
        not the rows. The result is that of `fit` with all rows so far, up to ``tol``. A call starts where
        `fit` starts, not at the last components (docs/estimators.md).

        Parameters
        ----------
        X : array-like (n_samples, n_features), or a list of them
            New rows, as in `fit`: one table is split over the agents, a list has one table for each of the
            agents of the first call, possibly without rows.
        y
            Ignored.
        sample_weight : array-like (n_samples,), or a list of them, optional
            As in `fit`.

        Returns
        -------
        self
            ``n_rounds_``, ``n_scalars_``, ``history_`` and ``converged_`` are those of this call.

        Raises
        ------
        ProblemError, SettingsError
            As in `fit`. Rows of a call that raises are not added. After `fit`, which keeps nothing to add
            rows to, the first call begins anew, with a UserWarning.
        """
        refuse_other_containers(X)
        if self.missing != "error":
            raise SettingsError(
                f'partial_fit needs missing="error"; found {self.missing!r}: moments have no gaps'
            )
        first = self._moments is None
        if first and "components_" in vars(self):
            warnings.warn(
                "partial_fit begins anew, as fit keeps none of its rows: give all rows to partial_fit",
                stacklevel=2,
            )
        if is_silos(X):
            tables = self._check_silos(X, None, sample_weight, first)
        else:
            table = self._check_table(X, None, sample_weight, first, 0)
            tables = table.split(self._count_agents(None))
        if self._moments is not None and len(tables) != len(self._moments):
            raise ProblemError(
                f"partial_fit needs a table for each of the {len(self._moments)} agents of the first call; "
                f"found {len(tables)}: give an agent without new rows a table without rows"
            )
        return self._fit_tables(dict(enumerate(tables)), Local(), len(tables), partial=True)

    def transform(self, X: Any) -> Any:
        """Return the coordinates of some rows along the components, ``(rows, n_components)``."""
        X = self._check_rows(X)
        if self._accepts_gaps and np.isnan(X).any():
            ratios = self.noise_variance_ / np.maximum(self.explained_variance_, 1e-300)
            codes = codes_of_rows_with_gaps(X - self.mean_, self.components_, ratios).astype(X.dtype)
        else:
            codes = X @ self.components_.T - self.mean_ @ self.components_.T
        if self.whiten:
            scale = np.sqrt(self.explained_variance_)
            codes /= np.maximum(scale, np.finfo(scale.dtype).eps)
        return codes

    def inverse_transform(self, X: Any) -> Any:
        """Return the rows in the span of the components that have these coordinates."""
        codes = self._check_codes(X)
        if self.whiten:
            codes = codes * np.sqrt(self.explained_variance_)
        return codes @ self.components_ + self.mean_

    def get_precision(self) -> Array:
        """Return the inverse of `get_covariance`; raise ProblemError if a direction has no variance."""
        along, across = self._model()
        V = self.components_
        if across is None:
            return np.asarray((V.T / along) @ V)
        return np.asarray((V.T * (1 / along - 1 / across)) @ V + np.eye(V.shape[1]) / across)

    def score_samples(self, X: Any) -> Array:
        """Return the log-likelihood of every row; raise ProblemError if a direction has no variance."""
        X = self._check_rows(X)
        if self._accepts_gaps and np.isnan(X).any():
            raise ProblemError("a likelihood needs rows without gaps: leave rows with NaN out, or fill them")
        along, across = self._model()
        V: Any = self.components_
        mean: Any = self.mean_
        p, n = V.shape
        constant = np.sum(np.log(along)) + n * np.log(2 * np.pi)
        if across is not None:
            constant += (n - p) * np.log(across)
        likelihood = np.empty(X.shape[0], dtype=np.result_type(X.dtype, V.dtype))
        for rows, block in Rows(X).dense_blocks():
            differences: Any = block - mean
            codes = differences @ V.T
            distance = np.square(codes) @ (1 / along)
            if across is not None:
                distance += np.square(differences - codes @ V).sum(axis=1) / across
            likelihood[rows] = -0.5 * (distance + constant)
        return likelihood

    def score(self, X: Any, y: Any = None) -> float:  # noqa: ARG002
        """Return the mean log-likelihood of all rows of all silos; raise ProblemError without rows."""
        parts: Any = self.score_samples(X)
        samples = np.concatenate(parts) if isinstance(parts, list) else np.asarray(parts)
        if not samples.size:
            raise ProblemError("score needs rows; found none")
        return float(np.mean(samples))

    def _model(self) -> tuple[Array, float | None]:
        """Return the model's variances along the components and in the other directions (None if p = n)."""
        check_is_fitted(self)
        variance: Any = self.explained_variance_
        p, n = self.components_.shape
        across = float(self.noise_variance_)
        rank = np.count_nonzero(variance > _rounding_level(n) * variance[0])
        if rank < n and not across:
            fewer = f", or take fewer than {rank} components" if rank > 1 else ""
            raise ProblemError(
                f"a likelihood needs variance in all directions; found it in {rank} of {n}: leave out "
                f"columns that are constant or depend on others{fewer}"
            )
        along = np.maximum(variance - across, 0) * (variance if self.whiten else 1) + across
        return along, across if p < n else None

    def __sklearn_tags__(self) -> Any:
        tags = super(PCA, self).__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        tags.input_tags.sparse = not self._accepts_gaps
        tags.input_tags.allow_nan = self._accepts_gaps
        return tags

    @property
    def _accepts_gaps(self) -> bool:
        return self.missing == "ignore"

    def _learn(self, session: FitSession) -> None:
        n = self.n_features_in_
        self._require_settings()
        moments = self._add_rows(session) if session.partial else None
        rows = self._row_sums(session, moments)
        sums = session.average(rows.totals)
        weight = float(sums.common[n]) * session.agents
        m = round(weight) if session.private else whole(weight)
        row_count = rows.count(sums.common, m)
        self._require_rows(m, weighted=bool(session.weights))
        p = self._count_components(n if session.private else min(row_count, n), "min(n_samples, n_features)")
        problem = rows.center({i: rows.mean(s) for i, s in sums.by_agent.items()}, p)
        if dimension.is_rule(self.n_components):
            dimension.require_rows(self.n_components, m, n)
        notes = self._reason_not_to_iterate(session, problem, row_count)
        solution = None if notes else self._subspace(session, problem, rows, row_count)
        width = n if solution is None else solution.common.shape[1]

        def variances(i: int) -> Array:
            """Return an agent's part of the covariance in the subspace, then of the total variance."""
            basis = None if solution is None else solution.by_agent[i]
            return block_diag(rows.moments(i, basis), np.diag(rows.rest(i)))

        averages = session.average(variances, symmetric=True, noisy=session.private).common
        averages *= session.agents / (m - 1)
        variance, V = np.linalg.eigh(averages[:width, :width], UPLO="U")
        variance, V = np.maximum(variance[::-1], 0.0), V[:, ::-1]
        total = rows.total(variance, np.diagonal(averages)[width:], m, n)
        if dimension.is_rule(self.n_components):
            p = dimension.count(self.n_components, variance, total, m, p)
        variance, V = variance[:p], V[:, :p]
        self._set_attributes(session, rows.mean(sums.common), variance, total, m, row_count)
        axes = V if solution is None else solution.common @ V
        if not session.private:
            rank = int(np.count_nonzero(variance > _rounding_level(n) * variance[0]))
            axes = complete(axes[:, :rank], p)
        self.components_ = svd_flip(None, axes.T, u_based_decision=False)[1].astype(session.dtype)
        self._moments = moments
        result = None if solution is None else solution.result
        doubt = self._reason_to_doubt(session, variance, exact=result is None)
        self._set_fit_attributes(session, result, doubt)
        self.notes_ += notes

    def _require_settings(self) -> None:
        """Raise SettingsError for a parameter of the wrong kind."""
        if not isinstance(self.whiten, bool | np.bool_):
            raise SettingsError(f"whiten must be True or False; found {self.whiten!r}")
        if self.missing not in ("error", "ignore"):
            raise SettingsError(f'missing must be "error" or "ignore"; found {self.missing!r}')
        self._require_number_of_components()

    def _require_rows(self, m: float, *, weighted: bool) -> None:
        """Raise ProblemError if the weight ``m`` of all rows is too small for a variance."""
        if m <= 1 and not weighted:
            raise ProblemError(f"PCA needs at least {self._min_rows} rows; found {m} at all agents together")
        if m <= 1:
            raise ProblemError(
                f"PCA needs weights that sum to more than 1, as they say how often a row counts; found {m:g} "
                "at all agents together"
            )

    def _require_number_of_components(self) -> None:
        """Raise SettingsError unless n_components is a whole number, a share, "mle" or None."""
        p = self.n_components
        if p is None or is_whole(p):
            return
        if not dimension.is_rule(p):
            raise SettingsError(
                'n_components must be a whole number, a share of the variance between 0 and 1, "mle" or '
                f"None; found {p!r}"
            )
        if self._accepts_gaps:
            raise SettingsError(f'missing="ignore" needs n_components as a whole number; found {p!r}')

    def _count_components(self, most: int, limit: str) -> int:
        return most if dimension.is_rule(self.n_components) else super()._count_components(most, limit)

    def _reason_not_to_iterate(self, session: FitSession, problem: ProblemBase, m: int) -> list[str]:
        """Return a note if the agents average their covariances and need no run, otherwise nothing.

        ``m`` is the number of all rows. Raises an error if a method was given that does not fit.
        """
        n, p = problem.shape
        if self.method is not None:
            prepared_algorithm(self.method, problem, session.network)
        if p == n or dimension.is_rule(self.n_components):
            if session.messages.few_bits:
                raise SettingsError(
                    f"{session.messages} need a number of components below n_features, as all variances are "
                    f"found by averages in 64 bits; found n_components = {self.n_components!r}"
                )
            if dimension.is_rule(self.n_components) and n > dimension.LARGEST:
                if session.partial or not has_few_rows(session, m, problem.shape):
                    raise SettingsError(
                        f"n_components = {self.n_components!r} needs all variances, for which agents average "
                        f"covariances of at most {dimension.LARGEST} features, or in one call of fit few "
                        f"rows of more features; found {n} features and {m} rows: give a whole number"
                    )
                return []
            return ["the agents averaged their covariances, as all variances were asked for"]
        if self.method is None:
            choice = choose(problem, session.network, messages=session.messages)
            if choice.algorithm.about is not None and choice.algorithm.about.triangles:
                return [
                    f"the agents averaged their covariances, the model of averaged-model: {choice.reason}"
                ]
        return []

    def _row_sums(self, session: FitSession, moments: Mapping[int, Moments] | None) -> RowSums:
        """Return what the agents tell of their rows; raise SettingsError for parameters that do not fit."""
        n = self.n_features_in_
        if self.privacy is not None:
            if session.weights or session.partial or self._accepts_gaps:
                raise SettingsError(
                    "privacy needs rows that count once and have no gaps: leave out sample_weight, "
                    'partial_fit and missing="ignore"'
                )
            if dimension.is_rule(self.n_components):
                raise SettingsError(
                    f"privacy needs n_components as a whole number; found {self.n_components!r}: noise hides "
                    "the variances it would follow from"
                )
            require_privacy(self.privacy)
            require_private_messages(self.privacy, session.messages.private)
            return PrivateSums(session, self.privacy, n, self._count_components(n, "n_features"))
        if self._accepts_gaps:
            return GapSums(session, partial(column_name, self))
        return ExactSums(
            session,
            moments or {i: session.weighted_rows(i) for i in session.rows},
        )

    def _add_rows(self, session: FitSession) -> dict[int, Moments]:
        """Return the moments of the rows of all calls of `partial_fit`."""
        new = {i: Moments.of(session.weighted_rows(i)) for i in session.rows}
        if self._moments is None:
            return new
        session.dtype = np.result_type(session.dtype, self.components_.dtype).type
        return {i: self._moments[i] + moments for i, moments in new.items()}

    def _subspace(self, session: FitSession, problem: ProblemBase, rows: RowSums, m: int) -> Solution:
        """Return the leading subspace.

        A run starts at the answer of ``rows.rough``, if there is such a problem. Few rows with many columns
        need none either: there a space that contains them all is returned.
        """
        if (
            (self.method is None or dimension.is_rule(self.n_components))
            and not session.messages.few_bits
            and isinstance(rows, ExactSums)
            and not session.partial
            and has_few_rows(session, m, problem.shape)
        ):
            return span_of_rows(session, rows.rows, (problem.shape[0], m))
        rough, start = rows.rough, None
        if rough is not None:
            start = session.solve(rough, self.get_params() | {"tol": max(self.tol, ROUGH)}).common
        return session.solve(problem, self.get_params(), start)

    def _reason_to_doubt(self, session: FitSession, variance: Array, *, exact: bool) -> str | None:
        """Return why components may be wrong although the fit converged; None if there is no such reason.

        ``exact``: no run was needed, so that ``tol`` hides nothing.
        """
        relative = variance / (variance[0] or 1.0)
        if session.private:  # nothing more may be told of the rows
            return None
        if relative[-1] <= ROUNDING and any(allgather(session.engine, _scales_differ(session.rows.values()))):
            return (
                f"a variance is less than {ROUNDING:.0e} of the largest, which rounding hides, and columns "
                "have very different scales: scale them"
            )
        unresolved = relative[(relative < 1e3 * self.tol) & (relative > ROUNDING)]
        if exact or not unresolved.size:
            return None
        return (
            f"a variance is {unresolved[0]:.0e} of the largest, which a tol of {self.tol:g} does not see: "
            "scale the columns, or take n_components=None"
        )

    def _set_attributes(
        self, session: FitSession, mean: Array, variance: Array, total: float, m: float, row_count: int
    ) -> None:
        """Set the attributes of PCA but ``components_``, from the weight m and the number of all rows."""
        n, p = len(mean), len(variance)
        if total <= n * (10 * EPS) ** 2 * (mean @ mean):  # all rows alike: what is left of them is rounding
            variance, total = np.zeros(p), 0.0
        self.mean_ = mean.astype(session.dtype)
        self.n_samples_, self.n_components_ = m, p
        self.explained_variance_ = variance.astype(session.dtype)
        self.explained_variance_ratio_ = (variance / (total or 1.0)).astype(session.dtype)
        self.singular_values_ = np.sqrt(variance * (m - 1)).astype(session.dtype)
        directions, remainder = min(row_count, n) - p, total - variance.sum()  # beyond the components
        has_noise = directions and remainder > _rounding_level(n) * total
        self.noise_variance_ = remainder / directions if has_noise else 0.0


def complete(axes: Array, p: int) -> Array:
    """Return orthonormal ``axes`` ``(n, r)`` with further directions, p columns in all.

    Each is the unit vector farthest from the span so far, less its projection on the span, normalized: so
    directions without variance depend on the span alone, and not on rounding.
    """
    while axes.shape[1] < p:
        j = int(np.argmin(np.sum(np.square(axes), axis=1).round(9)))
        new = -axes @ axes[j]
        new[j] += 1
        new -= axes @ (axes.T @ new)  # once more, for rounding
        axes = np.column_stack([axes, new / np.linalg.norm(new)])
    return axes


def _rounding_level(n: int) -> float:
    """Return the fraction of the largest variance that rounding hides in n dimensions."""
    return max(ROUNDING, n * EPS)


def _scales_differ(tables: Iterable[Any]) -> bool:
    """Return whether some columns vary too little, relative to others, for double precision."""
    return scale_ratio(tables) > 1 / math.sqrt(ROUNDING)

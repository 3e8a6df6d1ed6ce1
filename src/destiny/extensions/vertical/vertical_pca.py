"""Principal component analysis of columns held by many parties."""

from __future__ import annotations

import warnings
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.extmath import svd_flip
from sklearn.utils.validation import check_array, check_is_fitted
from threadpoolctl import threadpool_limits

from destiny.engines import Local
from destiny.engines.mixers import Messages
from destiny.errors import ProblemError, SettingsError
from destiny.estimators.fitting import choose_messages
from destiny.estimators.rows import Table
from destiny.estimators.session import FitSession
from destiny.extensions.vertical.vertical_base import Vertical, centered_tables
from destiny.problems import PCA
from destiny.problems.data import Silos
from destiny.problems.data.rows import Rows
from destiny.protocols import Algorithm, Array, Topology
from destiny.run.accuracy import ROUNDING
from destiny.run.choice import KRYLOV
from destiny.run.solve import SolveOptions
from destiny.validation import is_whole


class VerticalPCA(Vertical, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """PCA of columns that never leave the parties that hold them; the rows are the same at all parties.

    Party i centers its columns A_i ``(rows, columns)`` by itself. With A = (A_1, ..., A_d) the parties find
    the orthonormal U ``(rows, n_components)`` that maximizes tr(U^T A A^T U) = sum_i ||A_i^T U||^2, whose
    columns are the scores of the rows over their lengths. Party i then computes the loadings of its own
    columns, A_i^T U over the singular values. docs/privacy.md says who learns what.

    Parameters
    ----------
    n_components : int
        Below the number of rows, and at most the number of columns of all parties.
    network, method, tol, max_rounds, random_state, verbose, messages
        As in `DecentralizedPCA`; ``method`` is `AveragedKrylov` by default, and
        `DestinyAccelerated` where the network changes or messages have few bits.

    Attributes
    ----------
    components_ : ndarray (n_components, n_features)
        The columns in the order of the parties; each party knows its own (`of_party`).
    scores_ : ndarray (n_samples, n_components)
        Coordinates of the rows along the components, known to all parties.
    mean_ : ndarray (n_features,)
        Each party knows the means of its own columns.
    explained_variance_, explained_variance_ratio_, singular_values_ : ndarray (n_components,)
        As in PCA, known to all parties.
    n_samples_, n_features_in_, feature_names_in_, n_rounds_, n_scalars_, history_, converged_, network_
        As in `DecentralizedPCA`.

    Examples
    --------
    >>> import numpy as np
    >>> rows = np.random.default_rng(0).standard_normal((50, 6)) * [5, 1, 4, 1, 1, 1]
    >>> clinic, laboratory, insurer = rows[:, :2], rows[:, 2:5], rows[:, 5:]
    >>> pca = VerticalPCA(2, random_state=0).fit([clinic, laboratory, insurer])
    >>> pca.components_.shape, pca.of_party(1).shape
    ((2, 6), (2, 3))
    """

    tol: float

    def __init__(
        self,
        n_components: int = 2,
        *,
        network: str | Topology = "erdos-renyi",
        method: Algorithm[Any] | None = None,
        tol: float = 1e-10,
        max_rounds: int = SolveOptions.rounds,
        random_state: Any = None,
        verbose: bool = False,
        messages: Messages | str | None = None,
    ) -> None:
        self.n_components = n_components
        self.network = network
        self.method = method
        self.tol = tol
        self.max_rounds = max_rounds
        self.random_state = random_state
        self.verbose = verbose
        self.messages = messages

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002
        """Fit to the columns of all parties.

        Parameters
        ----------
        X : list of array-like (n_samples, columns), or Silos with split="columns"
            One table per party: different columns of the same rows, in the same order.
        y
            Ignored.

        Raises
        ------
        ProblemError, SettingsError
            If the tables or parameters cannot be used. A `ConvergenceWarning` is issued, not raised, if the
            parties did not reach ``tol``.
        """
        tables = self._tables(X, True)
        rows, n = tables[0].shape[0], self.n_features_in_
        p, most = self.n_components, min(rows - 1, n)
        if not is_whole(p) or not 1 <= p <= most:
            raise SettingsError(
                f"n_components must be a whole number from 1 to min(n_samples - 1, n_features) = {most}; "
                f"found {p!r}"
            )
        network, seed = self._start(len(tables))
        with threadpool_limits(1):
            centered, self.mean_ = centered_tables(tables)
            # Rows are the variables here and columns the samples, so that U is common to all parties.
            session = FitSession(
                {i: Table(A.T, np.zeros(A.shape[1])) for i, A in centered.items()},
                False,
                network,
                Local(),
                seed,
                messages=choose_messages(self.messages, type(self).__name__),
            )
            problem = PCA([Rows(A.T) for A in centered.values()], p)
            # Not by averaged models: their messages have a number for each pair of rows.
            steps = KRYLOV.obstacle(problem, network, messages=session.messages) is None
            kind = "averaged-krylov" if steps else "destiny-accelerated"
            solution = session.solve(problem, self.get_params() | {"method": self.method or kind})
            loadings = {i: A.T @ solution.by_agent[i] for i, A in centered.items()}

            def variances(i: int) -> Array:
                return np.append(loadings[i].T @ loadings[i], np.sum(np.square(centered[i])))

            *moments, total = len(tables) * session.average(variances).common
            values, W = np.linalg.eigh(np.reshape(moments, (p, p)))
            values, W = values[::-1], W[:, ::-1]
            rank = int(np.count_nonzero(values > ROUNDING * values[0]))
            if rank < p:
                raise ProblemError(
                    f"n_components must be at most {rank}, the directions in which columns vary; found {p}"
                )
            axes = np.concatenate([loadings[i] @ W for i in centered]) / np.sqrt(values)
        self.components_ = svd_flip(None, axes.T.copy(), u_based_decision=False)[1]
        signs = np.sign(np.sum(self.components_ * axes.T, axis=1))
        self.scores_ = solution.common @ W * np.sqrt(values) * signs
        self.n_samples_ = rows
        self.explained_variance_ = values / (rows - 1)
        self.explained_variance_ratio_ = values / total
        self.singular_values_ = np.sqrt(values)
        assert solution.result is not None
        self.network_, self.history_ = network, solution.result.history
        self.n_rounds_ = session.average.rounds + session.rounds
        self.n_scalars_ = session.average.scalars + session.scalars
        self.converged_ = solution.result.converged
        if not self.converged_:
            warnings.warn(
                f"VerticalPCA did not converge: {solution.result.reason}; let parties scale their columns, "
                "or raise max_rounds or tol",
                ConvergenceWarning,
                stacklevel=2,
            )
        return self

    def fit_transform(self, X: Any, y: Any = None) -> Any:
        """Fit, and return the scores of the rows."""
        return self.fit(X, y).scores_

    def transform(self, X: Any) -> Array:
        """Return the coordinates of some rows along the components, the same at all parties.

        The parties average ``(X_i - mean_i) V_i``: n_components numbers for each row.
        """
        check_is_fitted(self)
        return self._sum_over_parties(X, self.components_.T)

    def inverse_transform(self, X: Any) -> Silos:
        """Return the columns of each party of the rows with these coordinates; nothing is sent."""
        check_is_fitted(self)
        codes = check_array(X, dtype=np.float64)
        if codes.shape[1] != len(self.components_):
            raise ProblemError(
                f"codes must have a column for each of the {len(self.components_)} components; found "
                f"{codes.shape[1]}"
            )
        rows = [codes @ self.components_[:, part] + self.mean_[part] for part in self._parts]
        names = getattr(self, "feature_names_in_", ())
        return Silos.from_parts(rows, [f"silo {k}" for k in range(len(rows))], names, split="columns")

    def of_party(self, party: int) -> Array:
        """Return the components' entries for the columns of one party, which it alone knows."""
        check_is_fitted(self)
        return np.asarray(self.components_[:, self._parts[party]])

    @property
    def _n_features_out(self) -> int:
        return int(self.components_.shape[0])

"""The base class of the estimators: `fit`, `fit_local` and the attributes that describe a fit."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import (
    check_array,
    check_consistent_length,
    check_is_fitted,
    column_or_1d,
    validate_data,
)
from threadpoolctl import threadpool_limits

from destiny.engines import Local, Mpi, engine_for_command
from destiny.engines.mixers import PLAIN, Messages, as_messages
from destiny.engines.team import Engine
from destiny.errors import ProblemError, SettingsError
from destiny.estimators.inputs import (
    CheckedRows,
    as_problem_error,
    call_for_silo,
    check_columns,
    check_weights,
    labels_of_silos,
    weights_of_silos,
)
from destiny.estimators.rows import Table, is_silos, refuse_other_containers
from destiny.estimators.session import FitSession, allgather, build_network
from destiny.problems.data import Silos
from destiny.problems.data.row_blocks import row_blocks
from destiny.problems.data.table_checks import (
    column_names,
    filled_as_dense,
    require_numbers,
    require_same_columns,
)
from destiny.run.history import History
from destiny.run.own import as_topology, is_topology
from destiny.run.result import Result
from destiny.validation import is_number, is_whole

AGENTS = 8  # default number of agents one table is split over
MAY_DIFFER = ("messages", "n_agents", "random_state", "verbose")  # of ranks, or compared by its meaning
SPARSE = 0.95  # lambda above which the network, not the curvature, limits a run
DIFFERENT = 100.0  # ratio of standard deviations of columns above which every method is slow


class Decentralized:
    """Base of the estimators: `fit` and `fit_local` build a `FitSession` and pass it to ``_learn``.

    Methods that take rows (`transform`, `predict`, ...) accept what `fit` accepts: for one table they return
    one array, for a list of tables a list of arrays. `score` returns one number for all rows.
    """

    _supervised = False
    _joins_y = False  # whether y has numbers, which are kept beside those of X
    _y_has = "labels"
    _transforms = True
    _accepts_sparse = True
    _min_rows = 1
    _named_by_silos = False  # whether the names of columns are those of Silos, whose tables are arrays
    _limits: tuple[tuple[str, float], ...] = (("tol", 0.0), ("max_rounds", 1))  # of the run, and their least
    _magnitudes = (1e-20, 1e20)  # range of the largest absolute entry: its square must be a normal float
    n_features_in_: int
    network: Any
    tol: float
    n_agents: int | None
    random_state: Any
    messages: Messages | str | None
    get_params: Callable[..., dict[str, Any]]

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit to all rows, with all agents in this process.

        Parameters
        ----------
        X : array-like (n_samples, n_features), a list of them, or Silos
            One table is split over ``n_agents`` agents, in order. A list of tables (2-D arrays, sparse
            matrices, data frames) or `destiny.Silos` has one per agent, each with any number of rows.
        y : array-like (n_samples,), or a list of them
            Labels, for a classifier; with a list of tables, a list with the labels of each.
        sample_weight : array-like (n_samples,), or a list of them, optional
            How often each row counts, by default once; with a list of tables, a list with the weights of
            each. A weight of 3 is the same as three equal rows, a weight of 0 the same as no row.

        Returns
        -------
        self

        Raises
        ------
        ProblemError, SettingsError
            If the rows, labels, weights or parameters cannot be used. A `ConvergenceWarning` is issued, not
            raised, if the agents did not reach ``tol``.
        """
        refuse_other_containers(X)
        if is_silos(X):
            tables = self._check_silos(X, y, sample_weight, True)
        else:
            table = self._check_table(X, y, sample_weight, True, self._min_rows)
            tables = table.split(self._count_agents(None))
        if sample_weight is not None and not any(table.rows.shape[0] for table in tables):
            raise ProblemError("sample_weight must not be zero in all rows: some row must count")
        return self._fit_tables(dict(enumerate(tables)), Local(), len(tables))

    @available_if(lambda self: self._transforms)  # type: ignore[untyped-decorator]
    def fit_transform(self, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
        """Fit to all rows and return them transformed; a list of tables gives a list of arrays."""
        return self.fit(X, y, sample_weight).transform(X)  # type: ignore[attr-defined]

    def fit_local(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit from a process that has its own rows only; all processes of an MPI job call it.

        Under mpiexec every rank is one agent, and all ranks end with the same attributes. Without mpiexec
        there is one agent, which holds all rows.

        Parameters
        ----------
        X : array-like (my_samples, n_features)
            The rows of this rank.
        y : array-like (my_samples,)
            Labels, for a classifier. Ranks exchange the set of labels, not the label of any row.
        sample_weight : array-like (my_samples,), optional
            How often each row counts; either all ranks give weights or none.

        Returns
        -------
        self

        Raises
        ------
        ProblemError, SettingsError
            As in `fit`. Under mpiexec the whole job ends, so that no rank waits for one that failed.
        """
        # First: once the MPI engine exists, a refusal on one rank ends the job.
        engine: Engine = Mpi() if engine_for_command() == "mpi" else Local()
        rank, ranks = (engine.ranks.rank, engine.ranks.size) if isinstance(engine, Mpi) else (0, 1)
        mine = self._check_own_table(X, y, sample_weight, engine)
        names = [str(name) for name in column_names(X) or []]
        facts = {"number of features": self.n_features_in_, "feature names": names}
        joined = mine.rows.shape[1], *np.shape(mine.labels)[1:]
        facts |= {"number of columns, with those of y": list(joined)} if self._joins_y else {}
        facts |= {"sparse rows": issparse(mine.rows), "sample weights": mine.weights is not None}
        facts |= {"messages": str(as_messages(self.messages or PLAIN))}
        engine.require_same({"estimator": type(self).__name__, **self._common_settings(), **facts})
        return self._fit_tables({rank: mine}, engine, ranks)

    def _check_own_table(self, X: Any, y: Any, sample_weight: Any, engine: Engine) -> Table:
        """Check the rows of this rank; raise on all ranks if one refuses its own.

        A program may catch the error: then no rank waits for averages with one that has none to give.
        """
        error: Exception | None = None
        try:
            refuse_other_containers(X)
            if is_silos(X):
                raise ProblemError("fit_local takes the table of one agent; found a list of tables: use fit")
            mine = self._check_table(X, y, sample_weight, True, 0)
        except Exception as refusal:
            error = refusal
        refused = [rank for rank, own in enumerate(allgather(engine, error is not None)) if own]
        if error is not None:
            raise error
        if refused:
            raise ProblemError(f"all ranks must accept their rows; found a refusal on rank {refused[0]}")
        return mine

    def _common_settings(self) -> dict[str, Any]:
        """The settings that all ranks must have alike.

        An object may print as its address, which differs from rank to rank: networks and methods of one's own
        are compared where they are used.
        """
        settings = self.get_params(deep=False)
        for name in ("network", "method"):
            if not isinstance(settings.get(name), str):
                settings.pop(name, None)
        return {name: value for name, value in settings.items() if name not in MAY_DIFFER}

    def _fit_tables(
        self, tables: Mapping[int, Table], engine: Engine, agents: int, partial: bool = False
    ) -> Self:
        for name, least in self._limits:
            value = getattr(self, name)
            if not is_number(value) or value < least:
                raise SettingsError(f"{name} must be a number of at least {least:g}; found {value!r}")
        messages = choose_messages(self.messages, type(self).__name__, averages_only=not self._limits)
        self._count_agents(agents)
        self._require_size(tables)
        own_seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        seed = allgather(engine, own_seed)[0]
        network = build_network(self.network, agents, seed)
        names = getattr(self, "feature_names_in_", range(self.n_features_in_))
        with threadpool_limits(1):  # the same bits on any number of cores, and on ranks
            self._learn(
                FitSession(tables, self._supervised, network, engine, seed, partial, messages, list(names))
            )
        return self

    def _require_size(self, tables: Mapping[int, Table]) -> None:
        """Raise ProblemError if sums of powers of the entries would overflow or vanish."""
        largest = max((_largest(table) for table in tables.values()), default=0.0)
        least, most = self._magnitudes
        if largest and not least <= largest <= most:
            raise ProblemError(
                f"the largest number must be between {least:g} and {most:g}; found {largest:.3g}: multiply "
                "all rows of all agents by the same factor"
            )

    @property
    def _accepts_gaps(self) -> bool:
        """Whether entries may be missing (NaN)."""
        return False

    def _learn(self, session: FitSession) -> None:
        """Fit with the agents of ``session`` and set the fitted attributes."""
        raise NotImplementedError

    def _check_silos(self, X: Any, y: Any, sample_weight: Any, first: bool) -> list[Table]:
        """Return the checked table of every silo; errors name the silo.

        In the ``first`` fit the first silo sets the number of features.
        """
        labels = [None] * len(X)
        if self._supervised or self._joins_y:
            labels = labels_of_silos(y, X, self._y_has)
        weights = weights_of_silos(sample_weight, X)
        if isinstance(X, Silos):
            self._check_columns_of(X, first)
            return [
                call_for_silo(party, self._pair, *one)
                for party, *one in zip(X.parties, X.parts, labels, weights, strict=True)
            ]
        names = [column_names(table) for table in X]
        named = next((agent for agent, its in enumerate(names) if its is not None), 0)
        tables = []
        for agent, its in enumerate(zip(X, labels, weights, strict=True)):
            call_for_silo(agent, require_same_columns, names[agent], names[named], f"silo {named}")
            tables.append(call_for_silo(agent, self._check_table, *its, first and agent == 0, 0))
        return tables

    def _check_table(self, X: Any, y: Any, sample_weight: Any, first: bool, least: int) -> Table:
        """Return a table of at least ``least`` rows with its labels and weights as arrays.

        The ``first`` table sets the number of features; others must have the same.
        """
        if self._supervised:
            rows, labels = self._validate(X, y, reset=first, ensure_min_samples=least)
            _require_classes(labels)
        else:
            rows = self._validate(X, reset=first, ensure_min_samples=least)
            labels = np.zeros(rows.shape[0])
        return weighted_table(rows, labels, sample_weight)

    def _check_columns_of(self, silos: Silos, first: bool) -> None:
        """Note the columns of silos in the first fit; compare them with those of that fit otherwise."""
        if first:
            self.n_features_in_ = silos.shape[1]
            self._named_by_silos = bool(silos.columns)
            if silos.columns:
                self.feature_names_in_ = np.asarray(silos.columns, dtype=object)
            elif hasattr(self, "feature_names_in_"):
                del self.feature_names_in_
        check_columns(self, silos)
        if silos.gaps and not self._accepts_gaps:
            raise ProblemError(
                f"{type(self).__name__} needs rows without gaps; found missing entries (NaN): leave those "
                "rows out, or fill the gaps first (DecentralizedImputer)"
            )
        if not self._accepts_sparse and any(map(issparse, silos.parts)):
            raise ProblemError(f"{type(self).__name__} needs dense rows; found sparse ones")

    def _pair(self, rows: Any, y: Any, sample_weight: Any) -> Table:
        """Return the table of one of several silos, whose rows are checked already."""
        labels = np.zeros(rows.shape[0])
        if self._supervised:
            labels = column_or_1d(y)
            check_consistent_length(rows, labels)
            _require_classes(labels)
        return weighted_table(rows, labels, sample_weight)

    def _validate(self, X: Any, *y: Any, **options: Any) -> Any:
        """Return the result of scikit-learn's `validate_data`; raise its errors as one sentence."""
        require_numbers(X)
        X = filled_as_dense(X)
        if options["reset"]:
            self._named_by_silos = False
        try:
            with warnings.catch_warnings():
                if self._named_by_silos:  # a party's table, or what a pipeline made of it
                    warnings.filterwarnings("ignore", "X does not have valid feature names")
                return validate_data(
                    self,
                    X,
                    *y,
                    accept_sparse="csr" if self._accepts_sparse else False,
                    dtype=[np.float64, np.float32],
                    ensure_all_finite="allow-nan" if self._accepts_gaps else True,
                    **options,
                )
        except (ValueError, TypeError) as error:
            raise as_problem_error(error, X) from error

    def _check_rows(self, X: Any) -> Any:
        """Return rows as an array for a fitted estimator; no rows are allowed."""
        if isinstance(X, CheckedRows):
            return X.as_floats()
        check_is_fitted(self)
        return self._validate(X, reset=False, ensure_min_samples=0)

    def _check_codes(self, X: Any) -> Any:
        """Return codes as an array with one column per component, or raise ProblemError."""
        check_is_fitted(self)
        p = self.components_.shape[0]  # type: ignore[attr-defined]
        if isinstance(X, CheckedRows):
            X = X.as_floats()
        require_numbers(X)
        try:
            codes = check_array(X, dtype=[np.float64, np.float32], ensure_min_samples=0)
        except (ValueError, TypeError) as error:
            raise as_problem_error(error, X) from error
        if codes.shape[1] != p:
            raise ProblemError(
                f"codes must have a column for each of the {p} components; found {codes.shape[1]}"
            )
        return codes

    def _count_agents(self, holders: int | None) -> int:
        """Return the number of agents: ``holders`` if given, otherwise that of one table to be split.

        Raises SettingsError if ``n_agents`` differs.
        """
        n_agents = self.n_agents
        if n_agents is not None and (not is_whole(n_agents) or n_agents < 1):
            raise SettingsError(f"n_agents must be a whole number of at least 1; found {n_agents!r}")
        if holders is None:
            given = self.network
            holders = int(as_topology(given).agents) if is_topology(given) else n_agents or AGENTS
        if n_agents is not None and n_agents != holders:
            raise SettingsError(
                f"n_agents must be the number of silos, ranks or agents of the network, {holders}; found "
                f"{n_agents}: leave n_agents out"
            )
        return holders

    def _count_components(self, most: int, limit: str) -> int:
        """Return ``n_components``, by default ``most``; raise SettingsError unless it is in 1..most."""
        p = self.n_components  # type: ignore[attr-defined]
        if p is None:
            return most
        if not is_whole(p) or not 1 <= p <= most:
            raise SettingsError(
                f"n_components must be a whole number from 1 to {limit} = {most}; found {p!r}"
            )
        return p

    def _set_fit_attributes(
        self, session: FitSession, result: Result | None, doubt: str | None = None
    ) -> None:
        """Set the attributes on cost and convergence; warn if the fit did not converge.

        ``result`` is None where no run was needed. ``doubt`` is a reason to warn although the run converged.
        """
        self.network_ = session.network
        self.n_rounds_ = session.average.rounds + session.rounds
        self.n_scalars_ = session.average.scalars + session.scalars
        self.history_ = History()
        self.notes_: list[str] = []
        if result is not None:
            self.history_ = result.history
            self.notes_ = [*([] if result.choice is None else [result.choice]), *result.notes]
            if not (result.converged or doubt):
                doubt = describe_failure(session, result, self.tol)
        self.converged_ = doubt is None
        if doubt is not None and session.engine.leader:
            warnings.warn(
                f"{type(self).__name__} did not converge: {doubt}",
                ConvergenceWarning,
                stacklevel=5,  # the caller of fit
            )


def choose_messages(messages: Messages | str | None, name: str, *, averages_only: bool = False) -> Messages:
    """Return how messages travel, by default in plain; raise SettingsError for few bits where none can be."""
    chosen = PLAIN if messages is None else as_messages(messages)
    if averages_only and chosen.few_bits:
        raise SettingsError(
            f"{name} only averages, in numbers of 64 bits, as there are no later steps to correct what "
            f"rounding does; found {chosen}: leave bits out"
        )
    return chosen


def weighted_table(rows: Any, labels: NDArray[Any], sample_weight: Any) -> Table:
    """Return a table whose rows count as often as their weights say; rows of weight 0 are left out."""
    if sample_weight is None:
        return Table(rows, labels)
    weights = check_weights(sample_weight, rows.shape[0])
    used = weights > 0
    return Table(rows, labels, weights) if used.all() else Table(rows[used], labels[used], weights[used])


def _largest(table: Table) -> float:
    """Return the largest absolute entry, times the root of the largest weight; 0 without entries."""
    factor = 1.0 if table.weights is None else np.sqrt(table.weights.max(initial=0.0))
    largest = 0.0
    for _, block in row_blocks(table.rows):
        entries = np.abs(block if isinstance(block, np.ndarray) else block.data)
        largest = max(largest, float(np.fmax.reduce(entries, axis=None, initial=0.0)))  # without gaps
    return float(factor * largest)


def describe_failure(session: FitSession, result: Result, tol: float) -> str:
    """Return why a fit did not converge and what would help."""
    measures = result.measures
    sentences = [result.reason, f"{measures.worst_name} is {measures.worst:.1e} and tol is {tol:g}"]
    lambda_ = session.network.lambda_  # a network that changes has none
    if lambda_ is not None and session.agents > 1:
        more = ": more links would help most" if lambda_ > SPARSE else ""
        sentences.append(f"the network's lambda is {lambda_:.3f}{more}")
    if not session.private and (ratio := scale_ratio(session.rows.values())) > DIFFERENT:
        sentences.append(f"the spread of the columns differs by a factor of {ratio:.0e}: scale them")
    return "; ".join([*sentences, "raise max_rounds or tol", *result.notes])


def scale_ratio(tables: Iterable[Any]) -> float:
    """Return the largest over the smallest standard deviation of the columns, constant columns left out."""
    count, total, squares = 0, np.zeros(1), np.zeros(1)
    for table in tables:
        count += table.shape[0]
        for _, block in row_blocks(table):
            total = total + np.asarray(block.sum(axis=0, dtype=np.float64)).ravel()
            dense = isinstance(block, np.ndarray)
            square = np.square(block, dtype=np.float64) if dense else block.multiply(block)
            squares = squares + np.asarray(square.sum(axis=0), dtype=np.float64).ravel()
    variance = squares / max(1, count) - (total / max(1, count)) ** 2
    varying = variance[variance > 1e-12 * squares / max(1, count)]
    return float(np.sqrt(varying.max() / varying.min())) if varying.size else 1.0


def _require_classes(labels: NDArray[Any]) -> None:
    """Raise ProblemError for labels that are not classes."""
    if not len(labels):
        return
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # many classes in a small silo: what counts is all silos together
            kind = type_of_target(labels, input_name="y")
    except TypeError as error:  # they cannot be sorted
        kinds = " and ".join(sorted({type(label).__name__ for label in labels}))
        raise ProblemError(f"labels must be of one type; found {kinds}") from error
    except ValueError as error:  # gaps
        raise as_problem_error(error, labels) from error
    if kind not in ("binary", "multiclass"):
        raise ProblemError(
            f"y must have the classes of the rows; found {labels[0]} and others (Unknown label type: "
            f"{kind}): put the values into classes, or take DecentralizedRidge"
        )

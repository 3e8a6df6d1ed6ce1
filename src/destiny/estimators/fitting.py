"""What the estimators share: `fit` and `fit_local`, and what is told of a fit."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import check_array, check_is_fitted, validate_data
from threadpoolctl import threadpool_limits

from destiny.engines import Local, Mpi, chosen
from destiny.engines.hosted import Engine
from destiny.errors import ProblemError, SettingsError, is_number, is_whole
from destiny.estimators.inputs import (
    column_names,
    explained,
    in_silo,
    labels_of_silos,
    require_numbers,
    require_same_columns,
)
from destiny.estimators.party import Party, everyone, network_of
from destiny.estimators.rows import deal, is_silos, refuse_other_containers
from destiny.run.history import History
from destiny.run.result import Result

AGENTS = 8  # that one table is dealt out to, unless told otherwise
SPARSE = 0.95  # lambda from which the network is what a run waits for
DIFFERENT = 100.0  # columns whose spreads differ more slow every method down


class Decentralized:
    """Mixed into an estimator: `fit` and `fit_local`, which hand a `Party` to its ``_learn``.

    The methods for rows (`transform`, `predict`, ...) take what `fit` takes: for one table the result is one
    array, for a list of tables a list of arrays. `score` is one number, of all rows.
    """

    _supervised = False
    _sparse = True
    _least = 1  # rows
    _sizes = (1e-20, 1e20)  # what the largest number may be
    network: Any
    tol: float
    n_agents: int | None
    random_state: Any

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit to all rows.

        Parameters
        ----------
        X : array-like (n_samples, n_features), or a list of them
            One table is dealt out to ``n_agents`` agents, in order. A list of tables (2-D arrays, sparse
            matrices, data frames) has one per agent, of any number of rows.
        y : array-like (n_samples,), or a list of them
            Labels, for a classifier; a list of them beside a list of tables.
        """
        refuse_other_containers(X)
        if is_silos(X):
            tables = self._silos(X, y)
        else:
            table, labels = self._table(X, y, True, self._least)
            agents = self._agents(None)
            tables = list(zip(deal(table, agents), deal(labels, agents), strict=True))
        return self._gathered(dict(enumerate(tables)), Local(), len(tables))

    def fit_transform(self, X: Any, y: Any = None) -> Any:
        """Fit to all rows and transform them; a list of tables gives a list."""
        return self.fit(X, y).transform(X)  # type: ignore[attr-defined]

    def fit_local(self, X: Any, y: Any = None) -> Self:
        """Fit from a process that has its own rows only; all processes of an MPI job call it.

        Under mpiexec every rank is one agent. All end with the same attributes. Without mpiexec there is one
        agent, which holds all rows.

        Parameters
        ----------
        X : array-like (my_samples, n_features)
        y : array-like (my_samples,)
            Labels, for a classifier. Ranks tell each other which labels there are, not whose they are.
        """
        engine: Engine = Mpi() if chosen() == "mpi" else Local()  # first: from now on a refusal ends the job
        rank, ranks = (engine.ranks.rank, engine.ranks.size) if isinstance(engine, Mpi) else (0, 1)
        refuse_other_containers(X)
        if is_silos(X):
            raise ProblemError("fit_local takes the table of one agent; found a list of tables: use fit")
        mine = self._table(X, y, True, 0)
        names = [str(name) for name in column_names(X) or []]
        facts = {"number of features": self.n_features_in_, "feature names": names}  # type: ignore[attr-defined]
        engine.same({"estimator": type(self).__name__, **facts, "sparse rows": issparse(mine[0])})
        return self._gathered({rank: mine}, engine, ranks)

    def _gathered(self, tables: Mapping[int, tuple[Any, Any]], engine: Engine, agents: int) -> Self:
        """Bring the agents together and let them learn."""
        for name, least in (("tol", 0.0), ("max_rounds", 1)):
            value = getattr(self, name)
            if not is_number(value) or value < least:
                raise SettingsError(f"{name} must be a number of at least {least:g}; found {value!r}")
        self._agents(agents)
        self._require_size(tables)
        drawn = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        seed = everyone(engine, drawn)[0]
        network = network_of(self.network, agents, seed)
        rows = {i: table for i, (table, _) in tables.items()}
        labels = {i: y for i, (_, y) in tables.items()} if self._supervised else {}
        with threadpool_limits(1):  # the same bits on any number of cores, and on ranks
            self._learn(Party(rows, labels, network, engine, seed))
        return self

    def _require_size(self, tables: Mapping[int, tuple[Any, Any]]) -> None:
        """Refuse numbers whose powers the agents could not add up."""
        largest = max(
            (float(abs(table).max()) for table, _ in tables.values() if table.shape[0]), default=0.0
        )
        least, most = self._sizes
        if largest and not least <= largest <= most:
            raise ProblemError(
                f"the largest number must be between {least:g} and {most:g}; found {largest:.3g}: multiply "
                "all rows of all agents by the same factor"
            )

    def _learn(self, party: Party) -> None:
        raise NotImplementedError

    def _silos(self, X: Any, y: Any) -> list[tuple[Any, Any]]:
        """Every silo, checked; a refusal names it."""
        labels = labels_of_silos(y, len(X)) if self._supervised else [None] * len(X)
        names = [column_names(table) for table in X]
        first = next((agent for agent, its in enumerate(names) if its is not None), 0)
        tables = []
        for agent, (table, mine) in enumerate(zip(X, labels, strict=True)):
            in_silo(agent, require_same_columns, names[agent], names[first], f"silo {first}")
            tables.append(in_silo(agent, self._table, table, mine, agent == 0, 0))
        return tables

    def _table(self, X: Any, y: Any, first: bool, least: int) -> tuple[Any, NDArray[Any]]:
        """One table and its labels as scikit-learn has them; the first tells how many features there are."""
        if not self._supervised:
            table = self._validated(X, reset=first, ensure_min_samples=least)
            return table, np.zeros(table.shape[0])
        table, labels = self._validated(X, y, reset=first, ensure_min_samples=least)
        _require_classes(labels)
        return table, labels

    def _validated(self, X: Any, *y: Any, **options: Any) -> Any:
        """scikit-learn's checks and conversions; every refusal is one sentence."""
        require_numbers(X)
        try:
            return validate_data(
                self,
                X,
                *y,
                accept_sparse="csr" if self._sparse else False,
                dtype=[np.float64, np.float32],
                **options,
            )
        except (ValueError, TypeError) as error:
            raise explained(error, X) from error

    def _rows(self, X: Any) -> Any:
        """Rows for a fitted estimator; there may be none."""
        check_is_fitted(self)
        return self._validated(X, reset=False, ensure_min_samples=0)

    def _codes(self, X: Any) -> Any:
        """What `inverse_transform` takes: as many columns as there are components."""
        check_is_fitted(self)
        require_numbers(X)
        p = self.components_.shape[0]  # type: ignore[attr-defined]
        try:
            codes = check_array(X, dtype=[np.float64, np.float32], ensure_min_samples=0)
        except (ValueError, TypeError) as error:
            raise explained(error, X) from error
        if codes.shape[1] != p:
            raise ProblemError(
                f"codes must have a column for each of the {p} components; found {codes.shape[1]}"
            )
        return codes

    def _agents(self, holders: int | None) -> int:
        """How many agents there are: as many as hold tables, or those that one table is dealt out to."""
        asked = self.n_agents
        if asked is not None and (not is_whole(asked) or asked < 1):
            raise SettingsError(f"n_agents must be a whole number of at least 1; found {asked!r}")
        if holders is None:
            given = not isinstance(self.network, str) and hasattr(self.network, "agents")
            holders = int(self.network.agents) if given else asked or AGENTS
        if asked is not None and asked != holders:
            raise SettingsError(
                f"n_agents must be the number of silos, ranks or agents of the network, {holders}; found "
                f"{asked}: leave n_agents out"
            )
        return holders

    def _columns(self, most: int, limit: str) -> int:
        """The number of components asked for, all of them by default."""
        asked = self.n_components  # type: ignore[attr-defined]
        if asked is None:
            return most
        if not is_whole(asked) or not 1 <= asked <= most:
            raise SettingsError(
                f"n_components must be a whole number from 1 to {limit} = {most}; found {asked!r}"
            )
        return asked

    def _report(self, party: Party, result: Result | None, doubt: str | None = None) -> None:
        """What the fit cost and whether it can be trusted; ``doubt`` is why not, though it ended well.

        Without a result there was nothing to search for.
        """
        self.network_ = party.network
        self.n_rounds_, self.n_scalars_ = party.average.rounds, party.average.scalars
        self.history_ = History()
        if result is not None:
            self.n_rounds_ += result.rounds
            self.n_scalars_ += result.scalars
            self.history_ = result.history
            if not (result.converged or doubt):
                doubt = unconverged(party, result, self.tol)
        self.converged_ = doubt is None
        if doubt is not None and party.engine.leader:
            warnings.warn(
                f"{type(self).__name__} did not converge: {doubt}",
                ConvergenceWarning,
                stacklevel=5,  # the caller of fit
            )


def unconverged(party: Party, result: Result, tol: float) -> str:
    """What is known of a fit that did not converge, and what would help."""
    measures = result.measures
    known = [result.reason, f"{measures.worst_name} is {measures.worst:.1e} and tol is {tol:g}"]
    lambda_ = getattr(party.network, "lambda_", None)  # a network that changes has none
    if lambda_ is not None and party.agents > 1:
        more = ": more links would help most" if lambda_ > SPARSE else ""
        known.append(f"the network's lambda is {lambda_:.3f}{more}")
    if (ratio := column_scales(party.rows.values())) > DIFFERENT:
        known.append(f"the spread of the columns differs by a factor of {ratio:.0e}: scale them")
    return "; ".join([*known, "raise max_rounds or tol", *result.notes])


def column_scales(tables: Iterable[Any]) -> float:
    """Largest over smallest standard deviation of the columns of some tables, constant columns left out."""
    count, total, squares = 0, np.zeros(1), np.zeros(1)
    for table in tables:
        count += table.shape[0]
        total = total + np.asarray(table.sum(axis=0), dtype=np.float64).ravel()
        sparse = issparse(table)
        square = table.multiply(table) if sparse else np.square(table, dtype=np.float64)
        squares = squares + np.asarray(square.sum(axis=0), dtype=np.float64).ravel()
    variance = squares / max(1, count) - (total / max(1, count)) ** 2
    varying = variance[variance > 1e-12 * squares / max(1, count)]
    return float(np.sqrt(varying.max() / varying.min())) if varying.size else 1.0


def _require_classes(labels: NDArray[Any]) -> None:
    """Refuse labels that are not classes."""
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
        raise explained(error, labels) from error
    if kind not in ("binary", "multiclass"):
        raise ProblemError(
            f"y must have the classes of the rows; found {labels[0]} and others (Unknown label type: "
            f"{kind}): put the values into classes, or take a regressor"
        )

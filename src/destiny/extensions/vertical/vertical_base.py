"""Base of estimators for parties that hold different columns of the same rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from destiny.engines import Local
from destiny.engines.mixers import Messages
from destiny.errors import ProblemError
from destiny.estimators.averager import Averager
from destiny.estimators.fitting import choose_messages
from destiny.estimators.rows import refuse_other_containers
from destiny.estimators.session import build_network
from destiny.problems.data import Silos
from destiny.problems.data.rows import MappedRows
from destiny.protocols import Array, TopologyBase


class Vertical:
    """What the estimators share: checks of tables, and the columns of each party among those of all."""

    n_features_in_: int
    mean_: Array
    network_: TopologyBase
    network: Any
    random_state: Any
    messages: Messages | str | None
    _widths: list[int]

    def _tables(self, X: Any, first: bool) -> list[Any]:
        """Return the dense table of every party; the ``first`` ones set their numbers of columns."""
        if not isinstance(X, Silos):
            refuse_other_containers(X)
            if not isinstance(X, list | tuple):
                raise ProblemError(
                    f"{type(self).__name__} takes the tables of several parties, which have different "
                    f"columns of the same rows, in a list; found {type(X).__name__}"
                )
            X = Silos(X, split="columns")
        if X.split != "columns":
            raise ProblemError(
                f"{type(self).__name__} needs parties with different columns of the same rows: make "
                'Silos(..., split="columns")'
            )
        if X.gaps:
            raise ProblemError(f"{type(self).__name__} needs rows without gaps; found missing entries (NaN)")
        tables = [_dense(party, part) for party, part in zip(X.parties, X.parts, strict=True)]
        widths = [table.shape[1] for table in tables]
        if first:
            self._widths, self.n_features_in_ = widths, sum(widths)
            if X.columns:
                self.feature_names_in_ = np.asarray(X.columns, dtype=object)
            elif hasattr(self, "feature_names_in_"):
                del self.feature_names_in_
        elif widths != self._widths:
            raise ProblemError(
                f"parties must have {self._widths} columns, as in fit; found {widths}: keep their order"
            )
        names = getattr(self, "feature_names_in_", None)
        if X.columns and names is not None and list(X.columns) != list(names):
            raise ProblemError("columns must be those of fit, in the same order")
        return tables

    def _start(self, parties: int) -> tuple[TopologyBase, int]:
        """Return the network and the seed of a fit."""
        seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        return build_network(self.network, parties, seed), seed

    @property
    def _parts(self) -> list[slice]:
        """The columns of each party among those of all."""
        ends = np.cumsum(self._widths)
        return [slice(int(end - width), int(end)) for width, end in zip(self._widths, ends, strict=True)]

    def _sum_over_parties(self, X: Any, factors: Array) -> Array:
        """Return sum_i (X_i - mean_i) F_i for factors F ``(n, p)``, by averaging over the network."""
        check_is_fitted(self)
        tables, parts = self._tables(X, False), self._parts

        def share(i: int) -> Array:
            rows = np.subtract(tables[i], self.mean_[parts[i]], dtype=np.float64)
            return np.asarray(rows @ factors[parts[i]])

        messages = choose_messages(self.messages, type(self).__name__)
        return len(tables) * Averager(self.network_, Local(), messages)(share).common


def centered_tables(tables: list[Any]) -> tuple[dict[int, Array], Array]:
    """Return every party's columns minus their means, which it finds by itself, and the means."""
    if tables[0].shape[0] < 2:
        raise ProblemError(f"parties need at least 2 rows; found {tables[0].shape[0]}")
    means = [np.asarray(table.mean(axis=0, dtype=np.float64)) for table in tables]
    centered = {i: np.subtract(table, means[i], dtype=np.float64) for i, table in enumerate(tables)}
    return centered, np.concatenate(means)


def _dense(party: str, rows: Any) -> Any:
    if isinstance(rows, MappedRows):
        return rows[:]
    if not isinstance(rows, np.ndarray):
        raise ProblemError(f"{party}: columns must be dense; found a sparse matrix: give its toarray()")
    return rows

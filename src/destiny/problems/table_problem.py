"""Problems of tables, one per agent, samples in rows: what PCA, OLSR, SDL and PCA with gaps share."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar, Self

from destiny.problems.checks import check_p, check_scale
from destiny.problems.data.partition import Matrices, Shift, Source
from destiny.problems.data.rows import Rows
from destiny.problems.data.tables import Silos
from destiny.problems.sums import Summable


class TableProblem(Summable):
    """A problem whose agents hold tables ``(m_i, n)``, samples in rows."""

    title: ClassVar[str]
    """What `describe` begins with; ``{p}`` is the number of columns of X."""

    def __init__(
        self,
        silos: Sequence[Source] | Silos,
        p: int,
        scale: float,
        n: int | None,
        *,
        gaps: bool = False,
        sparse: bool = False,
    ) -> None:
        self.tables: tuple[Matrices, ...] = (Matrices(silos, width=n, gaps=gaps, sparse=sparse),)
        self._p = check_p(p, self.data.width)
        self.scale = check_scale(scale)

    @property
    def data(self) -> Matrices:
        """The first of the ``tables``; further ones are targets."""
        return self.tables[0]

    @property
    def shape(self) -> tuple[int, int]:
        """(n, p), the shape of X."""
        return self.data.width, self._p

    @property
    def agents(self) -> int:
        """Number of agents d."""
        return len(self.data)

    @property
    def column_names(self) -> dict[str, tuple[str, ...]]:
        """Names of the columns under the key "data", and of the targets, as far as there are any."""
        return {table.what: table.names for table in self.tables if table.names}

    def rows(self, agent: int) -> Rows:
        """The data of an agent, multiplied by ``scale``."""
        return replace(self.data.load(agent), factor=self.scale)

    def with_shifts(self, *shifts: Mapping[int, Shift]) -> Self:
        """The same problem with the tables of the agents in ``shifts`` shifted."""
        shifted = copy.copy(self)
        shifted.tables = tuple(
            table.with_shifts(some) for table, some in zip(self.tables, shifts, strict=True)
        )
        return shifted

    def describe(self) -> str:
        """A sentence on the problem and its data."""
        return f"{self.title.format(p=self._p)}: {self.data.describe()}."

    def remarks(self) -> list[str]:
        """A sentence if all tables look as if their samples were in columns."""
        n, rows = self.data.width, self.data.alike
        if rows is None or not 0 < rows < n:
            return []
        return [
            f"every agent's table has {rows} rows and {n} columns: rows are samples; if columns are, give "
            "the transposed tables"
        ]

    def __repr__(self) -> str:
        n, p = self.shape
        samples = "samples" if self.data.sizes is None else f"{sum(self.data.sizes)} samples"
        return f"{type(self).__name__} of {self.agents} agents, {samples} in rows x {n} features, p = {p}"

"""What a solver paid, from its rows in the results of benchopt."""

import math
from dataclasses import dataclass

TOLERANCE = 1e-8  # of stationarity, consensus and feasibility alike


@dataclass(frozen=True)
class Cost:
    """Rounds, megabytes and seconds until all three measures are below the tolerance; infinite for never."""

    rounds: float
    megabytes: float
    seconds: float
    reached: float
    """The largest of the three measures at the end."""

    @property
    def converged(self):
        """Whether the tolerance was reached."""
        return self.rounds < math.inf

    @property
    def cells(self):
        """Rounds, megabytes and seconds as text."""
        if not self.converged:
            return [f"stopped at {self.reached:.0e}", "", ""]
        return [f"{self.rounds:.0f}", f"{self.megabytes:.3g}", f"{self.seconds:.3g}"]


def cost(rows):
    """The cost of one solver on one problem and network: the first of its rows below the tolerance."""
    done = rows[rows["objective_value"] <= TOLERANCE]
    reached = float(rows.loc[rows["stop_val"].idxmax(), "objective_value"])
    if done.empty:
        return Cost(math.inf, math.inf, math.inf, reached)
    first = done.loc[done["objective_rounds"].idxmin()]
    return Cost(first["objective_rounds"], first["objective_megabytes"], first["time"], reached)


def cheapest_first(table):
    """Pairs of solver and `Cost` of the rows of one problem and network."""
    pairs = [(solver, cost(rows)) for solver, rows in table.groupby("solver_name")]
    return sorted(pairs, key=lambda pair: (pair[1].rounds, pair[1].reached))

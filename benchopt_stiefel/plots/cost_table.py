"""A table of what each solver paid."""

from benchopt import BasePlot

from benchmark_utils.costs import TOLERANCE, cheapest_first


class Plot(BasePlot):
    """Rounds and megabytes until all three measures are below the tolerance, the cheapest first."""

    name = "Cost"
    type = "table"
    options = {"dataset": ..., "objective": ...}

    def plot(self, df, dataset, objective):
        """One row per solver."""
        here = df[(df["dataset_name"] == dataset) & (df["objective_name"] == objective)]
        return [[solver, *cost.cells] for solver, cost in cheapest_first(here)]

    def get_metadata(self, df, dataset, objective):
        """Heads of the columns."""
        columns = ["solver", f"rounds to {TOLERANCE:.0e}", "megabytes", "seconds on this machine"]
        return {"title": f"{objective}\n{dataset}", "columns": columns}

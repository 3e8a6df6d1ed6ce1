"""Curves over what agents pay: benchopt's own have time or calls on their x axis."""

from benchopt import BasePlot


class Plot(BasePlot):
    """A measure over rounds or megabytes."""

    name = "Over communication"
    type = "scatter"
    options = {
        "dataset": ...,
        "objective": ...,
        "x": ["rounds", "megabytes"],
        "measure": ["value", "stationarity", "consensus", "feasibility"],
    }

    def plot(self, df, dataset, objective, x, measure):
        """The median over repetitions."""
        df = df[(df["dataset_name"] == dataset) & (df["objective_name"] == objective)]
        curves = []
        for solver, rows in df.groupby("solver_name"):
            middle = rows.groupby("stop_val").median(numeric_only=True)
            data = {"x": middle[f"objective_{x}"].tolist(), "y": middle[f"objective_{measure}"].tolist()}
            curves.append({**data, "label": solver, **self.get_style(solver)})
        return curves

    def get_metadata(self, df, dataset, objective, x, measure):
        """Titles and scales."""
        title = "largest of the three measures" if measure == "value" else measure
        return {"title": f"{objective}\n{dataset}", "xlabel": x, "ylabel": title, "scale": "semilog-y"}

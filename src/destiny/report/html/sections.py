"""A figure as a section of the page: claims, curves, methods, networks, pictures, settings."""

from __future__ import annotations

from dataclasses import dataclass

from destiny import registry
from destiny.report.charts import network_drawing
from destiny.report.charts.curves import MEASURES, LineStyle, curves
from destiny.report.charts.legend import chart, legend, stroke
from destiny.report.charts.series import Charts
from destiny.report.html import extras, tables, wording
from destiny.report.html.columns import columns_section
from destiny.report.html.markup import Html, join, tag
from destiny.report.html.provenance import provenance_section
from destiny.report.sources.folder import attempt
from destiny.report.sources.results import FigureResults, PanelResults


@dataclass(frozen=True)
class Section:
    """Writes one figure.

    Attributes
    ----------
    level : int
        Level of the figure's heading; the headings below it have the next levels.
    """

    figure: FigureResults
    styles: dict[str, LineStyle]
    charts: Charts
    level: int
    number: int

    def html(self, switch: Html | None = None) -> Html:
        """Return the whole section, with ``switch`` before the curves."""
        figure, remarks = self.figure, self.figure.remarks
        claims = attempt("claims.json", remarks, tables.claims, figure)
        parts = [self.introduction(), self.part("Claims", claims), switch]
        parts += [self.convergence(), self.activities(), self.networks(), self.extras()]
        columns = attempt("about.json", remarks, columns_section, figure)
        parts.append(self.part("Columns", columns))
        parts.append(self.part("How it was made", attempt("about.json", remarks, provenance_section, figure)))
        return join([*parts, self.remarks()])

    def heading(self, text: str, below: int = 1) -> Html:
        """Return a heading ``below`` levels below the figure's own."""
        return tag(f"h{self.level + below}", text)

    def part(self, title: str, inside: Html | None) -> Html | None:
        """Return content under a heading; None without content."""
        return None if not inside else tag("section", self.heading(title), inside)

    def introduction(self) -> Html:
        facts = self.figure.facts
        lines = [tag("p", str(facts["paper"]), class_="kicker") if facts.get("paper") else None]
        lines += [tag("p", str(facts["about"]), class_="lead") if facts.get("about") else None]
        small = "Small sizes, to be quick: not the sizes of the paper."
        return join([*lines, tag("p", small) if facts.get("small") else None])

    def convergence(self) -> Html | None:
        """Return curves and tables, panel by panel."""
        remarks = self.figure.remarks
        panels = [attempt(p.name or "history.csv", remarks, self.panel, p) for p in self.figure.panels]
        return self.part("Convergence", join(panels))

    def panel(self, panel: PanelResults) -> Html:
        """Return one panel: legend, three charts, tables."""
        lines = curves(panel, self.styles)
        parts: list[Html | None] = []
        if panel.title:
            parts.append(self.heading(panel.title, 2))
        unit = wording.unit(panel)
        if lines:
            group = self.group(panel, "curves")
            places = self.charts.curves(lines, group, unit)
            key = legend(group, [(c.label, stroke(c.style)) for c in lines])
            charts = [
                tag(
                    "div",
                    tag("p", MEASURES[m], class_="chart-title", aria_hidden="true"),
                    chart(k, wording.measure(panel, MEASURES[m], m)),
                    class_="cell",
                )
                for m, k in places.items()
            ]
            seeds = len(panel.seeds)
            band = (
                f" Lines are medians over {seeds} seeds, bands reach from the least to the largest."
                if seeds > 1
                else ""
            )
            caption = tag("figcaption", wording.convergence(panel) + band)
            parts.append(tag("figure", key, tag("div", *charts, class_="charts"), caption))
        parts.append(tables.methods(panel.first) if len(panel.seeds) == 1 else tables.medians(panel))
        if lines:
            parts.append(tables.numbers(lines, unit))
        return tag("section", *parts, class_="panel")

    def group(self, panel: PanelResults, what: str) -> str:
        """Return the name of the charts of a panel that share a legend."""
        return f"{what}-{self.number}-{self.figure.panels.index(panel)}"

    def activities(self) -> Html | None:
        """Return what extensions show of the runs of each panel's first seed."""
        drawings = [
            attempt("summary.json", self.figure.remarks, extension.drawing, run.label, run.entry)
            for panel in self.figure.panels
            for run in panel.first.runs
            for extension in registry.extensions()
        ]
        return self.part("Who worked and who waited", join(drawings))

    def networks(self) -> Html | None:
        """Return the drawing of each panel's network, of its first seed; equal ones are drawn once."""
        titles: dict[Html, list[str]] = {}
        for panel in self.figure.panels:
            network = panel.first.network
            if not network:
                continue
            drawing = attempt("network.json", self.figure.remarks, network_drawing.figure, network)
            if drawing:
                titles.setdefault(drawing, []).append(panel.title)
        if not titles:
            return None
        several = len(titles) > 1
        cells = [
            tag("div", self.heading(", ".join(names), 2) if several else None, drawing, class_="net-cell")
            for drawing, names in titles.items()
        ]
        return self.part(
            "Networks" if several else "Network", tag("div", *cells, class_="nets" if several else "one-net")
        )

    def extras(self) -> Html | None:
        """Return the charts for the kind of problem: atoms, class map or spectrum."""
        alike: dict[
            str, list[PanelResults]
        ] = {}  # panels that only differ in their network have one spectrum
        for panel in self.figure.panels:
            alike.setdefault(extras.eigenvalues(panel) or panel.name, []).append(panel)
        by_title: dict[str, list[Html]] = {}
        for panels in alike.values():
            panel = panels[0]
            title, draw = extras.KINDS.get(str(panel.first.extras.get("kind")), ("", None))
            arguments = (panel, self.charts, self.group(panel, "extras"), self.styles)
            inside = attempt("extras.json", self.figure.remarks, draw, *arguments) if draw else None
            if inside:
                names = ", ".join(panel.title for panel in panels)
                by_title.setdefault(title, []).append(
                    tag("div", self.heading(names, 2) if len(alike) > 1 else None, inside)
                )
        return join(
            self.part(title, tag("div", *charts, class_="extras")) for title, charts in by_title.items()
        )

    def remarks(self) -> Html | None:
        """Return the list of missing or damaged files; None if there are none."""
        if not self.figure.remarks:
            return None
        lines = [tag("li", remark) for remark in dict.fromkeys(self.figure.remarks)]
        return self.part("Left out", tag("ul", *lines, class_="remarks"))

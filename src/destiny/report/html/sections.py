"""A figure as a section of the page: claims, curves, methods, networks, pictures, settings."""

from __future__ import annotations

from dataclasses import dataclass

from destiny.report.charts import network_drawing
from destiny.report.charts.curves import MEASURES, Look, curves
from destiny.report.charts.legend import chart, legend, stroke
from destiny.report.charts.series import Charts
from destiny.report.html import extras, tables, wording
from destiny.report.html.markup import Html, join, tag
from destiny.report.html.provenance import made
from destiny.report.sources.folder import attempt
from destiny.report.sources.results import Figure, Panel


@dataclass(frozen=True)
class Section:
    """Writes one figure.

    Attributes
    ----------
    level : int
        Of the heading; those below have the next ones, none is left out.
    """

    figure: Figure
    known: dict[str, Look]
    charts: Charts
    level: int
    number: int

    def html(self, switch: Html | None = None) -> Html:
        """The whole section; a switch for the curves stands before them."""
        figure, remarks = self.figure, self.figure.remarks
        claims = attempt("claims.json", remarks, tables.claims, figure)
        parts = [self.introduction(), self.part("Claims", claims), switch]
        parts += [self.convergence(), self.networks(), self.extras()]
        parts.append(self.part("How it was made", attempt("about.json", remarks, made, figure)))
        return join([*parts, self.remarks()])

    def heading(self, text: str, below: int = 1) -> Html:
        """A heading so many levels below the figure's own."""
        return tag(f"h{self.level + below}", text)

    def part(self, title: str, inside: Html | None) -> Html | None:
        """A part with its heading, or nothing."""
        return None if not inside else tag("section", self.heading(title), inside)

    def introduction(self) -> Html:
        """What is shown."""
        facts = self.figure.facts
        told = [tag("p", str(facts["paper"]), class_="kicker") if facts.get("paper") else None]
        told += [tag("p", str(facts["about"]), class_="lead") if facts.get("about") else None]
        small = "Small sizes, to be quick: not the sizes of the paper."
        return join([*told, tag("p", small) if facts.get("small") else None])

    def convergence(self) -> Html | None:
        """Curves and tables, panel by panel."""
        remarks = self.figure.remarks
        panels = [attempt(p.name or "history.csv", remarks, self.panel, p) for p in self.figure.panels]
        shown = join(panels)
        return self.part("Convergence", shown)

    def panel(self, panel: Panel) -> Html:
        """One panel: legend, three charts, tables."""
        found = curves(panel, self.known)
        parts: list[Html | None] = []
        if panel.title:
            parts.append(self.heading(panel.title, 2))
        unit = wording.counts(panel)
        if found:
            group = self.group(panel, "curves")
            places = self.charts.curves(found, group, unit)
            key = legend(group, [(c.label, stroke(c.look)) for c in found])
            charts = [
                tag("div", tag("p", MEASURES[m], class_="chart-title", aria_hidden="true"),
                    chart(k, wording.measure(panel, MEASURES[m], m)), class_="cell")
                for m, k in places.items()
            ]  # fmt: skip
            seeds = len(panel.seeds)
            band = (
                f" Lines are medians over {seeds} seeds, bands reach from the least to the largest."
                if seeds > 1
                else ""
            )
            caption = tag("figcaption", wording.convergence(panel) + band)
            parts.append(tag("figure", key, tag("div", *charts, class_="charts"), caption))
        parts.append(tables.methods(panel.first) if len(panel.seeds) == 1 else tables.medians(panel))
        if found:
            parts.append(tables.numbers(found, unit))
        return tag("section", *parts, class_="panel")

    def group(self, panel: Panel, what: str) -> str:
        """Name of charts that share a legend."""
        return f"{what}-{self.number}-{self.figure.panels.index(panel)}"

    def networks(self) -> Html | None:
        """One drawing for each panel, of its first seed; one for all where they are equal."""
        found: dict[str, tuple[list[str], Html]] = {}
        for panel in self.figure.panels:
            facts = panel.first.network
            made = (
                attempt("network.json", self.figure.remarks, network_drawing.shown, facts) if facts else None
            )
            if made:
                found.setdefault(made, ([], made))[0].append(panel.title)
        if not found:
            return None
        several = len(found) > 1
        shown = [
            tag("div", self.heading(", ".join(titles), 2) if several else None, made, class_="net-cell")
            for titles, made in found.values()
        ]
        return self.part(
            "Networks" if several else "Network", tag("div", *shown, class_="nets" if several else "one-net")
        )

    def extras(self) -> Html | None:
        """What belongs to the kind of problem."""
        alike: dict[str, list[Panel]] = {}  # panels that only differ in their network have one spectrum
        for panel in self.figure.panels:
            alike.setdefault(extras.eigenvalues(panel) or panel.name, []).append(panel)
        found: dict[str, list[Html]] = {}
        for panels in alike.values():
            panel = panels[0]
            title, draw = extras.KINDS.get(str(panel.first.extras.get("kind")), ("", None))
            given = (panel, self.charts, self.group(panel, "extras"), self.known)
            inside = attempt("extras.json", self.figure.remarks, draw, *given) if draw else None
            if inside:
                names = ", ".join(panel.title for panel in panels)
                found.setdefault(title, []).append(
                    tag("div", self.heading(names, 2) if len(alike) > 1 else None, inside)
                )
        return join(self.part(title, tag("div", *shown, class_="extras")) for title, shown in found.items())

    def remarks(self) -> Html | None:
        """What was missing or damaged."""
        if not self.figure.remarks:
            return None
        lines = [tag("li", remark) for remark in dict.fromkeys(self.figure.remarks)]
        return self.part("Left out", tag("ul", *lines, class_="remarks"))

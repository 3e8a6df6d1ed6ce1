"""A figure as a section of the page: claims, curves, methods, networks, pictures, settings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from destiny.report import atoms, network, tables, words
from destiny.report.charts import Charts
from destiny.report.curves import MEASURES, Look, curves
from destiny.report.figures import Figure, Panel
from destiny.report.folder import attempt
from destiny.report.html import Html, join, tag
from destiny.report.made import made

ATOM = 72  # pixels of the screen across a small picture
STROKES = {"solid": None, "dash": "7 4", "dashdot": "8 4 2 4", "dot": "2 4"}
FULL, OPEN = "●■◆▲✚✖★", "○□◇△✚✖☆"  # as the charts' markers


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
        parts = [self.introduction(), self.part("Claims", tables.claims(self.figure)), switch]
        parts += [self.convergence(), self.networks(), self.extras()]
        return join([*parts, self.part("How it was made", made(self.figure)), self.remarks()])

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
        unit = words.counts(panel)
        if found:
            group = self.group(panel, "curves")
            places = self.charts.curves(found, group, unit)
            legend = self.legend(group, [(c.label, stroke(c.look)) for c in found])
            charts = [
                tag("div", tag("p", MEASURES[m], class_="chart-title", aria_hidden="true"),
                    self.chart(k, words.measure(panel, MEASURES[m], m)), class_="cell")
                for m, k in places.items()
            ]  # fmt: skip
            seeds = len(panel.seeds)
            band = (
                f" Lines are medians over {seeds} seeds, bands reach from the least to the largest."
                if seeds > 1
                else ""
            )
            caption = tag("figcaption", words.convergence(panel) + band)
            parts.append(tag("figure", legend, tag("div", *charts, class_="charts"), caption))
        parts.append(tables.methods(panel.first) if len(panel.seeds) == 1 else tables.medians(panel))
        if found:
            parts.append(tables.numbers(found, unit))
        return tag("section", *parts, class_="panel")

    def group(self, panel: Panel, what: str) -> str:
        """Name of charts that share a legend."""
        return f"{what}-{self.number}-{self.figure.panels.index(panel)}"

    def chart(self, number: int, label: str, kind: str = "") -> Html:
        """The place of a chart."""
        return tag("div", id=f"chart-{number}", class_=f"chart {kind}".strip(), role="img", aria_label=label)

    def legend(self, group: str, entries: list[tuple[str, Html]]) -> Html:
        """Buttons that hide a line and show it again."""
        buttons = [
            tag(
                "button",
                swatch,
                tag("span", key),
                type="button",
                aria_pressed="true",
                data_group=group,
                data_key=key,
            )
            for key, swatch in entries
        ]
        return tag("div", *buttons, class_="legend", role="group", aria_label="Show or hide")

    def networks(self) -> Html | None:
        """One drawing for each panel, of its first seed; one for all where they are equal."""
        found: dict[str, tuple[list[str], Html]] = {}
        for panel in self.figure.panels:
            facts = panel.first.network
            made = attempt("network.json", self.figure.remarks, network.shown, facts) if facts else None
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
        """What belongs to the kind of problem: atoms, a class map, a spectrum."""
        kinds: dict[str, tuple[str, Callable[[Panel], Html | None]]] = {
            "sdl": ("Learned atoms", self.atoms),
            "olsr": ("Class map", self.classes),
            "pca": ("Spectrum", self.spectrum),
        }
        found: dict[str, list[Html]] = {}
        for panel in self.figure.panels:
            title, draw = kinds.get(str(panel.first.extras.get("kind")), ("", None))
            inside = attempt("extras.json", self.figure.remarks, draw, panel) if draw else None
            if inside:
                heading = self.heading(panel.title, 2) if len(self.figure.panels) > 1 else None
                found.setdefault(title, []).append(tag("div", heading, inside))
        return (
            join(self.part(title, tag("div", *shown, class_="extras")) for title, shown in found.items())
            if found
            else None
        )

    def atoms(self, panel: Panel) -> Html | None:
        """The dictionary as pictures."""
        best = atoms.chosen(panel)
        if best is None:
            return None
        run, X = best
        image = panel.first.extras.get("image")
        shape = atoms.picture_shape(X.shape[0], image)
        if shape is None:
            return tag(
                "p", f"The atoms have {X.shape[0]} numbers each and no known shape of a picture: not drawn."
            )
        count = min(X.shape[1], atoms.MOST)
        shown = f"{count} atoms" if count == X.shape[1] else f"The first {count} of {X.shape[1]} atoms"
        guess = "" if image else f", taken for {shape[0]} by {shape[1]} pixels"
        caption = (
            f"{shown} learned by {run.label}{guess}. Mid-grey is zero; each is scaled to its largest entry."
        )
        pixels = atoms.sheet(X, shape)
        width = pixels.shape[1] * max(1, round(ATOM / shape[1]))
        picture = tag("img", src=atoms.data_uri(pixels), alt=caption, class_="atoms", width=width)
        return tag("figure", picture, tag("figcaption", caption))

    def classes(self, panel: Panel) -> Html | None:
        """Samples as the answer sees them."""
        extras = panel.first.extras
        points = extras.get("points")
        if not points:
            return None
        names = [str(name) for name in extras.get("classes") or sorted(set(points["class"]))]
        group = self.group(panel, "classes")
        place = self.charts.classes(points, names, group)
        count = len(points["x"])
        by = f" by {extras['label']}" if extras.get("label") else ""
        caption = (
            f"{count} samples of {len(names)} classes, projected{by} and seen from where they spread most. "
            "Classes that lie apart can be told apart."
        )
        swatches = [(name, symbol(Look(k), FULL)) for k, name in enumerate(names)]
        return tag(
            "figure",
            self.legend(group, swatches),
            self.chart(place, caption, "square"),
            tag("figcaption", caption),
        )

    def spectrum(self, panel: Panel) -> Html | None:
        """Eigenvalues of the pooled data, and those found."""
        spectrum = panel.first.extras.get("spectrum")
        if not spectrum:
            return None
        pooled, found = spectrum.get("pooled") or [], spectrum.get("found") or {}
        group = self.group(panel, "spectrum")
        place = self.charts.spectrum(pooled, found, self.known, group)
        swatches = [("pooled data", stroke(None))] if pooled else []
        swatches += [(label, symbol(self.known.get(label, Look(len(self.known))), OPEN)) for label in found]
        count = max((len(v) for v in found.values()), default=0)
        caption = f"Eigenvalues found, {count} for each method"
        if pooled and count:
            worst = {
                label: max(abs(a - b) / pooled[0] for a, b in zip(v, pooled, strict=False))
                for label, v in found.items()
                if v
            }
            told = ", ".join(f"{label} {words.scientific(value)}" for label, value in worst.items())
            caption += f", over the {len(pooled)} leading ones of the pooled data. Largest difference, "
            caption += f"relative to the first eigenvalue: {told}"
        return tag(
            "figure",
            self.legend(group, swatches),
            self.chart(place, caption + "."),
            tag("figcaption", caption + "."),
        )

    def remarks(self) -> Html | None:
        """What was missing or damaged."""
        if not self.figure.remarks:
            return None
        lines = [tag("li", remark) for remark in dict.fromkeys(self.figure.remarks)]
        return self.part("Left out", tag("ul", *lines, class_="remarks"))


def stroke(look: Look | None) -> Html:
    """A line as it is drawn."""
    name, dash = ("ink", "solid") if look is None else (look.name, look.dash)
    line = tag(
        "line", x1=1, y1=6, x2=31, y2=6, stroke=f"var(--{name})", stroke_width=2.5,
        stroke_dasharray=STROKES[dash],
    )  # fmt: skip
    return tag("svg", line, viewBox="0 0 32 12", class_="swatch", aria_hidden="true")


def symbol(look: Look, shapes: str) -> Html:
    """A mark as it is drawn."""
    shape = shapes[look.number % len(shapes)]
    return tag("span", shape, style=f"color:var(--{look.name})", aria_hidden="true")

"""Charts for a kind of problem: the atoms of a dictionary, a class map, a spectrum."""

from __future__ import annotations

from collections.abc import Callable

from destiny.report.charts import atoms
from destiny.report.charts.curves import LineStyle
from destiny.report.charts.legend import FULL, OPEN, chart, legend, stroke, symbol
from destiny.report.charts.series import Charts
from destiny.report.html import wording
from destiny.report.html.markup import Html, tag
from destiny.report.sources.results import PanelResults

ATOM = 72  # pixels of the screen across a small picture


def dictionary(panel: PanelResults, *_: object) -> Html | None:
    """Return the atoms of the best run as pictures; None without a solution."""
    best = atoms.best_run(panel)
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
    subject = (
        f"{count} atom{'s' * (count > 1)}"
        if count == X.shape[1]
        else f"The first {count} of {X.shape[1]} atoms"
    )
    guess = "" if image else f", taken for {shape[0]} by {shape[1]} pixels"
    caption = (
        f"{subject} learned by {run.label}{guess}. Mid-gray is zero; each is scaled to its largest entry."
    )
    pixels = atoms.sheet(X, shape)
    width = pixels.shape[1] * max(1, round(ATOM / shape[1]))
    picture = tag("img", src=atoms.data_uri(pixels), alt=caption, class_="atoms", width=width)
    return tag("figure", picture, tag("figcaption", caption))


def classes(panel: PanelResults, charts: Charts, group: str, *_: object) -> Html | None:
    """Return the class map; None without points."""
    extras = panel.first.extras
    points = extras.get("points")
    if not points:
        return None
    names = [str(name) for name in extras.get("classes") or sorted(set(points["class"]))]
    place = charts.classes(points, names, group)
    count = len(points["x"])
    by = f" by {extras['label']}" if extras.get("label") else ""
    caption = (
        f"{count} samples of {len(names)} classes, projected{by} and seen from where they spread most. "
        "Classes that lie apart can be told apart."
    )
    swatches = [(name, symbol(LineStyle(k), FULL)) for k, name in enumerate(names)]
    return tag(
        "figure",
        legend(group, swatches),
        chart(place, caption, "square"),
        tag("figcaption", caption),
    )


def spectrum(panel: PanelResults, charts: Charts, group: str, styles: dict[str, LineStyle]) -> Html | None:
    """Return the eigenvalues of the pooled data and of each method; None without them."""
    content = panel.first.extras.get("spectrum")
    if not content:
        return None
    pooled, by_method = content.get("pooled") or [], content.get("found") or {}
    place = charts.spectrum(pooled, by_method, styles, group)
    swatches = [("pooled data", stroke(None))] if pooled else []
    swatches += [(label, symbol(styles.get(label, LineStyle(len(styles))), OPEN)) for label in by_method]
    count = max((len(v) for v in by_method.values()), default=0)
    caption = f"Eigenvalues found, {count} for each method"
    caption += f" ({panel.title})" if panel.title else ""
    if pooled and count:
        worst = {
            label: max(abs(a - b) / pooled[0] for a, b in zip(v, pooled, strict=False))
            for label, v in by_method.items()
            if v
        }
        errors = ", ".join(f"{label} {wording.scientific(value)}" for label, value in worst.items())
        caption += f", over the {len(pooled)} leading ones of the pooled data. Largest difference, "
        caption += f"relative to the first eigenvalue: {errors}"
    return tag(
        "figure",
        legend(group, swatches),
        chart(place, caption + "."),
        tag("figcaption", caption + "."),
    )


def eigenvalues(panel: PanelResults) -> str:
    """Return the pooled eigenvalues as text, without rounding errors; empty if there are none."""
    spectrum = panel.first.extras.get("spectrum")
    pooled = spectrum.get("pooled") if isinstance(spectrum, dict) else None
    return " ".join(wording.scientific(value) for value in pooled) if isinstance(pooled, list) else ""


KINDS: dict[str, tuple[str, Callable[[PanelResults, Charts, str, dict[str, LineStyle]], Html | None]]] = {
    "sdl": ("Learned atoms", dictionary),
    "olsr": ("Class map", classes),
    "pca": ("Spectrum", spectrum),
}

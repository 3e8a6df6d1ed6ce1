"""Write docs/reproduction.md, its CSV file and its pictures: ``python docs/reproduction.py FOLDER``.

The folder is what ``destiny reproduce all --out FOLDER`` has written. The page is made from the CSV and the claims alone,
so that it can be made again without the runs: ``python docs/reproduction.py``.
"""

import csv
import itertools
import json
import shutil
import sys
from math import inf
from pathlib import Path

from destiny.experiments.paper import claims, figures, reproduce
from destiny.report.charts.curves import curves, looks
from destiny.report.papers import LINES
from destiny.report.sources.results import read_figure
from destiny.run.plots import PANELS, pyplot

DOCS = Path(__file__).parent
KEPT = DOCS / "reproduction"
LEVELS = (1e-2, 1e-4, 1e-6, 1e-8)
COLUMNS = ("figure", "panel", "method", "seed", "lambda", *(f"rounds to {level:g}" for level in LEVELS),
           "scalars", "stationarity", "consensus", "feasibility", "converged", "seconds")  # fmt: skip


def collect(folder: Path) -> None:
    """Keep what is small: a line per run, the claims, what each figure took, a picture."""
    KEPT.mkdir(exist_ok=True)
    rows = []
    for name in figures.NAMES:
        home = folder / name
        facts = json.loads((home / "figure.json").read_text(encoding="utf-8"))
        rows += runs(folder, figures.read(name, facts["small"]), facts["seeds"])
        draw(home, DOCS / "images" / f"{name}.png")
        shutil.copy(home / "claims.json", KEPT / f"{name}-claims.json")
        kept = {key: facts[key] for key in ("seeds", "seconds")}
        (KEPT / f"{name}.json").write_text(json.dumps(kept) + "\n", encoding="utf-8")
    with (KEPT / "runs.csv").open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows(rows)


def runs(folder: Path, figure: figures.Figure, seeds: list[int]) -> list[list[object]]:
    """A line per run of a figure."""
    rows = []
    held = reproduce.histories(folder, figure, len(seeds))
    for panel, seed in itertools.product(figure.panels, seeds):
        home = reproduce.unit(folder, figure, panel, seed)
        network = json.loads((home / "network.json").read_text(encoding="utf-8"))
        for entry in json.loads((home / "summary.json").read_text(encoding="utf-8")):
            history = held[panel.name][entry["label"]][seed]
            reached = [claims.reach([history], tuple(PANELS), level).rounds[0] for level in LEVELS]
            last = [entry[measure] for measure in PANELS]
            rows.append([
                figure.name, panel.name, entry["label"], seed, f"{network['lambda']:.3f}",
                *("" if r == inf else int(r) for r in reached), entry["scalars"],
                *("" if value is None else f"{value:.1e}" for value in last),
                entry["converged"], f"{entry['seconds']:.1f}",
            ])  # fmt: skip
    return rows


def draw(home: Path, path: Path) -> None:
    """As in the paper: a column per panel, a row per measure; median and spread over the seeds."""
    from drawing import small  # beside this file, which is on the path when it is run

    figure = read_figure(home)
    rows = list(PANELS)[: 3 if home.name == "figure2" else 2]  # feasibility is plotted in Figure 2 alone
    sheet = pyplot().Figure(figsize=(4 * len(figure.panels), 3 * len(rows) + 0.6), layout="constrained")
    axes = sheet.subplots(len(rows), len(figure.panels), squeeze=False)
    known, handles = looks([figure]), {}
    for column, panel in enumerate(figure.panels):
        for axis, measure in zip(axes[:, column], rows, strict=True):
            for curve in curves(panel, known):
                style = {"color": curve.look.colour, "linestyle": LINES[curve.look.dash]}
                (line,) = axis.plot(curve.x["round"], curve.middle[measure], linewidth=1.4, **style)
                axis.fill_between(
                    curve.x["round"], curve.low[measure], curve.high[measure],
                    color=curve.look.colour, alpha=0.15, linewidth=0,
                )  # fmt: skip
                handles.setdefault(curve.label, line)
            axis.set_yscale("log")
            axis.set_ylim(top=min(axis.get_ylim()[1], 1e4))  # what diverges leaves the picture
            axis.grid(True, alpha=0.3)
            axis.spines[["top", "right"]].set_visible(False)
            if column == 0:
                axis.set_ylabel(PANELS[measure])
        axes[0, column].set_title(panel.title, fontsize=11)
        axes[-1, column].set_xlabel("rounds of communication")
    sheet.legend(handles.values(), handles, loc="outside lower center", ncols=4, frameon=False, fontsize=9)
    sheet.savefig(path, dpi=100)
    small(path)


def page() -> str:
    """The whole page, from what is kept."""
    with (KEPT / "runs.csv").open(newline="", encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    parts = [INTRODUCTION.format(times=times(), tally=tally())]
    for name in figures.NAMES:
        figure = figures.read(name)
        number = name.removeprefix("figure")
        parts.append(f"## Figure {number}: {figure.title[0].lower() + figure.title[1:]}\n\n{figure.about}\n")
        parts.append(f"![Figure {number}, made anew: {figure.title}](images/{name}.png)\n")
        parts.append(claims_table(name))
        parts.append(rounds_table(figure, [row for row in rows if row["figure"] == name]))
    return "\n".join(parts)


def kept(name: str) -> dict:
    return json.loads((KEPT / f"{name}.json").read_text(encoding="utf-8"))


def verdicts(name: str) -> list[claims.Verdict]:
    entries = json.loads((KEPT / f"{name}-claims.json").read_text(encoding="utf-8"))
    return [claims.Verdict(**entry) for entry in entries]


def tally() -> str:
    found = [v for name in figures.NAMES for v in verdicts(name) if not v.claim.startswith("Beyond")]
    return f"{sum(bool(v.holds) for v in found)} of {len(found)}"


def times() -> str:
    lines = ["| figure | minutes | of them measuring | seeds |", "|---|---|---|---|"]
    for name in figures.NAMES:
        facts = kept(name)
        took = facts["seconds"]
        share = took["measuring"] / took["total"]
        lines.append(f"| {name[-1]} | {took['total'] / 60:.1f} | {share:.0%} | {len(facts['seeds'])} |")
    return "\n".join(lines)


def claims_table(name: str) -> str:
    lines = ["| claim | what we measured | holds |", "|---|---|---|"]
    lines += [f"| {v.claim} | {v.measured} | **{v.word}** |" for v in verdicts(name)]
    return "\n".join(lines) + "\n"


def rounds_table(figure: figures.Figure, rows: list[dict[str, str]]) -> str:
    """Median and spread of the rounds until all three measures stay below a level."""
    lines = ["| panel | method | " + " | ".join(f"to {level:g}" for level in LEVELS) + " |",
             "|---|---|" + "---|" * len(LEVELS)]  # fmt: skip
    for panel in figure.panels:
        for label in panel.labels:
            mine = [row for row in rows if (row["panel"], row["method"]) == (panel.name, label)]
            if not mine:  # a small twin has fewer panels
                continue
            cells = []
            for level in LEVELS:
                found = [float(row[f"rounds to {level:g}"] or inf) for row in mine]
                cells.append(str(claims.Reach(found, 0)) if min(found) < inf else "-")
            lines.append(f"| {panel.title} | {label} | " + " | ".join(cells) + " |")
    title = "Rounds until stationarity, consensus and feasibility stay below a level: median (least-most) over the seeds."
    return f"{title}\n\n" + "\n".join(lines) + "\n"


INTRODUCTION = """# The paper's experiments, made anew

Every figure of Section 4 of Wang and Liu, on the paper's own data, and every claim the paper makes of them held against the runs.
{tally} of its claims hold as we read them; where one does not, the table says what we saw instead.

One command makes all of it, the page you are reading included, and goes on where it was if it is interrupted:

```bash title="not run by the tests: it takes half an hour"
export DESTINY_DATA=folder-of-the-data-sets   # see datasets.md
make reproduce
```

Single figures: `destiny reproduce figure3 --out DIR`, with `--small` in seconds and without any data; then `destiny report DIR`
for a page with curves to hover over, networks, dictionaries and class maps. The settings of a figure are one readable file each in
`src/destiny/experiments/paper`.

**How to read it.** The paper's figures give no step sizes, penalties, seeds or scalings, so what can be checked is what it says of them, not
their pixels. *As printed* means the paper's text taken literally: Barzilai-Borwein steps without any bound. *Safeguarded* and
*accelerated* are what this package does by default and offers beyond the paper ([acceleration](acceleration.md)). Curves are medians
over the seeds, bands go from the least to the largest. Round counts are to the nearest ten, since measures are taken every ten steps.

What it took on two cores:

{times}
"""


def main() -> None:
    if len(sys.argv) > 1:
        collect(Path(sys.argv[1]))
    (DOCS / "reproduction.md").write_text(page(), encoding="utf-8")
    print(f"written: {DOCS / 'reproduction.md'}")


if __name__ == "__main__":
    main()

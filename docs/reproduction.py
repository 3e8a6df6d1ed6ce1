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
from typing import Any

from destiny.experiments.paper import claims, figures, reproduce
from destiny.report.charts.curves import curves, line_styles
from destiny.report.papers import LINES
from destiny.report.sources.results import read_figure
from destiny.run.plots import PANELS, pyplot

DOCS = Path(__file__).parent
STORE = DOCS / "reproduction"
LEVELS = (1e-2, 1e-4, 1e-6, 1e-8)
COLUMNS = (
    "figure",
    "panel",
    "method",
    "seed",
    "lambda",
    *(f"rounds to {level:g}" for level in LEVELS),
    "scalars",
    "stationarity",
    "consensus",
    "feasibility",
    "converged",
    "seconds",
)


def collect(folder: Path) -> None:
    """Store a line per run, the claims, the times and a picture of each figure."""
    STORE.mkdir(exist_ok=True)
    rows = []
    for name in figures.NAMES:
        home = folder / name
        facts = json.loads((home / "figure.json").read_text(encoding="utf-8"))
        rows += runs(folder, figures.read(name, facts["small"]), facts["seeds"])
        draw(home, DOCS / "images" / f"{name}.png")
        shutil.copy(home / "claims.json", STORE / f"{name}-claims.json")
        summary = {key: facts[key] for key in ("seeds", "seconds")}
        (STORE / f"{name}.json").write_text(json.dumps(summary) + "\n", encoding="utf-8")
    with (STORE / "runs.csv").open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows(rows)


def runs(folder: Path, figure: figures.Figure, seeds: list[int]) -> list[list[object]]:
    """Return a line per run of a figure."""
    rows = []
    histories = reproduce.histories(folder, figure, len(seeds))
    for panel, seed in itertools.product(figure.panels, seeds):
        home = reproduce.unit(folder, figure, panel, seed)
        network = json.loads((home / "network.json").read_text(encoding="utf-8"))
        for entry in json.loads((home / "summary.json").read_text(encoding="utf-8")):
            history = histories[panel.name][entry["label"]][seed]
            reached = [claims.reach([history], tuple(PANELS), level).rounds[0] for level in LEVELS]
            last = [entry[measure] for measure in PANELS]
            rows.append(
                [
                    figure.name,
                    panel.name,
                    entry["label"],
                    seed,
                    f"{network['lambda']:.3f}",
                    *("" if r == inf else int(r) for r in reached),
                    entry["scalars"],
                    *("" if value is None else f"{value:.1e}" for value in last),
                    entry["converged"],
                    f"{entry['seconds']:.1f}",
                ]
            )
    return rows


def draw(home: Path, path: Path) -> None:
    """As in the paper: a column per panel, a row per measure; median and spread over the seeds."""
    from drawing import small  # beside this file, which is on the path when it is run

    figure = read_figure(home)
    rows = list(PANELS)[: 3 if home.name == "figure2" else 2]  # feasibility is plotted in Figure 2 alone
    sheet = pyplot().Figure(figsize=(4 * len(figure.panels), 3 * len(rows) + 0.6), layout="constrained")
    axes = sheet.subplots(len(rows), len(figure.panels), squeeze=False)
    styles = line_styles([figure])
    handles: dict[str, Any] = {}
    for column, panel in enumerate(figure.panels):
        for axis, measure in zip(axes[:, column], rows, strict=True):
            for curve in curves(panel, styles):
                style = {"color": curve.style.color, "linestyle": LINES[curve.style.dash]}
                (line,) = axis.plot(curve.x["round"], curve.middle[measure], linewidth=1.4, **style)
                axis.fill_between(
                    curve.x["round"],
                    curve.low[measure],
                    curve.high[measure],
                    color=curve.style.color,
                    alpha=0.15,
                    linewidth=0,
                )
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
    """Return the whole page, from the stored files."""
    with (STORE / "runs.csv").open(newline="", encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    parts = [INTRODUCTION.format(times=times(), tally=tally())]
    for name in figures.NAMES:
        figure = figures.read(name)
        number = name.removeprefix("figure")
        parts.append(f"## Figure {number}: {figure.title}\n\n{figure.about}\n")
        parts.append(f"![Figure {number}, reproduced: {figure.title}](images/{name}.png)\n")
        parts.append(claims_table(name))
        parts.append(rounds_table(figure, [row for row in rows if row["figure"] == name]))
    return "\n".join(parts)


def stored_facts(name: str) -> dict[str, Any]:
    facts: dict[str, Any] = json.loads((STORE / f"{name}.json").read_text(encoding="utf-8"))
    return facts


def verdicts(name: str) -> list[claims.Verdict]:
    entries = json.loads((STORE / f"{name}-claims.json").read_text(encoding="utf-8"))
    return [claims.Verdict(**entry) for entry in entries]


def tally() -> str:
    verdicts_of_paper = [
        v for name in figures.NAMES for v in verdicts(name) if not v.claim.startswith("Beyond")
    ]
    return f"{sum(bool(v.holds) for v in verdicts_of_paper)} of {len(verdicts_of_paper)}"


def times() -> str:
    lines = ["| figure | minutes | of which measuring | seeds |", "|---|---|---|---|"]
    for name in figures.NAMES:
        facts = stored_facts(name)
        seconds = facts["seconds"]
        share = seconds["measuring"] / seconds["total"]
        lines.append(f"| {name[-1]} | {seconds['total'] / 60:.1f} | {share:.0%} | {len(facts['seeds'])} |")
    return "\n".join(lines)


def claims_table(name: str) -> str:
    lines = ["| claim | measured | holds |", "|---|---|---|"]
    lines += [f"| {v.claim} | {v.measured} | **{v.word}** |" for v in verdicts(name)]
    return "\n".join(lines) + "\n"


def rounds_table(figure: figures.Figure, rows: list[dict[str, str]]) -> str:
    """Return a table of the median and range of the rounds until all three measures stay below a level."""
    lines = [
        "| panel | method | " + " | ".join(f"to {level:g}" for level in LEVELS) + " |",
        "|---|---|" + "---|" * len(LEVELS),
    ]
    for panel in figure.panels:
        for label in panel.labels:
            own_rows = [row for row in rows if (row["panel"], row["method"]) == (panel.name, label)]
            if not own_rows:  # a small twin has fewer panels
                continue
            cells = []
            for level in LEVELS:
                rounds = [float(row[f"rounds to {level:g}"] or inf) for row in own_rows]
                cells.append(str(claims.Reach(rounds, 0)) if min(rounds) < inf else "-")
            lines.append(f"| {panel.title} | {label} | " + " | ".join(cells) + " |")
    title = "Rounds until stationarity, consensus and feasibility stay below a level: median (range) over the seeds."
    return f"{title}\n\n" + "\n".join(lines) + "\n"


INTRODUCTION = """# The paper's experiments, reproduced

Every figure of Section 4 of Wang and Liu, on the paper's own data, with a check of every claim the paper makes about them.
{tally} of its claims hold as we read them; for the others the table says what was measured.

One command runs everything and writes this page; after an interruption it continues where it stopped:

```bash title="not run by the tests: it takes half an hour"
export DESTINY_DATA=folder-of-the-data-sets   # see datasets.md
make reproduce
```

For a single figure run `destiny reproduce figure3 --out DIR` (`--small` takes seconds and needs no data), then `destiny report DIR`
for a page with interactive curves, networks, dictionaries and class maps. The settings of each figure are in one file in
`src/destiny/experiments/paper`.

**How to read it.** The paper gives no step sizes, penalties, seeds or scalings for its figures, so its statements can be checked, but not
every curve. *As printed* is the paper's text taken literally: Barzilai-Borwein steps without a bound. *Safeguarded* and
*accelerated* are methods of this package beyond the paper ([acceleration](acceleration.md)). Curves are medians
over the seeds, bands the range. Round counts are accurate to ten, since measures are taken every ten steps.

Times on two cores:

{times}
"""


def main() -> None:
    if len(sys.argv) > 1:
        collect(Path(sys.argv[1]))
    (DOCS / "reproduction.md").write_text(page(), encoding="utf-8")
    print(f"written: {DOCS / 'reproduction.md'}")


if __name__ == "__main__":
    main()

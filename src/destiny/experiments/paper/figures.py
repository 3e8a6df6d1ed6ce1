"""The paper's figures as data: the files in `destiny/experiments`, and the experiments they are made of."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from importlib import resources
from typing import Any

import msgspec

from destiny.config.tables import Table
from destiny.config.tables import read as read_tables
from destiny.errors import SettingsError
from destiny.validation import did_you_mean

NAMES = ("figure1", "figure2", "figure3", "figure4", "figure5")
EVERY = 10  # steps between measurements: one costs a gradient and a value, a seventh of the ten steps
SAVE = 500


class PanelTable(Table, frozen=True):
    """[[panel]]."""

    name: str
    title: str
    cost: float
    problem: dict[str, Any]
    network: dict[str, Any]
    algorithm: list[dict[str, Any]] = msgspec.field(default_factory=list)


class Small(Table, frozen=True):
    """[small]: what the twin of a figure that takes seconds has instead."""

    stop: dict[str, Any]
    problem: dict[str, Any]
    scale: float | None = None
    prob: float = 0.0
    titles: list[str] | None = None
    without: list[str] = msgspec.field(default_factory=list)


class FigureFile(Table, frozen=True):
    """The file of a figure."""

    title: str
    paper: str
    about: str
    stop: dict[str, Any]
    panel: list[PanelTable]
    claim: list[dict[str, Any]]
    small: Small
    algorithm: list[dict[str, Any]] = msgspec.field(default_factory=list)


@dataclass(frozen=True)
class Panel:
    """One problem and network of a figure, and how to run its methods on them.

    Attributes
    ----------
    cost : float
        Milliseconds a round takes, roughly: for the estimate of the time left.
    """

    name: str
    title: str
    cost: float
    tables: dict[str, Any]

    def seeded(self, seed: int) -> dict[str, Any]:
        """The tables of an experiment file; the seed draws data (if drawn), network and start."""
        problem = dict(self.tables["problem"])
        if "synthetic" in problem:
            problem["synthetic"] = {**problem["synthetic"], "seed": seed}
        network = {**self.tables["network"], "seed": seed}
        return {**self.tables, "problem": problem, "network": network, "start": {"seed": seed}}

    @property
    def labels(self) -> list[str]:
        return [table["label"] for table in self.tables["algorithm"]]


@dataclass(frozen=True)
class Figure:
    """A figure: what it is about, its panels and the claims the paper makes of it."""

    name: str
    title: str
    paper: str
    about: str
    panels: list[Panel]
    claims: list[dict[str, Any]]
    settings: dict[str, Any]
    small: bool


def read(name: str, small: bool = False) -> Figure:
    """A figure by its name; ``small`` is its twin that needs no data files and takes seconds."""
    if name not in NAMES:
        near = did_you_mean(name, NAMES)
        raise SettingsError(f"figures are {', '.join(NAMES)}, or all of them; found {name!r}{near}")
    text = resources.files("destiny.experiments.paper").joinpath(f"{name}.toml").read_text(encoding="utf-8")
    return parse(name, tomllib.loads(text), small)


def parse(name: str, tables: dict[str, Any], small: bool = False) -> Figure:
    """A figure from the tables of its file."""
    figure = read_tables(FigureFile, tables, name, tables=True)
    less = figure.small
    stop = less.stop if small else figure.stop
    panels = []
    titles = less.titles if small else None
    dropped = less.without if small else []
    for place, table in enumerate(figure.panel[: None if titles is None else len(titles)]):
        problem, network = shrunk(table, less) if small else (table.problem, table.network)
        inner: dict[str, Any] = {
            "problem": problem,
            "network": network,
            "stop": stop,
            "algorithm": [m for m in (*figure.algorithm, *table.algorithm) if m["label"] not in dropped],
            "run": {"every": EVERY, "checkpoint": SAVE},
        }
        panels.append(Panel(table.name, table.title if titles is None else titles[place], table.cost, inner))
    names = [panel.name for panel in panels]
    claims = []
    for claim in figure.claim:
        shown = [panel for panel in claim.get("panels", names) if panel in names]
        others = {
            key: [n for n in claim[key] if n not in dropped] for key in ("than", "among") if key in claim
        }
        claims.append(claim | others | {"panels": shown})
    about = " ".join(figure.about.split())
    if small:
        about = f"A small twin on other data and sizes, to be quick; of the figure itself: {about}"
    return Figure(name, figure.title, figure.paper, about, panels, claims, tables, small)


def shrunk(table: PanelTable, less: Small) -> tuple[dict[str, Any], dict[str, Any]]:
    """The small problem, with the same reading of the scale, and a denser network if need be."""
    problem, network = dict(less.problem), dict(table.network)
    if "scale" in table.problem and less.scale is not None:
        problem["scale"] = less.scale
    network["prob"] = min(1.0, network["prob"] + less.prob)
    return problem, network

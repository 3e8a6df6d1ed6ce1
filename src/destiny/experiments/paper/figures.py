"""The paper's figures as data: the files in `destiny/experiments`, and the experiments they are made of."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from importlib import resources
from typing import Any

from destiny.errors import SettingsError
from destiny.experiments.schema import check
from destiny.validation import did_you_mean

NAMES = ("figure1", "figure2", "figure3", "figure4", "figure5")
TOP = {
    "title": str,
    "paper": str,
    "about": str,
    "stop": dict,
    "panel": list,
    "algorithm": list,
    "claim": list,
    "small": dict,
}
PANEL = {"name": str, "title": str, "cost": float, "problem": dict, "network": dict, "algorithm": list}
SMALL = {
    "stop": dict,
    "problem": dict,
    "scale": float,
    "prob": float,
    "titles": list[str],
    "without": list[str],
}
EVERY = 10  # steps between measurements: one costs a gradient and a value, a seventh of the ten steps
SAVE = 500


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
    check(tables, name, TOP, required=("title", "paper", "about", "panel", "stop", "claim", "small"))
    less = check(tables["small"], f"{name} [small]", SMALL, required=("stop", "problem"))
    stop = less["stop"] if small else tables["stop"]
    panels = []
    titles = less.get("titles") if small else None
    dropped = less.get("without", []) if small else []
    for place, table in enumerate(tables["panel"][: None if titles is None else len(titles)]):
        check(table, f"{name} [[panel]]", PANEL, required=("name", "title", "cost", "problem", "network"))
        own = shrunk(table, less) if small else table
        inner = {
            "problem": own["problem"],
            "network": own["network"],
            "stop": stop,
            "algorithm": [
                method
                for method in (*tables.get("algorithm", []), *table.get("algorithm", []))
                if method["label"] not in dropped
            ],
            "run": {"every": EVERY, "checkpoint": SAVE},
        }
        title = table["title"] if titles is None else titles[place]
        panels.append(Panel(table["name"], title, table["cost"], inner))
    names = [panel.name for panel in panels]
    claims = []
    for claim in tables["claim"]:
        shown = [panel for panel in claim.get("panels", names) if panel in names]
        others = {
            key: [n for n in claim[key] if n not in dropped] for key in ("than", "among") if key in claim
        }
        claims.append({**claim, **others, "panels": shown})
    about = " ".join(tables["about"].split())
    if small:
        about = f"A small twin on other data and sizes, to be quick; of the figure itself: {about}"
    return Figure(name, tables["title"], tables["paper"], about, panels, claims, tables, small)


def shrunk(table: dict[str, Any], less: dict[str, Any]) -> dict[str, Any]:
    """A panel on the small problem, with the same reading of the scale, and a denser network if need be."""
    problem, network = dict(less["problem"]), dict(table["network"])
    if "scale" in table["problem"] and "scale" in less:
        problem["scale"] = less["scale"]
    network["prob"] = min(1.0, network["prob"] + less.get("prob", 0.0))
    return {**table, "problem": problem, "network": network}

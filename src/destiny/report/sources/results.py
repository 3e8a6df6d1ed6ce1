"""What a report is about: figures of panels of seeds. A plain folder is one panel with one seed."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from destiny.errors import SettingsError
from destiny.report.sources import folder as folders
from destiny.report.sources.folder import Results, attempt, load


@dataclass(frozen=True)
class Panel:
    """The same experiment with several seeds."""

    name: str
    title: str
    seeds: list[Results]

    @property
    def first(self) -> Results:
        """Where pictures of one seed come from."""
        return self.seeds[0]

    @property
    def labels(self) -> list[str]:
        """The methods, in order of appearance."""
        return list(dict.fromkeys(run.label for results in self.seeds for run in results.runs))


@dataclass(frozen=True)
class Figure:
    """One experiment with its panels; ``facts`` is figure.json, empty for a plain folder."""

    path: Path
    title: str
    panels: list[Panel]
    facts: dict[str, Any] = field(default_factory=dict)
    claims: list[dict[str, Any]] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)

    @property
    def seeds(self) -> int:
        """The largest number of seeds in a panel."""
        return max((len(panel.seeds) for panel in self.panels), default=0)


def open_folder(path: Path) -> list[Figure]:
    """The figures in a folder: of a run, of a reproduced figure or a panel of it, or of several figures."""
    if not path.is_dir():
        raise SettingsError(
            f"report needs a folder of results; found {'a file' if path.exists() else 'none'}: {path}"
        )
    if (path / "figure.json").is_file():
        return [read_figure(path)]
    if folders.holds_results(path):
        return [plain(path)]
    if any(path.glob("seed-*/summary.json")):
        remarks: list[str] = []
        home = path.absolute()
        panel = read_panel(home.parent, {"name": home.name}, None, remarks)
        return [Figure(path, panel.title, [panel], remarks=remarks)]
    found = [read_figure(file.parent) for file in in_order(path.glob("*/figure.json"))]
    if not found:
        raise SettingsError(
            f"{path} holds no results: expected summary.json, figure.json, or folders with a figure.json; "
            "give the folder that was --out of a run"
        )
    return found


def plain(path: Path) -> Figure:
    """A folder of results as a figure with one panel."""
    results = folders.read(path)
    if not results.runs:
        raise SettingsError(f"{path} holds no run that can be shown: {' '.join(results.remarks)}")
    title, _, about = str(results.about.get("problem") or path.absolute().name).partition(": ")
    facts = {"about": about[:1].upper() + about[1:]}
    return Figure(path, title, [Panel("", "", [results])], facts, remarks=list(results.remarks))


def read_figure(path: Path) -> Figure:
    """figure.json, claims.json and the panels' seeds."""
    remarks: list[str] = []
    facts = load(path / "figure.json", dict, remarks) or {}
    claims = [c for c in load(path / "claims.json", list, remarks) or [] if isinstance(c, dict)]
    listed = facts.get("panels")
    if not isinstance(listed, list):
        listed = [{"name": p.name} for p in in_order(path.iterdir()) if any(p.glob("seed-*"))]
    told = facts.get("seeds")
    seeds = {f"seed-{seed}" for seed in told} if isinstance(told, list) and told else None
    panels = [attempt("figure.json", remarks, read_panel, path, entry, seeds, remarks) for entry in listed]
    found = [panel for panel in panels if panel and panel.seeds]
    return Figure(path, str(facts.get("title") or path.name), found, facts, claims, remarks)


def read_panel(path: Path, entry: dict[str, Any], told: set[str] | None, remarks: list[str]) -> Panel:
    """The seeds of a panel that are there, and that figure.json speaks of if it speaks of any."""
    name = str(entry["name"])
    if Path(name).name != name:
        raise ValueError(f"a panel is named {name[:40]}")
    homes = [p for p in in_order((path / name).glob("seed-*")) if folders.holds_results(p)]
    homes = [home for home in homes if told is None or home.name in told]
    seeds = [folders.read(home) for home in homes]
    if not seeds:
        remarks.append(f"Panel {name} has no results.")
    for results in seeds:
        remarks += [f"{name}, {results.path.name}: {remark}" for remark in results.remarks]
    return Panel(name, str(entry.get("title") or name), [results for results in seeds if results.runs])


def in_order(paths: Iterable[Path]) -> list[Path]:
    """By name, numbers within by their size: seed-2 comes before seed-10."""
    return sorted(
        paths, key=lambda path: [int(s) if s.isdigit() else s for s in re.split(r"(\d+)", str(path))]
    )

"""Results as figures with panels with seeds. A plain folder is one panel with one seed."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from destiny.errors import SettingsError
from destiny.report.sources import folder as folders
from destiny.report.sources.folder import FolderResults, attempt, is_linked, is_own_file, load


@dataclass(frozen=True)
class PanelResults:
    """The same experiment with several seeds."""

    name: str
    title: str
    seeds: list[FolderResults]

    @property
    def first(self) -> FolderResults:
        """The first seed, from which charts of a single seed are drawn."""
        return self.seeds[0]

    @property
    def labels(self) -> list[str]:
        """The methods, in order of appearance."""
        return list(dict.fromkeys(run.label for results in self.seeds for run in results.runs))


@dataclass(frozen=True)
class FigureResults:
    """One experiment with its panels; ``facts`` is figure.json, empty for a plain folder."""

    path: Path
    title: str
    panels: list[PanelResults]
    facts: dict[str, Any] = field(default_factory=dict)
    claims: list[dict[str, Any]] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)

    @property
    def seeds(self) -> int:
        """The largest number of seeds in a panel."""
        return max((len(panel.seeds) for panel in self.panels), default=0)


def open_folder(path: Path) -> list[FigureResults]:
    """Return the figures in a folder of a run, of a reproduced figure or panel, or of several figures.

    Raises SettingsError if there are no results.
    """
    if not path.is_dir():
        raise SettingsError(
            f"report needs a folder of results; found {'a file' if path.exists() else 'none'}: {path}"
        )
    if is_own_file(path / "figure.json", path):
        return [read_figure(path)]
    if folders.holds_results(path):
        return [figure_of_run(path)]
    if any(is_own_file(file, path) for file in path.glob("seed-*/summary.json")):
        remarks: list[str] = []
        home = path.resolve()
        panel = read_panel(home.parent, {"name": home.name}, None, remarks)
        return [FigureResults(path, panel.title, [panel], remarks=remarks)]
    files = [file for file in in_order(path.glob("*/figure.json")) if is_own_file(file, path)]
    figures = [read_figure(file.parent) for file in files]
    if not figures:
        raise SettingsError(
            f"{path} holds no results: expected summary.json, figure.json, or folders with a figure.json; "
            "give the folder that was --out of a run"
        )
    return figures


def figure_of_run(path: Path) -> FigureResults:
    """Return the results of one run as a figure with one panel; raise SettingsError if there are none."""
    results = folders.read(path)
    if not results.runs:
        raise SettingsError(f"{path} holds no run that can be shown: {' '.join(results.remarks)}")
    title, _, about = str(results.about.get("problem") or path.absolute().name).partition(": ")
    facts = {"about": about[:1].upper() + about[1:]}
    return FigureResults(path, title, [PanelResults("", "", [results])], facts, remarks=list(results.remarks))


def read_figure(path: Path) -> FigureResults:
    """Return a figure from figure.json, claims.json and the folders of its panels."""
    remarks: list[str] = []
    facts = load(path / "figure.json", dict, remarks) or {}
    claims = [c for c in load(path / "claims.json", list, remarks) or [] if isinstance(c, dict)]
    entries = facts.get("panels")
    if not isinstance(entries, list):
        entries = [{"name": p.name} for p in in_order(path.iterdir()) if any(p.glob("seed-*"))]
    numbers = facts.get("seeds")
    seeds = {f"seed-{seed}" for seed in numbers} if isinstance(numbers, list) and numbers else None
    panels = [attempt("figure.json", remarks, read_panel, path, entry, seeds, remarks) for entry in entries]
    panels_with_seeds = [panel for panel in panels if panel and panel.seeds]
    return FigureResults(
        path, str(facts.get("title") or path.name), panels_with_seeds, facts, claims, remarks
    )


def read_panel(path: Path, entry: dict[str, Any], names: set[str] | None, remarks: list[str]) -> PanelResults:
    """Return a panel with the seeds that have results; with ``names`` only those seeds.

    Raises ValueError if the panel's name is not that of a folder.
    """
    name = str(entry["name"])
    if Path(name).name != name:
        raise ValueError(f"a panel is named {name[:40]}")
    found = [p for p in in_order((path / name).glob("seed-*")) if not is_linked(p, path)]
    homes = [p for p in found if folders.holds_results(p)]
    homes = [home for home in homes if names is None or home.name in names]
    seeds = [folders.read(home) for home in homes]
    if not seeds:
        remarks.append(f"Panel {name} has no results.")
    for results in seeds:
        remarks += [f"{name}, {results.path.name}: {remark}" for remark in results.remarks]
    return PanelResults(name, str(entry.get("title") or name), [results for results in seeds if results.runs])


def in_order(paths: Iterable[Path]) -> list[Path]:
    """Return the paths sorted by name, with numbers by value: seed-2 comes before seed-10."""
    return sorted(
        paths, key=lambda path: [int(s) if s.isdigit() else s for s in re.split(r"(\d+)", str(path))]
    )

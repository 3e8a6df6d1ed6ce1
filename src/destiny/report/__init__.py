"""A report from the files of a run, and from nothing else: one HTML page, or its figures for papers."""

from __future__ import annotations

from pathlib import Path

from destiny.errors import SettingsError
from destiny.experiments.result_folder import replace
from destiny.report.html.page import render
from destiny.report.papers import FORMATS, draw
from destiny.report.sources.results import open_folder

__all__ = ["FORMATS", "report"]


def report(folder: str | Path, out: str | Path | None = None, format: str = "html") -> list[Path]:
    """Write a report of a folder of results, and return the files written.

    Parameters
    ----------
    folder : path
        What was ``--out`` of a run or of reproduced figures, or a part of the latter.
    out : path, optional
        The HTML file, by default ``report.html`` in the folder; for pictures their folder, by default
        ``figures`` in it.
    format : {"html", "png", "pdf", "svg"}
    """
    folder = Path(folder)
    if format not in ("html", *FORMATS):
        raise SettingsError(f"format must be one of html, {', '.join(FORMATS)}; found {format!r}")
    figures = open_folder(folder)
    if format != "html":
        return draw(figures, folder / "figures" if out is None else Path(out), format)
    path = folder / "report.html" if out is None else Path(out)
    if path.is_dir():
        raise SettingsError(f"the report must be a file; found a folder: {path}")
    text = render(figures)
    path.parent.mkdir(parents=True, exist_ok=True)
    replace(path, lambda aside: aside.write_text(text, encoding="utf-8", newline="\n"))
    return [path]

"""Reports from result files alone: one HTML page, or figures for papers."""

from __future__ import annotations

from pathlib import Path

from destiny.errors import SettingsError
from destiny.experiments.result_folder import replace
from destiny.report.html.page import render
from destiny.report.papers import FORMATS, draw
from destiny.report.sources.results import open_folder
from destiny.validation import did_you_mean

__all__ = ["FORMATS", "report"]


def report(folder: str | Path, out: str | Path | None = None, format: str = "html") -> list[Path]:
    """Write a report of a folder of results.

    Parameters
    ----------
    folder : path
        The ``--out`` folder of `destiny run`, `compare` or `reproduce`, or one figure or panel of the latter.
    out : path, optional
        The HTML file, by default ``report.html`` in the folder; for pictures a folder, by default
        ``figures`` in it.
    format : {"html", "png", "pdf", "svg"}
        A page with interactive charts, or one picture per chart.

    Returns
    -------
    list of Path
        The files written.

    Raises
    ------
    SettingsError
        If the folder holds no results, or the format is not one of these. Damaged files are no error: the
        report says what was left out.
    MissingExtraError
        If matplotlib is missing, for pictures.
    """
    folder = Path(folder)
    if format not in ("html", *FORMATS):
        near = did_you_mean(format, ("html", *FORMATS))
        raise SettingsError(f"format must be one of html, {', '.join(FORMATS)}; found {format!r}{near}")
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

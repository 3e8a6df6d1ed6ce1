"""A map of silos: where parties lie relative to each other, from six numbers of each (extra ``plot``)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from destiny.errors import ProblemError
from destiny.estimators.pictures import MARKS, codes_of_tables, label_axes, last_step, names_of_tables
from destiny.estimators.rows import is_silos, refuse_other_containers
from destiny.protocols import Array
from destiny.run.plots import COLORS, new_figure, save

HALF = math.sqrt(2 * math.log(2))  # radius that has half of a normal distribution in two dimensions
FLAT = 3  # rows below which an ellipse means nothing: two rows lie on a line
CORNERS = 120  # of a polygon that looks like an ellipse


@dataclass(frozen=True)
class SiloPlace:
    """Where the rows of one silo lie along two components: all that `silo_map` must be told of it.

    These are six numbers: of a silo of one row the mean is that row's place, of two it tells both rows.

    Attributes
    ----------
    rows : int
        Number of rows.
    mean : ndarray (2,)
        Mean of the coordinates; zeros without rows.
    covariance : ndarray (2, 2)
        Their covariance, divided by the number of rows minus 1; zeros below two rows.
    """

    rows: int
    mean: Array
    covariance: Array

    @classmethod
    def of(cls, model: Any, X: Any) -> SiloPlace:
        """Return the place of the table ``X`` of one party, who can compute it alone.

        ``model`` is a fitted PCA, or a pipeline that ends in one.
        """
        check_is_fitted(model)
        (codes,) = codes_of_tables(model, X)
        return cls.of_codes(codes)

    @classmethod
    def of_codes(cls, codes: Array) -> SiloPlace:
        """Return the place of rows with coordinates ``codes (rows, 2)``."""
        m = len(codes)
        if not m:
            return cls(0, np.zeros(2), np.zeros((2, 2)))
        mean = codes.mean(axis=0)
        centered = codes - mean
        return cls(m, mean, centered.T @ centered / max(1, m - 1))


def silo_map(
    model: Any,
    X: Any,
    path: str | PathLike[str] | None = None,
    axes: Any = None,
    labels: Sequence[str] | None = None,
) -> Any:
    """Draw where silos lie along the first two components, and return the axes.

    A mark is the mean of a silo, and the ellipse around it has half of its rows if they are normally
    distributed; the dashed one is that of all rows together. Parties that differ by more than the rows of one
    of them, in their patients or their instruments, lie apart.

    Parameters
    ----------
    model : DecentralizedPCA
        Fitted with at least two components, or a pipeline that ends in such a PCA; another transformer with
        ``explained_variance_ratio_``, as `DecentralizedLDA`, will do.
    X : Silos, list of array-like (rows, n_features), or list of SiloPlace
        The rows of each party, or what each has told: six numbers, `SiloPlace.of`.
    path : path, optional
        Picture file to write; its suffix chooses the format.
    axes : matplotlib Axes, optional
        Where to draw; by default in a new figure, which notebooks show if no ``path`` is given.
    labels : sequence of str, optional
        Names of the parties; by default those of ``X``.
    """
    check_is_fitted(model)
    last = last_step(model)
    if len(last.explained_variance_ratio_) < 2:
        raise ProblemError("a map of silos needs two components; found one: fit with two or more")
    places = _places(model, X)
    names = names_of_tables(X, labels, len(places))
    own = axes is None
    if axes is None:
        axes = new_figure(path, (5.5, 4.8)).add_subplot()
    for k, (name, place) in enumerate(zip(names, places, strict=True)):
        color, mark = COLORS[k % len(COLORS)], MARKS[k // len(COLORS) % len(MARKS)]
        rows = f"{name} ({place.rows} row{'s' * (place.rows != 1)})"
        shown = place.mean[:, None] if place.rows else np.empty((2, 0))
        axes.plot(*shown, mark, color=color, markersize=8, label=rows)
        if place.rows >= FLAT:
            axes.fill(*_ellipse(place), color=color, alpha=0.15, linewidth=0)
            axes.plot(*_ellipse(place), color=color, linewidth=1.2)
    everybody = _together(places)
    if everybody.rows >= FLAT:
        axes.plot(*_ellipse(everybody), "--", color="0.4", linewidth=1.2, label="all")
    label_axes(axes, last)
    axes.set_aspect("equal", adjustable="datalim")  # distances on the map are distances
    axes.margins(0.12)
    if own:  # below the map: within it, it would cover silos
        axes.figure.legend(loc="outside lower center", ncols=3, frameon=False, fontsize=9)
    else:
        axes.legend(frameon=False, fontsize=9)
    save(axes, path)
    return axes


def _places(model: Any, X: Any) -> list[SiloPlace]:
    """Return what is told of each silo; raise ProblemError unless ``X`` has several tables or places."""
    if isinstance(X, list | tuple) and X and all(isinstance(item, SiloPlace) for item in X):
        return list(X)
    refuse_other_containers(X)
    if not is_silos(X):
        raise ProblemError(
            "a map of silos needs the tables of several parties, or what SiloPlace.of tells of each, in a "
            f"list; found {type(X).__name__}"
        )
    return [SiloPlace.of_codes(codes) for codes in codes_of_tables(model, X)]


def _together(places: Sequence[SiloPlace]) -> SiloPlace:
    """Return the place of all rows, from those of the silos."""
    m = sum(place.rows for place in places)
    mean = sum((place.rows * place.mean for place in places), np.zeros(2)) / max(1, m)
    scatter = np.zeros((2, 2))
    for place in places:
        apart = place.mean - mean
        scatter += max(0, place.rows - 1) * place.covariance + place.rows * np.outer(apart, apart)
    return SiloPlace(m, mean, scatter / max(1, m - 1))


def _ellipse(place: SiloPlace) -> Array:
    """Return the ellipse around half of the rows as a polygon, ``(2, corners)``."""
    angles = np.linspace(0, 2 * np.pi, CORNERS)
    values, vectors = np.linalg.eigh(place.covariance)
    circle = np.stack([np.cos(angles), np.sin(angles)])
    reach = HALF * vectors * np.sqrt(np.maximum(values, 0.0))
    return np.asarray(place.mean[:, None] + reach @ circle)

"""Pictures of a fitted PCA (extra ``plot``)."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from destiny.errors import ProblemError, SettingsError
from destiny.estimators.rows import is_silos
from destiny.problems.data import Silos
from destiny.protocols import Array
from destiny.run.plots import COLORS, new_figure, save

MARKS = ("o", "s", "^", "D", "v", "P", "X")
ARROWS = 20  # features with an arrow, the longest: more cover each other


def scree_plot(pca: Any, path: str | PathLike[str] | None = None, axes: Any = None) -> Any:
    """Draw the share of the variance that each component explains, and their sum, and return the axes.

    Parameters
    ----------
    pca : DecentralizedPCA
        Fitted, or a pipeline that ends in one; one of scikit-learn will do.
    path : path, optional
        Picture file to write; its suffix chooses the format.
    axes : matplotlib Axes, optional
        Where to draw; by default in a new figure, which notebooks show if no ``path`` is given.
    """
    check_is_fitted(pca)
    share = np.asarray(last_step(pca).explained_variance_ratio_)
    places = np.arange(1, len(share) + 1)
    if axes is None:
        axes = new_figure(path, (5, 3.4)).add_subplot()
    axes.bar(places, share, color=COLORS[0], label="each")
    axes.plot(places, np.cumsum(share), "o-", color=COLORS[1], markersize=4, label="up to here")
    axes.set_xlabel("component")
    axes.set_ylabel("share of the variance")
    axes.set_ylim(0, 1.02)
    axes.set_xlim(0.4, len(share) + 0.6)
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=9)
    save(axes, path)
    return axes


def biplot(
    pca: Any,
    X: Any,
    path: str | PathLike[str] | None = None,
    axes: Any = None,
    labels: Sequence[str] | None = None,
) -> Any:
    """Draw rows along the first two components, with an arrow for each feature, and return the axes.

    Arrows are the loadings, component times standard deviation, to a common scale: a feature whose arrow is
    long varies much along the two components, and features whose arrows have one direction vary together.

    Parameters
    ----------
    pca : DecentralizedPCA
        Fitted with at least two components, or a pipeline that ends in such a PCA; one of scikit-learn will
        do.
    X : array-like (rows, n_features), a list of them, or Silos
        Rows to show; of a list of tables, each in a color of its own.
    path, axes
        As in `scree_plot`.
    labels : sequence of str, optional
        Names of the tables; by default those of the parties.
    """
    check_is_fitted(pca)
    model, pca = pca, last_step(pca)
    if len(pca.components_) < 2:
        raise ProblemError("a biplot needs two components; found one: fit with n_components of at least 2")
    tables = codes_of_tables(model, X)
    parties = names_of_tables(X, labels, len(tables))
    if axes is None:
        axes = new_figure(path, (5.5, 5)).add_subplot()
    reach = 0.0
    for k, (party, codes) in enumerate(zip(parties, tables, strict=True)):
        mark = MARKS[k // len(COLORS) % len(MARKS)]
        axes.scatter(*codes.T, s=14, alpha=0.6, color=COLORS[k % len(COLORS)], marker=mark, label=party)
        reach = max(reach, float(np.abs(codes).max(initial=0.0)))
    loadings = pca.components_[:2].T * np.sqrt(pca.explained_variance_[:2])
    lengths = np.linalg.norm(loadings, axis=1)
    names = _feature_names(pca, len(loadings))
    for j in np.argsort(-lengths, kind="stable")[:ARROWS]:
        if lengths[j] == 0:
            continue
        x, y = loadings[j] * (0.9 * (reach or 1.0) / lengths.max())
        style = {"arrowstyle": "->", "color": "0.25"}
        axes.annotate("", (x, y), (0, 0), arrowprops=style)
        side = {"ha": "left" if x >= 0 else "right", "va": "bottom" if y >= 0 else "top"}
        axes.annotate(names[j], (x, y), fontsize=9, color="0.1", **side)
    label_axes(axes, pca)
    axes.margins(0.25, 0.12)  # for the names
    if len(tables) > 1:
        axes.legend(frameon=False, fontsize=9)
    save(axes, path)
    return axes


def last_step(model: Any) -> Any:
    """Return the last step of a pipeline; another model as it is."""
    return model[-1] if isinstance(model, Pipeline) else model


def codes_of_tables(model: Any, X: Any) -> list[Array]:
    """Return the coordinates of the rows of each table along the first two components."""
    tables = X if is_silos(X) else [X]
    # Silos as a whole: their tables alone would have no column names.
    parts = model.transform(X) if isinstance(X, Silos) else map(model.transform, tables)
    return [np.asarray(part, dtype=np.float64)[:, :2] for part in parts]


def names_of_tables(X: Any, labels: Sequence[str] | None, count: int) -> list[str]:
    """Return the names of some tables; raise SettingsError if ``labels`` are too few or too many."""
    if labels is not None and len(labels) != count:
        raise SettingsError(f"labels must name each of the {count} tables; found {len(labels)}")
    if labels is not None:
        return list(labels)
    return list(X.parties) if isinstance(X, Silos) else [f"silo {k}" for k in range(count)]


def label_axes(axes: Any, pca: Any) -> None:
    """Name the first two components, with their shares of the variance."""
    share = pca.explained_variance_ratio_
    axes.set_xlabel(f"component 1 ({share[0]:.0%})")
    axes.set_ylabel(f"component 2 ({share[1]:.0%})")
    axes.spines[["top", "right"]].set_visible(False)


def _feature_names(pca: Any, n: int) -> list[str]:
    """Return the names of the features in `fit`, or their numbers."""
    return [str(name) for name in getattr(pca, "feature_names_in_", range(n))]

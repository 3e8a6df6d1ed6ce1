"""Scree plots, biplots and maps of silos show the numbers of the fit."""

import numpy as np
import pytest

import destiny

pytest.importorskip("sklearn")
pytest.importorskip("matplotlib")
pytest.importorskip("pandas")

import pandas
from matplotlib.figure import Figure
from sklearn.datasets import load_iris
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline

from destiny.estimators import (
    DecentralizedLDA,
    DecentralizedPCA,
    DecentralizedScaler,
    SiloPlace,
    biplot,
    scree_plot,
    silo_map,
)

ROWS = np.random.default_rng(0).standard_normal((60, 4)) * [4, 3, 2, 0]
FRAMES = [
    pandas.DataFrame(part, columns=["age", "weight", "pulse", "none"]) for part in np.split(ROWS, [20, 30])
]
FITTED = DecentralizedPCA(random_state=0).fit(FRAMES)


def test_a_scree_plot(tmp_path):
    axes = scree_plot(FITTED, tmp_path / "scree.png")
    assert (tmp_path / "scree.png").read_bytes()[:4] == b"\x89PNG"
    np.testing.assert_allclose([bar.get_height() for bar in axes.patches], FITTED.explained_variance_ratio_)
    assert axes.lines[0].get_ydata()[-1] == pytest.approx(1)
    given = Figure().add_subplot()
    assert scree_plot(PCA(2).fit(ROWS), axes=given) is given


def test_a_biplot_of_silos():
    axes = biplot(FITTED, FRAMES, axes=Figure().add_subplot(), labels=["a", "b", "c"])
    offsets = [np.asarray(dots.get_offsets()) for dots in axes.collections]
    for points, frame in zip(offsets, FRAMES, strict=True):
        np.testing.assert_allclose(points, FITTED.transform(frame)[:, :2])
    names = [text.get_text() for text in axes.texts]
    assert [name for name in names if name] == [
        "age",
        "weight",
        "pulse",
    ]  # by length; a constant has no arrow
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["a", "b", "c"]
    assert axes.get_xlabel() == f"component 1 ({FITTED.explained_variance_ratio_[0]:.0%})"


def test_a_biplot_of_one_table_and_no_names():
    axes = biplot(PCA(2).fit(ROWS), ROWS, axes=Figure().add_subplot())
    assert axes.get_legend() is None
    assert {text.get_text() for text in axes.texts} >= {"0", "1"}


def test_a_pipeline_over_silos_names_parties_and_columns(recwarn):
    silos = destiny.Silos(dict(zip(("north", "south", "west"), FRAMES, strict=True)))
    model = make_pipeline(DecentralizedScaler(), DecentralizedPCA(3, random_state=0)).fit(silos)
    axes = biplot(model, silos, axes=Figure().add_subplot())
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["north", "south", "west"]
    assert {"age", "weight", "pulse"} <= {text.get_text() for text in axes.texts}
    assert len(scree_plot(model, axes=Figure().add_subplot()).patches) == 3
    assert not recwarn.list


def share_within(polygon, points):
    """Which of the points are within a closed polygon."""
    from matplotlib.path import Path

    return Path(polygon).contains_points(points).mean()


def test_a_map_of_silos_has_means_and_ellipses_with_half_of_the_rows():
    rng = np.random.default_rng(2)
    silos = [
        rng.standard_normal((4000, 3)) @ rng.standard_normal((3, 3)) + shift
        for shift in ([0, 0, 0], [4, 1, 0])
    ]
    pca = DecentralizedPCA(2, random_state=0).fit(silos)
    axes = silo_map(pca, silos, axes=Figure().add_subplot(), labels=["a", "b"])
    marks, ellipses = axes.lines[0:4:2], axes.lines[1:4:2]
    codes = pca.transform(silos)
    for mark, ellipse, own in zip(marks, ellipses, codes, strict=True):
        np.testing.assert_allclose(np.ravel(mark.get_xydata()), own.mean(axis=0), atol=1e-12)
        assert share_within(ellipse.get_xydata(), own) == pytest.approx(0.5, abs=0.04)
    together = axes.lines[4].get_xydata()
    np.testing.assert_allclose(together.mean(axis=0), 0, atol=0.05)  # the center of all rows
    spread = np.ptp(together, axis=0) / 2
    np.testing.assert_allclose(spread, np.sqrt(2 * np.log(2) * pca.explained_variance_), rtol=1e-3)
    texts = [text.get_text() for text in axes.get_legend().get_texts()]
    assert texts == ["a (4000 rows)", "b (4000 rows)", "all"]


def test_a_map_is_drawn_from_what_parties_tell(tmp_path):
    places = [SiloPlace.of(FITTED, frame) for frame in FRAMES]
    own = FITTED.transform(FRAMES[1])[:, :2]
    np.testing.assert_allclose(places[1].mean, own.mean(axis=0))
    np.testing.assert_allclose(places[1].covariance, np.cov(own.T))
    told = silo_map(FITTED, places, tmp_path / "map.png")
    assert (tmp_path / "map.png").read_bytes()[:4] == b"\x89PNG"
    shown = silo_map(FITTED, FRAMES, axes=Figure().add_subplot())
    for one, other in zip(told.lines, shown.lines, strict=True):
        np.testing.assert_array_equal(one.get_xydata(), other.get_xydata())


def test_silos_of_few_rows_have_no_ellipse_and_other_projections_have_maps():
    few = [FRAMES[0][:1], FRAMES[1][:2], FRAMES[2][:0]]
    axes = silo_map(FITTED, few, axes=Figure().add_subplot())
    assert [len(line.get_xydata()) for line in axes.lines[:3]] == [1, 1, 0]  # marks alone
    assert len(axes.patches) == 0
    X, y = load_iris(return_X_y=True)
    tables = [X[::2], X[1::2]]
    lda = DecentralizedLDA(random_state=0).fit(tables, [y[::2], y[1::2]])
    assert len(silo_map(lda, tables, axes=Figure().add_subplot()).patches) == 2


def test_refused_in_one_sentence():
    with pytest.raises(destiny.ProblemError, match=r"needs the tables of several parties.*found ndarray"):
        silo_map(FITTED, ROWS)
    with pytest.raises(destiny.ProblemError, match="a map of silos needs two components; found one"):
        silo_map(PCA(1).fit(ROWS), [ROWS, ROWS])
    with pytest.raises(destiny.ProblemError, match="a biplot needs two components; found one"):
        biplot(PCA(1).fit(ROWS), ROWS)
    with pytest.raises(destiny.SettingsError, match="name each of the 3 tables; found 2"):
        biplot(FITTED, FRAMES, labels=["a", "b"])
    for draw in (scree_plot, lambda pca: biplot(pca, ROWS), lambda pca: silo_map(pca, FRAMES)):
        with pytest.raises(NotFittedError):
            draw(DecentralizedPCA())


def test_estimators_show_themselves_in_notebooks():
    assert "DecentralizedPCA" in FITTED._repr_html_()

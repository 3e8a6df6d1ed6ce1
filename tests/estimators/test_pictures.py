"""Scree plots and biplots show the numbers of the fit."""

import numpy as np
import pytest

import destiny

pytest.importorskip("sklearn")
pytest.importorskip("matplotlib")
pytest.importorskip("pandas")

import pandas
from matplotlib.figure import Figure
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError

from destiny.estimators import DecentralizedPCA, biplot, scree_plot

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


def test_refused_in_one_sentence():
    with pytest.raises(destiny.ProblemError, match="a biplot needs two components; found one"):
        biplot(PCA(1).fit(ROWS), ROWS)
    with pytest.raises(destiny.SettingsError, match="name each of the 3 tables; found 2"):
        biplot(FITTED, FRAMES, labels=["a", "b"])
    for draw in (scree_plot, lambda pca: biplot(pca, ROWS)):
        with pytest.raises(NotFittedError):
            draw(DecentralizedPCA())


def test_estimators_show_themselves_in_notebooks():
    assert "DecentralizedPCA" in FITTED._repr_html_()

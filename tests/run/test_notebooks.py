"""What objects show in notebooks, and pictures that take and return axes."""

import xml.etree.ElementTree as ET

import pytest

import destiny
from destiny import networks, notebook
from tests.helpers.small_problems import small_problem

pytest.importorskip("matplotlib")

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.figure import Figure


@pytest.fixture(scope="module")
def comparison():
    problem = small_problem("pca")
    methods = {"<plain>": destiny.Destiny(), "fast": destiny.DestinyAccelerated()}
    return destiny.compare(problem, networks.ring(problem.agents), methods, rounds=150)


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


def cells(html):
    """The texts of all cells; raises if a tag is not closed."""
    root = ET.fromstring(html)
    return ["".join(cell.itertext()) for cell in root.iter() if cell.tag in ("td", "th")]


def test_a_result(comparison):
    result = comparison.results["fast"]
    html = result._repr_html_()
    assert result.reason in "".join(ET.fromstring(html).itertext())
    assert f"{result.measures.objective:.12g}" in cells(html)
    assert any(f"{result.rounds} rounds" in text for text in cells(html))


def test_a_comparison_escapes_labels_and_marks_the_best(comparison):
    html = comparison._repr_html_()
    assert "&lt;plain&gt;" in html
    assert cells(html).count("<plain>") == 1
    assert {"rounds", "gradients", "stationarity", "stopped"} <= set(cells(html))
    assert len(list(ET.fromstring(html).iter("b"))) > 0


def test_a_network_has_a_picture_of_itself():
    network = networks.ring(5)
    root = ET.fromstring(network._repr_html_())
    assert len(list(root.iter("{http://www.w3.org/2000/svg}circle"))) == 5
    assert len(list(root.iter("{http://www.w3.org/2000/svg}line"))) == 5
    assert {"agents", "links", "lambda"} <= set(cells(network._repr_html_()))
    assert "<svg" not in networks.ring(200)._repr_html_()  # its layout would take seconds


def test_a_diagnosis():
    problem = small_problem("pca")
    diagnosis = destiny.diagnose(problem, networks.ring(problem.agents))
    found = cells(diagnosis._repr_html_())
    for finding in diagnosis.findings:
        assert finding.text in found
    for label in diagnosis.predictions:
        assert label in found


def test_tables_escape_everything():
    assert cells(notebook.table([("<b>", notebook.Strong("a & b"))], ["x", "y"])) == [
        "x",
        "y",
        "<b>",
        "a & b",
    ]


def test_pictures_take_and_return_axes(comparison, tmp_path):
    plt.close("all")  # of other tests
    figure = Figure()
    given = figure.subplots(1, 3)
    assert comparison.plot(axes=given) is given
    assert [len(axis.lines) for axis in given] == [2, 2, 2]
    assert comparison.results["fast"].plot(tmp_path / "run.svg", axes=given) is given
    assert [len(axis.lines) for axis in given] == [3, 3, 3]
    assert (tmp_path / "run.svg").stat().st_size > 1000
    assert not plt.get_fignums()  # nothing global for a file or for given axes
    shown = comparison.plot(x="seconds")
    assert shown[0].get_xlabel() == "seconds"
    assert len(plt.get_fignums()) == 1
    with pytest.raises(destiny.SettingsError, match=r"axes must be three, .* found 2"):
        comparison.plot(axes=given[:2])


def test_a_network_is_drawn_into_axes():
    axes = Figure().add_subplot()
    network = networks.erdos_renyi(8, prob=0.5, seed=0)
    assert network.plot(axes) is axes
    assert len(axes.collections[1].get_offsets()) == 8
    assert network.plot().figure.number in plt.get_fignums()


def test_a_problem_says_what_it_is():
    problem = destiny.problems.pca.synthetic(n=6, m=30, p=2, xi=0.5, agents=3, seed=0)
    sentence = "PCA of 3 agents, 30 samples in rows x 6 features, p = 2"
    assert repr(problem) == sentence
    assert repr(destiny.problems.centered(problem)) == f"{sentence}, centered"


def test_one_of_a_kind_is_singular():
    problem = destiny.problems.pca.synthetic(n=6, m=30, p=2, xi=0.5, agents=3, seed=0)
    result = destiny.solve(problem, networks.complete(3), "averaged-model")
    assert (result.steps, result.gradients) == (1, 1)
    assert f"1 step, {result.rounds} rounds, {result.sent} sent, 1 gradient, " in str(result)
    assert f"1 step, {result.rounds} rounds, {result.sent} sent, 1 gradient" in cells(result._repr_html_())

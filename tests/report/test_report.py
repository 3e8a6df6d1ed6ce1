"""The report: what it reads, what it says, and what becomes of files that are old, odd or damaged."""

import itertools
import json
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from xml.etree import ElementTree

import networkx as nx
import numpy as np
import pytest

import destiny
from destiny import cli
from destiny.errors import DestinyError
from destiny.experiments import result_folder
from destiny.report import papers, report
from destiny.report.charts import atoms, curves
from destiny.report.charts.series import Charts
from destiny.report.html import page, wording
from destiny.report.sources.folder import FolderResults, MethodResults
from destiny.report.sources.results import PanelResults, open_folder
from destiny.run import plots
from destiny.run.history import COLUMNS, History
from tests.helpers import report_folders as folders


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Folders of small real runs; tests that change one copy it."""
    home = tmp_path_factory.mktemp("results")
    folders.pca(home / "pca")
    folders.olsr(home / "olsr")
    folders.sdl(home / "sdl")
    folders.reproduced(home / "OUT" / "figure3")
    shutil.copytree(home / "OUT" / "figure3", home / "OUT" / "figure10")
    return home


@pytest.fixture
def copy(made, tmp_path):
    return lambda name: shutil.copytree(made / name, tmp_path / name)


class Seen(HTMLParser):
    """The elements of a page, its text, and what its scripts hold."""

    def __init__(self, path):
        super().__init__()
        self.elements, self.text, self.scripts, self.inside = [], "", [], []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        self.inside.append(tag)
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag):
        while self.inside and self.inside.pop() != tag:
            pass

    def handle_data(self, data):
        if self.inside and self.inside[-1] == "script":
            self.scripts[-1] += data
        elif not self.inside or self.inside[-1] != "style":
            self.text += f"{data} "

    def all(self, name):
        return [attributes for tag, attributes in self.elements if tag == name]

    @property
    def data(self):
        return json.loads(self.scripts[0])


def see(folder):
    (path,) = report(folder)
    return Seen(path)


# ------------------------------------------------------------------------------------- what runs write


def test_the_network_is_described_by_true_facts(made):
    facts = json.loads((made / "pca" / "network.json").read_text())
    graph = nx.Graph(facts["links"])
    assert facts["agents"] == 6
    assert facts["diameter"] == nx.diameter(graph)
    assert facts["degrees"] == [graph.degree[agent] for agent in range(6)]
    network = destiny.networks.erdos_renyi(6, prob=0.5, seed=0)
    assert facts["lambda"] == pytest.approx(np.linalg.norm(network.W.toarray() - 1 / 6, 2))
    assert np.shape(facts["positions"]) == (6, 2)
    assert facts["changing"] is False


def test_networks_that_change_or_tell_little_are_described_too(tmp_path):
    base = destiny.networks.ring(5)

    class Bare:
        agents = 5

        def at(self, round):
            return base.at(round)

    problem = destiny.problems.pca.synthetic(n=6, m=30, p=1, xi=0.5, agents=5)
    turns = destiny.networks.periodic([base, destiny.networks.star(5)])
    for name, network, changing in (
        ("loss", destiny.networks.link_loss(base, 0.2), True),
        ("turns", turns, True),
        ("bare", Bare(), True),
    ):
        result_folder.describe(tmp_path / name, problem, network, {})
        facts = json.loads((tmp_path / name / "network.json").read_text())
        links = {tuple(link) for link in facts["links"]}
        assert links >= {(0, 1), (1, 2), (2, 3), (3, 4), (0, 4)}
        assert len(facts["positions"]) == 5
        assert facts["changing"] is changing
    assert {(0, 2), (0, 3)} <= {
        tuple(x) for x in json.loads((tmp_path / "turns/network.json").read_text())["links"]
    }


def test_the_spectrum_is_that_of_the_pooled_data(made):
    problem = destiny.problems.pca.synthetic(n=12, m=96, p=2, xi=0.7, agents=6, seed=0)
    A = np.concatenate([problem.data.load(agent).table for agent in range(6)]).T
    expected = np.linalg.svd(A, compute_uv=False) ** 2
    spectrum = json.loads((made / "pca" / "extras.json").read_text())["spectrum"]
    np.testing.assert_allclose(spectrum["pooled"], expected, rtol=1e-10)
    for label in folders.METHODS:  # both converged
        np.testing.assert_allclose(spectrum["found"][label], expected[:2], rtol=1e-7)


def test_the_class_map_is_the_plane_in_which_projections_spread_most(made):
    extras = json.loads((made / "olsr" / "extras.json").read_text())
    rng = np.random.default_rng(0)  # as tests/helpers/report_folders.py draws them
    kinds = rng.integers(0, 3, 60)
    C = rng.standard_normal((8, 60)) / 4 + np.eye(8)[kinds].T
    X = np.load(made / "olsr" / "DESTINY" / "solution.npz")["X"]
    Y = (C.T @ X) - (C.T @ X).mean(axis=0)
    expected = (Y @ np.linalg.eigh(Y.T @ Y)[1][:, :-3:-1]).T
    found = np.array([extras["points"]["x"], extras["points"]["y"]])
    for mine, theirs in zip(found, expected, strict=True):
        assert abs(np.corrcoef(mine, theirs)[0, 1]) > 0.9999
    assert extras["points"]["class"] == kinds.tolist()
    assert extras["classes"] == ["ant", "bee", "<cat>"]


def test_nothing_of_the_data_is_written_where_they_are_others(tmp_path):
    problem = destiny.problems.pca.synthetic(n=6, m=30, p=1, xi=0.5, agents=5)
    result_folder.describe(tmp_path, problem, destiny.networks.ring(5), {}, data=False)
    assert json.loads((tmp_path / "extras.json").read_text()) == {"kind": "pca"}


def test_targets_that_are_no_classes_are_not_mapped(tmp_path):
    problem = destiny.problems.olsr.synthetic(n=6, m=30, p=2, agents=3)
    assert problem.portrait({"a": np.eye(6)[:, :2]}) == {"kind": "olsr"}


# ------------------------------------------------------------------------------------------ curves


def history(rounds, stationarity, steps=None):
    made = History()
    for k, (round, value) in enumerate(zip(rounds, stationarity, strict=True)):
        row = dict.fromkeys(COLUMNS, 1e-3) | {"step": k if steps is None else steps[k], "round": round}
        made.add(**row | {"scalars": 10 * round, "seconds": round / 2, "stationarity": value})
    return made


def test_seeds_are_brought_together_by_round_and_keep_their_last_value():
    found = [history([0, 10, 20], [1, 0.1, 0.01]), history([0, 20, 40], [1, 0.3, 0.2]), history([0], [4])]
    curve = curves.curve("a", found, curves.LineStyle(0))
    assert curve.x["round"].tolist() == [0, 10, 20, 40]
    assert curve.middle["stationarity"].tolist() == [1, 1, 0.3, 0.2]  # of (1 1 4), (.1 1 4), (.01 .3 4), ...
    assert curve.low["stationarity"].tolist() == [1, 0.1, 0.01, 0.01]
    assert curve.high["stationarity"].tolist() == [4, 4, 4, 4]
    assert curve.x["scalars"].tolist() == [0, 0, 200, 200]


def test_what_a_log_scale_cannot_show_is_a_gap():
    values = [1, 0.0, np.nan, np.inf, -1, 1e-9]
    curve = curves.curve("a", [history(range(0, 60, 10), values)], curves.LineStyle(0))
    drawn = curve.middle["stationarity"]
    assert np.isfinite(drawn).tolist() == [True, True, False, False, False, True]
    assert drawn[1] == plots.ZERO
    assert not np.isfinite(curve.middle["consensus"][0])  # the start, where all agents are equal


def test_a_run_of_one_step_is_seen_in_every_chart_and_panel():
    """Two measurements, of which consensus and feasibility leave the first out: one point each."""
    figure = pytest.importorskip("matplotlib.figure")
    made = history([0, 9], [1, 1e-14])
    curve = curves.curve("a", [made], curves.LineStyle(0))
    charts = Charts()
    charts.curves([curve], "a", "rounds")
    drawings = [
        papers.draw_convergence([curve], "rounds", False).axes,
        plots.convergence({"a": made}, axes=figure.Figure().subplots(1, 3)),
    ]
    for k, points in enumerate([2, 1, 1]):
        (trace,) = charts.charts[k]["traces"]
        assert (sum(y is not None for y in trace["y"]), trace["symbol"]) == (points, "circle")
        for axes in drawings:
            (line,) = axes[k].get_lines()
            assert (np.isfinite(line.get_ydata()).sum(), line.get_marker()) == (points, "o")
            low, high = axes[k].get_xlim()
            assert low < 0 < 9 < high < 10
    long = curves.curve("a", [history(range(0, 400, 10), np.geomspace(1, 1e-8, 40))], curves.LineStyle(0))
    charts.curves([long], "b", "rounds")
    assert all("symbol" not in chart["traces"][0] for chart in charts.charts[3:])


def test_curves_are_thinned_and_keep_their_ends():
    grid = curves.thin(np.arange(100_000.0))
    assert len(grid) <= 400
    assert (grid[0], grid[-1]) == (0, 99_999)
    assert curves.thin(np.arange(7.0)).tolist() == list(range(7))


def test_methods_have_different_looks_and_the_page_the_colors_of_the_pictures():
    styles = [curves.LineStyle(k) for k in range(28)]
    assert len({(style.color, style.dash) for style in styles}) == 28
    light = page.asset("page.css").split("@media")[0]
    found = [re.search(rf"--c{k}: (#\w+)", light).group(1).upper() for k in range(len(plots.COLORS))]
    assert found == [color.upper() for color in plots.COLORS]


def panel_of(*histories):
    seeds = [
        FolderResults(None, [MethodResults(label, {}, h, None) for label, h in some.items()], {}, {}, {}, {})
        for some in histories
    ]
    return PanelResults("p", "p", seeds)


def test_figures_are_told_in_words():
    quick, slow = history([0, 10, 20], [1, 1e-3, 1e-9]), history([0, 10, 30], [1, 0.5, 0.4])
    for each in (quick, slow):
        each.rows = [(*row[:6], row[5], row[5]) for row in each.rows]  # all three measures alike
    told = wording.convergence(panel_of({"quick": quick, "slow": slow}))
    assert told == "quick reaches 10⁻⁸ after 20 rounds; slow does not reach 10⁻²."
    told = wording.convergence(panel_of({"quick": quick}, {"quick": quick}))
    assert told == "quick reaches 10⁻⁸ after 20 rounds (median of 2 seeds)."
    assert wording.spread(np.array([3.0, np.inf, 5.0])) == "5 (3 to 5); not reached with 1 of 3 seeds"
    assert wording.spread(np.array([np.inf, 3.0])) == "not reached with 1 of 2 seeds, else 3"
    assert wording.spread(np.array([np.inf])) == "not reached"
    assert wording.spread(np.array([1.0, 9.0, 2.0])) == "2 (1 to 9)"


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (3.1e-9, "3.1 \u00d7 10⁻⁹"),
        (0, "0"),
        (0.25, "0.25"),
        (None, wording.NONE),
        (np.nan, wording.NONE),
        ("x", wording.NONE),
    ],
)
def test_numbers_are_told_in_words(value, told):
    assert wording.scientific(value).replace("\u202f", " ") == told


# ------------------------------------------------------------------------------------------ the page


def test_every_part_of_a_run_is_on_its_page(made):
    seen = see(made / "pca")
    for part in ("Convergence", "Network", "Spectrum", "How it was made", "Versions", np.__version__):
        assert part in seen.text
    entry = json.loads((made / "pca" / "summary.json").read_text())[0]
    assert entry["reason"] in seen.text
    assert "Left out" not in seen.text
    x = seen.data["x"][0]
    rows = History.from_csv(made / "pca" / "DESTINY" / "history.csv")
    assert x["round"] == rows["round"].tolist()
    np.testing.assert_allclose(x["scalars"], rows["scalars"], rtol=1e-5)


def test_a_reproduced_figure_opens_at_every_level(made):
    for folder in ("OUT", "OUT/figure3", "OUT/figure3/prob-0.4", "OUT/figure3/prob-0.4/seed-0"):
        seen = see(made / folder)
        assert ("Denser networks" in seen.text) == ("prob" not in folder)
        assert ("(median of 2 seeds)" in seen.text) == ("seed" not in folder)
    text = see(made / "OUT" / "figure3").text
    for said in (
        "holds",
        "does not hold",
        "not decided",
        "prob = 0.4",
        "prob = 0.9",
        "Section 4.2, Figure 3",
    ):
        assert said in text
    needed = []
    for seed in (0, 1):
        rows = History.from_csv(made / f"OUT/figure3/prob-0.4/seed-{seed}/DESTINY/history.csv")
        worst = np.max([rows[m] for m in ("stationarity", "consensus", "feasibility")], axis=0)
        needed.append(rows["round"][np.argmax(worst <= 1e-4)])
    assert f"{max(needed):.0f}" in text  # of two seeds the worse


def test_pictures_of_atoms_are_the_columns_of_the_solution(made):
    import io

    from matplotlib.image import imread

    X = np.load(made / "sdl" / "DESTINY" / "solution.npz")["X"]
    pixels = imread(io.BytesIO(atoms.png(atoms.sheet(X, (4, 4, 1)))))
    first = X[:, 0].reshape(4, 4)
    expected = 0.5 + 0.5 * first / np.abs(first).max()
    np.testing.assert_allclose(pixels[1:5, 1:5, 0], expected, atol=1 / 255)
    seen = see(made / "sdl")
    assert [image for image in seen.all("img") if "5 atoms learned by DESTINY" in image["alt"]]
    colors = np.zeros((3 * 16, 1))
    colors[16:32] = 1  # the second plane is green
    assert atoms.sheet(colors, (4, 4, 3))[2, 2].tolist() == [128, 255, 128]


def test_shapes_of_pictures():
    assert atoms.picture_shape(784, None) == (28, 28, 1)
    assert atoms.picture_shape(3072, [32, 32, 3]) == (32, 32, 3)
    assert atoms.picture_shape(30, None) is None
    with pytest.raises(ValueError, match="784"):
        atoms.picture_shape(784, [32, 32])


@pytest.mark.parametrize("folder", ["pca", "olsr", "sdl", "OUT", "OUT/figure3"])
def test_the_page_can_be_read_by_a_screen_reader(made, folder):
    seen = see(made / folder)
    assert seen.all("html")[0]["lang"] == "en"
    assert len(seen.all("main")) == 1
    levels = [int(tag[1]) for tag, _ in seen.elements if re.fullmatch(r"h\d", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))
    assert all(image["alt"] for image in seen.all("img"))
    figures = [a for _, a in seen.elements if a.get("role") == "img"]
    assert figures
    assert all(len(a["aria-label"]) > 20 for a in figures)
    assert len(seen.all("table")) == len(seen.all("caption")) > 0
    assert {th.get("scope") for th in seen.all("th")} == {"col", "row"}
    assert len(seen.all("figure")) == len(seen.all("figcaption"))


def contrast(one, two):
    """WCAG 2.2's ratio of the luminances of two colors."""

    def luminance(color):
        rgb = np.array([int(color[k : k + 2], 16) for k in (1, 3, 5)]) / 255
        return np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4) @ (
            0.2126,
            0.7152,
            0.0722,
        )

    low, high = sorted((luminance(one), luminance(two)))
    return (high + 0.05) / (low + 0.05)


def test_text_stands_out_on_a_light_and_on_a_dark_page():
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    light, dark = page.asset("page.css").split("prefers-color-scheme: dark")[:2]
    for style in (light, dark.split("}")[0]):
        colors = dict(re.findall(r"--(\w+): (#\w{6})", style))
        for name in ("ink", "quiet", "accent", "good", "bad"):
            assert contrast(colors[name], colors["paper"]) >= 4.5, name


def test_nothing_is_fetched_from_anywhere(made):
    for folder, address in (("OUT", "#figure-0"), ("sdl", "data:image/png")):
        seen = see(made / folder)
        addresses = [v for _, a in seen.elements for name, v in a.items() if name in ("src", "href")]
        assert addresses
        assert all(found.startswith((address, "#")) for found in addresses)
        (policy,) = [m["content"] for m in seen.all("meta") if "http-equiv" in m]
        assert policy.startswith("default-src 'none'; script-src 'sha256-")


# ------------------------------------------------------------------------------ old, odd and damaged files


def test_old_folders_open(copy):
    folder = copy("pca")
    for name in folders.NEW:
        (folder / name).unlink()
    seen = see(folder)
    assert "reaches 10⁻⁸ after" in seen.text
    assert "no network.json" in seen.text


def test_the_folder_of_an_agent_opens(tmp_path):
    entry = {
        "agent": "clinic-a",
        "run": "first",
        "reason": "converged: all agents agreed",
        "steps": 40,
        "rounds": 50,
        "sent": 1000,
        "seconds": 1.5,
        "stationarity": 1e-9,
        "consensus": 0.0,
        "feasibility": 0,
    }
    (tmp_path / "summary.json").write_text(json.dumps(entry))
    seen = see(tmp_path)
    assert "clinic-a" in seen.text
    assert "converged: all agents agreed" in seen.text
    assert seen.data["charts"] == []


def test_texts_of_files_are_never_markup(copy):
    folder = copy("pca")
    label = folders.poison(folder)
    seen = see(folder)
    assert len(seen.all("script")) == 3
    assert seen.all("img") == []
    assert not [name for _, a in seen.elements for name in a if name.startswith("on")]
    assert seen.text.count("<script>hacked = 1</script>") > 5
    assert label in {trace["key"] for chart in seen.data["charts"] for trace in chart["traces"]}


ROW = ",".join(COLUMNS) + "\n"
DAMAGE = {
    "summary.json": ["", "[", "3", '[{"label": "../pca"}]', "null", '[[1], {"label": 7}]'],
    "DESTINY/history.csv": ["", "step,round\n1", "step,round\nx,y\n", "\0\0", "step\n", f"{ROW}1,2\n"],
    "network.json": [
        "{",
        "[]",
        '{"positions": [[0, 0]], "links": [[0, 9]]}',
        '{"positions": [[1], 2], "links": 3}',
    ],
    "about.json": ["nonsense", "7"],
    "extras.json": [
        "{{",
        '{"kind": "pca", "spectrum": 7}',
        '{"kind": "pca", "spectrum": {"found": {"a": "b"}}}',
    ],
}


@pytest.mark.parametrize("file", DAMAGE)
def test_a_damaged_file_is_left_out_with_a_word_and_the_rest_is_shown(copy, file):
    folder = copy("pca")
    for content in DAMAGE[file]:
        (folder / file).write_text(content)
        seen = see(folder)
        assert file.rsplit("/", 1)[-1] in seen.text.split("Left out")[1], content
        assert "DeEPCA reaches" in seen.text


def test_histories_without_rows_or_finite_numbers_are_no_trouble(copy):
    folder = copy("pca")
    (folder / "DESTINY" / "history.csv").write_text(",".join(COLUMNS) + "\n")
    seen = see(folder)
    assert {t["key"] for t in seen.data["charts"][0]["traces"]} == {"DeEPCA"}
    (folder / "DESTINY" / "history.csv").write_text(
        ",".join(COLUMNS) + "\n0,0,0,0.0,nan,nan,inf,-inf,0,0,0,0,0\n"
    )
    assert "DESTINY does not reach" in see(folder).text


def test_a_damaged_solution_leaves_out_the_atoms_alone(copy):
    folder = copy("sdl")
    (folder / "DESTINY" / "solution.npz").write_bytes(b"PK\3\4nonsense")
    seen = see(folder)
    assert seen.all("img") == []
    assert "out of rounds" in seen.text


def test_damaged_figures_show_what_is_left(copy):
    folder = copy("OUT") / "figure3"
    (folder / "claims.json").write_text('[{"panels": [{}], "holds": 1}, 3]')
    assert "claims.json could not be used" in see(folder).text
    (folder / "claims.json").write_text("{")
    shutil.rmtree(folder / "prob-0.9")
    text = see(folder).text
    assert "claims.json" in text
    assert "Panel prob-0.9 has no results" in text
    assert "prob = 0.4" in text
    (folder / "figure.json").write_text("[]")
    assert "prob-0.4" in see(folder).text


@pytest.mark.parametrize("make", ["nothing", "file", "empty", "no runs"])
def test_a_folder_without_results_is_refused_in_one_sentence(tmp_path, make):
    folder = tmp_path / "x"
    if make == "file":
        folder.write_text("")
    elif make != "nothing":
        folder.mkdir()
        if make == "no runs":
            (folder / "summary.json").write_text("[]")
    with pytest.raises(DestinyError, match=re.escape(str(folder))):
        open_folder(folder)


# ------------------------------------------------------------------------------- command line and papers


def command(monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["destiny", *map(str, arguments)])
    with pytest.raises(SystemExit) as left:
        cli.main()
    return left.value.code


def test_the_command_says_where_the_page_is(copy, tmp_path, monkeypatch, capsys):
    folder = copy("olsr")
    assert command(monkeypatch, "report", folder) == 0
    assert command(monkeypatch, "report", folder, "--out", tmp_path / "new" / "page.html") == 0
    assert capsys.readouterr().out.split() == [
        "written:",
        str(folder / "report.html"),
        "written:",
        str(tmp_path / "new" / "page.html"),
    ]
    assert (folder / "report.html").read_bytes() == (tmp_path / "new" / "page.html").read_bytes()


@pytest.mark.parametrize(
    ("options", "named"),
    [(["nowhere"], "nowhere"), ([".", "--format", "gif"], "gif"), ([".", "--out", "."], "folder")],
)
def test_bad_arguments_end_in_one_line(copy, monkeypatch, capsys, options, named):
    monkeypatch.chdir(copy("olsr"))
    assert command(monkeypatch, "report", *options) == 2
    said = capsys.readouterr().err
    assert named in said
    assert said.count("\n") == 1


def test_a_run_leaves_what_its_report_needs(tmp_path, monkeypatch):
    (tmp_path / "e.toml").write_text(
        "[problem]\nkind = 'pca'\nsynthetic = { n = 8, m = 40, xi = 0.5 }\np = 2\nagents = 4\n"
        "[network]\nkind = 'ring'\n[[algorithm]]\nkind = 'destiny'\nlabel = 'D'\n[stop]\nrounds = 30\n"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(result_folder, "plot_results", lambda results, path: path.write_bytes(b""))
        assert command(patch, "run", tmp_path / "e.toml", "--out", tmp_path / "out") == 0
    text = see(tmp_path / "out").text
    for said in ("ring", "Spectrum", "PCA with 2 components", "Settings of the experiment", "one process"):
        assert said in text


def test_pictures_for_papers(made, tmp_path):
    names = {path.name: path for path in report(made / "pca", tmp_path / "pdf", "pdf")}
    assert set(names) == {"convergence.pdf", "network.pdf", "spectrum.pdf"}
    for path in names.values():
        content = path.read_bytes()
        assert content.startswith(b"%PDF")
        assert b"/FontFile2" in content  # TrueType (type 42), embedded
        assert b"/Type3" not in content
    (drawn,) = [p for p in report(made / "sdl", tmp_path / "svg", "svg") if p.name == "atoms.svg"]
    assert ElementTree.parse(drawn).getroot().tag.endswith("svg")
    for path in report(made / "olsr", tmp_path / "png", "png"):
        assert path.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")


def test_a_page_is_small_and_needs_nothing_else(made):
    for folder in ("pca", "olsr", "OUT/figure3"):
        (path,) = report(made / folder)
        assert path.stat().st_size < 150_000


def test_the_columns_of_the_data_are_named_with_their_weights(tmp_path):
    rng = np.random.default_rng(0)
    names = ["age", "<b>bmi</b>", "tsh"]
    for k in range(3):
        rows = rng.standard_normal((20, 3))
        np.savetxt(tmp_path / f"{k}.csv", rows, delimiter=",", header=",".join(names), comments="")
    silos = destiny.problems.data.silos(str(tmp_path / "{agent}.csv"), agents=3, samples="rows")
    problem = destiny.problems.PCA(silos, p=2)
    methods = {"D": destiny.Destiny()}
    folders.write_run(tmp_path / "out", problem, destiny.networks.ring(3), methods, rounds=30)
    axes = np.load(tmp_path / "out" / "D" / "solution.npz")["axes"]
    seen = see(tmp_path / "out")
    for name, row in zip(names, axes, strict=True):
        assert name in seen.text
        assert f"{row[1]:+.3f}" in seen.text
    (tmp_path / "out" / "D" / "solution.npz").unlink()
    assert "age, <b>bmi</b>, tsh" in see(tmp_path / "out").text


def test_the_package_and_the_report_import_nothing_heavy():
    code = (
        "import sys, destiny, destiny.report\n"
        "assert not {'matplotlib', 'playwright'} & set(sys.modules), sorted(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)

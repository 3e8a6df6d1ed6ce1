"""Several methods side by side: the table, its marks, who is skipped and why, and `destiny compare`."""

import io
import json
import re
import subprocess
import sys

import pytest

import destiny
from destiny.algorithms import ADSA, DGD, DRGTA, PLAM, DeEPCA, WenYin
from destiny.experiments.compare import best, labeled
from tests.helpers.small_problems import small_problem

FILE = """
[problem]
kind = "{kind}"
p = 2
agents = 6
synthetic = {{ n = 10, m = 60, {extra} }}
[network]
kind = "complete"
[[algorithm]]
kind = "destiny"
[[algorithm]]
kind = "deepca"
[[algorithm]]
kind = "wen-yin"
label = "alone"
[stop]
rounds = 800
"""


@pytest.fixture
def network():
    return destiny.networks.erdos_renyi(6, prob=0.6, seed=0)


def command(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "destiny", *map(str, arguments)], capture_output=True, text=True, check=False
    )


def test_the_best_of_each_column_is_marked(network):
    found = destiny.compare(small_problem("pca"), network, [destiny.Destiny(), DeEPCA(), DGD()], rounds=500)
    rounds = {label: r.rounds for label, r in found.results.items() if r.converged}
    assert set(rounds) == {"destiny", "deepca"}  # DGD is biased: it may not win by giving up
    assert best(found.results)["rounds"] == {min(rounds, key=rounds.get)}
    least = min(found.results, key=lambda label: found.results[label].measures.consensus)
    assert best(found.results)["consensus"] == {least}
    text = str(found)
    row = next(line for line in text.splitlines() if line.startswith("deepca"))
    assert re.search(rf"\b{rounds['deepca']}\*", row)
    assert "dgd: out of rounds: 500 of 500 used" in text


def test_a_method_made_for_other_problems_is_skipped_with_its_reason(network):
    found = destiny.compare(
        small_problem("olsr"), network, {"ours": destiny.Destiny(), "theirs": ADSA()}, rounds=100
    )
    assert list(found.results) == ["ours"]
    assert "ADSA solves PCA only; this problem is OLSR" in found.skipped["theirs"]
    assert "theirs: skipped, ADSA solves PCA only" in str(found)


def test_all_start_from_the_same_point(network):
    problem = small_problem("pca")
    found = destiny.compare(problem, network, [destiny.Destiny(), DRGTA(), DeEPCA()], rounds=60, seed=5)
    starts = {r.history["objective"][0] for r in found.results.values()}
    assert len(starts) == 1


def test_labels_of_a_sequence_are_kinds_told_apart():
    assert list(labeled([DeEPCA(), DeEPCA(rounds=3), DGD()])) == ["deepca", "deepca 2", "dgd"]


@pytest.mark.parametrize(
    ("methods", "options", "sentence"),
    [
        ([DGD()], {"checkpoint": "x", "resume": True}, "compare has no option checkpoint, resume; it takes"),
        ([DGD()], {"roundz": 30}, "compare has no option roundz"),
        ([], {}, "methods must be some algorithms"),
        (DGD(), {}, "methods must be some algorithms, in a list or by label; found DGD"),
        ({1: DGD()}, {}, "labels of methods must be text; found 1"),
    ],
)
def test_arguments_are_checked(network, methods, options, sentence):
    with pytest.raises(destiny.SettingsError, match=sentence):
        destiny.compare(small_problem("pca"), network, methods, **options)


def test_what_cannot_stop_by_itself_is_skipped(network):
    found = destiny.compare(
        small_problem("pca"), network, [destiny.Destiny(), DeEPCA()], local_stopping=True, rounds=300
    )
    assert list(found.results) == ["destiny"]
    assert "no local residual" in found.skipped["deepca"]


def test_methods_for_one_agent_are_told_apart_by_their_steps():
    problem = small_problem("pca", agents=1)
    found = destiny.compare(problem, destiny.networks.complete(1), [PLAM(), WenYin()], rounds=500)
    steps = {label: r.steps for label, r in found.results.items()}
    assert best(found.results)["steps"] == {min(steps, key=steps.get)}
    assert "scalars" not in str(found)


def test_where_all_are_equal_none_is_marked(network):
    found = destiny.compare(small_problem("pca"), network, [DRGTA(), DeEPCA()], rounds=800)
    assert all(r.converged for r in found.results.values())
    assert best(found.results)["feasibility"] == set()  # both at rounding errors


def test_long_labels_are_never_cut(network, tmp_path):
    text = FILE.format(kind="pca", extra="xi = 0.7").replace(
        'kind = "destiny"', 'kind = "destiny"\nlabel = "experiment number one, with a long name"'
    )
    (tmp_path / "file.toml").write_text(text)
    assert "experiment number one, with a long name " in command("compare", tmp_path / "file.toml").stdout


def test_a_picture_is_drawn(network, tmp_path):
    found = destiny.compare(small_problem("pca"), network, [destiny.Destiny(), DeEPCA()], rounds=100)
    found.plot(tmp_path / "a.png", x="scalars")
    assert (tmp_path / "a.png").read_bytes()[:4] == b"\x89PNG"


def test_the_command_prints_one_table_and_writes_only_where_told(tmp_path):
    (tmp_path / "file.toml").write_text(FILE.format(kind="pca", extra="xi = 0.7"))
    shown = command("compare", tmp_path / "file.toml")
    assert shown.returncode == 0, shown.stderr
    assert re.search(r"^deepca .*converged", shown.stdout, re.MULTILINE)
    assert re.search(r"^alone .*skipped", shown.stdout, re.MULTILINE)
    assert "Wen-Yin is a method for one agent; this problem has 6" in shown.stdout
    assert [p.name for p in tmp_path.iterdir()] == ["file.toml"]
    written = command("compare", tmp_path / "file.toml", "--out", tmp_path / "out")
    assert written.returncode == 0, written.stderr
    entries = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert [entry["label"] for entry in entries] == ["destiny", "deepca"]
    again = command("compare", tmp_path / "file.toml", "--out", tmp_path / "out", "--resume")
    assert again.returncode == 0, again.stderr


def test_run_refuses_what_compare_skips(tmp_path):
    (tmp_path / "file.toml").write_text(FILE.format(kind="olsr", extra="noise = 0.1"))
    refused = command("run", tmp_path / "file.toml", "--out", tmp_path / "out")
    assert refused.returncode == 2
    assert refused.stderr.count("\n") == 1
    assert "deepca: DeEPCA solves PCA only; this problem is OLSR" in refused.stderr
    assert not (tmp_path / "out").exists()
    assert command("compare", tmp_path / "file.toml").returncode == 0


def test_resuming_needs_a_folder(tmp_path):
    (tmp_path / "file.toml").write_text(FILE.format(kind="pca", extra="xi = 0.7"))
    refused = command("compare", tmp_path / "file.toml", "--resume")
    assert refused.returncode == 2
    assert "--resume needs --out" in refused.stderr


MEASURES = ["stationarity", "consensus", "feasibility"]


@pytest.mark.parametrize(("width", "measures"), [(80, ["residual"]), (110, MEASURES)])
def test_the_table_fits_its_terminal_and_breaks_no_word(network, width, measures):
    from rich.console import Console

    from destiny.experiments.compare import table

    methods = {"label of twenty letters": DGD(), "b": DeEPCA()}
    found = destiny.compare(small_problem("pca"), network, methods, rounds=60)
    console = Console(width=width, file=io.StringIO())
    console.print(table(found.results))
    head, first, second = console.file.getvalue().rstrip().splitlines()
    assert max(map(len, (head, first, second))) <= width
    assert head.split() == ["rounds", "bytes", "gradients", "seconds", *measures, "stopped"]
    shown = first.removeprefix("label of twenty letters").removesuffix("out of rounds").split()
    biased = found.results["label of twenty letters"].measures
    worst = [f"{biased.worst:.1e}"]
    assert [cell.rstrip("*") for cell in shown[4:]] == (
        worst if len(measures) == 1 else [f"{getattr(biased, name):.1e}" for name in MEASURES]
    )

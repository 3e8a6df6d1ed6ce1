"""Mistakes in files and on the command line: exit code 2, one line that names them, nothing written."""

import shutil
from pathlib import Path

import pytest

from tests.helpers.cli_experiments import (
    AGENTS,
    CONSTANT,
    EDGES,
    PIECES,
    SYNTHETIC,
    N,
    document,
    read,
    snapshot,
    synthetic_problem,
    with_step,
)

NUMBERS = {"header": False, "samples": "columns"}
REFUSED = {
    # tables and keys
    "unknown table": ({"networks": {"kind": "ring"}}, ["networks"]),
    "surplus value": ({"rounds": 30}, ["rounds"]),
    "no problem": ({"problem": None}, ["problem"]),
    "no network": ({"network": None}, ["network"]),
    "problem is a number": ({"problem": 3}, ["problem"]),
    "problem is a list": ({"problem": [{"kind": "pca"}]}, ["problem"]),
    "algorithm is a text": ({"algorithm": "destiny"}, ["algorithm"]),
    "algorithms are texts": ({"algorithm": ["destiny"]}, ["algorithm"]),
    "no algorithm at all": ({"algorithm": []}, ["algorithm"]),
    # [problem]
    "unknown key of the problem": ({"problem": {"data_file": "A.npy"}}, ["data_file"]),
    "unknown problem": ({"problem": {"kind": "ica"}}, ["kind", "ica"]),
    "no kind of problem": ({"problem": {"kind": None}}, ["kind"]),
    "kind of problem is a list": ({"problem": {"kind": ["pca"]}}, ["kind"]),
    "no p": ({"problem": {"p": None}}, ["'p'"]),
    "p is a text": ({"problem": {"p": "2"}}, ["p must"]),
    "p is not whole": ({"problem": {"p": 2.0}}, ["p must"]),
    "p is 0": ({"problem": {"p": 0}}, ["p must"]),
    "p above n": ({"problem": {"p": N + 1}}, ["p must", str(N + 1)]),
    "p above n, SDL": ({"problem": {"kind": "sdl", "p": N + 1}}, ["p must", str(N + 1)]),
    "no agents": ({"problem": {"agents": None}}, ["agents"]),
    "0 agents": ({"problem": {"agents": 0}}, ["agents"]),
    "agents is true": ({"problem": {"agents": True}}, ["agents"]),
    "neither data nor synthetic": ({"problem": {"data": None}}, ["data"]),
    "both data and synthetic": ({"problem": {"synthetic": SYNTHETIC}}, ["data", "synthetic"]),
    "data is a number": ({"problem": {"data": 3}}, ["data"]),
    "data is a list": ({"problem": {"data": ["A.npy"]}}, ["data"]),
    "scale is infinite": ({"problem": {"scale": float("inf")}}, ["scale"]),
    "scale is a text": ({"problem": {"scale": "1/255"}}, ["scale"]),
    "scale beyond float64": ({"problem": {"scale": 10**400}}, ["scale"]),
    "too few sizes": ({"problem": {"sizes": [20, 21]}}, ["sizes"]),
    "sizes that do not add up": ({"problem": {"sizes": [10, 10, 10, 10]}}, ["sizes"]),
    "a size below 0": ({"problem": {"sizes": [-1, 20, 12, 10]}}, ["sizes"]),
    "a size is a text": ({"problem": {"sizes": ["11", 10, 10, 10]}}, ["sizes"]),
    "a size is true": ({"problem": {"sizes": [True, 20, 10, 10]}}, ["sizes"]),
    "too few sizes, synthetic": ({"problem": synthetic_problem() | {"sizes": [25, 25]}}, ["sizes"]),
    # data files
    "no such file": ({"problem": {"data": "missing.npy"}}, ["missing.npy"]),
    "a folder": ({"problem": {"data": "."}}, ["must be one of .npy"]),
    "a format unheard of": ({"problem": {"data": "data.txt"}}, ["data.txt"]),
    "empty file": ({"problem": {"data": "empty.npy"}}, ["empty.npy"]),
    "cut file": ({"problem": {"data": "cut.npy"}}, ["cut.npy"]),
    "no archive": ({"problem": {"data": "noise.npz"}}, ["noise.npz"]),
    "no .mat file": ({"problem": {"data": "noise.mat"}}, ["noise.mat"]),
    "ragged .csv": ({"problem": {"data": "ragged.csv"} | NUMBERS}, ["ragged.csv", "line 2"]),
    "words in .csv": ({"problem": {"data": "words.csv"} | NUMBERS}, ["words.csv", "five", "line 2"]),
    "several arrays": ({"problem": {"data": "several.npz"}}, ["several.npz"]),
    "no such array": ({"problem": {"data": "A.npz:B"}}, ["A.npz", "B"]),
    "one dimension": ({"problem": {"data": "line.npy"}}, ["line.npy"]),
    "three dimensions": ({"problem": {"data": "cube.npy"}}, ["cube.npy"]),
    "complex numbers": ({"problem": {"data": "complex.npy"}}, ["complex.npy"]),
    "Python objects": ({"problem": {"data": "objects.npy"}}, ["objects.npy"]),
    "texts": ({"problem": {"data": "text.npy"}}, ["text.npy"]),
    "NaN in .npy": ({"problem": {"data": "nan.npy"}}, ["nan.npy", "finite"]),
    "infinity in .npy": ({"problem": {"data": "inf.npy"}}, ["inf.npy", "finite"]),
    "NaN in .npy, SDL": ({"problem": {"kind": "sdl", "data": "nan.npy"}}, ["nan.npy", "finite"]),
    "NaN in .npz": ({"problem": {"data": "nan.npz"}}, ["nan.npz", "finite"]),
    "infinity in .mat": ({"problem": {"data": "inf.mat"}}, ["inf.mat", "finite"]),
    "NaN in .csv": ({"problem": {"data": "nan.csv"} | NUMBERS}, ["nan.csv", "found 'nan' in line"]),
    "one silo is missing": ({"problem": {"data": "three-{agent}.npy"}}, ["three-3.npy"]),
    "one silo has other columns": ({"problem": {"data": "rows-{agent}.npy"}}, ["rows-3.npy"]),
    "braces in the name": ({"problem": {"data": "silo-{agent}-{site}.npy"}}, ["{site}"]),
    # targets
    "OLSR without targets": ({"problem": {"kind": "olsr"}}, ["targets"]),
    "PCA with targets": ({"problem": {"targets": "D.npy"}}, ["targets"]),
    "no such targets": ({"problem": {"kind": "olsr", "targets": "missing.npy"}}, ["missing.npy"]),
    "p other than the targets": ({"problem": {"kind": "olsr", "targets": "D.npy", "p": 3}}, ["p is 3"]),
    "fewer targets": ({"problem": {"kind": "olsr", "targets": "short.npy"}}, ["targets"]),
    "NaN in targets": ({"problem": {"kind": "olsr", "targets": "nan-targets.npy"}}, ["nan-targets.npy"]),
    "more targets than n": ({"problem": {"kind": "olsr", "targets": "wide.npy", "p": None}}, ["p must"]),
    # synthetic data
    "samples of synthetic data": (
        {"problem": synthetic_problem() | {"samples": "rows"}},
        ["samples belong to data"],
    ),
    "synthetic is a text": ({"problem": {"data": None, "synthetic": "yes"}}, ["synthetic"]),
    "unknown key of synthetic": ({"problem": synthetic_problem(samples=5)}, ["samples"]),
    "synthetic without n": ({"problem": synthetic_problem(n=None)}, ["'n'"]),
    "synthetic without xi": ({"problem": synthetic_problem(xi=None)}, ["'xi'"]),
    "synthetic n is 0": ({"problem": synthetic_problem(n=0)}, ["synthetic"]),
    "synthetic n below 0": ({"problem": synthetic_problem(n=-2)}, ["synthetic"]),
    "synthetic n above m": ({"problem": synthetic_problem(n=60)}, ["n <= m"]),
    "synthetic p above n": ({"problem": synthetic_problem() | {"p": 9}}, ["p must"]),
    "synthetic seed below 0": ({"problem": synthetic_problem(seed=-1)}, ["seed"]),
    "synthetic xi below 0": ({"problem": synthetic_problem(xi=-0.9)}, ["xi"]),
    "synthetic xi is NaN": ({"problem": synthetic_problem(xi=float("nan"))}, ["xi"]),
    "synthetic noise is infinite": (
        {"problem": synthetic_problem(xi=None, noise=float("inf")) | {"kind": "olsr"}},
        ["noise"],
    ),
    "synthetic m is 0": ({"problem": synthetic_problem(xi=None, m=0) | {"kind": "olsr"}}, ["synthetic"]),
    "synthetic m below 0": ({"problem": synthetic_problem(xi=None, m=-50) | {"kind": "sdl"}}, ["synthetic"]),
    "synthetic density above 1": (
        {"problem": synthetic_problem(xi=None, density=1.5) | {"kind": "sdl"}},
        ["density"],
    ),
    # [network]
    "no kind of network": ({"network": {"prob": 0.4}}, ["kind"]),
    "empty network": ({"network": {}}, ["kind"]),
    "unknown network": ({"network": {"kind": "mesh"}}, ["mesh"]),
    "kind of network is a number": ({"network": {"kind": 3}}, ["kind"]),
    "unknown option of a network": ({"network": {"kind": "ring", "prob": 0.4}}, ["prob"]),
    "agents of the network": ({"network": {"kind": "ring", "agents": AGENTS}}, ["agents"]),
    "no prob": ({"network": {"kind": "erdos-renyi"}}, ["prob"]),
    "prob is a text": ({"network": {"kind": "erdos-renyi", "prob": "0.4"}}, ["prob"]),
    "prob above 1": ({"network": {"kind": "erdos-renyi", "prob": 1.4}}, ["prob"]),
    "prob beyond float64": ({"network": {"kind": "erdos-renyi", "prob": 10**400}}, ["prob"]),
    "seed of the network below 0": (
        {"network": {"kind": "erdos-renyi", "prob": 0.9, "seed": -1}},
        ["seed"],
    ),
    "never connected": ({"network": {"kind": "erdos-renyi", "prob": 0}}, ["network", "connected"]),
    "links of two pieces": ({"network": {"kind": "edges", "edges": PIECES}}, ["network", "connected"]),
    "file of two pieces": ({"network": {"kind": "file", "path": "pieces.txt"}}, ["network", "connected"]),
    "weights of two pieces": ({"network": {"weights": "W-pieces.npy"}}, ["network", "connected"]),
    "an agent too many": ({"network": {"kind": "edges", "edges": [*EDGES, [3, 4]]}}, ["edges"]),
    "links of three": ({"network": {"kind": "edges", "edges": [[0, 1, 2]]}}, ["edges"]),
    "links by name": ({"network": {"kind": "edges", "edges": [["a", "b"]]}}, ["edges"]),
    "grid that does not fit": ({"network": {"kind": "grid", "rows": 3}}, ["rows"]),
    "loss of every link": ({"network": {"kind": "ring", "loss": 1.0}}, ["loss"]),
    "loss is a text": ({"network": {"kind": "ring", "loss": "some"}}, ["loss"]),
    "unknown weights": ({"network": {"kind": "ring", "weights": "equal"}}, ["weights", "equal"]),
    "weights are a number": ({"network": {"kind": "ring", "weights": 3}}, ["weights"]),
    "weights alone are a number": ({"network": {"weights": 3}}, ["weights"]),
    "weights of a kind from a file": ({"network": {"kind": "ring", "weights": "W.npy"}}, ["weights"]),
    "no such weights": ({"network": {"weights": "missing.npy"}}, ["missing.npy"]),
    "no such graph": ({"network": {"kind": "file", "path": "missing.txt"}}, ["missing.txt"]),
    "graph file is a number": ({"network": {"kind": "file", "path": 3}}, ["path"]),
    "weights for other agents": ({"network": {"weights": "W-small.npy"}}, ["W-small.npy"]),
    "weights not symmetric": ({"network": {"weights": "W-skew.npy"}}, ["network", "symmetric"]),
    "weights that do not sum to 1": ({"network": {"weights": "W-sums.npy"}}, ["network", "sum to 1"]),
    "NaN among the weights": ({"network": {"weights": "W-nan.npy"}}, ["network", "finite"]),
    "weights are texts": ({"network": {"weights": "text.npy"}}, ["network", "numbers"]),
    "weights in an archive": ({"network": {"weights": "W.npz"}}, ["W.npz"]),
    # [start]
    "unknown key of the start": ({"start": {"rng": 0}}, ["rng"]),
    "seed is a text": ({"start": {"seed": "zero"}}, ["seed"]),
    "seed is not whole": ({"start": {"seed": 0.5}}, ["seed"]),
    "seed below 0": ({"start": {"seed": -1}}, ["seed"]),
    "no such start": ({"start": {"file": "missing.npy"}}, ["missing.npy"]),
    "start is a number": ({"start": {"file": 3}}, ["file"]),
    "start with other rows": ({"start": {"file": "X-other.npy"}}, ["start"]),
    "start with other columns": ({"start": {"file": "X-wide.npy"}}, ["start"]),
    "NaN in the start": ({"start": {"file": "X-nan.npy"}}, ["start", "finite"]),
    "start off the manifold": ({"start": {"file": "X-far.npy"}}, ["start", "manifold"]),
    "start is a vector": ({"start": {"file": "line.npy"}}, ["line.npy"]),
    "start is complex": ({"start": {"file": "complex.npy"}}, ["complex.npy"]),
    "start is an archive": ({"start": {"file": "X.npz"}}, ["X.npz"]),
    "start is a text file": ({"start": {"file": "graph.txt"}}, ["graph.txt"]),
    "start is an empty file": ({"start": {"file": "empty.npy"}}, ["empty.npy"]),
    # [[algorithm]]
    "unknown algorithm": ({"algorithm": {"kind": "sgd"}}, ["kind", "sgd"]),
    "no kind of algorithm": ({"algorithm": {"kind": None}}, ["kind"]),
    "kind of algorithm is a list": ({"algorithm": {"kind": ["destiny"]}}, ["kind"]),
    "unknown key of the algorithm": ({"algorithm": {"betta": 1.0}}, ["betta"]),
    "beta is a text": ({"algorithm": {"beta": "large"}}, ["beta", "large"]),
    "beta is true": ({"algorithm": {"beta": True}}, ["beta"]),
    "beta below 0": ({"algorithm": {"beta": -1.0}}, ["beta"]),
    "beta is NaN": ({"algorithm": {"beta": float("nan")}}, ["beta"]),
    "beta beyond float64": ({"algorithm": {"beta": 10**400}}, ["beta"]),
    "eta beyond float64": (with_step(kind="constant", eta=10**400), ["eta"]),
    "point unheard of": ({"algorithm": {"point": "square"}}, ["point"]),
    "gossip too short": ({"algorithm": {"gossip": 2}}, ["gossip"]),
    "lambda is 1": ({"algorithm": {"lambda": 1.0}}, ["lambda"]),
    "step is a text": ({"algorithm": {"step": "bb"}}, ["step"]),
    "step is a number": ({"algorithm": {"step": 0.05}}, ["step"]),
    "unknown step": (with_step(kind="armijo"), ["step", "armijo"]),
    "no kind of step": (with_step(eta=0.1), ["step", "kind"]),
    "kind of step is a list": (with_step(kind=["bb"]), ["step", "kind"]),
    "unknown key of the step": (with_step(kind="bb", rate=0.1), ["step", "rate"]),
    "constant step without eta": (with_step(kind="constant"), ["eta"]),
    "eta is a text": (with_step(kind="constant", eta="0.1"), ["eta"]),
    "eta is 0": (with_step(kind="constant", eta=0), ["eta"]),
    "eta below 0": (with_step(kind="bb-plain", eta=-0.1), ["eta"]),
    "eta is infinite": (with_step(kind="bb", eta=float("inf")), ["eta"]),
    "label is a number": ({"algorithm": {"label": 3}}, ["label"]),
    "label is empty": ({"algorithm": {"label": ""}}, ["label"]),
    "label with a folder": ({"algorithm": {"label": "a/b"}}, ["label", "a/b"]),
    "label goes up": ({"algorithm": {"label": ".."}}, ["label"]),
    "label too long for a folder": ({"algorithm": {"label": "x" * 300}}, ["label"]),
    "label of the summary": ({"algorithm": {"label": "summary.json"}}, ["label"]),
    "label of the picture": ({"algorithm": {"label": "convergence.png"}}, ["label"]),
    "label used twice": ({"algorithm": [CONSTANT, CONSTANT]}, ["label", "DESTINY"]),
    "label left out twice": ({"algorithm": [{"kind": "destiny"}, {"kind": "destiny"}]}, ["label"]),
    "mistake in the second": ({"algorithm": [CONSTANT, {"kind": "destiny", "bet": 1}]}, ["bet"]),
    # [stop] and [run]
    "unknown key of the stop": ({"stop": {"iterations": 5}}, ["iterations"]),
    "rounds is a text": ({"stop": {"rounds": "many"}}, ["rounds"]),
    "rounds is not whole": ({"stop": {"rounds": 10.5}}, ["rounds"]),
    "rounds below 0": ({"stop": {"rounds": -1}}, ["rounds"]),
    "tolerance is a text": ({"stop": {"tolerance": "1e-8"}}, ["tolerance"]),
    "tolerance below 0": ({"stop": {"tolerance": -1e-8}}, ["tolerance"]),
    "tolerance is NaN": ({"stop": {"tolerance": float("nan")}}, ["tolerance"]),
    "tolerance beyond float64": ({"stop": {"tolerance": 10**400}}, ["tolerance"]),
    "seconds is 0": ({"stop": {"seconds": 0}}, ["seconds"]),
    "local-stopping is a number": ({"stop": {"local-stopping": 1}}, ["local-stopping"]),
    "unknown key of the run": ({"run": {"verbose": True}}, ["verbose"]),
    "every below 0": ({"run": {"every": -1}}, ["every"]),
    "every is a text": ({"run": {"every": "10"}}, ["every"]),
    "checkpoint below 0": ({"run": {"checkpoint": -5}}, ["checkpoint"]),
    "checkpoint is true": ({"run": {"checkpoint": True}}, ["checkpoint"]),
    "threads is 0": ({"run": {"threads": 0}}, ["threads"]),
}


@pytest.mark.parametrize(("changes", "named"), REFUSED.values(), ids=REFUSED)
def test_a_mistake_is_one_line_that_names_it_and_writes_nothing(run, tmp_path, changes, named):
    run(**changes).refused(*named)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"problem: pca\n",
        b"[problem]\nkind = pca\n",
        b"[problem]\nkind = 'pca'\nkind = 'sdl'\n",
        "[problem]\nkind = 'pca'\n".encode("utf-16"),
        b"\x93NUMPY\x01\x00v\x00",
        b"[problem]\np = 1" + 5000 * b"0",
        b"[problem]\np = " + 3000 * b"[" + 3000 * b"]",
    ],
    ids=["empty", "yaml", "unquoted", "twice", "utf-16", "binary", "long number", "deep"],
)
def test_a_file_that_is_no_experiment_is_refused(command, tmp_path, content):
    file = tmp_path / "broken.toml"
    file.write_bytes(content)
    command("run", file, "--out", tmp_path / "out").refused("broken.toml")
    assert not (tmp_path / "out").exists()


def test_a_missing_file_or_a_folder_is_no_experiment(command, tmp_path):
    command("run", tmp_path / "missing.toml", "--out", tmp_path / "out").refused("missing.toml")
    command("run", tmp_path, "--out", tmp_path / "out").refused(str(tmp_path))
    assert not (tmp_path / "out").exists()


def test_an_algorithm_in_single_brackets_is_refused(command, folder, tmp_path):
    file = folder / f"{tmp_path.name}.toml"
    file.write_text(document(algorithm=None) + "\n[algorithm]\nkind = 'destiny'\n", encoding="utf-8")
    command("run", file, "--out", tmp_path / "out").refused("algorithm")
    assert not (tmp_path / "out").exists()


def test_results_cannot_go_where_a_file_is(run, tmp_path):
    (tmp_path / "file").write_text("mine", encoding="utf-8")
    run(out=tmp_path / "file").refused("--out", "file")
    run(out=tmp_path / "file" / "below").refused("--out", "file")
    assert (tmp_path / "file").read_text(encoding="utf-8") == "mine"


def test_a_file_in_the_way_of_a_label_is_noticed_before_anything_is_written(run, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "DESTINY").write_text("mine", encoding="utf-8")
    before = snapshot(tmp_path / "out")
    run().refused("DESTINY")
    assert snapshot(tmp_path / "out") == before


def test_silos_may_lie_in_a_folder_whose_name_has_braces(command, folder, tmp_path):
    home = tmp_path / "{site}"
    home.mkdir()
    for agent in range(AGENTS):
        shutil.copy(folder / f"silo-{agent}.npy", home)
    (home / "a.toml").write_text(document(problem={"data": "silo-{agent}.npy"}), encoding="utf-8")
    assert command("run", home / "a.toml", "--out", tmp_path / "out").code == 0
    assert read(tmp_path / "out").entry["steps"] == 40


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["run"], "file"),
        (["run", "a.toml"], "--out"),
        (["run", "a.toml", "--out", "out", "--resum"], "--resum"),
        (["run", "a.toml", "--out", "out", "--threads", "two"], "--threads"),
        (["walk"], "walk"),
    ],
)
def test_a_command_misspelled_is_refused_too(command, arguments, named):
    outcome = command(*arguments)
    assert outcome.code == 2
    assert named in outcome.err.lower()  # older versions of Typer name arguments in capitals
    assert "Traceback" not in outcome.err
    assert not Path("out").exists()


def test_threads_on_the_command_line_are_checked(run, tmp_path):
    run("--threads", 0).refused("threads")
    assert not (tmp_path / "out").exists()

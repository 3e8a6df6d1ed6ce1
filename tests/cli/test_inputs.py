"""Every format of data, network, start and synthetic problem that an experiment file may name."""

import json

import numpy as np
import pytest

from tests.helpers.cli_experiments import (
    AGENTS,
    AUTO,
    EDGES,
    MEASURES,
    M,
    N,
    P,
    data_matrix,
    problem_of,
    read,
    share,
    shares_of,
    start_point,
    synthetic_problem,
    weight_matrix,
    without_none,
)
from tests.helpers.plain_destiny import algorithm_1, measured, metropolis, sine
from tests.helpers.small_problems import KINDS

DATA = [
    "A.npy",
    "fortran.npy",
    "A.npz",
    "several.npz:A",
    "A.mat",
    "A.mat:A",
    "A.csv",
    "silo-{agent}.npy",
    "silo-{agent}.npz",
    "silo-{agent}.mat",
    "silo-{agent}.csv",
    "silo-{agent}.mat:S",
]

NUMBERS = {"header": False, "samples": "rows"}  # what a .csv file of numbers alone needs


@pytest.mark.parametrize("name", DATA)
def test_every_format_of_data_gives_the_same_run(run, tmp_path, name):
    keys = NUMBERS if name.endswith(".csv") else {}
    assert run(problem={"data": name} | keys, stop={"rounds": 20}).code == 0
    silos, targets = shares_of("pca")
    expected = algorithm_1("pca", silos, targets, metropolis(EDGES), start_point(), 3.0, 0.03, 20)
    np.testing.assert_allclose(read(tmp_path / "out").agents, expected, rtol=0, atol=1e-10)


def test_a_header_may_name_samples(run, tmp_path):
    assert run(problem={"data": "header.csv", "samples": "columns"}, stop={"rounds": 20}).code == 0
    expected = algorithm_1("pca", *shares_of("pca"), metropolis(EDGES), start_point(), 3.0, 0.03, 20)
    np.testing.assert_allclose(read(tmp_path / "out").agents, expected, rtol=0, atol=1e-10)


def test_files_may_keep_samples_in_columns(run, tmp_path):
    np.save(tmp_path / "t.npy", data_matrix())
    assert run(problem={"data": str(tmp_path / "t.npy"), "samples": "columns"}, stop={"rounds": 20}).code == 0
    expected = algorithm_1("pca", *shares_of("pca"), metropolis(EDGES), start_point(), 3.0, 0.03, 20)
    np.testing.assert_allclose(read(tmp_path / "out").agents, expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize(
    ("data", "targets"),
    [("silo-{agent}.npy", "targets-{agent}.npy"), ("A.csv", "targets-{agent}.npy"), ("A.mat", "D.npy")],
)
def test_targets_may_come_in_another_form_than_the_data(run, tmp_path, data, targets):
    problem = {"kind": "olsr", "data": data, "targets": targets} | (NUMBERS if data == "A.csv" else {})
    assert run(problem=problem, stop={"rounds": 20}).code == 0
    expected = algorithm_1("olsr", *shares_of("olsr"), metropolis(EDGES), start_point(), 3.0, 0.03, 20)
    np.testing.assert_allclose(read(tmp_path / "out").agents, expected, rtol=0, atol=1e-10)


def test_the_columns_of_the_targets_tell_p(run, tmp_path):
    assert run(problem={"kind": "olsr", "targets": "D.npy", "p": None}).code == 0
    assert read(tmp_path / "out").X.shape == (N, P)


def test_an_absolute_path_is_taken_as_it_is(run, folder, tmp_path):
    assert run(problem={"data": str(folder / "A.npy")}, out=tmp_path / "a").code == 0
    assert run(out=tmp_path / "b").code == 0
    assert read(tmp_path / "a").bits == read(tmp_path / "b").bits


@pytest.mark.parametrize(
    ("network", "W", "links"),
    [
        ({"weights": "W.npy"}, weight_matrix(), 3),
        ({"kind": "weights", "path": "W.npy"}, weight_matrix(), 3),
        ({"kind": "file", "path": "graph.txt"}, metropolis(EDGES), 4),
        ({"kind": "ring"}, metropolis([[0, 1], [1, 2], [2, 3], [0, 3]]), 4),
        ({"kind": "star"}, metropolis([[0, 1], [0, 2], [0, 3]]), 3),
        ({"kind": "complete", "weights": "metropolis"}, np.full((4, 4), 0.25), 6),
        ({"kind": "path", "weights": "lazy"}, (np.eye(4) + metropolis([[0, 1], [1, 2], [2, 3]])) / 2, 3),
        ({"kind": "grid"}, metropolis([[0, 1], [1, 3], [3, 2], [2, 0]]), 4),
        ({"kind": "erdos-renyi", "prob": 1.0, "seed": 3}, np.full((4, 4), 0.25), 6),
        ({"kind": "random-regular", "degree": 3}, np.full((4, 4), 0.25), 6),
    ],
    ids=lambda value: "-".join(map(str, value.values())) if isinstance(value, dict) else "",
)
def test_every_network_mixes_with_its_weights(run, tmp_path, network, W, links):
    assert run(network=network, stop={"rounds": 20}).code == 0
    files = read(tmp_path / "out")
    assert files.entry["scalars"] == 2 * links * 2 * N * P * 20
    silos, targets = shares_of("pca")
    expected = algorithm_1("pca", silos, targets, W, start_point(), 3.0, 0.03, 20)
    np.testing.assert_allclose(files.agents, expected, rtol=0, atol=1e-10)


def test_lost_links_send_less(run, tmp_path):
    assert run(network={"kind": "ring", "loss": 0.3, "seed": 1}).code == 0
    sent = read(tmp_path / "out").entry["scalars"]
    assert 0 < sent < 2 * 4 * 2 * N * P * 40
    assert sent % (2 * 2 * N * P) == 0


@pytest.mark.parametrize("name", ["X0.npy", "stack.npy"])
def test_the_start_may_come_from_a_file(run, tmp_path, name):
    assert run(start={"seed": None, "file": name}, stop={"rounds": 20}).code == 0
    silos, targets = shares_of("pca")
    expected = algorithm_1("pca", silos, targets, metropolis(EDGES), start_point(5), 3.0, 0.03, 20)
    np.testing.assert_allclose(read(tmp_path / "out").agents, expected, rtol=0, atol=1e-10)


def test_the_seed_of_the_start_counts(run, tmp_path):
    assert run(start={"seed": 11}, stop={"rounds": 20}).code == 0
    silos, targets = shares_of("pca")
    expected = algorithm_1("pca", silos, targets, metropolis(EDGES), start_point(11), 3.0, 0.03, 20)
    np.testing.assert_allclose(read(tmp_path / "out").agents, expected, rtol=0, atol=1e-10)


def test_agents_may_hold_as_many_samples_as_they_like(run, tmp_path):
    assert run(problem={"sizes": [1, 25, 0, 15]}, stop={"rounds": 20}).code == 0
    silos = np.split(data_matrix(), [1, 26, 26], axis=1)
    expected = algorithm_1("pca", silos, [None] * 4, metropolis(EDGES), start_point(), 3.0, 0.03, 20)
    np.testing.assert_allclose(read(tmp_path / "out").agents, expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("kind", KINDS)
def test_one_agent_alone_and_more_agents_than_samples(run, tmp_path, kind):
    for agents in (1, M + 3):
        out = tmp_path / str(agents)
        problem = problem_of(kind) | {"agents": agents}
        outcome = run(problem=problem, network={"kind": "ring"}, stop={"rounds": 20}, out=out)
        assert outcome.code == 0
        assert outcome.err == ""
        assert read(out).agents.shape == (agents, N, P)
        assert (read(out).entry["scalars"] == 0) == (agents == 1)


@pytest.mark.parametrize("step", [{"kind": "bb"}, {"kind": "bb-plain"}, None], ids=str)
def test_pca_finds_the_subspace_of_the_svd(run, tmp_path, step):
    algorithm = without_none(AUTO | {"beta": "auto", "step": step})
    outcome = run(algorithm=[algorithm], stop={"rounds": 3000, "tolerance": 1e-9})
    assert outcome.code == 0
    files = read(tmp_path / "out")
    assert files.entry["converged"] is True
    assert files.entry["reason"].startswith("converged")
    assert max(files.entry[name] for name in MEASURES[1:]) <= 1e-9
    assert sine(files.X, np.linalg.svd(data_matrix())[0][:, :P]) < 1e-7
    assert int(files.rows[0]["round"]) > 0  # choosing beta took rounds, and they count
    assert int(files.rows[0]["scalars"]) > 0
    assert files.entry["rounds"] - files.entry["steps"] == int(files.rows[0]["round"])


@pytest.mark.parametrize("kind", KINDS)
def test_every_problem_converges_with_the_default_settings(run, tmp_path, kind):
    outcome = run(problem=problem_of(kind), algorithm=None, stop={"rounds": 5000, "tolerance": 1e-8})
    assert outcome.code == 0
    chosen = "averaged-model" if kind in ("pca", "olsr") else "averaged-lbfgs"
    files, (silos, targets) = read(tmp_path / "out", chosen), shares_of(kind)
    assert files.entry["choice"].startswith(f"{chosen} was chosen: ")
    assert files.entry["converged"] is True
    last = measured(kind, silos, targets, files.agents, start_point())
    assert max(last[name] for name in MEASURES[1:]) < 1.1e-8
    np.testing.assert_allclose(files.entry["objective"], last["objective"], rtol=1e-9)


def test_synthetic_pca_has_the_spectrum_asked_for(run, tmp_path):
    synthetic = {"n": 8, "m": 50, "xi": 0.5, "seed": 3}
    outcome = run(
        problem={"data": None, "synthetic": synthetic, "p": 3},
        algorithm=[AUTO],
        stop={"rounds": 5000, "tolerance": 1e-8},
    )
    assert outcome.code == 0
    files = read(tmp_path / "out")
    assert files.entry["converged"] is True
    best = -sum(0.5**i for i in (1, 2, 3)) / (2 * AGENTS)  # of all stationary points, the global minimum
    np.testing.assert_allclose(files.entry["objective"], best, rtol=1e-10)


@pytest.mark.parametrize(
    ("kind", "synthetic"),
    [("olsr", {"n": 8, "m": 50, "seed": 3, "noise": 0.1}), ("sdl", {"n": 8, "m": 50, "seed": 3})],
)
def test_the_other_problems_have_synthetic_data_too(run, tmp_path, kind, synthetic):
    problem = {"kind": kind, "data": None, "synthetic": synthetic, "p": 3}
    assert run(problem=problem, algorithm=[AUTO], stop={"rounds": 3000, "tolerance": 1e-6}).code == 0
    files = read(tmp_path / "out")
    assert files.entry["converged"] is True
    assert files.X.shape == (8, 3)
    np.testing.assert_allclose(files.X.T @ files.X, np.eye(3), rtol=0, atol=1e-13)
    assert files.entry["objective"] < float(files.rows[0]["objective"])


def test_synthetic_data_need_no_seed(run, tmp_path):
    assert run(problem=synthetic_problem(seed=None)).code == 0
    assert read(tmp_path / "out").X.shape == (8, P)


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_dictionaries_of_float32_data_in_either_precision(run, folder, tmp_path, precision):
    np.save(folder / "single.npy", data_matrix().T.astype(np.float32))
    problem = {"kind": "sdl", "data": "single.npy", "precision": precision}
    assert run(problem=problem, stop={"rounds": 20}).code == 0
    silos, targets = share(data_matrix().astype(np.float32).astype(np.float64)), [None] * AGENTS
    expected = algorithm_1("sdl", silos, targets, metropolis(EDGES), start_point(), 3.0, 0.03, 20)
    error = np.abs(read(tmp_path / "out").agents - expected).max()
    assert error < {"float32": 1e-6, "float64": 1e-10}[precision]


@pytest.mark.usefixtures("pictures")
def test_the_file_of_the_manual_runs_as_it_is_written(command, folder, tmp_path):
    file = folder / f"{tmp_path.name}.toml"
    file.write_text(
        """
[problem]
kind = "pca"                 # pca | olsr | sdl
data = "A.npy"
p = 2
agents = 4                   # samples dealt out in order, evenly
[network]
kind = "erdos-renyi"
prob = 0.4
seed = 0
weights = "metropolis"
[start]
seed = 0
[[algorithm]]
kind = "destiny"
label = "DESTINY"
beta = "auto"
step = { kind = "bb" }
[[algorithm]]
kind = "destiny"
label = "as printed (eta=0.2)"
beta = 2
step = { kind = "constant", eta = 0.2 }
[stop]
rounds = 2000
tolerance = 1e-8
[run]
every = 10
checkpoint = 100
""",
        encoding="utf-8",
    )
    outcome = command("run", file, "--out", tmp_path / "out")
    assert outcome.code == 0
    summary = json.loads((tmp_path / "out" / "summary.json").read_text(encoding="utf-8"))
    assert [entry["label"] for entry in summary] == ["DESTINY", "as printed (eta=0.2)"]
    best = np.linalg.svd(data_matrix())[0][:, :P]
    for entry in summary:
        assert entry["converged"] is True
        assert sine(read(tmp_path / "out", entry["label"]).X, best) < 1e-6

"""The command line, from the experiment file to the bytes in the folder of results."""

import contextlib
import csv
import importlib.metadata
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import scipy.io

import destiny
from destiny import cli
from destiny.experiments import result_folder

N, M, P, AGENTS = 6, 41, 2, 4  # 41 samples: four agents cannot share them equally
EDGES = [[0, 1], [1, 2], [2, 3], [0, 2]]
PIECES = [[0, 1], [2, 3]]
COLUMNS = ["step", "round", "scalars", "seconds", "objective", "stationarity", "consensus", "feasibility"]
COLUMNS += ["gradients", "minibatches", "values"]
MEASURES = COLUMNS[4:8]
CONSTANT = {
    "kind": "destiny", "label": "DESTINY", "beta": 3.0, "step": {"kind": "constant", "eta": 0.03},
}  # fmt: skip
AUTO = {"kind": "destiny", "label": "DESTINY"}


# ----------------------------------------------------------------------------------------- experiment files


def toml(value) -> str:
    """A value in TOML, tables inline."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {toml(item)}" for key, item in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    if isinstance(value, bool):
        return str(value).lower()
    return json.dumps(value) if isinstance(value, str) else repr(value)


def settings(**changes):
    """The tables of a small literal run with changes.

    ``network`` and lists replace what is there, other tables are merged; None takes a key or a table away.
    """
    tables = {
        "problem": {"kind": "pca", "data": "A.npy", "p": P, "agents": AGENTS},
        "network": {"kind": "edges", "edges": EDGES},
        "start": {"seed": 0},
        "algorithm": [CONSTANT],
        "stop": {"rounds": 40, "tolerance": 0},
        "run": {"every": 10, "checkpoint": 20},
    }
    for name, change in changes.items():
        if name == "algorithm" and isinstance(change, dict):
            tables[name] = [without_none(CONSTANT | change)]
        elif name != "network" and isinstance(change, dict):
            tables[name] = without_none(tables.get(name, {}) | change)
        else:
            tables[name] = change
    return without_none(tables)


def without_none(table):
    return {key: value for key, value in table.items() if value is not None}


def data_matrix():
    """n x m with two directions well above the others."""
    rng = np.random.default_rng(7)
    Q = np.linalg.qr(rng.standard_normal((N, N)))[0]
    return Q @ (np.array([1.5, 1.2, 0.6, 0.5, 0.4, 0.3])[:, None] * rng.standard_normal((N, M))) / np.sqrt(M)


def target_matrix():
    """p x m."""
    return np.random.default_rng(8).standard_normal((P, M)) / np.sqrt(M)


def start_point(seed=0):
    """Q of a Gaussian matrix, the diagonal of R positive."""
    Q, R = np.linalg.qr(np.random.default_rng(seed).standard_normal((N, P)))
    return Q * np.sign(np.diag(R))


def weight_matrix():
    """Weights of our own on a path, not those of any rule."""
    W = np.zeros((AGENTS, AGENTS))
    for i, w in enumerate((0.3, 0.45, 0.2)):
        W[i, i + 1] = W[i + 1, i] = w
    return W + np.diag(1 - W.sum(axis=1))


def spoilt(matrix, value, row=3, column=33):
    matrix = matrix.copy()
    matrix[row, column] = value
    return matrix


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with data in every format, good and bad."""
    folder = tmp_path_factory.mktemp("inputs")
    A, D, W = data_matrix(), target_matrix(), weight_matrix()
    np.save(folder / "A.npy", A)
    np.save(folder / "fortran.npy", np.asfortranarray(A))
    np.savez(folder / "A.npz", A=A)
    np.savez(folder / "several.npz", A=A, other=D)
    scipy.io.savemat(folder / "A.mat", {"A": A})
    np.savetxt(folder / "A.csv", A, delimiter=",", fmt="%.17g")
    header = ",".join(f"sample {k}" for k in range(M))
    np.savetxt(folder / "header.csv", A, delimiter=",", fmt="%.17g", header=header, comments="")
    for agent, (silo, targets) in enumerate(zip(share(A), share(D), strict=True)):
        np.save(folder / f"silo-{agent}.npy", silo)
        np.savez(folder / f"silo-{agent}.npz", silo)
        scipy.io.savemat(folder / f"silo-{agent}.mat", {"S": silo})
        np.savetxt(folder / f"silo-{agent}.csv", silo, delimiter=",", fmt="%.17g")
        np.save(folder / f"targets-{agent}.npy", targets)
        if agent < 3:  # the last one is missing, or wrong
            np.save(folder / f"three-{agent}.npy", silo)
            np.save(folder / f"rows-{agent}.npy", silo)
    np.save(folder / "rows-3.npy", np.ones((N + 1, 10)))
    np.save(folder / "D.npy", D)
    np.save(folder / "W.npy", W)
    np.save(folder / "X0.npy", start_point(5))
    np.save(folder / "stack.npy", np.repeat(start_point(5)[None], AGENTS, axis=0))
    (folder / "graph.txt").write_text("".join(f"{i} {j}\n" for i, j in EDGES), encoding="utf-8")
    # Everything below is refused.
    np.save(folder / "nan.npy", spoilt(A, np.nan))
    np.save(folder / "inf.npy", spoilt(A, np.inf))
    np.savez(folder / "nan.npz", A=spoilt(A, np.nan))
    scipy.io.savemat(folder / "inf.mat", {"A": spoilt(A, -np.inf)})
    np.savetxt(folder / "nan.csv", spoilt(A, np.nan), delimiter=",")
    np.save(folder / "line.npy", A[0])
    np.save(folder / "cube.npy", np.zeros((2, 3, 4)))
    np.save(folder / "complex.npy", A + 1j)
    np.save(folder / "objects.npy", np.array([[1, "two"], [None, 4]], dtype=object))
    np.save(folder / "text.npy", np.array([["a", "b"]]))
    (folder / "cut.npy").write_bytes((folder / "A.npy").read_bytes()[:-50])
    (folder / "empty.npy").write_bytes(b"")
    (folder / "noise.npz").write_bytes(b"this is not an archive")
    (folder / "noise.mat").write_bytes(b"this is not MATLAB's" * 20)
    (folder / "ragged.csv").write_text("1,2,3\n4,5\n", encoding="utf-8")
    (folder / "words.csv").write_text("1,2.5,3\n4,five,6\n", encoding="utf-8")
    (folder / "data.txt").write_text("1 2 3\n", encoding="utf-8")
    np.save(folder / "short.npy", D[:, :-1])
    np.save(folder / "nan-targets.npy", spoilt(D, np.nan, row=1))
    np.save(folder / "tall.npy", np.ones((N + 1, M)))
    np.save(folder / "X-other.npy", start_point(5)[:-1])
    np.save(folder / "X-nan.npy", np.where(start_point(5) > 0.2, np.nan, start_point(5)))
    np.save(folder / "X-far.npy", 2 * start_point(5))
    np.save(folder / "X-wide.npy", np.eye(N))
    np.savez(folder / "X.npz", X=start_point(5))
    np.save(folder / "W-small.npy", np.full((3, 3), 1 / 3))
    np.save(folder / "W-pieces.npy", np.kron(np.eye(2), np.full((2, 2), 0.5)))
    np.save(folder / "W-skew.npy", W + np.diag([0.1, 0, 0], 1))
    np.save(folder / "W-sums.npy", W + np.diag([0.1, 0, 0, 0]))
    np.save(folder / "W-nan.npy", spoilt(W, np.nan, row=1, column=2))
    np.savez(folder / "W.npz", W=W)
    (folder / "pieces.txt").write_text("0 1\n2 3\n", encoding="utf-8")
    return folder


# ----------------------------------------------------------------------------------------------- the command


@dataclass
class Outcome:
    code: int
    out: str
    err: str

    def refused(self, *named):
        """Exit code 2, and one line on standard error that names what is wrong."""
        assert self.code == 2, (self.code, self.out, self.err)
        assert "Traceback" not in self.err
        assert len(self.err.splitlines()) == 1, self.err
        assert self.err.strip()
        for word in named:
            assert word in self.err, f"{word!r} is not named in: {self.err}"
        assert self.out == ""


def main(monkeypatch, *arguments):
    """The exit code of the command in this process; what no user should see comes through."""
    monkeypatch.setattr(sys, "argv", ["destiny", *map(str, arguments)])
    try:
        cli.main()
    except SystemExit as end:
        return end.code or 0
    return 0


def blank(histories, path):
    """Instead of the picture, which takes ten times as long as all the rest."""
    path.write_bytes(b"picture")


@pytest.fixture
def pictures():
    """Ask for real pictures."""


@pytest.fixture
def command(request, monkeypatch, capsys, tmp_path):
    """Call the command in this process, from a folder that holds none of the data."""
    if "pictures" not in request.fixturenames:
        monkeypatch.setattr(result_folder, "convergence", blank)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)

    def call(*arguments):
        code = main(monkeypatch, *arguments)
        return Outcome(code, *capsys.readouterr())

    return call


@pytest.fixture
def run(command, folder, tmp_path):
    """Write an experiment file into the folder of the data and run it; the results go to ``tmp_path/out``."""

    def call(*options, out=None, **changes):
        file = folder / f"{tmp_path.name}.toml"
        file.write_text(document(**changes), encoding="utf-8")
        return command("run", file, "--out", out or tmp_path / "out", *options)

    return call


def document(**changes):
    return "\n".join(f"{name} = {toml(table)}" for name, table in settings(**changes).items())


@dataclass
class Files:
    """What a run wrote under one label."""

    entry: dict
    rows: list
    X: np.ndarray
    agents: np.ndarray

    def column(self, name):
        return np.array([float(row[name]) for row in self.rows])

    @property
    def bits(self):
        """Everything but the seconds."""
        rows = [{k: v for k, v in row.items() if k != "seconds"} for row in self.rows]
        entry = {k: v for k, v in self.entry.items() if k not in ("seconds", "notes")}
        return rows, entry, self.X.tobytes(), self.agents.tobytes()


def read(out, label="DESTINY"):
    summary = json.loads((out / "summary.json").read_text(encoding="utf-8"), parse_constant=refuse_constant)
    (entry,) = [entry for entry in summary if entry["label"] == label]
    with (out / label / "history.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    with np.load(out / label / "solution.npz", allow_pickle=False) as file:
        return Files(entry, rows, file["X"], file["agents"])


def refuse_constant(name):
    raise AssertionError(f"{name} is no JSON")


def snapshot(out):
    """Every file of a folder, by name, with its bytes."""
    return {str(path.relative_to(out)): path.read_bytes() for path in out.rglob("*") if path.is_file()}


# ----------------------------------------------------------------------------- the mathematics, once more


def share(matrix, agents=AGENTS):
    """Columns dealt out in order, evenly, the first agents one more where they do not divide."""
    return np.array_split(matrix, agents, axis=1)


def sym(M):
    return (M + M.T) / 2


def euclidean(kind, silo, targets, X):
    if kind == "pca":
        return -silo @ (silo.T @ X)
    if kind == "olsr":
        return 2 * silo @ (silo.T @ X - targets.T)
    return -silo @ (silo.T @ X) ** 3


def value(kind, silo, targets, X):
    if kind == "pca":
        return -0.5 * np.sum((silo.T @ X) ** 2)
    if kind == "olsr":
        return np.sum((silo.T @ X - targets.T) ** 2)
    return -0.25 * np.sum((X.T @ silo) ** 4)


def direction(kind, silo, targets, X, beta):
    """H(X), from the gradient at X X^T X."""
    M, I = X.T @ X, np.eye(X.shape[1])
    slope = euclidean(kind, silo, targets, X @ M)
    return slope @ (3 * I - M) / 2 - X @ sym(X.T @ slope) + beta * X @ (M - I)


def metropolis(edges, agents=AGENTS):
    degree = np.bincount(np.ravel(edges), minlength=agents)
    W = np.zeros((agents, agents))
    for i, j in edges:
        W[i, j] = W[j, i] = 1 / (max(degree[i], degree[j]) + 1)
    return W + np.diag(1 - W.sum(axis=1))


def algorithm_1(kind, silos, targets, W, X0, beta, eta, steps, bb=False):
    """DESTINY, agent by agent; with ``bb`` the step sizes of Section 4.2 after the first."""
    d = len(silos)
    X = [X0.copy() for _ in range(d)]
    H = [direction(kind, silos[i], targets[i], X[i], beta) for i in range(d)]
    D, step = [h.copy() for h in H], [eta] * d
    for _ in range(steps):
        X_new = [sum(W[i, j] * (X[j] - step[j] * D[j]) for j in range(d)) for i in range(d)]
        H_new = [direction(kind, silos[i], targets[i], X_new[i], beta) for i in range(d)]
        D_new = [sum(W[i, j] * D[j] for j in range(d)) + H_new[i] - H[i] for i in range(d)]
        if bb:
            S, J = ([new[i] - old[i] for i in range(d)] for new, old in ((X_new, X), (D_new, D)))
            step = [abs(np.sum(S[i] * J[i])) / np.sum(J[i] * J[i]) for i in range(d)]
        X, H, D = X_new, H_new, D_new
    return np.array(X)


def measured(kind, silos, targets, X, X0):
    """The four numbers of a row, from the agents' iterates."""
    mean, I = X.mean(axis=0), np.eye(X.shape[2])
    U, _, Vt = np.linalg.svd(mean, full_matrices=False)

    def riemannian(Y):
        slope = np.mean([euclidean(kind, s, t, Y) for s, t in zip(silos, targets, strict=True)], axis=0)
        return np.linalg.norm(slope - Y @ sym(Y.T @ slope))

    return {
        "objective": np.mean([value(kind, s, t, U @ Vt) for s, t in zip(silos, targets, strict=True)]),
        "stationarity": riemannian(mean) / riemannian(X0),
        "consensus": np.sqrt(np.mean([np.sum((x - mean) ** 2) for x in X])),
        "feasibility": np.sqrt(np.mean([np.sum((x.T @ x - I) ** 2) for x in X])),
    }


def sine(X, Y):
    """Of the largest angle between two subspaces with orthonormal bases."""
    return np.linalg.norm(Y - X @ (X.T @ Y), 2)


KINDS = ("pca", "olsr", "sdl")


def problem_of(kind):
    return {"kind": kind} | ({"targets": "D.npy"} if kind == "olsr" else {})


def shares_of(kind):
    return share(data_matrix()), share(target_matrix()) if kind == "olsr" else [None] * AGENTS


# ------------------------------------------------------------------------------------------ files and numbers


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rule", ["constant", "bb-plain"])
def test_a_literal_run_is_algorithm_1(run, tmp_path, kind, rule):
    steps = 40 if rule == "constant" else 15  # Barzilai and Borwein's steps let rounding errors grow
    step = {"kind": rule, "eta": 0.03}
    outcome = run(problem=problem_of(kind), algorithm={"step": step}, stop={"rounds": steps})
    assert outcome.code == 0
    files = read(tmp_path / "out")
    assert files.entry["steps"] == files.entry["rounds"] == steps  # nothing to choose: no other rounds
    silos, targets = shares_of(kind)
    expected = algorithm_1(
        kind, silos, targets, metropolis(EDGES), start_point(), 3.0, 0.03, steps, rule == "bb-plain"
    )
    np.testing.assert_allclose(files.agents, expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("kind", KINDS)
def test_the_files_agree_with_each_other_and_with_the_definitions(run, tmp_path, kind):
    outcome = run(problem=problem_of(kind), stop={"rounds": 45})
    assert outcome.code == 0
    files, (silos, targets) = read(tmp_path / "out"), shares_of(kind)
    assert list(files.rows[0]) == COLUMNS
    assert [int(row["step"]) for row in files.rows] == [0, 10, 20, 30, 40, 45]  # the end is measured too
    assert [int(row["round"]) for row in files.rows] == [0, 10, 20, 30, 40, 45]
    assert [int(row["scalars"]) for row in files.rows] == [
        2 * len(EDGES) * 2 * N * P * int(row["round"]) for row in files.rows
    ]
    assert (np.diff(files.column("seconds")) > 0).all()
    first = measured(kind, silos, targets, np.repeat(start_point()[None], AGENTS, axis=0), start_point())
    last = measured(kind, silos, targets, files.agents, start_point())
    for column in MEASURES:
        np.testing.assert_allclose(float(files.rows[0][column]), first[column], rtol=1e-9, atol=1e-14)
        np.testing.assert_allclose(float(files.rows[-1][column]), last[column], rtol=1e-9, atol=1e-14)
        assert files.entry[column] == float(files.rows[-1][column])
    assert files.entry["objective"] < float(files.rows[0]["objective"])
    for name, column in {"steps": "step", "rounds": "round", "scalars": "scalars"}.items():
        assert files.entry[name] == int(files.rows[-1][column])
    assert files.entry["seconds"] == float(files.rows[-1]["seconds"])


@pytest.mark.parametrize("kind", KINDS)
def test_the_solution_is_orthonormal_and_nearest_to_the_mean(run, tmp_path, kind):
    assert run(problem=problem_of(kind)).code == 0
    files = read(tmp_path / "out")
    assert files.agents.shape == (AGENTS, N, P)
    assert files.X.shape == (N, P)
    np.testing.assert_allclose(files.X.T @ files.X, np.eye(P), rtol=0, atol=1e-14)
    U, _, Vt = np.linalg.svd(files.agents.mean(axis=0), full_matrices=False)
    np.testing.assert_allclose(files.X, U @ Vt, rtol=0, atol=1e-13)


def test_the_summary_tells_what_was_asked_and_what_came_of_it(run, tmp_path):
    assert run().code == 0
    (entry,) = json.loads((tmp_path / "out" / "summary.json").read_text(encoding="utf-8"))
    asked = [
        "label", "algorithm", "settings", "converged", "reason", "steps", "rounds", "scalars",
        "gradients", "minibatches", "values", "seconds",
        *MEASURES,
    ]  # fmt: skip
    assert set(asked) <= set(entry)
    assert entry["label"] == "DESTINY"
    assert entry["algorithm"] == "destiny"
    assert entry["settings"]["beta"] == 3.0
    assert entry["settings"]["step_size"] == {"kind": "constant", "eta": 0.03}
    assert entry["converged"] is False
    assert "out of rounds" in entry["reason"]


@pytest.mark.usefixtures("pictures")
def test_the_folder_holds_what_is_promised_and_nothing_else(run, tmp_path):
    outcome = run(out=tmp_path / "new" / "deep" / "out")
    assert outcome.code == 0
    held = snapshot(tmp_path / "new" / "deep" / "out")
    saved = {f"DESTINY/checkpoints/checkpoint-{step:09d}.npz" for step in (20, 40)}
    promised = {"summary.json", "experiment.json", "convergence.png"}
    promised |= {"network.json", "about.json", "extras.json"}
    promised |= {"DESTINY/history.csv", "DESTINY/solution.npz"}
    assert set(held) == promised | saved
    assert held["convergence.png"].startswith(b"\x89PNG\r\n\x1a\n")
    assert len(held["convergence.png"]) > 5000


def test_nothing_is_shown_but_a_table_where_nobody_is_looking(run):
    outcome = run()
    assert outcome.err == ""
    assert "\x1b" not in outcome.out
    assert "\r" not in outcome.out
    assert "DESTINY: out of rounds: 40 of 40 used" in outcome.out
    assert len(outcome.out.splitlines()) == 4  # two of the header, the run, its reason


def test_an_empty_folder_may_be_there_already(run, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "notes.txt").write_text("mine", encoding="utf-8")
    assert run().code == 0
    assert (tmp_path / "out" / "notes.txt").read_text(encoding="utf-8") == "mine"
    assert read(tmp_path / "out").entry["steps"] == 40


def test_equal_files_give_equal_bits_on_any_number_of_threads(run, tmp_path):
    assert run(out=tmp_path / "a").code == 0
    assert run(out=tmp_path / "b").code == 0
    assert run("--threads", 3, out=tmp_path / "c").code == 0
    assert run(run={"threads": 2}, out=tmp_path / "d").code == 0
    a, b, c, d = (read(tmp_path / name) for name in "abcd")
    assert a.bits == b.bits == c.bits == d.bits


DATA = [
    "A.npy", "fortran.npy", "A.npz", "several.npz:A", "A.mat", "A.mat:A", "A.csv",
    "silo-{agent}.npy", "silo-{agent}.npz", "silo-{agent}.mat", "silo-{agent}.csv", "silo-{agent}.mat:S",
]  # fmt: skip


@pytest.mark.parametrize("name", DATA)
def test_every_format_of_data_gives_the_same_run(run, tmp_path, name):
    assert run(problem={"data": name}, stop={"rounds": 20}).code == 0
    silos, targets = shares_of("pca")
    expected = algorithm_1("pca", silos, targets, metropolis(EDGES), start_point(), 3.0, 0.03, 20)
    np.testing.assert_allclose(read(tmp_path / "out").agents, expected, rtol=0, atol=1e-10)


def test_a_header_may_name_samples(run, tmp_path):
    assert run(problem={"data": "header.csv", "samples": "columns"}, stop={"rounds": 20}).code == 0
    expected = algorithm_1("pca", *shares_of("pca"), metropolis(EDGES), start_point(), 3.0, 0.03, 20)
    np.testing.assert_allclose(read(tmp_path / "out").agents, expected, rtol=0, atol=1e-10)


def test_files_may_keep_samples_in_rows(run, tmp_path):
    header = ",".join(f"feature {k}" for k in range(N))
    np.savetxt(tmp_path / "t.csv", data_matrix().T, delimiter=",", fmt="%.17g", header=header, comments="")
    assert run(problem={"data": str(tmp_path / "t.csv"), "samples": "rows"}, stop={"rounds": 20}).code == 0
    expected = algorithm_1("pca", *shares_of("pca"), metropolis(EDGES), start_point(), 3.0, 0.03, 20)
    np.testing.assert_allclose(read(tmp_path / "out").agents, expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize(
    ("data", "targets"),
    [("silo-{agent}.npy", "targets-{agent}.npy"), ("A.csv", "targets-{agent}.npy"), ("A.mat", "D.npy")],
)
def test_targets_may_come_in_another_form_than_the_data(run, tmp_path, data, targets):
    problem = {"kind": "olsr", "data": data, "targets": targets}
    assert run(problem=problem, stop={"rounds": 20}).code == 0
    expected = algorithm_1("olsr", *shares_of("olsr"), metropolis(EDGES), start_point(), 3.0, 0.03, 20)
    np.testing.assert_allclose(read(tmp_path / "out").agents, expected, rtol=0, atol=1e-10)


def test_the_rows_of_the_targets_tell_p(run, tmp_path):
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
    files, (silos, targets) = read(tmp_path / "out", "destiny-momentum"), shares_of(kind)
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


def test_synthetic_data_without_a_seed_are_made_or_refused(run, tmp_path):
    outcome = run(problem=made(seed=None))
    if outcome.code == 0:
        assert read(tmp_path / "out").X.shape == (8, P)
    else:
        outcome.refused("seed")


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_dictionaries_of_float32_data_in_either_precision(run, folder, tmp_path, precision):
    np.save(folder / "single.npy", data_matrix().astype(np.float32))
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


# --------------------------------------------------------------------------------------- how a run may end


@pytest.mark.parametrize(("algorithm", "steps"), [(AUTO, 30), (CONSTANT, 50)])
def test_no_more_rounds_are_used_than_allowed_whatever_for(run, tmp_path, algorithm, steps):
    assert run(algorithm=[algorithm], stop={"rounds": 50}).code == 0
    entry = read(tmp_path / "out").entry
    assert (entry["rounds"], entry["steps"]) == (50, steps)
    assert entry["converged"] is False
    assert "out of rounds" in entry["reason"]


def test_choosing_beta_takes_no_more_rounds_than_allowed_either(run, tmp_path):
    outcome = run(algorithm=[AUTO], stop={"rounds": 5})
    if outcome.code == 0:
        assert read(tmp_path / "out").entry["rounds"] <= 5
    else:
        outcome.refused("rounds")


def test_no_rounds_at_all_leave_the_start(run, tmp_path):
    outcome = run(stop={"rounds": 0})
    assert outcome.code == 0
    assert outcome.err == ""
    files = read(tmp_path / "out")
    assert len(files.rows) == 1
    np.testing.assert_allclose(files.X, start_point(), rtol=0, atol=1e-14)


def test_tolerance_0_never_means_converged(run, tmp_path):
    assert run(algorithm=[AUTO], stop={"rounds": 500, "tolerance": 0}).code == 0
    entry = read(tmp_path / "out").entry
    assert entry["rounds"] == 500
    assert entry["converged"] is False
    assert max(entry[name] for name in MEASURES[1:]) < 1e-9


@pytest.mark.parametrize("every", [0, 1, 10, 1000])
def test_a_run_that_ends_within_the_tolerance_has_converged(run, tmp_path, every):
    assert run(algorithm=[AUTO], stop={"rounds": 400, "tolerance": 1e-6}, run={"every": every}).code == 0
    entry = read(tmp_path / "out").entry
    assert max(entry[name] for name in MEASURES[1:]) <= 1e-6
    assert entry["converged"] is True
    assert entry["reason"].startswith("converged")


WILD = {"step": {"kind": "constant", "eta": 80.0}}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("every", [0, 1, 10])
def test_a_diverging_run_is_no_error_but_says_so(run, tmp_path, kind, every):
    outcome = run(problem=problem_of(kind), algorithm=WILD, run={"every": every})
    assert outcome.code == 0
    assert outcome.err == ""
    files = read(tmp_path / "out")
    assert files.entry["converged"] is False
    assert "diverged" in files.entry["reason"]
    assert "diverged" in outcome.out


ODD = {
    "one row": {"stop": {"rounds": 0}},
    "one agent": {"problem": {"agents": 1}, "network": {"kind": "ring"}},
    "measures beyond all bounds": {"algorithm": WILD, "run": {"every": 1}},
    "measures that are no numbers": {"algorithm": WILD, "run": {"every": 0}},
}


@pytest.mark.usefixtures("pictures")
@pytest.mark.parametrize("changes", ODD.values(), ids=ODD)
def test_odd_histories_are_drawn_without_a_word(run, tmp_path, changes):
    outcome = run(**changes)
    assert outcome.code == 0
    assert outcome.err == ""
    assert (tmp_path / "out" / "convergence.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("name", "factor", "scale"),
    [("huge.npy", 1e200, None), ("large.npy", 1e100, None), ("scaled.npy", 1, 1e200)],
)
def test_data_at_the_edge_of_what_numbers_can_be_end_in_words(
    run, folder, tmp_path, kind, name, factor, scale
):
    np.save(folder / name, factor * data_matrix())  # finite, but their powers need not be
    outcome = run(problem=problem_of(kind) | {"data": name, "scale": scale}, algorithm=[AUTO])
    if outcome.code == 0:
        assert outcome.err == ""
        assert np.isfinite(read(tmp_path / "out").entry["objective"] or 0)
    else:
        outcome.refused("scale" if scale else name)
        assert not (tmp_path / "out").exists()


def test_data_that_are_zero_are_solved_at_once(run, folder, tmp_path):
    np.save(folder / "zero.npy", np.zeros((N, M)))
    outcome = run(problem={"data": "zero.npy"}, algorithm=[AUTO], stop={"tolerance": 1e-8})
    assert outcome.code == 0
    assert outcome.err == ""
    entry = read(tmp_path / "out").entry
    assert entry["converged"] is True
    assert entry["steps"] == 0


def test_agents_can_stop_by_themselves(run, tmp_path):
    stop = {"rounds": 3000, "tolerance": 1e-6, "decentralised": True}
    assert run(algorithm=[AUTO], stop=stop).code == 0
    entry = read(tmp_path / "out").entry
    assert entry["converged"] is True
    assert entry["stationarity"] < 1e-5


def test_out_of_time_is_an_end_like_any_other(run, tmp_path):
    assert run(stop={"rounds": 10**9, "seconds": 0.05}).code == 0
    entry = read(tmp_path / "out").entry
    assert "out of time" in entry["reason"]
    assert 0.05 <= entry["seconds"] < 5


# -------------------------------------------------------------------------------- what is refused, and how

SYNTHETIC = {"n": 8, "m": 50, "xi": 0.9, "seed": 0}


def made(**changes):
    return {"data": None, "synthetic": without_none(SYNTHETIC | changes)}


def with_step(**step):
    return {"algorithm": {"step": step}}


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
    "too few sizes, synthetic": ({"problem": made() | {"sizes": [25, 25]}}, ["sizes"]),
    # data files
    "no such file": ({"problem": {"data": "missing.npy"}}, ["missing.npy"]),
    "a folder": ({"problem": {"data": "."}}, ["must be one of .npy"]),
    "a format unheard of": ({"problem": {"data": "data.txt"}}, ["data.txt"]),
    "empty file": ({"problem": {"data": "empty.npy"}}, ["empty.npy"]),
    "cut file": ({"problem": {"data": "cut.npy"}}, ["cut.npy"]),
    "no archive": ({"problem": {"data": "noise.npz"}}, ["noise.npz"]),
    "no .mat file": ({"problem": {"data": "noise.mat"}}, ["noise.mat"]),
    "ragged .csv": ({"problem": {"data": "ragged.csv"}}, ["ragged.csv", "line 2"]),
    "words in .csv": ({"problem": {"data": "words.csv"}}, ["words.csv", "five", "line 2"]),
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
    "NaN in .csv": ({"problem": {"data": "nan.csv"}}, ["nan.csv", "finite"]),
    "one silo is missing": ({"problem": {"data": "three-{agent}.npy"}}, ["three-3.npy"]),
    "one silo has other rows": ({"problem": {"data": "rows-{agent}.npy"}}, ["rows-3.npy"]),
    "braces in the name": ({"problem": {"data": "silo-{agent}-{site}.npy"}}, ["{site}"]),
    # targets
    "OLSR without targets": ({"problem": {"kind": "olsr"}}, ["targets"]),
    "PCA with targets": ({"problem": {"targets": "D.npy"}}, ["targets"]),
    "no such targets": ({"problem": {"kind": "olsr", "targets": "missing.npy"}}, ["missing.npy"]),
    "p other than the targets": ({"problem": {"kind": "olsr", "targets": "D.npy", "p": 3}}, ["p is 3"]),
    "fewer targets": ({"problem": {"kind": "olsr", "targets": "short.npy"}}, ["targets"]),
    "NaN in targets": ({"problem": {"kind": "olsr", "targets": "nan-targets.npy"}}, ["nan-targets.npy"]),
    "more targets than n": ({"problem": {"kind": "olsr", "targets": "tall.npy", "p": None}}, ["p must"]),
    # synthetic data
    "samples of synthetic data": ({"problem": made() | {"samples": "rows"}}, ["samples belong to data"]),
    "synthetic is a text": ({"problem": {"data": None, "synthetic": "yes"}}, ["synthetic"]),
    "unknown key of synthetic": ({"problem": made(samples=5)}, ["samples"]),
    "synthetic without n": ({"problem": made(n=None)}, ["'n'"]),
    "synthetic without xi": ({"problem": made(xi=None)}, ["'xi'"]),
    "synthetic n is 0": ({"problem": made(n=0)}, ["synthetic"]),
    "synthetic n below 0": ({"problem": made(n=-2)}, ["synthetic"]),
    "synthetic n above m": ({"problem": made(n=60)}, ["n <= m"]),
    "synthetic p above n": ({"problem": made() | {"p": 9}}, ["p must"]),
    "synthetic seed below 0": ({"problem": made(seed=-1)}, ["seed"]),
    "synthetic xi below 0": ({"problem": made(xi=-0.9)}, ["xi"]),
    "synthetic xi is NaN": ({"problem": made(xi=float("nan"))}, ["xi"]),
    "synthetic noise is infinite": (
        {"problem": made(xi=None, noise=float("inf")) | {"kind": "olsr"}}, ["noise"],
    ),
    "synthetic m is 0": ({"problem": made(xi=None, m=0) | {"kind": "olsr"}}, ["synthetic"]),
    "synthetic m below 0": ({"problem": made(xi=None, m=-50) | {"kind": "sdl"}}, ["synthetic"]),
    "synthetic density above 1": ({"problem": made(xi=None, density=1.5) | {"kind": "sdl"}}, ["density"]),
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
        {"network": {"kind": "erdos-renyi", "prob": 0.9, "seed": -1}}, ["seed"],
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
    "decentralised is a number": ({"stop": {"decentralised": 1}}, ["decentralised"]),
    "unknown key of the run": ({"run": {"verbose": True}}, ["verbose"]),
    "every below 0": ({"run": {"every": -1}}, ["every"]),
    "every is a text": ({"run": {"every": "10"}}, ["every"]),
    "checkpoint below 0": ({"run": {"checkpoint": -5}}, ["checkpoint"]),
    "checkpoint is true": ({"run": {"checkpoint": True}}, ["checkpoint"]),
    "threads is 0": ({"run": {"threads": 0}}, ["threads"]),
}  # fmt: skip


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
def test_a_command_misspelt_is_refused_too(command, arguments, named):
    outcome = command(*arguments)
    assert outcome.code == 2
    assert named in outcome.err
    assert "Traceback" not in outcome.err
    assert not Path("out").exists()


def test_threads_on_the_command_line_are_checked(run, tmp_path):
    run("--threads", 0).refused("threads")
    assert not (tmp_path / "out").exists()


# ------------------------------------------------------------------------------------ another run in the way


@pytest.fixture(scope="module")
def finished(folder, tmp_path_factory):
    """The folder of a run that ended, with checkpoints of steps 20 and 40; copy it before use."""
    file, out = folder / "finished.toml", tmp_path_factory.mktemp("finished") / "out"
    file.write_text(document(), encoding="utf-8")
    complete(file, out)
    return out


def complete(file, out):
    """A run for a fixture that several tests share."""
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(io.StringIO()):
        patch.setattr(result_folder, "convergence", blank)
        assert main(patch, "run", file, "--out", out) == 0


@pytest.fixture
def old(finished, tmp_path):
    shutil.copytree(finished, tmp_path / "out")
    return tmp_path / "out"


@pytest.mark.parametrize("left", ["everything", "what a killed run leaves", "the summary", "checkpoints"])
def test_a_folder_that_holds_another_run_is_left_alone(run, old, left):
    if left == "the summary":
        shutil.rmtree(old / "DESTINY")
    elif left != "everything":
        (old / "summary.json").unlink()
        (old / "convergence.png").unlink()
    if left in ("the summary", "checkpoints"):
        (old / "experiment.json").unlink(missing_ok=True)
    before = snapshot(old)
    run(start={"seed": 1}).refused("--out", str(old))
    assert snapshot(old) == before


def test_resuming_a_finished_run_changes_nothing(run, old, finished):
    assert run("--resume").code == 0
    assert read(old).bits == read(finished).bits


def test_resuming_where_nothing_is_starts_anew(run, tmp_path, finished):
    assert run("--resume").code == 0
    assert read(tmp_path / "out").bits == read(finished).bits


def test_a_run_goes_on_when_it_is_given_more_rounds(run, old, tmp_path):
    assert run("--resume", stop={"rounds": 70}).code == 0
    assert run(stop={"rounds": 70}, out=tmp_path / "whole").code == 0
    assert read(old).bits == read(tmp_path / "whole").bits


FOREIGN = {
    "beta": {"algorithm": {"beta": 4.0}},
    "step": with_step(kind="constant", eta=0.02),
    "network": {"network": {"kind": "ring"}},
    "p": {"problem": {"p": 3}},
    "agents": {"problem": {"agents": 3}, "network": {"kind": "ring"}},
    "data": {"problem": {"scale": 1.5}},
    "problem": {"problem": {"kind": "sdl"}},
    "start": {"start": {"seed": 1}},
}


@pytest.mark.parametrize("changes", FOREIGN.values(), ids=FOREIGN)
def test_checkpoints_of_another_run_are_refused(run, old, changes):
    before = snapshot(old)
    run("--resume", **changes).refused(str(old))
    assert snapshot(old) == before


CONTENTS = {
    "data": ({"problem": {"data": "changing.npy"}}, data_matrix(), data_matrix()[::-1]),
    "weights": ({"network": {"weights": "changing.npy"}}, weight_matrix(), np.full((4, 4), 0.25)),
    "start": ({"start": {"seed": None, "file": "changing.npy"}}, start_point(1), start_point(2)),
}


@pytest.mark.parametrize(("changes", "before", "after"), CONTENTS.values(), ids=CONTENTS)
def test_a_run_is_not_resumed_on_files_that_changed(run, folder, tmp_path, changes, before, after):
    np.save(folder / "changing.npy", before)
    assert run(**changes).code == 0
    np.save(folder / "changing.npy", after)
    files = snapshot(tmp_path / "out")
    run("--resume", **changes, stop={"rounds": 70}).refused(str(tmp_path / "out"))
    assert snapshot(tmp_path / "out") == files


@pytest.mark.parametrize("content", [b"", b"[]", b"3", b'{"problem": 3}', b"\xff\xfe"], ids=repr)
def test_a_record_of_the_experiment_that_cannot_be_read_is_no_leave_to_go_on(run, old, content):
    (old / "experiment.json").write_bytes(content)
    before = snapshot(old)
    run("--resume", stop={"rounds": 70}).refused(str(old))
    assert snapshot(old) == before


@pytest.mark.parametrize(
    "changes",
    [{"network": {"kind": "ring"}, "run": {"checkpoint": 0}}, {"algorithm": {"label": "other"}}],
    ids=["without checkpoints", "under another label"],
)
def test_resume_does_not_write_over_the_results_of_another_run(run, old, changes):
    before = snapshot(old)
    run("--resume", **changes).refused(str(old))
    assert snapshot(old) == before


def archive(path):
    with np.load(path) as file:
        return {name: file[name] for name in file.files}


def save_without(name):
    def damage(path):
        np.savez(path, **{key: array for key, array in archive(path).items() if key != name})

    return damage


def save_facts(text):
    def damage(path):
        np.savez(path, **archive(path) | {"facts": np.frombuffer(text, dtype=np.uint8)})

    return damage


def save_without_fact(name):
    def damage(path):
        facts = json.loads(archive(path)["facts"].tobytes())
        del facts[name]
        save_facts(json.dumps(facts).encode())(path)

    return damage


def save_other(name, change):
    def damage(path):
        arrays = archive(path)
        np.savez(path, **arrays | {name: change(arrays[name])})

    return damage


def save_npy(path):
    with path.open("wb") as file:
        np.save(file, np.eye(3))


def flip_compression(path):
    """One bit of the directory at the end of the archive: the method of its first entry."""
    content = bytearray(path.read_bytes())
    content[content.index(b"PK\x01\x02") + 10] ^= 2
    path.write_bytes(content)


def flip_encryption(path):
    content = bytearray(path.read_bytes())
    content[content.index(b"PK\x03\x04") + 6] ^= 1
    content[content.index(b"PK\x01\x02") + 8] ^= 1
    path.write_bytes(content)


def flip_number(path):
    content = bytearray(path.read_bytes())
    content[content.index(b"state/D.npy") + 200] ^= 1
    path.write_bytes(content)


DAMAGE = {
    "empty": lambda path: path.write_bytes(b""),
    "cut short": lambda path: path.write_bytes(path.read_bytes()[:-100]),
    "only the beginning": lambda path: path.write_bytes(path.read_bytes()[:1000]),
    "a text": lambda path: path.write_text("not a checkpoint", encoding="utf-8"),
    "a pickle": lambda path: path.write_bytes(b"\x80\x04N."),
    "a .npy file": save_npy,
    "another archive": lambda path: np.savez(path, X=np.eye(3)),
    "a number flipped": flip_number,
    "compression flipped": flip_compression,
    "encryption flipped": flip_encryption,
    "no facts": save_without("facts"),
    "facts are a list": save_facts(b"[1, 2]"),
    "facts of another version": save_facts(b'{"format": 99}'),
    "no X": save_without("state/X"),
    "no history": save_without("array/history"),
    "no values": save_without("array/values"),
    "no step": save_without_fact("step"),
    "no round": save_without_fact("round"),
    "no settings": save_without_fact("settings"),
    "X of another shape": save_other("state/X", lambda X: X[:, 1:]),
    "X in words": save_other("state/X", lambda X: X.astype("U30")),
    "D of another step": save_other("state/D", lambda D: D + 1e-3),
    "history of another width": save_other("array/history", lambda rows: rows[:, :3]),
    "values of fewer agents": save_other("array/values", lambda values: values[1:]),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_damaged_checkpoints_are_refused(run, old, damage):
    for path in sorted((old / "DESTINY" / "checkpoints").iterdir()):
        damage(path)
    before = snapshot(old)
    run("--resume", stop={"rounds": 70}).refused(str(old / "DESTINY" / "checkpoints"))
    assert snapshot(old) == before


@pytest.mark.parametrize("damage", ["cut short", "compression flipped"])
def test_one_damaged_checkpoint_is_passed_over(run, old, tmp_path, damage):
    newest = old / "DESTINY" / "checkpoints" / "checkpoint-000000040.npz"
    DAMAGE[damage](newest)
    assert run("--resume", stop={"rounds": 70}).code == 0
    assert run(stop={"rounds": 70}, out=tmp_path / "whole").code == 0
    assert read(old).bits == read(tmp_path / "whole").bits
    assert any(newest.name in note for note in read(old).entry["notes"])


def test_what_a_crash_left_half_written_is_not_looked_at(run, old, tmp_path):
    (old / "DESTINY" / "checkpoints" / "checkpoint-000000060.tmp").write_bytes(b"PK\x03\x04 half")
    assert run("--resume", stop={"rounds": 70}).code == 0
    assert run(stop={"rounds": 70}, out=tmp_path / "whole").code == 0
    assert read(old).bits == read(tmp_path / "whole").bits


# --------------------------------------------------------------------------------------------------- signals

ENDS = {signal.SIGINT: 130, signal.SIGTERM: 143}


@pytest.fixture
def interrupt(monkeypatch):
    """Send this process a signal in the middle of the given step."""
    step = destiny.Destiny.step

    def arm(number, at, times=1):
        count = 0

        def counted(self, state, agents):
            nonlocal count
            count += 1
            for _ in range(times if count == at else 0):
                signal.raise_signal(number)
            return step(self, state, agents)

        monkeypatch.setattr(destiny.Destiny, "step", counted)

    return arm


RUNS = {
    "constant": {"stop": {"rounds": 90}},
    "bb": {"algorithm": [AUTO], "stop": {"rounds": 110}, "run": {"every": 7}},
    "converging": {"algorithm": [AUTO], "stop": {"rounds": 2000, "tolerance": 1e-5}},
    "decentralised": {
        "algorithm": [AUTO], "stop": {"rounds": 2000, "tolerance": 1e-4, "decentralised": True},
    },
    "lost links": {"network": {"kind": "ring", "loss": 0.2}, "stop": {"rounds": 90}},
    "olsr": {"problem": problem_of("olsr"), "algorithm": [AUTO], "stop": {"rounds": 110}},
    "two": {"algorithm": [CONSTANT | {"label": "first"}, CONSTANT | {"step": {"kind": "bb"}}]},
}  # fmt: skip


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize(("number", "at"), [(signal.SIGINT, 1), (signal.SIGTERM, 33)])
def test_an_interrupted_run_resumes_to_the_same_bits(run, tmp_path, interrupt, name, number, at):
    changes, out = RUNS[name], tmp_path / "out"
    interrupt(number, at)
    outcome = run(**changes)
    assert outcome.code == ENDS[number]
    assert len(outcome.err.splitlines()) == 1
    assert number.name in outcome.err
    assert "--resume" in outcome.err
    assert list(out.glob(f"*/checkpoints/checkpoint-{at:09d}.npz"))
    entry = json.loads((out / "summary.json").read_text(encoding="utf-8"))[-1]
    assert number.name in entry["reason"]
    assert entry["converged"] is False
    assert entry["steps"] == at
    assert run("--resume", **changes).code == 0
    assert run(out=tmp_path / "whole", **changes).code == 0
    labels = [e["label"] for e in json.loads((tmp_path / "whole" / "summary.json").read_text("utf-8"))]
    for label in labels:
        assert read(out, label).bits == read(tmp_path / "whole", label).bits
    assert (out / "convergence.png").is_file()


def test_a_run_interrupted_again_and_again_gets_there(run, tmp_path, interrupt):
    changes = RUNS["bb"]
    for at in (5, 5, 22, 1):
        interrupt(signal.SIGINT, at)
        assert run("--resume", **changes).code == 130
    interrupt(signal.SIGINT, 0)
    assert run("--resume", **changes).code == 0
    assert run(out=tmp_path / "whole", **changes).code == 0
    assert read(tmp_path / "out").bits == read(tmp_path / "whole").bits


def test_the_second_of_two_algorithms_resumes_and_the_first_is_kept(run, tmp_path, interrupt):
    changes = RUNS["two"]
    interrupt(signal.SIGTERM, 40 + 12)  # the first takes 40 steps
    assert run(**changes).code == 143
    summary = json.loads((tmp_path / "out" / "summary.json").read_text(encoding="utf-8"))
    assert [(entry["label"], entry["steps"]) for entry in summary] == [("first", 40), ("DESTINY", 12)]
    assert run("--resume", **changes).code == 0
    assert run(out=tmp_path / "whole", **changes).code == 0
    for label in ("first", "DESTINY"):
        assert read(tmp_path / "out", label).bits == read(tmp_path / "whole", label).bits


def test_a_signal_in_the_last_step_loses_nothing(run, tmp_path, interrupt):
    interrupt(signal.SIGTERM, 40)
    assert run().code in (0, 143)
    assert run("--resume").code == 0
    assert run(out=tmp_path / "whole").code == 0
    assert read(tmp_path / "out").bits == read(tmp_path / "whole").bits
    assert (tmp_path / "out" / "convergence.png").is_file()


def test_a_second_signal_ends_at_once_without_a_traceback(run, tmp_path, interrupt):
    interrupt(signal.SIGINT, 30, times=2)
    outcome = run()
    assert outcome.code == 130
    assert "Traceback" not in outcome.err
    assert len(outcome.err.splitlines()) <= 1
    assert run("--resume").code == 0
    assert run(out=tmp_path / "whole").code == 0
    assert read(tmp_path / "out").bits == read(tmp_path / "whole").bits


def test_without_checkpoints_nobody_is_told_to_resume_in_vain(run, tmp_path, interrupt):
    interrupt(signal.SIGINT, 30)
    outcome = run(run={"checkpoint": 0})
    assert outcome.code == 130
    assert "--resume" not in outcome.err or list((tmp_path / "out").glob("*/checkpoints/*.npz"))


def test_resuming_after_the_agents_stopped_by_themselves_changes_nothing(run, tmp_path):
    changes = RUNS["decentralised"]
    assert run(**changes).code == 0
    first = read(tmp_path / "out")
    assert first.entry["converged"] is True
    assert run("--resume", **changes).code == 0
    assert read(tmp_path / "out").bits == first.bits


# ------------------------------------------------------------------------------------ as a process of its own

PROGRAM = [sys.executable, "-m", "destiny.cli"]
LONG = {"algorithm": [AUTO], "stop": {"rounds": 1200}, "run": {"checkpoint": 50}}


@pytest.fixture(scope="module")
def uninterrupted(folder, tmp_path_factory):
    out = tmp_path_factory.mktemp("long") / "out"
    (folder / "long.toml").write_text(document(**LONG), encoding="utf-8")
    complete(folder / "long.toml", out)
    return read(out)


def start_long_run(folder, out):
    """A run in a process of its own, after its first checkpoint."""
    arguments = [*PROGRAM, "run", folder / "long.toml", "--out", out]
    process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    until = time.monotonic() + 30
    while not list(out.glob("*/checkpoints/*.npz")):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < until
        time.sleep(0.002)
    return process


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_process_that_is_stopped_resumes_to_the_same_bits(command, uninterrupted, folder, tmp_path, number):
    out = tmp_path / "out"
    process = start_long_run(folder, out)
    process.send_signal(number)
    printed, told = process.communicate(timeout=30)
    assert printed == ""
    if number == signal.SIGKILL:
        assert process.returncode == -signal.SIGKILL
        assert not (out / "summary.json").exists()
    else:
        assert process.returncode == ENDS[number]
        assert len(told.splitlines()) == 1
        assert number.name in told
        assert read(out).entry["steps"] < uninterrupted.entry["steps"]
    command("run", folder / "long.toml", "--out", out).refused("--out")
    assert command("run", folder / "long.toml", "--out", out, "--resume").code == 0
    assert read(out).bits == uninterrupted.bits
    assert not list(out.rglob("*.tmp*"))


def test_a_mistake_ends_a_process_with_2_and_one_line(folder, tmp_path):
    file = folder / f"{tmp_path.name}.toml"
    file.write_text(document(problem={"data": "nan.npy"}), encoding="utf-8")
    arguments = [*PROGRAM, "run", file, "--out", tmp_path / "out"]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False, timeout=60)
    Outcome(done.returncode, done.stdout, done.stderr).refused("nan.npy")
    assert not (tmp_path / "out").exists()


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="needs a terminal to look at")
def test_a_terminal_gets_a_progress_bar(folder, tmp_path):
    file = folder / f"{tmp_path.name}.toml"
    file.write_text(document(algorithm=[AUTO], stop={"rounds": 10**6, "seconds": 0.3}), encoding="utf-8")
    ours, theirs = os.openpty()
    process = subprocess.Popen(
        [*PROGRAM, "run", file, "--out", tmp_path / "out"],
        stdout=subprocess.DEVNULL, stderr=theirs, env=os.environ | {"TERM": "xterm", "COLUMNS": "160"},
    )  # fmt: skip
    os.close(theirs)
    shown = b""
    with contextlib.suppress(OSError), os.fdopen(ours, "rb", buffering=0) as terminal:
        while part := terminal.read(4096):  # a terminal nobody reads would make the process wait
            shown += part
    assert process.wait(timeout=30) == 0
    assert b"DESTINY" in shown
    assert b"/1000000" in shown


def test_the_version_is_that_of_the_package(command):
    outcome = command("--version")
    assert (outcome.code, outcome.out, outcome.err) == (0, f"destiny {destiny.__version__}\n", "")
    done = subprocess.run([*PROGRAM, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == outcome.out


def test_the_command_is_installed_under_its_name():
    (script,) = importlib.metadata.entry_points(group="console_scripts", name="destiny")
    assert script.load() is cli.main


def test_help_names_the_commands(command):
    outcome = command("--help")
    assert outcome.code == 0
    for name in ("run", "doctor", "network"):
        assert name in outcome.out


# ------------------------------------------------------------------------------------------- destiny network

NETWORKS = {
    "ring": (["--agents", 8], 8, 8),
    "path": (["--agents", 8], 8, 7),
    "star": (["--agents", 8], 8, 7),
    "complete": (["--agents", 8], 8, 28),
    "grid": (["--agents", 6, "--rows", 2], 6, 7),
    "torus": (["--agents", 9, "--cols", 3], 9, 18),
    "hypercube": (["--agents", 8], 8, 12),
    "exponential": (["--agents", 5], 5, 10),
    "erdos-renyi": (["--agents", 5, "--prob", 1, "--seed", 4], 5, 10),
    "random-regular": (["--agents", 8, "--degree", 3, "--seed", 4], 8, 12),
    "random-geometric": (["--agents", 5, "--radius", 2], 5, 10),
    "small-world": (["--agents", 8, "--degree", 4, "--prob", 0.2], 8, 16),
    "file": (["--path", "graph.txt"], 4, 4),
    "weights": (["--path", "W.npy"], 4, 3),
}


@pytest.mark.parametrize("kind", NETWORKS)
def test_every_network_can_be_looked_at(command, folder, monkeypatch, kind):
    arguments, agents, links = NETWORKS[kind]
    monkeypatch.chdir(folder)
    outcome = command("network", kind, *arguments)
    assert outcome.code == 0
    facts = dict(line.rsplit(maxsplit=1) for line in outcome.out.splitlines()[1:])
    assert int(facts["  agents"]) == agents
    assert int(facts["  links"]) == links


@pytest.mark.parametrize(
    ("weights", "W"),
    [
        ("metropolis", metropolis([[k, (k + 1) % 9] for k in range(9)], 9)),
        ("lazy", (np.eye(9) + metropolis([[k, (k + 1) % 9] for k in range(9)], 9)) / 2),
    ],
)
def test_lambda_is_the_second_largest_eigenvalue(command, weights, W):
    outcome = command("network", "ring", "--agents", 9, "--weights", weights)
    assert outcome.code == 0
    (line,) = [line for line in outcome.out.splitlines() if line.split()[0] == "lambda"]
    expected = np.abs(np.linalg.eigvalsh(W - 1 / 9)).max()
    np.testing.assert_allclose(float(line.split()[1]), expected, rtol=1e-5)


@pytest.mark.parametrize("options", [[], ["--loss", 0.1, "--seed", 2]], ids=["fixed", "losing links"])
def test_a_network_is_drawn(command, tmp_path, options):
    outcome = command("network", "star", "--agents", 6, *options, "--draw", tmp_path / "star.png")
    assert outcome.code == 0
    assert str(tmp_path / "star.png") in outcome.out
    assert (tmp_path / "star.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")


def test_a_picture_without_a_suffix_is_where_it_is_said_to_be(command, tmp_path):
    outcome = command("network", "ring", "--agents", 6, "--draw", tmp_path / "ring")
    if outcome.code == 0:
        assert Path(outcome.out.rpartition("drawn: ")[2].strip()).is_file()
    else:
        assert str(tmp_path / "ring") in outcome.err


@pytest.mark.parametrize("name", ["missing/ring.png", "ring.xyz"])
def test_a_picture_that_cannot_be_written_is_one_line(command, tmp_path, name):
    outcome = command("network", "ring", "--agents", 6, "--draw", tmp_path / name)
    assert outcome.code == 2
    assert len(outcome.err.splitlines()) == 1
    assert name in outcome.err
    assert not (tmp_path / name).exists()


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["mesh", "--agents", 4], "mesh"),
        (["ring"], "agents"),
        (["ring", "--agents", 0], "agents"),
        (["ring", "--agents", 4, "--seed", 1], "seed"),
        (["erdos-renyi", "--agents", 4], "prob"),
        (["erdos-renyi", "--agents", 4, "--prob", 0], "connected"),
        (["erdos-renyi", "--agents", 4, "--prob", "nan"], "prob"),
        (["erdos-renyi", "--agents", 4, "--prob", 0.5, "--seed", -1], "seed"),
        (["random-regular", "--agents", 5, "--degree", 3], "degree"),
        (["hypercube", "--agents", 6], "hypercube"),
        (["grid", "--agents", 6, "--rows", 4], "rows"),
        (["ring", "--agents", 4, "--weights", "equal"], "weights"),
        (["ring", "--agents", 4, "--loss", 1], "loss"),
        (["file", "--path", "missing.txt"], "missing.txt"),
        (["file", "--path", "graph.txt", "--agents", 7], "agents"),
        (["weights", "--path", "W-skew.npy"], "symmetric"),
        (["weights", "--path", "W-pieces.npy"], "connected"),
        (["weights"], "path"),
    ],
    ids=lambda value: " ".join(map(str, value)) if isinstance(value, list) else "",
)
def test_a_network_that_cannot_be_is_refused(command, folder, monkeypatch, arguments, named):
    monkeypatch.chdir(folder)
    command("network", *arguments).refused(named)

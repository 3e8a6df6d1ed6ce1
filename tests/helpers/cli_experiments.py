"""Experiment files for tests of the command line, the command itself, and what a run wrote."""

import contextlib
import csv
import io
import json
import sys
from dataclasses import dataclass

import numpy as np
import pytest

from destiny import cli
from destiny.experiments import result_folder

N, M, P, AGENTS = 6, 41, 2, 4  # 41 samples: four agents cannot share them equally
EDGES = [[0, 1], [1, 2], [2, 3], [0, 2]]
PIECES = [[0, 1], [2, 3]]
COLUMNS = ["step", "round", "scalars", "seconds", "objective", "stationarity", "consensus", "feasibility"]
COLUMNS += ["gradients", "minibatches", "values", "bytes", "passes"]
MEASURES = COLUMNS[4:8]
CONSTANT = {
    "kind": "destiny",
    "label": "DESTINY",
    "beta": 3.0,
    "step": {"kind": "constant", "eta": 0.03},
}
AUTO = {"kind": "destiny", "label": "DESTINY"}


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


def blank(results, path):
    """Instead of the picture, which takes ten times as long as all the rest."""
    path.write_bytes(b"picture")


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


def share(matrix, agents=AGENTS):
    """Columns dealt out in order, evenly, the first agents one more where they do not divide."""
    return np.array_split(matrix, agents, axis=1)


def problem_of(kind):
    return {"kind": kind} | ({"targets": "D.npy"} if kind == "olsr" else {})


def shares_of(kind):
    return share(data_matrix()), share(target_matrix()) if kind == "olsr" else [None] * AGENTS


SYNTHETIC = {"n": 8, "m": 50, "xi": 0.9, "seed": 0}


def synthetic_problem(**changes):
    return {"data": None, "synthetic": without_none(SYNTHETIC | changes)}


def with_step(**step):
    return {"algorithm": {"step": step}}


def complete(file, out):
    """A run for a fixture that several tests share."""
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(io.StringIO()):
        patch.setattr(result_folder, "plot_results", blank)
        assert main(patch, "run", file, "--out", out) == 0


PROGRAM = [sys.executable, "-m", "destiny.cli"]

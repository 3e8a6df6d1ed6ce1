"""The command in this process, from a folder that holds none of the data."""

import numpy as np
import pytest
import scipy.io

from destiny.experiments import result_folder
from tests.helpers.cli_experiments import (
    AGENTS,
    EDGES,
    M,
    N,
    Outcome,
    blank,
    data_matrix,
    document,
    main,
    spoilt,
    start_point,
    target_matrix,
    weight_matrix,
)


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """A folder with data in every format, good and bad."""
    folder = tmp_path_factory.mktemp("inputs")
    A, D, W = data_matrix().T, target_matrix().T, weight_matrix()
    np.save(folder / "A.npy", A)
    np.save(folder / "fortran.npy", np.asfortranarray(A))
    np.savez(folder / "A.npz", A=A)
    np.savez(folder / "several.npz", A=A, other=D)
    scipy.io.savemat(folder / "A.mat", {"A": A})
    np.savetxt(folder / "A.csv", A, delimiter=",", fmt="%.17g")
    header = ",".join(f"sample {k}" for k in range(M))
    np.savetxt(folder / "header.csv", A.T, delimiter=",", fmt="%.17g", header=header, comments="")
    for agent, (silo, targets) in enumerate(
        zip(np.array_split(A, AGENTS), np.array_split(D, AGENTS), strict=True)
    ):
        np.save(folder / f"silo-{agent}.npy", silo)
        np.savez(folder / f"silo-{agent}.npz", silo)
        scipy.io.savemat(folder / f"silo-{agent}.mat", {"S": silo})
        np.savetxt(folder / f"silo-{agent}.csv", silo, delimiter=",", fmt="%.17g")
        np.save(folder / f"targets-{agent}.npy", targets)
        if agent < 3:  # the last one is missing, or wrong
            np.save(folder / f"three-{agent}.npy", silo)
            np.save(folder / f"rows-{agent}.npy", silo)
    np.save(folder / "rows-3.npy", np.ones((10, N + 1)))
    np.save(folder / "D.npy", D)
    np.save(folder / "W.npy", W)
    np.save(folder / "X0.npy", start_point(5))
    np.save(folder / "stack.npy", np.repeat(start_point(5)[None], AGENTS, axis=0))
    (folder / "graph.txt").write_text("".join(f"{i} {j}\n" for i, j in EDGES), encoding="utf-8")
    # Everything below is refused.
    np.save(folder / "nan.npy", spoilt(A.T, np.nan).T)
    np.save(folder / "inf.npy", spoilt(A.T, np.inf).T)
    np.savez(folder / "nan.npz", A=spoilt(A.T, np.nan).T)
    scipy.io.savemat(folder / "inf.mat", {"A": spoilt(A.T, -np.inf).T})
    np.savetxt(folder / "nan.csv", spoilt(A.T, np.nan).T, delimiter=",")
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
    np.save(folder / "short.npy", D[:-1])
    np.save(folder / "nan-targets.npy", spoilt(D.T, np.nan, row=1).T)
    np.save(folder / "wide.npy", np.ones((M, N + 1)))
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


@pytest.fixture
def pictures():
    """Ask for real pictures."""


@pytest.fixture
def command(request, monkeypatch, capsys, tmp_path):
    """Call the command in this process, from a folder that holds none of the data."""
    if "pictures" not in request.fixturenames:
        monkeypatch.setattr(result_folder, "plot_results", blank)
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

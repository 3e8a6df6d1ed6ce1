"""`destiny network`: what it prints, draws and refuses."""

from pathlib import Path

import numpy as np
import pytest

from tests.helpers.plain_destiny import metropolis

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
    assert outcome.code == 0
    assert Path(outcome.out.rpartition("drawn: ")[2].strip()).is_file()


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

"""What `destiny run` writes: the files agree with each other, with the definitions and with Algorithm 1."""

import json

import numpy as np
import pytest

from tests.helpers.cli_experiments import (
    AGENTS,
    COLUMNS,
    EDGES,
    MEASURES,
    N,
    P,
    problem_of,
    read,
    shares_of,
    snapshot,
    start_point,
)
from tests.helpers.plain_destiny import algorithm_1, measured, metropolis
from tests.helpers.small_problems import KINDS


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
    for name, column in {"steps": "step", "rounds": "round", "scalars": "scalars", "bytes": "bytes"}.items():
        assert files.entry[name] == int(files.rows[-1][column])
    assert files.entry["bytes"] == 8 * files.entry["scalars"]
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
        "label",
        "algorithm",
        "settings",
        "converged",
        "reason",
        "steps",
        "rounds",
        "scalars",
        "bytes",
        "gradients",
        "minibatches",
        "passes",
        "values",
        "seconds",
        *MEASURES,
    ]
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
    assert len(outcome.out.splitlines()) == 4  # the header, the run, its reason, what bytes are held against


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

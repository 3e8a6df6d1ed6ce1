"""How a run may end: rounds, tolerance, time, divergence, agreement; and data at the edge of float64."""

import numpy as np
import pytest

from tests.helpers.cli_experiments import (
    AUTO,
    CONSTANT,
    MEASURES,
    M,
    N,
    data_matrix,
    problem_of,
    read,
    start_point,
)
from tests.helpers.small_problems import KINDS


@pytest.mark.parametrize(("algorithm", "steps"), [(AUTO, 30), (CONSTANT, 50)])
def test_no_more_rounds_are_used_than_allowed_whatever_for(run, tmp_path, algorithm, steps):
    assert run(algorithm=[algorithm], stop={"rounds": 50}).code == 0
    entry = read(tmp_path / "out").entry
    assert (entry["rounds"], entry["steps"]) == (50, steps)
    assert entry["converged"] is False
    assert "out of rounds" in entry["reason"]


def test_fewer_rounds_than_it_takes_to_choose_beta_are_refused(run, tmp_path):
    run(algorithm=[AUTO], stop={"rounds": 5}).refused("rounds must be at least 20")
    assert not (tmp_path / "out").exists()


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
def test_data_whose_powers_overflow_are_refused(run, folder, tmp_path, kind, name, factor, scale):
    np.save(folder / name, factor * data_matrix().T)
    outcome = run(problem=problem_of(kind) | {"data": name, "scale": scale}, algorithm=[AUTO])
    outcome.refused("scale" if scale else name)
    assert not (tmp_path / "out").exists()


def test_data_that_are_zero_are_solved_at_once(run, folder, tmp_path):
    np.save(folder / "zero.npy", np.zeros((M, N)))
    outcome = run(problem={"data": "zero.npy"}, algorithm=[AUTO], stop={"tolerance": 1e-8})
    assert outcome.code == 0
    assert outcome.err == ""
    entry = read(tmp_path / "out").entry
    assert entry["converged"] is True
    assert entry["steps"] == 0


def test_agents_can_stop_by_themselves(run, tmp_path):
    stop = {"rounds": 3000, "tolerance": 1e-6, "local-stopping": True}
    assert run(algorithm=[AUTO], stop=stop).code == 0
    entry = read(tmp_path / "out").entry
    assert entry["converged"] is True
    assert entry["stationarity"] < 1e-5


def test_out_of_time_is_an_end_like_any_other(run, tmp_path):
    assert run(stop={"rounds": 10**9, "seconds": 0.05}).code == 0
    entry = read(tmp_path / "out").entry
    assert "out of time" in entry["reason"]
    assert 0.05 <= entry["seconds"] < 5

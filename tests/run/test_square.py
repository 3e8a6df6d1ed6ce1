"""Square X: the sign of det X cannot change along a run, so `solve` tries both halves or says so."""

import signal
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

import destiny
from destiny.agents import outcome
from destiny.engines.hosted import HostedAgents
from destiny.engines.mixers import Mixer
from destiny.problems import PCA, SDL
from destiny.run.parts import square
from destiny.storage.checkpoint import list_checkpoints
from tests.helpers.small_problems import procrustes, small_problem

RING = destiny.networks.ring(3)
MOMENTUM = "destiny-accelerated"
FIXED = "the sign of det X cannot change"


def half_notes(result):
    return [note for note in result.notes if FIXED in note]


@pytest.mark.parametrize(
    ("sign", "options"),
    [(-1, {}), (1, {}), (1, {"local_stopping": True}), (1, {"algorithm": destiny.Destiny()})],
)
def test_without_a_start_the_better_half_is_kept_and_both_are_counted(sign, options):
    problem, best = procrustes(3, sign=sign)
    options = {"tolerance": 1e-5, **options}
    result = destiny.solve(problem, RING, **options)
    assert result.converged
    np.testing.assert_allclose(result.X, best, atol=1e-3)
    start = destiny.stiefel.random_point(4, 4, 0)
    runs = [destiny.solve(problem, RING, start=X, **options) for X in (start, square.mirrored(start))]
    assert result.rounds == runs[0].rounds + runs[1].rounds
    assert result.scalars == runs[0].scalars + runs[1].scalars
    kept = min(runs, key=lambda run: run.measures.objective)
    assert (result.X == kept.X).all()
    assert result.history["round"][-1] == kept.rounds
    (note,) = half_notes(result)
    for run in runs:
        assert f"{run.measures.objective:.12g} after {run.rounds} rounds" in note
    assert f"the answer is the one with det X = {sign:+d}" in note


def test_a_start_of_ones_own_is_kept_and_the_note_names_its_half():
    problem, best = procrustes(3)
    start = square.mirrored(best)
    result = destiny.solve(problem, RING, start=start)
    assert result.converged
    assert np.linalg.det(result.X) > 0
    (note,) = half_notes(result)
    assert "det X is +1 here" in note
    assert "negate a column of start" in note


@dataclass(frozen=True)
class Counted:
    """A problem that counts how often it is hosted: once for every run."""

    problem: destiny.protocols.Problem
    runs: list

    shape = property(lambda self: self.problem.shape)
    agents = property(lambda self: self.problem.agents)

    def host(self, ids):
        self.runs.append(ids)
        return self.problem.host(ids)


@pytest.mark.parametrize("kind", [PCA, SDL])
def test_an_objective_that_is_the_same_on_both_halves_is_run_once(kind):
    rng, runs = np.random.default_rng(0), []
    problem = Counted(kind([rng.laplace(size=(4, 9)) for _ in range(3)], 4), runs)
    result = destiny.solve(problem, RING, engine=destiny.engines.local(1))
    assert result.converged
    assert len(runs) == 1
    assert not half_notes(result)


def test_objectives_that_differ_by_a_constant_only_are_not_the_same():
    class Sign:
        def value(self, X):
            return float(np.sign(np.linalg.det(X)))

        def gradient(self, X):
            return np.zeros_like(X)

    X = destiny.stiefel.random_point(3, 3, 0)
    assert not square.symmetric(Sign(), [X])


def test_one_by_one():
    D = [np.full((1, 3), -0.7)] * 3
    result = destiny.solve(destiny.problems.OLSR([np.ones((3, 1))] * 3, [a.T for a in D]), RING, MOMENTUM)
    assert result.X.tolist() == [[-1.0]]
    assert result.rounds == 40  # two openings


def test_the_limits_are_those_of_both_halves_together():
    problem, _ = procrustes(3)
    first = destiny.solve(problem, RING, MOMENTUM, start=destiny.stiefel.random_point(4, 4, 0))
    result = destiny.solve(problem, RING, MOMENTUM, rounds=first.rounds + 30)
    assert result.rounds == first.rounds + 30
    assert "out of rounds: 30 of 30 used" in half_notes(result)[0]
    result = destiny.solve(problem, RING, MOMENTUM, rounds=first.rounds + 10)  # fewer than an opening takes
    assert result.rounds == first.rounds
    assert "not tried: nothing was left" in half_notes(result)[0]


def test_the_lower_objective_wins_though_its_run_has_not_converged():
    problem, best = procrustes(3, sign=-np.sign(np.linalg.det(destiny.stiefel.random_point(4, 4, 0))))
    first = destiny.solve(problem, RING, MOMENTUM, start=destiny.stiefel.random_point(4, 4, 0))
    result = destiny.solve(problem, RING, MOMENTUM, rounds=first.rounds + 80)
    assert first.converged
    assert not result.converged
    assert result.measures.objective < first.measures.objective
    assert np.linalg.det(result.X) == pytest.approx(np.linalg.det(best))


@dataclass(frozen=True)
class Cut(destiny.DestinyAccelerated):
    """SIGTERM arrives in some calls of step."""

    kind = "destiny-accelerated"
    calls: ClassVar[list[None]] = []
    at: ClassVar[set[int]] = set()

    def step(self, state, agents):
        self.calls.append(None)
        if len(self.calls) in self.at:
            signal.raise_signal(signal.SIGTERM)
        return super().step(state, agents)


@pytest.mark.parametrize("every", [0, 10])
def test_an_interrupted_run_resumes_to_the_same_bits_in_either_half(tmp_path, handler, monkeypatch, every):
    handler(signal.SIGTERM)
    problem, _ = procrustes(3)
    whole = destiny.solve(problem, RING, MOMENTUM)
    first = destiny.solve(problem, RING, MOMENTUM, start=destiny.stiefel.random_point(4, 4, 0))
    monkeypatch.setattr(Cut, "calls", [])
    monkeypatch.setattr(Cut, "at", {7, first.steps + 12 if every else first.steps + 19})

    def run(resume):
        return destiny.solve(problem, RING, Cut(), checkpoint=tmp_path, checkpoint_every=every, resume=resume)

    cut = run(False)
    assert (cut.interrupted, cut.steps) == ("SIGTERM", 7)
    assert "not tried yet" in half_notes(cut)[0]
    again = run(True)
    assert again.interrupted == "SIGTERM"
    assert not again.converged
    assert again.reason.startswith("interrupted by SIGTERM after step 1")
    assert list_checkpoints(tmp_path / "mirrored")
    with pytest.raises(destiny.SettingsError, match="holds another run"):
        destiny.solve(problem, RING, MOMENTUM, checkpoint=tmp_path)
    last = run(True)
    assert last.interrupted is None
    assert (last.X == whole.X).all()
    assert (last.steps, last.rounds, last.scalars) == (whole.steps, whole.rounds, whole.scalars)
    assert last.notes == whole.notes


@pytest.mark.parametrize("kind", ["olsr", "pca"])
def test_an_agent_by_itself_says_which_half_was_tried(kind):
    olsr, best = procrustes(3)
    problem = olsr if kind == "olsr" else PCA([np.eye(4)] * 3, 4)
    agent = HostedAgents([1], problem.host([1]), RING, None, Mixer())
    notes = outcome.remarks(agent, best)
    assert len(notes) == (kind == "olsr")
    assert all("det X is -1 here; the other half needs a run of its own" in note for note in notes)
    assert outcome.remarks(agent, best[:, :2]) == []


def test_a_gradient_of_the_wrong_sign_is_noticed():
    class Wrong:
        def __init__(self, A):
            self.A = A

        def value(self, X):
            return -0.5 * float(np.sum((self.A.T @ X) ** 2))

        def gradient(self, X):
            return self.A @ (self.A.T @ X)

    rng = np.random.default_rng(0)
    wrong = [Wrong(rng.standard_normal((5, 9))) for _ in range(3)]
    start = destiny.stiefel.random_point(5, 2, 0)
    result = destiny.solve(wrong, RING, "destiny-accelerated", start=start)
    assert result.converged
    assert any("the objective rose" in note and "destiny.check_gradient" in note for note in result.notes)


@pytest.mark.parametrize("kind", ["pca", "olsr", "sdl"])
def test_an_objective_that_falls_or_stays_raises_no_alarm(kind):
    problem, network = small_problem(kind), destiny.networks.ring(6)
    first = destiny.solve(problem, network)
    again = destiny.solve(problem, network, start=destiny.stiefel.polar(first.X + 1e-6), tolerance=1e-6)
    for result in (first, again):
        assert result.converged
        assert not any("rose" in note for note in result.notes)

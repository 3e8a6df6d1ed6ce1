"""Objects of a user's own, with the required members alone or with some of the others."""

import json
from dataclasses import dataclass

import numpy as np
import pytest

import destiny
from destiny.algorithms import About
from destiny.problems.cached import CachedProblem
from destiny.problems.own_problem import WrappedProblem, as_problem
from destiny.protocols import AlgorithmBase, ProblemBase, TopologyBase
from destiny.run.own import CheckedTopology, WrappedAlgorithm, as_algorithm, as_topology, settings_of

A = np.random.default_rng(0).standard_normal((4, 9, 5))


class Quartic:
    """f_i(X) = <X, A_i A_i^T X>."""

    shape, agents = (9, 2), 4

    def host(self, ids):
        return Quartic.Hosted(A[list(ids)])

    class Hosted:
        def __init__(self, data):
            self.gram = data @ data.transpose(0, 2, 1)

        def value(self, X):
            return np.sum(X * (self.gram @ X), axis=(1, 2))

        def gradient(self, X):
            return 2 * self.gram @ X


class Circle:
    """A ring whose weights are an array."""

    agents = 4

    def at(self, round):
        return np.eye(4) / 2 + (np.roll(np.eye(4), 1, axis=1) + np.roll(np.eye(4), -1, axis=1)) / 4


@dataclass(frozen=True)
class State:
    X: np.ndarray
    D: np.ndarray
    H: np.ndarray


@dataclass(frozen=True)
class Track:
    """Gradient tracking with a constant step."""

    eta: float = 0.01

    def field(self, X, agents):
        G = agents.gradient(X)
        S = X.transpose(0, 2, 1) @ G
        E = X.transpose(0, 2, 1) @ X - np.eye(X.shape[2])
        return G - X @ (S + S.transpose(0, 2, 1)) / 2 + 5 * X @ E

    def init(self, X, agents):
        H = self.field(X, agents)
        return State(X, H, H)

    def step(self, s, agents):
        X, D = agents.mix(s.X - self.eta * s.D, s.D)
        H = self.field(X, agents)
        return State(X, D + H - s.H, H)


def test_objects_with_the_required_members_alone_are_solved():
    result = destiny.solve(Quartic(), Circle(), Track(), rounds=2000, tolerance=1e-6)
    assert result.converged
    assert result.axes is None
    assert result.settings == {"kind": "Track", "eta": 0.01}
    values = np.linalg.eigvalsh(np.einsum("ink,imk->nm", A, A))
    assert result.measures.objective == pytest.approx(values[:2].sum() / 4, abs=1e-6)


def test_checkpoints_have_the_settings_of_the_object_and_its_trackers_are_checked(tmp_path):
    whole = destiny.solve(Quartic(), Circle(), Track(), rounds=40)
    destiny.solve(Quartic(), Circle(), Track(), rounds=20, checkpoint=tmp_path / "c")
    resumed = destiny.solve(Quartic(), Circle(), Track(), rounds=40, checkpoint=tmp_path / "c", resume=True)
    assert (resumed.X == whole.X).all()
    with pytest.raises(destiny.CheckpointError, match="its settings is"):
        destiny.solve(Quartic(), Circle(), Track(0.02), rounds=40, checkpoint=tmp_path / "c", resume=True)
    path = max((tmp_path / "c").glob("*.npz"))
    with np.load(path) as arrays:
        damaged = dict(arrays)
    assert json.loads(damaged["facts"].tobytes())["identity"]["settings"] == {"kind": "Track", "eta": 0.01}
    damaged["state/D"] = damaged["state/D"] + 1
    np.savez(path, **damaged)
    with pytest.raises(destiny.CheckpointError, match=r"mean\(D\) and mean\(H\) differ"):
        destiny.solve(Quartic(), Circle(), Track(), rounds=40, checkpoint=tmp_path / "c", resume=True)


def test_problems_are_wrapped_wherever_they_come_in():
    pca = destiny.problems.PCA([a.T for a in A], p=2)
    total = pca + Quartic()
    assert total.describe() == "Sum 1 pca + 1 Quartic on 9 x 2 matrices, of 4 agents."
    assert all(isinstance(part, ProblemBase) for part in total.problems)
    pooled = destiny.problems.pooled(Quartic())
    assert (pooled.kind, pooled.agents, pooled.principal_axes) == ("Quartic", 1, False)
    assert destiny.problems.pooled(pca).principal_axes
    assert destiny.check_gradient(Quartic(), np.eye(9)[:, :2]).ok
    assert "Quartic" in str(destiny.diagnose(Quartic(), Circle(), Track()).facts["problem"])
    comparison = destiny.compare(Quartic(), Circle(), [Track(), Track(0.02)], rounds=20)
    assert list(comparison.results) == ["Track", "Track 2"]


@pytest.mark.parametrize(
    ("wrap", "bare", "base"),
    [
        (as_problem, Quartic(), ProblemBase),
        (as_topology, Circle(), TopologyBase),
        (as_algorithm, Track(), AlgorithmBase),
    ],
    ids=["problem", "network", "algorithm"],
)
def test_every_member_has_a_default_and_wrapping_twice_is_wrapping_once(wrap, bare, base):
    wrapped = wrap(bare)
    assert isinstance(wrapped, base)
    assert wrap(wrapped) is wrapped
    assert repr(wrapped) == repr(bare)
    for name in (name for name in vars(base) if not name.startswith("_")):
        getattr(wrapped, name)


def test_members_of_the_object_come_first():
    problem = Quartic()
    problem.kind, problem.describe, problem.variance = "pca", lambda: "Mine.", lambda agent: 2.0 + agent
    problem.column_names, problem.batches = {"data": ("a", "b")}, [(4, 0)]
    for wrapped in (as_problem(problem), CachedProblem(problem), CachedProblem(as_problem(problem))):
        assert (wrapped.kind, wrapped.describe(), wrapped.variance(1)) == ("pca", "Mine.", 3.0)
        assert (wrapped.column_names, wrapped.batches) == ({"data": ("a", "b")}, [(4, 0)])
        assert wrapped.principal_axes  # as its kind says
        assert wrapped.portrait({}) == {"kind": "pca"}
    network = Circle()
    network.diameter, network.lambda_ = 2, 0.5
    assert (as_topology(network).diameter, as_topology(network).lambda_) == (2, 0.5)
    assert as_topology(network).all_edges().tolist() == [[0, 1], [0, 3], [1, 2], [2, 3]]

    @dataclass(frozen=True)
    class Told(Track):
        rounds: int = 3
        lambda_: float | None = None
        kind = "told"
        about = About("Told", "a test", sends=2, rounds="rounds", traits=frozenset({"inexact"}))
        opening = 7

        def on(self, network):
            return Told(self.eta, self.rounds, network.lambda_)

        def residual(self, state):
            return np.zeros(len(state.X))

        def remarks(self, state, ids, converged):
            return [f"{len(ids)} agents"]

    told = as_algorithm(Told()).on(as_topology(network))
    assert isinstance(told, WrappedAlgorithm)
    assert (told.rounds_per_step, told.opening, told.exact, told.kind) == (3, 7, False, "told")
    assert settings_of(told) == {"kind": "told", "eta": 0.01, "rounds": 3, "lambda_": 0.5}
    assert destiny.solve(Quartic(), network, Told(), rounds=30, local_stopping=True).notes[-1] == "4 agents"


class OneWay(Circle):
    """Each agent hears the one before it: doubly stochastic, not symmetric."""

    changes = False

    def at(self, round):
        return (np.eye(4) + np.roll(np.eye(4), 1, axis=1)) / 2


class Steady(Circle):
    changes = False


@pytest.mark.parametrize("kind", ["extra", "exact-diffusion", "pg-extra", "adsa", "admm-pca"])
def test_methods_that_need_one_symmetric_matrix_are_refused_others(kind):
    problem = destiny.problems.pca.synthetic(n=9, m=40, p=2, xi=0.5, agents=4)
    ring = destiny.networks.ring(4)
    for network, found in (
        (destiny.networks.matchings(ring, seed=0), "changes from round to round: choose"),
        (Circle(), "changes from round to round, unless its class says changes = False"),
        (OneWay(), "is not symmetric"),
    ):
        with pytest.raises(destiny.MismatchError, match=found):
            destiny.solve(problem, network, kind)
    for network in (ring, Steady()):
        assert destiny.solve(problem, network, kind, rounds=30).rounds <= 30


def test_a_class_that_derives_from_a_base_is_taken_as_it_is():
    class Mine(TopologyBase):
        agents = 4

        def at(self, round):
            return Circle().at(round)

    assert isinstance(as_topology(Mine()), CheckedTopology)  # its matrices are checked all the same

    class Ours(ProblemBase):
        shape, agents = (9, 2), 4
        host = Quartic.host

    ours = Ours()
    assert as_problem(ours) is ours
    assert ours.kind == "Ours"
    assert not isinstance(ours, WrappedProblem)

    class Step(AlgorithmBase):
        init, step, field, eta = Track.init, Track.step, Track.field, 0.01

    assert destiny.solve(ours, Mine(), Step(), rounds=10).settings == {"kind": "Step"}


class Without:
    """A copy of a class without one member."""

    def __new__(cls, kind, name):
        members = {k: v for k, v in vars(kind).items() if k not in (name, "__dict__", "__weakref__")}
        return type(kind.__name__, (), members)()


@pytest.mark.parametrize(
    ("problem", "network", "algorithm", "words"),
    [
        (Without(Quartic, "shape"), Circle(), Track(), "shape, agents, host; found Quartic without shape"),
        (Without(Quartic, "agents"), Circle(), Track(), "host; found Quartic without agents; add what"),
        (Without(Quartic, "host"), Circle(), Track(), "problem must be one of destiny.problems or a list"),
        (Quartic, Circle(), Track(), "problem must be one of destiny.problems or a list"),
        (Quartic(), Without(Circle, "agents"), Track(), "agents and at; found Circle without agents"),
        (Quartic(), Without(Circle, "at"), Track(), "network must be one of destiny.networks"),
        (Quartic(), Circle, Track(), "network must be one of destiny.networks"),
        (Quartic(), Circle(), Without(Track, "init"), "init and step; found Track without init"),
        (Quartic(), Circle(), Without(Track, "step"), "algorithm must be an object such as destiny"),
        (Quartic(), Circle(), Track, "algorithm must be an object such as destiny.Destiny()"),
    ],
)  # fmt: skip
def test_a_required_member_that_is_missing_is_told_in_one_sentence(problem, network, algorithm, words):
    with pytest.raises(destiny.DestinyError) as refused:
        destiny.solve(problem, network, algorithm)
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)

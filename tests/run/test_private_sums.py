"""Runs with private messages: the answers of plain ones, one set of bits, and what is refused."""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import destiny
from destiny.algorithms import METHODS
from destiny.cli import app
from destiny.engines import Local
from destiny.engines.mixers import from_keys
from destiny.errors import CheckpointError, MismatchError, NetworkError, PrivacyError, SettingsError
from destiny.geometry.stiefel import subspace_distance
from destiny.problems import custom
from destiny.run.forecast import totals_learned
from destiny.storage.checkpoint import flatten
from tests.helpers.agent_party import Party
from tests.helpers.cli_experiments import main
from tests.helpers.small_problems import generalized, small_problem

PLAIN, PRIVATE = "plain", "private"
TOTALS = [m for m in METHODS if "totals" in m.about]
nets = destiny.networks
by_kind = pytest.mark.parametrize("method", TOTALS, ids=lambda m: m.kind)


def own_objective(agents=6):
    """-sum log(1 + ||a^T X||^2) over the rows a of each agent."""
    rng = np.random.default_rng(0)
    silos = [rng.standard_normal((20 + 5 * i, 6)) * (1 + np.arange(6)) for i in range(agents)]

    def value(X, A):
        return -0.5 * np.sum(np.log1p(np.sum((A @ X) ** 2, axis=1)))

    def gradient(X, A):
        Y = A @ X
        return -A.T @ (Y / (1 + np.sum(Y**2, axis=1, keepdims=True)))

    return custom.problem(value, gradient, data=silos, shape=(6, 2))


def in_units(low, high, n=12):
    """PCA whose features are in units between two powers of ten; agents hold unlike shares."""
    rng = np.random.default_rng(2)
    A = rng.standard_normal((n, 90)) * np.logspace(high, low, n)[:, None]
    return destiny.problems.PCA(np.split(A.T, [3, 3, 40, 60, 75]), 2)


PROBLEMS = {
    "pca": lambda: small_problem("pca"),
    "small units": lambda: in_units(-6, -6),
    "large units": lambda: in_units(6, 6),
    "all units": lambda: in_units(-6, 6),
    "regression": lambda: small_problem("olsr"),
    "dictionary": lambda: small_problem("sdl"),
    "own": own_objective,
}
CASES = [
    (m, name)
    for m in TOTALS
    for name in PROBLEMS
    if not (m.about.problem == "pca" and name in ("regression", "dictionary", "own"))
    and not (m is destiny.AveragedModel and name in ("dictionary", "own"))
    and not (m is destiny.AveragedLBFGS and name == "all units")  # ill-conditioned: thousands of steps
]


@pytest.mark.parametrize(("method", "name"), CASES, ids=lambda x: x if isinstance(x, str) else x.kind)
def test_answers_are_those_of_plain_messages(method, name):
    problem, network = PROBLEMS[name](), nets.erdos_renyi(6, prob=0.5, seed=0)
    plain, private = (
        destiny.solve(problem, network, method(), tolerance=1e-10, messages=m) for m in (PLAIN, PRIVATE)
    )
    assert plain.converged
    assert private.converged
    assert private.message_kind.private
    assert private.measures.objective == pytest.approx(plain.measures.objective, rel=1e-11)
    if name in ("dictionary", "own"):  # with 1e-10 of a gradient, values are known to 1e-20 and points less
        np.testing.assert_allclose(private.X, plain.X, atol=1e-7)
    else:
        assert subspace_distance(private.X, plain.X) < 1e-9


@pytest.mark.parametrize("low", [-6, 6])
def test_pca_in_other_units_is_that_of_the_svd(low):
    problem = in_units(low, low + 3)
    result = destiny.solve(problem, nets.ring(6), messages=PRIVATE)
    assert subspace_distance(result.X, destiny.problems.pca.solution(problem)) < 1e-9


@by_kind
def test_a_run_has_one_set_of_bits_on_any_number_of_threads(method):
    problem, network = small_problem("pca", 7), nets.star(7)
    one, three = (
        destiny.solve(
            problem, network, method(), rounds=30, tolerance=0, engine=Local(threads), messages=PRIVATE
        )
        for threads in (1, 3)
    )
    assert one.steps > 2
    for name, array in flatten(one.state).items():
        assert (array == flatten(three.state)[name]).all(), name


@pytest.mark.parametrize("local_stopping", [False, True])
@by_kind
def test_a_run_that_was_resumed_has_the_same_bits(method, local_stopping, tmp_path):
    problem, network = small_problem("pca", 6), nets.ring(6)
    options = {"messages": PRIVATE, "tolerance": 1e-9, "local_stopping": local_stopping}
    whole = destiny.solve(problem, network, method(), engine=Local(1), **options)
    assert whole.converged
    folder = {"checkpoint": tmp_path / "c", "checkpoint_every": 1}
    destiny.solve(problem, network, method(), rounds=12, engine=Local(2), **folder, **options)
    ended = destiny.solve(problem, network, method(), resume=True, engine=Local(3), **folder, **options)
    assert (ended.reason, ended.rounds, ended.bytes) == (whole.reason, whole.rounds, whole.bytes)
    for name, array in flatten(whole.state).items():
        assert (array == flatten(ended.state)[name]).all(), name


TRIANGLES = nets.from_edges([(0, 1), (0, 2), (1, 2), (0, 3), (0, 4), (3, 4)])


def test_centering_works_by_sums_too(tmp_path):
    rng = np.random.default_rng(3)
    silos = [rng.standard_normal((6, 20)) + 5 for _ in range(6)]
    problem = destiny.problems.centered(destiny.problems.PCA([a.T for a in silos], 2))
    plain = destiny.solve(problem, nets.ring(6))
    whole = destiny.solve(problem, nets.ring(6), messages=PRIVATE, tolerance=0, rounds=60)
    folder = {"checkpoint": tmp_path / "c", "checkpoint_every": 1, "tolerance": 0}
    destiny.solve(problem, nets.ring(6), rounds=30, messages=PRIVATE, **folder)
    private = destiny.solve(problem, nets.ring(6), messages=PRIVATE, resume=True, rounds=60, **folder)
    np.testing.assert_allclose(private.mean, np.concatenate(silos, axis=1).mean(axis=1), rtol=1e-13)
    np.testing.assert_allclose(private.X, plain.X, atol=1e-9)
    assert (private.X == whole.X).all()


@pytest.mark.parametrize(("first", "second"), [(PRIVATE, PLAIN), (PLAIN, PRIVATE)])
def test_a_checkpoint_of_the_other_kind_is_refused(first, second, tmp_path):
    problem, network = small_problem("pca"), nets.ring(6)
    destiny.solve(problem, network, rounds=40, checkpoint=tmp_path, messages=first)
    with pytest.raises(CheckpointError, match=f"belongs to another run: its messages is {first}"):
        destiny.solve(problem, network, checkpoint=tmp_path, resume=True, messages=second)


HIDING = [
    nets.star(6),
    nets.path(6),
    nets.from_edges([(0, 1), (1, 2), (2, 0), (2, 3), (3, 4), (4, 5), (5, 3)]),  # two cut vertices
]


@pytest.mark.parametrize("network", HIDING, ids=["star", "path", "cut vertices"])
def test_any_connected_network_will_do(network):
    assert destiny.solve(small_problem("pca"), network, messages=PRIVATE).converged


REFUSED = {
    "changes": (nets.link_loss(nets.ring(6), 0.1), "need a static network"),
    "in turn": (nets.periodic([nets.ring(6), nets.complete(6)]), "need a static network"),
    "two agents": (nets.complete(2), "need at least 3 agents.*found 2: add a party"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_networks_that_cannot_hide_are_refused_in_a_sentence(case):
    network, words = REFUSED[case]
    with pytest.raises(NetworkError, match=words):
        destiny.solve(small_problem("pca", network.agents), network, messages=PRIVATE)


OTHERS = {
    "pca": (small_problem("pca"), destiny.DestinyAccelerated()),
    # Where no method is named, the one that would be taken for such a problem is refused.
    "regularizer": (small_problem("pca") + destiny.problems.L1(0.1), None),
    "constraint": (generalized(), None),
    "mini-batches": (destiny.problems.batched(small_problem("pca"), 4), None),
}


@pytest.mark.parametrize("case", OTHERS)
def test_other_methods_are_refused_and_those_to_take_are_named(case):
    problem, method = OTHERS[case]
    with pytest.raises(
        MismatchError, match="use averaged-model, averaged-krylov or averaged-lbfgs, which need"
    ):
        destiny.solve(problem, nets.ring(6), method, messages=PRIVATE)


@pytest.mark.parametrize(
    "method", [m for m in METHODS if not {"totals", "alone"} & m.about.traits], ids=lambda m: m.kind
)
def test_no_method_that_averages_over_neighbors_is_private(method):
    network = nets.star(6) if "star" in method.about else nets.ring(6)
    problem = small_problem("pca")
    if "regularized" in method.about:
        problem = problem + destiny.problems.L1(0.1)
    with pytest.raises(MismatchError, match=f"sums over all agents, which {method.kind} does not use"):
        destiny.solve(problem, network, method(), messages=PRIVATE)


@dataclass(frozen=True)
class Walk:
    """A method of a user's own."""

    private: bool
    kind = "walk"

    def init(self, X, agents):
        return X

    def step(self, X, agents):
        G = agents.gradient(X)
        mean = agents.all_reduce(G)[0] / agents.count if self.private else agents.mix(G)[0]
        return destiny.stiefel.polar(X - 0.1 * mean)


def test_a_method_of_ones_own_may_sum_and_may_not_mix():
    problem, network = small_problem("pca"), nets.ring(6)

    def walked(messages):
        moments = destiny.iterate(problem, network, Walk(True), messages=messages)
        return [next(moments).state for _ in range(9)][-1]

    np.testing.assert_allclose(walked(PRIVATE), walked(PLAIN), atol=1e-13)
    with pytest.raises(PrivacyError, match="averages over neighbors, from which their data can be"):
        next(m.step for m in destiny.iterate(problem, network, Walk(False), messages=PRIVATE) if m.step == 1)


def test_one_agent_has_nobody_to_hide_from():
    problem = small_problem("pca", 1)
    with pytest.raises(NetworkError, match="at least 3 agents"):
        destiny.solve(problem, nets.complete(1), messages=PRIVATE)


@pytest.mark.parametrize("wrong", ["privat", {"private": True}, True])
def test_the_option_is_checked(wrong):
    with pytest.raises(SettingsError, match='messages must be "plain", "private"'):
        destiny.solve(small_problem("pca"), nets.ring(6), messages=wrong)
    with pytest.raises(SettingsError, match="private must be True or False"):
        from_keys({"private": 1})


def test_a_gradient_that_is_not_finite_ends_the_run_in_words():
    def gradient(X, A):
        return np.full_like(X, np.nan) if abs(X[0, 0] - start[0, 0]) > 1e-3 else A @ X

    start = destiny.stiefel.random_point(5, 2, 0)
    data = [np.diag(np.arange(1.0, 6)) + k for k in range(4)]
    problem = custom.problem(lambda X, A: float(np.vdot(X, A @ X)) / 2, gradient, data=data, shape=(5, 2))
    with pytest.raises(PrivacyError, match="a gradient must be finite"):
        destiny.solve(problem, nets.ring(4), "averaged-lbfgs", start=start, messages=PRIVATE)


SMALL, LARGE = 1e-28, 1e22


def one_column(scale, k=2):
    """PCA of five features, one of them in units of its own; the last two are constant."""
    rng = np.random.default_rng(5)
    rows = [rng.standard_normal((30, 5)) * np.where(np.arange(5) == k, scale, 1.0) for _ in range(4)]
    for table in rows:
        table[:, 3:] = [1e-6, 0.0]
    return rows


@pytest.mark.parametrize("named", [True, False])
def test_columns_too_small_for_private_sums_are_refused_by_name(named, tmp_path):
    """Their variances, below 2^-140, would be rounded in silence: 1 was taken for the scale."""
    files = []
    for k, rows in enumerate(one_column(SMALL)):
        files.append(tmp_path / f"{k}.csv")
        np.savetxt(files[-1], rows, delimiter=",", header="a,b,iron,c,d", comments="")
    silos = destiny.Silos(files) if named else one_column(SMALL)
    problem = destiny.problems.PCA(silos, 2)
    standardized = destiny.problems.centered(problem, standardize=True)
    assert destiny.solve(standardized, nets.ring(4)).converged
    with pytest.raises(PrivacyError, match="that of column 'iron' is smaller" if named else "of column 2 is"):
        destiny.solve(standardized, nets.ring(4), messages=PRIVATE)
    right = destiny.problems.centered(destiny.problems.PCA(one_column(1e-20), 2), True)
    assert destiny.solve(right, nets.ring(4), messages=PRIVATE).converged


@pytest.mark.parametrize("method", [*TOTALS, None], ids=lambda m: "centering" if m is None else m.kind)
def test_a_number_that_words_cannot_hold_is_told_with_its_column(method):
    problem = destiny.problems.PCA(one_column(LARGE), 2)
    if method is None:
        problem = destiny.problems.centered(problem, standardize=True)
    sent = (
        "Entry 0" if method is destiny.AveragedKrylov else "What is sent of column 2"
    )  # it sends the total variance
    with pytest.raises(destiny.DestinyError, match=rf"^{sent} must be a finite number"):
        destiny.solve(problem, nets.ring(4), method and method(), messages=PRIVATE)


@pytest.mark.parametrize("method", TOTALS, ids=lambda m: m.kind)
def test_all_totals_that_are_learned_are_told_and_stand_on_the_page(method, tmp_path):
    page = (Path(__file__).parents[2] / "docs" / "privacy.md").read_text()
    problem = destiny.problems.centered(small_problem("pca"), standardize=True)
    told = totals_learned(problem, method())
    for total in told.split("; "):
        assert total in page
    assert "squared distances" in told
    assert "squared distances" not in totals_learned(small_problem("pca"), method())
    party = Party(tmp_path, nets.ring(3), algorithm=f'kind = "{method.kind}"', messages="private = true")
    done = CliRunner().invoke(app, ["agents", "check", str(party.home(0) / "agent.toml")])
    assert f"these sums are: {method.about.learned}; the answer; how many agents are not done" in done.stdout


EXPERIMENT = """
problem = { kind = "pca", agents = 6, p = 2, synthetic = { n = 10, m = 60, xi = 0.8 } }
network = { kind = "KIND" }
messages = { private = true }
stop = { tolerance = 1e-6 }
[run]
checkpoint = 10
"""


def test_files_and_the_command_line_know_it(tmp_path, monkeypatch, capsys):
    path, out = tmp_path / "e.toml", tmp_path / "out"
    path.write_text(EXPERIMENT.replace("KIND", "path"))
    assert main(monkeypatch, "run", path, "--out", out) == 0
    (entry,) = json.loads((out / "summary.json").read_text())
    assert entry["private"] is True
    path.write_text(EXPERIMENT.replace("KIND", "path").replace("true", "false"))
    assert main(monkeypatch, "run", path, "--out", out, "--resume") == 2
    assert "its [messages] is {'private': True}" in capsys.readouterr().err
    path.write_text(EXPERIMENT.replace("KIND", "ring").replace("agents = 6", "agents = 2"))
    assert main(monkeypatch, "run", path, "--out", tmp_path / "other") == 2
    assert "need at least 3 agents" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("network", "level", "words"),
    [
        pytest.param(nets.path(2), "problem", "need at least 3 agents", id="two agents"),
        pytest.param(nets.path(6), "ok", "sums over all 6 agents, and nothing else", id="path"),
    ],
)
def test_the_doctor_says_what_agents_learn(network, level, words):
    found = destiny.diagnose(small_problem("pca", network.agents), network, messages=PRIVATE)
    (finding,) = [f for f in found.findings if f.about == "messages"]
    assert finding.level == level
    assert words in finding.text


def test_compare_leaves_out_what_is_refused():
    methods = [destiny.Destiny(), destiny.AveragedKrylov()]
    found = destiny.compare(small_problem("pca"), nets.ring(6), methods, rounds=40, messages=PRIVATE)
    assert found.results["averaged-krylov"].message_kind.private
    assert "use averaged-model" in found.skipped["destiny"]

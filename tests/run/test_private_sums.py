"""Runs with private sums: the rounds and answers of plain messages, one set of bits, refusals."""

import json

import numpy as np
import pytest

import destiny
from destiny.algorithms import METHODS
from destiny.engines import Local
from destiny.errors import CheckpointError, MismatchError, NetworkError, SettingsError
from destiny.run.inputs import prepared_algorithm
from destiny.storage.checkpoint import flatten
from tests.helpers.cli_experiments import main
from tests.helpers.small_problems import agents_of, small_problem

PLAIN, PRIVATE = destiny.Messages(), destiny.Messages(private=True)
TOGETHER = [m for m in METHODS if not (m.about.alone or m.about.star)]  # a star cannot hide its centre
nets = destiny.networks


def rng_data(n, m):
    return np.random.default_rng(0).standard_normal((n, m))


# Small versions of the settings of the paper's figures.
SETTINGS = {
    "figure 3": (
        lambda: destiny.problems.pca.synthetic(n=30, m=480, p=3, xi=0.9, agents=12, seed=0),
        nets.erdos_renyi(12, prob=0.4, seed=1),
    ),
    "ring-32": (
        lambda: destiny.problems.pca.synthetic(n=20, m=640, p=2, xi=0.8, agents=32, seed=0),
        nets.ring(32),
    ),
    "sdl": (lambda: destiny.problems.sdl.from_data(rng_data(12, 200), 2, 8), nets.ring(8)),
    "olsr": (
        lambda: destiny.problems.olsr.synthetic(n=20, m=300, p=3, agents=8, seed=0),
        nets.erdos_renyi(8, prob=0.6, seed=0),
    ),
}


@pytest.mark.parametrize("tolerance", [1e-8, 1e-10])
@pytest.mark.parametrize("name", SETTINGS)
def test_the_rounds_are_those_of_plain_messages(name, tolerance):
    make, network = SETTINGS[name]
    plain, private = (
        destiny.solve(
            make(), network, "destiny-momentum", tolerance=tolerance, engine=Local(1), messages=messages
        )
        for messages in (PLAIN, PRIVATE)
    )
    assert plain.converged
    assert private.converged
    # The start is averaged in three diameters instead of 20 rounds, with two numbers for each.
    assert private.rounds <= plain.rounds + max(0, 3 * network.diameter - 20) + 10
    assert private.scalars <= 1.1 * plain.scalars
    assert private.measures.objective == pytest.approx(plain.measures.objective, rel=1e-10)


@pytest.mark.parametrize("method", TOGETHER, ids=lambda m: m.kind)
def test_every_method_has_one_set_of_bits(method):
    problem, network = small_problem("pca", 7), nets.ring(7)
    one, three = (
        destiny.solve(problem, network, method(), rounds=60, engine=Local(threads), messages=PRIVATE)
        for threads in (1, 3)
    )
    assert one.private
    for name, array in flatten(one.state).items():
        assert (array == flatten(three.state)[name]).all(), name


@pytest.mark.parametrize(
    "method", [m for m in TOGETHER if m is not destiny.DestinyNewton], ids=lambda m: m.kind
)
def test_a_step_is_that_of_plain_messages(method):
    """Newton's is not: its private averages are exact."""
    problem, network = small_problem("pca", 7), nets.ring(7)
    fitted = prepared_algorithm(method(), problem, network)
    state = destiny.solve(problem, network, method(), rounds=60, engine=Local(1), messages=PRIVATE).state
    plain, private = agents_of(problem, network), agents_of(problem, network)
    private.sum_privately(network.diameter)
    for _ in range(3):
        expected = flatten(fitted.step(state, plain))
        state = fitted.step(state, private)
        for name, array in flatten(state).items():
            np.testing.assert_allclose(array, expected[name], rtol=1e-9, atol=1e-11, err_msg=name)


@pytest.mark.parametrize("method", [destiny.DestinyMomentum, destiny.algorithms.ATC], ids=lambda m: m.kind)
@pytest.mark.parametrize("threads", [(1, 1), (2, 3)])
def test_a_run_that_was_resumed_has_the_same_bits(method, threads, tmp_path):
    problem, network = small_problem("sdl", 6), nets.ring(6)
    options = {"messages": PRIVATE, "tolerance": 1e-2, "decentralised": True}
    whole = destiny.solve(problem, network, method(), engine=Local(1), **options)
    folder = {"checkpoint": tmp_path / "c", "checkpoint_every": 9}
    destiny.solve(problem, network, method(), rounds=50, engine=Local(threads[0]), **folder, **options)
    ended = destiny.solve(
        problem, network, method(), resume=True, engine=Local(threads[1]), **folder, **options
    )
    assert ended.reason == whole.reason
    for name, array in flatten(whole.state).items():
        assert (array == flatten(ended.state)[name]).all(), name


TRIANGLES = nets.from_edges([(0, 1), (0, 2), (1, 2), (0, 3), (0, 4), (3, 4)])


@pytest.mark.parametrize(
    ("network", "parts"),
    [
        (TRIANGLES, "without agent 0 this one falls into agents 1, 2 and agents 3, 4,"),
        (
            nets.from_edges(
                [*((i, (i + 1) % 9) for i in range(9)), *((a, b) for a, b in ((8, 9), (9, 10), (10, 8)))]
            ),
            "without agent 8 this one falls into agents 0, 1, 2, 3, 4, 5 and 2 more and agents 9, 10,",
        ),
    ],
)
def test_a_network_that_one_agent_connects_is_refused(network, parts):
    problem = small_problem("pca", network.agents)
    assert destiny.solve(problem, network).converged
    with pytest.raises(NetworkError, match=parts):
        destiny.solve(problem, network, messages=PRIVATE)


def test_centring_works_by_sums_too(tmp_path):
    rng = np.random.default_rng(3)
    silos = [rng.standard_normal((6, 20)) + 5 for _ in range(6)]
    problem = destiny.problems.centred(destiny.problems.PCA(silos, 2))
    plain = destiny.solve(problem, nets.ring(6))
    folder = {"checkpoint": tmp_path / "c", "checkpoint_every": 5}
    destiny.solve(problem, nets.ring(6), rounds=120, messages=PRIVATE, **folder)
    private = destiny.solve(problem, nets.ring(6), messages=PRIVATE, resume=True, **folder)
    assert private.converged
    np.testing.assert_allclose(private.mean, np.concatenate(silos, axis=1).mean(axis=1), rtol=1e-13)
    np.testing.assert_allclose(private.X, plain.X, atol=1e-9)
    assert (private.X == destiny.solve(problem, nets.ring(6), messages=PRIVATE).X).all()


@pytest.mark.parametrize("private", [True, False])
def test_a_checkpoint_of_the_other_kind_is_refused(private, tmp_path):
    problem, network = small_problem("pca"), nets.ring(6)
    destiny.solve(problem, network, rounds=40, checkpoint=tmp_path, messages=destiny.Messages(private))
    with pytest.raises(CheckpointError, match=r"belongs to another run: it has (plain|private).*this run"):
        destiny.solve(
            problem, network, checkpoint=tmp_path, resume=True, messages=destiny.Messages(not private)
        )


class Flipping:
    """A network of a user's own that changes without saying so."""

    agents = 6

    def at(self, round):
        return (nets.ring(6) if round < 25 else nets.complete(6)).W.toarray()


REFUSED = {
    "changes": (nets.link_loss(nets.ring(6), 0.1), None, NetworkError, "needs? a network that stays"),
    "in turn": (nets.periodic([nets.ring(6), nets.complete(6)]), None, NetworkError, "a network that stays"),
    "one neighbour": (nets.path(6), None, NetworkError, "agent 0 has agent 1 only: add a link"),
    "star": (nets.star(6), None, NetworkError, "agent 1 has agent 0 only"),
    "changes silently": (Flipping(), None, NetworkError, "changed in round 25"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_hidden_is_refused_in_a_sentence(case):
    network, method, error, words = REFUSED[case]
    with pytest.raises(error, match=words):
        destiny.solve(small_problem("pca"), network, method, rounds=60, messages=PRIVATE)


def test_negative_weights_are_refused():
    W = np.full((4, 4), 0.3) + np.diag([-0.2] * 4)
    W[0, 1] = W[1, 0] = -0.1
    W[0, 0] = W[1, 1] = 0.5
    network = nets.from_weights(W)
    with pytest.raises(NetworkError, match=r"not negative; that of agents 0 and 1 is -0.1"):
        destiny.solve(small_problem("pca", 4), network, messages=PRIVATE)


def test_one_agent_has_nothing_to_hide():
    problem = small_problem("pca", 1)
    plain, private = (destiny.solve(problem, nets.complete(1), messages=m) for m in (PLAIN, PRIVATE))
    assert (plain.X == private.X).all()
    for method in METHODS:
        if method.about.alone:
            with pytest.raises(MismatchError, match="nobody to hide from"):
                destiny.solve(problem, nets.complete(1), method(), messages=PRIVATE)


@pytest.mark.parametrize("wrong", ["private", {"private": True}, True])
def test_the_option_is_checked(wrong):
    with pytest.raises(SettingsError, match=r"destiny\.Messages"):
        destiny.solve(small_problem("pca"), nets.ring(6), messages=wrong)
    with pytest.raises(SettingsError, match="private must be True or False"):
        destiny.Messages(private=1)


def test_what_is_not_finite_ends_as_diverged():
    method = destiny.Destiny(1e9, destiny.steps.Constant(10.0))
    result = destiny.solve(small_problem("pca"), nets.ring(6), method, messages=PRIVATE)
    assert result.reason.startswith("diverged")


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
    path.write_text(EXPERIMENT.replace("KIND", "ring"))
    assert main(monkeypatch, "run", path, "--out", out) == 0
    (entry,) = json.loads((out / "summary.json").read_text())
    assert entry["private"] is True
    path.write_text(EXPERIMENT.replace("KIND", "ring").replace("true", "false"))
    assert main(monkeypatch, "run", path, "--out", out, "--resume") == 2
    assert "its [messages] is {'private': True}" in capsys.readouterr().err
    path.write_text(EXPERIMENT.replace("KIND", "path"))
    assert main(monkeypatch, "run", path, "--out", tmp_path / "other") == 2
    assert "agent 0 has agent 1 only" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("network", "level", "words"),
    [
        pytest.param(nets.path(6), "problem", "agent 0 has agent 1 only", id="path"),
        pytest.param(nets.ring(6), "look", "of 2 agents at least; with 3 or more", id="ring"),
        pytest.param(nets.complete(6), "ok", "of 5 agents at least", id="complete"),
    ],
)
def test_the_doctor_says_how_many_hide_each_other(network, level, words):
    found = destiny.diagnose(small_problem("pca"), network, messages=PRIVATE)
    (finding,) = [f for f in found.findings if f.about == "messages"]
    assert finding.level == level
    assert words in finding.text


def test_compare_takes_it():
    found = destiny.compare(
        small_problem("pca"), nets.ring(6), [destiny.Destiny()], rounds=40, messages=PRIVATE
    )
    assert found.results["destiny"].private

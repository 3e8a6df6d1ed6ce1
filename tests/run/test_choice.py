"""The method of a run that names none: what is chosen, why, and that everybody chooses the same."""

import json
from dataclasses import replace

import numpy as np
import pytest

import destiny
from destiny import networks, problems
from destiny.engines.mixers import PLAIN, Private
from destiny.errors import SettingsError
from destiny.experiments import file
from destiny.networks.local_view import Neighborhood
from destiny.protocols.link import INTERNET, Link
from destiny.run import choice as module
from destiny.run.choice import (
    KRYLOV,
    LBFGS,
    NARROW_KRYLOV,
    NEWTON,
    Cost,
    centering_cost,
    choose,
    momentum_cost,
    numbers_in,
)
from tests.helpers.agent_party import Party
from tests.helpers.small_problems import small_problem

RING = networks.ring(6)
SMOOTH = {
    "pca": small_problem("pca"),
    "olsr": small_problem("olsr"),
    "sdl": small_problem("sdl"),
    "sum": small_problem("pca") + 0.5 * small_problem("pca"),
    "mixed sum": small_problem("pca") + small_problem("sdl"),
    "centered": problems.centered(small_problem("pca")),
    "pooled": problems.pooled(small_problem("pca")),
    "private": problems.pca.private(small_problem("pca"), problems.Privacy(epsilon=1, delta=1e-5, bound=1)),
}


@pytest.mark.parametrize("name", SMOOTH)
def test_a_problem_tells_its_hessian_if_and_only_if_it_says_so(name):
    problem = SMOOTH[name]
    solved = problem.pooled() if name == "centered" else problem
    agents = destiny.engines.local(1).connect(solved, networks.complete(problem.agents))
    (hessian,) = agents.each(lambda _, hosted: hosted.hessian(), [None])
    agents.close()
    assert (hessian is not None) == problem.quadratic


CHOICES = {
    "moderate n": (
        (SMOOTH["pca"], RING),
        "averaged-model",
        r"about 6 rounds and 12 kB \(0.12 s\) are predicted for links of 20 ms and 100 Mbit/s, against",
    ),
    "regression": ((SMOOTH["olsr"], RING), "averaged-model", "rounds"),
    "one agent": ((small_problem("pca", 1), networks.complete(1)), "averaged-model", "rounds"),
    "dictionary": (
        (SMOOTH["sdl"], RING),
        "averaged-lbfgs",
        "not tell a constant Hessian.*; about 180 rounds and .* are predicted .*, against 216 rounds",
    ),
    "dictionary on a network whose agents are far apart for how well it mixes": (
        (small_problem("sdl", 256), networks.hypercube(8)),
        "destiny-accelerated",
        "about .* are predicted .*, against 480 rounds and 5.* MB .* of averaged-lbfgs",
    ),
    "dictionary on a grid, whose center is nearer than its corners": (
        (small_problem("sdl", 36), networks.grid(6, 6)),
        "averaged-lbfgs",
        "about 360 rounds .* are predicted .*, against 588 rounds",
    ),
    "dictionary, small messages": (
        (SMOOTH["sdl"], RING, 0.0, destiny.Quantized(8)),
        "destiny-accelerated",
        "does not tell a constant Hessian",
    ),
    "private dictionary": (
        (SMOOTH["sdl"], RING, 0.0, Private()),
        "averaged-lbfgs",
        "constant Hessian.*; it uses sums over all agents alone; about 186 rounds and .* are predicted",
    ),
    "private mixed sum": (
        (SMOOTH["mixed sum"], RING, 0.0, Private()),
        "averaged-lbfgs",
        "sums over all agents alone",
    ),
    "private regression with large n": (
        (
            problems.OLSR([np.ones((3, 1001))] * 6, [np.ones((3, 2))] * 6),
            RING,
            0.0,
            Private(),
        ),
        "averaged-lbfgs",
        "sums over all agents alone",
    ),
    "private regression with a fine tolerance": (
        (SMOOTH["olsr"], RING, 1e-12, Private()),
        "averaged-lbfgs",
        "sums over all agents alone",
    ),
    "private dictionary on a network that changes": (
        (SMOOTH["sdl"], networks.link_loss(RING, 0.2), 0.0, Private()),
        "destiny-accelerated",  # refused later: such a network has no private sums
        "does not tell a constant Hessian",
    ),
    "changing": (
        (SMOOTH["pca"], networks.link_loss(RING, 0.2)),
        "destiny-accelerated",
        "changes from round to round",
    ),
    "large n": (
        (problems.PCA([np.ones((3, 1001))] * 6, 2), RING),
        "averaged-krylov",
        "which n = 1001 makes large; about 54 rounds .* are predicted .*, against 216 rounds .* or more",
    ),
    "large n, changing": (
        (problems.PCA([np.ones((3, 1001))] * 6, 2), networks.link_loss(RING, 0.2)),
        "destiny-accelerated",
        "changes from round to round",
    ),
    "large n, small messages": (
        (problems.PCA([np.ones((3, 1001))] * 6, 2), RING, 0.0, destiny.Quantized(8)),
        "destiny-accelerated",
        "exact totals",
    ),
    "large regression": (
        (problems.OLSR([np.ones((3, 1001))] * 6, [np.ones((3, 2))] * 6), RING),
        "averaged-lbfgs",
        "n x n matrices, which n = 1001 makes large; about 180 rounds",
    ),
    "long messages": (
        (
            problems.PCA([np.ones((3, 1000))] * 5, 1),
            networks.complete(5),
            0.0,
            Private(),
        ),
        "averaged-krylov",
        "about 20 rounds and .* MB .* are predicted",
    ),
    "small messages": (
        (SMOOTH["pca"], RING, 0.0, destiny.Quantized(8)),
        "destiny-accelerated",
        "exact totals, which messages of 8 bits cannot carry",
    ),
    "fine tolerance": ((SMOOTH["pca"], RING, 1e-12), "averaged-krylov", "a tolerance of 1e-12"),
    "fine regression": ((SMOOTH["olsr"], RING, 1e-12), "averaged-lbfgs", "a tolerance of 1e-12"),
    "regularizer": ((SMOOTH["pca"] + problems.L1(0.1), RING), "destiny-prox", "has a regularizer"),
}


@pytest.mark.parametrize("name", CHOICES)
def test_the_choice_and_its_reason(name):
    arguments, kind, reason = CHOICES[name]
    choice = choose(*arguments)
    assert choice.algorithm.kind == kind
    with pytest.raises(AssertionError, match=reason):
        raise AssertionError(choice.reason)
    assert str(choice) == f"{kind} was chosen: {choice.reason}"


def test_the_faster_one_is_chosen_unless_its_sums_would_tell_the_data(monkeypatch):
    monkeypatch.setattr(module.Totals, "cost", lambda *_: Cost(10, 1000, 1000))
    monkeypatch.setattr(module, "momentum_cost", lambda *_: Cost(10, 999, 999))
    plain, private = (choose(SMOOTH["pca"], RING, 0.0, m) for m in (PLAIN, Private()))
    assert plain.algorithm.kind == "destiny-accelerated"
    assert plain.reason.startswith("about 10 rounds and 7.99 kB (0.2 s) are predicted for links of 20 ms")
    assert private.algorithm.kind == "averaged-model"


def test_predictions_are_near_what_runs_take():
    for network in (networks.erdos_renyi(12, prob=0.4, seed=3), networks.ring(12), networks.complete(5)):
        d = network.agents
        problem = problems.pca.synthetic(n=40, m=40 * d, p=4, xi=0.9, agents=d, seed=3)
        newton, momentum = NEWTON.cost(problem.shape, network), momentum_cost(problem.shape, network)
        result = destiny.solve(problem, network)
        assert result.rounds == newton.rounds
        assert result.bytes == 8 * newton.messages
        messages = Private()
        newton = NEWTON.cost(problem.shape, network, messages)
        private = destiny.solve(problem, network, messages=messages)
        assert (private.rounds, private.bytes) == (newton.rounds, 8 * newton.messages)
        rival = destiny.solve(problem, network, destiny.DestinyAccelerated())
        assert momentum.rounds / 2 <= rival.rounds <= 3 * momentum.rounds
        a_round = numbers_in(destiny.DestinyAccelerated.about, problem.shape)
        assert momentum.numbers == momentum.rounds * a_round
        assert momentum.messages == momentum.numbers * 2 * len(network.edges)


TREES = {
    "random": networks.erdos_renyi(12, prob=0.4, seed=3),
    "ring": networks.ring(12),
    "star": networks.star(9),
    "path": networks.path(9),
    "grid": networks.grid(4, 4),
}


@pytest.mark.parametrize("private", [False, True])
@pytest.mark.parametrize("name", TREES)
@pytest.mark.parametrize("method", [NEWTON, KRYLOV, NARROW_KRYLOV, LBFGS], ids=["n", "k", "narrow", "l"])
def test_predictions_are_exact_for_the_steps_that_a_run_takes(method, name, private):
    network, messages = TREES[name], Private() if private else PLAIN
    problem = problems.pca.synthetic(n=40, m=60 * network.agents, p=2, xi=0.8, agents=network.agents, seed=3)
    result = destiny.solve(problem, network, method.make(), seed=3, messages=messages)
    assert result.converged
    predicted = replace(method, steps=result.steps).cost(problem.shape, network, messages)
    assert predicted.rounds == result.rounds
    assert result.bytes == 8 * predicted.messages


@pytest.mark.parametrize("private", [False, True])
@pytest.mark.parametrize("standardize", [False, True])
@pytest.mark.parametrize("kind", ["pca", "olsr"])
def test_what_is_sent_while_the_mean_is_found_is_predicted_too(kind, standardize, private):
    network, messages = networks.grid(2, 3), Private() if private else PLAIN
    problem = problems.centered(small_problem(kind, 6), standardize)
    predicted = NEWTON.cost(problem.shape, network, messages) + centering_cost(problem, network, messages)
    result = destiny.solve(problem, network, messages=messages)
    assert (result.rounds, result.bytes) == (predicted.rounds, 8 * predicted.messages)
    assert str(predicted) in result.choice


@pytest.mark.parametrize("seed", [3, 4])
@pytest.mark.parametrize("name", TREES)
def test_predictions_of_krylov_spaces_are_near_what_runs_take(name, seed):
    network = TREES[name]
    problem = problems.pca.synthetic(
        n=100, m=100 * network.agents, p=5, xi=0.9, agents=network.agents, seed=seed
    )
    result = destiny.solve(problem, network, "averaged-krylov", seed=seed)
    assert KRYLOV.cost(problem.shape, network).rounds == pytest.approx(result.rounds, rel=0.2)


def test_krylov_spaces_end_where_they_are_everything():
    problem = problems.pca.synthetic(n=15, m=600, p=3, xi=0.99, agents=6, seed=3)
    result = destiny.solve(problem, RING, "averaged-krylov", tolerance=1e-9)
    assert result.steps == 3
    assert KRYLOV.cost(problem.shape, RING).rounds == result.rounds


def test_predictions_of_quasi_newton_steps_are_near_what_runs_take():
    for network in TREES.values():
        d = network.agents
        problem = problems.sdl.synthetic(n=20, m=100 * d, p=3, agents=d, seed=3)
        predicted = LBFGS.cost(problem.shape, network)
        result = destiny.solve(problem, network, "averaged-lbfgs", seed=3)
        assert predicted.rounds / 2.5 <= result.rounds <= 2 * predicted.rounds


def test_time_is_rounds_times_delay_and_size_over_bandwidth():
    cost = Cost(10, 100, 600)
    assert cost.time(INTERNET) == pytest.approx(10 * 0.02 + 100 * 64 / 100e6)
    assert cost.time(Link(delay=1, bandwidth=0.0064)) == pytest.approx(10 + 1)
    assert str(cost) == "10 rounds and 4.8 kB"


LARGE = small_problem("sdl", 256), networks.hypercube(8)


def test_the_link_decides_between_few_rounds_and_few_bytes():
    problem = problems.PCA([np.ones((3, 900))] * 6, 2)
    slow, far = Link(delay=0, bandwidth=1), Link(delay=1, bandwidth=1000)
    assert choose(problem, RING, link=far).algorithm.kind == "averaged-model"
    thin = choose(problem, RING, link=slow)
    assert (thin.algorithm.kind, thin.algorithm.width) == ("averaged-krylov", 1)
    assert "for links of 0 ms and 1 Mbit/s" in thin.reason
    assert destiny.solve(problem, RING, link=slow, rounds=20).settings["kind"] == "averaged-krylov"
    path_kinds = {choose(*LARGE, link=link).algorithm.kind for link in (slow, far)}
    assert path_kinds == {"averaged-lbfgs", "destiny-accelerated"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"delay": -1}, "delay must be a number of seconds >= 0; found -1"),
        ({"delay": "20 ms"}, "delay must be a number of seconds"),
        ({"bandwidth": 0}, "bandwidth must be a number of Mbit/s > 0; found 0"),
    ],
)
def test_links_that_cannot_be_are_refused(arguments, message):
    with pytest.raises(SettingsError, match=message):
        Link(**arguments)


def test_a_link_is_not_a_number():
    with pytest.raises(SettingsError, match=r"link must be destiny.Link\(...\); found 20"):
        destiny.solve(SMOOTH["pca"], RING, link=20)


def test_the_result_says_what_was_chosen_and_one_word_overrides_it():
    result = destiny.solve(SMOOTH["pca"], RING)
    assert result.settings["kind"] == "averaged-model"
    assert result.choice in str(result)
    assert result.choice in result._repr_html_()
    assert result.summary()["choice"] == result.choice
    other = destiny.solve(SMOOTH["pca"], RING, "destiny-accelerated")
    assert (other.settings["kind"], other.choice) == ("destiny-accelerated", None)
    assert "choice" not in other.summary()
    moment = next(iter(destiny.iterate(SMOOTH["pca"], RING)))
    assert type(moment.state).__name__ == "NewtonState"


def test_every_step_of_few_is_measured_and_the_bits_do_not_depend_on_it():
    often, never = (destiny.solve(SMOOTH["pca"], RING, every=k, tolerance=0, rounds=40) for k in (10, 0))
    assert often.history["step"].tolist() == list(range(often.steps + 1))
    assert (often.X == never.X).all()


def test_a_start_that_is_the_answer_ends_at_once_also_where_agents_decide():
    problem = small_problem("olsr")
    answer = destiny.solve(problem, RING, tolerance=1e-11).X
    again = destiny.solve(problem, RING, start=answer, local_stopping=True, rounds=400)
    assert again.converged
    assert again.rounds < 60


FILE = """
[problem]
kind = "pca"
synthetic = { n = 8, m = 60, xi = 0.7 }
p = 2
agents = 6
[network]
kind = "ring"
"""


def test_files_without_a_kind(tmp_path):
    path = tmp_path / "e.toml"
    path.write_text(FILE)
    assert file.read(path).algorithms == {"averaged-model": None}
    path.write_text(FILE + "delay = 0\nbandwidth = 10\n")
    assert file.read(path).options.link == Link(0, 10)
    path.write_text(FILE + "delay = -1\n")
    with pytest.raises(SettingsError, match=r"\[network\] delay must be a number of seconds >= 0; found -1"):
        file.read(path)
    path.write_text(FILE + "[stop]\ntolerance = 1e-12\n")
    assert file.read(path).algorithms == {"averaged-krylov": None}
    path.write_text(FILE + '[[algorithm]]\nlabel = "ours"\n[[algorithm]]\nkind = "destiny"\n')
    assert file.read(path).algorithms == {"ours": None, "destiny": destiny.Destiny()}
    path.write_text(FILE + "[[algorithm]]\nbeta = 1.0\n")
    with pytest.raises(SettingsError, match=r"kind must be one of .*; found None"):
        file.read(path)


@pytest.mark.parametrize("private", [True, False])
def test_between_organizations_second_moments_are_sent_in_private_sums_only(tmp_path, private):
    party = Party(
        tmp_path,
        networks.ring(4),
        algorithm="",
        messages=f"private = {json.dumps(private)}",
        whole='[network]\nkind = "ring"',
    )
    read = [party.settings(agent) for agent in range(4)]
    assert {s.algorithm.kind for s in read} == {"averaged-model" if private else "destiny-accelerated"}
    assert len({json.dumps(s.common, sort_keys=True) for s in read}) == 1
    assert ("pooled second moments; the answer; how many agents" in read[0].disclosure) == private
    assert ("not private" in read[0].choice.reason) != private
    if private:
        outcomes = party.go()
        party.check(outcomes)
        assert {outcome.choice for outcome in outcomes} == {party.reference.choice}


@pytest.mark.parametrize("private", [True, False])
def test_between_organizations_gradients_at_common_points_are_sent_in_private_sums_only(tmp_path, private):
    party = Party(
        tmp_path,
        networks.ring(4),
        problem='kind = "sdl"\nsynthetic = { n = 8, m = 90, seed = 0 }\np = 2',
        algorithm="",
        messages=f"private = {json.dumps(private)}",
        whole='[network]\nkind = "ring"',
    )
    read = party.settings(0)
    assert read.algorithm.kind == ("averaged-lbfgs" if private else "destiny-accelerated")
    assert ("mean gradient, value and curvature at the points of each step" in read.disclosure) == private
    if private:
        outcomes = party.go()
        party.check(outcomes)
        assert {outcome.choice for outcome in outcomes} == {party.reference.choice}


def test_agents_that_know_their_neighbors_only_choose_too(tmp_path):
    party = Party(tmp_path, networks.ring(4), messages="private = true")
    party.write(0, algorithm="")
    assert party.settings(0).algorithm.kind == "averaged-model"


def test_agents_have_their_link_in_their_files_also_alone(tmp_path):
    party = Party(
        tmp_path, networks.ring(4), algorithm="", messages="private = true", whole="[network]\ndelay = 5"
    )
    read = party.settings(0)
    assert "for links of 5000 ms and 100 Mbit/s" in read.choice.reason
    assert isinstance(read.network, Neighborhood)

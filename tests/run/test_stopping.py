"""Rules, and the agents' own agreement to stop."""

import numpy as np
import pytest

import destiny
from destiny import networks
from destiny.engines.threads import LocalTeam
from destiny.errors import SettingsError
from destiny.geometry.stiefel import polar
from destiny.run import stopping
from destiny.run.agreement import LocalStop
from destiny.run.metrics import Measures
from destiny.run.own import as_topology
from tests.helpers.small_problems import KINDS, small_problem


def seen(**changes):
    values = {"step": 5, "round": 25, "seconds": 1.0, "cost": 1, "measures": Measures(0.0, 1e-9, 1e-9, 1e-9)}
    return stopping.RunStatus(**(values | changes))


def test_tolerance_needs_all_three_measures():
    rule = stopping.Tolerance(1e-8)
    assert rule.check(seen()).converged
    for bad in ({"stationarity": 1e-7}, {"consensus": 1e-7}, {"feasibility": 1e-7}, {"consensus": np.nan}):
        measures = Measures(
            **({"objective": 0.0, "stationarity": 0.0, "consensus": 0.0, "feasibility": 0.0} | bad)
        )
        assert rule.check(seen(measures=measures)) is None
    assert rule.check(seen(measures=None)) is None
    assert stopping.Tolerance(0).check(seen(measures=Measures(0, 0, 0, 0))) is None


def test_rounds_are_never_exceeded():
    assert stopping.Rounds(28).check(seen(cost=3)) is None
    stop = stopping.Rounds(27).check(seen(cost=3))
    assert (stop.converged, stop.reason) == (False, "out of rounds: 25 of 27 used")


def test_time_and_divergence():
    assert stopping.Seconds(2.0).check(seen()) is None
    assert "out of time" in stopping.Seconds(0.5).check(seen()).reason
    assert stopping.Diverged().check(seen()) is None
    assert "not finite" in stopping.Diverged().check(seen(measures=Measures(*[np.nan] * 4))).reason
    assert "1.0e+09" in stopping.Diverged().check(seen(measures=Measures(0, 1.0, 1.0, 1e9))).reason


@pytest.mark.parametrize(
    "rule",
    [
        lambda: stopping.Rounds(-1),
        lambda: stopping.Rounds(1.5),  # type: ignore[arg-type]
        lambda: stopping.Seconds(0),
        lambda: stopping.Tolerance(-1),
    ],
)
def test_limits_are_checked(rule):
    with pytest.raises(destiny.SettingsError, match="must be"):
        rule()


def test_flooding_time_of_fixed_networks_is_the_diameter():
    for network in (destiny.networks.ring(9), destiny.networks.star(5), destiny.networks.grid(3, 4)):
        assert stopping.flooding_time(network, 3) == network.diameter


def test_flooding_time_of_a_changing_network_by_brute_force():
    network = destiny.networks.matchings(destiny.networks.ring(7), seed=1)
    for start in (0, 5, 11):
        reach, k = np.eye(7), 0
        while (reach == 0).any():
            reach = ((network.at(start + k).toarray() != 0) | np.eye(7, dtype=bool)) @ reach
            k += 1
        assert stopping.flooding_time(network, start) == k


def topologies():
    nets = destiny.networks
    return {
        "ring": nets.ring(9),
        "star": nets.star(9),
        "grid": nets.grid(3, 3),
        "random": nets.erdos_renyi(9, prob=0.4, seed=1),
        "alone": nets.ring(1),
        "loss": nets.link_loss(nets.complete(9), 0.6, seed=3),
        "matchings": nets.matchings(nets.complete(9), seed=5),
    }


@pytest.mark.parametrize("name", ["ring", "star", "grid", "random", "loss", "matchings", "alone"])
@pytest.mark.parametrize("tolerance", [1e-2, 1e-5])
def test_agents_stop_together_and_never_too_early(name, tolerance, monkeypatch):
    """Record every residual the agents hold and every decision they take."""
    network = topologies()[name]
    problem = small_problem("pca", agents=network.agents)
    residuals, decisions = {}, []
    own_flood = LocalTeam.flood.fget

    def spy(team):
        decisions.append(own_flood(team))
        return decisions[-1]

    monkeypatch.setattr(LocalTeam, "flood", property(spy))
    algorithm = destiny.DestinyAccelerated()
    options = {"local_stopping": True, "tolerance": tolerance, "rounds": 9000, "every": 0}
    result = destiny.solve(problem, network, algorithm, **options)
    assert result.converged, result
    # Whenever agents decide, all of them hold the very same bit: they cannot decide differently.
    assert all((flood == 1).all() for flood in decisions[:-1])
    assert (decisions[-1] == 0).all()
    # And that bit says whether any residual was above the tolerance at the step they speak of.
    for moment in destiny.iterate(problem, network, algorithm):
        residuals[moment.step] = algorithm.residual(moment.state)
        if moment.step == result.steps:
            break
    step = int(result.reason.split("at step ")[1].split(",")[0])
    assert residuals[step].max() <= tolerance


@pytest.mark.parametrize(("before", "stops"), [([0, 5, 1e-2], True), ([0, 5, 1e-1], False), ([0, 5], False)])
def test_answers_to_another_tolerance_do_not_count_after_a_resume(before, stops):
    """What floods is a bit, which means nothing without the tolerance that was asked for."""
    problem, network = small_problem("pca"), destiny.networks.ring(6)
    algorithm = destiny.DestinyAccelerated()
    moment = next(m for m in destiny.iterate(problem, network, algorithm) if m.round > before[1])
    rule = LocalStop(algorithm, network, 1e-2)
    rule.asked = before
    moment.team.set_flood(moment.team.split(np.zeros(6)))
    assert (rule.check(moment, 1) is not None) == stops
    if not stops:
        assert rule.asked == [moment.step, moment.round + network.diameter, 1e-2]
        assert (moment.team.flood == 1).all()


@pytest.mark.parametrize("kind", KINDS)
def test_the_local_residual_bounds_what_an_observer_would_measure(kind):
    """Not the same numbers, but of one size: agents that stop are done for the observer too."""
    network = destiny.networks.erdos_renyi(6, prob=0.5, seed=0)
    result = destiny.solve(small_problem(kind), network, local_stopping=True, tolerance=1e-7, rounds=9000)
    assert result.converged
    assert result.measures.worst < 1e-5


def test_a_method_without_a_residual_is_refused():
    class Still:
        kind = "still"

        def init(self, X, agents):
            return X

        def step(self, state, agents):
            return state

    with pytest.raises(destiny.SettingsError, match="still has no local residual"):
        destiny.solve(small_problem("pca"), destiny.networks.ring(6), Still(), local_stopping=True)


def test_agents_that_never_hear_of_each_other_are_refused_in_seconds():
    class Parted:
        agents = 4
        W = networks.from_edges([(0, 1), (2, 3)], 4, connected=False).W

        def at(self, round):
            return self.W

    with pytest.raises(SettingsError, match="after 10400 rounds some have not heard of each other"):
        stopping.flooding_time(as_topology(Parted()), 0)


@pytest.mark.parametrize("distance", [1e-9, 1e-6, 2e-6, 1e-5, 1e-3])
def test_agents_that_start_near_the_answer_agree_to_stop(distance):
    # A residual relative to a start that is nearly stationary would ask for less than rounding leaves.
    problem = destiny.problems.pca.synthetic(n=20, m=200, p=2, xi=0.5, agents=8, seed=0)
    network, method = networks.ring(8), destiny.DestinyAccelerated()
    answer = polar(destiny.solve(problem, network, method, tolerance=1e-12).X)
    start = polar(answer + distance * np.random.default_rng(1).standard_normal(answer.shape))
    again = destiny.solve(
        problem, network, method, start=start, tolerance=1e-10, local_stopping=True, rounds=1000
    )
    assert again.converged
    assert again.measures.worst < 1e-9


@pytest.mark.parametrize(
    ("data", "p", "words"),
    [(np.zeros((5, 40)), 2, "are all data zero"), (np.eye(5, 40), 5, "with p = n every orthonormal X")],
)
def test_a_start_that_is_an_answer_is_not_called_a_saddle(data, p, words):
    problem = destiny.problems.pca.from_data(data.T, p, 4)
    result = destiny.solve(problem, destiny.networks.ring(4), "destiny-accelerated")
    assert any(words in note for note in result.notes)
    assert not any("saddle" in note for note in result.notes)


def test_too_few_rounds_for_a_sum_end_the_run_before_it():
    problem = destiny.problems.pca.synthetic(n=12, m=120, p=2, xi=0.6, agents=6, seed=0)
    result = destiny.solve(problem, destiny.networks.ring(6), "averaged-krylov", rounds=5)
    assert (result.steps, result.rounds) == (0, 0)
    assert result.reason.startswith("out of rounds")


def test_many_agents_wait_for_twice_the_depth_of_the_tree(monkeypatch):
    network = networks.grid(4, 6)
    assert stopping.flooding_time(network, 0) == network.diameter == 8
    monkeypatch.setattr(stopping, "MANY", 23)
    assert stopping.flooding_time(network, 0) == 2 * network.depth == 10


@pytest.mark.parametrize("kind", ["averaged-model", "averaged-krylov", "averaged-lbfgs"])
@pytest.mark.parametrize("n", [12, 40])
def test_a_tolerance_below_rounding_ends_the_run_in_words(kind, n):
    rng = np.random.default_rng(n)
    problem = destiny.problems.PCA([rng.standard_normal((n, 30)).T for _ in range(5)], 3)
    result = destiny.solve(problem, destiny.networks.ring(5), kind, tolerance=1e-18)
    assert not result.converged
    assert result.reason.startswith("did not converge: stationarity is ")
    assert result.reason.endswith("rounding allows no less: raise the tolerance")
    assert result.measures.worst < 1e-12
    assert result.rounds < 1500


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        (stopping.Rounds(3), "must be a list of stopping rules"),
        ([stopping.Rounds], "must be an object with a method check"),
        ([lambda status: None], "must be an object with a method check"),
    ],
)
def test_what_is_no_list_of_rules_is_refused_in_words(rules, words):
    problem = destiny.problems.pca.synthetic(n=6, m=30, p=2, xi=0.5, agents=3, seed=0)
    with pytest.raises(destiny.SettingsError, match=words):
        destiny.solve(problem, destiny.networks.ring(3), rules=rules)

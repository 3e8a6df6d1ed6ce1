"""Runs in simulated time: the same bits from the same seed, the right answer in any world, honest clocks."""

from pathlib import Path

import numpy as np
import pytest

import destiny
from benchmarks import asynchrony as benchmark
from destiny import DestinyAccelerated
from destiny.errors import MismatchError, SettingsError
from destiny.extensions import asynchronous
from destiny.extensions.asynchronous import DestinyAsync, World, simulate
from destiny.extensions.asynchronous.local_agent import HostedAgent
from destiny.extensions.asynchronous.simulation.events import AsyncAgents
from destiny.extensions.asynchronous.simulation.traces import read_traces
from destiny.extensions.asynchronous.simulation.world import AgentFate
from destiny.extensions.asynchronous.termination import TerminationDetection
from tests.helpers.small_problems import problem_of, silos_of, small_problem

PAGES = Path(__file__).parents[3] / "docs"
NETWORK = destiny.networks.erdos_renyi(6, 0.6, seed=3)
SILOS = [0.7 ** np.arange(12)[:, None] * silo for silo in silos_of("pca", 6)]
PROBLEM = problem_of("pca", SILOS)
ROUGH = World(speeds="range", slowest=5, delay=1, loss=0.2, double=0.1, naps=0.01, crash=300, seed=2)


def test_the_same_seed_gives_the_same_bits_and_another_one_others():
    first, again = (simulate(PROBLEM, NETWORK, ROUGH, seconds=60) for _ in range(2))
    other = simulate(PROBLEM, NETWORK, World(speeds="range", delay=1, seed=3), seconds=60)
    assert np.array_equal(first.agents, again.agents)
    assert first.history.rows == again.history.rows
    assert np.array_equal(first.activity.working, again.activity.working)
    assert not np.array_equal(first.agents, other.agents)


@pytest.mark.parametrize("checkpoint", [5, 60])
def test_loss_delay_naps_and_crashes_do_not_move_the_answer(checkpoint):
    world = World(
        speeds="range", slowest=5, delay=1, loss=0.2, double=0.1, naps=0.005, crash=400, down=20,
        checkpoint=checkpoint, seed=1,
    )  # fmt: skip
    result = simulate(PROBLEM, NETWORK, world, tolerance=1e-5)
    assert result.converged, result.reason
    assert result.crashes > 0
    assert 0.1 < result.lost / result.messages < 0.3
    pooled = np.linalg.svd(np.hstack(SILOS))[0][:, :3]
    assert destiny.stiefel.subspace_distance(result.X, pooled) < 1e-3


@pytest.mark.parametrize("world", [{"loss": 0.9}, {"delay": 50}])
def test_agents_of_a_dense_network_come_to_rest_though_all_they_hear_is_old(world):
    """With steps as long as for new gradients they go round in circles for ever, without momentum, too."""
    result = simulate(PROBLEM, destiny.networks.complete(6), World(**world, seed=1), tolerance=1e-5)
    assert result.converged, result.reason
    pooled = np.linalg.svd(np.hstack(SILOS))[0][:, :3]
    assert destiny.stiefel.subspace_distance(result.X, pooled) < 1e-3


@pytest.mark.parametrize("local_stopping", [False, True])
def test_messages_leave_at_once_if_the_gradient_was_computed_ahead(local_stopping):
    method = DestinyAsync(lambda_=0.5)
    method = TerminationDetection(method, 1e-6) if local_stopping else method
    W = NETWORK.at(0)
    hosts = [HostedAgent(i, PROBLEM.host([i]), W) for i in range(6)]
    X = np.repeat(destiny.stiefel.random_point(12, 3, seed=0)[None], 6, axis=0)
    agents = AsyncAgents(hosts, method, X, World(speeds="range", jitter=0))
    times = agents.world.computing_times(6)
    for i in agents.run():
        sent = {event[0] for event in agents.queue if event[2] == "arrive" and event[4].sender == i}
        after = max(sent) - agents.time
        again = next(event[0] for event in agents.queue if event[2] == "wake" and event[3] == i)
        if agents.wakes[i] in (2, 3):  # in the first there was nothing ahead
            assert after == 0
            assert again - agents.time == pytest.approx(times[i])
        if min(agents.wakes) > 1:
            break


def test_who_forgets_everything_begins_again_at_the_start():
    """All forget whenever they crash, every ten seconds: nobody gets far, and nothing breaks."""
    result = simulate(PROBLEM, NETWORK, World(crash=10, down=1, forget=1.0), seconds=100)
    assert result.crashes > 20
    assert not result.converged
    assert np.isfinite(result.agents).all()
    assert all(state.life > 0 and state.count < 100 for state in result.state)


def test_agents_come_back_from_checkpoints_of_any_age():
    """Every crash takes some of the checkpoints with it, and still the answer is that of the pooled data."""
    world = World(crash=250, down=10, checkpoint=10, older=0.9, forget=0.1, seed=2)
    result = simulate(PROBLEM, NETWORK, world, tolerance=1e-5)
    assert result.converged, result.reason
    assert result.crashes > 5
    pooled = np.linalg.svd(np.hstack(SILOS))[0][:, :3]
    assert destiny.stiefel.subspace_distance(result.X, pooled) < 1e-3


def test_what_is_left_of_the_checkpoints_is_drawn_with_equal_chances():
    fate = AgentFate(World(crash=1, older=0.6, forget=0.2), 0, 1.0)
    left = np.array([fate.down()[1] for _ in range(4000)])
    assert np.mean(left == 0) == pytest.approx(0.2, abs=0.04)
    assert np.mean(left == 1) == pytest.approx(0.2, abs=0.04)
    some = left[(left > 0) & (left < 1)]
    assert np.mean(some) == pytest.approx(0.5, abs=0.05)
    assert all(AgentFate(World(crash=1), 0, 1.0).down()[1] == 1 for _ in range(20))


def test_a_barrier_waits_while_an_agent_repeats_what_it_lost():
    """The earlier the checkpoint that it comes back from, the longer."""
    seconds = [
        simulate(
            PROBLEM, NETWORK, World(crash=200, down=1, **lost), DestinyAccelerated(), tolerance=1e-5
        ).seconds
        for lost in ({"checkpoint": 1}, {"checkpoint": 1, "older": 1.0}, {"checkpoint": 1, "forget": 1.0})
    ]
    assert seconds[0] < seconds[1] < seconds[2]


def test_naps_keep_a_barrier_waiting_and_others_go_on_without():
    world = World(naps=0.02, seed=3)
    barrier = simulate(PROBLEM, NETWORK, world, DestinyAccelerated(), tolerance=1e-5)
    free = simulate(PROBLEM, NETWORK, world, tolerance=1e-5)
    assert free.converged
    assert barrier.activity.shares()["waiting"].mean() > 0.3
    assert free.activity.shares()["waiting"].max() < 0.05
    assert free.activity.shares()["away"].mean() == pytest.approx(0.5, abs=0.25)  # 50 naps of 1 in 50 wakes


def test_agents_agree_to_stop_by_themselves():
    world = World(speeds="straggler", slowest=5, delay=1, loss=0.1)
    result = simulate(PROBLEM, NETWORK, world, tolerance=1e-6, local_stopping=True)
    assert result.converged
    assert "agreed" in result.reason
    assert result.measures.worst < 2e-6


def test_a_synchronous_run_in_a_world_is_the_run_of_solve_with_another_clock():
    plain = destiny.solve(PROBLEM, NETWORK, DestinyAccelerated())
    result = simulate(PROBLEM, NETWORK, World(speeds="straggler", loss=0.1), DestinyAccelerated())
    assert np.array_equal(plain.agents, result.agents)
    assert (plain.steps, plain.rounds, plain.scalars) == (result.steps, result.rounds, result.scalars)
    assert result.history["seconds"][-1] == result.seconds


def test_without_jitter_delay_and_loss_a_round_takes_one_second():
    """Each step has one gradient and a round, further rounds and gradients take a second each."""
    result = simulate(PROBLEM, NETWORK, World(jitter=0), DestinyAccelerated(), tolerance=1e-6)
    extra = result.gradients - result.steps  # of the start, and looks at the curvature
    rounds = result.rounds - result.steps  # of the start, where the gradients come before the first
    assert result.seconds == result.steps + extra + rounds - (extra > 0)
    assert np.allclose(result.activity.waiting, 0, atol=1e-9)
    free = simulate(PROBLEM, NETWORK, World(jitter=0, exchange=0), DestinyAccelerated(), tolerance=1e-6)
    assert free.seconds == free.gradients


def test_the_slowest_agent_sets_the_pace_of_a_barrier_and_not_of_an_asynchronous_run():
    times = np.array([1, 1, 1, 1, 1, 10.0])
    world = World(speeds=list(times), jitter=0)
    barrier = simulate(PROBLEM, NETWORK, world, DestinyAccelerated(), tolerance=1e-6)
    equal = simulate(PROBLEM, NETWORK, World(jitter=0), DestinyAccelerated(), tolerance=1e-6)
    assert barrier.seconds == pytest.approx(10 * equal.seconds)
    shares = barrier.activity.shares()
    assert shares["working"][-1] == pytest.approx(1, abs=1e-9)
    assert shares["waiting"][:5].min() > 0.85
    free = simulate(PROBLEM, NETWORK, world, tolerance=1e-6)
    assert free.converged
    assert free.seconds < barrier.seconds / 2
    assert free.activity.shares()["waiting"].max() < 0.05


def test_a_lost_message_costs_a_barrier_its_timeout():
    """With one link, a step ends when both messages are there; a lost one is sent again a second later."""
    pair, problem = destiny.networks.complete(2), small_problem("pca", agents=2)
    plain = simulate(problem, pair, World(jitter=0), DestinyAccelerated(), tolerance=1e-6)
    lossy = simulate(problem, pair, World(jitter=0, loss=0.5, seed=1), DestinyAccelerated(), tolerance=1e-6)
    assert lossy.rounds == plain.rounds
    assert lossy.messages == 2 * plain.rounds + lossy.lost
    assert plain.seconds + lossy.lost / 2 <= lossy.seconds <= plain.seconds + lossy.lost


def test_measured_traces_are_followed_and_repeated():
    world = World(traces=[[1.0, 3.0]] * 6, exchange=0)
    result = simulate(PROBLEM, NETWORK, world, DestinyAccelerated(), tolerance=1e-6)
    assert result.seconds == pytest.approx(2 * result.gradients, abs=1)


def test_traces_are_read_from_a_file(tmp_path):
    path = tmp_path / "times.csv"
    path.write_text("alpha,beta\n0.5,2\n0.25,3\n,4e0\n")
    assert read_traces(path) == [[0.5, 0.25], [2.0, 3.0, 4.0]]
    path.write_text("1,2\n3,4\n")
    assert read_traces(path) == [[1.0, 3.0], [2.0, 4.0]]
    np.testing.assert_allclose(World(traces=read_traces(path)).computing_times(2), [2, 3])


@pytest.mark.parametrize(
    ("content", "complaint"),
    [("", "found none"), ("a,b\n", "found none"), ("1,2\n3\n", "2 columns"), ("1,2\n3,x\n", "'x' in row 2")],
)
def test_traces_that_are_not_numbers_are_refused(tmp_path, content, complaint):
    path = tmp_path / "times.csv"
    path.write_text(content)
    with pytest.raises(SettingsError, match=complaint):
        read_traces(path)
    with pytest.raises(SettingsError, match="cannot read"):
        read_traces(tmp_path / "none.csv")


def test_out_of_time_is_said_and_nothing_is_claimed():
    for method in (DestinyAsync(), DestinyAccelerated()):
        result = simulate(PROBLEM, NETWORK, World(), method, seconds=20)
        assert not result.converged
        assert result.reason.startswith("out of time")
        assert "simulated" in str(result)


def test_methods_are_compared_in_one_world():
    comparison = destiny.compare(
        PROBLEM,
        NETWORK,
        [DestinyAsync(), DestinyAccelerated()],
        world=World(speeds="straggler"),
        tolerance=1e-5,
    )
    assert set(comparison.results) == {"destiny-async", "destiny-accelerated"}
    assert "sages" in str(comparison)
    line, *_ = (axes := comparison.plot())[0].get_lines()
    assert axes[0].get_xlabel() == "simulated seconds"
    assert line.get_xdata()[-1] == pytest.approx(comparison.results["destiny-async"].seconds)
    assert comparison.plot(x="round")[0].get_xlabel() == "rounds of communication"
    assert all(r.converged for r in comparison.results.values())
    # Without a world nothing is simulated, and nothing is said of it.
    assert "sages" not in str(destiny.compare(PROBLEM, NETWORK, [DestinyAccelerated()], rounds=100))


@pytest.mark.parametrize(
    "settings",
    [
        {"speeds": "fast"}, {"speeds": [1, -1]}, {"speeds": []}, {"slowest": 0.5}, {"delay": -1}, {"loss": 1},
        {"jitter": "x"}, {"crash": 0}, {"checkpoint": 0}, {"seed": -1}, {"traces": [[]]}, {"naps": 2},
        {"older": 1.1}, {"older": 0.6, "forget": 0.5}, {"jitter": 50}, {"slowest": 1e300}, {"down": 1e300},
        {"speeds": [1, 1e300]}, {"traces": 5}, {"traces": "times.csv"}, {"leave": 5}, {"join": None},
    ],
    ids=str,
)  # fmt: skip
def test_a_world_that_cannot_be_is_refused(settings):
    with pytest.raises(SettingsError, match=next(iter(settings))):
        World(**settings)


def test_what_does_not_go_together_is_refused():
    with pytest.raises(SettingsError, match="one entry for each of the 6 agents"):
        simulate(PROBLEM, NETWORK, World(speeds=[1, 2]))
    with pytest.raises(SettingsError, match="no rounds"):
        destiny.solve(PROBLEM, NETWORK, DestinyAsync())
    lossy = destiny.networks.link_loss(NETWORK, 0.1)
    with pytest.raises(SettingsError, match="cannot change from round to round"):
        simulate(PROBLEM, lossy)
    centered = destiny.problems.Centered(PROBLEM)
    with pytest.raises(MismatchError, match="subtract the means"):
        simulate(centered, NETWORK)
    sparse = destiny.problems.regularized(PROBLEM, destiny.problems.L1(0.1))
    with pytest.raises(MismatchError, match="smooth objective"):
        simulate(sparse, NETWORK)
    with pytest.raises(SettingsError, match="seconds"):
        simulate(PROBLEM, NETWORK, seconds=0)
    for every in (-1, 2.5, "10"):
        with pytest.raises(SettingsError, match="every must be a whole number"):
            simulate(PROBLEM, NETWORK, every=every)
    with pytest.raises(
        SettingsError, match=r"must be a destiny\.extensions\.asynchronous\.World; found dict"
    ):
        simulate(PROBLEM, NETWORK, {"loss": 0.1})
    with pytest.raises(SettingsError, match="an object such as"):
        simulate(PROBLEM, NETWORK, algorithm=DestinyAsync)
    with pytest.raises(SettingsError, match="do nothing but crash"):
        simulate(PROBLEM, NETWORK, World(crash=1e-300))


def test_the_method_can_be_named():
    named, made = (simulate(PROBLEM, NETWORK, algorithm=a, seconds=20) for a in ("destiny-async", None))
    assert np.array_equal(named.agents, made.agents)


def test_who_crashes_does_not_work_meanwhile():
    """Up and down for equally long on average, with gradients that take long: half of the time at most."""
    world = World(speeds=[10.0] * 6, crash=30, down=30)
    shares = simulate(PROBLEM, NETWORK, world, seconds=10_000, tolerance=0).activity.shares()
    assert 0.4 < shares["away"].mean() < 0.6
    np.testing.assert_allclose(shares["working"] + shares["away"], 1, atol=0.01)


def test_the_page_shows_the_measured_table():
    page = (PAGES / "asynchrony.md").read_text(encoding="utf-8")
    assert benchmark.table(PAGES / "asynchrony.csv") in page, "stale: copy the table of benchmarks.asynchrony"


@pytest.mark.parametrize("seed", [300, 303])
def test_what_agents_call_small_is_what_an_observer_measures(seed):
    """Their residuals are relative to trackers of the size of the first gradients."""
    problem = destiny.problems.pca.synthetic(n=20, m=160, p=2, xi=0.8, agents=6, seed=seed)
    result = asynchronous.simulate(
        problem, destiny.networks.ring(6), seed=seed, tolerance=1e-6, local_stopping=True, every=0
    )
    assert result.converged
    assert 1e-6 / 30 < result.measures.worst < 1e-6

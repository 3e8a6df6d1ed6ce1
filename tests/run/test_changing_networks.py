"""Runs on networks whose links fail, take turns or get worse; and what a result says of a run that failed."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_array

import destiny
from destiny import networks
from destiny.algorithms import Destiny, DestinyAccelerated
from destiny.algorithms.blocks.changing_filter import ExtrapolatingFilter, Trial
from destiny.algorithms.blocks.mixing_estimate import Mixing
from destiny.engines.hosted import HostedAgents
from destiny.engines.mixers import Mixer
from destiny.engines.threads import NoChannel
from destiny.errors import NetworkError, SettingsError
from destiny.run.own import as_topology

PROBLEM = destiny.problems.pca.synthetic(n=15, m=240, p=2, xi=0.7, agents=6, seed=90701)


def contraction(network, start, rounds):
    """What a round leaves of a disagreement, by products of the matrices themselves."""
    Y = np.random.default_rng(0).standard_normal((network.agents, 8))
    total = 0.0
    for k in range(start, start + rounds):
        Y = network.at(k) @ Y
        Y -= Y.mean(axis=0)
        size = np.linalg.norm(Y)
        Y /= size
        total += np.log(size) if k >= start + rounds // 3 else 0.0
    return np.exp(total / (rounds - rounds // 3))


def estimates(network, steps):
    """lambda as the agents estimate it, after each step."""
    ids = np.arange(network.agents)
    mixing = Mixing.start(ids, np.full((len(ids), 1, 1), 0.5))
    for k in range(steps):
        mixing = mixing.update(ids, *(network.at(k) @ rider for rider in mixing.probes))
        yield mixing.lambda_


@pytest.mark.parametrize(
    "network",
    [
        networks.ring(6),
        networks.star(9),
        networks.link_loss(networks.path(8), 0.5, seed=1),
        networks.matchings(networks.ring(10), seed=2),
        networks.periodic([networks.ring(8), networks.star(8)]),
    ],
    ids=lambda network: network.name,
)
def test_agents_estimate_how_well_a_network_mixes(network):
    *_, lambda_ = estimates(network, 1100)
    gap = 1 - contraction(network, 500, 900)
    assert ((1 - lambda_ > gap / 2) & (1 - lambda_ < 2 * gap)).all()


def test_modes_that_few_rounds_mix_are_noticed():
    """Two halves that talk in one round of 41: the first round of a window hardly ever shows it."""
    halves = networks.from_edges([(0, 1), (1, 2), (3, 4), (4, 5)], connected=False)
    network = networks.periodic([halves] * 40 + [networks.ring(6)])
    *_, lambda_ = estimates(network, 1000)
    gap = 1 - contraction(network, 0, 2050)
    assert ((1 - lambda_ > gap / 2) & (1 - lambda_ < 2 * gap)).all()


@pytest.mark.parametrize(
    "W",
    [np.eye(1), np.eye(5), np.full((2, 2), 0.5), np.full((200, 200), 1 / 200)],
    ids=lambda W: str(W[0, :2]),
)
def test_networks_with_nothing_to_estimate_leave_numbers(W):
    mixing = Mixing.start(np.arange(len(W)), np.full((len(W), 1, 1), 0.5))
    with np.errstate(all="raise"):
        for _ in range(300):
            mixing = mixing.update(np.arange(len(W)), *(W @ rider for rider in mixing.probes))
    assert (mixing.lambda_ < 0.5).all()
    assert np.isfinite(mixing.probe).all()


class Given:
    """A network with the weights of a function of the round."""

    def __init__(self, weights):
        self.agents, self.weights = 6, weights

    def at(self, round):
        return self.weights(round)


RING = networks.ring(6).W.toarray()


def test_a_network_of_ones_own_may_be_any_array_and_need_not_be_symmetric():
    directed = (np.eye(6) + np.roll(np.eye(6), 1, axis=1)) / 2
    network = Given(lambda round: directed if round % 2 else RING)
    result = destiny.solve(PROBLEM, network, local_stopping=True)
    assert result.converged
    threaded = destiny.solve(PROBLEM, network, local_stopping=True, engine=destiny.engines.local(threads=3))
    assert (threaded.X == result.X).all()
    plain, same = (
        destiny.solve(PROBLEM, n, rounds=60)
        for n in (Given(lambda _: csr_array(RING)), Given(lambda _: RING))
    )
    assert (plain.X == same.X).all()


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (0.9 * RING, "every row of the mixing matrix of round 30 must sum to 1.* sums to 0.9"),
        (np.nan * RING, "every row .* sums to nan"),
        (np.eye(6)[[0] * 6], "every column .* column 0 sums to 6"),
        (np.eye(5), "of round 30 must be 6 x 6"),
        ("ring", "must hold numbers"),
    ],
    ids=["rows", "nan", "columns", "size", "text"],
)
def test_a_network_of_ones_own_is_refused_in_the_round_that_is_wrong(wrong, sentence):
    with pytest.raises(NetworkError, match=sentence):
        destiny.solve(PROBLEM, Given(lambda round: RING if round < 30 else wrong), rounds=100)


def test_agents_that_hear_others_only_still_agree_to_stop():
    """No diagonal is stored: what an agent has heard so far must not be forgotten for it."""
    swap = csr_array(np.eye(6)[[1, 0, 3, 2, 5, 4]])
    assert (swap.diagonal() == 0).all()
    worker = HostedAgents(range(6), None, as_topology(Given(lambda _: swap)), NoChannel(), Mixer())
    worker.flood = np.arange(6.0)
    worker.mix(np.zeros((6, 1, 1)))
    assert worker.flood.tolist() == [1, 1, 3, 3, 5, 5]


def test_no_word_of_eighth_powers_where_rounding_ate_them():
    """After long without links what is shared of curvatures is what far larger numbers left of it."""
    for moment in destiny.iterate(PROBLEM, networks.matchings(networks.ring(6))):
        state = moment.parts[0]
        break
    assert (
        DestinyAccelerated().remarks(replace(state, shared=-1e-30 * state.shared), np.arange(6), True) == []
    )
    notes = DestinyAccelerated().remarks(replace(state, shared=np.inf * state.shared), np.arange(6), True)
    assert "no eighth power" in notes[0]


def test_a_runaway_on_a_slow_network_is_not_blamed_on_the_scale_of_the_data():
    """Halves that meet in few rounds drift apart; beta follows the curvature off the manifold without end."""
    for moment in destiny.iterate(PROBLEM, networks.matchings(networks.ring(6))):
        state = moment.parts[0]
        break
    mixing = replace(state.mixing, lambda_=0 * state.mixing.lambda_ + 0.997)
    runaway = replace(state, shared=np.inf * state.shared, worst=1e6 + state.worst, mixing=mixing)
    left, slow = DestinyAccelerated().remarks(runaway, np.arange(6), False)
    assert "X left the manifold" in left
    assert "drifted apart" in left
    assert "the network mixes slowly, lambda 0.9970" in slow
    assert "scale the data" not in left + slow


def test_a_network_that_gets_worse_is_noticed():
    network = networks.sequence([networks.complete(10)] * 200 + [networks.ring(10)])
    seen = list(estimates(network, 1500))
    assert seen[190].max() < 0.3
    assert abs(seen[-1] - networks.ring(10).lambda_).max() < 0.05


@pytest.mark.parametrize("algorithm", [None, Destiny()], ids=["default", "destiny"])
def test_links_that_fail_do_not_freeze_a_run(algorithm):
    """With this seed the opening rounds see no change at all at some agents: lambda seems to be 1."""
    lossy = networks.link_loss(networks.path(6), prob=0.5, seed=90712)
    result = destiny.solve(PROBLEM, lossy, algorithm, seed=90700, rounds=3000)
    assert result.converged, result


def test_worse_after_the_opening_rounds():
    network = networks.sequence([networks.complete(6), networks.path(6)])
    result = destiny.solve(PROBLEM, network, seed=0, rounds=2500)
    assert result.converged, result


@pytest.mark.parametrize("options", [{"spectrum": (-0.3, 0.9)}, {"rounds": 3}], ids=str)
def test_one_spectrum_cannot_describe_a_network_that_changes(options):
    network = networks.periodic([networks.ring(6), networks.complete(6)])
    with pytest.raises(SettingsError, match="must be left out on a network that changes"):
        destiny.solve(PROBLEM, network, DestinyAccelerated(**options))


def test_agents_that_hear_nobody_do_not_raise_the_penalty():
    """A caterpillar whose agents talk in pairs: a leaf often hears nobody, and so disagrees with nobody."""
    d = 33
    edges = [(k, k + 1) for k in range(21)] + [(2 * k, 22 + k) for k in range(11)]
    network = networks.matchings(networks.from_edges(edges, d), seed=0)
    problem = destiny.problems.pca.synthetic(n=8, m=8 * d, p=2, xi=0.7, agents=d, seed=0)
    moments = destiny.iterate(problem, network, Destiny(), seed=0)
    first = next(moments).state.beta.max()
    for _ in range(1200):
        moment = next(moments)
    assert moment.state.beta.max() <= 16 * first
    assert moment.state.violation.max() < 0.5
    moments.close()


def test_an_agent_that_heard_nobody_in_the_opening_is_careful():
    lonely = networks.from_edges([(0, 1)], 3, connected=False)
    network = networks.sequence([lonely] * 40 + [networks.path(3)])
    problem = destiny.problems.pca.synthetic(n=6, m=30, p=1, xi=0.7, agents=3, seed=0)
    state = next(destiny.iterate(problem, network)).state
    assert state.pace[2] < 0.05


def test_a_result_says_what_stood_in_the_way():
    problem = destiny.problems.pca.synthetic(n=8, m=120, p=2, xi=0.7, agents=12, seed=0)
    result = destiny.solve(problem, networks.path(12), "destiny-accelerated", rounds=300, every=5)
    assert not result.converged
    assert any("mixes slowly, lambda 0.977" in note for note in result.notes)
    (outlook,) = (note for note in result.notes if "at that rate about" in note)
    more = int(outlook.split("about ")[1].split()[0])
    longer = destiny.solve(problem, networks.path(12), "destiny-accelerated")
    assert longer.converged
    assert 0.5 < (longer.rounds - 300) / more < 2
    assert not longer.notes
    creeping = destiny.solve(
        problem, networks.path(12), Destiny(step_size=destiny.steps.Constant(1e-6)), rounds=200
    )
    assert any("has not halved in the last" in note for note in creeping.notes)


SLOW = networks.matchings(networks.path(13), seed=3)


class Later:
    """Mixes by the matrices of a network from some round on."""

    def __init__(self, network, round):
        self.network, self.round = network, round

    def mix(self, *arrays, again=False):
        W = self.network.at(self.round)
        self.round += 1
        return tuple(W @ array for array in arrays)


def test_several_rounds_contract_as_the_trial_said_in_later_rounds_too():
    several = DestinyAccelerated().on(SLOW).several
    assert several.rounds > 1
    agents, steps = Later(SLOW, 5000), 80
    Y = np.random.default_rng(1).standard_normal((13, 5))
    mean = Y.mean(axis=0)
    (Y,) = several(agents, Y)
    assert agents.round == 5000 + several.rounds
    np.testing.assert_allclose(Y.mean(axis=0), mean, rtol=0, atol=1e-14)
    Y -= mean
    before = np.linalg.norm(Y)
    for _ in range(steps):
        (Y,) = several(agents, Y)
    left = (np.linalg.norm(Y) / before) ** (1 / steps)
    assert several.contraction**1.5 < left < several.contraction**0.67
    plain = networks.path(13).lambda_ ** several.rounds  # with all links up in every round
    assert left < plain


def test_rounds_that_would_be_unstable_are_not_chosen():
    """A period of three: with three rounds and much extrapolation M has complex eigenvalues of size 0.64."""
    ring = networks.ring(11)
    parts = [networks.from_edges(ring.edges[k::3], 11, connected=False) for k in range(3)]
    trial = Trial(networks.periodic(parts))
    fast, steady = (ExtrapolatingFilter(3, 0.0, extrapolation) for extrapolation in (0.9, 0.5))
    assert trial.contraction(fast) < trial.contraction(steady) < 0.85
    assert trial.disagreement_rate(fast, 0.5) < 0 < trial.disagreement_rate(steady, 0.3)
    chosen = DestinyAccelerated().on(networks.periodic(parts)).several
    pace = min(1.0, 1.5 * (1 - chosen.contraction))
    assert trial.disagreement_rate(chosen, pace) > 0


@pytest.mark.parametrize(
    "network",
    [
        networks.link_loss(networks.complete(8), 0.5),
        networks.matchings(networks.complete(6)),
        networks.periodic([networks.complete(5), networks.complete(5)]),
        networks.sequence([networks.path(20), networks.complete(20)]),
    ],
    ids=lambda network: network.name[:20],
)
def test_one_round_a_step_where_the_network_mixes_well(network):
    fitted = DestinyAccelerated().on(network)
    assert fitted.several is None
    assert fitted.rounds == 1


def test_agents_that_talk_in_pairs_on_a_path_take_less_than_half_the_rounds():
    network = networks.matchings(networks.path(10), seed=3)
    problem = destiny.problems.pca.synthetic(n=8, m=100, p=2, xi=0.7, agents=10, seed=0)
    several = destiny.solve(problem, network, rounds=3000)
    assert several.converged
    one = destiny.solve(problem, network, DestinyAccelerated(rounds=1), rounds=2 * several.rounds)
    assert not one.converged
    plain, threaded = (
        destiny.solve(problem, network, engine=destiny.engines.local(threads=k), rounds=200) for k in (1, 2)
    )
    assert (threaded.X == plain.X).all()


def test_a_sequence_takes_one_round_a_step_until_its_last_network():
    network = networks.sequence([networks.complete(12)] * 60 + [networks.path(12)])
    fitted = DestinyAccelerated().on(network)
    assert fitted.several.since == 60
    assert fitted.on(network) == fitted
    problem = destiny.problems.pca.synthetic(n=8, m=120, p=2, xi=0.7, agents=12, seed=0)
    rounds = []
    for moment in destiny.iterate(problem, network):
        rounds.append(moment.round)
        if len(rounds) == 45:
            break
    taken = np.diff(rounds)
    assert (taken[:40] == 1).all()
    assert (taken[40:] == fitted.rounds).all()
    assert moment.state.pace.max() == pytest.approx(1.5 * (1 - fitted.several.contraction))


def test_the_note_on_a_slow_network_counts_rounds_not_steps():
    problem = destiny.problems.pca.synthetic(n=8, m=130, p=2, xi=0.7, agents=13, seed=0)
    result = destiny.solve(problem, SLOW, rounds=400)
    (note,) = (note for note in result.notes if "mixes slowly" in note)
    said = float(note.split("lambda ")[1].split(":")[0])
    several = DestinyAccelerated().on(SLOW).several
    assert abs(said - several.contraction ** (1 / several.rounds)) < 0.01

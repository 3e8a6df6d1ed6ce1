"""Agents over TLS find what agents in one process find: the same bits, whatever the method or network."""

import dataclasses

import numpy as np
import pytest

import destiny
from destiny import agents
from destiny.networks.local_view import Neighborhood
from tests.helpers.agent_party import PROBLEM, Party, Running, identity

OLSR = 'kind = "olsr"\nsynthetic = { n = 12, m = 90, noise = 0.1, seed = 0 }\np = 3'
SDL = 'kind = "sdl"\nsynthetic = { n = 12, m = 90, seed = 0 }\np = 3'
RING = destiny.networks.ring(4)
RANDOM = destiny.networks.erdos_renyi(5, prob=0.5, seed=3)
LIMIT = "rounds = 60\ntolerance = 0"
EDGES = f'[network]\nkind = "edges"\nedges = {RANDOM.edges.tolist()}\n'

CASES = {
    "destiny": (PROBLEM, 'kind = "destiny"', "rounds = 3000\ntolerance = 1e-6", RING),
    "olsr, constant steps": (
        OLSR,
        'kind = "destiny"\nstep = { kind = "constant", eta = 1e-3 }',
        LIMIT,
        RANDOM,
    ),
    "sdl": (SDL, 'kind = "destiny"', LIMIT, RANDOM),
    "drgta": (PROBLEM, 'kind = "drgta"', LIMIT, RANDOM),
    "several rounds a step": (PROBLEM, 'kind = "deepca"\nrounds = 4', LIMIT, RANDOM),
    "the default, its rounds and spectrum from the network": (
        PROBLEM,
        'kind = "destiny-accelerated"',
        LIMIT,
        RANDOM,
    ),
    "the default to its end": (
        PROBLEM,
        'kind = "destiny-accelerated"',
        "rounds = 3000\ntolerance = 1e-6",
        RING,
    ),
    "the default, spectrum given": (
        PROBLEM,
        'kind = "destiny-accelerated"\nspectrum = [-0.3, 0.8]',
        LIMIT,
        RANDOM,
    ),
    "extra": (PROBLEM, 'kind = "extra"', LIMIT, RING),
    "averages along a tree": (PROBLEM, 'kind = "averaged-krylov"', "rounds = 3000\ntolerance = 1e-9", RANDOM),
    "quasi-Newton steps": (SDL, 'kind = "averaged-lbfgs"', "rounds = 3000\ntolerance = 1e-9", RANDOM),
}


@pytest.mark.parametrize("case", CASES)
def test_same_bits_as_in_one_process(case, tmp_path):
    problem, algorithm, stop, network = CASES[case]
    party = Party(tmp_path, network, problem, algorithm, stop)
    outcomes = party.go()
    party.check()
    assert all(outcome.closed for outcome in outcomes)
    assert sum(o.sent for o in outcomes) > party.reference.scalars  # averaging is on top of it


@pytest.mark.parametrize("options", ["loss = 0.3\nseed = 5", 'weights = "max-degree"', "loss = 0.5"])
def test_same_bits_on_networks_that_all_agents_know(options, tmp_path):
    stop = "rounds = 150\ntolerance = 1e-2" if "0.5" not in options else LIMIT
    party = Party(tmp_path, RANDOM, stop=stop, whole=EDGES + options)
    party.go()
    party.check()


@pytest.mark.parametrize("kind", ["matchings", "periodic"])
def test_same_bits_on_networks_that_change_by_another_rule(kind, tmp_path):
    two = [destiny.networks.from_edges(e, 4, connected=False) for e in ([(0, 1), (2, 3)], [(1, 2), (3, 0)])]
    network = (
        destiny.networks.matchings(RING, seed=1) if kind == "matchings" else destiny.networks.periodic(two)
    )
    whole = f'[network]\nkind = "edges"\nedges = {RING.edges.tolist()}'
    party = Party(tmp_path, RING, stop=LIMIT, whole=whole)
    running = [Running(dataclasses.replace(party.settings(i), network=network)) for i in range(party.size)]
    outcomes = [r.end() for r in running]
    problem = party.asked.problem
    options = {"rounds": 60, "tolerance": 0, "engine": destiny.engines.local(1)}
    reference = destiny.solve(problem, network, destiny.Destiny(), **options)
    for i, outcome in enumerate(outcomes):
        assert np.array_equal(outcome.own, reference.agents[i])


def test_the_answer_is_everybodys_and_its_variance_that_of_all_data(tmp_path):
    party = Party(tmp_path, RING)
    outcomes = party.go()
    problem = party.asked.problem.inner
    data = [problem.data.load(i).table for i in range(party.size)]
    total = sum(np.sum(A**2) for A in data)
    for outcome in outcomes:
        kept = sum(np.sum((A @ outcome.X) ** 2) for A in data)
        assert outcome.explained == pytest.approx(kept / total, rel=1e-10)
        assert outcome.objective == pytest.approx(-kept / 2 / party.size, rel=1e-10)
        assert np.abs(outcome.X - outcomes[0].X).max() < 1e-12
        assert np.abs(outcome.X.T @ outcome.X - np.eye(3)).max() < 1e-12
        assert np.abs(np.abs(outcome.axes) - np.abs(destiny.problems.pca.solution(problem))).max() < 1e-5
    assert outcomes[0].converged


def test_each_agent_reads_its_own_data_only(tmp_path):
    parts = np.array_split(np.random.default_rng(0).standard_normal((60, 8)), 3)
    party = Party(tmp_path, destiny.networks.path(3), problem='kind = "pca"\ndata = "mine.npy"\np = 2')
    for i, part in enumerate(parts):
        np.save(party.home(i) / "mine.npy", part)  # there is no file of anybody else's in an agent's folder
    outcomes = party.go()
    problem = destiny.problems.PCA(parts, p=2)
    known = destiny.problems.pca.solution(problem)
    assert destiny.stiefel.subspace_distance(outcomes[0].X, known) < 1e-5


def test_one_message_per_neighbor_and_round(tmp_path, monkeypatch):
    from destiny.agents.transport.connection import Connection

    counts: dict[tuple[str, int], int] = {}
    take = Connection.on_data

    def counted(self, peer, header):
        key = (f"{self.connections.me.agent} from {peer.name}", header.round)
        counts[key] = counts.get(key, 0) + 1
        take(self, peer, header)

    monkeypatch.setattr(Connection, "on_data", counted)
    party = Party(tmp_path, RING, stop=LIMIT)
    outcomes = party.go()
    turns = outcomes[0].rounds + 2  # rounds of steps, and the two sums of the last averages
    assert set(counts.values()) == {1}
    assert len(counts) == turns * 2 * len(RING.edges)


@pytest.mark.parametrize("seed", range(5))
def test_degrees_of_neighbors_give_the_bits_of_metropolis_weights(seed):
    network = destiny.networks.erdos_renyi(12, prob=0.35, seed=seed)
    for i in range(12):
        neighbors = [int(j) for j in network.graph[i]]
        view = Neighborhood(i, neighbors, 12)
        view.learn({j: int(network.degrees[j]) for j in neighbors})
        mine, whole = view.at(0)[[i]], network.W[[i]]
        assert np.array_equal(mine.indices, whole.indices)
        assert np.array_equal(mine.data, whole.data)
        assert view.at(7).nnz == len(neighbors) + 1  # nothing is known of other agents
        assert view.diameter == 11


def test_a_file_can_be_run_from_python_and_its_end_is_kept(tmp_path):
    party = Party(tmp_path, destiny.networks.path(2))
    outcomes = party.go()
    settings = party.settings(0)
    again = agents.run(settings)  # nobody else is there any more, and nobody is needed
    assert again.closed
    assert np.array_equal(again.X, outcomes[0].X)
    assert agents.Outcome.read(party.out(0), identity(settings)) is not None


def test_methods_without_a_local_residual_end_by_rounds(tmp_path):
    party = Party(tmp_path, destiny.networks.path(2), algorithm='kind = "dsa"', stop="rounds = 40")
    if hasattr(party.settings(0).algorithm, "residual"):
        pytest.skip("it has one")
    with pytest.raises(destiny.MismatchError, match="no local residual"):
        party.thread(0).end()

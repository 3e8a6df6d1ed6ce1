"""Accelerated DESTINY: its rule written out in plain loops, its gossip, its safeguards, and its rounds."""

import dataclasses

import numpy as np
import pytest

import destiny
from benchmarks import rounds as benchmark
from benchmarks.rows import read
from destiny import DestinyAccelerated, networks
from destiny.algorithms import accelerated
from destiny.algorithms.blocks.gossip import FLOOR, contraction, filter_for, single_round_filter
from destiny.errors import ProblemError
from tests.helpers.small_problems import agents_of, problem_of, run, silos_of, small_problem

NETWORKS = {
    "ring": networks.ring(16),
    "path": networks.path(12),
    "star": networks.star(16),
    "grid": networks.grid(4, 4),
    "sparse": networks.erdos_renyi(20, prob=0.15, seed=0),
    "dense": networks.erdos_renyi(16, prob=0.6, seed=0),
    "complete": networks.complete(8),
    "bipartite": networks.from_edges([(i, j) for i in range(4) for j in range(4, 8)]),
    "alone": networks.complete(1),
}
named = pytest.mark.parametrize("name", NETWORKS)


class Hidden:
    """A network that tells nothing of itself but who talks to whom."""

    def __init__(self, network):
        self.agents, self.at, self.diameter = network.agents, network.at, network.diameter


# The rule in plain loops: matrices of numbers, one agent at a time, M as a dense matrix.


def landing(A, X, beta):
    """skew(G X^T) X + beta X (X^T X - I) with G = -A A^T X."""
    G = -A @ (A.T @ X)
    omega = (G @ X.T - X @ G.T) / 2
    return omega @ X + beta * X @ (X.T @ X - np.eye(X.shape[1]))


def chebyshev_matrix(W, low, high, K):
    """T_K(y(W)) / T_K(y(1)) by the three-term recurrence on matrices."""
    center, half = (low + high) / 2, (high - low) / 2
    Y, top = (W - center * np.eye(len(W))) / half, (1 - center) / half
    T, t = [np.eye(len(W)), Y], [1.0, top]
    for _ in range(K - 1):
        T.append(2 * Y @ T[-1] - T[-2])
        t.append(2 * top * t[-1] - t[-2])
    return T[K] / t[K], 1 / t[K]


def transcription(silos, W, spectrum, K, X0, beta, steps):
    """Step by step as docs/acceleration.md has it, with beta given and no opening rounds."""
    d = len(silos)
    low, high = spectrum
    if K == 1:
        lazy = max(0.0, (-0.2 - low) / 1.2)
        M, left = (W + lazy * np.eye(d)) / (1 + lazy), max(high + lazy, -low - lazy) / (1 + lazy)
    else:
        T, r = chebyshev_matrix(W, low, high, K)
        M, left = (T + r * np.eye(d)) / (1 + r), 2 * r / (1 + r)
    pace = min(1.0, (2 if K == 1 else 1.5) * (1 - left))

    def difference(A, X, V, b):
        V = V / np.linalg.norm(V)
        return (landing(A, X + 1e-6 * V, b) - landing(A, X, b)) / 1e-6

    X, old = [X0.copy() for _ in range(d)], [X0.copy() for _ in range(d)]
    H = [landing(silos[i], X[i], beta) for i in range(d)]
    D = [h.copy() for h in H]
    top = [landing(silos[i], X[i], 0.0) for i in range(d)]
    for i in range(d):
        for _ in range(8):
            top[i] = difference(silos[i], X[i], top[i], 0.0)
    L = [max(np.linalg.norm(top[i]), 2 * beta) for i in range(d)]
    ell = [x**8 for x in L]
    eta = [pace / x for x in L]
    mu, age, cosine, trust = [0.0] * d, [0] * d, [0.0] * d, [1.0] * d
    drift, drifted, ceiling = [0.0] * d, [np.inf] * d, [1.0] * d
    for k in range(1, steps + 1):
        V = []
        for i in range(d):
            move = mu[i] * (X[i] - old[i]) - eta[i] * D[i]
            V.append(X[i] + move * min(1.0, 0.5 / np.linalg.norm(move)))
        new = [sum(M[i, j] * V[j] for j in range(d)) for i in range(d)]
        mixed = [sum(M[i, j] * D[j] for j in range(d)) for i in range(d)]
        told = [sum(M[i, j] * cosine[j] for j in range(d)) for i in range(d)]
        ell = [sum(M[i, j] * ell[j] for j in range(d)) for i in range(d)]
        age = [max(0.0, sum(M[i, j] * age[j] for j in range(d))) for i in range(d)]
        for i in range(d):
            h = landing(silos[i], new[i], beta)
            S, dH = new[i] - X[i], h - H[i]
            D[i] = mixed[i] + dH
            old[i], X[i], H[i] = X[i], new[i], h
            if k % 20 == 0:
                top[i] = difference(silos[i], X[i], top[i], beta)
                found = max(np.linalg.norm(top[i]), 2 * beta)
            else:
                found = max(L[i], np.linalg.norm(dH) / np.linalg.norm(S))
            ell[i] += found**8 - L[i] ** 8
            L[i] = found
            cosine[i] = np.sum(D[i] * S) / np.linalg.norm(D[i]) / np.linalg.norm(S)
            age[i] = 0 if cosine[i] > 0 and told[i] > -0.4 * (1 - mu[i]) else age[i] + 1
            mu[i] = min(age[i] / (age[i] + 3), 0.999)
            eta[i] = trust[i] * pace / max(ell[i], L[i] ** 8) ** (1 / 8)
            drift[i] += np.linalg.norm(V[i] - X[i])
            if k % 50 == 0:
                apart = drift[i] > (1 if drift[i] > 0.5 else 2) * drifted[i]
                ceiling[i] = 0.8 * trust[i] if apart else min(1.0, 1.02 * ceiling[i])
                trust[i] = max(0.05, 0.6 * trust[i] if apart else min(1.3 * trust[i], ceiling[i]))
                if apart:
                    age[i], mu[i] = 0.0, 0.0
                drift[i], drifted[i] = 0.0, drift[i]
    return np.array(X), np.array(D), np.array(eta), np.array(mu)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("name", "K"), [("dense", 1), ("bipartite", 1), ("ring", 4), ("path", 3)])
def test_the_rule_written_out_in_plain_loops(name, K, seed):
    network = NETWORKS[name]
    silos = silos_of("pca", network.agents, seed=seed)
    problem = problem_of("pca", silos)
    X0 = destiny.stiefel.random_point(*problem.shape, seed)
    size = np.linalg.norm(sum(A @ (A.T @ X0) for A in silos) / len(silos), 2)
    algorithm = DestinyAccelerated(beta=size, rounds=K, spectrum=network.spectrum)
    ours = run(problem, network, algorithm, 110, start=X0)
    X, D, eta, mu = transcription(silos, network.W.toarray(), network.spectrum, K, X0, size, 110)
    np.testing.assert_allclose(ours.X, X, atol=1e-7)  # momentum doubles rounding errors every few steps
    np.testing.assert_allclose(ours.D, D, atol=1e-6 * np.abs(D).max() + 1e-7 * size)
    np.testing.assert_allclose(ours.eta[:, 0, 0], eta, rtol=1e-5)
    np.testing.assert_allclose(ours.mu[:, 0, 0], mu, atol=1e-9)


# The gossip of a step


def as_matrix(network, sieve):
    """What a filter does to each unit vector."""
    problem = small_problem("pca", network.agents)
    agents = agents_of(problem, network)
    (M,) = sieve(agents, np.eye(network.agents))
    return M, agents.traffic.rounds


@named
@pytest.mark.parametrize("K", [None, 1, 2, 5])
def test_a_filter_keeps_the_mean_and_its_promise(name, K):
    network = NETWORKS[name]
    sieve = filter_for(*network.spectrum, rounds=K)
    M, spent = as_matrix(network, sieve)
    assert spent == sieve.rounds == (K or sieve.rounds)
    np.testing.assert_allclose(M.sum(axis=0), 1, atol=1e-12)
    others = np.sort(np.linalg.eigvalsh(M))[:-1]
    if len(others):
        assert others[0] >= FLOOR - 1e-9
        assert others[-1] <= sieve.contraction + 1e-9
    if K is None:
        assert sieve.contraction <= 0.8


def test_the_bound_on_negative_eigenvalues_is_where_momentum_fails():
    """z^2 - w (1 + mu) z + w mu = 0, the disagreement of equal agents at rest."""
    for mu in (0.2, 0.5, 0.9, 0.99):
        edge = -1 / (1 + 2 * mu)
        for w, stable in ((edge + 1e-3, True), (edge - 1e-3, False)):
            assert (np.abs(np.roots([1, -w * (1 + mu), w * mu])).max() < 1) == stable


def test_an_unknown_network_is_mixed_safely_whatever_its_weights():
    swap = np.array([[0.01, 0.99], [0.99, 0.01]])
    M, _ = as_matrix(networks.from_weights(swap), single_round_filter())
    assert np.linalg.eigvalsh(M)[0] >= FLOOR - 1e-12


def test_fewest_rounds_that_make_a_good_network():
    for network in (networks.ring(32), networks.path(16), networks.star(32), networks.grid(6, 6)):
        sieve = filter_for(*network.spectrum)
        fewer = filter_for(*network.spectrum, rounds=sieve.rounds - 1)
        assert sieve.contraction <= 0.7 < fewer.contraction
    assert filter_for(-0.2, 0.79).rounds == 1 < filter_for(-0.2, 0.81).rounds
    assert filter_for(-1 + 1e-9, 1 - 1e-9).rounds == 50  # bounded, whatever the network


def test_chebyshev_leaves_what_it_says():
    network = networks.ring(16)
    low, high = network.spectrum
    _, worst = chebyshev_matrix(network.W.toarray(), low, high, 6)
    shift = (low + high) / 2
    assert contraction(6, (high - low) / 2 / (1 - shift)) == pytest.approx(worst, rel=1e-10)


@pytest.mark.parametrize("agents", [1, 2, 30, 1050])
def test_a_network_knows_both_ends_of_its_spectrum(agents):
    network = networks.random_regular(agents, degree=4, seed=0) if agents > 4 else networks.complete(agents)
    low, high = network.spectrum
    others = np.sort(np.linalg.eigvalsh(network.W.toarray()))[:-1]
    if agents > 1:
        assert high == pytest.approx(others[-1], abs=1e-8)
        assert low <= others[0] + 1e-8
    assert max(abs(low), abs(high)) >= network.lambda_ - 1e-9


# Safeguards


def rare(agents, seed):
    """PCA whose agents each see two directions of their own only."""
    rng = np.random.default_rng(seed)
    basis = np.linalg.qr(rng.standard_normal((60, 60)))[0] * 0.9 ** (np.arange(60) / 2)
    return destiny.problems.PCA(
        [(basis @ rng.standard_normal((60, 2)) @ rng.standard_normal((2, 30))).T for _ in range(agents)], 4
    )


def test_trust_shrinks_where_neighbors_drift_apart_and_comes_back(monkeypatch):
    problem, network = rare(16, 0), networks.star(16)
    monkeypatch.setattr(accelerated, "GAPS", 6.0)  # steps far too long
    moments = destiny.iterate(problem, network, DestinyAccelerated())
    trust = [m.state.trust.min() for m, _ in zip(moments, range(1500), strict=False)]
    assert min(trust) < 0.5
    assert trust[-1] > 1.3 * min(trust)
    result = destiny.solve(problem, network, DestinyAccelerated(), rounds=6000)
    assert result.converged, result
    monkeypatch.setattr(DestinyAccelerated, "backoff", lambda self, s: s)
    blind = destiny.solve(problem, network, DestinyAccelerated(), rounds=6000)
    assert not blind.converged, blind


@pytest.mark.parametrize("w", [-1 / 3, -0.5, -0.95])
def test_weights_with_all_eigenvalues_negative(w):
    """Agents whose own objectives curve downwards fail where an eigenvalue of M is at -0.3."""
    J = np.full((4, 4), 0.25)
    network = networks.from_weights(J + w * (np.eye(4) - J))
    for seed in range(3):
        rng = np.random.default_rng(seed)
        silos = [rng.standard_normal((20, 60)) * np.linspace(1, 0.2, 20)[:, None] for _ in range(4)]
        problem = destiny.problems.PCA([a.T for a in silos], 3)
        result = destiny.solve(problem, network, DestinyAccelerated(), seed=seed, rounds=600)
        assert result.converged, (seed, result)


def test_agents_that_start_at_the_answer_agree_to_stop():
    problem, network = small_problem("pca", 8), networks.ring(8)
    answer = destiny.solve(problem, network, DestinyAccelerated(), tolerance=1e-12).X
    again = destiny.solve(
        problem, network, DestinyAccelerated(), start=answer, local_stopping=True, rounds=400
    )
    assert again.converged, again


def test_curvatures_beyond_any_eighth_power_are_refused():
    silos = [1e25 * A for A in silos_of("pca", 4)]
    with pytest.raises(ProblemError, match="scale the data"):
        destiny.solve(problem_of("pca", silos), networks.ring(4), DestinyAccelerated(), rounds=60)


@pytest.mark.parametrize("algorithm", [DestinyAccelerated(), destiny.Destiny()], ids=lambda a: a.kind)
def test_a_gradient_that_is_not_a_number_names_its_agent(algorithm):
    class Broken:
        def value(self, X):
            return 0.0

        def gradient(self, X):
            return np.full_like(X, np.nan)

    class Fine(Broken):
        def gradient(self, X):
            return np.ones_like(X)

    start = destiny.stiefel.random_point(5, 2)
    with pytest.raises(destiny.ProblemError, match="agent 2"):
        destiny.solve([Fine(), Fine(), Broken()], networks.ring(3), algorithm, start=start)


def test_an_agent_without_data_does_not_run_ahead():
    silos = silos_of("pca", 8)
    for i in (1, 4, 5):
        silos[i] = np.zeros_like(silos[i])
    result = destiny.solve(problem_of("pca", silos), networks.path(8), DestinyAccelerated(), rounds=4000)
    assert result.converged, result


def test_one_agent_with_far_more_data_does_not_ruin_the_run():
    silos = silos_of("pca", 8)
    silos[3] = 10 * silos[3]
    result = destiny.solve(problem_of("pca", silos), networks.grid(2, 4), DestinyAccelerated(), rounds=6000)
    assert result.converged, result


def test_the_penalty_follows_an_objective_that_steepens():
    rng = np.random.default_rng(0)
    spikes = rng.standard_normal((40, 600)) * (rng.random((40, 600)) < 0.05)  # kurtosis: steep at the answer
    problem = destiny.problems.sdl.from_data(
        (np.linalg.qr(rng.standard_normal((40, 40)))[0] @ spikes).T, 1, 6
    )
    moments = destiny.iterate(problem, networks.ring(6), DestinyAccelerated())
    states = [m.state for m, _ in zip(moments, range(120), strict=False)]
    assert states[-1].beta.max() > 5 * states[0].beta.max()
    assert max(float(s.violation.max()) for s in states) < 1
    np.testing.assert_allclose(states[-1].D.mean(axis=0), states[-1].H.mean(axis=0), atol=1e-9)
    fixed = run(problem, networks.ring(6), DestinyAccelerated(beta=3.0), 40)
    assert (fixed.beta == 3.0).all()  # a number is taken literally


def test_accuracy_once_reached_is_kept():
    problem, network = small_problem("pca", 16), networks.grid(4, 4)
    result = destiny.solve(problem, network, DestinyAccelerated(), rounds=3000, tolerance=0)
    worst = np.maximum(result.history["stationarity"], result.history["consensus"])
    reached = int(np.argmax(worst < 1e-11))
    assert worst[reached] < 1e-11
    assert worst[reached:].max() < 1e-10


def test_scaling_by_a_power_of_two_keeps_the_bits():
    silos, network = silos_of("pca", 6), networks.ring(6)
    one = run(problem_of("pca", silos), network, DestinyAccelerated(), 60)
    two = run(problem_of("pca", [2.0**8 * A for A in silos]), network, DestinyAccelerated(), 60)
    assert (one.X == two.X).all()


@pytest.mark.parametrize("scale", [1e-3, 1e3])
def test_other_scales_take_as_many_rounds(scale):
    network = networks.erdos_renyi(8, prob=0.5, seed=0)
    silos = silos_of("pca", 8)
    ours, scaled = (
        destiny.solve(
            problem_of("pca", [c * A for A in silos]), network, DestinyAccelerated(), every=1
        ).rounds
        for c in (1, scale)
    )
    assert abs(ours - scaled) <= 3


# Where it runs


@pytest.mark.parametrize(
    "changing",
    [
        networks.link_loss(networks.erdos_renyi(8, prob=0.6, seed=0), 0.3, seed=0),
        networks.matchings(networks.complete(8), seed=0),
    ],
    ids=["lossy", "matchings"],
)
def test_networks_that_change(changing):
    result = destiny.solve(small_problem("pca", 8), changing, rounds=4000)
    assert result.converged, result
    assert result.settings["rounds"] == 1
    assert result.settings["spectrum"] is None
    with pytest.raises(destiny.SettingsError, match="changes from round to round"):
        destiny.solve(small_problem("pca", 8), changing, DestinyAccelerated(rounds=3))


def test_a_network_nobody_knows_is_felt_by_the_agents():
    result = destiny.solve(small_problem("pca", 16), Hidden(networks.grid(4, 4)), rounds=6000)
    assert result.converged, result


@pytest.mark.parametrize("direction", ["h", "expen", "plam", "landing"])
@pytest.mark.parametrize("kind", ["pca", "olsr", "sdl"])
def test_every_direction(direction, kind):
    problem = small_problem(kind, 6)
    result = destiny.solve(problem, networks.ring(6), DestinyAccelerated(direction=direction), rounds=6000)
    assert result.converged, result


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"beta": -1}, "beta must be"),
        ({"direction": "sanger"}, "direction must be one of"),
        ({"rounds": 0}, "rounds must be"),
        ({"rounds": 1.5}, "rounds must be"),
        ({"spectrum": (0.5, 0.2)}, "spectrum must be two numbers"),
        ({"spectrum": 0.5}, "spectrum must be two numbers"),
        ({"spectrum": (-0.2, 1.0)}, "spectrum must be two numbers"),
        ({"gossip": 2}, "gossip must be"),
    ],
)
def test_settings_that_cannot_work_are_refused(options, words):
    with pytest.raises(destiny.SettingsError, match=words):
        DestinyAccelerated(**options)


def test_the_paper_is_one_word_away():
    problem, network = small_problem("pca"), networks.ring(6)
    for method in (destiny.Destiny(), "destiny"):
        result = destiny.solve(problem, network, method, rounds=40)
        assert (result.settings["kind"], result.choice) == ("destiny", None)


# The benchmark, small


@named
@pytest.mark.parametrize("seed", [1])
def test_it_converges_on_every_family_with_fewer_rounds_than_capped_bb(name, seed):
    network = NETWORKS[name]
    d = network.agents
    problem = destiny.problems.pca.synthetic(40, max(40, 20 * d), 3, 0.85, agents=d, seed=seed)
    ours = destiny.solve(problem, network, DestinyAccelerated(), seed=seed, rounds=5000, every=1)
    assert ours.converged, ours
    paper = destiny.solve(problem, network, destiny.Destiny(), seed=seed, rounds=int(ours.rounds / 1.1) - 1)
    assert not paper.converged, (ours.rounds, paper.rounds)


def test_the_table_in_the_docs_is_the_csv():
    rows = read(benchmark.BENCHMARK.file)
    page = benchmark.BENCHMARK.page.read_text(encoding="utf-8")
    assert benchmark.table(rows) in page, "stale: run python -m benchmarks.rounds"
    seeds = {int(row["seed"]) for row in rows}
    assert seeds >= set(benchmark.SEEDS)
    assert not seeds & set(range(4))  # the constants were chosen on those


def test_the_benchmark_is_resumable(tmp_path, monkeypatch, capsys):
    made = []

    def tiny(seed):
        made.append(seed)
        return small_problem("pca", 6, seed), networks.ring(6)

    monkeypatch.setattr(benchmark, "INSTANCES", {"tiny": (tiny, 400)})
    monkeypatch.delenv("DESTINY_DATA", raising=False)
    out = tmp_path / "rounds.csv"
    for seeds in (["0"], ["0", "1"], ["0", "1"]):
        monkeypatch.setattr("sys.argv", ["rounds", "--out", str(out), "--seeds", *seeds])
        benchmark.BENCHMARK.main()
    assert sorted(made) == [0] * len(benchmark.METHODS) + [1] * len(benchmark.METHODS)
    assert "| tiny |" in capsys.readouterr().out
    assert dataclasses.is_dataclass(DestinyAccelerated)


def test_no_curvature_is_not_a_matter_of_scale():
    flat = destiny.problems.custom.problem(
        lambda X, a: a * 0.0, lambda X, a: 0 * X, data=[1.0, 2.0], shape=(4, 2)
    )
    result = destiny.solve(flat, networks.complete(2))
    assert [note.partition(":")[0] for note in result.notes] == ["the gradient is zero at the start"]


@pytest.mark.parametrize("factor", [1e-12, 1e9, 1e18])
def test_data_whose_curvatures_are_out_of_range_are_refused_and_do_not_waste_rounds(factor):
    rng = np.random.default_rng(0)
    silos = [factor * rng.standard_normal((6, 40)) for _ in range(4)]
    silos[0] /= 1e3  # one that is small beside others is no reason
    with pytest.raises(ProblemError, match=r"gradients must change at rates from 1e-40 to 1e\+38"):
        destiny.solve(
            destiny.problems.SDL([a.T for a in silos], 3),
            destiny.networks.ring(4),
            DestinyAccelerated(),
            rounds=400,
        )


@pytest.mark.parametrize("factor", [1e-10, 1e-3, 1e8])
def test_an_agent_with_tiny_data_beside_others_is_not_refused(factor):
    rng = np.random.default_rng(0)
    silos = [factor * rng.standard_normal((6, 40)) for _ in range(4)]
    silos[0] /= 1e12
    result = destiny.solve(
        destiny.problems.SDL([a.T for a in silos], 3), destiny.networks.ring(4), DestinyAccelerated()
    )
    assert result.converged


@pytest.mark.parametrize(("name", "help"), [("complete", False), ("ring", True)])
def test_more_links_are_advised_where_some_are_missing(name, help):
    network = NETWORKS[name]
    problem = small_problem("pca", agents=network.agents)
    state = destiny.solve(problem, network, DestinyAccelerated(), rounds=60).state
    cautious = dataclasses.replace(state, trust=np.full_like(state.trust, 0.1))
    notes = DestinyAccelerated().remarks(cautious, np.arange(network.agents), False)
    (drifted,) = (note for note in notes if "cut their steps to 10 %: they see very different things" in note)
    assert ("more links help" in drifted) is help

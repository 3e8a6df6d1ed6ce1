"""One agent solves the sums that it hears in the steps of DeEPCA for the covariances of all others.

A run is a function of the data: whoever knows the network, the method and the start can simulate it, and fit
the unknown covariances until the simulation gives the sums that came. Each sum hides its parts; many do not.
Methods of totals alone have no such sums: what an agent hears of them tells the sum over all others.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment

import destiny
from destiny.agents.privacy.masks import Masks
from destiny.engines import Local, fixed_point
from destiny.engines.hosted import HostedAgents
from tests.helpers.masked_total import link_masks

ATTACKER = 0
N, P, STEPS = 4, 2, 24
HORIZONS = (4, 6, 9, 13, 18, STEPS)  # steps that are fitted one after the other: far ones have false minima
TYPICAL = np.diag(np.linspace(2, 0.5, N))  # what the attacker knows of everybody's data
NETWORK = destiny.networks.erdos_renyi(5, prob=0.6, seed=1)
TRIANGLE = np.triu_indices(N)


@dataclass
class Simulation:
    """DeEPCA with covariances of which the attacker knows its own; `sums` has the derivatives, too."""

    W: np.ndarray
    X0: np.ndarray
    own: np.ndarray

    def __post_init__(self):
        d, count = len(self.W), len(TRIANGLE[0])
        self.others = np.delete(np.arange(d), ATTACKER)
        self.heard = np.where(np.arange(d) == ATTACKER, 0.0, self.W[ATTACKER])
        basis = np.zeros((count, N, N))
        for k, (i, j) in enumerate(zip(*TRIANGLE, strict=True)):
            basis[k, i, j] = basis[k, j, i] = 1
        self.dC = np.zeros((len(self.others) * count, d, N, N))
        for k, j in enumerate(self.others):
            self.dC[k * count : (k + 1) * count, j] = basis

    def covariances(self, unknown):
        C = np.tensordot(unknown, self.dC, axes=1)
        C[ATTACKER] = self.own
        return C

    def sums(self, unknown, steps, derivatives=True):
        """What the attacker hears, and its derivatives by the unknown entries."""
        C, dC = self.covariances(unknown), self.dC if derivatives else self.dC[:0]
        X = np.broadcast_to(self.X0, (len(C), N, P))
        S = B = np.zeros_like(X)
        dX = dS = dB = np.zeros((len(dC), *X.shape))
        sums, slopes = [], []
        for _ in range(steps):
            CX, dCX = C @ X, dC @ X + C @ dX
            sent, dsent = S + CX - B, dS + dCX - dB
            B, dB = CX, dCX
            sums.append(np.tensordot(self.heard, sent, axes=1).ravel())
            slopes.append(np.einsum("j,ujnp->npu", self.heard, dsent).reshape(N * P, -1))
            S, dS = np.einsum("ij,jnp->inp", self.W, sent), np.einsum("ij,ujnp->uinp", self.W, dsent)
            Q, R = np.linalg.qr(S)
            sign = np.where(np.sum(Q * self.X0, axis=1, keepdims=True) < 0, -1.0, 1.0)
            X, R = Q * sign, R * sign.swapaxes(1, 2)
            G = dS @ np.linalg.inv(R)
            M = X.swapaxes(1, 2) @ G
            lower = np.tril(M, -1)
            dX = X @ (lower - lower.swapaxes(-1, -2)) + G - X @ M
        return np.concatenate(sums), np.concatenate(slopes)

    def fit(self, heard, unknown, steps, most):
        """Levenberg-Marquardt: the entries after at most so many iterations, and what is left of the sums."""
        damping = 1e-2
        sums, J = self.sums(unknown, steps)
        left = sums - heard
        for _ in range(most):
            U, s, Vt = np.linalg.svd(J, full_matrices=False)
            for _ in range(10):
                step = Vt.T @ (s / (s**2 + damping * s[0] ** 2) * (U.T @ left))
                trial = self.sums(unknown - step, steps, derivatives=False)[0] - heard
                if np.linalg.norm(trial) < np.linalg.norm(left):
                    break
                damping *= 10
            else:
                break
            damping /= 30
            unknown = unknown - step
            sums, J = self.sums(unknown, steps)
            left = sums - heard
            if np.linalg.norm(left) < 1e-13:
                break
        return unknown, float(np.linalg.norm(left))


def silos(agents, seed):
    rng = np.random.default_rng(seed)
    return [np.sqrt(TYPICAL / 20) @ rng.standard_normal((N, 20)) for _ in range(agents)]


def run_and_listen(monkeypatch, data, network, algorithm):
    """The sums over the neighbours that the attacker hears in a run of the package."""
    heard = []
    in_clear = fixed_point.sum_in_clear

    def spy(*args):
        sums = in_clear(*args)
        heard.append(sums[ATTACKER].copy())
        return sums

    monkeypatch.setattr(fixed_point, "sum_in_clear", spy)
    destiny.solve(
        destiny.problems.PCA(data, P),
        network,
        algorithm,
        messages=destiny.Messages(private=True),
        rounds=STEPS,
        tolerance=0,
    )
    return heard


def attacker(data, network):
    own = data[ATTACKER] @ data[ATTACKER].T
    return Simulation(network.W.toarray(), destiny.stiefel.random_point(N, P, 0), own)


def errors(found, true):
    """Relative, in the order that fits best: agents in like places of a network cannot be told apart."""
    table = [[np.linalg.norm(F - C) / np.linalg.norm(C) for C in true] for F in found]
    return np.array(table)[linear_sum_assignment(table)]


@pytest.mark.parametrize("seed", [0, 1])
def test_one_agent_finds_the_covariances_of_all_others(monkeypatch, seed):
    data = silos(NETWORK.agents, seed)
    heard = np.concatenate(run_and_listen(monkeypatch, data, NETWORK, destiny.algorithms.DeEPCA())[:STEPS])
    simulation, left = attacker(data, NETWORK), np.inf
    rng = np.random.default_rng(seed)
    for spread in (0.001, 0.05, 0.1, 0.1, 0.2, 0.2):  # further starts, for want of luck
        starts = TYPICAL + spread * rng.standard_normal((len(simulation.others), N, N))
        unknown = np.concatenate([start[TRIANGLE] for start in starts])
        for steps in HORIZONS:
            unknown, left = simulation.fit(
                heard[: N * P * steps], unknown, steps, 150 if steps == STEPS else 30
            )
        if left < 1e-10:
            break
    true = np.array([data[j] @ data[j].T for j in simulation.others])
    found = simulation.covariances(unknown)[simulation.others]
    assert errors([TYPICAL] * len(true), true).mean() > 0.2, "what the attacker knows beforehand"
    assert errors(found, true).max() < 1e-6


def test_where_all_hear_all_sums_tell_the_mean_alone():
    """With all weights equal every step leaves all agents with the same numbers, functions of the mean."""
    for network, rank in ((destiny.networks.complete(5), 1), (NETWORK, 4)):
        data = silos(5, 0)
        simulation = attacker(data, network)
        true = np.concatenate([(data[j] @ data[j].T)[TRIANGLE] for j in simulation.others])
        s = np.linalg.svd(simulation.sums(true, STEPS)[1], compute_uv=False)
        assert np.sum(s > 1e-9 * s[0]) == rank * len(TRIANGLE[0])


@pytest.mark.parametrize("algorithm", [None, "destiny-newton", "destiny-krylov", "destiny-lbfgs"])
def test_methods_of_totals_have_no_sums_to_solve(monkeypatch, algorithm):
    """One of them is the default where sums are private."""
    data = silos(NETWORK.agents, 0)
    assert run_and_listen(monkeypatch, data, NETWORK, algorithm) == []


class Eavesdropper:
    """A run of quasi-Newton steps by agents that each live alone, and all that the attacker hears of it.

    Attributes
    ----------
    points : list of ndarray (n, p)
        Where the gradients of each step were taken, the first aside: all agents know these.
    totals : list of ndarray (n, p)
        The sums of all agents' gradients there.
    """

    def __init__(self, monkeypatch, data, network, steps, private):
        self.network, self.private, self.masks = network, private, link_masks(network)
        self.points, self.totals, self.exponents, self.begun = [], [], [], []
        self.sent = [[] for _ in data]
        tell = HostedAgents.tell

        def spy(agents, *blocks):
            self.sent[agents.ids[0]].append(blocks[0][0].copy())
            return tell(agents, *blocks)

        monkeypatch.setattr(HostedAgents, "tell", spy)
        settings = destiny.DestinyLBFGS().on(network)

        def go(start, agents):
            mine = agents.ids[0] == ATTACKER
            if private:
                agents.sum_privately(network.diameter)
                agents.masked = SimpleNamespace(mask_links=self.masking(agents))
            state = settings.init(start, agents)
            for _ in range(steps):
                point, begun = state.trial[0], len(self.sent[ATTACKER])
                state = settings.step(state, agents)
                if mine:
                    self.points.append(point)
                    self.begun.append(begun + network.diameter * private)
                    self.totals.append(len(data) * self.mean_gradient(state, point))

        team = Local(len(data)).connect(destiny.problems.PCA(data, P), network)
        team.each(go, team.split(np.stack([destiny.stiefel.random_point(N, P, 0)] * len(data))))
        team.close()

    def masking(self, agents):
        def mask_links(words, round, exponents):
            if agents.ids[0] == ATTACKER:
                self.exponents.append((round, exponents))
            self.masks[agents.ids[0]].add_to(words, round, 0, exponents)

        return mask_links

    @staticmethod
    def mean_gradient(state, point):
        """The mean that the attacker had: of X itself if the point was accepted, else from the last pair."""
        if (state.X[0] == point).all():
            return state.gradient[0]
        return state.gradient[0] + state.changes[0, -1]

    def gradient_of(self, agent, step):
        """What an agent sent first of its gradient, without the mask that the attacker can take off."""
        words = self.sent[agent][self.begun[step]]
        if not self.private:
            return words[: N * P].reshape(N, P)
        round, exponents = self.exponents[step]
        high, low = np.split(words.astype(np.uint64), 2)
        words = (high << np.uint64(32)) | low
        pairs = self.masks[ATTACKER].pairs
        if agent in pairs:
            Masks(ATTACKER, {agent: pairs[agent]}).add_to(words, round, 0, exponents)
        layout = fixed_point.layout((N * P, 5))
        unit = layout.unit(exponents + math.ceil(math.log2(self.network.agents)))
        return fixed_point.decode(words.view(np.int64), unit)[: N * P].reshape(N, P)

    def covariance(self, gradients):
        """The symmetric C with C X = -G for all points and gradients, by least squares."""
        basis = np.zeros((len(TRIANGLE[0]), N, N))
        for k, (i, j) in enumerate(zip(*TRIANGLE, strict=True)):
            basis[k, i, j] = basis[k, j, i] = 1
        X = np.concatenate(self.points[1:], axis=1)
        entries = np.linalg.lstsq(
            np.array([(B @ X).ravel() for B in basis]).T, -np.concatenate(gradients, axis=1).ravel()
        )[0]
        return np.tensordot(entries, basis, axes=1)


@pytest.mark.parametrize("private", [False, True])
@pytest.mark.parametrize("seed", [0, 1])
def test_gradients_at_common_points_tell_the_sum_over_the_others_alone(monkeypatch, seed, private):
    """The first step has two matrices in its messages and is left out; plain messages show that it works."""
    data, steps = silos(NETWORK.agents, seed), 10
    heard = Eavesdropper(monkeypatch, data, NETWORK, steps, private)
    true = np.array([A @ A.T for A in data])
    others = np.arange(len(data)) != ATTACKER
    own = [-true[ATTACKER] @ X for X in heard.points]
    rest = heard.covariance([T - G for T, G in zip(heard.totals[1:], own[1:], strict=True)])
    np.testing.assert_allclose(rest, true[others].sum(axis=0), atol=1e-7)
    for victim in np.flatnonzero((NETWORK.W.toarray()[ATTACKER] != 0) & others):
        found = heard.covariance([heard.gradient_of(victim, step) for step in range(1, steps)])
        error = np.linalg.norm(found - true[victim]) / np.linalg.norm(true[victim])
        if private:
            guess = rest / others.sum()  # the best there is: the mean over the others
            assert error > 0.9
            assert np.linalg.norm(guess - true[victim]) > 0.1 * np.linalg.norm(true[victim])
        else:
            assert error < 1e-8

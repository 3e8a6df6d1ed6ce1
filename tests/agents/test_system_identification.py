"""One agent solves the sums that it hears in the steps of DeEPCA for the covariances of all others.

A run is a function of the data: whoever knows the network, the method and the start can simulate it, and fit
the unknown covariances until the simulation gives the sums that came. Each sum hides its parts; many do not.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment

import destiny
from destiny.engines import fixed_point

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


@pytest.mark.parametrize("algorithm", [None, "destiny-newton", "destiny-krylov"])
def test_methods_of_totals_have_no_sums_to_solve(monkeypatch, algorithm):
    """One of them is the default where sums are private."""
    data = silos(NETWORK.agents, 0)
    assert run_and_listen(monkeypatch, data, NETWORK, algorithm) == []

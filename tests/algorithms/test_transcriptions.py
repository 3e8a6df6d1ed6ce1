"""Published update rules, written out agent by agent in plain loops, against the package's iterates.

Every rule is a generator of the agents' matrices X_1, ..., X_d after 0, 1, 2, ... iterations, from what the
agents hold: F(i, X), the field they follow, or their Riemannian gradients rg(i, X), or their data. W is
dense, and nothing of the package's own mathematics is used.
"""

from functools import cache, partial
from itertools import islice, product
from typing import Any

import numpy as np
import pytest

import destiny
from destiny import algorithms as m
from destiny.algorithms.blocks.step_sizes import Constant, Diminishing, PlainBB

A, BETA, ALPHA, RHO = 0.1, 0.7, 0.6, 0.4
TOLERANCE = 1e-12


def sym(B):
    return (B + B.T) / 2


def polar(Z):
    U, _, Vt = np.linalg.svd(Z, full_matrices=False)
    return U @ Vt


def qf(Z):
    """Q of Z = QR with a positive diagonal of R."""
    Q, R = np.linalg.qr(Z)
    for c in range(Z.shape[1]):
        if R[c, c] < 0:
            Q[:, c] = -Q[:, c]
    return Q


def tangent(X, D):
    return D - X @ sym(X.T @ D)


def mix(W, X):
    """(W X)_i = sum_j W_ij X_j."""
    d = len(X)
    return [sum(W[i, j] * X[j] for j in range(d)) for i in range(d)]


def plain(W, X, t):
    """(W^t X)_i."""
    for _ in range(t):
        X = mix(W, X)
    return X


def contraction(W):
    """lambda = ||W - 11^T/d||_2."""
    d = len(W)
    return np.linalg.norm(W - np.ones((d, d)) / d, 2)


def fast_mix(W, Z, K):
    """Z_{k+1} = (1 + q) W Z_k - q Z_{k-1}, Z_{-1} = Z_0, k < K."""
    root = np.sqrt(1 - contraction(W) ** 2)
    q = (1 - root) / (1 + root)
    before, now = Z, Z
    for _ in range(K):
        M = mix(W, now)
        before, now = now, [(1 + q) * M[i] - q * before[i] for i in range(len(Z))]
    return now


def chebyshev(W, X, K):
    """Y_{k+1} = om_{k+1} W Y_k + (1 - om_{k+1}) Y_{k-1}, Y_0 = X, Y_1 = W X.

    om_2 = 2 / (2 - l^2), om_{k+1} = 1 / (1 - l^2 om_k / 4), l = lambda.
    """
    square = contraction(W) ** 2
    before, now = X, mix(W, X)
    omega = 2 / (2 - square)
    for _ in range(K - 1):
        M = mix(W, now)
        before, now = now, [omega * M[i] + (1 - omega) * before[i] for i in range(len(X))]
        omega = 1 / (1 - square * omega / 4)
    return now


class Data:
    """The agents' data and the local fields made of them."""

    def __init__(self, kind, silos):
        self.kind, self.silos = kind, silos

    def g(self, i, X):
        """Gradient of -||A^T X||^2/2, ||C^T X - D^T||^2 or -||B^T X||_4^4/4."""
        A = self.silos[i]
        if self.kind == "pca":
            return -A @ A.T @ X
        if self.kind == "olsr":
            C, D = A
            return 2 * C @ (C.T @ X - D.T)
        return -A @ (A.T @ X) ** 3

    def silo(self, i):
        return self.silos[i]

    def C(self, i):
        return self.silos[i] @ self.silos[i].T

    def rg(self, i, X):
        return tangent(X, self.g(i, X))

    def h(self, i, X):
        """g (3I - G)/2 - X [sym(X^T g) - beta (G - I)], G = X^T X, g at X G."""
        G = X.T @ X
        return self.dissolved(X, self.g(i, X @ G))

    def expen(self, i, X):
        """The same with g at X (3I - G)/2."""
        G = X.T @ X
        return self.dissolved(X, self.g(i, X @ (3 * np.eye(len(G)) - G) / 2))

    def dissolved(self, X, g):
        G, I = X.T @ X, np.eye(X.shape[1])
        return g @ (3 * I - G) / 2 - X @ (sym(X.T @ g) - BETA * (G - I))

    def plam(self, i, X):
        """g - X sym(X^T g) + beta X (X^T X - I)."""
        g = self.g(i, X)
        return g - X @ sym(X.T @ g) + BETA * X @ (X.T @ X - np.eye(X.shape[1]))

    def landing(self, i, X):
        """(g X^T X - X g^T X)/2 + beta X (X^T X - I)."""
        g = self.g(i, X)
        return (g @ X.T @ X - X @ g.T @ X) / 2 + BETA * X @ (X.T @ X - np.eye(X.shape[1]))

    def sanger(self, i, X):
        """Column j: -C x_j + sum_{k <= j} (x_k^T C x_j) x_k."""
        C, S = self.C(i), np.zeros_like(X)
        for j in range(X.shape[1]):
            S[:, j] = -C @ X[:, j]
            for k in range(j + 1):
                S[:, j] += (X[:, k] @ C @ X[:, j]) * X[:, k]
        return S

    def krasulina(self, i, X):
        """Column j: C x_j - sum_{k <= j} (x_k^T C x_j) / ||x_k||^2 x_k."""
        C, h = self.C(i), np.zeros_like(X)
        for j in range(X.shape[1]):
            h[:, j] = C @ X[:, j]
            for k in range(j + 1):
                h[:, j] -= (X[:, k] @ C @ X[:, j]) / (X[:, k] @ X[:, k]) * X[:, k]
        return h


def at(F, X):
    return [F(i, X[i]) for i in range(len(X))]


def dgd(F, W, X, step, order):
    """X+ = W X - a F(X) ("cta") or W (X - a F(X)) ("atc"); step(k) with k = 1, 2, ..."""
    d, k = len(X), 0
    while True:
        yield X
        k += 1
        a, now = step(k), at(F, X)
        if order == "cta":
            M = mix(W, X)
            X = [M[i] - a * now[i] for i in range(d)]
        else:
            X = mix(W, [X[i] - a * now[i] for i in range(d)])


def extra(F, W, X, a):
    """X^1 = W X^0 - a F^0; X^{k+2} = (I + W) X^{k+1} - (I + W) X^k / 2 - a (F^{k+1} - F^k)."""
    d = len(X)
    old, M, now = X, mix(W, X), at(F, X)
    new = [M[i] - a * now[i] for i in range(d)]
    yield old
    while True:
        yield new
        Mo, Mn, Fo, Fn = mix(W, old), mix(W, new), at(F, old), at(F, new)
        after = [new[i] + Mn[i] - 0.5 * (old[i] + Mo[i]) - a * (Fn[i] - Fo[i]) for i in range(d)]
        old, new = new, after


def pg_extra(F, W, X, a):
    """Z^{k+2} = W X^{k+1} + Z^{k+1} - (X^k + W X^k)/2 - a (F^{k+1} - F^k), X^{k+2} = polar(Z^{k+2})."""
    d = len(X)
    old, M, now = X, mix(W, X), at(F, X)
    Z = [M[i] - a * now[i] for i in range(d)]
    new = [polar(z) for z in Z]
    yield old
    while True:
        yield new
        Mo, Mn, Fo, Fn = mix(W, old), mix(W, new), at(F, old), at(F, new)
        Z = [Mn[i] + Z[i] - 0.5 * (old[i] + Mo[i]) - a * (Fn[i] - Fo[i]) for i in range(d)]
        old, new = new, [polar(z) for z in Z]


def exact_diffusion(F, W, X, a):
    """psi = X - a F; phi = psi + X - psi_prev (first: phi = psi); X+ = (I + W) phi / 2."""
    d, before = len(X), None
    while True:
        yield X
        now = at(F, X)
        psi = [X[i] - a * now[i] for i in range(d)]
        phi = psi if before is None else [psi[i] + X[i] - before[i] for i in range(d)]
        M = mix(W, phi)
        X, before = [0.5 * (phi[i] + M[i]) for i in range(d)], psi


def destiny_form(F, W, X, a):
    """X+ = W (X - a D), D+ = W D + F(X+) - F(X)."""
    d, D = len(X), at(F, X)
    while True:
        yield X
        MD, before = mix(W, D), at(F, X)
        X = mix(W, [X[i] - a * D[i] for i in range(d)])
        after = at(F, X)
        D = [MD[i] + after[i] - before[i] for i in range(d)]


def diging(F, W, X, a):
    """X+ = W X - a D, D+ = W D + F(X+) - F(X)."""
    d, D = len(X), at(F, X)
    while True:
        yield X
        MX, MD, before = mix(W, X), mix(W, D), at(F, X)
        X = [MX[i] - a * D[i] for i in range(d)]
        after = at(F, X)
        D = [MD[i] + after[i] - before[i] for i in range(d)]


def atc_tracking(F, W, X, a):
    """X+ = W (X - a D), D+ = W (D + F(X+) - F(X))."""
    d, D = len(X), at(F, X)
    while True:
        yield X
        before = at(F, X)
        X = mix(W, [X[i] - a * D[i] for i in range(d)])
        after = at(F, X)
        D = mix(W, [D[i] + after[i] - before[i] for i in range(d)])


def fast_pca(h, W, X, a):
    """X+ = X/2 + W X/2 + a S, S+ = S/2 + W S/2 + h(X+) - h(X)."""
    d, S = len(X), at(h, X)
    while True:
        yield X
        MX, MS, before = mix(W, X), mix(W, S), at(h, X)
        X = [0.5 * X[i] + 0.5 * MX[i] + a * S[i] for i in range(d)]
        after = at(h, X)
        S = [0.5 * S[i] + 0.5 * MS[i] + after[i] - before[i] for i in range(d)]


def deepca(C, W, X, average):
    """S += C X - B, B = C X; S = average(S); X = SignAdjust(Q of S)."""
    d, W0 = len(X), X[0]
    S, B = list(X), list(X)
    while True:
        yield X
        new = [C(i) @ X[i] for i in range(d)]
        S = average(W, [S[i] + new[i] - B[i] for i in range(d)])
        B, X = new, []
        for i in range(d):
            Q, _ = np.linalg.qr(S[i])
            for c in range(Q.shape[1]):
                if Q[:, c] @ W0[:, c] < 0:
                    Q[:, c] = -Q[:, c]
            X.append(Q)


def drsgd(rg, W, X, step, alpha, average, retract):
    """X+ = R_X(alpha P_T(X, W^t X) - b rg(X)), R_X(V) = retract(X + V); step(k) with k = 1, 2, ..."""
    d, k = len(X), 0
    while True:
        yield X
        k += 1
        M, b = average(W, X), step(k)
        X = [retract(X[i] + alpha * tangent(X[i], M[i]) - b * rg(i, X[i])) for i in range(d)]


def bb(Xn, X, Yn, Y):
    """|<S, J>| / <J, J>, S and J the differences of X_i and Y_i."""
    S, J = Xn - X, Yn - Y
    return abs(np.sum(S * J)) / np.sum(J * J)


def drgta(rg, W, X, b, alpha, average, retract, barzilai_borwein=False):
    """X+ = R_X(alpha P_T(X, W^t X) - b P_T(X, Y)), Y+ = W^t Y + rg(X+) - rg(X)."""
    d, Y = len(X), at(rg, X)
    steps = [b] * d
    while True:
        yield X
        MX, MY = average(W, X), average(W, Y)
        Xn = [retract(X[i] + alpha * tangent(X[i], MX[i]) - steps[i] * tangent(X[i], Y[i])) for i in range(d)]
        Yn = [MY[i] + rg(i, Xn[i]) - rg(i, X[i]) for i in range(d)]
        if barzilai_borwein:
            steps = [bb(Xn[i], X[i], Yn[i], Y[i]) for i in range(d)]
        X, Y = Xn, Yn


def dprgd(rg, W, X, step, average):
    """X+ = polar(W^t X - b rg(X))."""
    d, k = len(X), 0
    while True:
        yield X
        k += 1
        M, b = average(W, X), step(k)
        X = [polar(M[i] - b * rg(i, X[i])) for i in range(d)]


def dprgt(rg, W, X, b, average):
    """X+ = polar(W^t X - b P_T(X, Y)), Y+ = W^t Y + rg(X+) - rg(X)."""
    d, Y = len(X), at(rg, X)
    while True:
        yield X
        MX, MY, before = average(W, X), average(W, Y), at(rg, X)
        X = [polar(MX[i] - b * tangent(X[i], Y[i])) for i in range(d)]
        after = at(rg, X)
        Y = [MY[i] + after[i] - before[i] for i in range(d)]


def admm(silo, W, X, rho):
    """ADMM on sum_i ||A_i - U_i Z_i^T||^2 / 2 with U_i = U_j on edges, from a common U and P = 0.

    Z = A^T U (U^T U)^{-1},  U+ = [A Z - P + rho (deg U + sum_j U_j)] [Z^T Z + 2 rho deg I]^{-1},
    P+ = P + rho (deg U+ - sum_j U_j+); edges weighted by W: deg = sum_j W_ij and sum_j W_ij U_j.
    """
    d, U, P = len(X), X, [np.zeros_like(x) for x in X]
    while True:
        yield U
        M, new = mix(W, U), []
        for i in range(d):
            A, degree = silo(i), sum(W[i, j] for j in range(d))
            Z = A.T @ U[i] @ np.linalg.inv(U[i].T @ U[i])
            right = A @ Z - P[i] + rho * (degree * U[i] + M[i])
            new.append(right @ np.linalg.inv(Z.T @ Z + 2 * rho * degree * np.eye(Z.shape[1])))
        U, M = new, mix(W, new)
        P = [P[i] + rho * (sum(W[i, j] for j in range(d)) * U[i] - M[i]) for i in range(d)]


def normalized(Z):
    return Z / np.sqrt(np.sum(Z**2, axis=0))


def fixed(k):
    return A


def fading(k):
    return A / np.sqrt(k)


def slowly(k):
    return A / k**0.2


FIXED, FADING, SLOWLY = Constant(A), Diminishing(A, 0.5), Diminishing(A, 0.2)
once, thrice = partial(plain, t=1), partial(plain, t=3)
cheb4, fast4 = partial(chebyshev, K=4), partial(fast_mix, K=4)
CHEB4: dict[str, Any] = {"rounds": 4, "mixing": "chebyshev"}
FAST4: dict[str, Any] = {"rounds": 4, "mixing": "fastmix"}

ANY_F = {
    "destiny": (m.Destiny(BETA, FIXED), "h", partial(destiny_form, a=A)),
    "destiny-expen": (m.Destiny(BETA, FIXED, "expen"), "expen", partial(destiny_form, a=A)),
    "destiny-plam": (m.Destiny(BETA, FIXED, "plam"), "plam", partial(destiny_form, a=A)),
    "destiny-landing": (m.Destiny(BETA, FIXED, "landing"), "landing", partial(destiny_form, a=A)),
    "diging": (m.DIGing(BETA, FIXED), "h", partial(diging, a=A)),
    "drfgt": (m.DRFGT(BETA, FIXED), "landing", partial(diging, a=A)),
    "atc": (m.ATC(BETA, FIXED), "h", partial(atc_tracking, a=A)),
    "extra": (m.Extra(BETA, FIXED, "plam"), "plam", partial(extra, a=A)),
    "diffusion": (m.ExactDiffusion(BETA, FIXED), "h", partial(exact_diffusion, a=A)),
    "dgd-cta": (m.DGD(BETA, FIXED, order="combine"), "h", partial(dgd, step=fixed, order="cta")),
    "dgd-atc": (m.DGD(BETA, FIXED, order="adapt"), "h", partial(dgd, step=fixed, order="atc")),
    "dgd-cta-fading": (m.DGD(BETA, FADING, order="combine"), "h", partial(dgd, step=fading, order="cta")),
    "dgd-atc-fading": (m.DGD(BETA, FADING, order="adapt"), "h", partial(dgd, step=fading, order="atc")),
    "pg-extra": (m.PGExtra(step_size=FIXED), "rg", partial(pg_extra, a=A)),
    "drsgd": (
        m.DRSGD(step_size=FIXED, alpha=ALPHA),
        "rg",
        partial(drsgd, step=fixed, alpha=ALPHA, average=once, retract=polar),
    ),
    "drsgd-thrice-qr-fading": (
        m.DRSGD(step_size=FADING, alpha=1.0, rounds=3, retraction="qr"),
        "rg",
        partial(drsgd, step=fading, alpha=1.0, average=thrice, retract=qf),
    ),
    "drgta": (
        m.DRGTA(step_size=FIXED, alpha=ALPHA),
        "rg",
        partial(drgta, b=A, alpha=ALPHA, average=once, retract=polar),
    ),
    "drgta-thrice-qr": (
        m.DRGTA(step_size=FIXED, alpha=1.0, rounds=3, retraction="qr"),
        "rg",
        partial(drgta, b=A, alpha=1.0, average=thrice, retract=qf),
    ),
    "drgta-chebyshev": (
        m.DRGTA(step_size=FIXED, alpha=ALPHA, **CHEB4),
        "rg",
        partial(drgta, b=A, alpha=ALPHA, average=cheb4, retract=polar),
    ),
    "drgta-bb": (
        m.DRGTA(step_size=PlainBB(A), alpha=ALPHA),
        "rg",
        partial(drgta, b=A, alpha=ALPHA, average=once, retract=polar, barzilai_borwein=True),
    ),
    "dprgd": (m.DPRGD(step_size=FIXED), "rg", partial(dprgd, step=fixed, average=once)),
    "dprgd-thrice-fading": (
        m.DPRGD(step_size=FADING, rounds=3),
        "rg",
        partial(dprgd, step=fading, average=thrice),
    ),
    "dprgt": (m.DPRGT(step_size=FIXED), "rg", partial(dprgt, b=A, average=once)),
    "dprgt-thrice": (m.DPRGT(step_size=FIXED, rounds=3), "rg", partial(dprgt, b=A, average=thrice)),
    "dprgt-fastmix": (m.DPRGT(step_size=FIXED, **FAST4), "rg", partial(dprgt, b=A, average=fast4)),
}
PCA_ONLY = {
    "dsa": (m.DSA(FIXED), "sanger", partial(dgd, step=fixed, order="cta")),
    "dsa-slowly": (m.DSA(SLOWLY), "sanger", partial(dgd, step=slowly, order="cta")),
    "adsa": (m.ADSA(FIXED), "sanger", partial(extra, a=A)),
    "fast-pca": (m.FastPCA(FIXED), "krasulina", partial(fast_pca, a=A)),
    "deepca": (m.DeEPCA(), "C", partial(deepca, average=once)),
    "deepca-thrice": (m.DeEPCA(rounds=3), "C", partial(deepca, average=thrice)),
    "deepca-chebyshev": (m.DeEPCA(**CHEB4), "C", partial(deepca, average=cheb4)),
    "deepca-fastmix": (m.DeEPCA(**FAST4), "C", partial(deepca, average=fast4)),
    "admm-pca": (m.ADMMPCA(RHO), "silo", partial(admm, rho=RHO)),
}
METHODS = ANY_F | PCA_ONLY
CASES = [
    *product(ANY_F, ("pca", "olsr"), range(3)),
    *product(ANY_F, ("sdl",), (0,)),
    *product(PCA_ONLY, ("pca",), range(3)),
]
STEPS = {"drgta-bb": 8}  # Barzilai-Borwein quotients magnify rounding errors from step to step
ONE_START = ("deepca", "admm")  # rules for agents that start at one point; others may start apart
# Where a state keeps the matrices of the recursion, and what the answer X makes of them.
ITERATES = {"fast-pca": ("Z", normalized), "admm-pca": ("U", polar)}


def data_of(kind, n, p, seed):
    """Five agents of unequal sizes and spectra, some with fewer samples than features."""
    rng = np.random.default_rng(seed)
    silos = []
    for size in (3, 8, 12, 17, 30):
        B = np.diag(rng.uniform(0.2, 1, n)) @ rng.standard_normal((n, size))
        B *= rng.uniform(0.7, 1) / np.linalg.norm(B, 2)
        B *= 1.5 if kind == "sdl" else 1.0  # fourth powers of numbers below one are small
        silos.append((B, rng.standard_normal((p, size)) / np.sqrt(size)) if kind == "olsr" else B)
    return Data(kind, silos)


def problem_of(data, p):
    if data.kind == "pca":
        return destiny.problems.PCA([a.T for a in data.silos], p)
    if data.kind == "sdl":
        return destiny.problems.SDL([a.T for a in data.silos], p)
    return destiny.problems.OLSR([B.T for B, _ in data.silos], [D.T for _, D in data.silos])


@cache
def network_of(seed):
    return destiny.networks.ring(5) if seed == 2 else destiny.networks.erdos_renyi(5, prob=0.5, seed=seed)


def start_of(n, p, seed, apart):
    rng = np.random.default_rng(100 + seed)
    X = qf(rng.standard_normal((n, p)))
    return np.array([qf(X + 0.1 * apart * rng.standard_normal((n, p))) for _ in range(5)])


@pytest.mark.parametrize(("name", "kind", "seed"), CASES)
def test_iterates_are_those_of_the_published_rule(name, kind, seed):
    algorithm, held, rule = METHODS[name]
    n, p, steps, network = 10 + seed, 2 + seed % 2, STEPS.get(name, 30), network_of(seed)
    data = data_of(kind, n, p, seed)
    X = start_of(n, p, seed, apart=seed == 1 and not name.startswith(ONE_START))
    matrices = list(islice(rule(getattr(data, held), network.W.toarray(), list(X)), steps + 1))
    run = destiny.iterate(problem_of(data, p), network, algorithm, start=X)
    states = [moment.state for moment in islice(run, steps + 1)]
    where, shown = ITERATES.get(name, ("X", np.asarray))
    np.testing.assert_allclose([getattr(s, where) for s in states], matrices, atol=TOLERANCE, rtol=0)
    answers = [[shown(Z) for Z in team] for team in matrices]
    np.testing.assert_allclose([s.X for s in states], answers, atol=TOLERANCE, rtol=0)

"""The objectives, their gradients, the measures and Algorithm 1 in plain loops: independent of src."""

import numpy as np

from tests.helpers.cli_experiments import AGENTS


def sym(M):
    return (M + M.T) / 2


def euclidean(kind, silo, targets, X):
    if kind == "pca":
        return -silo @ (silo.T @ X)
    if kind == "olsr":
        return 2 * silo @ (silo.T @ X - targets.T)
    return -silo @ (silo.T @ X) ** 3


def value(kind, silo, targets, X):
    if kind == "pca":
        return -0.5 * np.sum((silo.T @ X) ** 2)
    if kind == "olsr":
        return np.sum((silo.T @ X - targets.T) ** 2)
    return -0.25 * np.sum((X.T @ silo) ** 4)


def direction(kind, silo, targets, X, beta):
    """H(X), from the gradient at X X^T X."""
    M, I = X.T @ X, np.eye(X.shape[1])
    slope = euclidean(kind, silo, targets, X @ M)
    return slope @ (3 * I - M) / 2 - X @ sym(X.T @ slope) + beta * X @ (M - I)


def metropolis(edges, agents=AGENTS):
    degree = np.bincount(np.ravel(edges), minlength=agents)
    W = np.zeros((agents, agents))
    for i, j in edges:
        W[i, j] = W[j, i] = 1 / (max(degree[i], degree[j]) + 1)
    return W + np.diag(1 - W.sum(axis=1))


def algorithm_1(kind, silos, targets, W, X0, beta, eta, steps, bb=False):
    """DESTINY, agent by agent; with ``bb`` the step sizes of Section 4.2 after the first."""
    d = len(silos)
    X = [X0.copy() for _ in range(d)]
    H = [direction(kind, silos[i], targets[i], X[i], beta) for i in range(d)]
    D, step = [h.copy() for h in H], [eta] * d
    for _ in range(steps):
        X_new = [sum(W[i, j] * (X[j] - step[j] * D[j]) for j in range(d)) for i in range(d)]
        H_new = [direction(kind, silos[i], targets[i], X_new[i], beta) for i in range(d)]
        D_new = [sum(W[i, j] * D[j] for j in range(d)) + H_new[i] - H[i] for i in range(d)]
        if bb:
            S, J = ([new[i] - old[i] for i in range(d)] for new, old in ((X_new, X), (D_new, D)))
            step = [abs(np.sum(S[i] * J[i])) / np.sum(J[i] * J[i]) for i in range(d)]
        X, H, D = X_new, H_new, D_new
    return np.array(X)


def measured(kind, silos, targets, X, X0):
    """The four numbers of a row, from the agents' iterates."""
    mean, I = X.mean(axis=0), np.eye(X.shape[2])
    U, _, Vt = np.linalg.svd(mean, full_matrices=False)

    def riemannian(Y):
        slope = np.mean([euclidean(kind, s, t, Y) for s, t in zip(silos, targets, strict=True)], axis=0)
        return np.linalg.norm(slope - Y @ sym(Y.T @ slope))

    return {
        "objective": np.mean([value(kind, s, t, U @ Vt) for s, t in zip(silos, targets, strict=True)]),
        "stationarity": riemannian(mean) / riemannian(X0),
        "consensus": np.sqrt(np.mean([np.sum((x - mean) ** 2) for x in X])),
        "feasibility": np.sqrt(np.mean([np.sum((x.T @ x - I) ** 2) for x in X])),
    }


def sine(X, Y):
    """Of the largest angle between two subspaces with orthonormal bases."""
    return np.linalg.norm(Y - X @ (X.T @ Y), 2)

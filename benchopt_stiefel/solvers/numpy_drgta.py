"""A solver from elsewhere: DRGTA (Chen, Garcia, Hong & Shahrampour, ICML 2021) in plain NumPy."""

import numpy as np

from benchmark_utils.solving import DecentralizedSolver

OPENING = 20  # rounds in which agents agree on the size of their gradients


def tangent(X, D):
    """The part of D that is tangent to the manifold at X: D - X sym(X^T D)."""
    XtD = np.swapaxes(X, 1, 2) @ D
    return D - X @ (XtD + np.swapaxes(XtD, 1, 2)) / 2


def polar(X):
    """The nearest point of the manifold."""
    U, _, Vt = np.linalg.svd(X, full_matrices=False)
    return U @ Vt


class Solver(DecentralizedSolver):
    """Gradient tracking with retractions, one round per step, constant steps."""

    name = "numpy-drgta"
    # The step is in units of 1 / the mean norm of the agents' gradients at the start.
    parameters = {"step": [0.2], "alpha": [0.5]}
    parameter_template = "step={step},alpha={alpha}"

    def steps(self, agents, X):
        """Go towards the neighbors and against the tracker Y along the manifold, then back to it."""
        size = np.linalg.norm(agents.gradient(X), 2, axis=(1, 2), keepdims=True)
        for _ in range(OPENING):
            size = agents.mix(size)
        Y = gradient = tangent(X, agents.gradient(X))
        while True:
            yield X
            WX, WY = agents.mix(X, Y)
            X = polar(X + self.alpha * tangent(X, WX) - self.step / size * tangent(X, Y))
            before, gradient = gradient, tangent(X, agents.gradient(X))
            Y = WY + gradient - before

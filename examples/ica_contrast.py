"""Brain states that come and go, found in recordings that stay in their hospitals (an ICA-like contrast).

Every hospital records the same twelve channels: five states, each active now and then, mixed with a
background that is Gaussian noise. After whitening, the states are the orthonormal directions along which the
signal is least Gaussian, and all hospitals look for them together,

    minimize  sum_i mean_t sum_j G(x_j^T z_it)   subject to   X^T X = I,   G = log cosh,

the contrast of FastICA (Hyvarinen 1999) for signals with bursts; any other smooth G will do. Only the
value is written down here; JAX differentiates it.
"""

import argparse

import numpy as np

import destiny

AGENTS, CHANNELS, STATES, SAMPLES = 6, 12, 5, 2000


def contrast(X, Z):
    import jax.numpy as jnp

    Y = jnp.abs(Z @ X)
    return jnp.mean(jnp.sum(Y + jnp.log1p(jnp.exp(-2 * Y)), axis=1))  # log(2 cosh Y) that never overflows


def recordings(rng):
    """Signals of each hospital, states included, and how they are mixed."""
    mixing = rng.standard_normal((CHANNELS, CHANNELS))
    active = rng.random((AGENTS, SAMPLES, STATES)) < 0.2
    states = active * rng.standard_normal(active.shape) / np.sqrt(0.2)
    background = rng.standard_normal((AGENTS, SAMPLES, CHANNELS - STATES))
    return np.concatenate([states, background], axis=2) @ mixing.T, states, mixing


def whitening(signals):
    """Sigma^(-1/2) of the average covariance: itself no more than an average over the hospitals."""
    covariance = np.mean([S.T @ S / len(S) for S in signals], axis=0)
    values, vectors = np.linalg.eigh(covariance)
    return vectors / np.sqrt(values) @ vectors.T


def picture(path, found, true):
    """A stretch of the states, found and true."""
    figure = destiny.plots.pyplot().Figure(figsize=(6, 3), layout="constrained")
    axis = figure.subplots()
    for k in range(STATES):
        axis.plot(true[:, k] + 8 * k, color="0.7", linewidth=3, label="true" if k == 0 else None)
        blue = destiny.plots.COLORS[0]
        axis.plot(found[:, k] + 8 * k, color=blue, linewidth=1, label="found" if k == 0 else None)
    names = [f"state {k + 1}" for k in range(STATES)]
    axis.set(xlabel="time", yticks=8 * np.arange(STATES), yticklabels=names)
    figure.legend(loc="outside upper center", ncols=2, fontsize="small")
    figure.savefig(path, dpi=150)


def main(path=None):
    rng = np.random.default_rng(0)
    signals, states, mixing = recordings(rng)
    W = whitening(signals)
    whitened = [S @ W for S in signals]
    problem = destiny.problems.custom.problem(
        contrast, data=whitened, shape=(CHANNELS, STATES), autodiff="jax"
    )
    result = destiny.solve(problem, destiny.networks.ring(AGENTS), tolerance=1e-6)
    print(result)

    # In these coordinates a perfect answer picks single states: a signed permutation, zero elsewhere.
    gain = mixing.T @ W @ result.X
    order = np.abs(gain[:STATES]).argmax(axis=1)
    leak = np.sort(np.abs(gain), axis=0)[-2] / np.abs(gain).max(axis=0)
    found = whitened[0] @ result.X[:, order] * np.sign(gain[np.arange(STATES), order])
    agreement = [np.corrcoef(found[:, k], states[0][:, k])[0, 1] for k in range(STATES)]
    print(f"correlation with the true states {np.round(agreement, 3)}, largest leak {leak.max():.3f}")
    if path:
        picture(path, found[:150], states[0][:150])
    assert result.converged
    assert sorted(order) == list(range(STATES))
    assert min(agreement) > 0.98


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--picture", metavar="FILE", help="write a picture there")
    main(parser.parse_args().picture)

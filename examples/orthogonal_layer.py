"""The orthogonal layer of a small neural network, trained where the pictures are (PyTorch).

Six banks read handwritten digits (here scikit-learn's, 8 x 8 pixels) and keep them; each has seen eight of
the ten digits only. They train one network: an orthogonal first layer X, a tanh, and a linear read-out
V that every bank solves for in closed form instead of training it (variable projection),

    minimize  sum_i  min_V ||tanh(A_i X) V - Y_i||^2 / m_i + rho ||V||^2   subject to   X^T X = I.

PyTorch differentiates through the least squares problem. Orthogonal layers neither fade nor amplify what
they pass on; they are used in recurrent networks and against adversarial inputs.
"""

import argparse

import numpy as np

import destiny

AGENTS, HIDDEN, RHO, SEEN = 6, 16, 0.003, 8


def readout(hidden, Y):
    """V, and what it makes of the hidden units."""
    import torch

    gram = hidden.T @ hidden / len(hidden) + RHO * torch.eye(hidden.shape[1], dtype=hidden.dtype)
    V = torch.linalg.solve(gram, hidden.T @ Y / len(hidden))
    return V, hidden @ V


def loss(X, A, Y):
    import torch

    V, told = readout(torch.tanh(A @ X), Y)
    return ((told - Y) ** 2).sum() / len(A) + RHO * (V**2).sum()


def banks():
    """Pictures and labels (one-hot) of each bank, and some that nobody trains with."""
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    images, codes = (images - images.mean(axis=0)) / 16, np.eye(10)[labels]
    test, train = np.arange(0, len(labels), 5), np.flatnonzero(np.arange(len(labels)) % 5)
    data = []
    for agent in range(AGENTS):
        own = train[agent::AGENTS]
        own = own[np.isin((labels[own] - agent) % 10, range(SEEN))]
        data.append((images[own], codes[own]))
    return data, (images[test], codes[test])


def accuracy(X, data, test):
    """Share of unseen pictures read correctly; the read-out is that of all banks' averaged moments."""
    hidden = [np.tanh(A @ X) for A, _ in data]
    gram = np.mean([H.T @ H / len(H) for H in hidden], axis=0) + RHO * np.eye(HIDDEN)
    cross = np.mean([H.T @ Y / len(H) for H, (_, Y) in zip(hidden, data, strict=True)], axis=0)
    told = np.tanh(test[0] @ X) @ np.linalg.solve(gram, cross)
    return float(np.mean(told.argmax(axis=1) == test[1].argmax(axis=1)))


def picture(path, X):
    """What the hidden units look for."""
    figure = destiny.plots.pyplot().Figure(figsize=(6, 2.2), layout="constrained")
    for axis, unit in zip(figure.subplots(2, HIDDEN // 2).flat, X.T, strict=True):
        axis.imshow(unit.reshape(8, 8), cmap="RdBu", vmin=-0.5, vmax=0.5)
        axis.set(xticks=[], yticks=[])
    figure.suptitle("the columns of the orthogonal layer, as pictures")
    figure.savefig(path, dpi=150)


def main(path=None):
    data, test = banks()
    problem = destiny.problems.custom.problem(loss, data=data, shape=(64, HIDDEN), autodiff="torch")
    start = destiny.stiefel.random_point(64, HIDDEN, seed=0)
    result = destiny.solve(problem, destiny.networks.ring(AGENTS), start=start, rounds=120, every=50)
    print(result)
    before, after = accuracy(start, data, test), accuracy(result.X, data, test)
    print(
        f"read correctly: {100 * before:.1f} % with a random layer, {100 * after:.1f} % with the trained one"
    )
    if path:
        picture(path, result.X)
    assert np.allclose(result.X.T @ result.X, np.eye(HIDDEN))
    assert after > 0.9
    assert after > before + 0.1


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--picture", metavar="FILE", help="write a picture there")
    main(parser.parse_args().picture)

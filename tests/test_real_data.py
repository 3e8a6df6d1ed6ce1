"""The defaults on the paper's real data: DESTINY_DATA names a folder that holds them in official formats."""

import os
from pathlib import Path

import numpy as np
import pytest
import scipy.io

import destiny

DATA = os.environ.get("DESTINY_DATA")
pytestmark = [
    pytest.mark.data,
    pytest.mark.skipif(DATA is None, reason="DESTINY_DATA is not set: the real data sets are not here"),
]


@pytest.fixture
def network():
    return destiny.networks.erdos_renyi(32, prob=0.5, seed=0)


@pytest.mark.parametrize("name", ["HA", "PL"])
def test_olsr_on_cora(name, network):
    file = scipy.io.loadmat(Path(DATA) / "cora" / f"Cora_{name}_uni.mat")
    C = file["X"].toarray()[:, :100].T.astype(float)
    D = destiny.problems.olsr.one_hot(file["Y"].ravel())
    result = destiny.solve(destiny.problems.olsr.from_data(C, D, 32), network)
    assert result.converged, result


def test_sdl_on_mnist(network):
    images = np.fromfile(Path(DATA) / "mnist" / "train-images-idx3-ubyte", dtype=np.uint8)[16:]
    B = images.reshape(60000, 784).T
    result = destiny.solve(destiny.problems.sdl.from_data(B, p=1, agents=32, scale=1 / 255), network)
    assert result.converged, result


def test_orthogonal_regression_on_cora():
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
    from sklearn.model_selection import train_test_split

    from destiny.estimators import OrthogonalRegression

    file = scipy.io.loadmat(Path(DATA) / "cora" / "Cora_HA_uni.mat")
    X, y = file["X"].tocsr()[:, :100].astype(float), file["Y"].ravel()
    train, test, known, asked = train_test_split(X, y, test_size=0.5, random_state=0)
    found = OrthogonalRegression(random_state=0).fit(train, known)
    pooled = LinearDiscriminantAnalysis().fit(train.toarray(), known)
    assert found.converged_
    assert found.score(test, asked) > pooled.score(test.toarray(), asked) - 0.05

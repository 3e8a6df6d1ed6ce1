"""The defaults on the paper's real data: DESTINY_DATA names a folder that holds them in official formats."""

import os

import numpy as np
import pytest

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
    found = destiny.datasets.cora(name)
    D = destiny.problems.olsr.one_hot(found.labels)
    result = destiny.solve(destiny.problems.olsr.from_data(found.data, D, 32), network)
    assert result.converged, result


def test_sdl_on_mnist(network):
    B = destiny.datasets.mnist().data
    result = destiny.solve(destiny.problems.sdl.from_data(B, p=1, agents=32, scale=1 / 255), network)
    assert result.converged, result


@pytest.mark.parametrize(
    ("name", "n", "m", "classes"),
    [  # sizes as in Sections 4.4 and 4.5 of the paper
        ("cora-DS", 100, 751, 9), ("cora-HA", 100, 400, 7), ("cora-PL", 100, 1575, 9),
        ("mnist", 784, 60000, 10), ("cifar10", 3072, 50000, 10), ("cifar100", 3072, 50000, 100),
    ],
)  # fmt: skip
def test_the_files_hold_what_the_paper_says(name, n, m, classes):
    found = destiny.datasets.load(name)
    assert found.data.shape == (n, m)
    assert len(np.unique(found.labels)) == classes
    if found.image is not None:  # bytes of natural images use the whole range
        assert (found.data[:, :1000].min(), found.data[:, :1000].max()) == (0, 255)


def test_orthogonal_regression_on_cora():
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
    from sklearn.model_selection import train_test_split

    from destiny.estimators import DecentralizedOLSRClassifier

    found = destiny.datasets.cora("HA")
    train, test, known, asked = train_test_split(found.data.T, found.labels, test_size=0.5, random_state=0)
    model = DecentralizedOLSRClassifier(random_state=0).fit(train, known)
    pooled = LinearDiscriminantAnalysis().fit(train, known)
    assert model.converged_
    assert model.score(test, asked) > pooled.score(test, asked) - 0.05

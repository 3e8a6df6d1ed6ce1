"""What an estimator says of a fit that did not converge is what is known of it."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.exceptions import ConvergenceWarning

import destiny
from destiny.estimators import DecentralizedPCA
from destiny.estimators.fitting import scale_ratio

RNG = np.random.default_rng(0)
TABLE = RNG.standard_normal((120, 6))


def warning(X, **options):
    settings = {"method": "destiny-accelerated", "n_agents": 12, "max_rounds": 40, "random_state": 0}
    with pytest.warns(ConvergenceWarning) as caught:
        DecentralizedPCA(n_components=2, **settings, **options).fit(X)
    return str(caught[0].message)


def test_scaling_is_advised_only_where_the_columns_differ():
    plain, stretched = warning(TABLE, network="ring"), warning(TABLE * [1, 300, 1, 1, 1, 1], network="ring")
    for text in (plain, stretched):
        assert "raise max_rounds or tol" in text
        assert " and tol is 1e-" in text
        assert "is " in text.split("and tol")[0]
        assert f"lambda is {destiny.networks.ring(12).lambda_:.3f}" in text
    assert "scale" not in plain
    assert "factor of 3e+02: scale them" in stretched


def test_scales_of_columns():
    silos = [TABLE * [1, 50, 1, 1, 1, 0] + 7, TABLE[:3] * [1, 50, 1, 1, 1, 0] + 7]
    rows = np.concatenate(silos)
    spread = rows.std(axis=0)[:5]
    assert scale_ratio(silos) == pytest.approx(spread.max() / spread.min())
    assert scale_ratio([csr_array(table) for table in silos]) == pytest.approx(scale_ratio(silos))
    assert scale_ratio([np.ones((4, 3))]) == 1.0
    assert scale_ratio([np.array([[1, 1e9, 5.1], [2, 2e9, 5.1]])]) == pytest.approx(1e9)

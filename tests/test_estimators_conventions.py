"""The conventions of scikit-learn, by its own checks, for every estimator."""

import pytest

pytest.importorskip("sklearn")

from sklearn.utils.estimator_checks import parametrize_with_checks

from destiny.estimators import DecentralizedPCA, OrthogonalRegression, SparseDictionary


@parametrize_with_checks([DecentralizedPCA(), OrthogonalRegression(), SparseDictionary(n_components=1)])
def test_scikit_learn_accepts_it(estimator, check):
    check(estimator)

"""The conventions of scikit-learn, by its own checks, for every estimator."""

import numpy as np
import pytest

pytest.importorskip("sklearn")

from sklearn.utils import estimator_checks
from sklearn.utils.estimator_checks import parametrize_with_checks

from destiny.estimators import (
    DecentralizedCCA,
    DecentralizedImputer,
    DecentralizedLDA,
    DecentralizedPCA,
    DecentralizedRidge,
    DecentralizedScaler,
    DecentralizedSparsePCA,
    OrthogonalRegression,
    SparseDictionary,
)

EQUIVALENCE = (
    "check_sample_weight_equivalence_on_dense_data",
    "check_sample_weight_equivalence_on_sparse_data",
)


def finer_tolerance(estimator):
    """A check that compares two runs to 1e-7; scikit-learn, too, gives it a tolerance of its own.

    Dense rows are left to averaged models, which end far below their tolerance.
    """
    why = "its tol is 1e-4: see the test below"
    return {EQUIVALENCE[1]: why} if isinstance(estimator, OrthogonalRegression) else {}


@pytest.mark.filterwarnings(
    "ignore:Decentralized.*takes shrinkage"
)  # some checks have more columns than rows
@parametrize_with_checks(
    [
        DecentralizedPCA(),
        DecentralizedSparsePCA(n_components=1),
        OrthogonalRegression(),
        DecentralizedLDA(),
        DecentralizedCCA(n_components=1),
        SparseDictionary(n_components=1),
        DecentralizedScaler(),
        DecentralizedImputer(),
        DecentralizedRidge(),
        DecentralizedScaler(with_mean=False),
    ],
    expected_failed_checks=finer_tolerance,
)
def test_scikit_learn_accepts_it(estimator, check):
    np.random.seed(0)  # noqa: NPY002 (random_state is None here: the same networks and starts in every run)
    check(estimator)


@pytest.mark.parametrize("check", EQUIVALENCE)
def test_weights_are_repeated_rows_to_a_finer_tolerance(check):
    getattr(estimator_checks, check)("OrthogonalRegression", OrthogonalRegression(tol=1e-12))

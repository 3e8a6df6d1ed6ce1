"""The conventions of scikit-learn, by its own checks, for every estimator."""

import numpy as np
import pytest

pytest.importorskip("sklearn")

from sklearn.utils.estimator_checks import parametrize_with_checks

from destiny.estimators import (
    DecentralizedCCA,
    DecentralizedImputer,
    DecentralizedLDA,
    DecentralizedOLSRClassifier,
    DecentralizedPCA,
    DecentralizedRidge,
    DecentralizedScaler,
    DecentralizedSparseDictionary,
    DecentralizedSparsePCA,
)


@pytest.mark.filterwarnings(
    "ignore:Decentralized.*takes shrinkage"
)  # some checks have more columns than rows
@parametrize_with_checks(
    [
        DecentralizedPCA(),
        DecentralizedSparsePCA(n_components=1),
        DecentralizedOLSRClassifier(),
        DecentralizedLDA(),
        DecentralizedCCA(n_components=1),
        DecentralizedSparseDictionary(n_components=1),
        DecentralizedScaler(),
        DecentralizedImputer(),
        DecentralizedRidge(),
        DecentralizedScaler(with_mean=False),
    ],
)
def test_scikit_learn_accepts_it(estimator, check):
    np.random.seed(0)  # noqa: NPY002 (random_state is None here: the same networks and starts in every run)
    check(estimator)

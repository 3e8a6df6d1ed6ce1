"""DecentralizedPCA with differential privacy."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA

import destiny
from destiny.estimators import DecentralizedPCA
from destiny.problems import Privacy

DIGITS = load_digits().data
ATTRIBUTES = ("components_", "explained_variance_", "mean_", "noise_variance_")


def fit(X=DIGITS, components=5, **changes):
    privacy = Privacy(
        **{"epsilon": 1.0, "delta": 1e-6, "bound": 45.0, "mean_bound": 80.0, "seed": 0, **changes}
    )
    return DecentralizedPCA(components, n_agents=4, network="complete", random_state=0, privacy=privacy).fit(
        X
    )


@pytest.mark.parametrize("components", [5, None])
def test_with_a_huge_epsilon_it_is_scikit_learns(components):
    here, there = fit(components=components, epsilon=1e12, bound=80.0), PCA(components).fit(DIGITS)
    assert here.n_samples_ == there.n_samples_
    for name in ATTRIBUTES:
        assert (
            np.allclose(getattr(here, name)[..., :5].ravel()[:5], getattr(there, name).ravel()[:5], atol=1e-3)
            if (name != "noise_variance_")
            else here.noise_variance_ == pytest.approx(there.noise_variance_, abs=1e-3)
        )


def test_the_noise_is_in_everything_that_is_told():
    here, there = fit(), PCA(5).fit(DIGITS)
    assert here.converged_
    assert here.n_samples_ != there.n_samples_
    assert here.n_samples_ == pytest.approx(there.n_samples_, rel=0.1)
    assert not np.allclose(here.mean_, there.mean_, atol=1e-2)
    assert not np.allclose(here.explained_variance_, there.explained_variance_, rtol=1e-2)
    assert here.transform(DIGITS).shape == (1797, 5)


def test_sparse_rows_and_other_types_are_the_same_rows():
    dense = fit()
    for rows in (csr_array(DIGITS), DIGITS.astype(np.float32)):
        assert np.allclose(fit(rows).components_, dense.components_, atol=1e-5)


def test_every_fit_draws_noise_unless_it_has_a_seed():
    assert np.array_equal(fit().components_, fit().components_)
    assert not np.array_equal(fit(seed=None).components_, fit(seed=None).components_)


def test_clones_and_refusals():
    model = DecentralizedPCA(2, privacy=Privacy(1, 1e-6, 1.0))
    assert clone(model).privacy == model.privacy
    with pytest.raises(destiny.SettingsError, match='"together" needs private messages'):
        fit(noise="together")
    with pytest.raises(destiny.ProblemError, match=r"privacy must be destiny.problems.Privacy\(epsilon"):
        DecentralizedPCA(2, privacy={"epsilon": 1}).fit(DIGITS)
    with pytest.raises(destiny.SettingsError, match="from 1 to n_features = 64; found 65"):
        fit(components=65)

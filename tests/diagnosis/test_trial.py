"""What the doctor says of rounds is measured by a trial, or it says that it cannot tell."""

import numpy as np
import pytest
from sklearn import datasets

import destiny
from destiny import networks, problems
from destiny.algorithms import DRGTA, DeEPCA, Destiny, DestinyAccelerated
from destiny.algorithms.blocks.step_sizes import Constant
from destiny.diagnosis import trial


def real(name, network, p, ordered=True):
    """PCA of a table of scikit-learn, its rows as they come or sorted by class."""
    table = getattr(datasets, f"load_{name}")()
    rows = (
        np.argsort(table.target, kind="stable")
        if ordered
        else np.random.default_rng(0).permutation(len(table.target))
    )
    X = table.data[rows].astype(float)
    return problems.pca.from_data(X - X.mean(axis=0), p, network.agents)


def curve(rate, steps=100, level=0.0, per_step=1):
    """A trial whose worst measure falls at a rate, down to a level."""
    k = np.arange(0, steps + 1, trial.EVERY)
    return trial.Trial(20.0 + per_step * k, np.exp(-rate * k) + level, ("consensus",) * len(k), steps)


def test_a_steady_rate_is_extrapolated_and_anything_else_is_not():
    steady = trial.prediction_from_trial(curve(0.1), None, 1e-8)
    assert steady.rounds == pytest.approx(20 + np.log(1e8) / 0.1, rel=0.01)
    assert steady.low <= steady.rounds <= steady.high == 2 * steady.rounds
    assert trial.prediction_from_trial(curve(0.1, per_step=3), None, 1e-8).per_step == 3
    for unsettled in (curve(0.01), curve(0.2, level=1e-4), curve(0.3, steps=20)):
        found = trial.prediction_from_trial(unsettled, None, 1e-8)
        assert found.rounds is None
        assert "cannot tell" in found.why
    done = trial.prediction_from_trial(curve(0.1), None, 1e-4)
    assert (done.low, done.rounds, done.high) == (110, 115, 115)  # the first measurement below
    assert trial.prediction_from_trial(curve(-1.0), None, 1e-8).outlook == "hopeless"


@pytest.mark.parametrize(
    ("name", "network", "ordered"),
    [
        ("wine", networks.ring(8), True),  # it takes 73 rounds
        ("iris", networks.ring(8), False),  # it does not converge
        ("breast_cancer", networks.star(8), True),
    ],
)
def test_power_iterations_are_predicted_within_a_factor_of_two_or_not_at_all(name, network, ordered):
    problem = real(name, network, 2, ordered)
    found = destiny.diagnose(problem, network, DeEPCA())
    result = destiny.solve(problem, network, DeEPCA(), rounds=1500)
    predicted = found.predictions["deepca"].rounds
    assert result.converged == (predicted is not None)
    if predicted is not None:
        assert predicted / 2 <= result.rounds <= 2 * predicted


def test_a_switch_is_offered_only_if_it_saves_a_third_when_run():
    """Barzilai-Borwein steps were offered here as saving half, and take more than six times as long."""
    network = networks.complete(5)
    problem = real("iris", network, 2)
    own = DestinyAccelerated()
    found = destiny.diagnose(problem, network, own)
    offers = [a for a in found.advice if a.text.startswith("kind")]
    assert offers
    for advice in offers:
        kind = advice.text.split('"')[1]
        method = destiny.algorithms.KINDS[kind]()
        before, after = (destiny.solve(problem, network, m, every=1).rounds for m in (own, method))
        assert after < before * 2 / 3
    assert not any('"destiny"' in a.text for a in offers)


def test_any_exact_method_is_tried_and_one_that_diverges_is_named():
    problem = problems.pca.synthetic(n=12, m=320, p=2, xi=0.8, agents=8, seed=1)
    network = networks.erdos_renyi(8, prob=0.6, seed=1)
    methods = {"drgta": DRGTA(), "wild": Destiny(beta=1.0, step_size=Constant(1e4))}
    found = destiny.diagnose(problem, network, methods)
    measured = destiny.solve(problem, network, DRGTA(), every=5).rounds
    assert measured / 2 <= found.predictions["drgta"].rounds <= 2 * measured
    assert found.predictions["wild"].outlook == "hopeless"

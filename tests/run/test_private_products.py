"""Runs on private products: engines, messages, checkpoints, files, estimators, refusals."""

import numpy as np
import pytest

import destiny
from destiny import diagnose
from destiny.estimators import DecentralizedPCA
from destiny.experiments import file as experiments
from destiny.extensions import asynchronous, byzantine
from destiny.problems import Privacy, centered, pca, private_products
from destiny.problems.private_products import STEPS, PrivateProductsPCA
from destiny.run.parts.private_products import AXES
from destiny.storage.checkpoint import Saved

NETWORK = destiny.networks.erdos_renyi(5, prob=0.6, seed=0)
ROWS = np.random.default_rng(0).standard_normal((4000, 60)) * np.arange(1, 61) ** -1.0 + 0.2


def hidden(center=False, **changes):
    settings = {"epsilon": 20.0, "delta": 1e-3, "bound": 2.0, "seed": 0} | changes
    problem = PrivateProductsPCA(pca.from_data(ROWS, 2, 5), Privacy(**settings))
    return centered(problem) if center else problem


@pytest.mark.parametrize("center", [False, True])
def test_same_bits_on_any_number_of_threads_and_with_private_messages(center):
    """Sums of whole numbers are exact: what is released does not depend on how they travel."""
    results = [
        destiny.solve(hidden(center), NETWORK, "averaged-krylov", engine=destiny.engines.local(k))
        for k in (1, 2, 3)
    ]
    for result in results:
        assert result.converged
        assert np.array_equal(result.agents, results[0].agents)
    problems = [hidden(center) for _ in range(2)]
    for problem, private in zip(problems, (False, True), strict=True):
        destiny.solve(problem, NETWORK, "averaged-krylov", messages="private" if private else "plain")
    one, two = (p.pooled().matrix if center else p.matrix for p in problems)
    assert np.array_equal(one.L, two.L)
    assert (one.values == two.values).all()


@pytest.mark.parametrize("method", ["averaged-model", "destiny-accelerated", "destiny", None])
def test_any_method_finds_the_axes_of_the_released_matrix(method):
    problem = hidden()
    result = destiny.solve(problem, NETWORK, method)
    assert result.converged
    best = problem.matrix.L[:, :2]
    assert np.allclose(result.X @ result.X.T, best @ best.T, atol=1e-6)
    assert result.rounds >= STEPS * 2 * NETWORK.depth
    assert result.notes[0].startswith("differentially private: epsilon = 20, delta = 0.001, rows of norm 2 (")
    assert "noise of r = " in result.notes[0]
    assert "in each of T = 4 products, with 48 vectors and then 6" in result.notes[0]


def test_noise_together_is_smaller_and_needs_private_messages():
    with pytest.raises(destiny.SettingsError, match='"together" needs private messages'):
        destiny.solve(hidden(noise="together"), NETWORK)
    exact = np.linalg.eigh(ROWS.T @ ROWS)[1][:, -2:]
    errors = []
    for noise in ("alone", "together"):
        X = destiny.solve(hidden(noise=noise, epsilon=0.5, bound=3.0), NETWORK, messages="private").X
        errors.append(np.linalg.norm(exact - X @ (X.T @ exact)))
    assert errors[1] < errors[0]


def test_explained_variance_comes_from_what_was_released():
    problem = hidden(bound=4.0, epsilon=200.0)
    destiny.solve(problem, NETWORK)
    C = ROWS.T @ ROWS / 5
    assert problem.variance(3) == pytest.approx(np.trace(C), rel=0.05)
    assert problem.variance(3) != np.trace(C)
    assert problem.matrix.values[:2].sum() == pytest.approx(np.linalg.eigvalsh(C)[-2:].sum(), rel=0.05)


# Checkpoints


@pytest.mark.parametrize("center", [False, True])
def test_a_run_goes_on_without_another_release(tmp_path, monkeypatch, center):
    def problem():
        return hidden(center, seed=None, secret=str(tmp_path / "key"))

    options = {"checkpoint": tmp_path / "run", "checkpoint_every": 10, "tolerance": 0.0}
    method = "destiny-accelerated"
    whole = destiny.solve(problem(), NETWORK, method, rounds=120, tolerance=0.0)
    destiny.solve(problem(), NETWORK, method, rounds=80, **options)
    monkeypatch.setattr(PrivateProductsPCA, "release", None)
    result = destiny.solve(problem(), NETWORK, method, rounds=120, resume=True, **options)
    assert np.array_equal(result.agents, whole.agents)
    monkeypatch.setattr(Saved, "select", lambda saved, _: without_axes(saved))
    with pytest.raises(destiny.CheckpointError, match="damaged: what private products told is missing"):
        destiny.solve(problem(), NETWORK, method, rounds=120, resume=True, **options)


def without_axes(saved):
    saved.state.pop(AXES, None)
    return saved


# Files and estimators


def test_experiment_files(tmp_path, monkeypatch):
    monkeypatch.setattr(private_products, "LARGEST_SQUARE", 24)
    path = tmp_path / "experiment.toml"
    path.write_text(
        'network = { kind = "ring" }\n[problem]\nkind = "pca"\np = 2\nagents = 4\ncenter = true\n'
        "synthetic = { n = 30, m = 900, xi = 0.5 }\n"
        "privacy = { epsilon = 50, delta = 1e-3, bound = 0.2, seed = 1 }\n"
    )
    asked = experiments.read(path)
    result = destiny.solve(asked.problem, asked.network)
    exact = pca.synthetic(n=30, m=900, p=2, xi=0.5, agents=4)
    same = centered(PrivateProductsPCA(exact, Privacy(50, 1e-3, 0.2, seed=1)))
    assert np.array_equal(result.agents, destiny.solve(same, asked.network).agents)
    assert any("T = 4 products" in note for note in result.notes)


def test_estimators(monkeypatch):
    monkeypatch.setattr(private_products, "LARGEST_SQUARE", 10)
    privacy = Privacy(50.0, 1e-6, 4.0, mean_bound=6.0, seed=0)
    model = DecentralizedPCA(
        2, n_agents=4, network="ring", method="averaged-krylov", random_state=0, privacy=privacy
    ).fit(ROWS)
    w, V = np.linalg.eigh(np.cov(ROWS.T))
    assert model.converged_
    assert np.linalg.svd(model.components_ @ V[:, -2:])[1].min() > 0.95
    assert model.explained_variance_ == pytest.approx(w[:-3:-1], rel=0.1)
    assert model.explained_variance_ratio_.sum() == pytest.approx(w[-2:].sum() / w.sum(), rel=0.1)
    assert any("T = 4 products" in note for note in model.notes_)


def test_the_doctor_looks_at_what_has_noise():
    assert diagnose(hidden(True), NETWORK, rounds=300).predictions


# Refusals


def test_what_has_no_exact_sums_is_refused():
    changing = destiny.networks.link_loss(NETWORK, 0.2, seed=0)
    with pytest.raises(destiny.SettingsError, match=r"60 columns releases sums .* need a static network"):
        destiny.solve(hidden(), changing)
    with pytest.raises(destiny.SettingsError, match="messages that are not clipped"):
        destiny.solve(hidden(), destiny.networks.complete(5), messages=byzantine.Clipped(1))
    with pytest.raises(destiny.MismatchError, match="destiny-async cannot release private products"):
        asynchronous.simulate(hidden(), NETWORK, asynchronous.World(), asynchronous.DestinyAsync())
    with pytest.raises(
        destiny.SettingsError, match=r"rounds must be at least \d+, .* release private products"
    ):
        destiny.solve(hidden(), NETWORK, rounds=5)

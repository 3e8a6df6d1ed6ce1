"""Runs on private data: engines, notes, checkpoints, files, methods that do not fit."""

import numpy as np
import pytest

import destiny
from destiny import diagnose
from destiny.algorithms import ADMMPCA, DeEPCA, FastPCA
from destiny.experiments import file as experiments
from destiny.problems import Privacy, centered, pca
from destiny.run.parts.privacy import privacy_of, require_private_messages
from tests.helpers.small_problems import small_problem

NETWORK = destiny.networks.erdos_renyi(6, prob=0.6, seed=0)


def hidden(**changes):
    settings = {"epsilon": 5.0, "delta": 1e-3, "bound": 0.2, "seed": 0} | changes
    return pca.private(small_problem("pca"), Privacy(**settings))


@pytest.mark.parametrize("center", [False, True])
def test_same_bits_on_any_number_of_threads(center):
    results = [
        destiny.solve(
            centered(hidden(epsilon=50.0)) if center else hidden(), NETWORK, engine=destiny.engines.local(k)
        )
        for k in (1, 2, 3)
    ]
    for result in results:
        assert result.converged
        assert np.array_equal(result.agents, results[0].agents)


def test_indefinite_matrices_are_solved_and_said_to_be_noise():
    """With this little data the p-th eigenvalue is noise: methods find it all the same."""
    problem = hidden(epsilon=2.0)
    total = sum(problem.second_moments(i) for i in range(6))
    assert np.linalg.eigvalsh(total)[0] < -0.1 * np.linalg.eigvalsh(total)[-1]
    best = pca.solution(problem)
    for method in (destiny.DestinyAccelerated(), destiny.Destiny(), FastPCA()):
        result = destiny.solve(problem, NETWORK, method)
        assert result.converged
        assert np.allclose(result.X @ result.X.T, best @ best.T, atol=1e-6)
        assert result.notes[0].startswith("differentially private: epsilon = 2, delta = 0.001, rows of norm")
        assert "the noise comes from seed 0, for tests" in result.notes[1]
        assert "of 3 axes have no more variance than the noise alone would give" in result.notes[2]


def test_notes_where_the_noise_is_small():
    result = destiny.solve(hidden(epsilon=1e6, bound=2.0, seed=None), NETWORK, "destiny-accelerated")
    (note,) = result.notes
    assert note.startswith("differentially private")
    assert destiny.solve(small_problem("pca"), NETWORK, "destiny-accelerated").notes == []


@pytest.mark.parametrize("method", [DeEPCA(), ADMMPCA()])
def test_methods_that_need_semidefinite_matrices_are_refused(method):
    with pytest.raises(destiny.MismatchError, match="needs positive semidefinite second moments; those of "):
        destiny.solve(centered(hidden()), NETWORK, method)


def test_noise_together_needs_private_messages():
    together = hidden(noise="together")
    with pytest.raises(destiny.SettingsError, match='"together" needs private messages'):
        destiny.solve(together, NETWORK)
    ring = destiny.networks.ring(NETWORK.agents)
    destiny.solve(together, ring, rounds=30, messages="private")
    with pytest.raises(destiny.SettingsError, match='"together" needs private messages'):
        require_private_messages(privacy_of(centered(together)), private=False)
    require_private_messages(privacy_of(centered(together)), private=True)
    require_private_messages(privacy_of(hidden()), private=False)
    require_private_messages(privacy_of(small_problem("pca")), private=False)


def test_parts_of_sums_and_pooled_problems_are_found():
    assert privacy_of(0.5 * hidden() + small_problem("pca")) == hidden().privacy
    assert privacy_of(destiny.problems.pooled(centered(hidden(epsilon=50.0)))).epsilon == 50.0
    assert privacy_of(small_problem("olsr")) is None


# Checkpoints


@pytest.mark.parametrize("center", [False, True])
def test_a_run_is_resumed_with_its_secret_only(tmp_path, center):
    def problem(**changes):
        made = hidden(**{"seed": None, "epsilon": 50.0, "secret": str(tmp_path / "key"), **changes})
        return centered(made) if center else made

    options = {"checkpoint": tmp_path / "run", "checkpoint_every": 10, "tolerance": 0.0}
    whole = destiny.solve(problem(), NETWORK, rounds=90, tolerance=0.0)
    destiny.solve(problem(), NETWORK, rounds=60, **options)
    with pytest.raises(destiny.CheckpointError, match="other noise, whose secret was not kept: give privacy"):
        destiny.solve(problem(secret=None), NETWORK, rounds=90, resume=True, **options)
    with pytest.raises(destiny.CheckpointError, match="belongs to another run: its privacy of the data is"):
        destiny.solve(problem(epsilon=40.0, secret=None), NETWORK, rounds=90, resume=True, **options)
    result = destiny.solve(problem(), NETWORK, rounds=90, resume=True, **options)
    assert np.array_equal(result.agents, whole.agents)


def test_one_object_is_resumed_without_a_file(tmp_path):
    problem = hidden(seed=None)
    options = {"checkpoint": tmp_path, "checkpoint_every": 10, "tolerance": 0.0}
    destiny.solve(problem, NETWORK, rounds=60, **options)
    again = destiny.solve(problem, NETWORK, rounds=90, resume=True, **options)
    assert np.array_equal(again.agents, destiny.solve(problem, NETWORK, rounds=90, tolerance=0.0).agents)


# Files

FILE = """
[problem]
kind = "{kind}"
p = 2
agents = 6
synthetic = {{ n = 8, m = 600, {more} }}
{privacy}
[network]
kind = "complete"
"""
PRIVACY = "privacy = { epsilon = 5, delta = 1e-3, bound = 0.2, seed = 1 }"


def read(tmp_path, privacy=PRIVACY, kind="pca", more="xi = 0.7"):
    path = tmp_path / "experiment.toml"
    path.write_text(FILE.format(kind=kind, more=more, privacy=privacy))
    return experiments.read(path)


def test_experiment_files(tmp_path):
    asked = read(tmp_path, "center = true\n" + PRIVACY)
    exact = pca.synthetic(n=8, m=600, p=2, xi=0.7, agents=6)
    same = centered(pca.private(exact, Privacy(5.0, 1e-3, 0.2, seed=1)))
    assert privacy_of(asked.problem) == Privacy(5, 1e-3, 0.2, seed=1)
    results = [destiny.solve(problem, asked.network) for problem in (asked.problem, same)]
    assert np.array_equal(*(r.agents for r in results))
    kept = read(tmp_path, "privacy = { epsilon = 5, delta = 1e-3, bound = 0.2, secret = 'noise.key' }")
    kept.problem.host([0])
    assert (tmp_path / "noise.key").exists()


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {"privacy": "privacy = { epsilon = 0, delta = 1e-3, bound = 1 }"},
            r"\[problem\] privacy: epsilon must be a number above 0, such as 1; found 0",
        ),
        (
            {"privacy": "privacy = { epsilon = 1, delta = 2.0, bound = 1 }"},
            r"\[problem\] privacy: delta must be a number between 0 and 1, well below 1 / .*; found 2.0",
        ),
        ({"privacy": "privacy = { epsilon = 1, delta = 0.1 }"}, r"\[problem\] privacy needs the key 'bound'"),
        (
            {"privacy": "privacy = { epsilon = 1, delta = 0.1, bound = '1' }"},
            r"\[problem\] privacy bound must be a number; found '1'",
        ),
        (
            {"privacy": "privacy = { epsilon = 1, delta = 0.1, bound = 1, sigma = 2 }"},
            r"\[problem\] privacy has no key 'sigma'",
        ),
        ({"privacy": "privacy = 1"}, r"\[problem\] privacy must be a table; found 1"),
        ({"kind": "olsr", "more": "noise = 0.1"}, r"\[problem\] privacy belongs to pca; found kind 'olsr'"),
        (
            {"privacy": "standardize = true\n" + PRIVACY},
            r"\[problem\] privacy goes with center, not with standardize",
        ),
    ],
)
def test_files_that_are_refused(tmp_path, changes, sentence):
    with pytest.raises(destiny.SettingsError, match=sentence):
        read(tmp_path, **changes)


def test_the_doctor_looks_at_what_has_noise():
    found = diagnose(centered(hidden(epsilon=50.0)), NETWORK, rounds=500)
    assert found.predictions

"""Centered and standardized data: scikit-learn's answers on pooled data, the same bits on every engine."""

import json
import os

import numpy as np
import pytest
from sklearn.datasets import load_iris, load_wine
from sklearn.decomposition import PCA as PooledPCA
from sklearn.preprocessing import StandardScaler

import destiny
from destiny import agents, engines
from destiny.agents import scaffold
from destiny.agents.agent import OutboxStore
from destiny.cli import run_file
from destiny.config.network import read_network
from destiny.errors import DestinyError, ProblemError, SettingsError
from destiny.experiments import file as experiment
from destiny.problems import OLSR, PCA, centered, olsr, pca
from destiny.run import averaging
from tests.helpers import ROOT
from tests.helpers.agent_party import PROBLEM, Party
from tests.helpers.mpi_launcher import MPICH, need

WINE, IRIS = load_wine().data, load_iris().data
RING = destiny.networks.ring(4)


def silos(table, *ends):
    """Tables of unequal sizes; the last agent holds none."""
    return [*np.split(table, ends), table[:0]]


@pytest.mark.parametrize(
    ("factor", "doubt"), [(1, ""), (1e5, "the tolerance does not see"), (1e9, "rounding hides")]
)
def test_axes_of_features_in_other_units_are_doubted(factor, doubt):
    """Though the agents came to rest: they rest relative to the largest variance."""
    table = IRIS * [1, 1, 1, factor]
    problem = centered(PCA(silos(table, 7, 60, 61), 2))
    result = destiny.solve(problem, destiny.networks.ring(5), "destiny-accelerated")
    assert result.converged == (not doubt)
    assert doubt in result.reason


def test_axes_of_features_in_other_units_are_not_doubted_where_they_are_right():
    table = IRIS * [1, 1, 1, 1e5]
    result = destiny.solve(centered(PCA(silos(table, 7, 60, 61), 2)), destiny.networks.ring(5))
    assert result.settings["kind"] == "averaged-model"
    assert result.converged
    assert not [note for note in result.notes if "axis" in note]
    _, pooled = np.linalg.eigh(np.cov(table[:, ::-1].T))  # the large column first: accurate
    assert destiny.stiefel.subspace_distance(result.X[::-1], pooled[:, -2:]) < 1e-9


def test_data_of_low_rank_are_not_doubted():
    table = np.column_stack([IRIS[:, :2], IRIS[:, :1] @ [[2.0, 0.5]]])
    result = destiny.solve(centered(PCA(silos(table, 7, 60, 61), 3)), destiny.networks.ring(5), "destiny")
    assert result.converged
    assert len(result.notes) == 1


def networks(agents):
    ring = destiny.networks.ring(agents)
    return {
        "fixed": ring,
        "links fail": destiny.networks.link_loss(ring, 0.3, seed=1),
        "one agent": destiny.networks.complete(1),
    }


@pytest.mark.parametrize("standardize", [False, True])
@pytest.mark.parametrize("kind", ["fixed", "links fail", "one agent"])
def test_pca_of_pooled_data(kind, standardize):
    network = networks(5)[kind]
    held = silos(IRIS, 7, 60, 61) if network.agents == 5 else [IRIS]
    result = destiny.solve(centered(PCA(held, 2), standardize), network, tolerance=1e-10)
    scaler = StandardScaler(with_std=standardize).fit(IRIS)
    pooled = PooledPCA(2).fit(scaler.transform(IRIS))
    assert result.converged
    np.testing.assert_allclose(result.mean, IRIS.mean(axis=0), rtol=1e-12)
    if standardize:
        np.testing.assert_allclose(result.scale, scaler.scale_, rtol=1e-12)
    else:
        assert result.scale is None
    signs = np.sign(np.sum(result.axes * pooled.components_.T, axis=0))
    np.testing.assert_allclose(result.axes * signs, pooled.components_.T, atol=1e-8)
    assert result.target_mean is None
    assert result.notes[0].startswith("standardized: " if standardize else "centered: the mean of 4 columns")


def test_rounds_and_scalars_of_the_averaging_are_counted():
    problem = PCA(silos(WINE, 7, 60), 2)
    result = destiny.solve(centered(problem, True), RING, rounds=80, every=0)
    rounds = averaging.rounds_to_agree(RING)
    opening = destiny.solve(problem, RING, rounds=20).history["round"][0]
    assert result.history["round"][0] == opening + 2 * rounds
    ready = destiny.solve(centered(problem, True).pooled(), RING, rounds=20).history["scalars"][0]
    assert result.history["scalars"][0] == ready + 2 * 3 * (14 + 13)  # sums and a count, then squares
    assert f"({2 * rounds} rounds)" in result.notes[0]


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_data_of_other_types_and_constant_columns(dtype):
    rng = np.random.default_rng(0)
    table = rng.integers(0, 255, (60, 6)).astype(dtype)
    table[:, 2] = 77
    problem = centered(PCA(silos(table, 5, 9), 2, scale=1 / 255), standardize=True)
    result = destiny.solve(problem, RING)
    scaler = StandardScaler().fit(table.astype(float))
    np.testing.assert_allclose(result.mean, scaler.mean_, rtol=1e-12)
    np.testing.assert_allclose(result.scale, scaler.scale_, rtol=1e-12)
    assert result.scale[2] == 1
    pooled = PooledPCA(2).fit(scaler.transform(table.astype(float)))
    assert destiny.stiefel.subspace_distance(result.X, pooled.components_.T) < 1e-6
    objective = -0.5 * 60 * np.sum(pooled.explained_variance_) * 59 / 60 / 255**2 / 4
    assert result.measures.objective == pytest.approx(objective, rel=1e-8)


@pytest.mark.parametrize("standardize", [False, True])
def test_regression_has_an_intercept(standardize):
    rng = np.random.default_rng(1)
    C = rng.standard_normal((80, 6)) * [1, 2, 3, 1, 2, 3] + [50, 0, -7, 4, 0, 9]
    Z = StandardScaler(with_std=standardize).fit_transform(C)
    planted = olsr.planted(6, 2, seed=3)
    D = Z @ planted + [4.0, -2.0]
    problem = OLSR(silos(C, 30, 45), silos(D, 30, 45))
    result = destiny.solve(centered(problem, standardize), RING, tolerance=1e-9)
    np.testing.assert_allclose(result.X, planted, atol=1e-8)
    np.testing.assert_allclose(result.target_mean, D.mean(axis=0), rtol=1e-10)
    np.testing.assert_allclose(
        (C - result.mean) / (1 if result.scale is None else result.scale), Z, atol=1e-9
    )


def test_a_small_column_beside_a_large_one_on_a_network_that_changes():
    large, agent = 1e9 + np.tile(np.arange(5.0), 4), np.repeat(np.arange(4.0), 5)
    table = np.column_stack([large, 1e-6 * (agent + np.random.default_rng(2).random(20))])
    network = destiny.networks.link_loss(RING, 0.4, seed=0)  # at once nothing changes that 1e9 would show
    result = destiny.solve(centered(PCA(np.split(table, 4), 1), True), network, rounds=400)
    scaler = StandardScaler().fit(table)
    np.testing.assert_allclose(result.mean, scaler.mean_, rtol=1e-10)
    np.testing.assert_allclose(result.scale, scaler.scale_, rtol=1e-6)


def test_averages_that_do_not_settle_are_refused(monkeypatch):
    monkeypatch.setattr(averaging, "MOST", 3)
    network = destiny.networks.link_loss(destiny.networks.path(6), 0.3, seed=0)
    with pytest.raises(DestinyError, match="still change after 3 rounds"):
        destiny.solve(centered(pca.synthetic(n=6, m=40, p=2, xi=0.7, agents=6)), network)


def test_the_pooled_problem_is_centered_too():
    problem = centered(PCA(silos(IRIS, 7, 60), 2))
    X = destiny.stiefel.random_point(4, 2, seed=0)
    center = IRIS - IRIS.mean(axis=0)
    (value,) = destiny.problems.pooled(problem).host([0]).value(X[None])
    assert value == pytest.approx(-0.5 * np.sum((center @ X) ** 2) / 4, rel=1e-12)


# Every engine


def write_experiment(folder, **lines):
    np.save(folder / "A.npy", WINE)
    table = {"kind": '"pca"', "data": '"A.npy"', "p": "2", "agents": "4", "sizes": "[8, 70, 0, 100]"} | lines
    (folder / "all.toml").write_text(
        "[problem]\n" + "\n".join(f"{key} = {value}" for key, value in table.items()) + "\n"
        '[network]\nkind = "ring"\n[stop]\nrounds = 100\ntolerance = 0\n[run]\ncheckpoint = 30\n'
        '[[algorithm]]\nkind = "destiny"\n'
    )
    return folder / "all.toml"


def solution(out):
    with np.load(out / "destiny" / "solution.npz") as file:
        return {name: file[name] for name in file.files}


def test_same_bits_on_ranks_and_threads(tmp_path):
    file = write_experiment(tmp_path, standardize="true")
    run_file.execute(experiment.read(file), engines.local(2), tmp_path / "one", False, False)
    expected = solution(tmp_path / "one")
    assert expected.keys() == {"X", "agents", "axes", "mean", "scale"}
    mpi = need(MPICH)
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    command = mpi.command(2, mpi.bin / "python", "-m", "destiny", "run", file, "--out", tmp_path / "ranks")
    job = mpi.run(command, env=mpi.environ(PYTHONPATH=path))
    assert job.code == 0, job.output
    found = solution(tmp_path / "ranks")
    for name, array in expected.items():
        assert np.array_equal(found[name], array), name
    one, ranks = (json.loads((tmp_path / out / "summary.json").read_text())[0] for out in ("one", "ranks"))
    assert [one[key] for key in ("rounds", "scalars", "notes")] == [
        ranks[key] for key in ("rounds", "scalars", "notes")
    ]
    assert "standardized: the mean of 13 columns" in one["notes"][0]


def party(folder, network=RING, **options):
    """Agents that know of the network what `destiny agents init` writes."""
    found = Party(folder, network, PROBLEM + "\nstandardize = true", **options)
    known = f"{found.stop}\nspectrum = {list(network.spectrum)}"
    for i in range(found.size):
        found.write(i, stop=known)
    return found


@pytest.mark.parametrize("algorithm", ["destiny", "destiny-accelerated"])
def test_same_bits_between_agents(algorithm, tmp_path):
    ours = party(tmp_path, algorithm=f'kind = "{algorithm}"', stop="rounds = 90\ntolerance = 0")
    outcomes = ours.go()
    ours.check()
    for outcome in outcomes:
        np.testing.assert_allclose(outcome.mean, ours.reference.mean, rtol=1e-12, atol=1e-16)
        np.testing.assert_allclose(outcome.scale, ours.reference.scale, rtol=1e-12)
        assert outcome.notes == ours.reference.notes
        assert "note: standardized" in str(outcome)
    assert np.array_equal(outcomes[0].mean, ours.reference.mean)
    # What is explained is variance: that of the standardized data.
    ready = ours.asked.problem.inner.pooled()
    assert outcomes[0].explained < 1
    total = sum(ready.variance(i) for i in range(4))
    kept = sum(np.sum(ready.rows(i).times(outcomes[0].X) ** 2) for i in range(4))
    assert outcomes[0].explained == pytest.approx(kept / total, rel=1e-10)


def test_agents_that_do_not_know_the_spectrum(tmp_path):
    ours = Party(tmp_path, RING, PROBLEM + "\ncenter = true", stop="rounds = 900\ntolerance = 1e-6")
    outcome = ours.go()[1]
    np.testing.assert_allclose(outcome.mean, ours.reference.mean, atol=1e-13)
    assert (
        destiny.stiefel.subspace_distance(outcome.X, pca.solution(ours.asked.problem.inner.pooled())) < 1e-5
    )


def test_agents_doubt_axes_of_features_in_other_units(tmp_path):
    own = 'kind = "pca"\ndata = "own.npy"\nsamples = "rows"\ncenter = true\np = 2'
    ours = Party(tmp_path, destiny.networks.path(2), own)
    for i in range(2):
        np.save(ours.home(i) / "own.npy", IRIS[i::2] * [1, 1, 1, 1e5])
    outcome = ours.go()[0]
    assert not outcome.converged
    assert "which the tolerance does not see" in outcome.reason


def test_an_agent_that_is_restarted_keeps_its_mean(tmp_path, monkeypatch):
    class CrashError(Exception):
        pass

    save, saves = OutboxStore.write, []

    def crashing(self, moment, saved):
        save(self, moment, saved)
        saves.append(self.settings.index)
        if saves.count(2) == 2 and self.settings.index == 2:
            raise CrashError

    monkeypatch.setattr(OutboxStore, "write", crashing)
    ours = party(tmp_path, stop="rounds = 90\ntolerance = 0", run="checkpoint = 5")
    others = [ours.thread(i) for i in (0, 1, 3)]
    victim = ours.thread(2)
    victim.join(60)
    assert isinstance(victim.error, CrashError)
    ours.thread(2).end()
    for other in others:
        other.end()
    ours.check()


@pytest.mark.parametrize("threads", [1, 2])
def test_resumed_runs_have_the_same_bits(threads, tmp_path):
    problem = PCA(silos(WINE, 7, 60), 2)
    options = {"tolerance": 0, "checkpoint_every": 10, "every": 0}
    whole = destiny.solve(centered(problem), RING, destiny.Destiny(), rounds=120, **options)
    options["checkpoint"] = tmp_path / "c"
    destiny.solve(centered(problem), RING, destiny.Destiny(), rounds=90, **options)
    resumed = destiny.solve(
        centered(problem),
        RING,
        destiny.Destiny(),
        rounds=120,
        resume=True,
        engine=engines.local(threads),
        **options,
    )
    assert np.array_equal(resumed.agents, whole.agents)
    assert np.array_equal(resumed.mean, whole.mean)
    assert (resumed.rounds, resumed.scalars, resumed.notes) == (whole.rounds, whole.scalars, whole.notes)


def test_a_checkpoint_of_other_centering_is_refused(tmp_path):
    problem = PCA(silos(WINE, 7, 60), 2)
    options = {"rounds": 80, "tolerance": 0, "checkpoint": tmp_path / "c", "checkpoint_every": 10}
    destiny.solve(centered(problem), RING, destiny.Destiny(), **options)
    for other in (problem, centered(problem, True)):
        with pytest.raises(DestinyError, match="centering"):
            destiny.solve(other, RING, destiny.Destiny(), **options, resume=True)


# What is said


def test_an_uncentered_answer_says_so():
    problem = PCA(np.array_split(IRIS, 3), 2)
    result = destiny.solve(problem, destiny.networks.path(3), "destiny-accelerated")
    (note,) = result.notes
    assert "their mean makes up 93 % of what the answer explains" in note
    assert "center = true" in note
    (found,) = [f for f in destiny.diagnose(problem, destiny.networks.path(3)).findings if f.text == note]
    assert (found.about, found.level) == ("data", "look")


@pytest.mark.parametrize("seed", range(4))
def test_nothing_is_said_of_data_without_a_mean(seed):
    network = destiny.networks.complete(3)
    for problem in (
        pca.synthetic(n=10, m=40, p=2, xi=0.8, agents=3, seed=seed),
        PCA(np.array_split(IRIS - IRIS.mean(axis=0), 3), 2),
        centered(PCA(np.array_split(IRIS, 3), 2)),
    ):
        result = destiny.solve(problem, network)
        assert not any("not centered" in note for note in result.notes)
    found = destiny.diagnose(problem, network)
    assert not any("not centered" in f.text for f in found.findings)
    assert any("the agents first find the mean, in 2 rounds" in f.text for f in found.findings)


# What is refused


@pytest.mark.parametrize(
    ("lines", "sentence"),
    [
        ({"kind": '"sdl"', "center": "true"}, "center and standardize belong to pca and olsr"),
        ({"standardize": "true", "center": "false"}, "standardize also subtracts the mean"),
        ({"center": '"yes"'}, "center must be true or false"),
    ],
)
def test_settings_that_make_no_sense(lines, sentence, tmp_path):
    with pytest.raises(SettingsError, match=sentence):
        experiment.read(write_experiment(tmp_path, **lines))


def test_false_is_as_if_left_out(tmp_path):
    asked = experiment.read(write_experiment(tmp_path, center="false", standardize="false"))
    assert isinstance(asked.problem.inner, PCA)


def test_refusals_in_python():
    problem = PCA(silos(WINE, 7, 60), 2)
    with pytest.raises(ProblemError, match="only PCA and OLSR can be centered; found SDL"):
        centered(destiny.problems.SDL([WINE], 2))
    with pytest.raises(ProblemError, match="not centered yet"):
        centered(problem).host([0]).gradient(np.zeros((1, 13, 2)))
    with pytest.raises(SettingsError, match="need to find the mean and to choose beta"):
        destiny.solve(centered(problem), RING, "destiny-accelerated", rounds=23)
    with pytest.raises(ProblemError, match="at least one sample"):
        destiny.solve(centered(PCA([WINE[:0]] * 4, 2)), RING)


def test_agents_must_center_alike(tmp_path):
    plain, with_mean = Party(tmp_path / "a", RING), Party(tmp_path / "b", RING, PROBLEM + "\ncenter = true")
    assert plain.settings(0).common != with_mean.settings(0).common
    with_mean.write(0, stop="spectrum = [0.5, 2.0]")
    with pytest.raises(SettingsError, match=r"\[stop\] spectrum must be two numbers"):
        with_mean.settings(0)


def test_init_writes_what_agents_need_to_center_with_the_same_bits(tmp_path):
    file = write_experiment(tmp_path, center="true", data='"silo-{agent}.npy"')
    file.write_text(file.read_text().replace("sizes = [8, 70, 0, 100]\n", ""))
    np.save(tmp_path / "data.npy", WINE)
    made = scaffold.write_agent_files(str(file), "127.0.0.1:7000", tmp_path / "party", "run-1", private=False)
    for path in made:
        np.save(path.parent / f"silo-{path.parent.name[-1]}.npy", WINE)
    scaffold.write_certificates(tmp_path / "party")
    settings = agents.read(made[0])
    assert settings.network.spectrum == read_network({"kind": "ring"}, 4, tmp_path).spectrum
    assert settings.common["problem.center"] is True

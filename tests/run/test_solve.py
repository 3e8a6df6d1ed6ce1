"""solve, iterate, checkpoints: a run is the same whether or not it was interrupted."""

import json
import os
import signal
import threading
import time

import networkx as nx
import numpy as np
import pytest

import destiny
from destiny.geometry import stiefel
from destiny.storage import checkpoint
from destiny.storage.checkpoint import flatten
from tests.helpers.small_problems import small_problem

MOMENTUM = "destiny-accelerated"  # steps of one round, more than a few of them


@pytest.fixture
def problem():
    return small_problem("pca")


@pytest.fixture
def network():
    return destiny.networks.ring(6)


def equal(a, b):
    assert (a.X == b.X).all()
    for name, array in flatten(a.state).items():
        assert (array == flatten(b.state)[name]).all(), name
    columns = [c for c in a.history.columns if c != "seconds"]
    assert [[row[c] for c in columns] for row in a.history] == [
        [row[c] for c in columns] for row in b.history
    ]
    assert (a.reason, a.steps, a.rounds, a.scalars) == (b.reason, b.steps, b.rounds, b.scalars)


@pytest.mark.parametrize("local_stopping", [False, True])
@pytest.mark.parametrize("changing", [False, True])
@pytest.mark.parametrize("cut", [37, 60])
def test_resuming_gives_the_bits_of_a_run_never_stopped(
    problem, network, tmp_path, local_stopping, changing, cut
):
    if changing:
        network = destiny.networks.link_loss(network, 0.2, seed=0)
    options = {"local_stopping": local_stopping, "tolerance": 1e-6, "every": 7}
    whole = destiny.solve(problem, network, MOMENTUM, rounds=5000, **options)
    assert whole.converged
    destiny.solve(problem, network, MOMENTUM, rounds=cut, checkpoint=tmp_path, checkpoint_every=10, **options)
    resumed = destiny.solve(
        problem,
        network,
        MOMENTUM,
        rounds=5000,
        checkpoint=tmp_path,
        resume=True,
        engine=destiny.engines.local(2),
        **options,
    )
    # The cut run measured once more, where it ended.
    extra = [row for row in resumed.history.rows if row[0] % 7 != 0 and row[0] != resumed.steps]
    for row in extra:
        resumed.history.rows.remove(row)
    equal(whole, resumed)


def test_resuming_a_finished_run_returns_the_same(problem, network, tmp_path):
    first = destiny.solve(problem, network, MOMENTUM, rounds=400, checkpoint=tmp_path)
    again = destiny.solve(problem, network, MOMENTUM, rounds=400, checkpoint=tmp_path, resume=True)
    equal(first, again)


def test_resuming_where_there_is_nothing_starts_anew(problem, network, tmp_path):
    result = destiny.solve(problem, network, MOMENTUM, rounds=50, checkpoint=tmp_path, resume=True)
    assert result.rounds == 50


def test_two_checkpoints_are_kept_and_a_damaged_one_is_passed_over(problem, network, tmp_path):
    options = {"checkpoint": tmp_path, "checkpoint_every": 10, "tolerance": 0.0}
    destiny.solve(problem, network, MOMENTUM, rounds=75, **options)
    older, newer = sorted(tmp_path.iterdir())
    whole = destiny.solve(problem, network, MOMENTUM, rounds=150, tolerance=0.0)
    newer.write_bytes(newer.read_bytes()[:-200])
    resumed = destiny.solve(problem, network, MOMENTUM, rounds=150, resume=True, **options)
    assert (resumed.X == whole.X).all()
    assert any("damaged" in note and newer.name in note for note in resumed.notes)
    assert older.name < newer.name


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "text", "pickle"])
def test_a_damaged_checkpoint_is_refused_in_a_sentence(problem, network, tmp_path, damage):
    result = destiny.solve(problem, network, MOMENTUM, rounds=60, checkpoint=tmp_path, checkpoint_every=1000)
    (path,) = tmp_path.iterdir()
    content = bytearray(path.read_bytes())
    if damage == "flipped":  # one bit of the last entry of X
        content[content.index(result.agents.tobytes()) + result.agents.nbytes - 1] ^= 1
    path.write_bytes(
        {"cut": content[:1000], "flipped": content, "empty": b"", "text": b"hello", "pickle": b"\x80\x04N."}[
            damage
        ]
    )
    with pytest.raises(destiny.CheckpointError, match=r"no checkpoint in .* can be read"):
        destiny.solve(problem, network, MOMENTUM, rounds=90, checkpoint=tmp_path, resume=True)


def test_a_foreign_checkpoint_is_refused_naming_the_difference(problem, network, tmp_path):
    destiny.solve(problem, network, MOMENTUM, rounds=60, checkpoint=tmp_path)
    options = {"rounds": 90, "checkpoint": tmp_path, "resume": True}
    with pytest.raises(destiny.CheckpointError, match="its settings is"):
        destiny.solve(problem, network, destiny.Destiny(beta=1.0), **options)
    with pytest.raises(destiny.CheckpointError, match="its network is"):
        destiny.solve(problem, destiny.networks.star(6), MOMENTUM, **options)
    with pytest.raises(destiny.CheckpointError, match="its shape is"):
        destiny.solve(small_problem("pca", agents=5), destiny.networks.ring(5), MOMENTUM, **options)
    with pytest.raises(destiny.CheckpointError, match="other data"):
        destiny.solve(small_problem("pca", seed=1), network, MOMENTUM, **options)


def test_a_broken_tracking_invariant_is_refused(problem, network, tmp_path):
    destiny.solve(problem, network, MOMENTUM, rounds=60, checkpoint=tmp_path, checkpoint_every=1000)
    (path,) = tmp_path.iterdir()
    saved = checkpoint.load(path)
    saved.state["D"] = saved.state["D"] + 1e-3
    checkpoint.save(tmp_path, saved)
    with pytest.raises(destiny.CheckpointError, match=r"mean\(D\) and mean\(H\) differ"):
        destiny.solve(problem, network, MOMENTUM, rounds=90, checkpoint=tmp_path, resume=True)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_run_with_a_checkpoint(problem, network, tmp_path, number, handler):
    before = handler(number)
    timer = threading.Timer(0.3, os.kill, (os.getpid(), number))
    timer.start()
    started = time.perf_counter()
    stopped = destiny.solve(
        problem,
        network,
        MOMENTUM,
        rounds=10**9,
        tolerance=0.0,
        checkpoint=tmp_path,
        checkpoint_every=0,
        every=0,
    )
    assert time.perf_counter() - started < 20
    assert stopped.interrupted == number.name
    assert not stopped.converged
    assert number.name in stopped.reason
    assert signal.getsignal(number) is before
    assert before.received == [number]
    steps = stopped.steps + 25
    whole = destiny.solve(problem, network, MOMENTUM, rounds=20 + steps, tolerance=0.0, every=0)
    resumed = destiny.solve(
        problem,
        network,
        MOMENTUM,
        rounds=20 + steps,
        tolerance=0.0,
        checkpoint=tmp_path,
        resume=True,
        every=0,
    )
    assert (whole.X == resumed.X).all()
    assert whole.steps == resumed.steps == steps


def test_checkpoints_hold_no_pickle_and_leave_nothing_behind(problem, network, tmp_path):
    destiny.solve(problem, network, MOMENTUM, rounds=60, checkpoint=tmp_path / "deep" / "folder")
    (path,) = (tmp_path / "deep" / "folder").iterdir()
    with np.load(path, allow_pickle=False) as file:
        assert all(file[name].dtype != object for name in file.files)
        facts = json.loads(file["facts"].tobytes())
    assert facts["step"] == 40


def test_an_unwritable_checkpoint_folder_is_a_sentence(problem, network, tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(destiny.SettingsError, match="checkpoint must be a folder"):
        destiny.solve(problem, network, MOMENTUM, rounds=60, checkpoint=tmp_path / "file")
    with pytest.raises(destiny.CheckpointError, match="could not write"):
        destiny.solve(problem, network, MOMENTUM, rounds=60, checkpoint=tmp_path / "file" / "below")


def test_checkpoints_of_another_run_are_not_lost(problem, network, tmp_path):
    destiny.solve(problem, network, MOMENTUM, rounds=60, checkpoint=tmp_path)
    with pytest.raises(destiny.SettingsError, match="holds another run"):
        destiny.solve(small_problem("olsr"), network, MOMENTUM, rounds=60, checkpoint=tmp_path)


def test_a_run_from_an_earlier_answer_is_done_at_once(problem, network):
    first = destiny.solve(problem, network)
    again = destiny.solve(problem, network, start=first.X)
    assert again.converged
    assert again.steps == 0
    assert any("stationary already" in note for note in again.notes)


def test_measuring_more_or_less_often_changes_nothing(problem, network):
    often, rarely = (destiny.solve(problem, network, MOMENTUM, rounds=100, every=k) for k in (1, 0))
    assert (often.X == rarely.X).all()
    assert len(often.history) == 81
    assert len(rarely.history) == 2
    assert often.history["step"][0] == rarely.history["step"][0] == 0


def test_a_diverging_run_says_so(problem, network):
    result = destiny.solve(
        problem, network, destiny.Destiny(beta=1.0, step_size=destiny.steps.Constant(50.0)), rounds=500
    )
    assert not result.converged
    assert result.reason.startswith("diverged")
    assert str(result).startswith("diverged")
    assert json.dumps(result.summary(), allow_nan=False)


def test_result_prints_plots_and_is_orthonormal(problem, network, tmp_path):
    result = destiny.solve(problem, network)
    assert stiefel.violation(result.X) < 1e-13
    assert str(result).splitlines()[0] == result.reason
    result.plot(tmp_path / "run.png")
    assert (tmp_path / "run.png").read_bytes().startswith(b"\x89PNG")


def test_measures_at_the_end_are_those_of_the_definition(problem, network):
    result = destiny.solve(problem, network, MOMENTUM, rounds=60)
    X, mean = result.agents, result.agents.mean(axis=0)
    C = sum(silo @ silo.T for silo in pca_silos(problem)) / 6

    def riemannian(Y):
        return -C @ Y + Y @ (Y.T @ C @ Y)

    X0 = stiefel.random_point(12, 3, seed=0)
    expected = np.linalg.norm(riemannian(mean)) / np.linalg.norm(riemannian(X0))
    np.testing.assert_allclose(result.measures.stationarity, expected, rtol=1e-8)
    spread = np.sqrt(np.mean([np.sum((x - mean) ** 2) for x in X]))
    np.testing.assert_allclose(result.measures.consensus, spread)
    off = np.sqrt(np.mean([np.sum((x.T @ x - np.eye(3)) ** 2) for x in X]))
    np.testing.assert_allclose(result.measures.feasibility, off)
    answer = np.linalg.svd(mean, full_matrices=False)
    Q = answer[0] @ answer[2]
    np.testing.assert_allclose(result.measures.objective, -0.5 * np.trace(Q.T @ C @ Q))


def pca_silos(problem):
    hosted = problem.host(range(6))
    eye = np.stack([np.eye(12)[:, k : k + 3] for k in range(0, 12, 3)])
    # C_i column by column from the gradient: -C_i X at unit matrices
    blocks = [-hosted.gradient(np.repeat(E[None], 6, axis=0)) for E in eye]
    C = np.concatenate(blocks, axis=2)
    return [np.linalg.cholesky(c + 1e-15 * np.eye(12)) for c in C]


def test_merit_function_decreases_for_small_steps(problem, network):
    from destiny.run import metrics

    merits = []
    for moment in destiny.iterate(problem, network, destiny.Destiny(0.5, destiny.steps.Constant(0.02))):
        merits.append(metrics.merit(moment.team, moment.X, moment.state.D, beta=0.5, rho=1e-3))
        if moment.step == 200:
            break
    assert np.diff(merits).max() <= 1e-12
    assert merits[-1] < merits[0] - 1e-3


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"start": np.eye(11)[:, :3]}, r"start must be 12 x 3 \(or 6 x 12 x 3\); found shape \(11, 3\)"),
        ({"start": np.full((12, 3), np.nan)}, "start must be finite"),
        ({"start": 2 * np.eye(12)[:, :3]}, "start must be near the manifold"),
        ({"every": -1}, "every must be a whole number"),
        ({"rounds": "many"}, "rounds must be a whole number"),
        ({"resume": True}, "resume needs a checkpoint folder"),
    ],
)
def test_arguments_are_checked(problem, network, options, sentence):
    with pytest.raises(destiny.SettingsError, match=sentence):
        destiny.solve(problem, network, MOMENTUM, **options)


def test_problem_and_network_must_fit(problem):
    with pytest.raises(destiny.SettingsError, match="the problem has 6 agents but the network has 5"):
        destiny.solve(problem, destiny.networks.ring(5))


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (lambda p, n: (np.zeros(3), n), "problem must be one of destiny.problems"),
        (lambda p, n: (p, 6), r"network must be one of destiny.networks; found 6: .* networks.ring\(6\)"),
        (lambda p, n: (p, "ring"), r"found 'ring': take networks.build\('ring', agents\)"),
        (lambda p, n: (p, nx.cycle_graph(6)), r"found a graph: take networks.from_graph\(graph\)"),
        (lambda p, n: (p, np.eye(6)), r"found an array: take networks.from_weights\(W\) for a mixing .* W$"),
        (lambda p, n: (n, p), "problem must be one of destiny.problems"),
        (lambda p, n: (p, n, destiny.Destiny), "algorithm must be an object"),
        (lambda p, n: (p, n, 7), "algorithm must be an object"),
        (lambda p, n: (p, n, "newton"), "algorithm must be a method of .*averaged-model.*; found 'newton'"),
    ],
)
def test_what_is_not_a_problem_network_or_algorithm_is_named(problem, network, arguments, sentence):
    with pytest.raises(destiny.DestinyError, match=sentence):
        destiny.solve(*arguments(problem, network))


def test_numbers_of_numpy_are_numbers(problem, network, tmp_path):
    algorithm = destiny.Destiny(beta=np.float32(0.05), step_size=destiny.steps.PlainBB(np.float64(1.0)))
    result = destiny.solve(
        problem,
        network,
        algorithm,
        rounds=np.int64(40),
        every=np.int32(7),
        checkpoint=tmp_path,
        tolerance=np.float32(1e-6),
    )
    assert json.loads(json.dumps(result.summary()))["settings"]["beta"] == np.float32(0.05)


def test_any_list_of_objectives_with_value_and_gradient_is_a_problem():
    class Far:
        """Distance to a private point."""

        def __init__(self, point):
            self.point = point

        def value(self, X):
            return float(np.sum((X - self.point) ** 2))

        def gradient(self, X):
            return 2 * (X - self.point)

    points = [stiefel.random_point(7, 2, seed=k) for k in range(5)]
    objectives = [Far(point) for point in points]
    result = destiny.solve(objectives, destiny.networks.ring(5), start=points[0], rounds=5000)
    assert result.converged, result
    # min sum ||X - P_i||^2 over St is the polar factor of the mean (or a stationary point of it).
    mean = np.mean(points, axis=0)
    np.testing.assert_allclose(result.X, stiefel.polar(mean), atol=1e-5)


def test_a_picture_of_no_known_kind_is_refused(problem, network, tmp_path):
    result = destiny.solve(problem, network, rounds=60)
    with pytest.raises(destiny.DestinyError, match=r"cannot draw into .*x.xyz: .*xyz"):
        result.plot(tmp_path / "x.xyz")

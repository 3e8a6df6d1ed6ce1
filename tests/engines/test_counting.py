"""Gradients and values are counted where rounds are: by the engine, the same for every method and engine."""

import csv
import json

import numpy as np
import pytest

import destiny
from destiny.algorithms import KINDS, DeEPCA, Destiny, DestinyAccelerated
from destiny.engines import Local
from destiny.experiments import result_folder
from destiny.experiments.paper import reproduce
from destiny.report.html.tables import methods as report_table
from destiny.report.sources.folder import read
from destiny.run.history import COLUMNS, UNCOUNTED
from destiny.storage import npz
from tests.helpers.small_problems import small_problem


class Counting:
    """A linear objective that counts its own evaluations."""

    def __init__(self, slope):
        self.slope, self.gradients, self.values = slope, 0, 0

    def value(self, X):
        self.values += 1
        return float(np.sum(self.slope * X))

    def gradient(self, X):
        self.gradients += 1
        return self.slope


@pytest.mark.parametrize("kind", ["destiny", "destiny-accelerated", "dgd", "drgta"])
def test_the_count_is_that_of_every_agents_own_evaluations(kind):
    objectives = [Counting(np.ones((4, 2)) * i) for i in range(1, 5)]
    start = destiny.stiefel.random_point(4, 2)
    moments = destiny.iterate(objectives, destiny.networks.ring(4), KINDS[kind](), start=start)
    for moment in moments:
        assert {o.gradients for o in objectives} == {moment.traffic.gradients}
        if moment.step == 60:
            break
    assert moment.traffic.gradients >= 60


def test_line_searches_count_their_values():
    objective = Counting(np.ones((4, 2)))
    start = destiny.stiefel.random_point(4, 2)
    moments = destiny.iterate([objective], destiny.networks.complete(1), KINDS["wen-yin"](), start=start)
    traffic = next(m for m in moments if m.step == 5).traffic
    assert (objective.gradients, objective.values) == (traffic.gradients, traffic.values)
    assert traffic.values > 5


@pytest.mark.parametrize("method", [DestinyAccelerated(), Destiny()])
def test_the_count_does_not_depend_on_the_number_of_threads(method):
    problem, network = small_problem("pca"), destiny.networks.ring(6)
    one, three = (destiny.solve(problem, network, method, rounds=90, engine=Local(threads=t)) for t in (1, 3))
    assert (one.gradients, one.values) == (three.gradients, three.values)
    assert one.gradients >= one.steps


def test_mini_batches_are_counted_apart():
    rng = np.random.default_rng(0)
    data = [rng.standard_normal((20, 5)) for _ in range(4)]
    problem = destiny.problems.custom.problem(
        value=lambda X, A: -0.5 * np.sum((A @ X) ** 2),
        gradient=lambda X, A: -A.T @ (A @ X),
        data=data,
        shape=(5, 2),
        batch=5,
        reduction="sum",
    )
    network = destiny.networks.complete(4)
    found = destiny.compare(problem, network, [KINDS["dprgd"]()], rounds=60)
    (stochastic,) = found.results.values()
    assert stochastic.minibatches >= stochastic.steps > stochastic.gradients
    assert "batches" in str(found)
    assert f"{stochastic.minibatches} of mini-batches" in str(stochastic)


def test_compare_history_summary_and_report_have_the_count(tmp_path):
    problem, network = small_problem("pca"), destiny.networks.ring(6)
    found = destiny.compare(problem, network, [DeEPCA(), DestinyAccelerated()], rounds=60)
    power = found.results["deepca"]
    assert power.gradients == power.steps == 60  # one each
    assert "gradients" in str(found)
    assert "batches" not in str(found)
    assert power.summary()["gradients"] == 60
    assert power.history["gradients"].tolist() == power.history["step"].tolist()
    for k in (1, 2):
        result_folder.write(tmp_path, dict(list(found.results.items())[:k]))
    result_folder.describe(tmp_path, problem, network, found.results)
    with (tmp_path / "deepca" / "history.csv").open() as file:
        assert list(csv.DictReader(file))[-1]["gradients"] == "60"
    assert "gradients" in str(report_table(read(tmp_path)))
    summary = json.loads((tmp_path / "summary.json").read_text())
    for entry in summary:  # as an older version wrote it
        for name in ("gradients", "minibatches", "values"):
            del entry[name]
    (tmp_path / "summary.json").write_text(json.dumps(summary))
    file = tmp_path / "deepca" / "history.csv"
    lines = [line.split(",")[:UNCOUNTED] for line in file.read_text().splitlines()]
    file.write_text("\n".join(map(",".join, lines)) + "\n")
    old = read(tmp_path)
    assert all(run.history is not None for run in old.runs)
    assert "gradients" in str(report_table(old))
    assert len(reproduce._history(tmp_path, "deepca")) == len(power.history)


def solve(folder, rounds, resume=False):
    return destiny.solve(
        small_problem("pca"),
        destiny.networks.ring(6),
        Destiny(),
        rounds=rounds,
        checkpoint=folder,
        checkpoint_every=20,
        resume=resume,
        tolerance=0,
    )


def test_a_resumed_run_counts_on(tmp_path):
    whole = solve(tmp_path / "a", 120)
    solve(tmp_path / "b", 70)
    resumed = solve(tmp_path / "b", 120, resume=True)
    assert resumed.gradients == whole.gradients
    assert resumed.history["gradients"].tolist() == whole.history["gradients"].tolist()


def test_a_checkpoint_without_a_count_is_accepted_and_the_result_says_so(tmp_path):
    solve(tmp_path, 70)
    for path in tmp_path.glob("checkpoint-*.npz"):
        arrays, facts = npz.read(path, (), ())
        facts = {k: v for k, v in facts.items() if k not in ("gradients", "minibatches", "values", "format")}
        arrays["array/history"] = arrays["array/history"][:, :UNCOUNTED]
        npz.write({path: (arrays, facts)})
    resumed = solve(tmp_path, 120, resume=True)
    assert any("gradients are counted from step" in note for note in resumed.notes)
    assert resumed.steps == 100
    assert resumed.history.columns == COLUMNS
    assert np.isnan(resumed.history["gradients"][0])
    resumed.history.to_csv(tmp_path / "history.csv")
    assert len(destiny.History.from_csv(tmp_path / "history.csv")) == len(resumed.history)

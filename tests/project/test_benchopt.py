"""The files of the public benchmark, with a stand-in for benchopt, which `make benchopt` runs for good."""

import importlib.util
import itertools
import sys
import types

import numpy as np
import pytest

import destiny
from tests.helpers import ROOT

HERE = ROOT / "benchopt_stiefel"
FILES = sorted(path for path in HERE.rglob("*.py") if path.parent.name in {"solvers", "datasets", "plots"})
SMALL = {"n": 20, "m": 160, "p": 2, "xi": 0.6, "agents": 8}


class StoppingCriterion:
    def __init__(self, strategy=None, key_to_monitor=None, minimize=True, **kwargs):
        self.kwargs = kwargs


@pytest.fixture
def load(monkeypatch):
    """Import a file as benchopt does: its folder is on the path."""
    names = ("BaseDataset", "BaseObjective", "BasePlot", "BaseSolver")
    benchopt, criteria = types.ModuleType("benchopt"), types.ModuleType("benchopt.stopping_criterion")
    vars(benchopt).update({name: type(name, (), {}) for name in names})
    vars(criteria).update({"StoppingCriterion": StoppingCriterion})
    monkeypatch.setitem(sys.modules, "benchopt", benchopt)
    monkeypatch.setitem(sys.modules, "benchopt.stopping_criterion", criteria)
    monkeypatch.syspath_prepend(HERE)

    def import_file(path):
        spec = importlib.util.spec_from_file_location(f"benchopt_{path.stem}", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    yield import_file
    for name in [name for name in sys.modules if name.split(".")[0] == "benchmark_utils"]:
        del sys.modules[name]


def make(cls, **parameters):
    """An instance with its parameters as attributes."""
    made = cls()
    vars(made).update(parameters)
    return made


@pytest.fixture
def objective(load):
    """PCA on a star, as the objective knows it."""
    made = make(load(HERE / "objective.py").Objective, network="star", seed=0)
    data = make(load(HERE / "datasets" / "synthetic_pca.py").Dataset, **SMALL, seed=0).get_data()
    assert made.skip(**data) == (False, None)
    made.set_data(**data)
    return made


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_files_hold_what_benchopt_looks_for(load, path):
    kind = {"solvers": "Solver", "datasets": "Dataset", "plots": "Plot"}[path.parent.name]
    assert isinstance(getattr(load(path), kind).name, str)


def test_results_are_measured_and_counted_as_by_solve(load, objective):
    solver = make(load(HERE / "solvers" / "destiny.py").Solver, kind="drgta")
    given = objective.get_objective()
    assert solver.skip(**given) == (False, None)
    solver.set_objective(**given)
    calls = itertools.count()
    solver.run(lambda: next(calls) < 50)
    found = objective.evaluate_result(**solver.get_result())
    options = {"start": given["start"], "rounds": solver.moment.round}
    result = destiny.solve(given["problem"], given["network"], "drgta", tolerance=0.0, **options)
    assert (found["rounds"], found["megabytes"]) == (result.rounds, 8e-6 * result.scalars)
    for name in ("stationarity", "consensus", "feasibility"):
        np.testing.assert_allclose(found[name], getattr(result.measures, name), rtol=1e-6, atol=1e-14)


@pytest.mark.parametrize("name", ["numpy_drgta", "numpy_deepca"])
def test_solvers_from_elsewhere_find_the_principal_subspace(load, objective, name):
    solver = make(load(HERE / "solvers" / f"{name}.py").Solver, step=0.2, alpha=0.5)
    given = objective.get_objective()
    solver.set_objective(**given)
    calls = itertools.count()
    solver.run(400 if name == "numpy_deepca" else lambda: next(calls) < 2400)
    found = objective.evaluate_result(**solver.get_result())
    assert found["value"] < 1e-7
    answer = solver.get_result()["X"].mean(axis=0)
    exact = destiny.problems.pca.solution(given["problem"])
    assert destiny.stiefel.subspace_distance(answer, exact) < 1e-6


def test_methods_that_do_not_fit_are_skipped_with_the_reason(load, objective):
    solver = make(load(HERE / "solvers" / "destiny.py").Solver, kind="deepca")
    given = objective.get_objective()
    sparse = given | {"problem": given["problem"] + destiny.problems.L1(0.01)}
    skipped, reason = solver.skip(**sparse)
    assert skipped
    assert "DeEPCA needs a smooth objective" in reason


def test_data_that_are_not_there_are_skipped_with_the_reason(load, monkeypatch, tmp_path):
    monkeypatch.setenv("DESTINY_DATA", str(tmp_path))
    data = make(load(HERE / "datasets" / "cora_olsr.py").Dataset, part="DS", agents=4).get_data()
    skipped, reason = make(load(HERE / "objective.py").Objective).skip(**data)
    assert skipped
    assert "Cora_DS_uni.mat" in reason


def test_one_matrix_for_all_agents_is_refused(objective):
    with pytest.raises(ValueError, match=r"stack of all iterates \(8, 20, 2\); found \(20, 2\)"):
        objective.evaluate_result(X=np.eye(20, 2), rounds=1, scalars=1)

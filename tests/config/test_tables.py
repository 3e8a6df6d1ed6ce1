"""What reads files: one sentence for a mistake, keys that extensions add, methods from other packages."""

from dataclasses import FrozenInstanceError

import pytest

import destiny
from destiny.agents import agent_file
from destiny.config import kinds, tables
from destiny.config.algorithm import read_algorithm
from destiny.config.files import Agent, ExperimentFile, ExperimentRun
from destiny.config.problem import ExperimentProblem
from destiny.config.toml_text import to_toml
from destiny.experiments import file
from tests.helpers.cli_experiments import settings, synthetic_problem

PLUGIN = '''
from dataclasses import dataclass

import destiny


@dataclass(frozen=True)
class Patient(destiny.Destiny):
    """DESTINY under another name."""

    patience_: int = 3
    kind = "patient"


def function():
    """No method."""
'''


@pytest.fixture
def plugin(tmp_path, monkeypatch):
    (tmp_path / "their_methods.py").write_text(PLUGIN)
    monkeypatch.syspath_prepend(tmp_path)


def asked(**changes):
    return settings(problem=synthetic_problem(), **changes)


def test_a_method_of_another_package_is_named_by_its_module(plugin, tmp_path):
    kind = "their_methods:Patient"
    tables = asked(
        algorithm=[{"kind": kind, "label": "theirs", "patience": 5, "beta": 2}, {"kind": "destiny"}]
    )
    theirs = file.make(tables, tmp_path, "e.toml").algorithms["theirs"]
    assert (type(theirs).__name__, theirs.patience_, theirs.beta) == ("Patient", 5, 2.0)
    problem = destiny.problems.pca.synthetic(n=8, m=50, p=2, xi=0.9, agents=4, seed=0)
    results = [
        destiny.solve(problem, destiny.networks.ring(4), method, rounds=50)
        for method in (theirs, destiny.Destiny(beta=2.0))
    ]
    assert (results[0].X == results[1].X).all()


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        ("their_methods:Impatient", "cannot be imported: module 'their_methods' has no attribute"),
        ("no_such_module:Method", "cannot be imported: No module named 'no_such_module'"),
        ("their_methods:function", "must be a dataclass of settings"),
        ("their_methods", "must be one of destiny, .* or package.module:Class; found 'their_methods'"),
        (":Method", "must be one of destiny"),
        ("destny", "did you mean 'destiny'"),
    ],
)
def test_a_method_that_is_not_there_is_refused(plugin, kind, told):
    with pytest.raises(destiny.SettingsError, match=told):
        read_algorithm({"kind": kind}, "[algorithm]")


def test_a_mistake_in_the_settings_of_another_package_is_named(plugin):
    with pytest.raises(destiny.SettingsError, match=r"patience must be a whole number; found 'x'"):
        read_algorithm({"kind": "their_methods:Patient", "patience": "x"}, "[algorithm]")


def test_the_file_the_key_and_what_was_expected_are_told():
    for changes, told in {
        "run": "e.toml [run] every must be a whole number of at least 0; found 'often' "
        "(measure every so many steps)",
        "stop": "e.toml [stop] has no key 'max_iter'; did you mean 'rounds'?; it takes rounds, seconds, "
        "tolerance, local-stopping",
        "problem": "e.toml [problem] agents must be a whole number of at least 1; found 0 (how many parties "
        "there are)",
        "start": "e.toml start must be a table; found 3 (where all agents begin)",
    }.items():
        wrong = {"run": {"every": "often"}, "stop": {"max_iter": 3}, "problem": {"agents": 0}, "start": 3}
        with pytest.raises(destiny.SettingsError) as caught:
            tables.read(ExperimentFile, settings(**{changes: wrong[changes]}), "e.toml", tables=True)
        assert str(caught.value) == told


@pytest.mark.parametrize("key", ["a` - at `$.zz", "x`", "- at `$.problem`", "\n", "é"])
def test_a_key_of_odd_letters_is_a_mistake_like_any_other(key):
    with pytest.raises(destiny.SettingsError, match="has no key") as caught:
        tables.read(ExperimentFile, settings() | {key: 1}, "e.toml", tables=True)
    assert repr(key) in str(caught.value)
    assert "\n" not in str(caught.value)
    with pytest.raises(destiny.SettingsError, match="has no key"):
        tables.read(ExperimentRun, {key: 1}, "[run]")


def test_what_is_read_is_typed_and_frozen():
    read = tables.read(ExperimentFile, settings(), "e.toml", tables=True)
    assert isinstance(read, ExperimentFile)
    assert isinstance(read.problem, ExperimentProblem)
    assert read.run.every == 10
    assert type(read.stop.tolerance) is float
    with pytest.raises((AttributeError, FrozenInstanceError)):
        read.run.every = 3


def test_an_extension_adds_keys_and_tables(monkeypatch):
    monkeypatch.setattr(tables, "_ADDED", {kind: dict(keys) for kind, keys in tables._ADDED.items()})
    with pytest.raises(destiny.SettingsError, match=r"\[run\] has no key 'echo'"):
        tables.read(ExperimentFile, settings(run={"echo": 3}), "e.toml", tables=True)
    tables.add_key(ExperimentRun, "echo", int | None, "how often to say it")
    tables.add_key(ExperimentFile, "relay", kinds.fields_table(destiny.Quantized) | None, "who passes it on")
    read = tables.read(ExperimentFile, settings(run={"echo": 3}, relay={"bits": 8}), "e.toml", tables=True)
    assert (read.run.echo, read.relay.bits, read.run.every) == (3, 8, 10)
    assert tables.read(ExperimentFile, settings(), "e.toml", tables=True).run.echo is None
    assert tables.meanings(ExperimentFile)["run"]["echo"] == "how often to say it"
    assert "echo = 3                          # how often to say it" in to_toml(
        {"run": {"echo": 3}}, ExperimentFile
    )


def test_asynchronous_keys_come_from_their_own_room():
    """The classes of agent files do not know them."""
    assert not {"late", "removal"} & set(Agent.__struct_fields__)
    assert agent_file.schema()["definitions"]["Agent"]["properties"].keys() >= {"late", "removal"}

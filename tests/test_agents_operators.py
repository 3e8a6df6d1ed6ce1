"""What operators of agents rely on: settings are compared, exit codes, messages, modes of files."""

import inspect
import json
import re

import numpy as np
import pytest

import destiny
from destiny import agents, experiment
from destiny.agents import settings
from tests.agent_party import Party

PAIR = destiny.networks.path(2)
FEW = "rounds = 60\ntolerance = 0"
SDL = 'kind = "sdl"\ndata = "data.npy"\np = 3'


def with_data(party):
    """The same party with a file of data at every agent."""
    rng = np.random.default_rng(1)
    for i in range(party.size):
        np.save(party.home(i) / "data.npy", rng.standard_normal((6, 30)))
    return party


# Settings that are compared


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ("scale = 10.0", "problem.scale is 10 at agent-1, 1 there"),
        ('precision = "float32"', 'problem.precision is "float32" at agent-1, "auto" there'),
    ],
)
def test_agents_with_another_problem_refuse_each_other(lines, words, tmp_path):
    party = with_data(Party(tmp_path, PAIR, problem=SDL, stop=FEW, deadline=1))
    party.write(1, problem=f"{SDL}\n{lines}")
    running = [party.thread(i) for i in range(2)]
    for one in running:
        with pytest.raises(destiny.SettingsError, match=re.escape(words)) as caught:
            one.end()
        assert caught.value.code == 2


NO_DEFAULT = {"kind", "p", "agents", "dataset", "synthetic"}  # `synthetic` has the defaults of its generator


@pytest.mark.parametrize("key", experiment.PROBLEM)
def test_every_key_of_the_problem_is_compared_unless_it_is_local(key):
    known = NO_DEFAULT | settings.LOCAL | set(experiment.DEFAULTS)
    assert key in known, "write its default into DEFAULTS: a default written out is no difference"
    table = settings.shared_problem({"kind": "pca", "p": 2, key: "pca" if key == "kind" else {}})
    assert (key in table) == (key not in settings.LOCAL)


@pytest.mark.parametrize("kind", experiment.PROBLEMS)
def test_a_default_that_is_written_out_is_no_difference(kind):
    plain = {"kind": kind, "p": 2, "data": "mine.npy"}
    full = {**plain, **experiment.DEFAULTS, "data": "other.npy", "samples": "rows"}
    assert settings.shared_problem(plain) == settings.shared_problem(full)
    for key, default in experiment.DEFAULTS.items():  # those of the files are those of the problems
        parameter = inspect.signature(experiment.PROBLEMS[kind]).parameters.get(key)
        assert parameter is None or parameter.default == default
    given = {"n": 5, "m": 9} | ({"xi": 0.5} if kind == "pca" else {})
    made = [{**plain, "synthetic": {**given, **more}} for more in ({}, {"seed": 0}, {"seed": 1})]
    first, same, other = map(settings.shared_problem, made)
    assert first == same != other


def test_a_whole_number_and_the_same_number_with_a_point_agree(tmp_path):
    party = with_data(Party(tmp_path, PAIR, problem=f"{SDL}\nscale = 10"))
    party.write(1, problem=f'{SDL}\nscale = 10.0\nsamples = "columns"')
    assert party.settings(0).hello.digest == party.settings(1).hello.digest


def test_a_hello_has_room_for_long_lists(tmp_path, monkeypatch):
    monkeypatch.setitem(experiment.PROBLEM, "labels", list)
    party = with_data(Party(tmp_path, PAIR, problem=f"{SDL}\nlabels = {json.dumps(['a name'] * 2000)}"))
    assert len(party.settings(0).hello.pack()) < 4096
    assert agents.read(party.home(0) / "agent.toml").common["problem.labels"].startswith("sha256 ")

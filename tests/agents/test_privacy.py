"""Agents with private data: the bits of one process, the same noise after a restart, refusals."""

from __future__ import annotations

import hashlib
import os

import numpy as np
import pytest

import destiny
from destiny import agents
from destiny.agents.agent import OutboxStore
from destiny.agents.process import AgentProcess
from tests.helpers.agent_party import PATIENCE, Party

PROBLEM = """kind = "pca"
p = 2
synthetic = { n = 6, m = 900, xi = 0.6 }
"""
PRIVACY = "privacy = { epsilon = 5, delta = 1e-3, bound = 0.1 }\n"
SEEDED = "privacy = { epsilon = 50, delta = 1e-3, bound = 0.1, seed = 3 }\n"
NETWORK = destiny.networks.ring(3)
FIXED = "rounds = 90\ntolerance = 0"


class Crash(BaseException):
    """Ends an agent's thread like a lost machine would end its process."""


@pytest.mark.parametrize("more", ["", "center = true\n"])
def test_the_bits_of_a_run_in_one_process(tmp_path, more):
    party = Party(tmp_path, NETWORK, problem=PROBLEM + SEEDED + more, whole='[network]\nkind = "ring"')
    outcomes = party.go()
    party.check(outcomes)
    for outcome in outcomes:
        assert any(note.startswith("differentially private: epsilon = 50") for note in outcome.notes)
        assert any("the noise comes from seed 3" in note for note in outcome.notes)


@pytest.mark.parametrize("messages", ["private = false", "private = true"])
@pytest.mark.parametrize("more", ["", "center = true\n"])
def test_private_products_have_the_bits_of_a_run_in_one_process(tmp_path, monkeypatch, messages, more):
    """Many columns: noise on products, of each agent alone in plain messages and together in private ones."""
    monkeypatch.setattr(destiny.problems.private_products, "LARGEST_SQUARE", 24)
    together = "private = true" in messages
    noise = 'seed = 3, noise = "together"' if together else "seed = 3"
    party = Party(
        tmp_path,
        NETWORK,
        problem=PROBLEM.replace("n = 6", "n = 30") + SEEDED.replace("seed = 3", noise) + more,
        algorithm='kind = "averaged-krylov"',
        whole="" if together else '[network]\nkind = "ring"',
        messages=messages,
    )
    outcomes = party.go()
    party.check(outcomes)
    for outcome in outcomes:
        assert any("T = 4 products, with 30 vectors and then 6" in note for note in outcome.notes)
        assert 0 < outcome.explained < 1


@pytest.mark.parametrize(("n", "more"), [(6, ""), (6, "center = true\n"), (30, "center = true\n")])
def test_a_restarted_agent_has_the_same_noise(tmp_path, monkeypatch, n, more):
    """It is lost before its first checkpoint and after it: all bits are those of a run without loss.

    With 30 columns noise is on products.
    """
    monkeypatch.setattr(destiny.problems.private_products, "LARGEST_SQUARE", 24)
    problem = PROBLEM.replace("n = 6", f"n = {n}") + PRIVACY.replace("5", "50") + more
    whole, party = (
        Party(tmp_path / name, NETWORK, problem=problem, stop=FIXED) for name in ("whole", "again")
    )
    secrets = [[p.out(i) / "checkpoints" / "noise.key" for i in range(3)] for p in (whole, party)]
    for path in (path for each in secrets for path in each):
        path.parent.mkdir(mode=0o700, parents=True)
        path.write_text(hashlib.sha256(path.parents[2].name.encode()).hexdigest() + "\n")
        path.chmod(0o600)
    whole.go()
    due, lost = OutboxStore.due, [10, 25]

    def lose(self, step, fresh, stop, signal):
        if self.settings.index == 1 and lost and step == lost[0]:
            lost.pop(0)
            raise Crash
        return due(self, step, fresh, stop, signal)

    monkeypatch.setattr(OutboxStore, "due", lose)
    others = [party.thread(i) for i in (0, 2)]
    for _ in range(2):
        one = party.thread(1)
        one.join(PATIENCE)
        assert isinstance(one.error, Crash), one.error
    for one in (party.thread(1), *others):
        one.end()
    for i in range(3):
        assert not any(each[i].exists() for each in secrets), "the run is over"
        before, after = (np.load(p.out(i) / "solution.npz")["own"] for p in (whole, party))
        assert np.array_equal(before, after)


def test_the_keys_of_a_run_are_erased_when_it_is_over(tmp_path, monkeypatch):
    """Who finds them later could read recorded messages; a second name of each file shows what is left."""
    party = Party(
        tmp_path,
        NETWORK,
        problem=PROBLEM + PRIVACY,
        stop=FIXED,
        messages="private = true",
        algorithm='kind = "averaged-model"',
    )
    serve = AgentProcess.serve_until_neighbors_done
    names, kept = ("noise.key", "private-sums.key"), []

    def keep(self, outcome):
        for path in (self.checkpoints.folder / name for name in names):
            os.link(path, tmp_path / f"{self.settings.name}-{path.name}")
            kept.append(path.stat().st_size)
        return serve(self, outcome)

    monkeypatch.setattr(AgentProcess, "serve_until_neighbors_done", keep)
    before = party.go()
    monkeypatch.undo()
    assert min(kept) >= 32
    for i in range(3):
        for name in names:
            assert not (party.out(i) / "checkpoints" / name).exists()
            assert set((tmp_path / f"agent-{i}-{name}").read_bytes()) == {0}
    after = party.thread(1).end()  # started again, it has its answer and needs no keys
    assert np.array_equal(after.X, before[1].X)
    assert not any((party.out(1) / "checkpoints" / name).exists() for name in names)


def test_other_data_in_the_same_run_are_refused(tmp_path):
    """Two answers with one secret would cost the budget twice."""
    party = Party(tmp_path, NETWORK, problem=PROBLEM + PRIVACY)
    for i, changes in ((0, {}), (1, {"problem": PROBLEM.replace("900", "901") + PRIVACY})):
        party.write(i, **changes)
    folder = party.out(0) / "checkpoints"
    folder.mkdir(parents=True)
    party.settings(0).problem.host([0])
    party.write(0, problem=PROBLEM.replace("900", "901") + PRIVACY)
    with pytest.raises(destiny.ProblemError, match="would cost their budget again"):
        party.settings(0).problem.host([0])


def test_settings_are_compared_but_no_secret_is(tmp_path):
    party = Party(tmp_path, NETWORK, problem=PROBLEM + PRIVACY)
    common = party.settings(0).common
    found = {name: value for name, value in common.items() if "privacy" in name}
    assert found == {
        "problem.privacy.epsilon": 5,
        "problem.privacy.delta": 1e-3,
        "problem.privacy.bound": 0.1,
        "problem.privacy.noise": "alone",
        "problem.privacy.mean-bound": 0.1,
        "problem.privacy.mean-share": 0.1,
        "problem.privacy.seed": None,
    }
    party.write(1, problem=PROBLEM + PRIVACY.replace("5", "6"))
    assert party.settings(1).common != common


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ('secret = "x"', "has no key 'secret' here: agents keep it beside their checkpoints"),
        ('noise = "together"', '"together" needs private messages'),
    ],
)
def test_files_that_are_refused(tmp_path, more, sentence):
    party = Party(tmp_path, NETWORK, problem=PROBLEM + PRIVACY.replace(" }", f", {more} }}"))
    with pytest.raises(destiny.SettingsError, match=sentence):
        agents.read(party.home(0) / "agent.toml")

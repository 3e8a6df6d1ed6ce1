"""What an agent that knows the network can solve for, from all that it receives.

Rounds of `mix` are linear: many sums over the neighbours determine what everybody had at first, though no
single one does. So whatever is only averaged is averaged by totals (`destiny.engines.totals`), whose masks
cancel in nothing less than the total over all agents.
"""

from __future__ import annotations

import numpy as np
import pytest

import destiny
from destiny.engines import fixed_point
from tests.helpers.masked_total import MaskedTotal
from tests.helpers.small_problems import agents_of, small_problem

NETWORK = destiny.networks.erdos_renyi(6, prob=0.5, seed=0)
ATTACKER = 0
WIDTH = 400


def numbers(seed=0):
    return np.random.default_rng(seed).standard_normal((NETWORK.agents, WIDTH))


def test_rounds_of_mixing_are_solved_for_what_everybody_had(monkeypatch):
    """The attack that totals are made against: sums alone do not hide what is averaged in many rounds."""
    heard = []
    in_clear = fixed_point.sum_in_clear

    def spy(*args):
        sums = in_clear(*args)
        heard.append(sums[ATTACKER].copy())
        return sums

    monkeypatch.setattr(fixed_point, "sum_in_clear", spy)
    agents = agents_of(small_problem("pca", NETWORK.agents), NETWORK)
    agents.sum_privately(NETWORK.diameter)
    A = numbers()
    agents.mix(A, rounds=20)
    W = NETWORK.W.toarray()
    others = np.arange(NETWORK.agents) != ATTACKER
    from_neighbours = np.where(others, W[ATTACKER], 0.0)
    rows = np.array([from_neighbours @ np.linalg.matrix_power(W, k) for k in range(len(heard))])
    known = rows[:, [ATTACKER]] * A[ATTACKER]
    found = np.linalg.lstsq(rows[:, others], np.array(heard) - known)[0]
    assert np.abs(found - A[others]).max() < 1e-6


def test_masks_of_links_cancel_in_the_total(monkeypatch):
    A = numbers()
    record = MaskedTotal(monkeypatch, NETWORK, A)
    assert (record.means == record.means[:1]).all()
    assert np.abs(record.means[0] - A.mean(axis=0)).max() < 1e-14


@pytest.mark.parametrize("victim", range(1, NETWORK.agents))
def test_one_agent_learns_nothing_of_another(monkeypatch, victim):
    A = numbers()
    found = MaskedTotal(monkeypatch, NETWORK, A).strip(victim, [ATTACKER])
    assert abs(np.corrcoef(found, A[victim])[0, 1]) < 0.2, "four standard deviations of chance"
    assert np.linalg.norm(found - A[victim]) > 0.9 * np.linalg.norm(A[victim]), "no better than to guess zero"


def test_all_neighbours_together_learn_what_an_agent_has_and_all_but_one_do_not(monkeypatch):
    A = numbers()
    record = MaskedTotal(monkeypatch, NETWORK, A)
    victim = 1
    neighbours = list(record.masks[victim].pairs)
    assert len(neighbours) >= 2
    assert np.abs(record.strip(victim, neighbours) - A[victim]).max() < 1e-12
    for honest in neighbours:
        found = record.strip(victim, [j for j in neighbours if j != honest])
        assert abs(np.corrcoef(found, A[victim])[0, 1]) < 0.2


def test_what_an_agent_sends_is_uniform_and_different_every_time(monkeypatch):
    """Chi-square over the values of bytes, of zeros: 255 degrees of freedom."""
    zeros = np.zeros_like(numbers())
    sent = np.concatenate([MaskedTotal(monkeypatch, NETWORK, zeros).words_of(1) for _ in range(5)])
    counts = np.bincount(sent.view(np.uint8), minlength=256)
    expected = sent.nbytes / 256
    chi_square = float(((counts - expected) ** 2 / expected).sum())
    assert 150 < chi_square < 390  # 1 in a million by chance
    assert len(np.unique(sent)) == len(sent)

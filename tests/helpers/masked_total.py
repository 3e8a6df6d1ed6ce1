"""One masked total of agents that each live alone, and everything that each of them sends."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
from destiny.agents.privacy.masks import ALL, Masks, RunKey

from destiny.engines import Local, fixed_point
from destiny.engines.hosted import HostedAgents
from tests.helpers.small_problems import small_problem


def link_masks(network):
    """The masks of every agent's links, as key rings make them."""
    keys = [RunKey.new() for _ in range(network.agents)]
    W = network.W.toarray()
    return [
        Masks(
            i,
            {j: keys[i].pair(keys[j].public, "run", ALL, i, int(j)) for j in np.flatnonzero(W[i]) if j != i},
        )
        for i in range(network.agents)
    ]


class MaskedTotal:
    """The total of ``A (agents, width)`` over a network.

    Attributes
    ----------
    means : ndarray (agents, width)
        What every agent has in the end.
    sent : list of list of list of ndarray
        By agent, the blocks that it has told its neighbours in each round.
    """

    def __init__(self, monkeypatch, network, A):
        self.network, self.width = network, A.shape[1]
        self.masks, self.sent = link_masks(network), [[] for _ in A]
        tell = HostedAgents.tell

        def spy(agents, *blocks):
            self.sent[agents.ids[0]].append([block[0].copy() for block in blocks])
            return tell(agents, *blocks)

        with monkeypatch.context() as patch:
            patch.setattr(HostedAgents, "tell", spy)
            team = Local(network.agents).connect(small_problem("pca", network.agents), network)
            self.means = np.concatenate(team.each(self._mean, team.split(A)))
            team.close()

    def _mean(self, part, agents):
        def mask_links(words, round, exponents):
            self.round, self.exponents = round, exponents
            self.masks[agents.ids[0]].add_to(words, round, 0, exponents)

        agents.sum_privately(self.network.diameter)
        agents.masked = SimpleNamespace(mask_links=mask_links)
        return agents.exact_mean(part)[0]

    def words_of(self, agent):
        """What an agent sends first on the way up: its own numbers under masks."""
        high, low = np.split(self.sent[agent][self.network.diameter][0].astype(np.uint64), 2)
        return (high << np.uint64(32)) | low

    def strip(self, agent, coalition):
        """The same as numbers, without the masks that some other agents know: of their links with it."""
        words = self.words_of(agent)
        for j in coalition:
            if agent in self.masks[j].pairs:
                Masks(j, {agent: self.masks[j].pairs[agent]}).add_to(words, self.round, 0, self.exponents)
        spare = math.ceil(math.log2(self.network.agents))
        unit = fixed_point.layout((self.width,)).unit(self.exponents + spare)
        return fixed_point.decode(words.view(np.int64), unit)

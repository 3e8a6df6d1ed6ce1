"""Asynchronous agents in one process, with every event in the hands of a test."""

from __future__ import annotations

import numpy as np

import destiny
from destiny.extensions.asynchronous.destiny_async import DestinyAsync
from destiny.extensions.asynchronous.local_agent import HostedAgent


class AsyncAgents:
    """The states of all agents, the messages on their way, and what has been sent so far.

    With ``ahead`` an agent computes the gradient of its next wake as soon as it has sent; ``woken`` has the
    states before that.
    """

    def __init__(self, problem, network, algorithm=None, seed=0, ahead=False):
        W = network.at(0)
        self.W = W.toarray()
        self.agents = [HostedAgent(i, problem.host([i]), W) for i in range(network.agents)]
        self.algorithm = (algorithm or DestinyAsync()).on(network)
        X = destiny.stiefel.random_point(*problem.shape, seed=seed)
        self.states = [self.algorithm.start(X, agent) for agent in self.agents]
        self.ahead, self.woken = ahead, list(self.states)
        self.inboxes = [[] for _ in self.agents]
        self.lives = [0] * len(self.agents)

    @property
    def X(self):
        return np.stack([s.X for s in self.states])

    def wake(self, i):
        """Wake one agent with what has arrived; return its message."""
        state, message = self.algorithm.wake(self.states[i], self.inboxes[i], self.agents[i])
        self.woken[i] = state
        self.states[i] = self.algorithm.compute(state, self.agents[i]) if self.ahead else state
        self.inboxes[i] = []
        return message

    def deliver(self, message, to):
        self.inboxes[to].append(message)

    def lockstep(self):
        """All wake once and hear everything."""
        messages = [self.wake(i) for i in range(len(self.agents))]
        for i, message in enumerate(messages):
            for j in self.agents[i].neighbors:
                self.deliver(message, j)

    def restart(self, i, state):
        self.lives[i] += 1
        self.states[i] = self.algorithm.restart(state, self.lives[i])
        self.inboxes[i] = []

    def chaos(self, rng, events, loss=0.1, double=0.1, late=0.3, rollback=0.0, speeds=None):
        """Random events: who wakes, which messages are lost, doubled, late (hence reordered), who falls back.

        Yields the agent of each wake.
        """
        d = len(self.agents)
        share = np.ones(d) if speeds is None else np.asarray(speeds, float)
        pending, kept = [], list(self.states)
        for _ in range(events):
            i = int(rng.choice(d, p=share / share.sum()))
            if rng.random() < rollback:
                self.restart(i, kept[i])
            if rng.random() < 0.02:
                kept[i] = self.states[i]
            message = self.wake(i)
            pending += [(j, message) for j in self.agents[i].neighbors if rng.random() >= loss]
            rng.shuffle(pending)
            later = []
            for j, sent in pending:
                if rng.random() < late:
                    later.append((j, sent))
                    continue
                self.deliver(sent, j)
                if rng.random() < double:
                    later.append((j, sent))
            pending = later
            yield i


def measures(problem, X):
    """Stationarity at the mean relative to the start 0, consensus and feasibility of ``X (d, n, p)``."""
    mean = X.mean(axis=0)
    hosted = problem.host(range(problem.agents))
    g = hosted.gradient(np.repeat(mean[None], problem.agents, axis=0)).mean(axis=0)
    slope = np.linalg.norm(destiny.stiefel.tangent(mean, g))
    return slope, np.abs(X - mean).max(), destiny.stiefel.violation(X).max()

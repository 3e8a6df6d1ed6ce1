"""The socket of messages: a kind of one's own is two classes, and every engine, run and checkpoint takes
it."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pytest

import destiny
from destiny import networks as nets
from destiny.engines.mixers.plain import Messages, Mixer, as_messages, from_keys, separate
from destiny.errors import NetworkError, SettingsError
from destiny.extensions import byzantine
from tests.helpers.small_problems import small_problem

METHOD = "destiny-accelerated"
CHECKS: list[str] = []


class LargestMixer(Mixer):
    """Sends the largest entries of what has changed since the last message, and keeps what it has sent."""

    def __init__(self, count):
        self.count, self.sent = count, {}

    def begin(self, arrays: Mapping):
        self.sent = {name: np.array(a) for name, a in arrays.items() if name.startswith("largest/")}

    def mix(self, links, blocks):
        mixed = []
        for k, block in enumerate(blocks):
            name = f"largest/{k}/{block.shape[1]}"
            before = self.sent.get(name, np.zeros((len(block), 2, block.shape[1])))
            change = block - before[:, 0]
            least = np.sort(np.abs(change), axis=1)[:, -min(self.count, change.shape[1])][:, None]
            change[np.abs(change) < least] = 0.0
            mixed.append((name, before, change))
        numbers = sum(min(2 * self.count, block.shape[1]) for block in blocks)  # entries and their places
        widths = [block.shape[1] for block in blocks]
        heard = separate(links.swap([change for *_, change in mixed], numbers, 8 * numbers), widths)
        results = []
        for block, (name, before, change), received in zip(blocks, mixed, heard, strict=True):
            self.sent[name] = before + np.stack([change, links.rows @ received], axis=1)
            results.append(block + self.sent[name][:, 1] - self.sent[name][:, 0])
        return results

    def arrays(self):
        return dict(self.sent)


@dataclass(frozen=True)
class Largest(Messages):
    count: int = 12

    def check(self, network, method):
        CHECKS.append(method.kind)
        super().check(network, method)

    def obstacle(self, network):
        return "the largest entries need a static network" if network.changes else None

    def mixer(self, hosted, agents):
        return LargestMixer(self.count)

    def __str__(self):
        return f"the {self.count} largest entries"


def solved(rounds=400, **options):
    return destiny.solve(
        small_problem("pca"), nets.complete(6), METHOD, rounds=rounds, messages=Largest(), **options
    )


def test_a_mixer_of_ones_own_runs_on_any_number_of_threads_and_is_counted():
    one, three = (solved(engine=destiny.engines.local(threads), tolerance=1e-6) for threads in (1, 3))
    plain = destiny.solve(small_problem("pca"), nets.complete(6), METHOD, rounds=400, tolerance=1e-6)
    assert one.converged
    assert (one.agents == three.agents).all()
    assert one.bytes / one.rounds < 0.8 * plain.bytes / plain.rounds
    assert "the 12 largest entries" in str(one)


def test_what_it_keeps_is_in_checkpoints(tmp_path):
    whole = solved(rounds=60, tolerance=0.0)
    solved(rounds=30, tolerance=0.0, checkpoint=tmp_path)
    resumed = solved(rounds=60, tolerance=0.0, checkpoint=tmp_path, resume=True)
    assert (resumed.agents == whole.agents).all()
    with pytest.raises(
        destiny.CheckpointError, match="its messages is the 12 largest entries, this run's is plain"
    ):
        destiny.solve(
            small_problem("pca"), nets.complete(6), METHOD, rounds=90, checkpoint=tmp_path, resume=True
        )


def test_it_is_checked_once():
    CHECKS.clear()
    solved(rounds=30)
    assert CHECKS == [METHOD]
    with pytest.raises(NetworkError, match="the largest entries need a static network"):
        destiny.solve(small_problem("pca"), nets.link_loss(nets.ring(6), 0.2), METHOD, messages=Largest())


def test_keys_of_files_ask_for_one_kind():
    assert from_keys({}) == from_keys({"private": False, "bits": 64, "clip": 0}) == as_messages("plain")
    assert from_keys({"private": True}) == as_messages("private")
    assert from_keys({"bits": 16}) == destiny.Quantized(16)
    assert from_keys({"clip": 2}) == byzantine.Clipped(2)
    with pytest.raises(SettingsError, match=r"found 'privat'; did you mean 'private'\?"):
        as_messages("privat")

"""Networks as they are: slow, lossy, cut for a while. Agents on hosts of their own find the same bits."""

import threading
import time

import pytest

import destiny
from tests.helpers.agent_party import Party, wait_for
from tests.helpers.rough_lines import Lines, why_not

REASON = why_not()
pytestmark = pytest.mark.skipif(REASON is not None, reason=f"no hosts to test with: {REASON}")


def party_on(lines, folder, network, **options):
    return Party(folder, network, hosts=lines.addresses, **options)


def start_all(party, lines):
    return [party.thread(i, lines.spaces[i]) for i in range(party.size)]


def finish(party, running):
    for one in running:
        one.end()
    party.check()


def test_a_delay_of_50_ms(tmp_path):
    with Lines(3, delay=0.05) as lines:
        party = party_on(lines, tmp_path, destiny.networks.complete(3), stop="rounds = 40\ntolerance = 0")
        began = time.monotonic()
        finish(party, start_all(party, lines))
        assert time.monotonic() - began > 40 * 0.05, "the line did not delay anything"


def test_a_loss_of_5_percent(tmp_path):
    with Lines(3, delay=0.005, loss=0.05) as lines:
        party = party_on(lines, tmp_path, destiny.networks.path(3), stop="rounds = 60\ntolerance = 0")
        finish(party, start_all(party, lines))
        assert lines.lost > 10


def test_a_partition_that_heals_and_a_link_down_for_10_seconds(tmp_path):
    with Lines(4, delay=0.001) as lines:
        options = {"stop": "rounds = 700\ntolerance = 0", "run": "checkpoint = 10"}
        party = party_on(lines, tmp_path, destiny.networks.ring(4), **options)
        running = start_all(party, lines)
        wait_for(lambda: any(s >= 20 for s in party.steps(0)))
        lines.cut((1, 2), (0, 3))
        threading.Event().wait(3)
        before = max(party.steps(0))
        lines.cut()
        wait_for(lambda: max(party.steps(0)) >= before + 50)
        lines.cut((0, 1))
        threading.Event().wait(10)
        stuck = max(party.steps(0))
        assert stuck < 680, "the run was over before the link came back"
        lines.cut()
        finish(party, running)

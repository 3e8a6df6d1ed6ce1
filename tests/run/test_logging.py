"""The package logs through standard logging, and says nothing unless asked."""

import json
import logging
import subprocess
import sys

import destiny
from destiny.agents.event_log import EventLog
from tests.helpers.small_problems import small_problem


def test_a_run_logs_its_start_checkpoints_resumption_and_end(tmp_path, caplog):
    problem, network = small_problem("pca"), destiny.networks.ring(6)

    def solve(rounds, **options):
        return destiny.solve(
            problem,
            network,
            "destiny-accelerated",
            rounds=rounds,
            checkpoint=tmp_path,
            checkpoint_every=5,
            **options,
        )

    with caplog.at_level(logging.DEBUG, logger="destiny"):
        solve(60)
        solve(90, resume=True)
    told = [(r.levelname, r.getMessage()) for r in caplog.records]
    assert {r.name.split(".")[0] for r in caplog.records} == {"destiny"}
    text = " | ".join(f"{level} {message}" for level, message in told)
    assert "INFO destiny-accelerated: start, 6 agents" in text
    assert "engine Local" in text
    assert "INFO checkpoint of step" in text
    assert "INFO destiny-accelerated: resumed from step" in text
    assert "INFO destiny-accelerated: end after" in text
    assert "spectrum" in next(m for level, m in told if level == "DEBUG")  # what the network says of itself


def test_nothing_is_shown_unless_logging_is_set_up():
    script = "import destiny; p = destiny.problems.pca.synthetic(6, 40, 1, 0.5, agents=4); "
    script += "destiny.solve(p, destiny.networks.ring(4), rounds=60)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout + done.stderr == ""


def test_an_agents_events_reach_logging_on_one_line(caplog):
    event_log = EventLog("north", loud=False)
    with caplog.at_level(logging.INFO, logger="destiny"):
        event_log.record("connected", peer="south")
        event_log.report("refused", "so\nuth", "so\nuth is unknown")
    first, second = caplog.records
    assert (first.levelname, second.levelname) == ("INFO", "WARNING")
    assert "\n" not in second.getMessage()
    assert json.loads(second.getMessage().removeprefix("north: "))["event"] == "refused"

"""The unit of systemd and the file for containers say what the commands do."""

import configparser
import re
import shlex
import shutil
import subprocess
import sys
import tomllib

import pytest
from typer.main import get_command

from destiny.agents.transport.event_loop import Absent, RunEnded, StoppedBySignal
from destiny.cli import app
from destiny.cli.agent import NOT_CONVERGED
from destiny.errors import DestinyError
from tests.helpers import ROOT

UNIT = ROOT / "deploy" / "destiny-agent@.service"
CONTAINER = (ROOT / "deploy" / "Containerfile").read_text(encoding="utf-8")


def service():
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    parser.optionxform = str
    parser.read(UNIT, encoding="utf-8")
    return parser["Service"]


def parse(words):
    """The options of `destiny agent`, as the command line reads them."""
    command = get_command(app).commands[words[0]]
    return command.make_context(words[0], list(words[1:])).params


def test_what_restarting_does_not_mend_is_not_restarted():
    codes = {int(code) for code in service()["RestartPreventExitStatus"].split()}
    assert codes == {RunEnded.code, DestinyError.code, NOT_CONVERGED}
    assert Absent.code not in codes
    assert int(service()["SuccessExitStatus"]) == StoppedBySignal("SIGTERM", "").code


def test_both_start_an_agent_of_the_folder_they_are_in():
    program, *words = shlex.split(service()["ExecStart"])
    assert program == "/opt/destiny/bin/destiny"
    (start,) = re.findall(r"^CMD \[(.*)\]$", CONTAINER, re.MULTILINE)
    assert [word.strip(' "') for word in start.split(",")] == words
    found = parse(words)
    assert (str(found["file"]), found["quiet"]) == ("agent.toml", True)
    assert f'ENTRYPOINT ["{program}"]' in CONTAINER


def test_the_container_is_made_of_what_the_package_needs():
    allowed = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert {"src", "pyproject.toml", project["readme"], *project["license-files"]} == set(allowed)
    (extras,) = re.findall(r"/source\[(\w+)\]", CONTAINER)
    assert extras in project["optional-dependencies"]


def test_systemd_understands_the_unit(tmp_path):
    if shutil.which("systemd-analyze") is None:
        pytest.skip("the unit is not checked: systemd-analyze is not installed")
    text = UNIT.read_text(encoding="utf-8").replace("/opt/destiny/bin/destiny", sys.executable)
    for name in ("destiny-agent@.service", "destiny-agent@trial.service"):
        (tmp_path / name).write_text(text, encoding="utf-8")
    found = subprocess.run(
        ["systemd-analyze", "verify", str(tmp_path / "destiny-agent@trial.service")],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert found.returncode == 0, found.stderr
    assert "destiny-agent" not in found.stderr

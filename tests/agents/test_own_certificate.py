"""What an agent finds wrong with its own certificate, at its start and in ``destiny agents check`` alike."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

import destiny
from destiny import agents
from destiny.agents.transport.own_certificate import check_own_certificate
from destiny.agents.transport.tls import TlsFiles
from destiny.cli import app
from destiny.errors import SettingsError
from tests.helpers import doc_blocks
from tests.helpers.agent_party import Party

PAGE = Path(__file__).parents[2] / "docs" / "agents.md"
RING = destiny.networks.ring(3)


def recipe():
    """The commands of the page: the authority's, those of a request, and those that sign it."""
    found = [
        block.code for block in doc_blocks.blocks(PAGE) if block.code.lstrip().startswith(("openssl", "cat"))
    ]
    assert len(found) == 3
    return found


def run(commands, folder):
    subprocess.run(["bash", "-e", "-c", commands], cwd=folder, check=True, capture_output=True, text=True)


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    """A folder with an authority that was made by the recipe."""
    if shutil.which("openssl") is None:
        pytest.skip("the recipe of docs/agents.md is not run: openssl is not installed")
    version = subprocess.run(["openssl", "version"], capture_output=True, text=True, check=True).stdout
    if not version.startswith("OpenSSL 3"):
        pytest.skip(f"the recipe of docs/agents.md is for OpenSSL 3; found {version.strip()}")
    folder = tmp_path_factory.mktemp("authority")
    run(recipe()[0], folder)
    return folder


def issue(authority, party, i, change=lambda commands: commands):
    """Give an agent a certificate of the recipe, of which something may be changed."""
    home = party.home(i)
    for name in ("ca.pem", "certificate.pem", "key.pem"):
        (home / name).unlink()
    for name in ("ca.pem", "ca-key.pem"):
        shutil.copy(authority / name, home)
    commands = "\n".join(recipe()[1:]).replace("DNS:agent.clinic-a.example", f"IP:{party.at(i)}")
    run(change(commands.replace("clinic-a", party.name(i))), home)


def check(party, i):
    return CliRunner().invoke(app, ["agents", "check", str(party.home(i) / "agent.toml")])


@pytest.mark.parametrize("private", [True, False])
def test_agents_run_with_certificates_of_the_recipe(authority, tmp_path, private):
    method = "averaged-model" if private else "destiny"
    party = Party(
        tmp_path, RING, messages=f"private = {str(private).lower()}", algorithm=f'kind = "{method}"'
    )
    for i in range(3):
        issue(authority, party, i)
        assert check(party, i).exit_code == 0
    assert all(outcome.converged for outcome in party.go())


def without_usage(commands):
    """An authority as `openssl req -x509` makes one, which then signs."""
    made = recipe()[0].replace(' -addext "keyUsage=critical,keyCertSign,cRLSign"', "")
    return f"rm ca.pem ca-key.pem\n{made}\n{commands}"


FLAWS = {
    "no names": (
        lambda commands: commands.replace(" \\\n    -extfile names.cnf", ""),
        "must have the agent's name as an alternative name (SAN); found none",
        (True, False),
    ),
    "no address": (
        lambda commands: commands.replace(",IP:", ",IP:192.0.2.7 #"),
        "where neighbors call this agent by [agent] listen, as an alternative name (SAN); found agent-2",
        (True, False),
    ),
    "for servers only": (
        lambda commands: commands.replace("clientAuth,", ""),
        "would be refused by neighbors: unsuitable certificate purpose",
        (True, False),
    ),
    "authority without usages": (without_usage, "missing required extension", (True,)),
    "another name": (
        lambda commands: commands.replace("DNS:agent-2", "DNS:agent-7"),
        "with a certificate of agent-7",
        (True,),
    ),
}


@pytest.mark.parametrize(
    ("flaw", "private"), [(flaw, p) for flaw, (_, _, when) in FLAWS.items() for p in when]
)
def test_the_check_refuses_what_the_start_refuses(authority, tmp_path, flaw, private):
    """In the same words, and before anything is written or anybody is called."""
    change, words, _ = FLAWS[flaw]
    method = 'kind = "averaged-model"'  # private messages serve few others, which is told first
    party = Party(tmp_path, RING, algorithm=method, messages=f"private = {str(private).lower()}", deadline=1)
    issue(authority, party, 2, change)
    shown = check(party, 2)
    assert shown.exit_code != 0
    assert isinstance(shown.exception, SettingsError)
    assert words in str(shown.exception)
    assert not party.out(2).exists()
    with pytest.raises(SettingsError) as caught:
        agents.run(party.settings(2), loud=False)
    assert str(caught.value) == str(shown.exception)


def test_an_agent_that_nobody_calls_needs_no_address_in_its_certificate(tmp_path):
    """It dials all its neighbors, so it may listen anywhere; and so may one that listens everywhere."""
    party = Party(tmp_path, destiny.networks.path(2))
    home = party.home(0)
    files = TlsFiles(home / "ca.pem", home / "certificate.pem", home / "key.pem")
    for host in (None, "0.0.0.0", "::", party.host):
        assert check_own_certificate(files, host) == {"agent-0"}
    with pytest.raises(SettingsError, match=r"must have 192\.0\.2\.1"):
        check_own_certificate(files, "192.0.2.1")
    assert "this agent dials agent-1" in check(party, 0).stdout
    assert "agent-0 must dial this agent" in check(party, 1).stdout


def test_an_end_that_does_not_dial_says_at_once_that_the_other_must(tmp_path):
    """By default the lower index dials; if neither does, nothing else would tell before the deadline."""
    party = Party(tmp_path, destiny.networks.path(2), deadline=1)
    path = party.home(0) / "agent.toml"
    path.write_text(path.read_text() + "dial = false\n")
    running = [party.thread(i) for i in range(2)]
    words = r"agent-[01] has not been heard of: it must dial this agent, which does not dial it"
    for one in running:
        with pytest.raises(destiny.DestinyError, match=words):
            one.end()
    events = [e["event"] for e in party.log(0)]
    told = next(e for e in party.log(0) if e["event"] == "dial")
    assert told["why"] == "agent-1 must have dial = true for agent-0, as it is false here"
    assert events.index("dial") < events.index("end")
    assert not [e for e in party.log(1) if e["event"] == "dial"]

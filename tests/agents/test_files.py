"""Files of agents, what they show of themselves, and the commands around them."""

import io
import json
import re
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import numpy as np
import pytest

import destiny
from destiny import agents
from destiny.agents import scaffold, status
from destiny.agents.event_log import EventLog
from destiny.config.files import parse_address
from tests.helpers import ROOT
from tests.helpers.agent_party import PATIENCE, Party, Running, end, free_host, wait_for

PAIR = destiny.networks.path(2)


def command(*words, code=0):
    done = subprocess.run(
        [sys.executable, "-m", "destiny", *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout if code == 0 else done.stderr


WRONG = {
    "an unknown key": ("[agent]", "[agent]\ncolor = 1", "[agent] has no key 'color'"),
    "no listen": (r"listen = .*\n", "", "[agent] needs the key 'listen'"),
    "listen without a port": (r'listen = "[^"]*"', 'listen = "here"', "[agent] listen must be HOST:PORT"),
    "an index too many": (r"index = 0", "index = 2", "index must be from 0 to 1; found 2"),
    "a deadline below zero": (r"deadline = \d+", "deadline = -1", "deadline must be a number of seconds"),
    "no neighbor": (
        r"(?s)\[\[neighbor\]\].*",
        "neighbor = []",
        "neighbor must be a list of at least one table",
    ),
    "oneself as neighbor": (r"index = 1\n", "index = 0\n", "that of another of the 2 agents"),
    "agents in the problem": (r"\[problem\]", "[problem]\nagents = 2", "[problem] has no key 'agents'"),
    "two methods": (r"\[algorithm\]", "[[algorithm]]", "algorithm must be a table"),
    "an unknown method": (r'kind = "destiny"', 'kind = "magic"', "kind must be one of destiny"),
    "no checkpoints": (
        r"checkpoint = \d+",
        "checkpoint = 0",
        "checkpoint must be a whole number of at least 1",
    ),
    "a tolerance below zero": (r"tolerance = .*", "tolerance = -1", "tolerance must be a number >= 0"),
    "a tolerance of nan": (r"tolerance = .*", "tolerance = nan", "tolerance must be a number >= 0"),
    "rounds below zero": (r"rounds = \d+", "rounds = -1", "rounds must be a whole number >= 0; found -1"),
    "one agent": (r"agents = 2", "agents = 1", "agents must be a whole number from 2 to 100000; found 1"),
    "10^30 agents": (r"agents = 2", f"agents = {10**30}", "agents must be a whole number from 2 to 100000"),
    "too long a way": (r"diameter = 1", "diameter = 2", "diameter must be at most 1, the number of agents"),
    "a run without a name": (r'run = "run-1"', 'run = ""', "run must have 1 to 100 printable letters"),
    "a name that is a path": (r'name = "agent-0"', 'name = "../b"', "name must not start with a dot"),
    "no seconds": (r"rounds = ", "seconds = 5\nrounds = ", "[stop] has no key 'seconds'"),
    "a wrong network": (r"\[run\]", '[network]\nkind = "path"\nprob = 1\n[run]', "path has no option"),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_file_is_refused_in_one_sentence(what, tmp_path):
    party = Party(tmp_path, PAIR)
    path = party.home(0) / "agent.toml"
    pattern, new, told = WRONG[what]
    if what == "no neighbor":
        text = re.sub(pattern, "", path.read_text())
        path.write_text(new + "\n" + text)
    else:
        path.write_text(
            re.sub(pattern if pattern != "[agent]" else r"\[agent\]", new, path.read_text(), count=1)
        )
    with pytest.raises(destiny.SettingsError, match=re.escape(told)):
        agents.read(path)


def test_neighbors_and_the_network_must_agree(tmp_path):
    whole = f'[network]\nkind = "edges"\nedges = {destiny.networks.complete(3).edges.tolist()}'
    party = Party(tmp_path, destiny.networks.path(3), whole=whole)
    with pytest.raises(destiny.SettingsError, match=r"links agent 0 with \[1, 2\], but each .* one of \[1\]"):
        party.settings(0)


def test_addresses_of_all_kinds():
    assert parse_address("host.example:70", "x") == ("host.example", 70)
    assert parse_address("[::1]:70", "x") == ("::1", 70)
    for wrong in ("host", ":7", "host:", "host:99999", "host:http"):
        with pytest.raises(destiny.SettingsError, match="x must be HOST:PORT"):
            parse_address(wrong, "x")


def test_a_port_in_use_is_told(tmp_path):
    party = Party(tmp_path, PAIR)
    with (
        socket.create_server((party.host, 7000)),
        pytest.raises(destiny.SettingsError, match=r"\[agent\] listen .*:7000 cannot be used: Address"),
    ):
        party.thread(0).end()


def test_what_the_hello_says_holds_nothing_private(tmp_path):
    party = Party(tmp_path, PAIR)
    hello = party.settings(0).hello
    assert set(hello.settings) >= {"problem.kind", "n", "problem.p", "algorithm.kind", "rounds"}
    assert len(hello.pack()) < 4096
    assert str(tmp_path) not in json.dumps(hello.settings)


def test_init_and_certificates_make_a_party_that_runs(tmp_path):
    experiment = tmp_path / "experiment.toml"
    experiment.write_text(
        '[problem]\nkind = "pca"\ndata = "silos/part-{agent}.npy"\np = 2\nagents = 3\n'
        '[network]\nkind = "ring"\n[[algorithm]]\nkind = "averaged-krylov"\nlabel = "x"\n'
        "[stop]\nrounds = 500\ntolerance = 1e-7\n[run]\ncheckpoint = 30\nthreads = 2\n"
    )
    out = tmp_path / "set"
    host = free_host()
    hosts = ",".join(f"{name}={host}:{7100 + k}" for k, name in enumerate("abc"))
    told = command("agents", "init", experiment, "--hosts", hosts, "--out", out, "--run", "trial")
    assert [Path(line) for line in told.splitlines()] == [out / name / "agent.toml" for name in "abc"]
    assert "for trying out" in command("certificates", out)
    parts = [np.random.default_rng(k).standard_normal((40, 10)) for k in range(3)]
    for k, name in enumerate("abc"):
        np.save(out / name / f"part-{k}.npy", parts[k])
        assert (out / name / "key.pem").stat().st_mode & 0o777 == 0o600
    running = [Running(agents.read(out / name / "agent.toml")) for name in "abc"]
    told = [str(one.end()) for one in running]
    assert all("converged: every agent's local residual was below 1e-07" in text for text in told)
    assert all("explained variance" in text for text in told)
    with np.load(out / "b" / "results" / "solution.npz") as file:
        answer = file["X"]
    problem = destiny.problems.PCA(parts, p=2)
    options = {"local_stopping": True, "tolerance": 1e-7, "rounds": 500}
    options["messages"] = "private"  # which a ring allows
    alone = destiny.solve(problem, destiny.networks.ring(3), "averaged-krylov", **options)
    assert np.abs(answer - alone.X).max() < 1e-12
    assert "is there already" in command("certificates", out, code=2)
    with pytest.raises(destiny.SettingsError, match="is there already"):
        scaffold.write_agent_files(str(experiment), hosts, out, "trial")


@pytest.mark.parametrize(
    ("network", "hosts", "told"),
    [
        ("triangle", "a:1,b:2", "NETWORK must be an experiment file, a file of links or one of"),
        ("ring", "", "--hosts must name some agents"),
        ("ring", "x=a:1,x=b:2", "names an agent twice"),
        ("ring", "x=a:1,X=b:2", "names an agent twice"),
        ("ring", "x=a:1,y=a:1", "two agents the same address"),
        ("ring", "x=a:0,y=b:1", "at a port from 1 to 65535; found a:0"),
        (
            "ring",
            "x=0.0.0.0:1,y=b:1",
            "where neighbors call 'x', at a port from 1 to 65535; found 0.0.0.0:1",
        ),
        ("ring", "Zürich=a:1,y=b:1", "ASCII letters alone, as certificates do; found 'Zürich'"),
        ("ring", "x=münchen.example:1,y=b:1", "found 'münchen.example'"),
        ("erdos-renyi", "a:1,b:2,c:3", "needs the option 'prob'"),
        *(
            ("ring", f"{name}=a:1,b=b:2", "in --hosts must not start")
            for name in (".", "..", ".x", "x/y", "/x", "x\\y")
        ),
        *(
            ("ring", f"{name}=a:1,b=b:2", "in --hosts must have 1 to 100 printable")
            for name in ("", "x\ny", "x\x1b")
        ),
    ],
)
def test_init_refuses_in_one_sentence(network, hosts, told, tmp_path):
    with pytest.raises(destiny.DestinyError, match=re.escape(told)):
        scaffold.write_agent_files(network, hosts, tmp_path / "out", "run")
    assert not list(tmp_path.iterdir())


def test_init_knows_what_must_be_told_to_all(tmp_path):
    scaffold.write_agent_files("ring", "a:1,b:2,c:3,d:4", tmp_path / "plain", "run", private=False)
    text = (tmp_path / "plain" / "agent-0" / "agent.toml").read_text()
    assert "[network]" not in text
    assert "diameter = 2" in text
    (tmp_path / "e.toml").write_text(
        '[problem]\nkind = "pca"\nsynthetic = { n = 5, m = 20, xi = 0.5 }\np = 1\nagents = 4\n'
        '[network]\nkind = "ring"\nloss = 0.2\nseed = 3\ndelay = 0.5\n'
    )
    scaffold.write_agent_files(str(tmp_path / "e.toml"), "127.0.0.1", tmp_path / "loss", "run")
    scaffold.write_certificates(tmp_path / "loss")
    settings = agents.read(tmp_path / "loss" / "agent-3" / "agent.toml")
    assert settings.network.prob == 0.2
    assert "delay = 0.5" in (tmp_path / "loss" / "agent-3" / "agent.toml").read_text()
    assert settings.listen.port == 7003
    assert [n.dial for n in settings.neighbors] == [False, False]


EXPERIMENT = """
[problem]
kind = "pca"
p = 1
synthetic = {{ n = 5, m = 20, xi = 0.5 }}
{problem}
[network]
kind = "complete"
[stop]
{stop}
[run]
{run}
[messages]
private = false
[[algorithm]]
kind = "destiny-async"
"""


@pytest.mark.parametrize(
    ("table", "line", "told"),
    [
        ("problem", "foo = 3", "[problem] has no key 'foo'"),
        ("stop", "tolerence = 1e-3", "[stop] has no key 'tolerence'; did you mean 'tolerance'?"),
        ("run", "chekpoint = 20", "[run] has no key 'chekpoint'; did you mean 'checkpoint'?"),
    ],
)
def test_init_does_not_pass_over_a_key_it_does_not_know(table, line, told, tmp_path):
    text = EXPERIMENT.format(**({"problem": "", "stop": "", "run": ""} | {table: line}))
    (tmp_path / "e.toml").write_text(text)
    with pytest.raises(destiny.SettingsError, match=re.escape(told)):
        scaffold.write_agent_files(str(tmp_path / "e.toml"), "a:1,b:2,c:3", tmp_path / "out", "run")
    assert not (tmp_path / "out").exists()


def test_init_takes_over_what_agents_know_and_its_comments_are_true(tmp_path):
    run = "checkpoint = 7\nreplay = true\nthreads = 2"
    (tmp_path / "e.toml").write_text(EXPERIMENT.format(problem="", stop="tolerance = 1e-5", run=run))
    path, *_ = scaffold.write_agent_files(str(tmp_path / "e.toml"), "a:1,b:2,c:3", tmp_path / "out", "run")
    scaffold.write_certificates(tmp_path / "out")
    settings = agents.read(path)
    assert (settings.checkpoint, settings.options.replay) == (7, True)
    text = path.read_text()
    assert "tolerance = 1e-05" in text or "tolerance = 1e-5" in text
    assert "checkpoint = 7 " in text
    path.write_text(text.replace("checkpoint = 7", "checkpoint = 0"))
    with pytest.raises(
        destiny.SettingsError, match=r"\[run\] checkpoint must be a whole number of at least 1; found 0"
    ):
        agents.read(path)
    assert "0 = never" not in re.search("^checkpoint.*", text, re.MULTILINE).group()
    path.write_text(re.sub("(?m)^lambda.*\n", "", text))
    with pytest.raises(destiny.SettingsError, match=r"in an agent's file: lambda in \[algorithm\]"):
        agents.read(path)
    (tmp_path / "e.toml").write_text(EXPERIMENT.format(problem="", stop="", run="checkpoint = 0"))
    path, *_ = scaffold.write_agent_files(str(tmp_path / "e.toml"), "a:1,b:2,c:3", tmp_path / "two", "run")
    scaffold.write_certificates(tmp_path / "two")
    assert agents.read(path).checkpoint > 0


def test_init_without_a_method_takes_the_default_one_and_its_files_are_accepted(tmp_path):
    made = scaffold.write_agent_files("path", "a:1,b:2,c:3", tmp_path / "out", "run")
    for path in made:
        np.save(path.parent / "data.npy", np.ones((9, 5)))
    read = [agents.read(path).algorithm for path in made]
    assert read[0] == read[1] == read[2]
    assert hash(read[0]) == hash(read[1])


def test_init_tells_agents_what_their_method_asks_of_the_network(tmp_path):
    (tmp_path / "e.toml").write_text(
        '[problem]\nkind = "pca"\nsynthetic = { n = 8, m = 60, xi = 0.5 }\np = 2\nagents = 4\n'
        '[network]\nkind = "path"\n[[algorithm]]\nkind = "deepca"\nmixing = "chebyshev"\nrounds = 3\n'
        "[stop]\nrounds = 60\ntolerance = 0\n[messages]\nprivate = false\n"
    )
    network = destiny.networks.path(4)
    host = free_host()
    made = scaffold.write_agent_files(str(tmp_path / "e.toml"), f"{host}:7100", tmp_path / "out", "run")
    scaffold.write_certificates(tmp_path / "out")
    settings = [agents.read(path) for path in made]
    assert {s.algorithm.lambda_ for s in settings} == {network.lambda_}
    outcomes = [running.end() for running in [Running(s) for s in settings]]
    problem = destiny.problems.pca.synthetic(n=8, m=60, p=2, xi=0.5, agents=4)
    method = destiny.algorithms.DeEPCA(mixing="chebyshev", rounds=3)
    alone = destiny.solve(problem, network, method, rounds=60, tolerance=0, engine=destiny.engines.local(1))
    for i, outcome in enumerate(outcomes):
        assert np.array_equal(outcome.own, alone.agents[i])


def test_the_status_page_and_metrics(tmp_path):
    party = Party(tmp_path, PAIR)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(destiny.SettingsError, match=f"--status {port} cannot be used"):
            agents.run(party.settings(0), watchers=[status.serve(port)])
    waiting = party.start(0, "--status", str(port))

    def fetch(path, method="GET", host=f"localhost:{port}"):
        request = urllib.request.Request(
            f"http://127.0.0.1:{port}{path}", method=method, headers={"Host": host}
        )
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE) as found:
                return found.status, found.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()
        except OSError:
            return None

    code, page = wait_for(lambda: fetch("/"), "a page")
    assert code == 200
    assert "waiting for neighbors" in page
    assert "agent-1" in page
    code, metrics = fetch("/metrics")
    assert code == 200
    assert 'destiny_neighbor_connected{agent="agent-0",run="run-1",neighbor="agent-1"} 0' in metrics
    assert re.search(r"^# TYPE destiny_round gauge$", metrics, re.MULTILINE)
    assert fetch("/", method="POST")[0] == 405
    assert fetch("/etc/passwd")[0] == 404
    assert fetch("/", host="evil.example")[0] == 403
    path = party.out(0) / "status.json"
    text = wait_for(lambda: path.exists() and "true" in (text := path.read_text()) and text, "a long wait")
    written = json.loads(text)
    assert (written["agent"], written["phase"]) == ("agent-0", "waiting for neighbors")
    assert [(n["name"], n["late"]) for n in written["neighbors"]] == [("agent-1", True)]
    assert path.stat().st_mode & 0o777 == 0o600
    party.thread(1).end()
    end(waiting)
    party.check()
    assert not path.exists()


def test_the_terminal_view_has_a_row_for_each_neighbor(tmp_path, monkeypatch):
    from rich.console import Console

    party = Party(tmp_path, destiny.networks.ring(4))
    running = party.thread(0)
    view = wait_for(lambda: running.view)
    monkeypatch.setenv("COLUMNS", "150")
    shown = status.Terminal(view)
    table = shown.table()
    shown()
    shown.live.stop()
    console = Console(width=150, record=True, file=io.StringIO())
    console.print(table)
    text = console.export_text()
    assert "agent-1" in text
    assert "agent-3" in text
    assert "waiting for neighbors" in text
    assert "received a second" in text
    for i in (1, 2, 3):
        running = party.thread(i)
    running.end()


def test_what_an_agent_writes_is_its_owners_and_an_end_is_in_the_log(tmp_path):
    party = Party(tmp_path, PAIR, stop="rounds = 40\ntolerance = 0")
    party.out(1).mkdir(mode=0o755)
    outcomes = party.go()
    assert party.out(0).stat().st_mode & 0o777 == 0o700
    assert party.out(1).stat().st_mode & 0o777 == 0o755, "whoever made it knows why"
    for i, outcome in enumerate(outcomes):
        *_, last = party.log(i)
        assert (last["event"], last["why"]) == ("end", outcome.reason)


def test_the_status_page_names_the_peer_of_an_event():
    event_log = EventLog("a")
    event_log.record("connected", peer="clinic<b>", address="x:1")
    event_log.record("end", why="enough")
    (end, connected) = re.findall("<li>.*?</li>", status.events(event_log))
    assert re.fullmatch(r"<li>\S+ connected clinic&lt;b&gt;</li>", connected)
    assert re.fullmatch(r"<li>\S+ end: enough</li>", end)


def test_a_log_does_not_grow_without_end_nor_stop_a_run(tmp_path, capsys):
    event_log = EventLog("a", tmp_path / "log.jsonl")
    for k in range(500):
        event_log.report_stranger("x", f"number {k}", "127.0.0.1:1")
    lines = (tmp_path / "log.jsonl").read_text().splitlines()
    assert len(lines) == 100
    assert {"time", "agent", "event", "peer", "why"} <= set(json.loads(lines[0]))
    assert capsys.readouterr().err.count("\n") == 100
    if Path("/dev/full").exists():
        full = EventLog("a", Path("/dev/full"))
        full.record("event")
        assert "no more log: No space left on device" in capsys.readouterr().err
        full.record("event")
        full.close()
    event_log.close()


def test_a_neighbor_that_is_refused_all_day_does_not_fill_the_log(tmp_path, capsys):
    event_log = EventLog("a", tmp_path / "log.jsonl")
    for k in range(600):
        event_log.report_neighbor("refused", "b", f"b is in another run: {k} {'x' * 9000}")
        event_log.record_neighbor("connected", "b")
    event_log.close()
    lines = (tmp_path / "log.jsonl").read_text().splitlines()
    assert len(lines) == 42
    assert max(map(len, lines)) < 1200
    assert "580 more refusals of b" in capsys.readouterr().err.splitlines()[-2]


def test_a_closed_terminal_does_not_stop_a_run(tmp_path, monkeypatch):
    with (tmp_path / "stderr").open("w") as gone:
        monkeypatch.setattr("sys.stderr", gone)
    event_log = EventLog("a")
    event_log.report("refused", "b", "b is in another run")
    assert not event_log.loud


@pytest.mark.parametrize("later", [True, False])
def test_strangers_cannot_keep_neighbors_out_of_the_log(later, tmp_path, monkeypatch):
    event_log = EventLog("a", tmp_path / "log.jsonl", loud=False)
    for k in range(130):
        event_log.report_stranger("unknown", f"number {k}", "127.0.0.1:1")
    for _ in range(150):
        event_log.record("connected", peer="b")
        event_log.report("refused", "b", "b is in another run")
    if later:
        monkeypatch.setattr("destiny.agents.event_log.MINUTE", -1.0)
        event_log.record("lost", peer="b")
    event_log.close()
    entries = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert sum(e.get("peer") == "b" for e in entries) == 300 + later
    assert sum(e.get("peer") == "unknown" for e in entries) == 100
    assert [e["dropped"] for e in entries if e["event"] == "dropped"] == [30]


def test_the_file_of_the_documentation_is_accepted(tmp_path):
    (text,) = re.findall(r"```toml\n(.*?)```", (ROOT / "docs/agents.md").read_text(), re.DOTALL)
    (tmp_path / "agent.toml").write_text(text)
    np.save(tmp_path / "data.npy", np.random.default_rng(0).standard_normal((320, 30)))
    settings = agents.read(tmp_path / "agent.toml")
    assert settings.neighbors
    assert settings.deadline == 600

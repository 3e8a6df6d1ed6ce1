"""`destiny serve` without a browser: what it finds, and whom it answers."""

import http.client
import json
import os
import re
import shutil
import socket
import threading
import time

import pytest

from destiny import Destiny, DestinyAccelerated, SettingsError, cli, networks, problems
from destiny.experiments import live_status, result_folder
from destiny.experiments.batch import prepare_all
from destiny.experiments.live_status import LiveStatus
from destiny.report import report
from destiny.report.html import wording
from destiny.report.live import jobs
from destiny.report.live.server import Server, open_server
from destiny.run.solve import SolveOptions
from tests.helpers import live_folders
from tests.helpers import report_folders as folders


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    home = tmp_path_factory.mktemp("serve")
    folders.sdl(home / "served" / "done" / "sdl")
    live_folders.running(home / "served" / "now")
    live_folders.agent(home / "served" / "party" / "a" / "results", "a", {"b": True, "c": False})
    live_folders.agent(home / "served" / "party" / "b" / "results", "b", {"a": False})
    folders.sdl(home / "secret")
    (home / "served" / "link").symlink_to(home / "secret")
    return home


@pytest.fixture(scope="module")
def server(made):
    server = open_server(made / "served", 0)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def ask(server):
    def ask(path, method="GET", host=None, **headers):
        connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=20)
        connection.putrequest(method, path, skip_host=True)
        if host != "":
            connection.putheader("Host", host or f"127.0.0.1:{server.server_port}")
        for name, value in headers.items():
            connection.putheader(name.replace("_", "-"), value)
        connection.endheaders()
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        return answer, text

    return ask


def test_the_list_has_what_is_below_the_folder(ask):
    answer, text = ask("/")
    assert answer.status == 200
    for part in ("Running", "/job/now", "40 of at most 900", "/agents/trial", "a for b", "/job/done%2Fsdl"):
        assert part in text
    assert "secret" not in text


def test_a_run_is_shown_as_far_as_it_has_come(ask):
    _, text = ask("/job/now")
    assert "running: round 40 of at most 900" in text
    assert "not begun" in text
    assert "3 agents, 3 links" in text
    content = json.loads(ask("/job/now?json")[1])
    assert content["data"]["x"][0]["round"] == [0, 10, 20, 30, 40]


def test_a_result_is_shown_as_in_its_report(ask, made):
    (path,) = report(made / "served" / "done" / "sdl", made / "page.html")
    body = path.read_text(encoding="utf-8").split("<main>")[1].split("<noscript>")[0].strip()
    assert body in ask("/job/done%2Fsdl")[1]


def test_agents_say_for_whom_they_wait(ask):
    _, text = ask("/agents/trial")
    assert "a waits for b" in text
    assert "b, for 12 s" in text
    assert "b waits for" not in text
    assert f"At the moment: a {wording.scientific(1e-3)}, b {wording.scientific(1e-3)}." in text


@pytest.mark.parametrize(
    "path",
    [
        "/job/..%2Fsecret",
        "/job/../secret",
        "/../secret/summary.json",
        "/job/done/../../secret",
        "/job/link",
        "/job/%2Fetc",
        "/job/now%00",
        "/assets/../page.css",
        "/assets/..%2F..%2F__init__.py",
        "/assets/page.html",
        "/agents/other",
        "/agents/",
        "/nothing",
        "//evil.example/job/now",
        "/job/" + "x" * 5000,
    ],
)
def test_what_is_not_in_the_list_is_not_there(ask, path):
    answer, text = ask(path)
    assert answer.status == 404
    assert "nothing here" in text


HOSTS = ("evil.example", "127.0.0.1", "localhost", "localhost:1", "127.0.0.1.evil.example:80", "")


@pytest.mark.parametrize("host", HOSTS)
def test_a_name_made_to_point_here_learns_nothing(ask, host):
    answer, text = ask("/", host=host)
    assert answer.status == 403
    assert text == "ask for localhost\n"


def test_only_this_machine_can_ask(server):
    assert server.server_address[0] == "127.0.0.1"
    with socket.create_connection(("127.0.0.1", server.server_port)) as connection:
        assert connection.getpeername()[0] == "127.0.0.1"


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
def test_nothing_can_be_changed(ask, method):
    assert ask("/job/now", method)[0].status == 405


def test_every_answer_forbids_what_a_page_does_not_need(ask, server):
    for path in ("/", "/job/now", "/assets/page.js", "/nothing"):
        answer, _ = ask(path, host=f"localhost:{server.server_port}")
        assert answer.headers["Content-Security-Policy"].startswith("default-src 'none'; script-src 'self'; ")
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Cache-Control"] == "no-store"
        assert answer.headers["Access-Control-Allow-Origin"] is None
    answer, text = ask("/", "HEAD")
    assert (answer.status, text) == (200, "")


def test_a_page_is_sent_again_only_when_a_file_has_changed(ask, made):
    answer, _ = ask("/job/now?json")
    mark = answer.headers["ETag"]
    assert ask("/job/now?json", If_None_Match=mark)[0].status == 304
    live_folders.running(made / "served" / "now", rounds=9)
    answer, text = ask("/job/now?json", If_None_Match=mark)
    assert answer.status == 200
    assert "round 80 of" in text
    live_folders.running(made / "served" / "now")


DAMAGED = (
    *("", "[", "[]", "7", '{"methods": 3}', '{"methods": [{"label": "../x"}]}', '{"agent": 3, "run": []}'),
    '{"agent": "a", "run": "x", "neighbors": [1, {"name": {}}], "history": [[1], "x", [1, 2, null]]}',
    '{"methods": [{"label": "a", "state": "running", "rounds": 3, "history": {"step": [1], "round": [""]}}]}',
)


@pytest.mark.parametrize("content", DAMAGED)
def test_damaged_files_are_no_trouble(tmp_path, content):
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "status.json").write_text(content)
    server = open_server(tmp_path, 0)
    try:
        site = server.RequestHandlerClass.site
        addresses = [
            "/",
            "/job/x",
            *(f"/agents/{job.run}" for job in jobs.Search(tmp_path).jobs() if job.agent),
        ]
        for address in addresses:
            _, page = site.page(address)
            assert page.body
    finally:
        server.server_close()


SECRET = "what-nobody-may-see"


@pytest.mark.parametrize(
    "linked", ["summary.json", "about.json", "status.json", "sdl/history.csv", "sdl", "log.jsonl"]
)
def test_links_show_nothing_from_elsewhere(tmp_path, linked):
    """Neither `serve` nor `report` follows a link out of the folder, to a file or to a folder of files."""
    elsewhere, served = tmp_path / "elsewhere", tmp_path / "served" / "x"
    folders.sdl(elsewhere)
    labels = [path.parent.name for path in elsewhere.glob("*/history.csv")]
    entry = {"label": labels[0], "reason": SECRET, "agent": SECRET, "run": SECRET}
    (elsewhere / "summary.json").write_text(json.dumps([entry]))
    (elsewhere / "about.json").write_text(json.dumps({"problem": SECRET}))
    (elsewhere / "status.json").write_text(json.dumps({"agent": SECRET, "problem": SECRET}))
    (elsewhere / "log.jsonl").write_text(json.dumps({"event": "end", "why": SECRET}) + "\n")
    folders.sdl(served)
    name = linked.replace("sdl", labels[0])
    if (served / name).is_dir():
        shutil.rmtree(served / name)
    (served / name).unlink(missing_ok=True)
    (served / name).symlink_to(elsewhere / name)
    server = open_server(tmp_path / "served", 0)
    try:
        pages = [
            found for address in ("/", "/job/x") if (found := server.RequestHandlerClass.site.page(address))
        ]
    finally:
        server.server_close()
    shown = "".join(page.title + page.body + page.data for _, page in pages)
    assert pages
    assert SECRET not in shown
    (path,) = report(served, tmp_path / "page.html")
    text = path.read_text(encoding="utf-8")
    assert SECRET not in text
    if linked in ("summary.json", "about.json", "sdl/history.csv", "sdl"):
        assert "is a link or not a regular file, and is left out" in text
    if labels[0] in name:  # the curve of the other file is not drawn
        assert "history.csv is a link" in text


@pytest.mark.parametrize("name", ["status.json", "summary.json", "log.jsonl", "about.json"])
def test_a_pipe_does_not_hold_the_server(tmp_path, name):
    folders.sdl(tmp_path / "x")
    (tmp_path / "x" / name).unlink(missing_ok=True)
    os.mkfifo(tmp_path / "x" / name)
    server = open_server(tmp_path, 0)
    site = server.RequestHandlerClass.site
    asked = threading.Thread(target=lambda: [site.page(address) for address in ("/", "/job/x")], daemon=True)
    asked.start()
    asked.join(20)
    server.server_close()
    assert not asked.is_alive()


def test_a_folder_of_many_files_is_not_walked_on_every_poll(tmp_path, monkeypatch):
    """A search that took a second is repeated after twenty; what was found is looked at every time."""
    clock, walks = [0.0], []
    walk = os.walk

    def slow_walk(top, *more):
        walks.append(top)
        clock[0] += 1.0
        return walk(top, *more)

    monkeypatch.setattr(jobs.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(jobs.os, "walk", slow_walk)
    site = open_server(tmp_path, 0)
    site.server_close()
    site = site.RequestHandlerClass.site
    for _ in range(5):  # no results, so no folder has to be compared
        assert "no results here yet" in site.page("/")[1].body
    assert walks == [tmp_path]
    live_folders.running(tmp_path / "now")
    clock[0] += jobs.SHARE + 1.0
    assert "40 of at most 900" in site.page("/")[1].body
    assert walks.count(tmp_path) == 2
    live_folders.running(tmp_path / "now", rounds=9)
    assert "80 of at most 900" in site.page("/")[1].body
    assert walks.count(tmp_path) == 2


def test_a_folder_that_cannot_be_served_is_refused(tmp_path):
    with pytest.raises(SettingsError, match="found none"):
        open_server(tmp_path / "nowhere")
    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        pytest.raises(SettingsError, match="choose another"),
    ):
        open_server(tmp_path, taken.getsockname()[1])
    with pytest.raises(SettingsError, match="choose another"):
        open_server(tmp_path, 70_000)


def test_a_run_writes_where_it_is_and_cleans_up(tmp_path, monkeypatch):
    monkeypatch.setattr(live_status, "EVERY", 0.01)
    problem = problems.pca.synthetic(n=8, m=64, p=2, xi=0.6, agents=4, seed=0)
    methods = {"one": Destiny(), "two": DestinyAccelerated()}
    batch = prepare_all(problem, networks.ring(4), methods, lambda _: SolveOptions(), skip=False)
    with LiveStatus(tmp_path, batch.runs) as live:
        result = batch.runs["one"].go()
        live.done.add("one")
        deadline = time.monotonic() + 20
        while (
            not (status := jobs.read_table(tmp_path / "status.json"))
            or status["methods"][0]["state"] != "done"
        ):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert [method["state"] for method in status["methods"]] == ["done", "running"]
        assert status["network"]["agents"] == 4
        columns = live_status.columns(batch.runs["one"].observed.history)
        assert columns["stationarity"][-1] == result.measures.stationarity
        assert "status.json" in {path.name for path in tmp_path.iterdir()}
    assert not list(tmp_path.iterdir())
    assert result_folder.STATUS in result_folder.FILES


def test_the_command_says_where_to_look_and_ends_quietly(tmp_path, monkeypatch, capsys):
    def interrupt(server):
        raise KeyboardInterrupt

    monkeypatch.setattr(Server, "serve_forever", interrupt)
    monkeypatch.setattr("sys.argv", ["destiny", "serve", str(tmp_path), "--port", "0"])
    with pytest.raises(SystemExit) as left:
        cli.main()
    assert left.value.code == 0
    assert re.match(r"http://127\.0\.0\.1:\d+/ shows ", capsys.readouterr().out)

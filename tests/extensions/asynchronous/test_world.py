"""[world] in experiment files: methods side by side in simulated time, and a report of it."""

import json

import pytest

from destiny.experiments import file as experiments
from destiny.report import papers
from tests.helpers.cli_experiments import Outcome, main, toml

TABLES = {
    "problem": {"kind": "pca", "agents": 5, "p": 2, "synthetic": {"n": 8, "m": 60, "xi": 0.5}},
    "network": {"kind": "ring"},
    "world": {"speeds": "straggler", "slowest": 4, "loss": 0.1},
    "algorithm": [{"kind": "destiny-async"}, {"kind": "destiny-accelerated"}],
    "stop": {"tolerance": 1e-4, "seconds": 2000},
}


@pytest.fixture
def write(tmp_path):
    """A file with changed tables; None takes one away."""

    def file(**changes):
        tables = {name: table for name, table in (TABLES | changes).items() if table is not None}
        path = tmp_path / "world.toml"
        path.write_text("".join(f"{name} = {toml(table)}\n" for name, table in tables.items()))
        return path

    return file


def test_methods_side_by_side_and_a_report(write, tmp_path, monkeypatch, capsys):
    out, page = tmp_path / "out", tmp_path / "page.html"
    assert main(monkeypatch, "compare", write(), "--out", out) == 0
    assert "sages" in capsys.readouterr().out
    free, barrier = json.loads((out / "summary.json").read_text())
    assert free["converged"]
    assert barrier["converged"]
    assert free["seconds"] < barrier["seconds"]
    assert 0 < free["lost"] < free["messages"]
    assert len(free["activity"]["working"]) == 5
    assert not list(out.glob("*/checkpoints"))
    assert main(monkeypatch, "report", out, "--out", page) == 0
    text = page.read_text()
    assert "Who worked and who waited" in text
    assert "simulated seconds" in text
    drawn = []
    whole = papers.draw_convergence
    monkeypatch.setattr(papers, "draw_convergence", lambda *what: drawn.append(whole(*what)) or drawn[-1])
    assert main(monkeypatch, "report", out, "--out", tmp_path / "figures", "--format", "png") == 0
    (sheet,) = drawn
    first = sheet.axes[0]
    assert first.get_xlabel() == "simulated seconds"
    assert first.get_lines()[1].get_xdata()[-1] == pytest.approx(barrier["seconds"])


def test_measured_traces_naps_and_old_checkpoints(write, tmp_path, monkeypatch, capsys):
    """Everything that a world has can be said in a file; traces as a table beside it, or as lists."""
    rough = {"naps": 0.002, "crash": 300.0, "down": 5.0, "checkpoint": 10, "older": 0.5, "forget": 0.1}
    (tmp_path / "times.csv").write_text("a,b,c,d,e\n1,1,1,1,4\n2,2,2,2,4\n")
    lists = [[1.0, 2.0]] * 4 + [[4.0]]
    found = []
    for number, traces in enumerate(("times.csv", lists)):
        out = tmp_path / f"out{number}"
        file = write(world={"traces": traces} | rough, algorithm=[{"kind": "destiny-async"}])
        assert main(monkeypatch, "run", file, "--out", out) == 0
        found += json.loads((out / "summary.json").read_text())
    assert found[0]["seconds"] == found[1]["seconds"]
    assert found[0]["crashes"] > 0
    capsys.readouterr()
    (tmp_path / "times.csv").write_text("1,2,3\n")
    assert main(monkeypatch, "run", write(world={"traces": "times.csv"}), "--out", tmp_path / "few") != 0
    assert "5 agents" in capsys.readouterr().err


def test_editors_know_the_table_and_the_method():
    schema = experiments.schema()
    world = schema["definitions"]["World"]["properties"]
    assert {"speeds", "older", "naps"} <= set(world)
    assert {"type": "string"} in world["traces"]["anyOf"]
    assert schema["definitions"]["DestinyAsync"]["properties"]["kind"] == {"enum": ["destiny-async"]}
    assert {"$ref": "#/definitions/DestinyAsync"} in schema["properties"]["algorithm"]["items"]["anyOf"]


def test_what_cannot_be_simulated_is_refused(write, tmp_path, monkeypatch, capsys):
    def refused(*arguments):
        code = main(monkeypatch, *arguments)
        outcome = Outcome(code, *capsys.readouterr())
        outcome.refused()
        return outcome.err

    assert "add [world]" in refused("compare", write(world=None))
    assert "cannot be resumed" in refused("compare", write(), "--out", tmp_path / "new", "--resume")
    assert "loss must be" in refused("compare", write(world={"loss": 2.0}))
    assert "leave must be a list of lists; found 5" in refused("compare", write(world={"leave": 5}))
    assert "did you mean 'delay'" in refused("compare", write(world={"delays": 1.0}))
    assert "5 agents" in refused("compare", write(world={"speeds": [1.0, 2.0]}))
    assert "cannot sum privately" in refused("compare", write(messages={"private": True}))


def test_a_file_without_a_method_takes_the_asynchronous_one_where_it_fits(
    write, tmp_path, monkeypatch, capsys
):
    kinds = {}
    for name, changes in {
        "smooth": {},
        "regularized": {"problem": TABLES["problem"] | {"regularizer": {"kind": "l1", "weight": 0.01}}},
    }.items():
        out = tmp_path / name
        assert main(monkeypatch, "run", write(algorithm=None, **changes), "--out", out) in (0, 3)
        (summary,) = json.loads((out / "summary.json").read_text())
        kinds[name] = summary["settings"]["kind"]
    assert kinds == {"smooth": "destiny-async", "regularized": "destiny-prox"}
    capsys.readouterr()


def test_the_doctor_says_what_it_does_not_predict(write, monkeypatch, capsys):
    assert main(monkeypatch, "doctor", write()) == 0
    page = capsys.readouterr().out
    assert "destiny-async  it has no rounds" in page
    assert "not in [world]" in page
    assert "destiny-accelerated  about" in page

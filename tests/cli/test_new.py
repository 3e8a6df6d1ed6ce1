"""The first five minutes: new experiments work as they are, shells complete, dry runs say what is sent."""

import json
import os
import pty
import subprocess
import tomllib

import numpy as np
import pytest
from jsonschema import Draft7Validator

from destiny import agents
from destiny.cli import new_files
from destiny.experiments import file, json_schema
from tests.helpers.cli_experiments import PROGRAM, document, read, snapshot


@pytest.fixture
def clinics(tmp_path, monkeypatch):
    """Three tables as a German Excel writes them, with columns in another order; and the pooled numbers."""
    rng = np.random.default_rng(3)
    names, tables = np.array(["age", "bmi", "tsh"]), []
    for k, order in enumerate([[0, 1, 2], [2, 0, 1], [1, 2, 0]]):
        table = np.round(rng.standard_normal((20, 3)) * [3, 2, 1] + 10, 3)
        lines = [";".join(["patient", *names[order], "ward"])]
        lines += [
            ";".join([f"P{i}", *(f"{v}".replace(".", ",") for v in row[order]), "A"])
            for i, row in enumerate(table)
        ]
        (tmp_path / f"clinic-{k}.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
        tables.append(table)
    monkeypatch.chdir(tmp_path)
    return np.concatenate(tables)


def test_without_data_it_runs_as_it_is(command, tmp_path):
    for kind in ("pca", "olsr", "sdl"):
        made = command("new", tmp_path / kind, "--kind", kind)
        assert made.code == 0, made.err
        path = tmp_path / kind / "experiment.toml"
        assert made.out == f"{path}\n"
        assert path.read_text(encoding="utf-8").startswith("#:schema ./experiment.schema.json\n")
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
        schema = json.loads((tmp_path / kind / "experiment.schema.json").read_text())
        assert schema == json_schema.schema()
        Draft7Validator(schema).validate(tables)
    assert command("run", tmp_path / "pca" / "experiment.toml", "--out", tmp_path / "out").code == 0
    dry = command("run", tmp_path / "pca" / "experiment.toml", "--dry").out
    assert "destiny-newton: chosen, as about" in dry
    assert "an agent tells neighbours a second-order model of its objective" in dry
    assert read(tmp_path / "out", "destiny-newton").entry["converged"]


def test_tables_of_hospitals_are_read_as_they_are(command, clinics, tmp_path):
    files = [option for k in range(3) for option in ("--data", tmp_path / f"clinic-{k}.csv")]
    assert command("new", tmp_path / "study", *files).code == 0
    problem = tomllib.loads((tmp_path / "study" / "experiment.toml").read_text())["problem"]
    assert problem["data"] == [f"../clinic-{k}.csv" for k in range(3)]
    assert (problem["sep"], problem["decimal"], problem["samples"]) == (";", ",", "rows")
    assert problem["columns"] == ["age", "bmi", "tsh"]
    assert command("run", tmp_path / "study" / "experiment.toml", "--out", tmp_path / "out").code == 0
    (solution,) = (tmp_path / "out").glob("*/solution.npz")  # of the method that was chosen
    axes = np.load(solution)["axes"]
    expected = np.linalg.svd(clinics - clinics.mean(axis=0), full_matrices=False)[2][:2].T
    np.testing.assert_allclose(np.abs(np.sum(axes * expected, axis=0)), 1, atol=1e-7)


def test_a_pattern_counts_its_files_and_agents_get_their_own(command, clinics, tmp_path):
    hosts = "a=127.0.0.1:7301,b=127.0.0.1:7302,c=127.0.0.1:7303"
    options = ("--hosts", hosts, "--p", "1", "--no-center")
    files = [option for k in range(3) for option in ("--data", tmp_path / f"clinic-{k}.csv")]
    made = command("new", tmp_path / "party", *files, *options)
    assert made.code == 0, made.err
    assert "destiny certificates" in made.err
    assert command("certificates", tmp_path / "party").code == 0
    for k, name in enumerate("abc"):
        (tmp_path / f"clinic-{k}.csv").rename(tmp_path / "party" / name / f"clinic-{k}.csv")
        settings = agents.read(tmp_path / "party" / name / "agent.toml")
        assert settings.problem.shape == (3, 1)
    checked = command("agents", "check", tmp_path / "party" / "a" / "agent.toml")
    assert "each of 2 neighbours is sent up to" in checked.out
    assert "private messages" in checked.out


@pytest.mark.parametrize("quoted", [True, False])
@pytest.mark.parametrize("folder_first", [True, False])
def test_a_pattern_of_the_shell(command, clinics, tmp_path, quoted, folder_first):
    """A shell replaces it by names unless it is in quotes."""
    names = [tmp_path / "clinic-*.csv"] if quoted else [tmp_path / f"clinic-{k}.csv" for k in range(3)]
    words = [tmp_path / "study", "--data", *names] if folder_first else ["--data", *names, tmp_path / "study"]
    made = command("new", *words)
    assert made.code == 0, made.err
    problem = tomllib.loads((tmp_path / "study" / "experiment.toml").read_text())["problem"]
    assert sorted(problem["data"]) == [f"../clinic-{k}.csv" for k in range(3)]


def test_targets_with_row_labels_are_worked_out_and_compared(command, tmp_path):
    rng = np.random.default_rng(0)
    for k in range(2):
        rows = rng.standard_normal((8, 3))
        ids = [f"P{i}" for i in range(8)]
        data = [",".join(["id", "a", "b", "c"])] + [
            f"{i},{x},{y},{z}" for i, (x, y, z) in zip(ids, rows, strict=True)
        ]
        (tmp_path / f"x-{k}.csv").write_text("\n".join(data))
        target = ["id,y"] + [f"{i},{x + y}" for i, (x, y, _) in zip(ids, rows, strict=True)]
        (tmp_path / f"y-{k}.csv").write_text("\n".join(target))
        (tmp_path / f"z-{k}.csv").write_text("\n".join([target[0], *target[:0:-1]]))
    for name in "yz":
        options = ("--kind", "olsr", "--data", tmp_path / "x-*.csv", "--targets", tmp_path / f"{name}-*.csv")
        made = command("new", tmp_path / name, *options)
        assert made.code == 0, made.err
    problem = tomllib.loads((tmp_path / "y" / "experiment.toml").read_text())["problem"]
    assert (problem["index"], problem["target-index"]) == ("id", "id")
    assert problem["target-columns"] == ["y"]
    assert command("run", tmp_path / "y" / "experiment.toml", "--dry").code == 0
    refused = command("run", tmp_path / "z" / "experiment.toml", "--dry")
    assert refused.code == 2
    assert "'P7' instead of 'P0' in row 0" in refused.err


def test_rows_without_entries_are_left_out_with_one_line(tmp_path):
    for k in range(2):
        (tmp_path / f"c-{k}.csv").write_text("a;b;c\n1;2;3\n4;5;9\n;;\n7;1;2\n")
    for words in (["new", "x", "--yes", "--data", "c-*.csv"], ["run", "x/experiment.toml", "--dry"]):
        made = subprocess.run([*PROGRAM, *words], cwd=tmp_path, capture_output=True, text=True, check=True)
    lines = made.stderr.splitlines()
    assert len(lines) == 2
    assert all(line.startswith("destiny: ") and line.endswith("1, the first in line 4") for line in lines)


def test_one_pattern_is_enough(command, clinics, tmp_path):
    assert command("new", tmp_path / "study", "--data", tmp_path / "clinic-{agent}.csv").code == 0
    assert file.read(tmp_path / "study" / "experiment.toml").problem.agents == 3


REFUSED = {
    "kind": (["--kind", "pcb"], "did you mean 'pca'?"),
    "network": (["--network", "rign"], "did you mean 'ring'?"),
    "a network with options": (["--network", "erdos-renyi"], "needs options"),
    "no file": (["--data", "nowhere.csv"], "nowhere.csv"),
    "no file of a pattern": (["--data", "nowhere-{agent}.csv"], "nowhere-0.csv"),
    "p": (["--p", "21"], "p must"),
    "agents": (["--agents", "0"], "agents"),
    "two numbers of agents": (["--agents", "3", "--hosts", "a:1,b:2"], "--hosts"),
    "olsr without targets": (["--kind", "olsr", "--data", "clinic-0.csv"], "--targets"),
    "no file like a pattern": (["--data", "nowhere-*.csv"], "there is no file like this"),
    "names without --data": (["clinic-1.csv"], "takes one folder"),
    "a first line of numbers": (["--data", "numbers.csv"], "--no-header if they are data"),
    "one file for several hosts": (["--hosts", "a:1,b:2", "--data", "clinic-0.csv"], "a file for each"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_mistake_is_refused_and_nothing_is_written(command, clinics, tmp_path, case):
    options, named = REFUSED[case]
    (tmp_path / "numbers.csv").write_text("1990,1995\n1,2\n")
    before = snapshot(tmp_path)
    options = [tmp_path / option if option.endswith(".csv") else option for option in options]
    command("new", tmp_path / "study", *options).refused(named)
    assert snapshot(tmp_path) == before


def test_what_is_there_is_not_overwritten(command, tmp_path):
    (tmp_path / "experiment.toml").write_text("mine")
    command("new", tmp_path).refused("experiment.toml is there already")
    assert (tmp_path / "experiment.toml").read_text() == "mine"


def test_on_a_terminal_it_asks(monkeypatch, clinics):
    answers = iter(["pca", "clinic-0.csv clinic-1.csv", 1, "complete", False])
    asked = []

    def prompt(question, default, type, err):
        asked.append((question, default))
        return next(answers)

    monkeypatch.setattr("typer.prompt", prompt)
    nothing = new_files.Said(None, None, None, None, None, None, None, None)
    found = new_files.collect(nothing, asking=True)
    assert (found.kind, found.agents, found.p, found.network, found.center) == (
        "pca",
        2,
        1,
        "complete",
        False,
    )
    assert [default for _, default in asked] == ["pca", "", 2, "ring", True]


def test_questions_are_asked_on_a_real_terminal(tmp_path):
    here, there = pty.openpty()
    process = subprocess.Popen(
        [*PROGRAM, "new", "x", "--agents", "5"],
        stdin=there,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=tmp_path,
    )
    os.write(here, b"\n\n3\n\n")  # pca, random data, three components, a ring
    _, err = process.communicate(timeout=60)
    os.close(here)
    os.close(there)
    assert process.returncode == 0, err
    problem = tomllib.loads((tmp_path / "x" / "experiment.toml").read_text())["problem"]
    assert (problem["p"], problem["agents"]) == (3, 5)


def test_schemas_are_printed(command):
    assert json.loads(command("schema").out) == json_schema.schema()
    assert "neighbour" in json.loads(command("schema", "agent").out)["properties"]
    command("schema", "agents").refused("did you mean 'agent'?")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("destiny ne", ["network", "new"]),
        ("destiny network hyper", ["hypercube"]),
        ("destiny run --dr", ["--dry"]),
        ("destiny agents ", ["check", "init", "leave", "remove"]),
    ],
)
def test_shells_complete(command, monkeypatch, words, expected):
    monkeypatch.setenv("_DESTINY_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(len(words.split(" ")) - 1))
    assert sorted(command().out.split()) == expected


# ---------------------------------------------------------------------------------------------- dry runs


def test_a_dry_run_writes_nothing_and_says_what_is_sent(command, folder, tmp_path):
    path = folder / "dry.toml"
    path.write_text(document(problem={"center": True}, stop={"rounds": 2000}))
    made = command("run", path, "--dry", "--out", tmp_path / "out")
    assert made.code == 0, made.err
    assert not (tmp_path / "out").exists()
    assert "4 agents hold 41 samples of 6 features, centred" in made.out
    assert "plain messages: each neighbour learns all numbers" in made.out
    assert "nothing was written or sent" in made.out
    # Against a run: 4 links, both ways; the largest message is at least the mean one.
    numbers = int(made.out.split("sends each neighbour up to ")[1].split(" ")[0])
    assert command("run", path, "--out", tmp_path / "out").code == 0
    rows = read(tmp_path / "out").rows
    steps = [(int(row["round"]), int(row["scalars"])) for row in rows]
    (round0, scalars0), (round1, scalars1) = steps[1], steps[-1]
    assert (scalars1 - scalars0) / (round1 - round0) / 8 == numbers


def test_a_dry_run_of_private_sums_says_so(command, folder):
    path = folder / "dry-private.toml"
    path.write_text(document(algorithm=None, network={"kind": "ring"}, messages={"private": True}))
    assert "private messages: every agent learns sums over all" in command("run", path, "--dry").out


def test_a_dry_run_reads_all_data_and_looks_at_the_folder(command, folder, tmp_path):
    path = folder / "dry-bad.toml"
    path.write_text(document(problem={"data": "rows-{agent}.npy"}))
    command("run", path, "--dry").refused("rows-3.npy")
    path.write_text(document())
    (tmp_path / "summary.json").write_text("[]")
    command("run", path, "--dry", "--out", tmp_path).refused("holds another run")
    command("run", path).refused("--out is missing")

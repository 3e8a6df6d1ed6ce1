"""The first five minutes: new experiments work as they are, shells complete, dry runs say what is sent."""

import json
import re
import tomllib

import numpy as np
import pytest
from jsonschema import Draft7Validator

from destiny.experiments import file
from destiny.problems import Centered
from destiny.problems.own_problem import unwrap
from tests.helpers.cli_experiments import document, read, snapshot


def test_it_runs_as_it_is(command, tmp_path):
    for kind in ("pca", "olsr", "sdl"):
        path = tmp_path / kind / "first.toml"
        made = command("new", path, "--kind", kind)
        assert made.code == 0, made.err
        assert made.out == f"{path}\n"
        assert path.read_text(encoding="utf-8").startswith("#:schema ./experiment.schema.json\n")
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
        schema = json.loads((path.parent / "experiment.schema.json").read_text())
        assert schema == file.schema()
        Draft7Validator(schema).validate(tables)
    path = tmp_path / "pca" / "first.toml"
    assert command("run", path, "--out", tmp_path / "out").code == 0
    dry = command("run", path, "--dry").out
    assert "averaged-model: chosen, as about" in dry
    assert "an agent tells neighbors a second-order model of its objective" in dry
    assert read(tmp_path / "out", "averaged-model").entry["converged"]


def test_every_key_has_a_comment_and_every_comment_can_be_used(command, tmp_path):
    """The commented keys replace what they are said to replace."""
    path = tmp_path / "e.toml"
    assert command("new", path, "--agents", 3, "--p", 1, "--network", "complete").code == 0
    text = path.read_text(encoding="utf-8")
    tables = tomllib.loads(text)
    assert (tables["problem"]["agents"], tables["problem"]["p"]) == (3, 1)
    assert tables["network"] == {"kind": "complete"}
    for line in text.splitlines():
        assert not re.match(r"[\w-]+ =", line) or "# " in line, line
    for agent in range(3):
        rows = np.random.default_rng(agent).standard_normal((9, 2))
        lines = ["age;bmi", *(";".join(f"{x:.3f}".replace(".", ",") for x in row) for row in rows)]
        (tmp_path / f"silo-{agent}.csv").write_text("\n".join(lines))
    head, _, tail = text.partition("[network]")
    kept = [line for line in head.splitlines() if not line.startswith("synthetic")]
    used = [line.removeprefix("# ") if re.match(r"# \w+ = ", line) else line for line in kept]
    path.write_text("\n".join(used) + "\n[network]" + tail)
    assert command("run", path, "--dry").code == 0
    centered = unwrap(file.read(path).problem, Centered)
    assert centered is not None
    assert centered.standardize


REFUSED = {
    "kind": (["--kind", "pcb"], "did you mean 'pca'?"),
    "network": (["--network", "rign"], "did you mean 'ring'?"),
    "a network with options": (["--network", "erdos-renyi"], "others need options"),
    "p": (["--p", "21"], "p must"),
    "agents": (["--agents", "0"], "agents"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_mistake_is_refused_and_nothing_is_written(command, tmp_path, case):
    options, named = REFUSED[case]
    command("new", tmp_path / "e.toml", *options).refused(named)
    assert snapshot(tmp_path) == {}


def test_a_folder_is_no_file(command, tmp_path):
    command("new", tmp_path / "study").refused("study.toml")


@pytest.mark.parametrize("name", ["e.toml", "experiment.schema.json"])
def test_what_is_there_is_not_overwritten(command, tmp_path, name):
    (tmp_path / name).write_text("mine")
    command("new", tmp_path / "e.toml").refused(f"{name} is there already")
    assert snapshot(tmp_path) == {name: b"mine"}


def test_schemas_are_printed(command):
    assert json.loads(command("schema").out) == file.schema()
    assert "neighbor" in json.loads(command("schema", "agent").out)["properties"]
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
    assert "4 agents hold 41 samples of 6 features, centered" in made.out
    assert "plain messages: each neighbor learns all numbers" in made.out
    assert "nothing was written or sent" in made.out
    # Against a run: 4 links, both ways; the largest message is at least the mean one.
    numbers = int(made.out.split("sends each neighbor up to ")[1].split(" ")[0])
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

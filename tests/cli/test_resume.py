"""A folder that holds another run, resuming, and checkpoints that are damaged or of another run."""

import json
import shutil

import numpy as np
import pytest

from tests.helpers.cli_experiments import (
    complete,
    data_matrix,
    document,
    read,
    snapshot,
    start_point,
    weight_matrix,
    with_step,
)


@pytest.fixture(scope="module")
def finished(folder, tmp_path_factory):
    """The folder of a run that ended, with checkpoints of steps 20 and 40; copy it before use."""
    file, out = folder / "finished.toml", tmp_path_factory.mktemp("finished") / "out"
    file.write_text(document(), encoding="utf-8")
    complete(file, out)
    return out


@pytest.fixture
def old(finished, tmp_path):
    shutil.copytree(finished, tmp_path / "out")
    return tmp_path / "out"


@pytest.mark.parametrize("left", ["everything", "what a killed run leaves", "the summary", "checkpoints"])
def test_a_folder_that_holds_another_run_is_left_alone(run, old, left):
    if left == "the summary":
        shutil.rmtree(old / "DESTINY")
    elif left != "everything":
        (old / "summary.json").unlink()
        (old / "convergence.png").unlink()
    if left in ("the summary", "checkpoints"):
        (old / "experiment.json").unlink(missing_ok=True)
    before = snapshot(old)
    run(start={"seed": 1}).refused("--out", str(old))
    assert snapshot(old) == before


def test_resuming_a_finished_run_changes_nothing(run, old, finished):
    assert run("--resume").code == 0
    assert read(old).bits == read(finished).bits


def test_resuming_where_nothing_is_starts_anew(run, tmp_path, finished):
    assert run("--resume").code == 0
    assert read(tmp_path / "out").bits == read(finished).bits


def test_a_run_goes_on_when_it_is_given_more_rounds(run, old, tmp_path):
    assert run("--resume", stop={"rounds": 70}).code == 0
    assert run(stop={"rounds": 70}, out=tmp_path / "whole").code == 0
    assert read(old).bits == read(tmp_path / "whole").bits


FOREIGN = {
    "beta": {"algorithm": {"beta": 4.0}},
    "step": with_step(kind="constant", eta=0.02),
    "network": {"network": {"kind": "ring"}},
    "p": {"problem": {"p": 3}},
    "agents": {"problem": {"agents": 3}, "network": {"kind": "ring"}},
    "data": {"problem": {"scale": 1.5}},
    "problem": {"problem": {"kind": "sdl"}},
    "start": {"start": {"seed": 1}},
}


@pytest.mark.parametrize("changes", FOREIGN.values(), ids=FOREIGN)
def test_checkpoints_of_another_run_are_refused(run, old, changes):
    before = snapshot(old)
    run("--resume", **changes).refused(str(old))
    assert snapshot(old) == before


CONTENTS = {
    "data": ({"problem": {"data": "changing.npy"}}, data_matrix(), data_matrix()[::-1]),
    "weights": ({"network": {"weights": "changing.npy"}}, weight_matrix(), np.full((4, 4), 0.25)),
    "start": ({"start": {"seed": None, "file": "changing.npy"}}, start_point(1), start_point(2)),
}


@pytest.mark.parametrize(("changes", "before", "after"), CONTENTS.values(), ids=CONTENTS)
def test_a_run_is_not_resumed_on_files_that_changed(run, folder, tmp_path, changes, before, after):
    np.save(folder / "changing.npy", before)
    assert run(**changes).code == 0
    np.save(folder / "changing.npy", after)
    files = snapshot(tmp_path / "out")
    run("--resume", **changes, stop={"rounds": 70}).refused(str(tmp_path / "out"))
    assert snapshot(tmp_path / "out") == files


@pytest.mark.parametrize("content", [b"", b"[]", b"3", b'{"problem": 3}', b"\xff\xfe"], ids=repr)
def test_a_record_of_the_experiment_that_cannot_be_read_is_no_leave_to_go_on(run, old, content):
    (old / "experiment.json").write_bytes(content)
    before = snapshot(old)
    run("--resume", stop={"rounds": 70}).refused(str(old))
    assert snapshot(old) == before


@pytest.mark.parametrize(
    "changes",
    [{"network": {"kind": "ring"}, "run": {"checkpoint": 0}}, {"algorithm": {"label": "other"}}],
    ids=["without checkpoints", "under another label"],
)
def test_resume_does_not_write_over_the_results_of_another_run(run, old, changes):
    before = snapshot(old)
    run("--resume", **changes).refused(str(old))
    assert snapshot(old) == before


def archive(path):
    with np.load(path) as file:
        return {name: file[name] for name in file.files}


def save_without(name):
    def damage(path):
        np.savez(path, **{key: array for key, array in archive(path).items() if key != name})

    return damage


def save_facts(text):
    def damage(path):
        np.savez(path, **archive(path) | {"facts": np.frombuffer(text, dtype=np.uint8)})

    return damage


def save_without_fact(name):
    def damage(path):
        facts = json.loads(archive(path)["facts"].tobytes())
        del facts[name]
        save_facts(json.dumps(facts).encode())(path)

    return damage


def save_other(name, change):
    def damage(path):
        arrays = archive(path)
        np.savez(path, **arrays | {name: change(arrays[name])})

    return damage


def save_npy(path):
    with path.open("wb") as file:
        np.save(file, np.eye(3))


def flip_compression(path):
    """One bit of the directory at the end of the archive: the method of its first entry."""
    content = bytearray(path.read_bytes())
    content[content.index(b"PK\x01\x02") + 10] ^= 2
    path.write_bytes(content)


def flip_encryption(path):
    content = bytearray(path.read_bytes())
    content[content.index(b"PK\x03\x04") + 6] ^= 1
    content[content.index(b"PK\x01\x02") + 8] ^= 1
    path.write_bytes(content)


def flip_number(path):
    content = bytearray(path.read_bytes())
    content[content.index(b"state/D.npy") + 200] ^= 1
    path.write_bytes(content)


DAMAGE = {
    "empty": lambda path: path.write_bytes(b""),
    "cut short": lambda path: path.write_bytes(path.read_bytes()[:-100]),
    "only the beginning": lambda path: path.write_bytes(path.read_bytes()[:1000]),
    "a text": lambda path: path.write_text("not a checkpoint", encoding="utf-8"),
    "a pickle": lambda path: path.write_bytes(b"\x80\x04N."),
    "a .npy file": save_npy,
    "another archive": lambda path: np.savez(path, X=np.eye(3)),
    "a number flipped": flip_number,
    "compression flipped": flip_compression,
    "encryption flipped": flip_encryption,
    "no facts": save_without("facts"),
    "facts are a list": save_facts(b"[1, 2]"),
    "facts of another version": save_facts(b'{"format": 99}'),
    "no X": save_without("state/X"),
    "no history": save_without("array/history"),
    "no values": save_without("array/values"),
    "no step": save_without_fact("step"),
    "no round": save_without_fact("round"),
    "no identity": save_without_fact("identity"),
    "X of another shape": save_other("state/X", lambda X: X[:, 1:]),
    "X in words": save_other("state/X", lambda X: X.astype("U30")),
    "D of another step": save_other("state/D", lambda D: D + 1e-3),
    "history of another width": save_other("array/history", lambda rows: rows[:, :3]),
    "values of fewer agents": save_other("array/values", lambda values: values[1:]),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_damaged_checkpoints_are_refused(run, old, damage):
    for path in sorted((old / "DESTINY" / "checkpoints").iterdir()):
        damage(path)
    before = snapshot(old)
    run("--resume", stop={"rounds": 70}).refused(str(old / "DESTINY" / "checkpoints"))
    assert snapshot(old) == before


@pytest.mark.parametrize("damage", ["cut short", "compression flipped"])
def test_one_damaged_checkpoint_is_passed_over(run, old, tmp_path, damage):
    newest = old / "DESTINY" / "checkpoints" / "checkpoint-000000040.npz"
    DAMAGE[damage](newest)
    assert run("--resume", stop={"rounds": 70}).code == 0
    assert run(stop={"rounds": 70}, out=tmp_path / "whole").code == 0
    assert read(old).bits == read(tmp_path / "whole").bits
    assert any(newest.name in note for note in read(old).entry["notes"])


def test_what_a_crash_left_half_written_is_not_looked_at(run, old, tmp_path):
    (old / "DESTINY" / "checkpoints" / "checkpoint-000000060.tmp").write_bytes(b"PK\x03\x04 half")
    assert run("--resume", stop={"rounds": 70}).code == 0
    assert run(stop={"rounds": 70}, out=tmp_path / "whole").code == 0
    assert read(old).bits == read(tmp_path / "whole").bits

"""Parts of the MPI engine that need no MPI: who hosts whom, who needs whom, files per agent, launchers."""

import types

import numpy as np
import pytest

import destiny
from destiny.engines import engine_for_command, placement
from destiny.engines.ranks import launch, shared_memory
from destiny.engines.ranks.exchange import Plan, _runs
from destiny.engines.same_settings import plain
from destiny.storage import checkpoint
from destiny.storage.checkpoint import Saved


@pytest.mark.parametrize(("agents", "ranks"), [(1, 1), (7, 3), (32, 5), (12, 12)])
def test_agents_are_dealt_out_evenly_and_in_order(agents, ranks):
    owner = placement.assign_ranks(agents, ranks)
    sizes = np.bincount(owner)
    assert len(owner) == agents
    assert (np.diff(owner) >= 0).all()
    assert len(sizes) == ranks
    assert sizes.max() - sizes.min() <= 1


def test_a_number_a_list_or_a_map_says_otherwise():
    assert placement.assign_ranks(7, 3, per_rank=3).tolist() == [0, 0, 0, 1, 1, 1, 2]
    assert placement.assign_ranks(4, 2, per_rank=[1, 3]).tolist() == [0, 1, 1, 1]
    assert placement.assign_ranks(4, 2, table=[1, 0, 1, 0]).tolist() == [1, 0, 1, 0]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"ranks": 8}, "found 8 ranks for 7 agents; start 7 or fewer"),
        ({"ranks": 2, "per_rank": 3}, "start 3 ranks"),
        ({"ranks": 2, "per_rank": 0}, "at least 1"),
        ({"ranks": 2, "per_rank": [3, 3]}, "add up to 7 agents"),
        ({"ranks": 2, "per_rank": [7, 0]}, "each at least 1"),
        ({"ranks": 2, "per_rank": "all"}, "whole number"),
        ({"ranks": 2, "table": [0, 1]}, "the rank of each of 7 agents"),
        ({"ranks": 3, "table": [0, 1, 0, 1, 0, 1, 0]}, "the ranks 0 to 2, each at least once"),
        ({"ranks": 2, "per_rank": 4, "table": [0] * 7}, "not both"),
    ],
)
def test_a_placement_that_cannot_be_is_refused(arguments, told):
    with pytest.raises(destiny.SettingsError, match=told):
        placement.assign_ranks(7, **arguments)


def test_numbers_are_spelled_in_short():
    assert placement.spell([3]) == "3"
    assert placement.spell(np.array([0, 1, 4, 5, 6, 7, 9])) == "0, 1, 4 to 7, 9"


@pytest.mark.parametrize("name", ["ring", "star", "erdos-renyi", "matchings"])
@pytest.mark.parametrize("ranks", [1, 2, 3, 5])
def test_what_one_rank_sends_another_expects_and_together_they_mix(name, ranks):
    """Against the dense product: messages carried by hand between the plans of all ranks."""
    rng = np.random.default_rng(ranks)
    if name == "matchings":
        W = destiny.networks.matchings(destiny.networks.ring(11), seed=1).at(4)
    else:
        options = {"prob": 0.4, "seed": 0} if name == "erdos-renyi" else {}
        W = destiny.networks.build(name, 11, **options).W
    for owner in (placement.assign_ranks(11, ranks), rng.permutation(placement.assign_ranks(11, ranks))):
        X = rng.standard_normal((11, 3))
        plans = [Plan(W, owner, rank) for rank in range(ranks)]
        for rank, plan in enumerate(plans):
            heard = np.full((len(plan.senders), 3), np.nan)
            heard[plan.own] = X[plan.ids]
            for other, agents in plan.receive.items():
                assert (plans[other].send[rank] == agents).all()
                heard[np.searchsorted(plan.senders, agents)] = X[agents]
            assert (plan.rows @ heard == (W @ X)[plan.ids]).all()  # to the bit: same order of addition
            neighbors = set(W[plan.ids].indices.tolist())
            assert set(plan.senders.tolist()) == neighbors | set(plan.ids.tolist())  # and nobody else


def test_runs_cover_all_agents_and_no_message_is_too_long(monkeypatch):
    agents = np.array([0, 1, 2, 3, 4, 7, 8, 11])
    assert [run.tolist() for run in _runs(agents, 5)] == [[0, 1, 2, 3, 4], [7, 8], [11]]
    monkeypatch.setattr("destiny.engines.ranks.exchange.LARGEST", 10)
    assert [run.tolist() for run in _runs(agents, 5)] == [[0, 1], [2, 3], [4], [7, 8], [11]]
    assert all(len(run) == 1 for run in _runs(agents, 100))


def test_facts_are_named_by_where_they_stand():
    assert plain({"a": 1, "b": {"c": [2], "d": {"e": None}}}) == {"a": 1, "b.c": [2], "b.d.e": None}


class Team:
    """Two processes that write a checkpoint one after the other."""

    def __init__(self, folder, owners=((0, 2), (1, 3))):
        self.folder, self.owners = folder, owners

    def save(self, step, finish=True):
        place = checkpoint.checkpoint_path(self.folder, step)
        rows = np.arange(4.0)[:, None] + step
        for ids in self.owners:
            state = {"X": rows[list(ids)], "pace.eta": rows[list(ids), 0]}
            checkpoint.sets.save_agents(place, step, ids, state)
        if not finish:
            return
        facts = dict.fromkeys(checkpoint.FACTS) | {"step": step}
        saved = Saved({}, {"history": np.ones((1, 8)), "values": np.zeros(4)}, facts)
        checkpoint.sets.save_run(place, checkpoint.run_arrays(saved), facts)
        for ids in self.owners:
            checkpoint.prune(self.folder, checkpoint.names_to_keep(self.folder, step), ids)


def names(folder):
    return sorted(p.name for p in folder.iterdir())


def test_sets_are_kept_two_by_two_and_read_by_whoever_hosts_an_agent(tmp_path):
    team = Team(tmp_path)
    for step in (10, 20, 30):
        team.save(step)
    assert names(tmp_path) == ["checkpoint-000000020", "checkpoint-000000030"]
    saved, told = checkpoint.newest(tmp_path)
    assert told == []
    assert saved.state["X"][:, 0].tolist() == [30, 31, 32, 33]
    assert saved.state["pace.eta"].shape == (4,)
    assert saved.select(np.array([1, 3])).state["X"][:, 0].tolist() == [31, 33]
    some = checkpoint.sets.load_agents(tmp_path / "checkpoint-000000020", 20, [3, 0])
    assert some["X"][:, 0].tolist() == [23, 20]


def test_a_set_that_was_not_finished_counts_for_nothing_and_goes_with_the_next(tmp_path):
    team = Team(tmp_path)
    team.save(10)
    team.save(20, finish=False)
    team.save(25, finish=False)
    assert checkpoint.newest(tmp_path)[0].facts["step"] == 10
    team.save(20)
    assert names(tmp_path) == ["checkpoint-000000010", "checkpoint-000000020"]


def test_files_and_sets_take_turns_in_one_folder(tmp_path):
    team = Team(tmp_path)
    team.save(10)
    team.save(20)
    saved = checkpoint.newest(tmp_path)[0]
    checkpoint.save(tmp_path, Saved(saved.state, saved.arrays, saved.facts | {"step": 30}))
    assert names(tmp_path) == ["checkpoint-000000020", "checkpoint-000000030.npz"]
    team.save(40)
    assert names(tmp_path) == ["checkpoint-000000030.npz", "checkpoint-000000040"]


def test_a_damaged_or_missing_agent_s_file_leads_to_the_set_before(tmp_path):
    team = Team(tmp_path)
    team.save(10)
    team.save(20)
    victim = tmp_path / "checkpoint-000000020" / "agent-000002.npz"
    for damage in (lambda: victim.write_bytes(victim.read_bytes()[:-40]), victim.unlink):
        damage()
        saved, (told,) = checkpoint.newest(tmp_path)
        assert saved.facts["step"] == 10
        assert "agent-000002.npz is" in told
    other = tmp_path / "checkpoint-000000010" / "agent-000001.npz"
    (tmp_path / "checkpoint-000000010" / "agent-000002.npz").write_bytes(other.read_bytes())
    with pytest.raises(destiny.CheckpointError, match=r"no checkpoint in .* can be read"):
        checkpoint.newest(tmp_path)


@pytest.fixture
def clean(monkeypatch):
    for name in launch.LAUNCHERS:
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


@pytest.mark.parametrize(
    ("told", "asked", "engine"),
    [
        ({}, None, "local"),
        ({}, "mpi", "mpi"),
        ({"PMI_SIZE": "1"}, None, "mpi"),
        ({"PMI_SIZE": "1"}, "local", "local"),
        ({"OMPI_COMM_WORLD_SIZE": "8"}, None, "mpi"),
        ({"SLURM_STEP_NUM_TASKS": "8"}, None, "mpi"),
        ({"SLURM_STEP_NUM_TASKS": "1"}, None, "local"),  # srun for one task has nothing to do with MPI
        ({"PMI_SIZE": "many"}, None, "local"),
    ],
)
def test_the_engine_is_chosen_by_the_launcher_unless_asked_for(clean, told, asked, engine):
    for name, value in told.items():
        clean.setenv(name, value)
    assert engine_for_command(asked) == engine


def test_an_unknown_engine_is_refused():
    with pytest.raises(destiny.SettingsError, match="engine must be local or mpi; found 'ray'"):
        engine_for_command("ray")


def library(size, name="MPICH Version: 5.0", started=False):
    """An MPI library that is asked for its name and for the size of its world."""
    world = types.SimpleNamespace(size=size)
    return types.SimpleNamespace(
        Is_initialized=lambda: started,
        Init_thread=lambda level: None,
        THREAD_MULTIPLE=3,
        COMM_WORLD=world,
        Get_library_version=lambda: name + ", built somewhere\nmore",
    )


@pytest.mark.parametrize(
    ("told", "found", "right"),
    [
        ({}, library(1), True),
        ({"PMI_SIZE": "4"}, library(4), True),
        ({"PMI_SIZE": "4"}, library(1, "Open MPI v5"), False),
        ({"OMPI_COMM_WORLD_SIZE": "4"}, library(4, "Open MPI v5"), True),
        ({"OMPI_COMM_WORLD_SIZE": "4"}, library(1), False),
        ({"SLURM_STEP_NUM_TASKS": "4"}, library(1), False),
        # mpiexec within srun or salloc: two hosts, two ranks on each
        ({"SLURM_STEP_NUM_TASKS": "2", "PMI_SIZE": "4"}, library(4), True),
        # many runs side by side, each with an mpiexec of its own
        ({"SLURM_STEP_NUM_TASKS": "8", "PMI_SIZE": "1"}, library(1), True),
    ],
)
def test_a_launcher_and_a_library_that_do_not_fit_are_told_apart(clean, told, found, right):
    for name, value in told.items():
        clean.setenv(name, value)
    clean.setattr(launch, "_library", lambda: found)
    if right:
        assert launch.load() is found
    else:
        with pytest.raises(destiny.SettingsError, match="launcher and library belong to different MPIs"):
            launch.load()


def test_without_mpi4py_the_extra_is_named(clean):
    clean.setattr(launch.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(destiny.MissingExtraError, match=r'pip install "\.\[mpi\]" .* and pip install mpich'):
        destiny.engines.mpi()


@pytest.mark.parametrize("deadline", [-1, "soon", float("nan"), True])
def test_a_deadline_must_be_a_number_of_seconds(deadline):
    pytest.importorskip("mpi4py", reason="mpi4py is not installed here")
    with pytest.raises(destiny.SettingsError, match="deadline must be a number of seconds >= 0"):
        destiny.engines.mpi(deadline=deadline)


def test_memory_is_shared_only_where_the_system_has_enough(monkeypatch, tmp_path):
    monkeypatch.setattr(shared_memory, "SYSTEM", tmp_path / "none")
    assert not shared_memory.has_room(2, 3, 1)
    monkeypatch.setattr(shared_memory, "SYSTEM", tmp_path)
    room = types.SimpleNamespace(f_bavail=2 * 2 * 8 * 5 * (16 * 30 + 2 * 100), f_frsize=1)
    monkeypatch.setattr(shared_memory.os, "statvfs", lambda _: room)
    assert shared_memory.has_room(5, 10, 3)
    assert not shared_memory.has_room(6, 10, 3)
    assert not shared_memory.has_room(5, 11, 3)

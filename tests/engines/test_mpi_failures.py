"""However a job fails, it ends in time and in words; and what was interrupted resumes to the same bits."""

import json
import os
import signal

import numpy as np
import pytest

from tests.helpers.mpi_launcher import MPICH, need
from tests.helpers.result_folders import same_files

EXPERIMENT = """
[problem]
kind = "pca"
synthetic = {{ n = 20, m = 300, xi = 0.8, seed = 0 }}
p = 2
agents = 7
[network]
kind = "{kind}"
loss = 0.2
[[algorithm]]
kind = "destiny"
[stop]
rounds = {rounds}
tolerance = 0
[run]
checkpoint = {checkpoint}
every = 40
"""


@pytest.fixture
def mpi():
    return need(MPICH)


@pytest.fixture
def files(tmp_path):
    """Experiments that differ in their end or in their network."""

    def write(name, rounds=1500, kind="ring", checkpoint=100):
        path = tmp_path / name
        path.write_text(EXPERIMENT.format(rounds=rounds, kind=kind, checkpoint=checkpoint))
        return path

    return write


def steps(out):
    """Steps of the finished checkpoints."""
    return sorted(int(p.parent.name[-9:]) for p in out.glob("destiny/checkpoints/*/run.npz"))


def test_what_is_interrupted_resumes_on_other_ranks_to_the_same_bits(mpi, files, tmp_path):
    """A signal to one rank of 3; 4 ranks go on until one is killed; then 2 ranks, one process, 3 ranks."""
    endless, out = files("endless.toml", rounds=10**7), tmp_path / "out"
    job = mpi.start(mpi.destiny(3, "run", endless, "--out", out))
    job.wait_for(lambda: len(steps(out)) == 2)
    os.kill(job.ranks()[1], signal.SIGTERM)
    job.end()
    assert job.code == 143, job.output
    assert job.output.count("interrupted by SIGTERM") == 1
    assert len(steps(out)) == 2  # two are kept, and the last is of the moment of the signal
    reached = steps(out)[-1]

    job = mpi.start(mpi.destiny(4, "run", endless, "--out", out, "--resume"))
    job.wait_for(lambda: steps(out)[-1] > reached + 150)
    os.kill(job.ranks()[2], signal.SIGKILL)
    assert job.end().code != 0
    assert job.seconds < 60  # the launcher sees it; --deadline is ten minutes here
    reached = steps(out)[-1]

    rounds = reached
    for ranks, kind in ((2, "set"), (0, "file"), (3, "set")):
        rounds += 230
        command = ["run", files("end.toml", rounds=rounds), "--out", out, "--resume"]
        words = mpi.destiny(ranks, *command) if ranks else [str(mpi.bin / "destiny"), *map(str, command)]
        job = mpi.run(words)
        assert job.code == 0, job.output
        newest = max((out / "destiny" / "checkpoints").iterdir(), key=lambda p: p.stem)
        assert newest.is_dir() == (kind == "set")
    whole = [str(mpi.bin / "destiny"), "run", str(tmp_path / "end.toml"), "--out", str(tmp_path / "whole")]
    assert mpi.run(whole).code == 0
    # The last step of each leg was measured on top of every 40th: those rows are not in a run never stopped.
    kept = drop_extra_rows(out, tmp_path / "whole")
    assert kept > 10
    same_files(out, tmp_path / "whole")


def drop_extra_rows(out, whole):
    """Take the measurements at interruptions out of a history; the number of those left."""
    path = out / "destiny" / "history.csv"
    asked = {line.split(",")[0] for line in (whole / "destiny" / "history.csv").read_text().splitlines()}
    lines = [line for line in path.read_text().splitlines() if line.split(",")[0] in asked]
    path.write_text("\n".join(lines) + "\n")
    return len(lines)


def test_a_rank_that_stands_still_ends_the_job_at_the_deadline(mpi, files, tmp_path):
    out = tmp_path / "out"
    words = ("run", files("e.toml", rounds=10**7), "--out", out, "--deadline", "8")
    job = mpi.start(mpi.destiny(3, *words))
    job.wait_for(lambda: steps(out))
    stopped = job.ranks()[1]
    os.kill(stopped, signal.SIGSTOP)
    job.end()
    assert job.code == 75, job.output
    assert job.seconds < 60
    assert "has waited 8 s for" in job.output
    assert "rank 1" in job.output or "one of the other ranks" in job.output  # while measuring
    job.gone([stopped])


PROGRAM = """
import sys, numpy as np, destiny
how = sys.argv[1]
engine = destiny.engines.mpi(deadline=60)

class Broken:
    def __init__(self, agent): self.agent, self.left = agent, 30
    def value(self, X): return float(X[0, 0])
    def gradient(self, X):
        self.left -= 1
        if self.agent == 3 and self.left == 0:
            if how == "exception": raise ZeroDivisionError("agent 3 is broken")
            sys.exit(3)
        return np.eye(5)[:, :1] * (1 + self.agent)

if how == "outside" and engine.ranks.rank == 1: raise OSError("before anything")
destiny.solve([Broken(i) for i in range(4)], destiny.networks.ring(4), tolerance=0.0,
              start=destiny.stiefel.random_point(5, 1), rounds=10**6, engine=engine)
"""


@pytest.mark.parametrize(
    ("how", "code", "told"),
    [
        ("exception", 1, "ZeroDivisionError: agent 3 is broken"),
        ("exit", 3, ""),
        ("outside", 1, "OSError: before anything"),
    ],
)
def test_one_rank_s_end_is_the_end_of_all_in_plain_python(mpi, tmp_path, how, code, told):
    (tmp_path / "program.py").write_text(PROGRAM)
    job = mpi.run(mpi.command(3, mpi.bin / "python", tmp_path / "program.py", how))
    assert job.code == code, job.output
    assert told in job.output
    assert job.output.count("Traceback") == (how != "exit")
    assert job.seconds < 55  # not by the deadline


def test_ranks_that_were_given_different_files_refuse_naming_the_difference(mpi, files, tmp_path):
    out = tmp_path / "out"
    command = mpi.destiny(2, "run", files("a.toml"), "--out", out)
    command += [":", *mpi.destiny(1, "run", files("b.toml", kind="path"), "--out", out)[1:]]
    job = mpi.run(command)
    assert job.code == 2
    assert 'experiment.network.kind is "ring" on rank 0 but "path" on rank 2' in job.output
    assert job.output.count("destiny:") == 1
    assert not out.exists()


def test_a_script_whose_ranks_differ_is_refused(mpi, tmp_path):
    (tmp_path / "program.py").write_text(
        "import destiny\n"
        "from destiny import problems, networks\n"
        "engine = destiny.engines.mpi(deadline=60)\n"
        "problem = problems.pca.synthetic(n=6, m=40, p=2, xi=0.5, agents=4, seed=0)\n"
        "for wrong in ('network', 'step', 'start'):\n"
        "    last = engine.ranks.rank == engine.ranks.size - 1\n"
        "    network = networks.path(4) if wrong == 'network' and last else networks.ring(4)\n"
        "    step = destiny.steps.Constant(0.2 if wrong == 'step' and last else 0.1)\n"
        "    seed = 1 if wrong == 'start' and last else 0\n"
        "    try:\n"
        "        destiny.solve(problem, network, destiny.Destiny(1.0, step), seed=seed, engine=engine)\n"
        "    except destiny.SettingsError as error:\n"
        "        if last: print(error)\n"
    )
    job = mpi.run(mpi.command(2, mpi.bin / "python", tmp_path / "program.py"))
    assert job.code == 0, job.output
    network, step, start = job.output.splitlines()
    assert network.startswith("all ranks must be given the same run: network is")
    assert "algorithm.step_size.eta is 0.1 on rank 0 but 0.2 on rank 1" in step
    assert "the start on rank 1 is not that on rank 0" in start


def test_what_cannot_run_is_said_once_and_nothing_is_written(mpi, files, tmp_path):
    out = tmp_path / "out"
    job = mpi.run(mpi.destiny(4, "run", tmp_path / "none.toml", "--out", out))
    assert job.code == 2
    assert job.output.count("destiny: cannot read") == 1
    text = files("small.toml").read_text().replace("agents = 7", "agents = 3")
    (tmp_path / "small.toml").write_text(text)
    job = mpi.run(mpi.destiny(4, "run", tmp_path / "small.toml", "--out", out))
    assert job.code == 2
    assert job.output.count("found 4 ranks for 3 agents; start 3 or fewer") == 1
    assert not out.exists()


def test_processes_that_do_not_see_each_other_are_refused_with_the_fix(mpi, files, tmp_path):
    """As srun --mpi=none starts them, and as Open MPI's mpiexec starts a program with MPICH's library."""
    for name, fix in (("SLURM_STEP_NUM_TASKS", "--mpi=pmi2"), ("OMPI_COMM_WORLD_SIZE", "the mpiexec beside")):
        words = [str(mpi.bin / "destiny"), "run", str(files("e.toml")), "--out", str(tmp_path / "out")]
        job = mpi.run(words, env=mpi.environ(**{name: "4"}))
        assert job.code == 2
        assert job.output.startswith("destiny: 4 processes were started by"), job.output
        assert fix in job.output
        job = mpi.run([*words, "--engine", "local"], env=mpi.environ(**{name: "4"}))
        assert (job.code, "they would all write the same results" in job.output) == (2, True)
    assert not (tmp_path / "out").exists()


def test_a_missing_library_says_what_to_install(mpi, files, tmp_path):
    words = [str(mpi.bin / "destiny"), "run", str(files("e.toml")), "--out", str(tmp_path / "out")]
    broken = mpi.environ(MPI4PY_LIBMPI=str(tmp_path / "libmpi.so"))
    job = mpi.run([*words, "--engine", "mpi"], env=broken)
    assert job.code == 2
    assert 'pip install ".[mpi]" in a checkout of DESTINY and pip install mpich' in job.output
    assert "Traceback" not in job.output


def test_a_large_message_passes_and_one_rank_is_enough_for_one_agent(mpi, tmp_path):
    """n p = 10^6, two arrays each: 16 MB to every neighbor and back at the same time."""
    (tmp_path / "program.py").write_text(
        "import numpy as np, destiny\n"
        "class Linear:\n"
        "    def __init__(self, agent): self.C = np.full((500_000, 2), 1.0 + agent)\n"
        "    def value(self, X): return float(np.sum(self.C * X))\n"
        "    def gradient(self, X): return self.C\n"
        "engine = destiny.engines.mpi(deadline=120)\n"
        "fixed = destiny.Destiny(1.0, destiny.steps.Constant(1e-4))\n"
        "run = lambda engine: destiny.solve([Linear(i) for i in range(3)], destiny.networks.complete(3),\n"
        "    fixed, start=np.eye(500_000, 2), rounds=3, every=0, engine=engine)\n"
        "result = run(engine)\n"
        "if engine.leader:\n"
        "    print((result.agents == run(destiny.engines.local(1)).agents).all(), result.rounds)\n"
    )
    job = mpi.run(mpi.command(3, mpi.bin / "python", tmp_path / "program.py"))
    assert (job.code, job.output) == (0, "True 3\n")
    experiment = {"problem": 'kind = "pca"\nsynthetic = { n = 5, m = 9, xi = 0.5 }\np = 1\nagents = 1'}
    text = "\n".join(f"[{name}]\n{lines}" for name, lines in experiment.items())
    (tmp_path / "one.toml").write_text(text + '\n[network]\nkind = "complete"\n')
    job = mpi.run(mpi.destiny(1, "run", tmp_path / "one.toml", "--out", tmp_path / "one"))
    assert job.code == 0, job.output
    (entry,) = json.loads((tmp_path / "one" / "summary.json").read_text())
    assert entry["converged"]
    assert entry["scalars"] == 0
    with np.load(tmp_path / "one" / entry["label"] / "solution.npz") as file:
        assert file["X"].shape == (5, 1)


def test_ranks_that_deal_agents_out_differently_are_refused(mpi, tmp_path):
    """Each would host the agents it believes to be its own: some twice, some nowhere."""
    (tmp_path / "script.py").write_text(
        "import os, destiny\n"
        "mine = [1, 1, 0, 0] if os.environ['PMI_RANK'] == '1' else [0, 0, 1, 1]\n"
        "engine = destiny.engines.mpi(map=mine, deadline=20)\n"
        "problem = destiny.problems.pca.synthetic(n=12, m=80, p=2, xi=0.9, agents=4, seed=0)\n"
        "destiny.solve(problem, destiny.networks.ring(4), engine=engine, rounds=40)\n"
    )
    job = mpi.run(mpi.command(2, mpi.bin / "python", tmp_path / "script.py"))
    assert job.code != 0
    assert "who hosts whom is [0, 0, 1, 1] on rank 0 but [1, 1, 0, 0] on rank 1" in job.output


def test_a_rank_that_fails_before_mpi_starts_ends_the_others_at_the_deadline(mpi, tmp_path):
    (tmp_path / "script.py").write_text(
        "import os, destiny\n"
        "if os.environ['PMI_RANK'] == '1':\n"
        "    raise FileNotFoundError('no data on rank 1')\n"
        "destiny.engines.mpi(deadline=3)\n"
    )
    job = mpi.run(mpi.command(2, mpi.bin / "python", tmp_path / "script.py"))
    assert job.code != 0
    assert "no data on rank 1" in job.output
    assert job.seconds < 25


def test_ranks_that_run_ahead_keep_their_checkpoints(mpi, files, tmp_path):
    """A path of four ranks that saves after every step: a rank may be several steps ahead of another."""
    path = files("often.toml", rounds=60, kind="path", checkpoint=1)
    job = mpi.run(mpi.destiny(4, "run", path, "--out", tmp_path / "out"))
    assert job.code == 0, job.output
    assert len(steps(tmp_path / "out")) == 2


def test_data_refused_by_one_rank_leave_nothing_behind(mpi, tmp_path):
    rng = np.random.default_rng(0)
    for agent in range(4):
        A = rng.standard_normal((20, 10))
        A[0, 0] = np.nan if agent == 3 else A[0, 0]
        np.save(tmp_path / f"silo-{agent}.npy", A)
    (tmp_path / "e.toml").write_text(
        '[problem]\nkind = "pca"\ndata = "silo-{agent}.npy"\np = 2\nagents = 4\n[network]\nkind = "ring"\n'
        "[mpi]\nagents-per-rank = [3, 1]\n"
    )
    job = mpi.run(mpi.destiny(2, "run", tmp_path / "e.toml", "--out", tmp_path / "out"))
    assert job.code == 2, job.output
    assert not (tmp_path / "out").exists()

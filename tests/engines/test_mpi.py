"""The same bits on any number of ranks, in one process, under another MPI and on two hosts."""

import os
import subprocess

import numpy as np
import pytest

import destiny
from destiny.experiments import result_folder
from tests.helpers import mpi_cases
from tests.helpers.mpi_launcher import MPICH, OPEN_MPI, need, need_hosts
from tests.helpers.result_folders import same_files

# Network namespaces are of the whole machine: other tests may be running on it.
FIRST_HOST, SECOND_HOST = (f"destiny-{os.getpid()}-{name}" for name in "ab")
WAYS = {"evenly": mpi_cases.cases(), "scattered": mpi_cases.SCATTERED, "messages": mpi_cases.SCATTERED}


@pytest.fixture(scope="module")
def alone():
    """All cases in one process."""
    return {
        name: destiny.solve(problem, network, algorithm, engine=destiny.engines.local(1), **options)
        for name, (problem, network, algorithm, options) in mpi_cases.cases().items()
    }


def compare(folder, ranks, alone):
    for way, names in WAYS.items():
        for name in names:
            hosted = []
            for rank in range(ranks):
                with np.load(folder / f"{way} {name} {rank}.npz") as file:
                    found = dict(file)
                ids, agents = found.pop("ids"), found.pop("agents")
                hosted += ids.tolist()
                rows = slice(None) if rank == 0 else ids
                assert np.array_equal(agents, alone[name].agents[rows], equal_nan=True), (way, name, rank)
                expected = mpi_cases.facts(alone[name], ids)
                assert found.keys() == expected.keys()
                for key, value in expected.items():
                    same = np.array_equal(found[key], value, equal_nan=value.dtype.kind == "f")
                    assert same, (way, name, rank, key)
            assert sorted(hosted) == list(range(mpi_cases.AGENTS))


@pytest.mark.parametrize("ranks", [1, 3, 4])  # the first alone, an uneven share, more than cores
def test_every_case_has_the_same_bits(ranks, alone, tmp_path):
    mpi = need(MPICH)
    job = mpi.run(mpi.command(ranks, mpi.bin / "python", "-m", "tests.helpers.mpi_cases", tmp_path))
    assert job.code == 0, job.output
    assert job.output == "", "a library says nothing, and MPI has no request left to complain of"
    compare(tmp_path, ranks, alone)
    # The cases are worth comparing: they end in different ways.
    reasons = {name: result.reason.split(":")[0] for name, result in alone.items()}
    assert (reasons["agree"], reasons["diverges"], reasons["sdl"]) == (
        "converged",
        "diverged",
        "out of rounds",
    )
    assert reasons["rules"] == "step 17"


def test_open_mpi_has_the_same_bits(alone, tmp_path):
    if (why := OPEN_MPI.why_not) is not None:
        pytest.skip(f"no Open MPI to test with: {why}")
    job = OPEN_MPI.run(
        OPEN_MPI.command(3, OPEN_MPI.bin / "python", "-m", "tests.helpers.mpi_cases", tmp_path)
    )
    assert job.code == 0, job.output
    compare(tmp_path, 3, alone)


EXPERIMENT = """
[problem]
kind = "pca"
data = "silo-{agent}.npy"
p = 2
agents = 6
[network]
kind = "ring"
[[algorithm]]
kind = "destiny"
[stop]
rounds = 100
[run]
checkpoint = 30
[mpi]
agents-per-rank = [2, 4]
"""


@pytest.fixture
def two_places(tmp_path):
    """The same experiment in two folders, each with some agents' files only, and in a third with all."""
    places = {"here": range(2), "there": range(2, 6), "all": range(6)}
    for name, agents in places.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "e.toml").write_text(EXPERIMENT)
        for agent in agents:
            silo = np.random.default_rng(agent).standard_normal((10 + agent, 8))
            np.save(tmp_path / name / f"silo-{agent}.npy", silo)
    return tmp_path


def test_data_stay_where_they_are(two_places):
    """Each rank has its own agents' files and no others: as on two hosts without a shared disk."""
    mpi = need(MPICH)
    command = mpi.destiny(1, "run", two_places / "here" / "e.toml", "--out", two_places / "out")
    command += [":", *mpi.destiny(1, "run", two_places / "there" / "e.toml", "--out", two_places / "out")[1:]]
    job = mpi.run(command)
    assert job.code == 0, job.output
    assert job.output.count("out of rounds: 100 of 100 used") == 1  # said once
    alone = [mpi.bin / "destiny", "run", two_places / "all" / "e.toml", "--out", two_places / "alone"]
    subprocess.run(alone, check=True, capture_output=True, env=mpi.environ())
    same_files(two_places / "out", two_places / "alone")
    written = {str(p.relative_to(two_places / "out")) for p in (two_places / "out").rglob("*") if p.is_file()}
    sets = {
        f"destiny/checkpoints/checkpoint-{step:09d}/{name}.npz"
        for step in (60, 80)
        for name in ("run", *(f"agent-{i:06d}" for i in range(6)))
    }
    files = {*result_folder.FILES, "destiny/history.csv", "destiny/solution.npz"}
    assert written == sets | files - {result_folder.STATUS}  # which is there while a run goes on


@pytest.fixture
def hosts(two_places):
    """Two network namespaces joined by a cable: TCP between them, no shared memory, no shared data."""
    mpi = need(MPICH)
    need_hosts()
    spaces = {"10.77.0.1": FIRST_HOST, "10.77.0.2": SECOND_HOST}
    ssh = two_places / "ssh"  # what hydra calls to start its helper on a host
    ssh.write_text(
        '#!/bin/sh\nwhile [ "${1#-}" != "$1" ]; do shift; done\nhost=$1; shift\n'
        f"case $host in 10.77.0.1) at={FIRST_HOST};; *) at={SECOND_HOST};; esac\n"
        'exec ip netns exec $at sh -c "$*"\n'
    )
    start = two_places / "start"  # each host looks into its own folder
    start.write_text(
        "#!/bin/sh\ncase $(ip -o -4 addr show) in *10.77.0.1*) at=here;; *) at=there;; esac\n"
        f'exec {mpi.bin}/destiny run {two_places}/$at/e.toml --out {two_places}/out "$@"\n'
    )
    for script in (ssh, start):
        script.chmod(0o755)

    def begin(*options):
        words = [
            "-launcher",
            "ssh",
            "-launcher-exec",
            ssh,
            "-hosts",
            ",".join(spaces),
            "-ppn",
            "1",
            "-n",
            "2",
        ]
        command = ["ip", "netns", "exec", FIRST_HOST, mpi.bin / "mpiexec", *words, start, *options]
        return mpi.start([*map(str, command)], env=mpi.environ(MPIR_CVAR_NOLOCAL="1", UCX_TLS="tcp"))

    try:
        for space in spaces.values():
            ip(f"netns add {space}")
        ip(f"link add destiny-va netns {FIRST_HOST} type veth peer name destiny-vb netns {SECOND_HOST}")
        for (address, space), cable in zip(spaces.items(), ("destiny-va", "destiny-vb"), strict=True):
            ip(f"-n {space} addr add {address}/24 dev {cable}")
            for device in (cable, "lo"):
                ip(f"-n {space} link set {device} up")
        yield begin
    finally:
        for space in spaces.values():
            subprocess.run(["ip", "netns", "del", space], check=False, capture_output=True)


def ip(words):
    subprocess.run(["ip", *words.split()], check=True)


def end_or_skip(job):
    """Wait for a job; skip where MPI's transport finds no way between two network namespaces."""
    try:
        return job.end(60)
    except pytest.fail.Exception as error:
        if "no active messages transport" in str(error):
            pytest.skip("MPI finds no route from one network namespace to the other on this machine")
        raise


def test_two_hosts_have_the_same_bits_and_end_when_the_cable_is_cut(hosts, two_places):
    mpi = need(MPICH)
    job = end_or_skip(hosts())
    assert job.code == 0, job.output
    alone = [mpi.bin / "destiny", "run", two_places / "all" / "e.toml", "--out", two_places / "alone"]
    subprocess.run(alone, check=True, capture_output=True, env=mpi.environ())
    same_files(two_places / "out", two_places / "alone")

    for place in ("here", "there"):
        endless = EXPERIMENT.replace("rounds = 100", "rounds = 10000000\ntolerance = 0")
        (two_places / place / "e.toml").write_text(endless)
    job = hosts("--resume", "--deadline", "4")
    last = two_places / "out" / "destiny" / "checkpoints" / "checkpoint-000000120" / "run.npz"
    job.wait_for(last.exists)
    ranks = job.ranks()
    ip(f"-n {FIRST_HOST} link set destiny-va down")
    job.end()
    assert job.code == 75, job.output
    assert "rank 0 has waited 4 s for" in job.output
    job.gone(ranks)  # on both sides of the cut

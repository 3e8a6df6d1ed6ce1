"""Parties of agents for tests: their files, certificates and processes, and the answer they must find."""

from __future__ import annotations

import ctypes
import json
import os
import random
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
import tomllib
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path

import numpy as np

import destiny
from destiny import agents
from destiny.agents import scaffold
from destiny.agents.certificates import Authority, write
from destiny.agents.transport import messages
from destiny.config.problem import AgentProblem
from destiny.config.tables import read
from destiny.config.toml_text import to_value
from destiny.experiments import file as experiment
from destiny.run.own import as_algorithm

PATIENCE = 240  # seconds before a test calls something hung; machines are shared
COMMAND = [sys.executable, "-m", "destiny", "agent"]

PROBLEM = 'kind = "pca"\nsynthetic = { n = 12, m = 90, xi = 0.7, seed = 0 }\np = 3'


@cache
def authority(name: str = "ours") -> Authority:
    return Authority.new(name)


def free_host() -> str:
    """A loopback address nobody else uses: any port will do there."""
    a, b, c = (random.SystemRandom().randrange(1, 255) for _ in range(3))
    return f"127.{a}.{b}.{c}"


@dataclass
class Party:
    """Agents of a network in one folder; agent i listens on port 7000 + i."""

    folder: Path
    network: destiny.networks.Network
    problem: str = PROBLEM
    algorithm: str = 'kind = "destiny"'
    stop: str = "rounds = 3000\ntolerance = 1e-6"
    run: str = "checkpoint = 20"
    messages: str = "private = false"
    whole: str = ""
    """A [network] table, where all agents know the network."""
    deadline: float = 60
    host: str = field(default_factory=free_host)
    hosts: list[str] | None = None
    crl: bytes | None = None

    def __post_init__(self) -> None:
        if "private = true" in self.messages and not self.whole:  # as `destiny agents init` writes it
            self.whole = f'[network]\nkind = "edges"\nedges = {self.network.edges.tolist()}'
        for i in range(self.size):
            self.write(i)

    @property
    def size(self) -> int:
        return self.network.agents

    def name(self, i: int) -> str:
        return f"agent-{i}"

    def at(self, i: int) -> str:
        return self.host if self.hosts is None else self.hosts[i]

    def home(self, i: int) -> Path:
        return self.folder / self.name(i)

    def out(self, i: int) -> Path:
        return self.home(i) / "results"

    def write(self, i: int, **changes: str) -> None:
        """The file of one agent, with some of its parts changed."""
        home = self.home(i)
        if not home.exists():
            certificate, key = authority().issue(self.name(i), [self.at(i)])
            write(home / "ca.pem", authority().pem)
            write(home / "certificate.pem", certificate)
            write(home / "key.pem", key, secret=True)
        if self.crl is not None:
            (home / "crl.pem").write_bytes(self.crl)
        parts = {
            "problem": self.problem,
            "algorithm": self.told,
            "stop": self.stop,
            "run": self.run,
            "id": "run-1",
            "deadline": str(self.deadline),
            "tls": 'crl = "crl.pem"' if self.crl else "",
            "agent": "",
            "start": "seed = 0",
            "messages": self.messages,
        } | changes
        edges = self.network.edges
        linked = sorted(int(edge.sum()) - i for edge in edges if i in edge)
        diameter = "" if self.whole else f"diameter = {self.network.diameter}"
        neighbors = "".join(
            f'[[neighbor]]\nname = "{self.name(j)}"\nindex = {j}\naddress = "{self.at(j)}:{7000 + j}"\n'
            for j in linked
        )
        (home / "agent.toml").write_text(
            f"""
[agent]
name = "{self.name(i)}"
index = {i}
agents = {self.size}
run = "{parts["id"]}"
listen = "{self.at(i)}:{7000 + i}"
deadline = {parts["deadline"]}
{parts["agent"]}
[tls]
ca = "ca.pem"
certificate = "certificate.pem"
key = "key.pem"
{parts["tls"]}
[problem]
{parts["problem"]}
[algorithm]
{parts["algorithm"]}
[start]
{parts["start"]}
[stop]
{parts["stop"]}
{diameter}
[run]
{parts["run"]}
[messages]
{parts["messages"]}
{self.whole}
{neighbors}"""
        )

    @cached_property
    def told(self) -> str:
        """The method with what it asks of the network, as `destiny agents init` writes it."""
        if self.whole:  # agents know the network themselves
            return self.algorithm
        table = tomllib.loads(self.algorithm)
        problem = read(AgentProblem, tomllib.loads(self.problem), "[problem]")
        learned = scaffold._with_network_facts(table, problem, self.network)
        lines = [f"{key} = {to_value(value)}" for key, value in learned.items() if key not in table]
        return "\n".join([self.algorithm, *lines])

    def settings(self, i: int) -> agents.Settings:
        return agents.read(self.home(i) / "agent.toml")

    # In threads of this process

    def thread(self, i: int, host: str | None = None, age: float = 0.0) -> Running:
        """An agent in a thread, on a host of its own if a network namespace is named."""
        return Running(self.settings(i), host, age)

    def go(self) -> list[agents.Outcome]:
        """All agents to their end."""
        return [running.end() for running in [self.thread(i) for i in range(self.size)]]

    # As processes

    def start(self, i: int, *options: str) -> subprocess.Popen[str]:
        command = [*COMMAND, str(self.home(i) / "agent.toml"), *options]
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
        return subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    # What must come of it

    @cached_property
    def asked(self) -> experiment.Experiment:
        """The same run as an experiment for one process."""
        path = self.folder / "all.toml"
        network = self.whole or f'[network]\nkind = "edges"\nedges = {self.network.edges.tolist()}'
        path.write_text(
            f"[problem]\n{self.problem}\nagents = {self.size}\n{network}\n[[algorithm]]\n{self.algorithm}\n"
            f"[stop]\n{self.stop}\n[messages]\n{self.messages}\n"
        )
        return experiment.read(path)

    @cached_property
    def reference(self) -> destiny.Result:
        """The same run in one process."""
        asked = self.asked
        (algorithm,) = asked.algorithms.values()
        local_stopping = asked.stop.get("tolerance", 1) > 0
        return destiny.solve(
            asked.problem,
            asked.network,
            None if algorithm is None else as_algorithm(algorithm),
            local_stopping=local_stopping,
            every=0,
            **asked.stop,
            engine=destiny.engines.local(1),
            progress=False,
            messages=asked.messages,
        )

    def check(self, outcomes: list[agents.Outcome] | None = None) -> None:
        """The bits of the run in one process, at every agent."""
        for i in range(self.size):
            outcome = agents.Outcome.read(self.out(i), identity(self.settings(i)))
            assert outcome is not None
            assert np.array_equal(outcome.own, self.reference.agents[i]), i
            assert (outcome.steps, outcome.rounds) == (self.reference.steps, self.reference.rounds)
            assert outcome.gradients == self.reference.gradients
            assert outcome.reason == self.reference.reason
            assert np.abs(outcome.X - self.reference.X).max() < 1e-11
            assert not [e for e in self.log(i) if e["event"] == "mishap"]

    def log(self, i: int) -> list[dict]:
        path = self.out(i) / "log.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def steps(self, i: int) -> list[int]:
        """Steps of an agent's checkpoints."""
        return sorted(int(p.stem[-9:]) for p in (self.out(i) / "checkpoints").glob("checkpoint-*.npz"))


def identity(settings: agents.Settings) -> dict:
    return {"agent": settings.name, "run": settings.run, "settings": settings.common}


class Running(threading.Thread):
    """An agent in a thread."""

    def __init__(self, settings: agents.Settings, host: str | None = None, age: float = 0.0) -> None:
        super().__init__(daemon=True)
        self.settings, self.host, self.age = settings, host, age
        self.outcome: agents.Outcome | None = None
        self.error: BaseException | None = None
        self.view = None
        self.start()

    def run(self) -> None:
        try:
            if self.host is not None:
                move_to(self.host)
            self.outcome = agents.run(self.settings, loud=False, watchers=[self.watch], age=self.age)
        except BaseException as error:
            self.error = error

    def watch(self, view):
        self.view = view
        return lambda: None

    def end(self) -> agents.Outcome:
        self.join(PATIENCE)
        assert not self.is_alive(), "an agent hangs"
        if self.error is not None:
            raise self.error
        assert self.outcome is not None
        return self.outcome


def move_to(space: str) -> None:
    """This thread, and no other, from now on has the network of a namespace."""
    libc = ctypes.CDLL(None, use_errno=True)
    with Path("/run/netns", space).open() as file:
        if libc.setns(file.fileno(), 0x40000000):  # CLONE_NEWNET
            raise OSError(ctypes.get_errno(), "setns")


def wait_for(condition, what: str = "something"):
    """Wait until a condition holds, and return it."""
    end = time.monotonic() + PATIENCE
    while not (found := condition()):
        assert time.monotonic() < end, f"{what} did not happen"
        time.sleep(0.02)
    return found


def end(process: subprocess.Popen, code: int = 0) -> tuple[str, str]:
    """Wait for a process; what it printed."""
    try:
        out, err = process.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    assert process.returncode == code, (process.returncode, out, err)
    return out, err


def kill(process: subprocess.Popen) -> None:
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=PATIENCE)


# What an attacker has


def client_context(home: Path | None, ca: Path) -> ssl.SSLContext:
    """A caller that believes anybody and shows the certificate of a folder, if any."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if home is not None:
        context.load_cert_chain(home / "certificate.pem", home / "key.pem")
    return context


def connect(address: tuple[str, int], context: ssl.SSLContext | None) -> socket.socket:
    sock = wait_for(lambda: _open(address), "listening")
    sock.settimeout(PATIENCE)
    return sock if context is None else context.wrap_socket(sock, server_hostname="x")


def _open(address: tuple[str, int]) -> socket.socket | None:
    try:
        return socket.create_connection(address, timeout=PATIENCE)
    except ConnectionRefusedError:
        return None


def read_message(sock: socket.socket) -> tuple[messages.Header, bytes] | None:
    """The next message, or None at the end."""
    try:
        head = _exactly(sock, messages.HEADER.size)
        header = messages.Header.unpack(head)
        return header, _exactly(sock, header.length)
    except (EOFError, ConnectionError, ssl.SSLError):
        return None


def _exactly(sock: socket.socket, count: int) -> bytes:
    found = b""
    while len(found) < count:
        part = sock.recv(count - len(found))
        if not part:
            raise EOFError
        found += part
    return found

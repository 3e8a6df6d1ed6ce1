"""The tables of experiment files and agent files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np

from destiny.config.problem import AgentProblem, ExperimentProblem
from destiny.config.tables import Positive, Table, Whole, about
from destiny.errors import SettingsError
from destiny.protocols import Array
from destiny.validation import is_number

MOST_AGENTS = 100_000
LONGEST = 100  # characters of a name
ROUNDS = "at most so many messages to each neighbour"
EVERY = "measure every so many steps"


class Start(Table, frozen=True):
    """[start]."""

    seed: Annotated[int, about("of a random start")] = 0
    file: Annotated[str | None, about("an n x p matrix in a .npy file")] = None

    def point(self, folder: Path) -> Array | None:
        """The point in the file: an n x p matrix, or d x n x p; None without a file."""
        if self.file is None:
            return None
        path = folder / self.file
        try:
            X = np.load(path, allow_pickle=False)
        except (OSError, ValueError, EOFError) as error:
            raise SettingsError(f"[start] file {path} cannot be read as a .npy array of numbers") from error
        if not isinstance(X, np.ndarray) or X.dtype.kind not in "fiu" or X.ndim not in (2, 3):
            raise SettingsError(f"[start] file {path} must hold an n x p matrix of real numbers")
        return X.astype(np.float64)


class Messages(Table, frozen=True):
    """[messages] of experiment files."""

    private: Annotated[bool | None, about("whether neighbours learn sums, not what one agent sends")] = None
    bits: Annotated[int | None, about("of a number in a message: 8, 16 or 64")] = None
    clip: Annotated[
        int | None, about("neighbours of an agent that may lie; the answer is then approximate")
    ] = None


class ExperimentStop(Table, frozen=True):
    """[stop] of experiment files."""

    rounds: Annotated[int | None, about(ROUNDS)] = None
    seconds: Annotated[float | None, about("at most so long")] = None
    tolerance: Annotated[
        float | None,
        about("converged when stationarity, consensus and feasibility are all below it; 0 = never"),
    ] = None
    decentralised: Annotated[bool | None, about("the agents find out and agree by themselves")] = None


class ExperimentRun(Table, frozen=True):
    """[run] of experiment files."""

    every: Annotated[Whole | None, about(EVERY)] = None
    checkpoint: Annotated[Whole | None, about("save every so many steps; 0 = never")] = None
    threads: Annotated[int | None, about("worker threads; the answer is the same")] = None


class Mpi(Table, frozen=True):
    """[mpi] of experiment files."""

    agents_per_rank: Annotated[
        int | list[int] | None, about("a number, or a list with one for each rank")
    ] = None
    map: Annotated[list[int] | None, about("the rank of each agent")] = None


class ExperimentFile(Table, frozen=True):
    """An experiment file."""

    problem: Annotated[ExperimentProblem, about("what is solved, and where the data are")]
    network: Annotated[dict[str, Any], about("who talks to whom")]
    start: Annotated[Start, about("where all agents begin")] = Start()
    algorithm: Annotated[
        list[dict[str, Any]],
        msgspec.Meta(
            min_length=1,
            description="the method, or several to compare; chosen by problem and network if left out",
        ),
    ] = msgspec.field(default_factory=lambda: [{}])
    stop: Annotated[ExperimentStop, about("when a run ends")] = ExperimentStop()
    run: Annotated[ExperimentRun, about("how often to measure and to save")] = ExperimentRun()
    mpi: Annotated[Mpi, about("which rank hosts which agents")] = Mpi()
    messages: Annotated[Messages, about("how messages travel and what neighbours learn")] = Messages()


class Agent(Table, frozen=True):
    """[agent]."""

    name: Annotated[str, about("as in the agent's certificate")]
    index: Annotated[Whole, about("its number among the agents, from 0")]
    agents: Annotated[int, msgspec.Meta(ge=2, le=MOST_AGENTS), about("how many there are")]
    run: Annotated[str, about("the same at all agents; each run needs a new name")]
    listen: Annotated[str, about("where neighbours call; 0.0.0.0:PORT for all addresses of the machine")]
    out: Annotated[str, about("folder for the results")] = "results"
    deadline: Annotated[float, about("seconds to wait for a neighbour; 0 = for ever")] = 600.0
    """Long enough to restart a machine."""

    def __post_init__(self) -> None:
        if self.index >= self.agents:
            raise SettingsError(f"index must be from 0 to {self.agents - 1}; found {self.index}")
        if not is_number(self.deadline) or self.deadline < 0:
            raise SettingsError(f"deadline must be a number of seconds >= 0; found {self.deadline!r}")
        check_name(self.name, "name")
        check_letters(self.run, "run")
        parse_address(self.listen, "listen")


class Tls(Table, frozen=True):
    """[tls]."""

    ca: Annotated[str, about("the authority whose certificates are accepted, or several in one file")]
    certificate: Annotated[str, about("this agent's certificate")]
    key: Annotated[str, about("its key, readable by its owner alone")]
    crl: Annotated[str | None, about("a revocation list")] = None


class Neighbour(Table, frozen=True):
    """[[neighbour]]."""

    name: Annotated[str, about("as in its certificate")]
    index: Annotated[Whole, about("its number among the agents")]
    address: Annotated[str, about("where to call it")]
    identity: Annotated[str | None, about("the name in its certificate, if it is another")] = None
    dial: Annotated[bool | None, about("whether this agent dials; by default the lower index does")] = None
    authority: Annotated[str | None, about("the one authority that must have signed its certificate")] = None
    fingerprint: Annotated[str | list[str] | None, about("the one certificate it may show, or a list")] = None
    neighbours: Annotated[
        list[int] | None,
        about("the indices of all its neighbours: it cannot name others then, nor fewer"),
    ] = None

    def __post_init__(self) -> None:
        parse_address(self.address, f"{self.name!r} address")


class AgentStop(Table, frozen=True):
    """[stop] of agent files."""

    rounds: Annotated[int | None, about(ROUNDS)] = None
    tolerance: Annotated[float | None, about("on every agent's local residual; 0 = never")] = None
    diameter: Annotated[
        Positive | None, about("of the network: the longest shortest way between two agents")
    ] = None
    spectrum: Annotated[
        tuple[float, float] | None, about("least and largest eigenvalue of the weights other than 1")
    ] = None

    def __post_init__(self) -> None:
        ends = self.spectrum
        if ends is not None and not -1 < ends[0] <= ends[1] < 1:
            raise SettingsError(f"spectrum must be two numbers -1 < low <= high < 1; found {list(ends)}")


class AgentRun(Table, frozen=True):
    """[run] of agent files."""

    every: Annotated[Positive | None, about(EVERY)] = None
    checkpoint: Annotated[
        Positive | None, about("save every so many steps (wakes, if asynchronous), at least 1")
    ] = None


class AgentMessages(Messages, frozen=True):
    """[messages] of agent files."""

    participants: Annotated[list[str], about("who may take part, in the order of their index")] = (
        msgspec.field(default_factory=list)
    )


class AgentFile(Table, frozen=True):
    """An agent file."""

    agent: Annotated[Agent, about("this agent")]
    tls: Annotated[Tls, about("files of the certificates")]
    neighbour: Annotated[
        list[Neighbour], msgspec.Meta(description="one of the agents this agent talks to", min_length=1)
    ]
    problem: Annotated[
        AgentProblem, about("what is solved; the same at all agents, but for the agent's own files")
    ]
    network: Annotated[
        dict[str, Any] | None, about("all links, where weights are not metropolis or links come and go")
    ] = None
    start: Annotated[Start, about("where all agents begin")] = Start()
    algorithm: Annotated[
        dict[str, Any], about("the method; chosen by the problem and the network if left out")
    ] = msgspec.field(default_factory=dict)
    stop: Annotated[AgentStop, about("when the run ends")] = AgentStop()
    run: Annotated[AgentRun, about("how often to measure and to save")] = AgentRun()
    messages: Annotated[
        AgentMessages, about("how messages travel and what neighbours learn; the same at all agents")
    ] = AgentMessages()


def parse_address(text: str, where: str) -> tuple[str, int]:
    """Host and port of HOST:PORT; an IPv6 address is in brackets."""
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdigit() or not 0 <= int(port) < 2**16:
        raise SettingsError(f"{where} must be HOST:PORT; found {text!r}")
    return host.removeprefix("[").removesuffix("]"), int(port)


def check_name(name: str, where: str) -> None:
    """`SettingsError` if an agent's name cannot be the name of a folder."""
    check_letters(name, where)
    if name.startswith(".") or "/" in name or "\\" in name:
        raise SettingsError(f"{where} must not start with a dot nor contain / or \\; found {name!r}")


def check_letters(text: str, where: str) -> None:
    """`SettingsError` unless a text has 1 to 100 printable characters."""
    if not 0 < len(text) <= LONGEST or not text.isprintable():
        raise SettingsError(f"{where} must have 1 to {LONGEST} printable letters; found {text!r}")

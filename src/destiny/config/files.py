"""The tables of experiment files and agent files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np

from destiny.config.problem import AgentProblem, ExperimentProblem
from destiny.config.tables import Positive, Table, Whole, add_key, complete
from destiny.errors import SettingsError
from destiny.protocols import Array
from destiny.validation import is_number

MOST_AGENTS = 100_000
LONGEST = 100  # characters of a name
AT_LEAST_ONE = msgspec.Meta(min_length=1)


class Start(Table, frozen=True):
    """[start].

    seed: of a random start
    file: an n x p matrix in a .npy file
    """

    seed: int = 0
    file: str | None = None

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
    """[messages].

    private: whether neighbors learn sums, not what one agent sends; the same at all agents
    bits: of a number in a message: 8, 16 or 64; the same at all agents
    """

    private: bool | None = None
    bits: int | None = None


class ExperimentStop(Table, frozen=True):
    """[stop] of experiment files.

    rounds: at most so many messages to each neighbor
    seconds: at most so long
    tolerance: converged when stationarity, consensus and feasibility are all below it; 0 = never
    local-stopping: the agents find out and agree by themselves
    """

    rounds: int | None = None
    seconds: float | None = None
    tolerance: float | None = None
    local_stopping: bool | None = None


class ExperimentRun(Table, frozen=True):
    """[run] of experiment files.

    every: measure every so many steps
    checkpoint: save every so many steps; 0 = never
    threads: worker threads; the answer is the same
    """

    every: Whole | None = None
    checkpoint: Whole | None = None
    threads: int | None = None


class Mpi(Table, frozen=True):
    """[mpi] of experiment files.

    agents-per-rank: a number, or a list with one for each rank
    map: the rank of each agent
    """

    agents_per_rank: int | list[int] | None = None
    map: list[int] | None = None


class ExperimentFile(Table, frozen=True):
    """An experiment file.

    problem: what is solved, and where the data are
    network: who talks to whom
    start: where all agents begin
    algorithm: the method, or several to compare; chosen by problem and network if left out
    stop: when a run ends
    run: how often to measure and to save
    mpi: which rank hosts which agents
    messages: how messages travel and what neighbors learn
    """

    problem: ExperimentProblem
    network: dict[str, Any]
    start: Start = Start()
    algorithm: Annotated[list[dict[str, Any]], AT_LEAST_ONE] = msgspec.field(default_factory=lambda: [{}])
    stop: ExperimentStop = ExperimentStop()
    run: ExperimentRun = ExperimentRun()
    mpi: Mpi = Mpi()
    messages: Messages = Messages()


class Agent(Table, frozen=True):
    """[agent].

    name: as in the agent's certificate
    index: its number among the agents, from 0
    agents: how many there are
    run: the same at all agents; each run needs a new name
    listen: where neighbors call; 0.0.0.0:PORT for all addresses of the machine
    out: folder for the results
    deadline: seconds to wait for a neighbor; 0 = for ever
    """

    name: str
    index: Whole
    agents: Annotated[int, msgspec.Meta(ge=2, le=MOST_AGENTS)]
    run: str
    listen: str
    out: str = "results"
    deadline: float = 600.0  # long enough to restart a machine

    def __post_init__(self) -> None:
        if self.index >= self.agents:
            raise SettingsError(f"index must be from 0 to {self.agents - 1}; found {self.index}")
        if not is_number(self.deadline) or self.deadline < 0:
            raise SettingsError(f"deadline must be a number of seconds >= 0; found {self.deadline!r}")
        check_name(self.name, "name")
        check_letters(self.run, "run")
        parse_address(self.listen, "listen")


class Tls(Table, frozen=True):
    """[tls].

    ca: the authority whose certificates are accepted, or several in one file
    certificate: this agent's certificate
    key: its key, readable by its owner alone
    crl: a revocation list
    """

    ca: str
    certificate: str
    key: str
    crl: str | None = None


class Neighbor(Table, frozen=True):
    """[[neighbor]].

    name: as in its certificate
    index: its number among the agents
    address: where to call it
    identity: the name in its certificate, if it is another
    dial: whether this agent dials; by default the lower index does
    authority: the one authority that must have signed its certificate
    fingerprint: the one certificate it may show, or a list
    neighbors: the indices of all its neighbors: it cannot name others then, nor fewer
    """

    name: str
    index: Whole
    address: str
    identity: str | None = None
    dial: bool | None = None
    authority: str | None = None
    fingerprint: str | list[str] | None = None
    neighbors: list[int] | None = None

    def __post_init__(self) -> None:
        parse_address(self.address, f"{self.name!r} address")


class AgentStop(Table, frozen=True):
    """[stop] of agent files.

    rounds: at most so many messages to each neighbor
    tolerance: on every agent's local residual; 0 = never
    diameter: of the network: the longest shortest way between two agents
    spectrum: least and largest eigenvalue of the weights other than 1
    """

    rounds: int | None = None
    tolerance: float | None = None
    diameter: Positive | None = None
    spectrum: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        ends = self.spectrum
        if ends is not None and not -1 < ends[0] <= ends[1] < 1:
            raise SettingsError(f"spectrum must be two numbers -1 < low <= high < 1; found {list(ends)}")


class AgentRun(Table, frozen=True):
    """[run] of agent files.

    every: measure every so many steps
    checkpoint: save every so many steps, at least 1
    """

    every: Positive | None = None
    checkpoint: Positive | None = None


class AgentMessages(Messages, frozen=True):
    """[messages] of agent files.

    participants: who may take part, in the order of their index
    """

    participants: list[str] = msgspec.field(default_factory=list)


class AgentFile(Table, frozen=True):
    """An agent file.

    agent: this agent
    tls: files of the certificates
    neighbor: one of the agents this agent talks to
    problem: what is solved; the same at all agents, but for the agent's own files
    network: all links, where weights are not metropolis or links come and go
    start: where all agents begin
    algorithm: the method; chosen by the problem and the network if left out
    stop: when the run ends
    run: how often to measure and to save
    messages: how messages travel and what neighbors learn
    """

    agent: Agent
    tls: Tls
    neighbor: list[Neighbor]
    problem: AgentProblem
    network: dict[str, Any] | None = None
    start: Start = Start()
    algorithm: dict[str, Any] = msgspec.field(default_factory=dict)
    stop: AgentStop = AgentStop()
    run: AgentRun = AgentRun()
    messages: AgentMessages = AgentMessages()


_NEIGHBOR: Any = list[complete(Neighbor)]  # type: ignore[misc]
add_key(AgentFile, "neighbor", Annotated[_NEIGHBOR, AT_LEAST_ONE], default=msgspec.NODEFAULT)


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

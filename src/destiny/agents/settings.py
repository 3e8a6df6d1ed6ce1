"""Agent files: this agent, its neighbours, and the problem they solve together."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from destiny import registry
from destiny._version import __version__
from destiny.agents.agent_kinds import agent_kind, refuse_keys
from destiny.agents.message_tables import read_messages, read_participants
from destiny.agents.neighbour_tables import check_letters, check_name, parse_address, read_neighbours
from destiny.agents.transport.connections import Address
from destiny.agents.transport.event_loop import shortage_is_temporary
from destiny.agents.transport.messages import Hello
from destiny.agents.transport.neighbour import Neighbour
from destiny.agents.transport.tls import TlsFiles
from destiny.engines.mixers import Messages
from destiny.engines.same_settings import columns_of, digest, plain
from destiny.errors import SettingsError
from destiny.experiments import algorithm_tables, file, problem_table
from destiny.experiments.schema import check
from destiny.networks.local_view import Neighbourhood
from destiny.problems import Centred
from destiny.problems.cached import CachedProblem
from destiny.problems.data.files import File
from destiny.problems.data.partition import remote_source
from destiny.problems.own_problem import as_problem
from destiny.protocols import Array, Method, ProblemBase, TopologyBase
from destiny.run.choice import Choice, choose
from destiny.run.own import as_algorithm, as_topology, settings_of
from destiny.run.parts.privacy import privacy_of, require_private_messages
from destiny.run.solve import SolveOptions
from destiny.run.stopping import Rounds, Tolerance
from destiny.storage import checkpoint as checkpoints
from destiny.validation import is_number

TOP = {
    "agent": dict,
    "tls": dict,
    "neighbour": list,
    "problem": dict,
    "network": dict,
    "start": dict,
    "algorithm": dict,
    "stop": dict,
    "run": dict,
    "messages": dict,
}
AGENT = {
    "name": str,
    "index": int,
    "agents": int,
    "run": str,
    "listen": str,
    "out": str,
    "deadline": float,
}
TLS = {"ca": str, "certificate": str, "key": str, "crl": str}
STOP = {"rounds": int, "tolerance": float, "diameter": int, "spectrum": list[float]}
RUN = {"checkpoint": int, "every": int}
REQUIRED = {
    "": ("agent", "tls", "neighbour", "problem"),
    "agent": ("name", "index", "agents", "run", "listen"),
    "tls": ("ca", "certificate", "key"),
}
OUT, CHECKPOINTS = "results", "checkpoints"
NOISE = "noise.key"  # beside the checkpoints, the secret that the noise of private data comes from
DEADLINE = 600.0  # seconds; long enough to restart a machine
MOST_AGENTS = 100_000
MAX_VALUE = 200  # characters of a value in a HELLO; longer ones are sent as digests
LOCAL = frozenset({"data", "targets", "samples", "index", "target-index", *problem_table.LAYOUT})
"""Keys of [problem] that may differ between agents; all others are compared, those of later versions too.

``data`` and ``targets`` say where an agent keeps its own files. The rest says how those files are written:
samples in rows or columns, separator and decimal sign, a header line, a column of row labels. Two hospitals
may export differently; once read, the numbers mean the same. Whatever changes what the numbers mean, or what
is computed from them, does not belong here.
"""


@dataclass(frozen=True)
class Settings:
    """The contents of an agent file, checked. ``common``: what must be equal at all agents."""

    name: str
    index: int
    agents: int
    run: str
    listen: Address
    out: Path
    deadline: float
    files: TlsFiles
    neighbours: list[Neighbour]
    problem: ProblemBase
    network: TopologyBase
    start: Array | None
    seed: int
    algorithm: Method
    choice: Choice | None
    """How the algorithm was chosen, if the file has none."""
    rounds: int
    tolerance: float
    checkpoint: int
    every: int
    messages: Messages
    participants: list[str]
    """Names of all agents in the order of their index, if the file has them."""
    disclosure: str
    """What neighbours learn, in a sentence."""
    common: dict[str, Any]
    options: Any = None
    """What the file says for methods of an extension alone (`AgentKind.read_options`)."""

    def __post_init__(self) -> None:
        """What takes the place of the file's may be of a class of the user's own."""
        object.__setattr__(self, "problem", as_problem(self.problem))
        object.__setattr__(self, "network", as_topology(self.network))
        if agent_kind(self.algorithm) is None:
            object.__setattr__(self, "algorithm", as_algorithm(self.algorithm))

    @property
    def authorities(self) -> list[Path]:
        """The files of the authorities that neighbours are pinned to."""
        return [n.pin.authority for n in self.neighbours if n.pin.authority is not None]

    @property
    def who_dials(self) -> str:
        """Which end of each link calls the other: neither side can see that neither does."""
        dialled = ", ".join(n.name for n in self.neighbours if n.dial)
        awaited = ", ".join(n.name for n in self.neighbours if not n.dial)
        parts = [f"this agent dials {dialled}"] if dialled else []
        if awaited:
            parts.append(f"{awaited} must dial this agent")
        return "; ".join(parts)

    @property
    def hello(self) -> Hello:
        """The HELLO of this agent."""
        return Hello(
            agent=self.name,
            index=self.index,
            run=self.run,
            version=__version__,
            digest=digest(self.common).hex(),
            settings=self.common,
            degree=len(self.neighbours),
            need=0,
        )


@shortage_is_temporary()
def read(path: str | Path) -> Settings:
    """Read and check an agent file; relative paths in it are relative to the file."""
    path = Path(path)
    tables = file.load_tables(path)
    check(tables, str(path), TOP, required=REQUIRED[""])
    folder = path.parent
    me = check(tables["agent"], "[agent]", with_added("agent", AGENT), required=REQUIRED["agent"])
    if not 2 <= me["agents"] <= MOST_AGENTS:
        raise SettingsError(f"[agent] agents must be from 2 to {MOST_AGENTS}; found {me['agents']}")
    if not 0 <= me["index"] < me["agents"]:
        raise SettingsError(f"[agent] index must be from 0 to {me['agents'] - 1}; found {me['index']}")
    deadline = me.get("deadline", DEADLINE)
    if not is_number(deadline) or deadline < 0:
        raise SettingsError(f"[agent] deadline must be a number of seconds >= 0; found {deadline!r}")
    check_name(me["name"], "[agent] name")
    check_letters(me["run"], "[agent] run")
    neighbours = read_neighbours(tables["neighbour"], me, folder)
    stop = check(tables.get("stop", {}), "[stop]", STOP)
    run = check(tables.get("run", {}), "[run]", with_added("run", RUN))
    for table, where in ((run, "[run] checkpoint"), (run, "[run] every"), (stop, "[stop] diameter")):
        if (found := table.get(where.split()[1], 1)) < 1:
            raise SettingsError(f"{where} must be at least 1; found {found}")
    if stop.get("diameter", 1) >= me["agents"]:
        most = me["agents"] - 1
        raise SettingsError(
            f"[stop] diameter must be at most {most}, the number of agents - 1; found {stop['diameter']}"
        )
    start = check(tables.get("start", {}), "[start]", file.START)
    X = file.load_start(folder / start["file"]) if "file" in start else None
    problem = read_problem(tables["problem"], me, folder)
    network = read_network(tables, me, neighbours, folder)
    method = tables.get("algorithm", {}).get("kind")
    kind = agent_kind(method)
    if kind is None:
        messages, disclosure = read_messages(tables.get("messages", {}), network)
        refuse_keys("agent", me)
        refuse_keys("run", run)
    else:
        messages, disclosure = kind.read_messages(tables.get("messages", {}), method)
    require_private_messages(privacy_of(problem), messages.private)
    tolerance = float(Tolerance(stop.get("tolerance", SolveOptions.tolerance)).limit)
    options = None if kind is None else kind.read_options(me, run, network, neighbours)
    algorithm, choice = read_algorithm(tables.get("algorithm"), problem, network, tolerance, messages)
    if kind is not None:
        algorithm = kind.fit(algorithm, problem, network, messages, options)
    if algorithm.about is not None and algorithm.about.averaged:
        disclosure += f"; what is averaged of each agent is {algorithm.about.averaged}"
    elif messages.private:
        disclosure += (
            "; an agent that knows the network can work out the others' data from the sums of many steps, "
            "which destiny-newton, destiny-krylov and destiny-lbfgs do not have (docs/privacy.md)"
        )
    settings = Settings(
        name=me["name"],
        index=me["index"],
        agents=me["agents"],
        run=me["run"],
        listen=Address(*parse_address(me["listen"], "[agent] listen")),
        out=folder / me.get("out", OUT),
        deadline=float(deadline),
        files=read_files(tables["tls"], folder),
        neighbours=neighbours,
        problem=problem,
        network=network,
        start=X,
        seed=start.get("seed", 0),
        algorithm=algorithm,
        choice=choice,
        rounds=Rounds(stop.get("rounds", SolveOptions.rounds)).limit,
        tolerance=tolerance,
        checkpoint=run.get("checkpoint", SolveOptions.checkpoint_every),
        every=run.get("every", SolveOptions.every),
        messages=messages,
        participants=read_participants(tables.get("messages", {}), me, neighbours),
        disclosure=disclosure,
        common={},
        options=options,
    )
    added = {} if kind is None else kind.common(options)
    settings.common.update(common_settings(settings, tables["problem"], added))
    return settings


def with_added(table: str, keys: dict[str, Any]) -> dict[str, Any]:
    """The keys of a table and their types, with those that extensions add."""
    return keys | {name: key.type for name, key in registry.agent_keys(table).items()}


def common_settings(s: Settings, problem: dict[str, Any], added: dict[str, Any]) -> dict[str, Any]:
    """The settings that must be equal at all agents, by name; nothing of an agent's data."""
    whole = not isinstance(s.network, Neighbourhood)
    n, p = s.problem.shape
    facts = {
        "problem": shared_problem({**problem, "p": p}),
        "agents": s.agents,
        "n": n,
        "messages": str(s.messages),  # the method that is chosen follows from them
        "algorithm": settings_of(s.algorithm),
        "rounds": s.rounds,
        "tolerance": s.tolerance,
        "start": f"seed {s.seed}" if s.start is None else hashlib.sha256(s.start.tobytes()).hexdigest()[:16],
        "checkpoint": s.checkpoint,
        "network": checkpoints.network_digest(s.network) if whole else "each knows its neighbours",
        "diameter": s.network.diameter,
        "columns": columns_of(s.problem),
    }
    if isinstance(s.network, Neighbourhood) and s.network.spectrum is not None:
        facts["spectrum"] = s.network.spectrum
    return {name: _short(value) for name, value in plain(facts | added).items()}


def _short(value: Any) -> Any:
    """The value itself, or a digest of a long list: a HELLO has room for about a hundred values."""
    text = json.dumps(value)
    return value if len(text) <= MAX_VALUE else f"sha256 {hashlib.sha256(text.encode()).hexdigest()[:16]}"


def shared_problem(table: dict[str, Any]) -> dict[str, Any]:
    """The keys of [problem] that must be equal at all agents, defaults written out."""
    complete = problem_table.complete_problem(table)
    return {key: value for key, value in complete.items() if key not in LOCAL}


def read_files(table: Any, folder: Path) -> TlsFiles:
    check(table, "[tls]", TLS, required=REQUIRED["tls"])
    crl = folder / table["crl"] if "crl" in table else None
    return TlsFiles(folder / table["ca"], folder / table["certificate"], folder / table["key"], crl)


def read_problem(table: dict[str, Any], me: dict[str, Any], folder: Path) -> ProblemBase:
    """Read [problem], with the data of this agent only."""
    if "agents" in table:
        raise SettingsError("[problem] has no key 'agents': their number stands in [agent]")

    def own(table: dict[str, Any], key: str, folder: Path) -> list[Any]:
        if not isinstance(table[key], str):
            raise SettingsError(f"[problem] {key} must be one file, this agent's own; found a list")
        silos: list[Any] = [remote_source] * me["agents"]
        silos[me["index"]] = File(str(folder / table[key]), **problem_table.file_options(table, key))
        return silos

    if isinstance(privacy := table.get("privacy"), dict):
        table = {**table, "privacy": keep_secret(privacy, me)}
    problem = problem_table.read_problem({**table, "agents": me["agents"]}, folder, own)
    return problem if isinstance(problem, Centred) else CachedProblem(problem)


def keep_secret(privacy: dict[str, Any], me: dict[str, Any]) -> dict[str, Any]:
    """[problem] privacy, with the secret of the noise beside the checkpoints: a restart must say the same."""
    if "secret" in privacy:
        raise SettingsError(
            "[problem] privacy has no key 'secret' here: agents keep it beside their checkpoints"
        )
    if "seed" in privacy:
        return privacy
    return {**privacy, "secret": str(Path(me.get("out", OUT)) / CHECKPOINTS / NOISE)}


def read_network(
    tables: dict[str, Any], me: dict[str, Any], neighbours: list[Neighbour], folder: Path
) -> TopologyBase:
    """Read [network] if the file has one; else the network is what neighbours tell each other."""
    mine = [n.index for n in neighbours]
    if "network" not in tables:
        stop = tables.get("stop", {})
        return Neighbourhood(
            me["index"], mine, me["agents"], stop.get("diameter"), read_spectrum(stop.get("spectrum"))
        )
    network = file.read_network(tables["network"], me["agents"], folder)
    edges = network.all_edges()
    linked = sorted(int(edge.sum()) - me["index"] for edge in edges if me["index"] in edge)
    if linked != mine:
        raise SettingsError(
            f"[network] links agent {me['index']} with {linked}, but each [[neighbour]] is one of {mine}: "
            "make them equal"
        )
    for n in neighbours:
        around = frozenset(int(edge.sum()) - n.index for edge in edges if n.index in edge)
        if n.around not in (None, around):
            raise SettingsError(
                f"[network] links agent {n.index} with {sorted(around)}, but [[neighbour]] {n.name!r} has "
                f"neighbours = {sorted(n.around or ())}: make them equal"
            )
        n.around, n.degree_in_file = around, len(around)
    return network


def read_algorithm(
    table: dict[str, Any] | None,
    problem: ProblemBase,
    network: TopologyBase,
    tolerance: float,
    messages: Messages,
) -> tuple[Method, Choice | None]:
    """[algorithm]; without one, or if it is empty, what all agents choose alike, and why.

    Matrices of second moments are not sent to neighbours unless that is asked for, or sums are private.
    """
    if table:
        return algorithm_tables.read_any_algorithm(table, "[algorithm]"), None
    choice = choose(problem, network, tolerance, messages, disclose=messages.private)
    return choice.algorithm, choice


def read_spectrum(ends: list[float] | None) -> tuple[float, float] | None:
    """Read [stop] spectrum: the interval of the eigenvalues of the weights other than 1."""
    if ends is None:
        return None
    if len(ends) != 2 or not -1 < ends[0] <= ends[1] < 1:
        raise SettingsError(f"[stop] spectrum must be two numbers -1 < low <= high < 1; found {ends}")
    return float(ends[0]), float(ends[1])

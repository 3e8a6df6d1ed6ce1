"""Agent files: who this agent is, whom it talks to, what they solve together."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from destiny._version import __version__
from destiny.agents.transport.connections import Address
from destiny.agents.transport.messages import Hello
from destiny.agents.transport.neighbour import Neighbour
from destiny.agents.transport.tls import Files, Pin, read_fingerprint
from destiny.engines.same_settings import columns_of, digest, plain
from destiny.errors import ProblemError, SettingsError, is_number
from destiny.experiments import file
from destiny.experiments.schema import check
from destiny.networks.local_view import Neighbourhood
from destiny.problems import Centred
from destiny.problems.cached import Once
from destiny.problems.data.files import File
from destiny.protocols import Algorithm, Array, Problem, Topology
from destiny.run.driver import settings_of
from destiny.run.stopping import Rounds, Tolerance
from destiny.storage import checkpoint as checkpoints

TOP = {
    "agent": dict, "tls": dict, "neighbour": list, "problem": dict, "network": dict, "start": dict,
    "algorithm": dict, "stop": dict, "run": dict,
}  # fmt: skip
AGENT = {
    "name": str, "index": int, "agents": int, "run": str, "listen": str, "out": str, "deadline": float,
}  # fmt: skip
TLS = {"ca": str, "certificate": str, "key": str, "crl": str}
NEIGHBOUR = {
    "name": str, "index": int, "address": str, "identity": str, "dial": bool,
    "authority": str, "fingerprint": str | list[str],
}  # fmt: skip
STOP = {"rounds": int, "tolerance": float, "diameter": int, "spectrum": list[float]}
RUN = {"checkpoint": int, "every": int}
DEADLINE = 600.0  # seconds; long enough to restart a machine
MOST_AGENTS = 100_000
LONGEST = 200  # letters of a value that neighbours are told as it is
LOCAL = frozenset({"data", "targets", "samples", "sep", "decimal", "header", "index", "target-index"})
"""Keys of [problem] that may differ between agents; all others are compared, those of later versions too.

``data`` and ``targets`` say where an agent keeps its own files. The rest says how those files are written:
samples in rows or columns, separator and decimal sign, a header line, a column of row labels. Two hospitals
may export differently; once read, the numbers mean the same. Whatever changes what the numbers mean, or what
is computed from them, does not belong here.
"""


@dataclass(frozen=True)
class Settings:
    """What an agent file says, checked; `hello` is what neighbours are told of it."""

    name: str
    index: int
    agents: int
    run: str
    listen: Address
    out: Path
    deadline: float
    files: Files
    neighbours: list[Neighbour]
    problem: Problem
    network: Topology
    start: Array | None
    seed: int
    algorithm: Algorithm[Any]
    rounds: int
    tolerance: float
    checkpoint: int
    every: int
    common: dict[str, Any]

    @property
    def authorities(self) -> list[Path]:
        """The files of the authorities that neighbours are pinned to."""
        return [n.pin.authority for n in self.neighbours if n.pin.authority is not None]

    @property
    def hello(self) -> Hello:
        """What this agent says of itself."""
        return Hello(
            agent=self.name, index=self.index, run=self.run, version=__version__,
            digest=digest(self.common).hex(), settings=self.common, degree=len(self.neighbours), need=0,
        )  # fmt: skip


def read(path: str | Path) -> Settings:
    """Read and check an agent file; relative paths in it are relative to the file."""
    path = Path(path)
    tables = file.load_tables(path)
    check(tables, str(path), TOP, required=("agent", "tls", "neighbour", "problem"))
    folder = path.parent
    me = check(tables["agent"], "[agent]", AGENT, required=("name", "index", "agents", "run", "listen"))
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
    run = check(tables.get("run", {}), "[run]", RUN)
    for table, key, least in ((run, "checkpoint", 1), (run, "every", 1), (stop, "diameter", 1)):
        if table.get(key, least) < least:
            raise SettingsError(f"{key} must be at least {least}; found {table[key]}")
    if stop.get("diameter", 1) >= me["agents"]:
        most = me["agents"] - 1
        raise SettingsError(
            f"[stop] diameter must be at most {most}, the number of agents - 1; found {stop['diameter']}"
        )
    start = check(tables.get("start", {}), "[start]", file.START)
    X = file.load_start(folder / start["file"]) if "file" in start else None
    problem = read_problem(tables["problem"], me, folder)
    (algorithm,) = file.read_algorithms([tables.get("algorithm", file.DEFAULT)]).values()
    settings = Settings(
        name=me["name"], index=me["index"], agents=me["agents"], run=me["run"],
        listen=Address(*address(me["listen"], "[agent] listen")), out=folder / me.get("out", "results"),
        deadline=float(deadline), files=read_files(tables["tls"], folder), neighbours=neighbours,
        problem=problem, network=read_network(tables, me, neighbours, folder), start=X,
        seed=start.get("seed", 0), algorithm=algorithm, rounds=Rounds(stop.get("rounds", 10_000)).limit,
        tolerance=float(Tolerance(stop.get("tolerance", 1e-8)).limit), checkpoint=run.get("checkpoint", 100),
        every=run.get("every", 10), common={},
    )  # fmt: skip
    settings.common.update(shared(settings, tables["problem"]))
    return settings


def check_letters(text: str, where: str) -> None:
    """Refuse what does not fit into a line."""
    if not 0 < len(text) <= 100 or not text.isprintable():
        raise SettingsError(f"{where} must have 1 to 100 printable letters; found {text!r}")


def check_name(name: str, where: str) -> None:
    """Refuse an agent's name that could not be that of a folder, or would be one elsewhere."""
    check_letters(name, where)
    if name.startswith(".") or "/" in name or "\\" in name:
        raise SettingsError(f"{where} must not start with a dot nor contain / or \\; found {name!r}")


def shared(s: Settings, problem: dict[str, Any]) -> dict[str, Any]:
    """What must be equal at all agents, by name; nothing of an agent's data."""
    whole = not isinstance(s.network, Neighbourhood)
    n, p = s.problem.shape
    facts = {
        "problem": shared_problem({**problem, "p": p}), "agents": s.agents, "n": n,
        "algorithm": settings_of(s.algorithm), "rounds": s.rounds, "tolerance": s.tolerance,
        "start": f"seed {s.seed}" if s.start is None else hashlib.sha256(s.start.tobytes()).hexdigest()[:16],
        "checkpoint": s.checkpoint,
        "network": checkpoints.network_digest(s.network) if whole else "each knows its neighbours",
        "diameter": getattr(s.network, "diameter", None), "columns": columns_of(s.problem),
    }  # fmt: skip
    if isinstance(s.network, Neighbourhood) and s.network.spectrum is not None:
        facts["spectrum"] = s.network.spectrum
    return {name: _short(value) for name, value in plain(facts).items()}


def _short(value: Any) -> Any:
    """The value itself, or a digest of a long list: a HELLO has room for about a hundred values."""
    text = json.dumps(value)
    return value if len(text) <= LONGEST else f"sha256 {hashlib.sha256(text.encode()).hexdigest()[:16]}"


def shared_problem(table: dict[str, Any]) -> dict[str, Any]:
    """The keys of [problem] that must be equal at all agents, defaults written out."""
    complete = file.complete_problem(table)
    return {key: value for key, value in complete.items() if key not in LOCAL}


def read_neighbours(tables: list[Any], me: dict[str, Any], folder: Path) -> list[Neighbour]:
    """[[neighbour]]: by default the lower index calls the higher."""
    found: list[Neighbour] = []
    for table in tables:
        check(table, "[[neighbour]]", NEIGHBOUR, required=("name", "index", "address"))
        name, index = table["name"], table["index"]
        if not 0 <= index < me["agents"] or index == me["index"]:
            raise SettingsError(
                f"[[neighbour]] {name!r} index must be that of another of the {me['agents']} agents; "
                f"found {index}"
            )
        if any(name == n.name or index == n.index for n in found) or name == me["name"]:
            raise SettingsError(f"[[neighbour]] {name!r} ({index}) is named twice: names and indices differ")
        host, port = address(table["address"], f"[[neighbour]] {name!r} address")
        dial = table.get("dial", me["index"] < index)
        identity, pin = table.get("identity", name), read_pin(table, folder)
        found.append(Neighbour(name, index, host, port, identity, dial, pin))
    if not found:
        raise SettingsError("an agent needs at least one [[neighbour]]")
    return sorted(found, key=lambda n: n.index)


def read_pin(table: dict[str, Any], folder: Path) -> Pin:
    """authority and fingerprint of a [[neighbour]]."""
    where, given = f"[[neighbour]] {table['name']!r} fingerprint", table.get("fingerprint", [])
    texts = [given] if isinstance(given, str) else given
    if not all(isinstance(text, str) for text in texts):
        raise SettingsError(f"{where} must be a text or a list of texts; found {given!r}")
    authority = folder / table["authority"] if "authority" in table else None
    return Pin(authority, frozenset(read_fingerprint(text, where) for text in texts))


def address(text: str, where: str) -> tuple[str, int]:
    """HOST:PORT in two parts; an IPv6 address stands in brackets."""
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdigit() or not 0 <= int(port) < 2**16:
        raise SettingsError(f"{where} must be HOST:PORT; found {text!r}")
    return host.removeprefix("[").removesuffix("]"), int(port)


def read_files(table: Any, folder: Path) -> Files:
    """[tls]."""
    check(table, "[tls]", TLS, required=("ca", "certificate", "key"))
    crl = folder / table["crl"] if "crl" in table else None
    return Files(folder / table["ca"], folder / table["certificate"], folder / table["key"], crl)


def read_problem(table: dict[str, Any], me: dict[str, Any], folder: Path) -> Problem:
    """[problem], of which only this agent's data are here."""
    if "agents" in table:
        raise SettingsError("[problem] has no key 'agents': their number stands in [agent]")

    def own(table: dict[str, Any], key: str, folder: Path) -> list[Any]:
        if not isinstance(table[key], str):
            raise SettingsError(f"[problem] {key} must be one file, this agent's own; found a list")
        silos: list[Any] = [_elsewhere] * me["agents"]
        silos[me["index"]] = File(str(folder / table[key]), **file.file_options(table, key))
        return silos

    problem = file.read_problem({**table, "agents": me["agents"]}, folder, own)
    return problem if isinstance(problem, Centred) else Once(problem)


def _elsewhere() -> Any:
    raise ProblemError("these data are another agent's")


def read_network(
    tables: dict[str, Any], me: dict[str, Any], neighbours: list[Neighbour], folder: Path
) -> Topology:
    """[network], if all are to know it; otherwise what the neighbours tell each other will do."""
    mine = [n.index for n in neighbours]
    if "network" not in tables:
        stop = tables.get("stop", {})
        return Neighbourhood(
            me["index"], mine, me["agents"], stop.get("diameter"), read_spectrum(stop.get("spectrum"))
        )
    network = file.read_network(tables["network"], me["agents"], folder)
    edges = network.edges  # type: ignore[attr-defined]
    linked = sorted(int(edge.sum()) - me["index"] for edge in edges if me["index"] in edge)
    if linked != mine:
        raise SettingsError(
            f"[network] links agent {me['index']} with {linked}, but each [[neighbour]] is one of {mine}: "
            "make them equal"
        )
    for n in neighbours:
        n.degree_in_file = int((edges == n.index).sum())
    return network


def read_spectrum(ends: list[float] | None) -> tuple[float, float] | None:
    """[stop] spectrum: where the eigenvalues of the weights lie, but for the 1."""
    if ends is None:
        return None
    if len(ends) != 2 or not -1 < ends[0] <= ends[1] < 1:
        raise SettingsError(f"[stop] spectrum must be two numbers -1 < low <= high < 1; found {ends}")
    return float(ends[0]), float(ends[1])

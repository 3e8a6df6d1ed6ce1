"""Agent files: this agent, its neighbors, and the problem they solve together."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import msgspec

from destiny.agents.agent_kinds import agent_kind, refuse_keys
from destiny.agents.neighbors import read_neighbors
from destiny.agents.settings import CHECKPOINTS, NOISE, Settings
from destiny.agents.transport.connections import Address
from destiny.agents.transport.event_loop import shortage_is_temporary
from destiny.agents.transport.neighbor import Neighbor
from destiny.agents.transport.tls import TlsFiles
from destiny.config import files
from destiny.config.algorithm import read_algorithm as read_method
from destiny.config.extension_keys import add_extension_keys
from destiny.config.files import AgentFile, parse_address
from destiny.config.network import LINK, read_link
from destiny.config.network import read_network as read_whole_network
from destiny.config.problem import ProblemTable, build_problem, shared_keys
from destiny.config.schema import document
from destiny.config.shares import file_options
from destiny.config.tables import given, load
from destiny.config.tables import read as read_tables
from destiny.engines.mixers import PLAIN, Messages, Private, from_keys
from destiny.engines.same_settings import columns_of, plain
from destiny.errors import SettingsError
from destiny.networks.local_view import Neighborhood
from destiny.problems.cached import CachedProblem
from destiny.problems.data.files import File
from destiny.problems.data.partition import remote_source
from destiny.protocols import AlgorithmBase, Method, ProblemBase, TopologyBase
from destiny.run.choice import choose
from destiny.run.forecast import totals_learned
from destiny.run.own import as_algorithm, settings_of
from destiny.run.parts.privacy import privacy_of, require_private_messages
from destiny.run.solve import SolveOptions
from destiny.run.stopping import Rounds, Tolerance
from destiny.storage import checkpoint as checkpoints

MAX_VALUE = 200  # characters of a value in a HELLO; longer ones are sent as digests


@shortage_is_temporary()
def read(path: str | Path) -> Settings:
    """Read and check an agent file; relative paths in it are relative to the file."""
    path = Path(path)
    add_extension_keys()
    asked = read_tables(AgentFile, load(path), str(path), tables=True)
    folder, me, stop = path.parent, asked.agent, asked.stop
    if stop.diameter is not None and stop.diameter >= me.agents:
        raise SettingsError(
            f"[stop] diameter must be at most {me.agents - 1}, the number of agents - 1; "
            f"found {stop.diameter}"
        )
    neighbors = read_neighbors(asked.neighbor, me, folder)
    start = asked.start.point(folder)
    problem = read_problem(asked.problem, me, folder)
    network = read_network(asked, neighbors, folder)
    method = read_method(asked.algorithm, "[algorithm]") if asked.algorithm else None
    kind = agent_kind(method)
    if kind is None:
        messages, disclosure = read_messages(asked.messages, network)
        refuse_keys("agent", me)
        refuse_keys("run", asked.run)
    else:
        messages, disclosure = kind.read_messages(asked.messages, asked.algorithm["kind"])
    require_private_messages(privacy_of(problem), messages.private)
    tolerance = float(Tolerance(SolveOptions.tolerance if stop.tolerance is None else stop.tolerance).limit)
    rounds = Rounds(SolveOptions.rounds if stop.rounds is None else stop.rounds).limit
    options = None if kind is None else kind.read_options(me, asked.run, network, neighbors)
    link = read_link(asked.network or {})
    choice = None
    if kind is not None:
        algorithm = kind.fit(method, problem, network, messages, options)
    elif method is not None:
        algorithm = as_algorithm(method)
    else:  # what all agents choose alike; second moments are sent if that is asked for, or sums are private
        choice = choose(problem, network, tolerance, messages, disclose=messages.private, link=link)
        algorithm = choice.algorithm
    checkpoint = asked.run.checkpoint or SolveOptions.checkpoint_every
    common = {
        "problem": shared_keys(asked.problem, problem.shape[1]),
        "agents": me.agents,
        "n": problem.shape[0],
        "messages": str(messages),  # the method that is chosen follows from them
        "algorithm": settings_of(algorithm),
        "rounds": rounds,
        "tolerance": tolerance,
        "start": f"seed {asked.start.seed}" if start is None else _digest(start.tobytes()),
        "checkpoint": checkpoint,
        **network_facts(network),
        "columns": columns_of(problem),
        **({} if kind is None else kind.common(options)),
    }
    return Settings(
        name=me.name,
        index=me.index,
        agents=me.agents,
        run=me.run,
        listen=Address(*parse_address(me.listen, "[agent] listen")),
        out=folder / me.out,
        deadline=me.deadline,
        files=read_files(asked.tls, folder),
        neighbors=neighbors,
        problem=problem,
        network=network,
        start=start,
        seed=asked.start.seed,
        algorithm=algorithm,
        choice=choice,
        rounds=rounds,
        tolerance=tolerance,
        checkpoint=checkpoint,
        every=asked.run.every or SolveOptions.every,
        messages=messages,
        participants=read_participants(asked.messages.participants, me, neighbors),
        disclosure=disclosure + _about_method(problem, algorithm, messages),
        common={name: _short(value) for name, value in plain(common).items()},
        options=options,
    )


def _about_method(problem: ProblemBase, algorithm: Method, messages: Messages) -> str:
    """What neighbors learn by the method."""
    if messages.private:
        assert isinstance(algorithm, AlgorithmBase)
        return f"; these sums are: {totals_learned(problem, algorithm)}"
    if algorithm.about is not None and algorithm.about.averaged:
        return f"; what is averaged of each agent is {algorithm.about.averaged}"
    return ""


def network_facts(network: TopologyBase) -> dict[str, Any]:
    """What all agents must know alike of their network."""
    if not isinstance(network, Neighborhood):
        return {"network": checkpoints.network_digest(network), "diameter": network.diameter}
    facts: dict[str, Any] = {"network": "each knows its neighbors", "diameter": network.diameter}
    return facts if network.spectrum is None else facts | {"spectrum": network.spectrum}


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def _short(value: Any) -> Any:
    """The value itself, or a digest of a long list: a HELLO has room for about a hundred values."""
    text = json.dumps(value)
    return value if len(text) <= MAX_VALUE else f"sha256 {_digest(text.encode())}"


def read_files(table: files.Tls, folder: Path) -> TlsFiles:
    """[tls]."""
    crl = None if table.crl is None else folder / table.crl
    return TlsFiles(folder / table.ca, folder / table.certificate, folder / table.key, crl)


def read_problem(table: ProblemTable, me: files.Agent, folder: Path) -> ProblemBase:
    """[problem], with the data of this agent only."""

    def own(table: ProblemTable, key: str, agents: int, folder: Path) -> list[Any]:
        silos: list[Any] = [remote_source] * agents
        silos[me.index] = File(str(folder / getattr(table, key)), **file_options(table, key))
        return silos

    if table.privacy is not None:
        table = msgspec.structs.replace(table, privacy=keep_secret(table.privacy, me))
    return CachedProblem(build_problem(table, me.agents, folder, own))


def keep_secret(privacy: Any, me: files.Agent) -> Any:
    """[problem] privacy, with the secret of the noise beside the checkpoints: a restart must say the same."""
    if privacy.secret is not None:
        raise SettingsError(
            "[problem] privacy has no key 'secret' here: agents keep it beside their checkpoints"
        )
    if privacy.seed is not None:
        return privacy
    return msgspec.structs.replace(privacy, secret=str(Path(me.out) / CHECKPOINTS / NOISE))


def read_network(asked: AgentFile, neighbors: list[Neighbor], folder: Path) -> TopologyBase:
    """[network] if it has links; else the network is what neighbors tell each other."""
    mine, me = [n.index for n in neighbors], asked.agent
    if asked.network is None or not asked.network.keys() - set(LINK):
        return Neighborhood(me.index, mine, me.agents, asked.stop.diameter, asked.stop.spectrum)
    network = read_whole_network(asked.network, me.agents, folder)
    edges = network.all_edges()
    linked = sorted(int(edge.sum()) - me.index for edge in edges if me.index in edge)
    if linked != mine:
        raise SettingsError(
            f"[network] links agent {me.index} with {linked}, but each [[neighbor]] is one of {mine}: "
            "make them equal"
        )
    for n in neighbors:
        around = frozenset(int(edge.sum()) - n.index for edge in edges if n.index in edge)
        if n.around not in (None, around):
            raise SettingsError(
                f"[network] links agent {n.index} with {sorted(around)}, but [[neighbor]] {n.name!r} has "
                f"neighbors = {sorted(n.around or ())}: make them equal"
            )
        n.around, n.degree_in_file = around, len(around)
    return network


def read_messages(table: files.AgentMessages, network: TopologyBase) -> tuple[Messages, str]:
    """[messages], and what neighbors learn: private wherever the network allows it, if nothing is said.

    A network that one agent alone connects is refused rather than given plain messages, if nothing is said.
    """
    asked, setting = from_keys(given(table)), table.private
    if (obstacle := asked.obstacle(network)) is not None:
        raise SettingsError(f"[messages] {obstacle}")
    why = Private().obstacle(network)
    if setting is False or (setting is None and why is not None):
        reason = "" if setting is False else f" ({why})"
        return asked, f"{asked}: each neighbor learns all numbers this agent sends{reason}"
    if asked != PLAIN and setting is None:
        ((key, value),) = asked.keys().items()
        raise SettingsError(
            f"[messages] {key} = {value} cannot go with private messages, which agents use unless they are "
            f"told otherwise: write private = false into [messages] of every agent's file, or leave {key} out"
        )
    return Private(), (
        f"private messages: the other participants learn sums over all {network.agents} agents, who is "
        "linked to whom, and when messages come"
    )


def read_participants(names: list[str], me: files.Agent, neighbors: list[Neighbor]) -> list[str]:
    """participants of [messages]: who may take part, by index."""
    if not names:
        return []
    if len(names) != me.agents or len(set(names)) != len(names):
        raise SettingsError(
            f"[messages] participants must be {me.agents} different names in the order of their index; "
            f"found {len(names)}"
        )
    for name, index in [(me.name, me.index), *((n.name, n.index) for n in neighbors)]:
        if names[index] != name:
            raise SettingsError(
                f"[messages] participants has {names[index]!r} as agent {index}, who is {name!r}: make them "
                "equal"
            )
    return names


def schema() -> dict[str, Any]:
    """The JSON schema of agent files, with what was added to them."""
    add_extension_keys()
    return document("DESTINY agent", AgentFile)

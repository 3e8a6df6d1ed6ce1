"""Writes a matching set of agent files for a network, and certificates for trials."""

from __future__ import annotations

import json
import ssl
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from destiny import networks, registry
from destiny.agents import agent_file
from destiny.agents.agent_kinds import agent_kind
from destiny.agents.certificates import Authority, check_absent, write
from destiny.agents.transport.tls import fingerprint
from destiny.config.algorithm import read_algorithm
from destiny.config.files import AgentFile, ExperimentFile, check_name, parse_address
from destiny.config.network import LINK, read_network
from destiny.config.problem import ProblemTable, read_regularizer
from destiny.config.tables import Table, load, read
from destiny.config.toml_text import to_toml
from destiny.engines.mixers import PLAIN, Private, from_keys, message_keys
from destiny.errors import SettingsError
from destiny.experiments.file import read_file
from destiny.networks.kinds import KINDS
from destiny.protocols import TopologyBase
from destiny.run.forecast import private_disclosure
from destiny.run.plan import Needs, require_able
from destiny.validation import did_you_mean

FILE, SCHEMA = "agent.toml", "agent.schema.json"
PORT = 7000  # of the first agent where the hosts name none
ANY_ADDRESS = ("0.0.0.0", "::")  # addresses to listen on, not to dial
PROBLEM = {"kind": "pca", "data": "data.npy", "p": 2}  # where no experiment file says what to solve
HEAD = f"""\
#:schema ./{SCHEMA}
# Check it:  destiny agents check {FILE}
# Run it:    destiny agent {FILE}
# All keys:  docs/agents.md

"""
HINT = """\
# A [[neighbor]] can be pinned: only a certificate that this authority has signed, or this very certificate,
# is then accepted from it (docs/agents.md, Certificates).
# authority = "its-authority.pem"
# fingerprint = "sha256:..."
"""
CHOICE = """\
# There is no [algorithm]: the agents choose one, all the same, and say which (docs/agents.md, Method).
"""
CERTIFICATES = {"ca": "ca.pem", "certificate": "certificate.pem", "key": "key.pem"}


class Identity(Table, frozen=True, forbid_unknown_fields=False):
    """What certificates are made from: [agent] of a file that may have other mistakes."""

    name: str
    listen: str


def parse_hosts(hosts: str, agents: int | None) -> list[tuple[str, str, int]]:
    """Name, host and port of every agent from ``NAME=HOST:PORT,...``; one host stands for all of them."""
    places = []
    for k, entry in enumerate(filter(None, (part.strip() for part in hosts.split(",")))):
        name, named, place = entry.rpartition("=")
        host, port = parse_address(place if ":" in place else f"{place}:{PORT}", "--hosts")
        if named:  # it becomes a folder
            check_name(name, "the name of an agent in --hosts")
        places.append((name if named else f"agent-{k}", host, port))
    if len(places) == 1 and agents is not None and agents > 1:
        (_, host, port) = places[0]
        places = [(f"agent-{k}", host, port + k) for k in range(agents)]
    if not places or (agents is not None and len(places) != agents):
        raise SettingsError(f"--hosts must name {agents or 'some'} agents, or one host; found {hosts!r}")
    if len({name.casefold() for name, _, _ in places}) < len(places):  # folders, which may ignore case
        raise SettingsError(f"--hosts names an agent twice: {hosts!r}")
    for name, host, port in places:
        check_host(name, host, port)
    if len({(host, port) for _, host, port in places}) < len(places):
        raise SettingsError(f"--hosts gives two agents the same address: {hosts!r}")
    return places


def check_host(name: str, host: str, port: int) -> None:
    """Refuse names that certificates cannot contain, and addresses that neighbors cannot dial."""
    for text in (name, host):
        if not text.isascii():
            raise SettingsError(
                f"--hosts must have ASCII letters alone, as certificates do; found {text!r}: choose another "
                "name, or write a host as xn--..."
            )
    if not 0 < port < 2**16 or host in ANY_ADDRESS:
        raise SettingsError(
            f"--hosts must say where neighbors call {name!r}, at a port from 1 to 65535; found {host}:{port}"
        )


def is_experiment(network: str) -> bool:
    """Whether NETWORK is an experiment file."""
    return Path(network).suffix == ".toml"


def write_agent_files(
    network: str,
    hosts: str,
    out: Path,
    run: str,
    p: int | None = None,
    private: bool | None = None,
    late: Sequence[str] = (),
) -> list[Path]:
    """Write one folder with an agent file for each agent.

    ``network`` is an experiment file, whose problem, method and stopping rule are taken over; or a kind of
    network that needs no options; or a file of links. ``p`` is the number of components of the problem that
    stands in the files if there is no experiment file. Sums are ``private`` if that is said here or in the
    experiment file; if nothing is said, wherever the network allows it. Agents that are ``late`` do not take
    part from the start.
    """
    tables, folder = _tables(network)
    if p is not None:
        if is_experiment(network):
            raise SettingsError(f"--p {p} is for networks without a problem: {network} has its own p")
        if p < 1:
            raise SettingsError(f"--p must be at least 1; found {p}")
        tables["problem"]["p"] = p
    where = parse_hosts(hosts, _agents(tables))
    if len(where) < 2:
        raise SettingsError(f"--hosts must name at least two agents; found {hosts!r}: alone, use destiny run")
    asked, tables = _checked(tables, len(where), network)
    tables["problem"].pop("agents", None)
    built: Any = read_network(tables["network"], len(where), folder)
    fixed = isinstance(built, networks.Network) and built.weights == "metropolis"
    shared: dict[str, Any] = {"stop": dict(tables.get("stop", {})), "run": dict(tables.get("run", {}))}
    shared |= {name: tables[name] for name in ("start", "algorithm") if name in tables}
    method = read_algorithm(tables["algorithm"], "[[algorithm]]") if "algorithm" in tables else None
    kind = agent_kind(method)
    if kind is not None and _asked(tables.get("messages", {}), private) is not False:
        kind.refuse_private(tables["algorithm"]["kind"], "give --plain")
    shared["messages"] = _messages(tables.get("messages", {}), private, built, [name for name, _, _ in where])
    if shared["messages"]["private"] and "algorithm" in tables:
        _require_totals(tables["algorithm"])
    if fixed and "algorithm" in tables:
        shared["algorithm"] = _with_network_facts(tables["algorithm"], asked.problem, built)
    if fixed:
        shared["stop"]["diameter"] = built.diameter
        centered = tables["problem"].get("center") or tables["problem"].get("standardize")
        if centered or "algorithm" not in tables:
            shared["stop"]["spectrum"] = list(built.spectrum)
    else:  # everybody has to know the links to agree on the weights of a round
        options = {k: v for k, v in tables["network"].items() if k in ("weights", "loss", "seed")}
        shared["network"] = {"kind": "edges", "edges": built.edges.tolist(), **options}
    link = {key: value for key, value in tables["network"].items() if key in LINK}
    if link:
        shared["network"] = shared.get("network", {}) | link
    come = _late(late, [name for name, _, _ in where])
    if come:
        if kind is None:
            raise SettingsError(
                "--late is for methods without rounds: with all others everybody must be there"
            )
        fitted = kind.without(method, built, come, ", ".join(where[index][0] for index in come))
        shared["algorithm"] = tables["algorithm"] | _changed(method, fitted)
    paths = []
    links = [sorted(int(edge.sum()) - i for edge in built.edges if i in edge) for i in range(len(where))]
    # So that no neighbor can lie about its own neighbors, and who comes late knows the weights of links to
    # those who are away; [network] tells the same.
    told = fixed and (shared["messages"]["private"] or bool(come))
    for index, (name, host, port) in enumerate(where):
        mine: dict[str, Any] = {
            "agent": {
                "name": name,
                "index": index,
                "agents": len(where),
                "run": run,
                "listen": f"{_bracketed(host)}:{port}",
                "out": "results",
                **({"late": come} if come else {}),
            },
            "tls": CERTIFICATES,
            "problem": _problem(tables["problem"], index),
            **{key: table for key, table in shared.items() if table},
            "neighbor": [
                {
                    "name": where[j][0],
                    "index": j,
                    "address": f"{_bracketed(where[j][1])}:{where[j][2]}",
                    **({"neighbors": links[j]} if told else {}),
                }
                for j in links[index]
            ],
        }
        hint = HINT if "algorithm" in shared else CHOICE + HINT
        write(out / name / FILE, (HEAD + to_toml(mine, AgentFile) + hint).encode())
        write(out / name / SCHEMA, (json.dumps(agent_file.schema(), indent=1) + "\n").encode())
        paths.append(out / name / FILE)
    return paths


def disclosure(network: str, hosts: str, private: bool | None = None) -> str:
    """What the agents of a network let each other know, and why if messages are plain."""
    tables, folder = _tables(network)
    if _asked(tables.get("messages", {}), private) is False:
        return "plain messages, which neighbors can read: private messages were declined"
    built = read_network(tables["network"], len(parse_hosts(hosts, _agents(tables))), folder)
    if (why := Private().obstacle(built)) is not None:
        return f"plain messages, which neighbors can read: {why}"
    return private_disclosure(built)


def _messages(
    table: dict[str, Any], private: bool | None, network: TopologyBase, names: list[str]
) -> dict[str, Any]:
    """[messages] of every agent: said in so many words, as an agent alone does not know the network."""
    setting = _asked(table, private)
    given = {key: table[key] for key in message_keys() if key in table and key != "private"}
    why = Private().obstacle(network)
    if setting and why is not None:
        raise SettingsError(why)
    if setting is False or why is not None:
        return {"private": False, **given}
    if (messages := from_keys(given)) != PLAIN:
        (key,) = messages.keys()
        raise SettingsError(
            f"[messages] {key} = {table[key]} cannot go with private messages, which agents use unless they "
            f"are told otherwise: give --plain, or leave {key} out"
        )
    return {"private": True, "participants": names}


def _require_totals(table: dict[str, Any]) -> None:
    """Refuse a method that cannot have private messages, before files say that it has."""
    about = read_algorithm(table, "[algorithm]").about
    if about is not None and "totals" not in about:
        raise SettingsError(
            "private messages, which agents use unless they are told otherwise, are sums over all agents, "
            f"which {table['kind']} does not use: leave [algorithm] out, so that agents choose a method, or "
            "give --plain"
        )


def _asked(table: dict[str, Any], private: bool | None) -> bool | None:
    """Whether sums should be private: as the command says, otherwise as [messages] does; None is neither."""
    return table.get("private") if private is None else private


def _tables(network: str) -> tuple[dict[str, Any], Path]:
    """The tables of an experiment file, or of a network alone, before they are checked."""
    path = Path(network)
    if is_experiment(network):
        return load(path), path.parent
    links = {"kind": network} if network in KINDS else {"kind": "file", "path": network}
    if network not in KINDS and not path.exists():
        raise SettingsError(
            f"NETWORK must be an experiment file, a file of links or one of {', '.join(networks.KINDS)}; "
            f"found {network!r}{did_you_mean(network, networks.KINDS)}"
        )
    return {"problem": dict(PROBLEM), "network": links}, Path()


def _agents(tables: dict[str, Any]) -> int | None:
    """How many agents an experiment has, if it says so."""
    problem = tables.get("problem")
    agents = problem.get("agents") if isinstance(problem, dict) else None
    return agents if isinstance(agents, int) else None


def _checked(tables: dict[str, Any], agents: int, name: str) -> tuple[ExperimentFile, dict[str, Any]]:
    """An experiment for so many agents, and what agents take over of its tables."""
    whole, problem, run = dict(tables), tables.get("problem"), tables.get("run", {})
    added = registry.agent_keys("run")
    if isinstance(problem, dict):
        whole["problem"] = {"agents": agents} | problem
    if isinstance(run, dict):
        whole["run"] = {k: v for k, v in run.items() if k not in added}  # which experiments do not know
    asked = read_file(whole, name)
    methods = tables.get("algorithm", [])
    if len(methods) > 1:
        raise SettingsError(f"{name} has {len(methods)} algorithms: agents run one")
    if is_experiment(name) and ("path" in asked.network or asked.start.file is not None):
        raise SettingsError(f"{name} names further files: give links as edges, and the start as a seed")
    taken: dict[str, Any] = {
        key: dict(tables[key]) for key in ("problem", "network", "start", "messages") if key in tables
    }
    if methods and "kind" in methods[0]:
        taken["algorithm"] = {k: v for k, v in methods[0].items() if k != "label"}
    taken["stop"] = {k: v for k, v in tables.get("stop", {}).items() if k in ("rounds", "tolerance")}
    # Agents always save; an experiment may say never, by 0.
    taken["run"] = {k: v for k, v in run.items() if k in ("checkpoint", "every", *added) and v}
    return asked, taken


def _with_network_facts(table: dict[str, Any], problem: ProblemTable, network: Any) -> dict[str, Any]:
    """The method's table with the numbers it takes from the whole network, such as lambda."""
    method = read_algorithm(table, "[[algorithm]]")
    if method.about is not None:
        require_able(method.about, Needs(problem.kind, network.agents, read_regularizer(problem)))
    return table | _changed(method, method.on(network))


def _changed(method: Any, fitted: Any) -> dict[str, Any]:
    """The settings in which a method differs from what it was, by their keys in files."""
    return {
        field.name.strip("_").replace("_", "-"): value
        for field in fields(fitted)
        if (value := getattr(fitted, field.name)) != getattr(method, field.name)
    }


def _late(names: Sequence[str], agents: Sequence[str]) -> list[int]:
    """The indices of agents that come late."""
    places = {name: index for index, name in enumerate(agents)}
    for name in names:
        if name not in places:
            raise SettingsError(
                f"--late must name agents of --hosts; found {name!r}{did_you_mean(name, places)}"
            )
    return sorted({places[name] for name in names})


def _problem(table: dict[str, Any], index: int) -> dict[str, Any]:
    """The problem's table with the file of one agent only."""
    mine = dict(table)
    for key in ("data", "targets"):
        if isinstance(mine.get(key), list):
            mine[key] = Path(mine[key][index]).name
        elif key in mine and "{agent" in mine[key]:
            mine[key] = Path(mine[key].format(agent=index)).name
    if isinstance(privacy := mine.get("privacy"), dict):  # each agent has a secret of its own
        mine["privacy"] = {key: value for key, value in privacy.items() if key != "secret"}
    return mine


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def write_certificates(folder: Path) -> dict[str, str]:
    """Create a test authority and sign a certificate for each agent of a folder; fingerprints by name.

    The key of the authority is discarded.
    """
    paths = sorted(folder.glob(f"*/{FILE}"))
    if not paths:
        raise SettingsError(f"{folder} must hold NAME/{FILE} of each agent: destiny agents init writes them")
    authority = Authority.new()
    names: dict[str, str] = {}
    contents: dict[Path, tuple[bytes, bool]] = {}  # content, and whether it is secret
    for path in paths:
        agent = read(Identity, load(path).get("agent", {}), f"{path} [agent]")
        host, _ = parse_address(agent.listen, f"{path} [agent] listen")
        certificate, key = authority.issue(agent.name, [host])
        contents[path.parent / CERTIFICATES["ca"]] = authority.pem, False
        contents[path.parent / CERTIFICATES["certificate"]] = certificate, False
        contents[path.parent / CERTIFICATES["key"]] = key, True
        names[agent.name] = fingerprint(ssl.PEM_cert_to_DER_cert(certificate.decode()))
    for path in contents:  # all of them or none: certificates of two authorities do not fit together
        check_absent(path)
    for path, (content, secret) in contents.items():
        write(path, content, secret)
    return names

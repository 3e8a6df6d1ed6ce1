"""A matching set of agent files for a network."""

from __future__ import annotations

import json
import ssl
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from destiny import networks
from destiny.agents.certificates import Authority, check_absent, write
from destiny.agents.settings import address, check_name
from destiny.agents.transport.tls import fingerprint
from destiny.errors import SettingsError
from destiny.experiments import file
from destiny.experiments.schema import check
from destiny.networks.kinds import KINDS
from destiny.run.solve import chosen

FILE = "agent.toml"
PORT = 7000  # of the first agent where the hosts name none
EVERYWHERE = ("0.0.0.0", "::")  # addresses to listen at, not to call
PROBLEM = {"kind": "pca", "data": "data.npy", "p": 2}  # where no experiment file says what to solve
HINT = """\
# A [[neighbour]] can be pinned: only a certificate that this authority has signed, or this very certificate,
# is then accepted from it (docs/agents.md, Certificates).
# authority = "its-authority.pem"
# fingerprint = "sha256:..."
"""
CERTIFICATES = {"ca": "ca.pem", "certificate": "certificate.pem", "key": "key.pem"}


def places(hosts: str, agents: int | None) -> list[tuple[str, str, int]]:
    """Name, host and port of every agent from ``NAME=HOST:PORT,...``; one host stands for all of them."""
    found = []
    for k, entry in enumerate(filter(None, (part.strip() for part in hosts.split(",")))):
        name, named, place = entry.rpartition("=")
        host, port = address(place if ":" in place else f"{place}:{PORT}", "--hosts")
        if named:  # it becomes a folder
            check_name(name, "the name of an agent in --hosts")
        found.append((name if named else f"agent-{k}", host, port))
    if len(found) == 1 and agents is not None and agents > 1:
        (_, host, port) = found[0]
        found = [(f"agent-{k}", host, port + k) for k in range(agents)]
    if not found or (agents is not None and len(found) != agents):
        raise SettingsError(f"--hosts must name {agents or 'some'} agents, or one host; found {hosts!r}")
    if len({name.casefold() for name, _, _ in found}) < len(found):  # folders, which may ignore case
        raise SettingsError(f"--hosts names an agent twice: {hosts!r}")
    for name, host, port in found:
        check_place(name, host, port)
    if len({(host, port) for _, host, port in found}) < len(found):
        raise SettingsError(f"--hosts gives two agents the same address: {hosts!r}")
    return found


def check_place(name: str, host: str, port: int) -> None:
    """Refuse what cannot stand in a certificate, and where neighbours could not call."""
    for text in (name, host):
        if not text.isascii():
            raise SettingsError(
                f"--hosts must have ASCII letters alone, as certificates do; found {text!r}: choose another "
                "name, or write a host as xn--..."
            )
    if not 0 < port < 2**16 or host in EVERYWHERE:
        raise SettingsError(
            f"--hosts must say where neighbours call {name!r}, at a port from 1 to 65535; found {host}:{port}"
        )


def is_experiment(network: str) -> bool:
    """Whether NETWORK is an experiment file, which has a problem, too."""
    return Path(network).suffix == ".toml"


def files(network: str, hosts: str, out: Path, run: str, p: int | None = None) -> list[Path]:
    """Write one folder with an agent file for each agent.

    ``network`` is an experiment file, whose problem, method and stopping rule are taken over; or a kind of
    network that needs no options; or a file of links. ``p`` is the number of components of the problem that
    stands in the files if there is no experiment file.
    """
    tables, folder = _tables(network)
    if p is not None:
        if is_experiment(network):
            raise SettingsError(f"--p {p} is for networks without a problem: {network} has its own p")
        if p < 1:
            raise SettingsError(f"--p must be at least 1; found {p}")
        tables["problem"]["p"] = p
    agents = tables["problem"].pop("agents", None)
    where = places(hosts, agents)
    built: Any = file.read_network(tables["network"], len(where), folder)
    fixed = hasattr(built, "diameter") and built.weights == "metropolis"
    shared: dict[str, Any] = {"stop": dict(tables.get("stop", {})), "run": dict(tables.get("run", {}))}
    shared |= {name: tables[name] for name in ("start", "algorithm") if name in tables}
    if fixed:
        shared["stop"]["diameter"] = built.diameter
        if tables["problem"].get("center") or tables["problem"].get("standardise"):
            shared["stop"]["spectrum"] = list(built.spectrum)
        shared["algorithm"] = _told(tables.get("algorithm", file.DEFAULT), tables["problem"], built)
    else:  # everybody has to know the links to agree on the weights of a round
        options = {k: v for k, v in tables["network"].items() if k in ("weights", "loss", "seed")}
        shared["network"] = {"kind": "edges", "edges": built.edges.tolist(), **options}
    made = []
    for index, (name, host, port) in enumerate(where):
        linked = sorted(int(edge.sum()) - index for edge in built.edges if index in edge)
        mine: dict[str, Any] = {
            "agent": {
                "name": name, "index": index, "agents": len(where), "run": run,
                "listen": f"{_bracketed(host)}:{port}", "out": "results",
            },
            "tls": CERTIFICATES,
            "problem": _problem(tables["problem"], index),
            **{key: table for key, table in shared.items() if table},
            "neighbour": [
                {"name": where[j][0], "index": j, "address": f"{_bracketed(where[j][1])}:{where[j][2]}"}
                for j in linked
            ],
        }  # fmt: skip
        write(out / name / FILE, (_toml(mine) + HINT).encode())
        made.append(out / name / FILE)
    return made


def _tables(network: str) -> tuple[dict[str, Any], Path]:
    path = Path(network)
    if is_experiment(network):
        tables = file.load_tables(path)
        check(tables, str(path), file.TOP, required=("problem", "network"))
        methods = tables.pop("algorithm", [])
        if len(methods) > 1:
            raise SettingsError(f"{path} has {len(methods)} algorithms: agents run one")
        if methods:
            tables["algorithm"] = {k: v for k, v in methods[0].items() if k != "label"}
        kept = {"stop": ("rounds", "tolerance"), "run": ("checkpoint", "every")}
        for name, keys in kept.items():
            tables[name] = {k: v for k, v in tables.get(name, {}).items() if k in keys}
        if "path" in tables["network"] or "file" in tables.get("start", {}):
            raise SettingsError(f"{path} names further files: give links as edges, and the start as a seed")
        return tables, path.parent
    links = {"kind": network} if network in KINDS else {"kind": "file", "path": network}
    if network not in KINDS and not path.exists():
        raise SettingsError(
            f"NETWORK must be an experiment file, a file of links or one of {', '.join(networks.KINDS)}; "
            f"found {network!r}"
        )
    return {"problem": dict(PROBLEM), "network": links}, Path()


def _told(table: dict[str, Any], problem: dict[str, Any], network: Any) -> dict[str, Any]:
    """The method with what it takes from the network, such as lambda: agents cannot see it by themselves."""
    (method,) = file.read_algorithms([table]).values()
    fitted = chosen(method, SimpleNamespace(kind=problem["kind"], agents=network.agents), network)
    learnt = {
        field.name.strip("_").replace("_", "-"): value
        for field in fields(fitted)  # type: ignore[arg-type]
        if (value := getattr(fitted, field.name)) != getattr(method, field.name)
    }
    return table | learnt


def _problem(table: dict[str, Any], index: int) -> dict[str, Any]:
    """The agent's own data: the file of its number."""
    mine = dict(table)
    for key in ("data", "targets"):
        if isinstance(mine.get(key), list):
            mine[key] = Path(mine[key][index]).name
        elif key in mine and "{agent" in mine[key]:
            mine[key] = Path(mine[key].format(agent=index)).name
    return mine


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _toml(tables: dict[str, Any]) -> str:
    lines: list[str] = []
    for name, value in tables.items():
        for table in value if isinstance(value, list) else [value]:
            lines.append(f"[[{name}]]" if isinstance(value, list) else f"[{name}]")
            lines += [f"{key} = {_value(entry)}" for key, entry in table.items()]
            lines.append("")
    return "\n".join(lines)


def _value(entry: Any) -> str:
    if isinstance(entry, dict):
        return "{ " + ", ".join(f"{key} = {_value(inner)}" for key, inner in entry.items()) + " }"
    return json.dumps(entry)  # texts, numbers, true, false and lists of them are the same in TOML


def certificates(folder: Path) -> dict[str, str]:
    """A test authority for the agents of a folder, whose own key is not kept; their fingerprints by name."""
    paths = sorted(folder.glob(f"*/{FILE}"))
    if not paths:
        raise SettingsError(f"{folder} must hold NAME/{FILE} of each agent: destiny agents init writes them")
    authority = Authority.new()
    names: dict[str, str] = {}
    made: dict[Path, tuple[bytes, bool]] = {}  # content, and whether it is secret
    for path in paths:
        agent = file.load_tables(path).get("agent", {})
        check(agent, f"{path} [agent]", dict.fromkeys(agent, Any), required=("name", "listen"))
        host, _ = address(agent["listen"], f"{path} [agent] listen")
        certificate, key = authority.issue(agent["name"], [host])
        made[path.parent / CERTIFICATES["ca"]] = authority.pem, False
        made[path.parent / CERTIFICATES["certificate"]] = certificate, False
        made[path.parent / CERTIFICATES["key"]] = key, True
        names[agent["name"]] = fingerprint(ssl.PEM_cert_to_DER_cert(certificate.decode()))
    for path in made:  # all of them or none: certificates of two authorities do not fit together
        check_absent(path)
    for path, (content, secret) in made.items():
        write(path, content, secret)
    return names

"""The JSON schema of agent files, for editors; made from the keys that `settings.py` checks."""

from __future__ import annotations

from typing import Any

from destiny import registry
from destiny.agents import message_tables, neighbour_tables, settings
from destiny.experiments import file, json_schema
from destiny.experiments.json_schema import table

MEANINGS: dict[str, dict[str, str]] = {
    "": {
        "agent": "this agent",
        "tls": "files of the certificates",
        "neighbour": "one of the agents this agent talks to",
        "problem": "what is solved; the same at all agents, but for the agent's own files",
        "network": "all links, where weights are not metropolis or links come and go",
        "start": "where all agents begin",
        "algorithm": "the method; chosen by the problem and the network if left out",
        "stop": "when the run ends",
        "run": "how often to measure and to save",
        "messages": "how messages travel and what neighbours learn",
    },
    "agent": {
        "name": "as in the agent's certificate",
        "index": "its number among the agents, from 0",
        "agents": "how many there are",
        "run": "the same at all agents; each run needs a new name",
        "listen": "where neighbours call; 0.0.0.0:PORT for all addresses of the machine",
        "out": "folder for the results",
        "deadline": "seconds to wait for a neighbour; 0 = for ever",
    },
    "tls": {
        "ca": "the authority whose certificates are accepted, or several in one file",
        "certificate": "this agent's certificate",
        "key": "its key, readable by its owner alone",
        "crl": "a revocation list",
    },
    "neighbour": {
        "name": "as in its certificate",
        "index": "its number among the agents",
        "address": "where to call it",
        "identity": "the name in its certificate, if it is another",
        "dial": "whether this agent dials; by default the lower index does",
        "authority": "the one authority that must have signed its certificate",
        "fingerprint": "the one certificate it may show, or a list",
        "neighbours": "the indices of all its neighbours: it cannot name others then, nor fewer",
    },
    "stop": {
        "rounds": "at most so many messages to each neighbour",
        "tolerance": "on every agent's local residual; 0 = never",
        "diameter": "of the network: the longest shortest way between two agents",
        "spectrum": "least and largest eigenvalue of the weights other than 1",
    },
    "run": json_schema.MEANINGS["run"]
    | {
        "checkpoint": "save every so many steps, at least 1",
    },
    "messages": {
        "private": "whether neighbours learn sums, not what this agent sends; the same at all agents",
        "participants": "who may take part, in the order of their index",
        "bits": "of a number in a message: 8, 16 or 64; the same at all agents",
    },
}
"""What each key means, in a few words, where it is not that of experiment files."""


def schema() -> dict[str, Any]:
    """The schema of agent files."""
    tables = {
        "agent": table(
            settings.with_added("agent", settings.AGENT), meanings("agent"), settings.REQUIRED["agent"]
        ),
        "tls": table(settings.TLS, MEANINGS["tls"], settings.REQUIRED["tls"]),
        "neighbour": {
            "type": "array",
            "minItems": 1,
            "items": table(neighbour_tables.NEIGHBOUR, MEANINGS["neighbour"], neighbour_tables.REQUIRED),
        },
        "problem": json_schema.problem_schema(without=("agents", "dataset")),
        "network": json_schema.network_table(),
        "start": table(file.START, json_schema.MEANINGS["start"]),
        "algorithm": json_schema.any_of(json_schema.algorithm_tables(label=False)),
        "stop": table(settings.STOP, MEANINGS["stop"]),
        "run": table(settings.with_added("run", settings.RUN), meanings("run")),
        "messages": table(message_tables.message_types(), meanings("messages")),
    }
    return json_schema.document("DESTINY agent", tables, MEANINGS[""], settings.REQUIRED[""])


def meanings(name: str) -> dict[str, str]:
    """What the keys of a table of an agent file mean."""
    added = registry.message_keys() if name == "messages" else registry.agent_keys(name)
    known = MEANINGS.get(name) or json_schema.MEANINGS.get(name, {})
    return known | {key: content.meaning for key, content in added.items()}

"""The schemas of files say what the readers of the files say."""

import json
import re
import tomllib
from dataclasses import dataclass

import pytest
from jsonschema import Draft7Validator
from msgspec import inspect

import destiny
from destiny import registry
from destiny.agents import agent_file, scaffold
from destiny.algorithms import KINDS
from destiny.algorithms.blocks.step_sizes import RULES
from destiny.config.files import AgentFile, ExperimentFile
from destiny.config.tables import complete
from destiny.errors import DestinyError
from destiny.experiments import file
from destiny.networks.kinds import KINDS as NETWORKS
from tests.helpers import ROOT, cli_experiments

EXPERIMENT, AGENT = Draft7Validator(file.schema()), Draft7Validator(agent_file.schema())
PAGES = ("docs/experiment-files.md", "docs/quickstart.md", "docs/agents.md")
GOOD = [
    {},
    {"algorithm": {"step": {"kind": "bb", "cap": 2}}},
    {"algorithm": [{"kind": kind} for kind in KINDS]},
    {"network": {"kind": "ring", "weights": "lazy", "loss": 0.1, "seed": 1}},
    {"network": {"weights": "W.npy"}},
    {"network": {"kind": "ring", "delay": 0.001, "bandwidth": 1000}},
    {"problem": {"privacy": {"epsilon": 1, "delta": 1e-6, "bound": 3}, "center": True}},
    {"problem": {"regularizer": {"kind": "l1", "weight": 1}}, "algorithm": None},
    {"messages": {"private": True}, "mpi": {"agents-per-rank": [1, 3]}},
    {"world": {"slowest": 2.0, "loss": 0.1, "seed": 3}},
    {"problem": {"data": None, "synthetic": cli_experiments.SYNTHETIC}},
]
BAD = [
    {"problem": {"kind": "pcb"}},
    {"problem": {"component": 2}},
    {"problem": {"p": "two"}},
    {"problem": {"p": True}},
    {"problem": {"agents": None}},
    {"problem": {"regularizer": {"kind": "l3", "weight": 1}}},
    {"problem": {"privacy": {"epsilon": 1}}},
    {"problem": {"data": None, "synthetic": {"n": 3}}},
    {"network": {"kind": "rign"}},
    {"network": {"kind": "erdos-renyi"}},
    {"network": {"kind": "ring", "prob": 0.1}},
    {"algorithm": {"kind": "destny"}},
    {"algorithm": {"direction": 3}},
    {"algorithm": {"step": {"kind": "bbb"}}},
    {"algorithm": {"step": {"kind": "constant"}}},
    {"stop": {"round": 3}},
    {"run": {"every": "often"}},
    {"experiment": {}},
]


def tables_of(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    blocks = re.findall(r"```toml[^\n]*\n(.*?)```", text, re.DOTALL)
    return [tables for block in blocks if "problem" in (tables := tomllib.loads(block))]


@pytest.mark.parametrize("page", PAGES)
def test_files_of_the_documentation_fit(page):
    found = tables_of(page)
    assert found
    for tables in found:
        (AGENT if "agent" in tables else EXPERIMENT).validate(tables)


@pytest.mark.parametrize("changes", GOOD, ids=json.dumps)
def test_what_fits_is_read(changes):
    tables = cli_experiments.settings(**changes)
    EXPERIMENT.validate(tables)
    file.read_algorithms(tables.get("algorithm", [{"kind": "destiny"}]), str)
    file.read_file(tables, "e.toml")


@pytest.mark.parametrize("changes", BAD, ids=json.dumps)
def test_what_the_reader_refuses_does_not_fit(changes, tmp_path):
    tables = cli_experiments.settings(**changes)
    assert not EXPERIMENT.is_valid(tables)
    with pytest.raises(DestinyError):
        file.make(tables, tmp_path, "e.toml")


def test_agent_files_fit(tmp_path):
    (tmp_path / "e.toml").write_text(cli_experiments.document(stop={"rounds": 40}, algorithm={"label": None}))
    for network, hosts in (("ring", "a:1,b:2,c:3"), (str(tmp_path / "e.toml"), "a:1,b:2,c:3,d:4")):
        folder = tmp_path / f"for-{len(hosts)}"
        for path in scaffold.write_agent_files(network, hosts, folder, "run", private=False):
            assert path.read_text(encoding="utf-8").startswith(f"#:schema ./{scaffold.SCHEMA}\n")
            tables = tomllib.loads(path.read_text(encoding="utf-8"))
            AGENT.validate(tables)
            assert json.loads((path.parent / scaffold.SCHEMA).read_text()) == agent_file.schema()
            for wrong in (
                {"agent": {}},
                {"stop": {"seconds": 3}},
                {"problem": tables["problem"] | {"agents": 3}},
            ):
                assert not AGENT.is_valid(tables | wrong)


def test_schemas_are_schemas():
    for checker in (EXPERIMENT, AGENT):
        Draft7Validator.check_schema(checker.schema)


@pytest.mark.parametrize("kind", [ExperimentFile, AgentFile])
def test_every_key_of_every_table_says_what_it_means(kind):
    whole = inspect.type_info(complete(kind))
    assert all(described(field) for field in whole.fields)
    for field in whole.fields:
        inner = getattr(field.type.type, "item_type", field.type.type)
        for key in getattr(inner, "fields", ()) if field.encode_name != "world" else ():
            assert described(key), (field.encode_name, key.encode_name)
    schema = (EXPERIMENT if kind is ExperimentFile else AGENT).schema
    for name in NETWORKS.keys() - {"weights"}:
        options = schema["definitions"][f"Network_{name}"]["properties"]
        assert all("description" in option for key, option in options.items() if key != "kind"), name


def described(field):
    return (getattr(field.type, "extra_json_schema", None) or {}).get("description")


def test_every_method_and_step_rule_is_there():
    found = EXPERIMENT.schema["definitions"]
    kinds = [table["properties"].get("kind", {}).get("enum", [None])[0] for table in found.values()]
    assert {*KINDS, *registry.methods(), *RULES, *NETWORKS} - {"weights"} <= set(kinds)
    properties = found["Destiny"]["properties"]
    assert [ref["$ref"].rpartition("/")[2] for ref in properties["step"]["anyOf"]] == [
        rule.__name__ for rule in RULES.values()
    ]


def test_a_new_network_or_method_needs_no_edit_of_what_reads_files(monkeypatch, tmp_path):
    """Its options are the arguments of its builder, its settings the fields of its class."""

    def wheel(agents: int, spokes: int = 3) -> destiny.networks.Network:
        assert spokes == 5
        return destiny.networks.ring(agents)

    @dataclass(frozen=True)
    class Slower(destiny.Destiny):
        patience: int = 3
        kind = "slower"

    monkeypatch.setitem(NETWORKS, "wheel", wheel)
    monkeypatch.setitem(KINDS, "slower", Slower)
    tables = cli_experiments.settings(
        problem=cli_experiments.synthetic_problem(),
        network={"kind": "wheel", "spokes": 5},
        algorithm=[{"kind": "slower", "patience": 7}],
    )
    Draft7Validator(file.schema()).validate(tables)
    assert file.make(tables, tmp_path, "e.toml").algorithms == {"slower": Slower(patience=7)}
    for wrong in (
        {"network": {"kind": "wheel", "spoke": 5}},
        {"algorithm": [{"kind": "slower", "patience": "x"}]},
    ):
        assert not Draft7Validator(file.schema()).is_valid(tables | wrong)
        with pytest.raises(DestinyError, match=r"spoke|patience"):
            file.make(tables | wrong, tmp_path, "e.toml")

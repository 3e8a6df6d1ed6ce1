"""The schemas of files say what the readers of the files say."""

import json
import re
import tomllib

import pytest
from jsonschema import Draft7Validator

from destiny import registry
from destiny.agents import json_schema as agent_schema
from destiny.agents import message_tables, neighbour_tables, scaffold, settings
from destiny.algorithms import KINDS
from destiny.algorithms.blocks.step_sizes import RULES
from destiny.errors import DestinyError
from destiny.experiments import algorithm_tables, file, json_schema, problem_table
from destiny.networks.kinds import KINDS as NETWORKS
from destiny.networks.kinds import options_of
from tests.helpers import ROOT, cli_experiments

EXPERIMENT, AGENT = Draft7Validator(json_schema.schema()), Draft7Validator(agent_schema.schema())
PAGES = ("docs/experiment-files.md", "docs/quickstart.md", "docs/agents.md")
GOOD = [
    {},
    {"algorithm": {"step": {"kind": "bb", "cap": 2}}},
    {"algorithm": [{"kind": kind} for kind in KINDS]},
    {"network": {"kind": "ring", "weights": "lazy", "loss": 0.1, "seed": 1}},
    {"network": {"weights": "W.npy"}},
    {"problem": {"privacy": {"epsilon": 1, "delta": 1e-6, "bound": 3}, "center": True}},
    {"problem": {"regulariser": {"kind": "l1", "weight": 1}}, "algorithm": None},
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
    {"problem": {"regulariser": {"kind": "l3", "weight": 1}}},
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
    algorithm_tables.read_algorithms(tables.get("algorithm", [{"kind": "destiny"}]))


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
            assert json.loads((path.parent / scaffold.SCHEMA).read_text()) == agent_schema.schema()
            for wrong in (
                {"agent": {}},
                {"stop": {"seconds": 3}},
                {"problem": tables["problem"] | {"agents": 3}},
            ):
                assert not AGENT.is_valid(tables | wrong)


def test_schemas_are_schemas():
    for checker in (EXPERIMENT, AGENT):
        Draft7Validator.check_schema(checker.schema)


def test_every_key_has_a_meaning_and_every_meaning_a_key():
    meanings = json_schema.MEANINGS
    assert meanings[""].keys() == file.TOP.keys()
    for name, keys in (
        ("problem", problem_table.PROBLEM),
        ("start", file.START),
        ("stop", file.STOP),
        ("run", file.RUN),
        ("mpi", file.MPI),
        ("messages", file.MESSAGES),
        ("network", {"kind", *(option for kind in NETWORKS for option in options_of(kind))}),
    ):
        assert set(meanings[name]) == set(keys), name
    own = agent_schema.MEANINGS
    assert own[""].keys() == settings.TOP.keys()
    for name, keys in (
        ("tls", settings.TLS),
        ("neighbour", neighbour_tables.NEIGHBOUR),
        ("stop", settings.STOP),
    ):
        assert own[name].keys() == keys.keys(), name
    for name, keys in (
        ("agent", settings.with_added("agent", settings.AGENT)),
        ("messages", message_tables.message_types()),
    ):
        assert agent_schema.meanings(name).keys() == keys.keys(), name


def test_every_method_and_step_rule_is_there():
    methods = json_schema.algorithm_tables()
    assert [table["properties"]["kind"]["const"] for table in methods] == [*KINDS, *registry.methods()]
    steps = next(table["properties"]["step"] for table in methods if "step" in table["properties"])
    assert [table["properties"]["kind"]["const"] for table in steps["anyOf"]] == list(RULES)

"""What extensions add is found where the package looks for it."""

from dataclasses import dataclass

import pytest

from destiny import registry
from destiny.agents.agent_kinds import agent_kind
from destiny.algorithms import KINDS
from destiny.engines.mixers import Messages, from_keys


@dataclass(frozen=True)
class Loud(Messages):
    volume: int = 1


class Shouting(registry.Extension):
    def message_keys(self):
        return {"loud": registry.Key(int, "how loud", Loud)}


def test_an_extension_of_one_s_own_adds_a_kind_of_messages(monkeypatch):
    monkeypatch.setattr(registry, "extensions", lambda: (Shouting(),))
    assert from_keys({"loud": 3}) == Loud(3)
    assert from_keys({}) == Messages()
    assert registry.methods() == registry.tables() == registry.commands() == {}


def test_extensions_add_to_the_package_and_replace_nothing():
    assert registry.methods().keys() == {"destiny-async"}
    assert not registry.methods().keys() & KINDS.keys()
    names = [name for extension in registry.extensions() for name in extension.message_keys()]
    assert len(names) == len(set(names))
    assert all(key.read is not None for key in registry.message_keys().values())
    assert all(key.refusal for table in ("agent", "run") for key in registry.agent_keys(table).values())


@pytest.mark.parametrize("method", [None, *(method() for method in KINDS.values())])
def test_methods_with_rounds_have_the_agents_of_the_package(method):
    assert agent_kind(method) is None


def test_methods_of_extensions_have_agents_of_their_own():
    for method in registry.methods().values():
        assert agent_kind(method()) is not None
        assert "has no rounds" in registry.runs_elsewhere(method())

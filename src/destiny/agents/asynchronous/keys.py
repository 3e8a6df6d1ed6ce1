"""What agent files have for asynchronous methods alone: keys of [agent] and [run], and messages."""

from __future__ import annotations

from typing import Any, Literal

from destiny.agents.settings import ANY, MAJORITY
from destiny.agents.transport.neighbour import Neighbour
from destiny.config.files import Agent, AgentMessages, AgentRun
from destiny.config.tables import add_key
from destiny.errors import SettingsError
from destiny.networks.local_view import Neighbourhood
from destiny.protocols import TopologyBase
from destiny.run.asynchronous import NO_PRIVATE_SUMS
from destiny.run.members import mixing_of
from destiny.run.messages import PLAIN, Messages

_BELIEVED = (
    "asynchronous methods: whether a majority of the neighbours, or any one, is believed that another left"
)
_LATE = "asynchronous methods: agents that do not take part from the start, by index"
_REPLAY = "write down what an asynchronous run needs to be made again to the bit (destiny replay)"
add_key(Agent, "removal", Literal["majority", "any"] | None, _BELIEVED)
add_key(Agent, "late", list[int] | None, _LATE)
add_key(AgentRun, "replay", bool | None, _REPLAY)


def read_replay(run: Any, asynchronous: bool) -> bool:
    """replay of [run]."""
    if run.replay is not None and not asynchronous:
        raise SettingsError(
            "[run] replay is for asynchronous methods: the bits of all others follow from their files alone"
        )
    return bool(run.replay)


def read_removal(me: Any, asynchronous: bool) -> str:
    """removal of [agent]."""
    if me.removal is not None and not asynchronous:
        raise SettingsError("[agent] removal is for asynchronous methods: with all others nobody can leave")
    return ANY if me.removal == ANY else MAJORITY


def read_late(
    me: Any, asynchronous: bool, network: TopologyBase, neighbours: list[Neighbour]
) -> tuple[int, ...]:
    """late of [agent]: who does not take part from the start."""
    late, count = sorted(set(me.late or [])), me.agents
    if not late:
        return ()
    if not asynchronous:
        raise SettingsError(
            "[agent] late is for asynchronous methods: with all others everybody takes part from the start"
        )
    if len(late) == count or not all(0 <= other < count for other in late):
        raise SettingsError(
            f"[agent] late must be indices from 0 to {count - 1} of some agents, not of all; found {late}"
        )
    if isinstance(network, Neighbourhood):
        for n in neighbours:
            if n.index in late and n.around is None:
                raise SettingsError(
                    f"[[neighbour]] {n.name!r} may come late and needs neighbours, the indices of all its "
                    "neighbours: the weights follow from it before it is there"
                )
        return tuple(late)
    W = network.at(0)
    if abs(W - W.T).max() > 1e-12:
        raise SettingsError("[agent] late needs symmetric weights: use metropolis weights")
    if mixing_of(W, set(range(count)) - set(late)) is None:
        raise SettingsError(
            f"those who take part from the start must be linked with each other; without agents {late} they "
            "are not"
        )
    return tuple(late)


def read_async_messages(table: AgentMessages, kind: str) -> tuple[Messages, str]:
    """[messages] of an asynchronous method: plain, which somebody must have written down."""
    if table.private is not False:
        raise SettingsError(
            f"{kind} cannot have private sums, which agents use unless they are told otherwise: "
            f"{NO_PRIVATE_SUMS}; write private = false into [messages] of every agent's file, which lets "
            "each neighbour read all numbers this agent sends, or choose a synchronous method"
        )
    plain = plain_messages(table)
    return plain, (
        f"{plain}: each neighbour learns all numbers this agent sends, from which it can work out gradients "
        "and, in the worst case, data; and how fast this agent computes"
    )


def plain_messages(table: AgentMessages) -> Messages:
    """The messages of a file, were they plain."""
    bits, clip = table.bits, table.clip
    return Messages(bits=PLAIN.bits if bits is None else bits, clip=PLAIN.clip if clip is None else clip)

"""Callers that have not said who they are: how many may wait, and which of them is dropped."""

from __future__ import annotations

import asyncio
import ipaddress
from collections import Counter
from dataclasses import dataclass

MAX_STRANGERS = 64  # callers without an accepted HELLO, and as many again from addresses of neighbors
SITE = 64  # bits of an IPv6 address that one site has: it may have all addresses of these


@dataclass(eq=False)
class Caller:
    """A caller without an accepted HELLO.

    Attributes
    ----------
    address : str
        Its address and port, for the log.
    site : str
        What it shares with other callers from the same place (`site_of`).
    has_spoken : bool
        Whether it has sent something. Callers of TLS speak first, as soon as they are connected.
    """

    address: str
    site: str
    has_spoken: bool = False
    task: asyncio.Task[None] | None = None


class Callers:
    """The callers that wait, the oldest first.

    Neighbors have places of their own, by the addresses in the agent file and by those from which they were
    admitted before. So nobody else can take all places, from however many addresses.
    """

    def __init__(self) -> None:
        self.waiting: dict[Caller, None] = {}
        self.known: set[str] = set()

    def __len__(self) -> int:
        return len(self.waiting)

    def know(self, host: str) -> None:
        """Keep places for callers from an address of a neighbor."""
        self.known.add(site_of(host))

    def add(self, caller: Caller) -> Caller | None:
        """Let a caller wait; return the one to drop in its favor, if there are too many."""
        self.waiting[caller] = None
        alike = [each for each in self.waiting if (each.site in self.known) == (caller.site in self.known)]
        if len(alike) <= MAX_STRANGERS:
            return None
        dropped = least_urgent(alike[:-1])  # the newest has had no time to speak
        self.remove(dropped)
        return dropped

    def remove(self, caller: Caller) -> None:
        """The caller is admitted, refused, dropped or gone."""
        self.waiting.pop(caller, None)


def least_urgent(callers: list[Caller]) -> Caller:
    """The caller to drop: the oldest of the busiest site, of those that have said nothing if there are any.

    A flood then drops its own callers. From the site of a neighbor it must finish handshakes faster than the
    neighbor does, as silent callers are dropped before one that speaks.
    """
    silent = [caller for caller in callers if not caller.has_spoken] or callers
    sites = Counter(caller.site for caller in silent)
    return max(silent, key=lambda caller: sites[caller.site])  # the first of several


def site_of(host: str) -> str:
    """What tells callers from different places apart: an IPv4 address, or the first half of an IPv6 one."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return str(address.ipv4_mapped)
        return str(ipaddress.ip_network((int(address), SITE), strict=False))
    return str(address)

"""Hosts in network namespaces, joined by lines that delay, lose or drop packets.

The kernel need not know how to do that: every host has a TUN device, and a thread of the test carries the
packets from one to the other.
"""

from __future__ import annotations

import fcntl
import heapq
import os
import random
import select
import struct
import subprocess
import threading
import time

TUNSETIFF, TUN, NO_INFO = 0x400454CA, 0x0001, 0x1000  # linux/if_tun.h


def why_not() -> str | None:
    """Why there can be no hosts here, or None."""
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        return "network namespaces need root"
    if not os.access("/dev/net/tun", os.R_OK | os.W_OK):
        return "there is no /dev/net/tun"
    name = f"destiny-may-{os.getpid()}"
    if subprocess.run(["ip", "netns", "add", name], capture_output=True, check=False).returncode:
        return "ip netns add does not work here"
    subprocess.run(["ip", "netns", "del", name], check=True)
    return None


class Lines:
    """Hosts 10.77.7.1, .2, ...; every packet between them takes ``delay`` seconds, if it arrives."""

    def __init__(self, hosts: int, delay: float = 0.0, loss: float = 0.0) -> None:
        self.delay, self.loss = delay, loss
        self.down: set[frozenset[int]] = set()
        self.chance = random.Random(7)
        token = f"{os.getpid() % 10**6}"
        self.spaces = [f"destiny-{token}-{i}" for i in range(hosts)]
        self.addresses = [f"10.77.7.{i + 1}" for i in range(hosts)]
        self.devices: list[int] = []
        self.lost = self.carried = 0
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self.carry, daemon=True)

    def __enter__(self) -> Lines:
        try:
            for i, space in enumerate(self.spaces):
                ip(f"netns add {space}")
                name = f"dt{os.getpid() % 10**6}x{i}"
                device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
                fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH22x", name.encode(), TUN | NO_INFO))
                self.devices.append(device)
                ip(f"link set {name} netns {space}")
                ip(f"-n {space} addr add {self.addresses[i]}/24 dev {name}")
                for each in (name, "lo"):
                    ip(f"-n {space} link set {each} up")
        except BaseException:
            self.__exit__()
            raise
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.ended.set()
        if self.thread.is_alive():
            self.thread.join()
        for device in self.devices:
            os.close(device)
        for space in self.spaces:
            subprocess.run(["ip", "netns", "del", space], check=False, capture_output=True)

    def cut(self, *pairs: tuple[int, int]) -> None:
        """No packet gets through between some hosts from now on."""
        self.down = {frozenset(pair) for pair in pairs}

    def carry(self) -> None:
        """The thread: take packets, keep them for a while, hand them out."""
        under_way: list[tuple[float, int, int, bytes]] = []
        while not self.ended.is_set():
            now = time.monotonic()
            while under_way and under_way[0][0] <= now:
                _, _, target, packet = heapq.heappop(under_way)
                self.hand_out(target, packet)
            wait = min(0.05, max(0.0, under_way[0][0] - now)) if under_way else 0.05
            for device in select.select(self.devices, [], [], wait)[0]:
                self.take(device, under_way)

    def take(self, device: int, under_way: list[tuple[float, int, int, bytes]]) -> None:
        try:
            packet = os.read(device, 65536)
        except BlockingIOError:
            return
        if packet[0] >> 4 != 4:  # neighbor discovery of IPv6
            return
        source, target = self.devices.index(device), packet[19] - 1  # the last byte of where it goes
        if not 0 <= target < len(self.devices):
            return
        if frozenset((source, target)) in self.down or self.chance.random() < self.loss:
            self.lost += 1
            return
        self.carried += 1
        heapq.heappush(under_way, (time.monotonic() + self.delay, self.carried, target, packet))

    def hand_out(self, target: int, packet: bytes) -> None:
        try:
            os.write(self.devices[target], packet)
        except OSError:  # its queue is full: real lines lose packets, too
            self.lost += 1


def ip(words: str) -> None:
    subprocess.run(["ip", *words.split()], check=True, capture_output=True)

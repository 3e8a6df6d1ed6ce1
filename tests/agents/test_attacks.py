"""What callers and neighbors send wrongly: a table, and what must come of each entry.

One agent, a process with a terminal, meets all entries one after the other. After each it must answer its
neighbor at once, without more memory or processor time; in the end a signal, its deadline and its run work.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import os
import pty
import random
import signal
import socket
import struct
import subprocess
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import destiny
from destiny.agents.event_log import MAX_NEIGHBOR_LINES, MAX_SENTENCE
from destiny.agents.transport import messages
from destiny.agents.transport.event_loop import RunEnded
from destiny.agents.transport.messages import HEADER, MAGIC, PROTOCOL, Kind
from tests.helpers.agent_party import COMMAND, PATIENCE, Party, client_context, connect, read_message

PAIR = destiny.networks.path(2)
ANSWER_SECONDS = 30  # seconds for an answer, on a busy machine
CPU = 1.0  # seconds of processor time one entry may cost; a handshake takes a hundredth
MEMORY = 100e6  # bytes all entries together may cost: a connection has 0.3 MB of buffers until collected
PICKLE = b"\x80\x04\x95\x16\0\0\0\0\0\0\0}\x94\x8c\x05agent\x94\x8c\x07agent-0\x94s."  # of a dictionary
TITLE = "\x1b]0;owned\x07"  # sets the title of a terminal
FORGED = f"{TITLE}\ndestiny: agent-1: forged"


def frame(kind=Kind.DATA, round=0, content=b"", length=None, magic=MAGIC, protocol=PROTOCOL, mark=0, zero=0):
    length = len(content) if length is None else length
    return HEADER.pack(magic, protocol, kind, zero, round, mark, length) + content


class Target:
    """agent-1, which waits for agent-0; we have agent-0's certificate and call at ``address``."""

    def __init__(self, folder, deadline=600.0):
        self.party = Party(folder, PAIR, stop="rounds = 60\ntolerance = 0", deadline=deadline)
        self.address = (self.party.host, 7001)
        self.ours = self.party.settings(0).hello
        self.context = client_context(self.party.home(0), self.party.home(0) / "ca.pem")
        self.shown = b""
        terminal, other = pty.openpty()
        self.process = subprocess.Popen(
            [*COMMAND, str(self.party.home(1) / "agent.toml")],
            stdout=subprocess.DEVNULL,
            stderr=other,
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "TERM": "xterm", "COLUMNS": "200"},
        )
        os.close(other)
        self.reader = threading.Thread(target=self.read_terminal, args=(terminal,), daemon=True)
        self.reader.start()

    def read_terminal(self, terminal):
        try:
            while part := os.read(terminal, 65536):
                self.shown += part
        except OSError:  # the process has ended
            os.close(terminal)

    def hello(self, mark=0, **changes):
        return dataclasses.replace(self.ours, **changes).pack(mark)

    def call(self):
        sock = connect(self.address, self.context)
        sock.settimeout(ANSWER_SECONDS)
        return sock

    def admitted(self):
        """A connection, the first round the agent lacks, and the bytes of a round."""
        sock = self.call()
        sock.sendall(self.hello())
        header, content = read_message(sock)
        assert header.kind is Kind.HELLO
        sock.sendall(messages.encode_json(Kind.STATEMENT, {"index": 0, "links": [1]}))
        message = next(
            found for found, _ in iter(lambda: read_message(sock), None) if found.kind is Kind.DATA
        )
        return sock, messages.Hello.unpack(content).need, message.length

    def spent(self):
        """Processor time in seconds and memory in bytes."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        seconds = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        return seconds, int(fields[21]) * os.sysconf("SC_PAGE_SIZE")

    def end(self, code):
        assert self.process.wait(PATIENCE) == code, self.shown[-2000:]
        self.reader.join(ANSWER_SECONDS)


@dataclass(frozen=True)
class Attack:
    """What is sent, and the words with which the agent refuses it; None if it need not say anything."""

    send: bytes | Callable[[Target, int, int], bytes]
    """Bytes, or a function of the target, the round that is due and the bytes of a round."""
    refusal: str | None
    admitted: bool = False
    """Whether the right HELLO is said first."""
    spoils: bool = False
    """Whether the agent has to take some of it for its neighbor's, which ends the hope for the same bits."""
    manner: str = "send"
    times: int = 1


def said(**changes):
    """A HELLO with something changed."""
    return lambda target, *_: target.hello(**changes)


def table(change):
    """A HELLO whose table was changed by a function that returns a new one, or its text."""

    def build(target, *_):
        changed = change(dataclasses.asdict(target.ours))
        return frame(
            Kind.HELLO, content=(changed if isinstance(changed, str) else json.dumps(changed)).encode()
        )

    return build


def data(value=0.0, ahead=0, **options):
    """A round's message, all zeros but for its last number."""

    def build(_, due, size):
        numbers = np.zeros(size // 8)
        numbers[-1] = value
        return frame(round=due + ahead, content=numbers.tobytes(), **options)

    return build


def both(first, second):
    return lambda *known: _bytes(first, *known) + _bytes(second, *known)


def _bytes(send, *known):
    return send if isinstance(send, bytes) else send(*known)


ENTRIES = "without the right entries"
ANOTHER = "is in another run"
after = functools.partial(Attack, admitted=True)
BYE = frame(Kind.BYE, content=b'{"why": "done"}')

ATTACKS = {
    # Bytes that are no message
    "garbage": Attack(random.Random(0).randbytes(4096), "bytes that are no message"),
    "zeros": Attack(bytes(4096), "bytes that are no message"),
    "a web request": Attack(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n" * 3, "bytes that are no message"),
    "pickle bytes": Attack(PICKLE * 3, "bytes that are no message"),
    "another protocol": Attack(frame(Kind.HELLO, protocol=9), "speaks protocol 9, expected 2"),
    "kind 0": Attack(frame(0), "unknown kind 0"),
    "kind 77": Attack(frame(77), "unknown kind 77"),
    "a reserved field in use": Attack(frame(Kind.HELLO, zero=1), "unknown kind"),
    "nothing, and the end": Attack(b"", None, manner="close"),
    "half a header, and the end": Attack(frame(Kind.HELLO)[:20], None, manner="close"),
    "half a header, and a reset": Attack(frame(Kind.HELLO)[:20], None, manner="reset"),
    "half a HELLO, and a reset": Attack(frame(Kind.HELLO, length=900, content=b"{"), None, manner="reset"),
    "half a HELLO, and silence": Attack(frame(Kind.HELLO, length=900, content=b"{"), None, manner="hold"),
    "a HELLO in drips": Attack(said(run="drip"), ANOTHER, manner="drip"),
    "no TLS at all": Attack(b"hello?\r\n" * 9, None, manner="plain"),
    "half a handshake": Attack(b"\x16\x03\x01\x02\x00\x01", None, manner="plain", times=10),
    # Lengths and order
    "a HELLO of 1 TB": Attack(frame(Kind.HELLO, length=10**12), "announced 1000000000000 bytes for HELLO"),
    "a HELLO of 8193 bytes": Attack(frame(Kind.HELLO, length=8193), "expected at most 8192"),
    "data before HELLO": Attack(frame(content=bytes(8)), "data before its HELLO"),
    "1 TB of data before HELLO": Attack(frame(length=10**12), "data before its HELLO"),
    "BYE before HELLO": Attack(BYE, "sent BYE before its HELLO"),
    "a HELLO of some round": Attack(lambda t, *_: frame(Kind.HELLO, 5, t.hello()[40:]), "with a round"),
    # Words
    "pickle in a HELLO": Attack(frame(Kind.HELLO, content=PICKLE), "no JSON"),
    "an empty HELLO": Attack(frame(Kind.HELLO), "no JSON"),
    "bytes that are no text": Attack(frame(Kind.HELLO, content=b'{"agent": "\xff\xfe"}'), "no JSON"),
    "a list": Attack(frame(Kind.HELLO, content=b"[]"), "no table but list"),
    "an empty table": Attack(frame(Kind.HELLO, content=b"{}"), ENTRIES),
    "lists in lists": Attack(frame(Kind.HELLO, content=b"[" * 8000), "no JSON"),
    "settings in settings": Attack(
        table(lambda t: json.dumps(t | {"settings": {"a": 0}}).replace("0}", "[" * 500 + "]" * 500 + "}")),
        "more than 8 tables and lists inside each other",
    ),
    "a name twice": Attack(table(lambda t: json.dumps(t)[:-1] + ', "need": 0}'), "a name stands twice"),
    "an entry too many": Attack(table(lambda t: t | {"more": 1}), ENTRIES),
    "an entry too few": Attack(table(lambda t: {k: v for k, v in t.items() if k != "need"}), ENTRIES),
    "settings that are a list": Attack(said(settings=[]), ENTRIES),
    "a number of 5000 digits": Attack(table(lambda t: f'{{"need": {"9" * 5000}}}'), "no JSON"),
    **{
        f"need {need!r}": Attack(said(need=need), ENTRIES)
        for need in (-1, 2**70, 10**400, 1.0, float("nan"), float("inf"), True, None, "0", [0])
    },
    "degree true": Attack(said(degree=True), ENTRIES),
    "a name of 5000 letters": Attack(said(agent="a" * 5000), ENTRIES),
    "a name that is a list": Attack(said(agent=["agent-0"]), ENTRIES),
    # Another run, and what reaches the terminal with it
    "another run": Attack(said(run="another"), "run is 'run-1' at agent-1, 'another' there"),
    "another version": Attack(said(version="0.0.1"), "package version is"),
    "another digest": Attack(said(digest="0" * 64), ANOTHER),
    "another index": Attack(said(index=7), "its index is 0 at agent-1, 7 there"),
    "the agent's own name": Attack(said(agent="agent-1"), "'agent-1', which is not whom"),
    "half a pair of surrogates": Attack(said(agent="\ud800"), "which is not whom"),
    "a name written backwards": Attack(said(agent="\u202eagent-0"), "which is not whom"),
    "a name with nothing in it": Attack(said(agent="agent-0\0"), "which is not whom"),
    "markup in the run": Attack(said(run="[/x]"), "'[/x]' there"),
    "more markup in the run": Attack(said(run="[red][link=http://x]"), "[red]"),
    "control characters in the run": Attack(said(run=FORGED), ANOTHER),
    "control characters in a version": Attack(said(version=FORGED), "package version is"),
    "control characters in a setting's name": Attack(said(digest="x", settings={FORGED: 1}), ANOTHER),
    "control characters in a setting": Attack(said(digest="x", settings={"a": FORGED}), ANOTHER),
    "a setting of 7000 letters": Attack(said(digest="x", settings={"a" * 7000: 1}), ANOTHER),
    "markup in a setting's name": Attack(said(digest="x", settings={"[/x]": 1}), "[/x]"),
    "a refusal that steers a terminal": Attack(
        frame(Kind.REFUSED, content=json.dumps({"why": FORGED}).encode()), None
    ),
    "a refusal without words": Attack(frame(Kind.REFUSED, content=b"[]"), "no table"),
    # Numbers that cannot be
    "no neighbors": Attack(said(degree=0), "says it has 0 neighbors, expected 1 to 1 among 2 agents"),
    "a billion neighbors": Attack(said(degree=10**9), "says it has 1000000000 neighbors"),
    "a mark beyond what was sent": Attack(said(mark=1), "needs round 0, and no round before 1"),
    "a mark of 2^62": Attack(said(mark=2**62), "and no round before 4611686018427387904"),
    "a mark of 2^64 - 1": Attack(said(mark=2**64 - 1), "and no round before 18446744073709551615"),
    "all rounds before 2^62": Attack(said(need=2**62, mark=2**62), "has all rounds before 46116860184"),
    "a flood of wrong HELLOs": Attack(said(run="flood"), ANOTHER, times=30),
    "a flood of right HELLOs": Attack(said(), None, manner="close", times=10),
    # After the right HELLO
    "garbage afterwards": after(bytes(64), "bytes that are no message"),
    "pickle bytes afterwards": after(PICKLE * 9, "bytes that are no message"),
    "a second HELLO": after(said(), "sent a second HELLO"),
    "a round far ahead": after(data(ahead=10**6), "sent round 1000000 where round 0 was due"),
    "the next round but one": after(data(ahead=1), "sent round 1 where round 0 was due"),
    "the last round of all": after(frame(round=2**64 - 1, content=bytes(8)), "sent round 184467440737095"),
    "1 TB of data": after(frame(length=10**12), "announced 1000000000000 bytes for round 0"),
    "2^64 bytes of data": after(frame(length=2**64 - 8), "announced 18446744073709551608 bytes"),
    "no data": after(frame(), "announced 0 bytes for round 0"),
    "half a number": after(frame(content=bytes(12)), "announced 12 bytes"),
    "a wrong shape": after(frame(content=bytes(16)), "announced 16 bytes for round 0, expected"),
    "NaN": after(data(float("nan")), "numbers that are not finite in round 0"),
    "infinity": after(data(float("-inf")), "numbers that are not finite in round 0"),
    "data with a mark ahead": after(data(mark=1), "sent mark 1 in round 0"),
    "data with a mark of 2^62": after(data(mark=2**62), "sent mark 4611686018427387904 in round 0"),
    "half of its data, and a reset": after(lambda *k: data()(*k)[:-8], None, manner="reset"),
    "half of its data, and the end": after(lambda *k: data()(*k)[:-8], None, manner="close"),
    "half of its data, and silence": after(lambda *k: data()(*k)[:-8], None, manner="hold"),
    "half of its data in drips": after(lambda *k: data()(*k)[:99], None, manner="drip"),
    "BYE with a mark": after(frame(Kind.BYE, mark=2**62, content=b"{}"), "BYE with a round or a mark"),
    "BYE that is no JSON": after(frame(Kind.BYE, content=b"\x00"), "no JSON"),
    "BYE that is a list": after(frame(Kind.BYE, content=b"[1]"), "no table but list"),
    "an unknown kind afterwards": after(frame(99), "unknown kind 99"),
    # After something the agent has to accept
    "the same round twice": after(both(data(), data()), "where round", spoils=True),
    "a wrong shape before its round": after(
        lambda _, due, size: frame(round=due, content=bytes(size)) + frame(round=due + 1, content=bytes(16)),
        "16 bytes for turn",
        spoils=True,
    ),
    "a round from the past": after(
        lambda _, due, size: frame(round=due, content=bytes(size)) + frame(round=0, content=bytes(size)),
        "sent round 0 where round",
        spoils=True,
    ),
    "data after BYE": after(both(BYE, data()), "sent DATA after its BYE", spoils=True),
    "BYE twice": after(both(BYE, BYE), "sent BYE after its BYE", spoils=True),
}


NASTY = ("markup in the run", "a mark of 2^62", "data with a mark of 2^62", "half of its data, and silence")


def farewell(sock):
    """What the agent says before it hangs up; it must hang up."""
    told = ""
    while (message := read_message(sock)) is not None:
        if message[0].kind is Kind.REFUSED:
            told = messages.read_reason(message[1])
    return told


def attack(target, what):
    """Do what an entry says, and check the words; the connection, if it is to stay open."""
    if what.manner == "plain":
        sock = connect(target.address, None)
        sock.sendall(_bytes(what.send))
        return sock
    sock, due, size = target.admitted() if what.admitted else (target.call(), 0, 0)
    raw = _bytes(what.send, target, due, size)
    try:
        if what.manner == "drip":
            for k in range(0, len(raw), 8):
                sock.sendall(raw[k : k + 8])
        else:
            sock.sendall(raw)
        if what.refusal is not None:
            told = farewell(sock)
            assert what.refusal in told, told
            assert len(told) <= messages.MAX_REASON
            assert told.isprintable()
    except ConnectionError:  # it has said enough
        assert what.refusal is None
    if what.manner == "reset":
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    if what.manner != "hold":
        sock.close()
    return sock


def attack_with_all(target, spoils):
    """Every entry of the table that spoils the run, or that does not; the agent answers after each."""
    target.admitted()[0].close()
    _, memory = target.spent()
    wrong, held = [], []
    for name, what in ATTACKS.items():
        if what.spoils is not spoils:
            continue
        before, _ = target.spent()
        try:
            held += [attack(target, what) for _ in range(what.times)]
            target.admitted()[0].close()
        except Exception as error:
            wrong.append(f"{name}: {error!r}")
            if target.process.poll() is not None:
                break
        if target.spent()[0] - before > CPU * what.times**0.5:
            wrong.append(f"{name}: took {target.spent()[0] - before:.1f} s")
    assert not wrong, "\n".join(wrong)
    assert target.spent()[1] - memory < MEMORY
    return held


def check_written(target):
    """Neither the terminal nor the log has a control character of a peer's, or too many lines."""
    assert b"waiting for neighbors" in target.shown, "the table was shown"
    assert TITLE.encode() not in target.shown
    assert b"\ndestiny: agent-1: forged" not in target.shown
    assert b"a view failed" not in target.shown
    raw = (target.party.out(1) / "log.jsonl").read_bytes().splitlines()
    assert all(len(line) < MAX_SENTENCE + 500 for line in raw)
    entries = [json.loads(line) for line in raw]
    assert all(e["why"].isprintable() for e in entries if "why" in e)
    of_neighbor = [e for e in entries if e.get("peer") == "agent-0" and e["event"] == "refused"]
    minutes = 1 + len({e["time"][:16] for e in entries})
    assert MAX_NEIGHBOR_LINES <= len(of_neighbor) <= MAX_NEIGHBOR_LINES * minutes
    dropped = [e for e in entries if e["event"] == "dropped" and e.get("peer") == "agent-0"]
    assert any("more refusals of agent-0" in e["why"] for e in dropped)
    assert not [e for e in entries if e["event"] == "mishap"]


def test_after_all_attacks_the_run_ends_in_the_same_bits(tmp_path):
    assert len(ATTACKS) >= 40
    target = Target(tmp_path)
    held = attack_with_all(target, spoils=False)
    target.party.thread(0).end()
    target.end(3)
    target.party.check()
    check_written(target)
    for sock in held:
        sock.close()


def test_after_attacks_the_agent_obeys_a_signal(tmp_path):
    target = Target(tmp_path)
    held = [attack(target, ATTACKS[name]) for name in NASTY]
    held += attack_with_all(target, spoils=True)
    target.process.send_signal(signal.SIGTERM)
    target.end(143)
    for sock in held:
        sock.close()


def test_after_attacks_the_agent_keeps_its_deadline(tmp_path):
    target = Target(tmp_path, deadline=3.0)
    held = [attack(target, ATTACKS[name]) for name in NASTY]
    target.end(75)
    assert b"agent-0 has not sent round 0 for" in target.shown
    for sock in held:
        sock.close()


def test_a_neighbor_that_ends_the_run_cannot_steer_the_terminal(tmp_path):
    party = Party(tmp_path, PAIR)
    running = party.thread(1)
    context = client_context(party.home(0), party.home(0) / "ca.pem")
    with connect((party.host, 7001), context) as sock:
        why = json.dumps({"why": FORGED}).encode()
        sock.sendall(party.settings(0).hello.pack() + frame(Kind.BYE, content=why))
        with pytest.raises(RunEnded, match="agent-0 ended the run, which") as caught:
            running.end()
    assert str(caught.value).isprintable()


def test_a_wrong_number_of_neighbors_is_forgotten_with_its_connection(tmp_path):
    """It is fixed when all have come, not by whoever came first with a wrong file."""
    party = Party(tmp_path, destiny.networks.path(3), stop="rounds = 60\ntolerance = 0")
    running = [party.thread(1)]
    context = client_context(party.home(0), party.home(0) / "ca.pem")
    with connect((party.host, 7001), context) as sock:
        sock.sendall(dataclasses.replace(party.settings(0).hello, need=2**40).pack())
        assert "has all rounds before 1099511627776, but can have those before 1000060 only" in farewell(sock)
    with connect((party.host, 7001), context) as sock:
        sock.sendall(dataclasses.replace(party.settings(0).hello, degree=2).pack())
        assert read_message(sock)[0].kind is Kind.HELLO
    running += [party.thread(0), party.thread(2)]
    for one in running:
        one.end()
    party.check()


def test_a_connection_that_ends_with_the_hello_that_was_waited_for_leaves_its_degree(tmp_path):
    """HELLO and nonsense in one piece: the weights would be those of a neighbor without neighbors."""
    party = Party(tmp_path, destiny.networks.star(4), stop="rounds = 60\ntolerance = 0")
    running = [party.thread(i) for i in range(1, party.size)]
    context = client_context(party.home(0), party.home(0) / "ca.pem")
    with connect((party.host, 7001), context) as sock:
        sock.sendall(party.settings(0).hello.pack() + frame(magic=b"NONE"))
        assert "bytes that are no message" in farewell(sock)
    for one in [*running, party.thread(0)]:
        one.end()
    party.check()


def test_the_number_of_neighbors_must_be_that_of_the_network_in_the_file(tmp_path):
    whole = f'[network]\nkind = "edges"\nedges = {destiny.networks.path(3).edges.tolist()}'
    party = Party(tmp_path, destiny.networks.path(3), stop="rounds = 60\ntolerance = 0", whole=whole)
    running = [party.thread(1)]
    context = client_context(party.home(0), party.home(0) / "ca.pem")
    with connect((party.host, 7001), context) as sock:
        sock.sendall(dataclasses.replace(party.settings(0).hello, degree=2).pack())
        assert "says it has 2 neighbors, expected 1" in farewell(sock)
    running += [party.thread(0), party.thread(2)]
    for one in running:
        one.end()
    party.check()

"""The states of a connection and the events that lead from one to the next (table in docs/transport.md)."""

from __future__ import annotations

from enum import Enum, auto


class ConnectionState(Enum):
    """Where a connection is in its life."""

    CONNECTING = auto()
    """TCP and TLS handshakes; nothing can be written or read."""
    AWAITING_HELLO = auto()
    """Both certificates are verified; whoever dialled has written its HELLO; the peer's has not been read."""
    OPEN = auto()
    """Both HELLOs were accepted: DATA in both directions."""
    BYE_SENT = auto()
    """BYE was written, after which only statements are written; DATA may still be read."""
    BYE_RECEIVED = auto()
    """BYE was read, only REFUSED may follow (see `RoundStore.after_bye`); DATA is still written."""
    DONE = auto()
    """BYE was written and read."""
    CLOSING = auto()
    """This side has ended the connection. Nothing is read; a REFUSED may not be flushed yet."""
    CLOSED = auto()
    """The socket is closed."""


class ConnectionEvent(Enum):
    """What changes the state of a connection."""

    TLS_ESTABLISHED = auto()
    HELLO_ACCEPTED = auto()
    BYE_WRITTEN = auto()
    BYE_READ = auto()
    CLOSE = auto()
    """This side refuses the peer, was refused by it, or gives the connection up."""
    LOST = auto()
    """asyncio reports that the socket is closed."""


_S, _E = ConnectionState, ConnectionEvent
_ENDS = {_E.CLOSE: _S.CLOSING, _E.LOST: _S.CLOSED}
TRANSITIONS: dict[ConnectionState, dict[ConnectionEvent, ConnectionState]] = {
    _S.CONNECTING: {_E.TLS_ESTABLISHED: _S.AWAITING_HELLO},
    _S.AWAITING_HELLO: {_E.HELLO_ACCEPTED: _S.OPEN, **_ENDS},
    _S.OPEN: {_E.BYE_WRITTEN: _S.BYE_SENT, _E.BYE_READ: _S.BYE_RECEIVED, **_ENDS},
    _S.BYE_SENT: {_E.BYE_READ: _S.DONE, **_ENDS},
    _S.BYE_RECEIVED: {_E.BYE_WRITTEN: _S.DONE, **_ENDS},
    _S.DONE: _ENDS,
    _S.CLOSING: {_E.LOST: _S.CLOSED},
    _S.CLOSED: {},
}
ENDED = frozenset({_S.CLOSING, _S.CLOSED})
WRITABLE = frozenset({_S.OPEN, _S.BYE_RECEIVED})
"""States in which DATA and BYE may be written."""
AFTER_PEERS_BYE = frozenset({_S.BYE_RECEIVED, _S.DONE})


def next_state(state: ConnectionState, event: ConnectionEvent) -> ConnectionState:
    """The state after an event; `RuntimeError` if the event cannot happen in this state."""
    if event not in TRANSITIONS[state]:
        raise RuntimeError(f"{event.name} cannot happen to a connection in state {state.name}")
    return TRANSITIONS[state][event]
